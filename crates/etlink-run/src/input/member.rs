//! Inflates one gzip member. Returns all data before damage, to the last byte, for any read size.
//! flate2's own reader loses the data that it has inflated since the last read.

use flate2::{Crc, Decompress, FlushDecompress, Status};
use std::io::{BufRead, Error, ErrorKind, Read, Result};

const HEADER_CHECK: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;

/// Stored bytes of a file.
pub(super) type Stored = Box<dyn BufRead + Send>;

/// A gzip member during inflation.
pub(super) struct Member {
    inflate: Decompress,
    sum: Crc,
    next: Part,
}

enum Part {
    Header,
    Text,
    Trailer,
    Nothing,
}

impl Member {
    pub(super) fn new() -> Member {
        Member {
            // raw: header and trailer are read here, to keep the data before damage
            inflate: Decompress::new(false),
            sum: Crc::new(),
            next: Part::Header,
        }
    }

    /// Prepares for the next member.
    pub(super) fn reset(&mut self) {
        self.inflate.reset(false);
        self.sum.reset();
        self.next = Part::Header;
    }

    /// Inflates into `text`, which must not be empty; returns 0 after the member's end.
    pub(super) fn read(&mut self, stored: &mut impl BufRead, text: &mut [u8]) -> Result<usize> {
        loop {
            match self.next {
                Part::Header => {
                    skip_header(stored)?;
                    self.next = Part::Text;
                }
                Part::Text => {
                    if let Some(read) = self.inflate_text(stored, text)? {
                        return Ok(read);
                    }
                }
                Part::Trailer => {
                    let stated: [u8; 8] = read_bytes(stored)?;
                    // CRC32 and the size modulo 2^32, both little-endian (RFC 1952, 2.3.1)
                    let found = u64::from(self.sum.amount()) << 32 | u64::from(self.sum.sum());
                    if u64::from_le_bytes(stated) != found {
                        return Err(damage_error(
                            "corrupt gzip stream does not have a matching checksum",
                        ));
                    }
                    self.next = Part::Nothing;
                }
                Part::Nothing => return Ok(0),
            }
        }
    }

    fn inflate_text(
        &mut self,
        stored: &mut impl BufRead,
        text: &mut [u8],
    ) -> Result<Option<usize>> {
        let packed = stored.fill_buf()?;
        let ended = packed.is_empty();
        let flush = if ended {
            FlushDecompress::Finish
        } else {
            FlushDecompress::None
        };
        let (taken, given) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(packed, text, flush);
        stored.consume((self.inflate.total_in() - taken) as usize);
        let read = (self.inflate.total_out() - given) as usize;
        self.sum.update(&text[..read]);
        match status {
            Ok(Status::StreamEnd) => self.next = Part::Trailer,
            // the next read returns the error again
            Err(_) if read > 0 => {}
            Err(_) => return Err(damage_error("corrupt deflate stream")),
            Ok(_) if ended && read == 0 => {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    "incomplete deflate stream",
                ));
            }
            Ok(_) => {}
        }
        Ok((read > 0).then_some(read))
    }
}

/// Creates an error of the kind that flate2 reports for damage; readers keep the data before it.
pub(super) fn damage_error(what: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, what)
}

/// Skips a header. Its own checksum, which hardly any writer adds, is not verified.
fn skip_header(stored: &mut impl BufRead) -> Result<()> {
    // reserved flags must be zero (RFC 1952, 2.3.1.2): they announce another layout
    let [0x1f, 0x8b, 8, flags @ 0..32, ..] = read_bytes::<10>(stored)? else {
        return Err(damage_error("invalid gzip header"));
    };
    if flags & EXTRA != 0 {
        let size = u16::from_le_bytes(read_bytes(stored)?);
        std::io::copy(&mut stored.by_ref().take(size.into()), &mut std::io::sink())?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            stored.skip_until(0)?;
        }
    }
    if flags & HEADER_CHECK != 0 {
        read_bytes::<2>(stored)?;
    }
    Ok(())
}

fn read_bytes<const N: usize>(stored: &mut impl BufRead) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match stored.read_exact(&mut bytes) {
        // without std's unhelpful "failed to fill whole buffer"
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Err(ErrorKind::UnexpectedEof.into())
        }
        read => read.map(|()| bytes),
    }
}
