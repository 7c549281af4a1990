//! Splits a document into chunks of whole array elements without parsing it.
//!
//! ```text
//! {"schemaVersion": 1, "traceEvents": [ {"ph": … }, … , {"ph": … }, {"ph": … } ], "traceName": …}
//! ^ header                              ^ chunk          ^ chunk     ^ the last one has the rest
//! ```
//! A chunk ends before an anchor: `},` `{` `"key":` with a key that elements begin with. In valid
//! JSON, an anchor never occurs inside a string, because its quotes are raw. It can occur inside a
//! nested array. The reader then sees a chunk that ends in the middle of an element, and repairs
//! this by joining the chunk with the next one.

use crate::{JsonReadError, MAX_ELEMENT_BYTES};
use memchr::memmem;
use std::io::{ErrorKind, Read};

const READ_BYTES: usize = 64 << 10;

/// Layout of a document: the key of its array and the keys its elements begin with.
#[derive(Clone, Copy, Debug)]
pub struct ArrayLayout {
    /// Key of the array.
    pub array: &'static str,
    /// Known first keys of elements; the first key of the very first element is learned from the
    /// document.
    pub first_keys: &'static [&'static str],
    /// Target size of a chunk, in bytes.
    pub chunk_bytes: usize,
}

/// A run of array elements, as text.
#[derive(Debug, Default)]
pub struct TextChunk {
    /// Byte offset of the text in the document.
    pub offset: u64,
    /// Elements and the separators between them; the last chunk also holds everything after the
    /// elements.
    pub text: Vec<u8>,
    /// True if no chunk follows.
    pub last: bool,
}

/// Reader that splits a document into chunks.
pub struct ChunkReader<R> {
    source: R,
    layout: ArrayLayout,
    first_keys: FirstKeys,
    buffer: Vec<u8>,
    offset: u64,
    ended: bool,
    done: bool,
    header: Vec<u8>,
    source_error: Option<String>,
}

impl<R: Read> ChunkReader<R> {
    /// Opens a document and reads up to its first element. A document that begins with `[` and
    /// lacks the array's key is taken for the bare array.
    ///
    /// # Errors
    /// Fails if the source fails, or if the array is missing.
    pub fn open(source: R, layout: ArrayLayout) -> Result<Self, JsonReadError> {
        let first_keys = FirstKeys {
            known: layout.first_keys,
            learned: vec![],
        };
        let mut cutter = ChunkReader {
            source,
            layout,
            first_keys,
            buffer: vec![],
            offset: 0,
            ended: false,
            done: false,
            header: vec![],
            source_error: None,
        };
        let start = cutter.find_array()?;
        cutter.header = cutter.buffer.drain(..start).collect();
        cutter.offset = start as u64;
        cutter.learn_first_key()?;
        Ok(cutter)
    }

    /// Returns the text before the first element.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns the keys that elements begin with.
    pub(crate) fn first_keys(&self) -> &FirstKeys {
        &self.first_keys
    }

    /// Returns the error that ended the source early; `None` if it ended normally. Everything read
    /// before the error is still returned as chunks.
    pub fn source_error(&self) -> Option<&str> {
        self.source_error.as_deref()
    }

    /// Returns the next chunk, reusing the memory of `spare`, or `None` after the last chunk.
    ///
    /// # Errors
    /// Fails if the source fails, or if an element is larger than [`MAX_ELEMENT_BYTES`].
    pub fn next(&mut self, mut spare: Vec<u8>) -> Result<Option<TextChunk>, JsonReadError> {
        if self.done {
            return Ok(None);
        }
        let mut searched = 0;
        let cut = loop {
            self.fill(self.layout.chunk_bytes.max(searched + READ_BYTES))?;
            if self.ended {
                break self.buffer.len();
            }
            // An anchor may begin in text that was already searched while still incomplete; going
            // back 64 bytes covers its key.
            if let Some(cut) = self.last_anchor(searched.saturating_sub(64)) {
                break cut;
            }
            searched = self.buffer.len();
            if searched > MAX_ELEMENT_BYTES {
                return Err(JsonReadError::TooLarge {
                    offset: self.offset,
                });
            }
        };
        spare.clear();
        // The remainder moves to the spare memory and the chunk keeps the buffer, so that only the
        // shorter part is copied.
        spare.extend_from_slice(&self.buffer[cut..]);
        std::mem::swap(&mut spare, &mut self.buffer);
        spare.truncate(cut);
        let offset = self.offset;
        self.offset += cut as u64;
        self.done = self.ended;
        Ok(Some(TextChunk {
            offset,
            text: spare,
            last: self.done,
        }))
    }

