//! Cuts a stream of JSON objects, one after the other, into its objects.

use std::io::{self, Read};

/// So much is read at once.
const CHUNK_BYTES: usize = 1 << 16;

/// The objects of a stream, each as its bytes. Stops before what is no object.
pub(crate) struct JsonObjects<R> {
    source: R,
    /// What was read and not given out yet, from `start` on.
    buffer: Vec<u8>,
    start: usize,
    place: StreamPlace,
    /// Why nothing more can be read.
    failure: Option<io::Error>,
    is_ended: bool,
}

/// A place in a stream, as errors name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamPlace {
    /// Bytes before it.
    pub(crate) offset: u64,
    /// Line breaks before it.
    pub(crate) lines: usize,
    /// Bytes before it in its line.
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

/// How far an object was looked at that may go on behind the buffer.
#[derive(Default)]
struct ObjectScan {
    position: usize,
    depth: usize,
    in_string: bool,
}

impl ObjectScan {
    /// The length of the object, if its end is in `bytes`.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        while self.position < bytes.len() {
            let rest = &bytes[self.position..];
            if self.in_string {
                let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                    self.position = bytes.len();
                    return None;
                };
                // the byte behind a backslash may come with the next chunk
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
                // the first byte is an opening brace: the depth is 1 at least
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

    /// The next object, where there is a whole one.
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

    /// Goes behind so many bytes, those of an object that was taken.
    pub(crate) fn advance(&mut self, length: usize) {
        let end = self.start + length;
        self.place.advance(&self.buffer[self.start..end]);
        self.start = end;
    }

    /// Where the next object begins, or what is no object.
    pub(crate) fn place(&self) -> StreamPlace {
        self.place
    }

    /// What was not given out, to be read by somebody else.
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

    /// Whether there was more.
    fn read_more(&mut self) -> bool {
        if self.is_ended {
            return false;
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        // an object of gigabytes is read in larger and larger steps
        let wanted = CHUNK_BYTES.max(before) as u64;
        let read = (&mut self.source)
            .take(wanted)
            .read_to_end(&mut self.buffer);
        self.failure = read.err();
        self.is_ended = self.failure.is_some() || self.buffer.len() == before;
        self.buffer.len() > before
    }
}

/// Fails once, as the source did when it was read before.
struct FailingSource(Option<io::Error>);

impl Read for FailingSource {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
