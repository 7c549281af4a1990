//! Messages to a stream, each after its length, in blocks of about 1 MB.

use prost::encoding::encode_varint;
use std::io::{self, Write};

const BLOCK_BYTES: usize = 1 << 20;

pub(crate) struct Sink<W> {
    out: W,
    block: Vec<u8>,
    written: u64,
}

impl<W: Write> Sink<W> {
    pub(crate) fn new(out: W) -> Self {
        Sink { out, block: Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 8), written: 0 }
    }

    /// Appends a message.
    pub(crate) fn message(&mut self, message: &[u8]) -> io::Result<()> {
        encode_varint(message.len() as u64, &mut self.block);
        self.block.extend_from_slice(message);
        self.drain(BLOCK_BYTES)
    }

    /// Writes messages that bear their lengths already.
    pub(crate) fn block(&mut self, block: &[u8]) -> io::Result<()> {
        self.drain(1)?;
        self.out.write_all(block)?;
        self.written += block.len() as u64;
        Ok(())
    }

    /// The block, to append text to.
    pub(crate) fn text(&mut self) -> io::Result<&mut Vec<u8>> {
        self.drain(BLOCK_BYTES)?;
        Ok(&mut self.block)
    }

    /// Writes the rest; returns how many bytes there were in all.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.drain(1)?;
        self.out.flush()?;
        Ok(self.written)
    }

    fn drain(&mut self, at_least: usize) -> io::Result<()> {
        if self.block.len() >= at_least {
            self.out.write_all(&self.block)?;
            self.written += self.block.len() as u64;
            self.block.clear();
        }
        Ok(())
    }
}
