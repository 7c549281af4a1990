//! How a small document is damaged: bytes, numbers, words, pieces of itself and of another.

/// What readers have stumbled over, or what ends a structure.
const WORDS: [&[u8]; 34] = [
    b"\"",
    b"\\\"",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"nan",
    b"null",
    b"true",
    b"-1.-500",
    b"1e999",
    b"-0",
    b"0.0000000001",
    b"99999999999999999999",
    b"[[[[[[[[",
    b"{\"a\":{\"a\":",
    b"},\n  {\n    \"ph\": ",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x08",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\xc0\x80",
    b"()",
    b".",
];

/// Ends of ranges, and what lies around them.
const NUMBERS: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"1",
    b"7",
    b"255",
    b"65536",
    b"4294967295",
    b"4294967296",
    b"9007199254740993",
    b"9223372036854775807",
    b"9223372036854775.807",
    b"-9223372036854775.808",
    b"18446744073709551615",
    b"1e15",
];

/// Documents do not grow beyond this: what is long takes long.
const MOST_BYTES: usize = 6_000;
/// The longest piece that is moved or removed at once.
const LONGEST_PIECE: usize = 96;
/// The longest word that is taken from a seed.
const LONGEST_WORD: usize = 40;

/// Words of the format, as the seeds have them.
pub(super) struct Dictionary(Vec<Vec<u8>>);

impl Dictionary {
    /// The strings in quotes of all seeds, each once.
    pub(super) fn new(seeds: &[Vec<u8>]) -> Dictionary {
        let mut words: Vec<Vec<u8>> = vec![];
        for seed in seeds {
            // Every second piece between quotes is a string.
            let strings = seed.split(|byte| *byte == b'"').skip(1).step_by(2);
            let short = strings.filter(|word| (1..LONGEST_WORD).contains(&word.len()));
            words.extend(short.map(|word| [b"\"", word, b"\""].concat()));
        }
        words.sort();
        words.dedup();
        Dictionary(words)
    }

    fn draw<'d>(&'d self, random: &mut fastrand::Rng) -> &'d [u8] {
        if self.0.is_empty() || random.bool() {
            WORDS[random.usize(..WORDS.len())]
        } else {
            &self.0[random.usize(..self.0.len())]
        }
    }
}

/// What a document is damaged with.
pub(super) struct Damage<'a> {
    pub(super) other: &'a [u8],
    pub(super) dictionary: &'a Dictionary,
    /// Bytes keep their places, as the pages of a database must.
    pub(super) keeps_length: bool,
}

impl Damage<'_> {
    /// A copy that is damaged in one to six places.
    pub(super) fn apply(&self, document: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
        let mut copy = document.to_vec();
        for _ in 0..random.usize(1..=6) {
            if copy.is_empty() {
                break;
            }
            if self.keeps_length {
                self.overwrite(&mut copy, random);
            } else {
                self.change(&mut copy, random);
            }
        }
        copy.truncate(MOST_BYTES.max(document.len()));
        copy
    }

    fn change(&self, copy: &mut Vec<u8>, random: &mut fastrand::Rng) {
        let at = random.usize(..copy.len());
        let end = (at + random.usize(1..=LONGEST_PIECE)).min(copy.len());
        match random.u8(..13) {
            0 => copy[at] = random.u8(..),
            1 => copy[at] ^= 1 << random.u8(..8),
            2 => copy[at] = copy[at].wrapping_add(random.u8(..3)).wrapping_sub(1),
            3 => drop(copy.drain(at..end)),
            4 => {
                let piece = copy[at..end].to_vec();
                let place = random.usize(..=copy.len());
                drop(copy.splice(place..place, piece));
            }
            5 | 6 => {
                let word = self.dictionary.draw(random);
                drop(copy.splice(at..at, word.iter().copied()));
            }
            7 => {
                let word = self.dictionary.draw(random);
                drop(copy.splice(at..end, word.iter().copied()));
            }
            8..=10 => {
                let number = number_after(copy, at);
                let new = NUMBERS[random.usize(..NUMBERS.len())];
                drop(copy.splice(number, new.iter().copied()));
            }
            11 if !self.other.is_empty() => {
                let from = random.usize(..self.other.len());
                let length = random.usize(1..=4 * LONGEST_PIECE);
                let until = (from + length).min(self.other.len());
                let piece = self.other[from..until].iter().copied();
                drop(copy.splice(at..at, piece));
            }
            // Rarely: what is cut off cannot be damaged further.
            _ if random.u8(..4) == 0 => copy.truncate(at),
            _ => {}
        }
    }

    fn overwrite(&self, copy: &mut [u8], random: &mut fastrand::Rng) {
        let at = random.usize(..copy.len());
        match random.u8(..4) {
            0 => copy[at] = random.u8(..),
            1 => copy[at] ^= 1 << random.u8(..8),
            2 => copy[at] = copy[at].wrapping_add(random.u8(..3)).wrapping_sub(1),
            _ => {
                let word = self.dictionary.draw(random);
                for (byte, new) in copy[at..].iter_mut().zip(word) {
                    *byte = *new;
                }
            }
        }
    }
}

/// The first number from `at` on, empty at the end if there is none.
fn number_after(text: &[u8], at: usize) -> std::ops::Range<usize> {
    let digit = text[at..].iter().position(u8::is_ascii_digit);
    let start = digit.map_or(text.len(), |digit| at + digit);
    let is_in_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let length = text[start..].iter().take_while(|byte| is_in_number(byte));
    start..start + length.count()
}
