//! Figures and names as text for people.

use super::aligned::cell_width;
use etlink_run::text::time;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Formats a figure, if known.
pub fn known<T>(figure: Option<T>, text: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), text)
}

/// Formats a mean of times.
pub fn mean_time(ns: f64) -> String {
    time(ns.round() as i64)
}

/// Formats a difference of times, with its sign.
pub fn signed_time(ns: i64) -> String {
    format!("{}{}", if ns > 0 { "+" } else { "" }, time(ns))
}

/// Formats a share in percent, with `decimals` decimals.
pub fn percent(share: f64, decimals: usize) -> String {
    format!("{:.decimals$} %", 100.0 * share)
}

/// Formats a part of a time in percent.
pub fn percent_of(part: i64, whole: i64) -> String {
    percent(part as f64 / whole as f64, 1)
}

/// Formats a quantity with the SI prefix that fits it.
pub fn scaled(value: f64, unit: &str) -> String {
    // powers of ten, as vendors state FLOP/s and GB/s
    let prefixes = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (size, prefix) = prefixes
        .into_iter()
        .find(|(size, _)| value.abs() >= *size)
        .unwrap_or((1.0, ""));
    format!("{:.3} {prefix}{unit}", value / size)
}

/// Formats bytes as megabytes.
pub fn mb(bytes: impl Into<i128>) -> String {
    format!("{:.2} MB", bytes.into() as f64 / 1e6)
}

/// Escapes control characters. Names come from traces: a terminal would obey the control characters
/// in them, and a line end would break a table.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(escape_control).collect())
}

/// Escapes control characters as [`plain`] does, but keeps line ends.
pub fn plain_lines(text: &str) -> Cow<'_, str> {
    let is_odd = |letter: char| letter.is_control() && letter != '\n';
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(plain).collect();
    Cow::Owned(lines.join("\n"))
}

fn escape_control(letter: char) -> String {
    if letter.is_control() {
        letter.escape_default().collect()
    } else {
        letter.to_string()
    }
}

/// Truncates a text to `most` characters, since template arguments can fill screens. The result
/// also shows the character at `differs`, up to which other texts begin alike.
pub fn cut(text: &str, most: usize, differs: usize) -> String {
    // by characters, not bytes: a cut inside a UTF-8 sequence would be invalid
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let piece = |from: usize, to: usize| letters[from..to].iter().collect::<String>();
    if differs + 1 < most {
        return piece(0, most - 1) + "…";
    }
    // show some characters before the differing one as context
    let (head, room) = (most / 3, most - most / 3 - 1);
    let from = differs.saturating_sub(8).max(head);
    if letters.len() - from <= room {
        return format!(
            "{}…{}",
            piece(0, head),
            piece(letters.len() - room, letters.len())
        );
    }
    format!("{}…{}…", piece(0, head), piece(from, from + room - 1))
}

/// Truncates texts wider than `most` so that different texts stay different. O(n log n).
pub fn cut_all(texts: &[&str], most: usize) -> Vec<String> {
    let is_long = |text: &str| text.len() > most;
    // a text shares its longest prefix with a neighbour in sorted order: comparing those two is
    // enough
    let mut sorted: Vec<&str> = if texts.iter().any(|text| is_long(text)) {
        texts.to_vec()
    } else {
        vec![]
    };
    sorted.sort_unstable();
    sorted.dedup();
    let mut all = vec![];
    for text in texts {
        let differs = if is_long(text) {
            first_difference(text, &sorted)
        } else {
            0
        };
        all.push(cut_to_width(text, most, differs));
    }
    number_equal_cuts(texts, &mut all, most);
    all
}

/// Truncates a text to `most` terminal cells.
fn cut_to_width(text: &str, most: usize, differs: usize) -> String {
    let mut letters = most;
    loop {
        let short = cut(text, letters, differs);
        // East Asian characters are two cells wide
        if letters <= 1 || cell_width(&short) <= most {
            return short;
        }
        letters -= 1;
    }
}

