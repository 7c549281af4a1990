//! Streams a JSON document as tokens and values, with one value in memory at a time.

use crate::Error;
use crate::rocm::TOOL;
use etlink_json::MAX_ELEMENT_BYTES;
use etlink_model::Failure;
use std::io::{ErrorKind, Read};

/// Bytes requested per read.
const BLOCK: usize = 64 << 10;

/// Reason why a stream ended early.
#[derive(Debug)]
pub(crate) enum StreamEnd {
    /// The document is truncated inside a value.
    Cut,
    /// An unexpected byte in place of a key, value or bracket.
    Broken,
    /// The source failed.
    Failed(std::io::Error),
    /// A value exceeds the largest plausible size.
    TooLarge,
}

impl StreamEnd {
    /// Returns the error of a document that ended before anything was read.
    pub(crate) fn into_error(self, offset: u64) -> Error {
        match self {
            StreamEnd::Failed(source) => Error::Io { offset, source },
            StreamEnd::TooLarge => Failure::new(format!(
                "the record at byte {offset} is larger than 64 MiB, the limit for a record"
            ))
            .into(),
            StreamEnd::Cut | StreamEnd::Broken => TOOL.not_found(offset),
        }
    }
}

/// Reads a document from start to end.
pub(crate) struct JsonStream<R> {
    source: R,
    buffer: Vec<u8>,
    /// Position of the next byte in the buffer.
    at: usize,
    /// Offset of the buffer in the document.
    offset: u64,
}

impl<R: Read> JsonStream<R> {
    pub(crate) fn new(source: R) -> Self {
        JsonStream {
            source,
            buffer: vec![],
            at: 0,
            offset: 0,
        }
    }

    /// Returns the offset of the next byte in the document.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Returns the rest of the buffer, refilled if it is used up; empty at the end.
    fn rest(&mut self) -> Result<&[u8], StreamEnd> {
        if self.at == self.buffer.len() {
            self.offset += self.at as u64;
            self.at = 0;
            self.buffer.resize(BLOCK, 0);
            let read = loop {
                match self.source.read(&mut self.buffer) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            read.map_err(StreamEnd::Failed)?;
        }
        Ok(&self.buffer[self.at..])
    }

    /// Returns the next byte that is not white space, without consuming it; `None` at the end.
    pub(crate) fn peek(&mut self) -> Result<Option<u8>, StreamEnd> {
        loop {
            let rest = self.rest()?;
            if rest.is_empty() {
                return Ok(None);
            }
            let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
            let blanks = blanks.count();
            let next = rest.get(blanks).copied();
            self.at += blanks;
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    /// Consumes `byte` if it is next.
    pub(crate) fn eat(&mut self, byte: u8) -> Result<bool, StreamEnd> {
        let is_next = self.peek()? == Some(byte);
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Reads the next key of the current object; `None` after its `}`.
    pub(crate) fn key(&mut self, key: &mut Vec<u8>) -> Result<Option<()>, StreamEnd> {
        self.eat(b',')?;
        match self.peek()? {
            Some(b'}') => {
                self.at += 1;
                Ok(None)
            }
            Some(b'"') => {
                key.clear();
                self.value(Some(key))?;
                if self.eat(b':')? {
                    Ok(Some(()))
                } else {
                    Err(self.unexpected()?)
                }
            }
            _ => Err(self.unexpected()?),
        }
    }

    /// Returns true if the current list has another item; otherwise the stream is after its `]`.
    pub(crate) fn has_item(&mut self) -> Result<bool, StreamEnd> {
        self.eat(b',')?;
        match self.peek()? {
            Some(b']') => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Ok(true),
            None => Err(StreamEnd::Cut),
        }
    }

    /// Classifies an unexpected position: the document ends, or another byte is there.
    fn unexpected(&mut self) -> Result<StreamEnd, StreamEnd> {
        Ok(match self.peek()? {
            None => StreamEnd::Cut,
            Some(_) => StreamEnd::Broken,
        })
    }

    /// Skips the next value, and keeps its text if requested.
    pub(crate) fn value(&mut self, mut kept: Option<&mut Vec<u8>>) -> Result<(), StreamEnd> {
        let mut walk = ValueWalk::default();
        match self.peek()? {
            None => return Err(StreamEnd::Cut),
            Some(b',' | b'}' | b']' | b':') => return Err(StreamEnd::Broken),
            Some(_) => {}
        }
        loop {
            let rest = self.rest()?;
            if rest.is_empty() {
                return Err(StreamEnd::Cut);
            }
            let (taken, is_done) = walk.take(rest);
            if let Some(kept) = &mut kept {
                // A document's claim must not fill the memory.
                if kept.len() + taken > MAX_ELEMENT_BYTES {
                    return Err(StreamEnd::TooLarge);
                }
                kept.extend_from_slice(&rest[..taken]);
            }
            self.at += taken;
            if is_done {
                return Ok(());
            }
        }
    }
}

/// Progress of a walk through a value. Depth is a counter, so nesting takes no memory.
#[derive(Default)]
struct ValueWalk {
    depth: u64,
    in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl ValueWalk {
    /// Returns how many bytes of `text` belong to the value, and true if the value ends with them.
    fn take(&mut self, text: &[u8]) -> (usize, bool) {
        for (place, byte) in text.iter().enumerate() {
            if self.is_escaped {
                self.is_escaped = false;
                continue;
            }
            if self.in_string {
                match byte {
                    b'\\' => self.is_escaped = true,
                    b'"' => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return (place + 1, true);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' | b',' if self.depth == 0 => return (place, true),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (place + 1, true);
                    }
                }
                // White space ends a word.
                _ if self.depth == 0 && self.has_begun && byte.is_ascii_whitespace() => {
                    return (place, true);
                }
                _ => {}
            }
            self.has_begun = true;
        }
        (text.len(), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns one byte at a time.
    struct Slow<'t>(&'t [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn values_of_each_kind_at_any_boundary() {
        let text = br#" { "a": 17 , "b\"]": "x,]\\", "c": [{"d": "}"}, [ ]], "e":null}"#;
        let mut stream = JsonStream::new(Slow(text));
        assert!(stream.eat(b'{').expect("reads"));
        let (mut key, mut fields) = (vec![], vec![]);
        while stream.key(&mut key).expect("reads").is_some() {
            let mut value = vec![];
            stream.value(Some(&mut value)).expect("reads");
            let texts = [&key, &value].map(|text| String::from_utf8_lossy(text).into_owned());
            fields.push(texts.join(" "));
        }
        assert_eq!(
            fields,
            [
                r#""a" 17"#,
                r#""b\"]" "x,]\\""#,
                r#""c" [{"d": "}"}, [ ]]"#,
                r#""e" null"#
            ]
        );
        assert_eq!(stream.position(), text.len() as u64);
    }

    #[test]
    fn what_is_cut_or_broken_ends() {
        for (text, is_cut) in [
            (&b"{\"a"[..], true),
            (b"{\"a\":", true),
            (b"{\"a\":[1", true),
            (b"{5", false),
            (b"{\"a\" 5", false),
            (b"{\"a\":}", false),
        ] {
            let mut stream = JsonStream::new(text);
            stream.eat(b'{').expect("reads");
            let mut key = vec![];
            let end = loop {
                let next = stream.key(&mut key);
                if let Err(end) = next.and_then(|_| stream.value(None)) {
                    break end;
                }
            };
            assert_eq!(matches!(end, StreamEnd::Cut), is_cut, "{text:?}: {end:?}");
        }
    }
}