    /// Returns the position of the first element; the header is the text before it.
    fn find_array(&mut self) -> Result<usize, JsonReadError> {
        let quoted = format!("\"{}\"", self.layout.array);
        let mut searched = 0usize;
        loop {
            self.fill(searched + READ_BYTES)?;
            let from = searched.saturating_sub(quoted.len() + 64);
            // The word also occurs as a value or as a nested key. Only a `: [` after it identifies
            // the array.
            for hit in memmem::find_iter(&self.buffer[from..], &quoted) {
                if let Some(start) = array_start(&self.buffer, from + hit + quoted.len()) {
                    return Ok(start);
                }
            }
            if let Some(start) = bare_array(&self.buffer) {
                return Ok(start);
            }
            if self.ended {
                return Err(JsonReadError::NoArray {
                    key: self.layout.array,
                    bytes: self.buffer.len() as u64,
                });
            }
            searched = self.buffer.len();
            if searched > MAX_ELEMENT_BYTES {
                return Err(JsonReadError::TooLarge { offset: 0 });
            }
        }
    }

    fn learn_first_key(&mut self) -> Result<(), JsonReadError> {
        self.fill(READ_BYTES)?;
        // Writers differ in the first key of an element, but all elements of a file begin with the
        // same key.
        let first = self.buffer.trim_ascii_start();
        let key = first
            .strip_prefix(b"{")
            .and_then(|rest| rest.trim_ascii_start().strip_prefix(b"\""));
        if let Some(key) = key
            && let Some(end) = memchr::memchr2(b'"', b'\\', key)
        {
            self.first_keys.learned = key[..end].to_vec();
        }
        Ok(())
    }

