//! Inflates gzip, one member after the other. flate2's reader of several members takes zeros that
//! pad a file for damage.

use flate2::bufread::GzDecoder;
use std::io::{BufRead, Error, ErrorKind, Read, Result};

/// A file's bytes as they are stored.
type Stored = Box<dyn BufRead + Send>;

/// Where a member is damaged, flate2 loses what it has inflated since the last read: no more than
/// this is asked of it at once.
const STEP_BYTES: usize = 8 << 10;

/// The content of a gzip file.
pub(super) struct Gzip {
    /// The member that is being inflated; `None` behind the last one, or where an error was met,
    /// which is told once.
    member: Option<GzDecoder<Stored>>,
}

impl Gzip {
    pub(super) fn new(stored: Stored) -> Gzip {
        Gzip {
            member: Some(GzDecoder::new(stored)),
        }
    }
}

impl Read for Gzip {
    fn read(&mut self, text: &mut [u8]) -> Result<usize> {
        let step = text.len().min(STEP_BYTES);
        while let Some(mut member) = self.member.take() {
            let read = loop {
                match member.read(&mut text[..step]) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            if read > 0 || step == 0 {
                self.member = Some(member);
                return Ok(read);
            }
            let mut stored = member.into_inner();
            if !is_end(&mut stored)? {
                self.member = Some(GzDecoder::new(stored));
            }
        }
        Ok(0)
    }
}

/// Returns whether no member follows. Zeros that pad a file are no damage: tapes and block devices
/// add them.
fn is_end(stored: &mut Stored) -> Result<bool> {
    let mut padded = false;
    loop {
        let next = match stored.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            next => next?,
        };
        let zeros = next.iter().take_while(|byte| **byte == 0).count();
        match (next.is_empty(), zeros) {
            (true, _) => return Ok(true),
            // zeros and then something else is no padding
            (false, 0) if padded => {
                let what = "invalid gzip header";
                return Err(Error::new(ErrorKind::InvalidInput, what));
            }
            (false, 0) => return Ok(false),
            (false, _) => padded = true,
        }
        stored.consume(zeros);
    }
}
