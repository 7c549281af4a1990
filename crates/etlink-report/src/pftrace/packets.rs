//! Splits a file into packets.

use crate::pftrace::schema::TracePacket;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::io::{self, ErrorKind, Read};

/// Field number of `Trace.packet`.
const PACKET: u32 = 1;
/// Maximum packet size: packets of etlink are ranges with their arguments, or names.
const MAX_PACKET: usize = 64 << 20;
/// Bytes requested per read.
const BLOCK: usize = 64 << 10;
/// Maximum bytes of a key with its length.
const MAX_HEAD: usize = 20;

/// Reads packets from a stream.
#[derive(Debug)]
pub(crate) struct PacketReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Position of the next packet in the buffer.
    at: usize,
    /// Offset of the buffer in the file.
    offset: u64,
    ended: bool,
}

impl<R: Read> PacketReader<R> {
    pub(crate) fn new(source: R) -> Self {
        PacketReader {
            source,
            buffer: vec![],
            at: 0,
            offset: 0,
            ended: false,
        }
    }

    /// Returns the offset of the next packet in the file.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Returns the next packet and its offset; `None` at the end of the file.
    ///
    /// # Errors
    /// The source fails, the file ends inside a packet, or the next bytes are not a packet.
    pub(crate) fn next_packet(&mut self) -> io::Result<Option<(u64, TracePacket)>> {
        loop {
            let begin = self.position();
            self.fill(MAX_HEAD)?;
            let mut head = &self.buffer[self.at..];
            if head.is_empty() {
                return Ok(None);
            }
            let before = head.len();
            let (field, wire_type) = decode_key(&mut head).map_err(|_| no_packet(begin))?;
            if wire_type != WireType::LengthDelimited {
                return Err(no_packet(begin));
            }
            let length = decode_varint(&mut head).map_err(|_| cut_packet(begin))?;
            let head_bytes = before - head.len();
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > MAX_PACKET {
                return Err(no_packet(begin));
            }
            self.fill(head_bytes + length)?;
            let body = self.at + head_bytes;
            let Some(body) = self.buffer.get(body..body + length) else {
                return Err(cut_packet(begin));
            };
            let packet = TracePacket::decode(body);
            self.at += head_bytes + length;
            // A file may contain fields unknown to this schema between packets.
            if field == PACKET {
                let packet = packet.map_err(|error| damaged(begin, &error.to_string()))?;
                return Ok(Some((begin, packet)));
            }
        }
    }

    /// Makes `wanted` bytes available, or all that are left.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        if self.buffer.len() - self.at >= wanted || self.ended {
            return Ok(());
        }
        self.buffer.drain(..self.at);
        self.offset += self.at as u64;
        self.at = 0;
        while self.buffer.len() < wanted && !self.ended {
            let known = self.buffer.len();
            // Memory grows with the bytes present, not with a claimed length.
            self.buffer.resize(known + BLOCK, 0);
            let read = self.source.read(&mut self.buffer[known..]);
            self.buffer.truncate(known + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(count) => self.ended = count == 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn cut_packet(begin: u64) -> io::Error {
    let text = format!("the file is truncated inside the packet at byte {begin}");
    io::Error::new(ErrorKind::UnexpectedEof, text)
}

fn no_packet(begin: u64) -> io::Error {
    damaged(begin, "its key and length are missing")
}

/// Builds the error of an unreadable packet.
pub(crate) fn damaged(begin: u64, why: &str) -> io::Error {
    let text = format!("the packet at byte {begin} is damaged: {why}");
    io::Error::new(ErrorKind::InvalidData, text)
}