    /// Reads until the buffer holds `want` bytes or the source ends.
    fn fill(&mut self, want: usize) -> Result<(), JsonReadError> {
        while !self.ended && self.buffer.len() < want {
            let old = self.buffer.len();
            self.buffer.resize(old + READ_BYTES, 0);
            let read = self.source.read(&mut self.buffer[old..]);
            self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                // An interrupting signal is not an error; the loop reads again.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput
                    ) =>
                {
                    // Decoders report a truncated or damaged stream this way. Everything they
                    // returned before is valid.
                    self.source_error = Some(error.to_string());
                    self.ended = true;
                }
                Err(source) => {
                    return Err(JsonReadError::Io {
                        offset: self.offset + old as u64,
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns the last position at or after `from` at which a new element begins.
    fn last_anchor(&self, from: usize) -> Option<usize> {
        let (text, keys) = (&self.buffer, &self.first_keys);
        keys.braces(text, from)
            // The last anchor gives the largest chunk and the smallest remainder to copy.
            .rev()
            .find(|&at| follows_element(text, at) && keys.begins(text, at))
    }
}

/// First keys of elements, used to find element boundaries.
#[derive(Clone, Debug)]
pub(crate) struct FirstKeys {
    pub(crate) known: &'static [&'static str],
    pub(crate) learned: Vec<u8>,
}

impl FirstKeys {
    fn has(&self, key: &[u8]) -> bool {
        key == self.learned || self.known.iter().any(|k| k.as_bytes() == key)
    }

    /// Returns the next anchor at or after `from`, to resume after damage.
    pub(crate) fn next_anchor(&self, text: &[u8], from: usize) -> Option<usize> {
        self.braces(text, from)
            .find(|&at| follows_element(text, at) && self.begins(text, at))
    }

    /// Returns the next position at or after `from` at which an element can begin, whatever
    /// precedes it.
    pub(crate) fn next_begin(&self, text: &[u8], from: usize) -> Option<usize> {
        self.braces(text, from).find(|&at| self.begins(text, at))
    }

    /// Returns true if an element can begin at `at`: `{` and `"key":` with one of the keys.
    pub(crate) fn begins(&self, text: &[u8], at: usize) -> bool {
        let key = || {
            text.get(at..)?
                .strip_prefix(b"{")?
                .trim_ascii_start()
                .strip_prefix(b"\"")
        };
        let Some(key) = key() else { return false };
        // No key is longer than 64 bytes. Without the limit, a lone quote would cost a search
        // through the whole chunk.
        let Some(end) = key.iter().take(64).position(|b| *b == b'"') else {
            return false;
        };
        key[end + 1..].trim_ascii_start().first() == Some(&b':') && self.has(&key[..end])
    }

    fn braces<'t>(
        &self,
        text: &'t [u8],
        from: usize,
    ) -> impl DoubleEndedIterator<Item = usize> + use<'t> {
        let rest = text.get(from..).unwrap_or_default();
        memchr::memchr_iter(b'{', rest).map(move |at| from + at)
    }
}

/// Returns true if `},` precedes `at`.
fn follows_element(text: &[u8], at: usize) -> bool {
    let before = text[..at].trim_ascii_end().strip_suffix(b",");
    before.is_some_and(|before| before.trim_ascii_end().last() == Some(&b'}'))
}

/// Returns the position after `: [` if that follows `at`.
fn array_start(text: &[u8], at: usize) -> Option<usize> {
    let rest = text[at..]
        .trim_ascii_start()
        .strip_prefix(b":")?
        .trim_ascii_start()
        .strip_prefix(b"[")?;
    Some(text.len() - rest.len())
}

fn bare_array(text: &[u8]) -> Option<usize> {
    let text_len = text.len();
    let rest = text
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(text)
        .trim_ascii_start()
        .strip_prefix(b"[")?;
    Some(text_len - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: ArrayLayout = ArrayLayout {
        array: "traceEvents",
        first_keys: &["ph"],
        chunk_bytes: 40,
    };

    fn cut(text: &str) -> (String, Vec<String>) {
        let mut cutter = ChunkReader::open(text.as_bytes(), LAYOUT).expect("opens");
        let header = String::from_utf8(cutter.header().to_vec()).expect("utf8");
        let mut chunks = vec![];
        while let Some(chunk) = cutter.next(vec![]).expect("reads") {
            chunks.push(String::from_utf8(chunk.text).expect("utf8"));
        }
        (header, chunks)
    }

    #[test]
    fn chunks_join_to_the_document_and_begin_with_elements() {
        let events: String = (0..10_000)
            .map(|i| format!(r#"{{"ph":"X","args":{{"a":[{{"b":{i}}},{{"b":2}}]}}}}, "#))
            .collect();
        let text = format!(
            r#"{{"schemaVersion":1,"traceEvents" : [{events}{{"ph":"i"}}],"traceName":"x"}}"#
        );
        let (header, chunks) = cut(&text);
        assert!(chunks.len() > 3);
        assert!(chunks.iter().all(|c| c.starts_with(r#"{"ph":"#)));
        assert_eq!(header + &chunks.concat(), text);
    }

    #[test]
    fn the_first_key_is_learned() {
        let events: String = (0..9_000).map(|i| format!(r#"{{"zz":{i}}}, "#)).collect();
        assert!(cut(&format!(r#"[{events}{{"zz":1}}]"#)).1.len() > 1);
    }

    #[test]
    fn the_list_may_stand_far_behind_the_beginning() {
        // Longer than the piece that is read at once.
        let before = format!(r#"{{"devices":"{}","#, "x".repeat(3 * READ_BYTES));
        let (header, chunks) = cut(&format!(r#"{before}"traceEvents":[{{"ph":"X"}}]}}"#));
        assert_eq!(header, before + r#""traceEvents":["#);
        assert_eq!(chunks.concat(), r#"{"ph":"X"}]}"#);
    }

    /// Source that returns its text one byte at a time, each after an interrupting signal, and then
    /// fails.
    struct Failing<'a> {
        text: &'a [u8],
        interrupted: bool,
    }

    impl Read for Failing<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.interrupted = !self.interrupted;
            if self.interrupted {
                return Err(ErrorKind::Interrupted.into());
            }
            let (first, rest) = self.text.split_first().ok_or(ErrorKind::TimedOut)?;
            into[0] = *first;
            self.text = rest;
            Ok(1)
        }
    }

    #[test]
    fn a_signal_is_no_error_and_an_error_says_where() {
        let text = br#"{"traceEvents":[{"ph":"X"}, "#;
        let source = Failing {
            text,
            interrupted: false,
        };
        let error = ChunkReader::open(source, LAYOUT).err().expect("fails");
        let JsonReadError::Io { offset, source } = error else {
            panic!("another error: {error}");
        };
        assert_eq!(offset, text.len() as u64);
        assert_eq!(source.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let endless = || std::io::repeat(b'x').take(2 * MAX_ELEMENT_BYTES as u64);
        // A source may return less than the requested length.
        let error = ChunkReader::open(b"y".chain(endless()), LAYOUT).err();
        assert!(matches!(error, Some(JsonReadError::TooLarge { offset: 0 })));
        let before = r#"{"traceEvents":[{"ph":"X"},{"ph":""#;
        let mut cutter =
            ChunkReader::open(before.as_bytes().chain(endless()), LAYOUT).expect("opens");
        let mut last = None;
        let error = loop {
            match cutter.next(vec![]) {
                Ok(Some(chunk)) => last = Some(chunk.text),
                Ok(None) => panic!("it was read"),
                Err(error) => break error,
            }
        };
        assert_eq!(last.as_deref(), Some(&br#"{"ph":"X"},"#[..]));
        assert!(matches!(error, JsonReadError::TooLarge { offset: 27 }));
    }

    #[test]
    fn no_array_says_so() {
        let error = ChunkReader::open(&b"{\"nodes\": []}"[..], LAYOUT)
            .err()
            .expect("fails");
        assert_eq!(
            error.to_string(),
            "no \"traceEvents\" list found (13 bytes read)"
        );
    }
}
