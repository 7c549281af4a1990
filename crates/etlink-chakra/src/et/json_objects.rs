//! Splits a stream of concatenated JSON objects into its objects.

use std::io::{self, Read};

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 16;

/// Iterator over the objects of a stream, each as bytes. Stops before anything that is not an
/// object.
pub(crate) struct JsonObjects<R> {
    source: R,
    /// Bytes read; those from `start` on are not returned yet.
    buffer: Vec<u8>,
    start: usize,
    place: StreamPlace,
    /// Error that stopped reading; `None` so far.
    failure: Option<io::Error>,
    is_ended: bool,
}

/// Position in a stream, as reported in errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamPlace {
    /// Bytes before the position.
    pub(crate) offset: u64,
    /// Line breaks before the position.
    pub(crate) lines: usize,
    /// Bytes before the position in its line.
    pub(crate) column: usize,
}

impl StreamPlace {
    fn advance(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        let breaks = memchr::memchr_iter(b'\n', bytes).count();
        self.lines += breaks;
        match memchr::memrchr(b'\n', bytes) {
            Some(last) => self.column = bytes.len() - last - 1,
            None => self.column += bytes.len(),
        }
    }
}

/// Progress of a search for the end of an object that may continue after the buffer.
#[derive(Default)]
struct ObjectScan {
    position: usize,
    depth: usize,
    in_string: bool,
}

impl ObjectScan {
    /// Returns the length of the object if its end is in `bytes`.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        while self.position < bytes.len() {
            let rest = &bytes[self.position..];
            if self.in_string {
                let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                    self.position = bytes.len();
                    return None;
                };
                // The byte after a backslash may be in the next chunk.
                self.in_string = rest[found] != b'"';
                self.position += found + if self.in_string { 2 } else { 1 };
                continue;
            }
            let Some(found) = memchr::memchr3(b'"', b'{', b'}', rest) else {
                self.position = bytes.len();
                return None;
            };
            self.position += found + 1;
            match rest[found] {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                // The first byte is an opening brace, so the depth is at least 1.
                _ => self.depth -= 1,
            }
            if self.depth == 0 {
                return Some(self.position);
            }
        }
        None
    }
}

impl<R: Read> JsonObjects<R> {
    pub(crate) fn new(source: R) -> JsonObjects<R> {
        JsonObjects {
            source,
            buffer: vec![],
            start: 0,
            place: StreamPlace::default(),
            failure: None,
            is_ended: false,
        }
    }

    /// Returns the next object; `None` if there is no complete one.
    pub(crate) fn next_object(&mut self) -> Option<&[u8]> {
        self.skip_blanks();
        if self.buffer.get(self.start) != Some(&b'{') {
            return None;
        }
        let mut scan = ObjectScan::default();
        loop {
            if let Some(length) = scan.find_end(&self.buffer[self.start..]) {
                return Some(&self.buffer[self.start..self.start + length]);
            }
            if !self.read_more() {
                return None;
            }
        }
    }

    /// Skips the object of this length that was returned last.
    pub(crate) fn advance(&mut self, length: usize) {
        let end = self.start + length;
        self.place.advance(&self.buffer[self.start..end]);
        self.start = end;
    }

    /// Returns the position of the next object, or of text that is not an object.
    pub(crate) fn place(&self) -> StreamPlace {
        self.place
    }

    /// Returns everything that was not returned as an object, to be read elsewhere.
    pub(crate) fn into_rest(mut self) -> impl Read {
        self.buffer.drain(..self.start);
        let failure = FailingSource(self.failure.take());
        io::Cursor::new(self.buffer)
            .chain(failure)
            .chain(self.source)
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.buffer[self.start..];
            let blanks = rest.iter().take_while(|byte| b" \t\r\n".contains(byte));
            let blanks = blanks.count();
            let is_all = blanks == rest.len();
            self.advance(blanks);
            if !is_all || !self.read_more() {
                return;
            }
        }
    }

    /// Reads more of the stream. Returns true if there was more.
    fn read_more(&mut self) -> bool {
        if self.is_ended {
            return false;
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        // An object of gigabytes is read in increasing steps.
        let wanted = CHUNK_BYTES.max(before) as u64;
        let read = (&mut self.source)
            .take(wanted)
            .read_to_end(&mut self.buffer);
        self.failure = read.err();
        self.is_ended = self.failure.is_some() || self.buffer.len() == before;
        self.buffer.len() > before
    }
}

/// Source that fails once with the error that an earlier read returned.
struct FailingSource(Option<io::Error>);

impl Read for FailingSource {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
