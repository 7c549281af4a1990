//! Width of the output, and lines of prose that fit it.

use super::aligned::cell_width;
use std::borrow::Cow;

/// Smallest useful width: a smaller `COLUMNS` is a mistake.
const NARROWEST_OUTPUT: usize = 20;

/// Returns the width of standard output: `COLUMNS` if set, else the terminal's. `None` in a pipe:
/// its text does not depend on the terminal.
pub(super) fn output_width() -> Option<usize> {
    // COLUMNS comes first, as in Python and GNU coreutils: it lets people request another width
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|columns| columns.trim().parse().ok());
    asked
        .filter(|columns| *columns >= NARROWEST_OUTPUT)
        .or_else(|| {
            let size = terminal_size::terminal_size_of(std::io::stdout());
            size.map(|(width, _)| usize::from(width.0))
        })
}

/// Folds lines that are wider than the output, and indents the continuation like the line. Tables
/// have no such lines.
pub fn fold_lines(text: &str) -> Cow<'_, str> {
    match output_width() {
        Some(width) if text.lines().any(|line| cell_width(line) > width) => {
            Cow::Owned(fold_to_width(text, width))
        }
        _ => Cow::Borrowed(text),
    }
}

fn fold_to_width(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if cell_width(line) <= width {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let room = width.saturating_sub(indent + 2);
        for (number, piece) in fold_words(line, room).iter().enumerate() {
            let before = if number == 0 { indent } else { indent + 2 };
            out.extend(std::iter::repeat_n(' ', before));
            out.push_str(piece);
            out.push('\n');
        }
    }
    out
}

/// Folds the words of a text into lines of at most `room` cells. Paths stay whole, since people
/// copy them; other long words are split into pieces, one per line.
pub(super) fn fold_words(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    let mut add = |word: &str| {
        let wide = cell_width(word);
        if used > 0 && used + 1 + wide > room {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += wide;
        }
    };
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        // keep a figure and its unit together
        if let Some(unit) = words.next_if(|next| is_unit_of(word, next)) {
            add(&format!("{word} {unit}"));
            continue;
        }
        if cell_width(word) <= room || word.contains('/') {
            add(word);
            continue;
        }
        // at least one character per piece, even without room
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(room.max(1)) {
            add(&piece.iter().collect::<String>());
        }
    }
    lines
}

fn is_unit_of(figure: &str, word: &str) -> bool {
    let unit = word.trim_end_matches([',', ';', ':', ')', '.']);
    figure.ends_with(|letter: char| letter.is_ascii_digit())
        && ["ns", "us", "ms", "s", "%", "MB", "ppm"].contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_below_their_beginning() {
        let text = "short\n  one two three four five\nabcdefghijklmnopqrstuvwxyz\n";
        assert_eq!(
            fold_to_width(text, 14),
            "short\n  one two\n    three four\n    five\nabcdefghijkl\n  mnopqrstuvwx\n  yz\n"
        );
    }

    #[test]
    fn a_figure_stays_beside_its_unit() {
        assert_eq!(
            fold_words("latency 12 ns, max 0 ns", 14),
            ["latency 12 ns,", "max 0 ns"]
        );
        assert_eq!(fold_words("within 12 ns", 9), ["within", "12 ns"]);
    }

    #[test]
    fn a_path_stays_whole() {
        assert_eq!(
            fold_words("written to /a/very/long/path.et here", 12),
            ["written to", "/a/very/long/path.et", "here"]
        );
    }
}