/// Numbers truncated texts that look like an earlier one: texts may differ in two places, but
/// truncation shows only one.
fn number_equal_cuts(texts: &[&str], cuts: &mut [String], most: usize) {
    let mut whole: BTreeMap<String, &str> = BTreeMap::new();
    let mut numbered: BTreeMap<&str, String> = BTreeMap::new();
    for (text, short) in texts.iter().copied().zip(cuts) {
        if let Some(known) = numbered.get(text) {
            short.clone_from(known);
            continue;
        }
        for number in 2.. {
            match whole.get(short.as_str()) {
                Some(other) if *other != text => {}
                _ => break,
            }
            // in brackets: a bare number would look like a part of the name
            let end = format!("…[{number}]");
            let room = most.saturating_sub(cell_width(&end));
            let head = cut_to_width(text, room, 0);
            *short = head.trim_end_matches('…').to_owned() + &end;
        }
        whole.insert(short.clone(), text);
        numbered.insert(text, short.clone());
    }
}

/// Returns the length of the longest prefix, in characters, that a text shares with a neighbour in
/// sorted order.
fn first_difference(text: &str, sorted: &[&str]) -> usize {
    let at = sorted.partition_point(|other| *other < text);
    let before = at.checked_sub(1).and_then(|before| sorted.get(before));
    let after = sorted.get(at + 1);
    let neighbours = before.into_iter().chain(after);
    let common = neighbours.map(|other| common_letters(text, other));
    common.max().unwrap_or(0)
}

fn common_letters(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        let told = [0, 999, 20_000, -1_500_000, 8_202_738_000].map(time);
        assert_eq!(
            told,
            ["0 ns", "999 ns", "20.000 us", "-1.500 ms", "8.203 s"]
        );
        assert_eq!(
            [5, 0, -5_000].map(signed_time),
            ["+5 ns", "0 ns", "-5.000 us"]
        );
    }

    #[test]
    fn quantities_have_the_prefix_that_fits() {
        let told = [0.0, 0.5, 217e6, 3.3e12, 2e19].map(|value| scaled(value, "B/s"));
        assert_eq!(
            told,
            [
                "0.000 B/s",
                "0.500 B/s",
                "217.000 MB/s",
                "3.300 TB/s",
                "20000.000 PB/s"
            ]
        );
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(plain("a\u{1b}[31m\n\u{7}b"), "a\\u{1b}[31m\\n\\u{7}b");
        assert!(matches!(plain("ä…"), Cow::Borrowed(_)));
    }

    #[test]
    fn cut_names_stay_different() {
        let long = |functor: &str| {
            format!(
                "void at::native::vectorized_elementwise_kernel<4, \
                at::native::{functor}Functor<float>, std::array<char*, 3ul>>"
            )
        };
        let texts = [long("Add"), long("Mul"), "gemm".to_owned(), long("Add")];
        for most in [24, 40, 60, 80] {
            let all = cut_all(&texts.each_ref().map(String::as_str), most);
            assert!(
                all.iter().all(|text| text.chars().count() <= most),
                "{all:?}"
            );
            assert_eq!((all[2].as_str(), &all[0]), ("gemm", &all[3]));
            assert_ne!(all[0], all[1], "{most}");
        }
        assert_eq!(cut_all(&[&texts[0]], 24), ["void at::native::vector…"]);
    }

    #[test]
    fn names_that_differ_in_two_places_stay_different() {
        let text = |a: char, b: char| {
            let filler = "x".repeat(30);
            format!("{filler}{a}{filler}{filler}{b}")
        };
        let texts = [
            text('1', '1'),
            text('1', '2'),
            text('2', '1'),
            text('2', '2'),
        ];
        for most in [12, 24, 40] {
            let all = cut_all(&texts.each_ref().map(String::as_str), most);
            let mut different = all.clone();
            different.sort();
            different.dedup();
            assert_eq!(different.len(), 4, "{all:?}");
            assert!(all.iter().all(|text| cell_width(text) <= most), "{all:?}");
        }
    }

    #[test]
    fn wide_letters_take_two_places() {
        let all = cut_all(&["矩阵乘法矩阵乘法矩阵乘法矩阵乘法"], 12);
        assert!(cell_width(&all[0]) <= 12, "{all:?}");
    }
}
