//! Inflates gzip: one member after the other, or several at a time where a file has many.

use super::batches::Batches;
use super::member::{Member, Stored, damage_error};
use std::io::{BufRead, ErrorKind, Read, Result};

/// The content of a gzip file, the same at any number of threads.
pub(super) struct Gzip {
    stored: Stored,
    member: Member,
    /// Inflates several members at a time, from the second on.
    batches: Option<Batches>,
    /// How many at a time, if that is still to be tried.
    threads: usize,
    ended: bool,
}

impl Gzip {
    pub(super) fn new(stored: Stored, threads: usize) -> Gzip {
        Gzip {
            stored,
            member: Member::new(),
            batches: None,
            threads,
            ended: false,
        }
    }

    /// Goes on behind a member that has ended, or one by one behind the last batch.
    fn go_on(&mut self) -> Result<()> {
        if let Some(batches) = self.batches.take() {
            self.stored = batches.into_rest();
        }
        // an error of the next line is told once: whoever reads on gets the end, not the error
        // again
        self.ended = true;
        self.ended = is_end(&mut self.stored)?;
        self.member.reset();
        if self.threads > 1 && !self.ended {
            let stored = std::mem::replace(&mut self.stored, Box::new(std::io::empty()));
            self.batches = Some(Batches::new(
                stored,
                // once: where guesses failed they would fail again, each time for the price of a
                // batch
                std::mem::replace(&mut self.threads, 1),
            ));
        }
        Ok(())
    }
}

impl Read for Gzip {
    fn read(&mut self, text: &mut [u8]) -> Result<usize> {
        while !self.ended && !text.is_empty() {
            let read = match &mut self.batches {
                Some(batches) => batches.read(text),
                None => self.member.read(&mut self.stored, text)?,
            };
            if read > 0 {
                return Ok(read);
            }
            self.go_on()?;
        }
        Ok(0)
    }
}

/// Whether no member follows. Zeros that pad a file are no damage: tapes and block devices add
/// them.
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
            (false, 0) if padded => return Err(damage_error("invalid gzip header")),
            (false, 0) => return Ok(false),
            (false, _) => padded = true,
        }
        stored.consume(zeros);
    }
}
