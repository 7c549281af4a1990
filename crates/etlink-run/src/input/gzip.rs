//! Inflates gzip files, member by member.

use super::member::{Member, Stored, damage_error};
use std::io::{BufRead, ErrorKind, Read, Result};

/// Content of a gzip file.
pub(super) struct Gzip {
    stored: Stored,
    member: Member,
    ended: bool,
}

impl Gzip {
    pub(super) fn new(stored: Stored) -> Gzip {
        Gzip {
            stored,
            member: Member::new(),
            ended: false,
        }
    }
}

impl Read for Gzip {
    fn read(&mut self, text: &mut [u8]) -> Result<usize> {
        while !self.ended && !text.is_empty() {
            let read = self.member.read(&mut self.stored, text)?;
            if read > 0 {
                return Ok(read);
            }
            // Errors of the next line are returned once; later reads return the end.
            self.ended = true;
            self.ended = is_end(&mut self.stored)?;
            self.member.reset();
        }
        Ok(0)
    }
}

/// Returns true if no member follows. Zeros that pad a file are not damage: tapes and block devices
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
            // zeros followed by other data are not padding
            (false, 0) if padded => return Err(damage_error("invalid gzip header")),
            (false, 0) => return Ok(false),
            (false, _) => padded = true,
        }
        stored.consume(zeros);
    }
}
