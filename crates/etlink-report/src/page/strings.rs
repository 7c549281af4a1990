//! String table of a timeline: each string once, numbered in order of first use.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Longest string kept, in characters: kernel names can have ten thousands.
const LONG: usize = 1_000;
/// Longest string kept once the budget is used up, in characters.
const SHORT: usize = 80;

/// Interned strings, within a budget of text.
#[derive(Debug)]
pub(super) struct StringTable {
    all: IndexSet<String, FxBuildHasher>,
    room: usize,
}

impl StringTable {
    /// Creates a table that shortens strings after `room` bytes.
    pub(super) fn new(room: usize) -> StringTable {
        let mut all = IndexSet::default();
        all.insert(String::new());
        StringTable { all, room }
    }

    /// Returns the number of `text`. O(length).
    pub(super) fn number_of(&mut self, text: &str) -> u32 {
        // Shortening keeps every name in the page, though late ones are shorter.
        let text = shorten_text(text, if self.room == 0 { SHORT } else { LONG });
        let (at, new) = self.all.insert_full(text);
        if new {
            self.room = self.room.saturating_sub(self.all[at].len());
        }
        at as u32
    }

    /// Returns all strings, by number.
    pub(super) fn into_all(self) -> Vec<String> {
        self.all.into_iter().collect()
    }
}

/// Returns `text`, or its beginning and its length. Control characters are replaced by a visible
/// one.
pub(super) fn shorten_text(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.chars().map(visible_char).collect(),
        Some((end, _)) => {
            let beginning: String = text[..end].chars().map(visible_char).collect();
            format!("{beginning}… ({} characters)", text.chars().count())
        }
    }
}

/// Replaces a control character, which would be invisible or break the page's layout.
fn visible_char(c: char) -> char {
    if c.is_control() && c != '\n' {
        '\u{fffd}'
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_kept_once_and_cut() {
        let mut strings = StringTable::new(1_200);
        assert_eq!(
            [
                strings.number_of("a"),
                strings.number_of("b\u{7}"),
                strings.number_of("a"),
                strings.number_of("")
            ],
            [1, 2, 1, 0]
        );
        assert_eq!(strings.number_of(&"é".repeat(10_000)), 3);
        assert_eq!(strings.number_of(&"x".repeat(500)), 4);
        let all = strings.into_all();
        assert_eq!((&all[1][..], &all[2][..]), ("a", "b\u{fffd}"));
        assert_eq!(all[3], format!("{}… (10000 characters)", "é".repeat(1_000)));
        assert_eq!(
            all[4],
            format!("{}… (500 characters)", "x".repeat(80)),
            "what comes when the room is used up"
        );
    }
}
