//! Reads an object from its beginning in ranges, a few of them ahead.

use super::client::Place;
use super::error::store_error;
use super::tasks::{Pending, begin};
use bytes::{Buf, Bytes};
use object_store::{GetOptions, GetRange, ObjectMeta};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;

/// End of the first range. Most files are only opened for their head, which is small if compressed.
/// Each process of a cluster reads the heads of all ranks.
const FIRST_BYTES: u64 = 1 << 16;
/// End of the second range: the head of an uncompressed file.
const SECOND_BYTES: u64 = 1 << 19;
/// Size of all other ranges: large enough that the time to the first byte does not matter.
const RANGE_BYTES: u64 = 4 << 20;
/// Number of ranges requested in parallel. Together with the current range, they bound the memory
/// of a reader.
const AHEAD: usize = 4;
/// Number of requests for a range whose transfer is interrupted; the client itself repeats refused
/// requests.
const ATTEMPTS: usize = 4;

/// Content of an object.
pub(super) struct RangeReader {
    place: Place,
    /// Version at the time of opening: a file that changes is not a valid trace.
    etag: Option<String>,
    bytes: u64,
    /// Beginning of the next range to request.
    next: u64,
    ahead: VecDeque<Pending<Bytes>>,
    current: Bytes,
}

impl RangeReader {
    pub(super) fn new(place: Place, object: &ObjectMeta) -> RangeReader {
        RangeReader {
            place,
            etag: object.e_tag.clone(),
            bytes: object.size,
            next: 0,
            ahead: VecDeque::new(),
            current: Bytes::new(),
        }
    }

    /// Requests the next range, if there is one.
    fn ask_ahead(&mut self) -> io::Result<()> {
        if self.next >= self.bytes {
            return Ok(());
        }
        let end = match self.next {
            0 => FIRST_BYTES,
            FIRST_BYTES => SECOND_BYTES,
            next => next + RANGE_BYTES,
        };
        let range = self.next..end.min(self.bytes);
        self.next = range.end;
        let (place, etag) = (self.place.clone(), self.etag.clone());
        self.ahead.push_back(begin(fetch(place, etag, range))?);
        Ok(())
    }

    fn fill(&mut self) -> io::Result<()> {
        // a single range: a reader of the head may need no more
        let wanted = if self.next < SECOND_BYTES { 1 } else { AHEAD };
        while self.ahead.len() < wanted && self.next < self.bytes {
            self.ask_ahead()?;
        }
        if let Some(first) = self.ahead.pop_front() {
            self.current = first.wait()?;
        }
        Ok(())
    }
}

impl Read for RangeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() {
            self.fill()?;
        }
        let read = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}

/// Fetches a complete range of an object.
async fn fetch(place: Place, etag: Option<String>, range: Range<u64>) -> io::Result<Bytes> {
    let wanted = range.end - range.start;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: etag.clone(),
            ..GetOptions::default()
        };
        let answer = place.store.get_opts(&place.key, options).await;
        let got = match answer {
            Ok(answer) => answer.bytes().await,
            Err(error) => Err(error),
        };
        let failed = match got {
            Ok(bytes) if bytes.len() as u64 == wanted => return Ok(bytes),
            Ok(_) => io::ErrorKind::UnexpectedEof.into(),
            // only interrupted transfers may succeed when repeated
            Err(error @ object_store::Error::Generic { .. }) => store_error(place.service, error),
            Err(error) => return Err(store_error(place.service, error)),
        };
        if attempt == ATTEMPTS {
            return Err(failed);
        }
    }
}
