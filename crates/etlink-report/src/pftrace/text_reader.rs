//! Reads the JSON text of a trace while its packets are converted.

use crate::pftrace::packets::{PacketReader, damaged};
use crate::pftrace::schema::TracePacket;
use std::io::{self, ErrorKind, Read};

/// Bytes of text produced per block.
const BLOCK: usize = 64 << 10;

/// Converter of packets to the text of a Kineto trace.
pub(crate) trait PacketConverter {
    /// Returns the text that is not yet consumed.
    fn out(&mut self) -> &mut EventText;

    fn add_packet(&mut self, packet: TracePacket) -> Result<(), String>;

    /// Completes the text at the end of the file; fails with what the file should still contain.
    fn finish(&mut self) -> Result<(), &'static str>;

    /// Adds what can be said without the rest of a truncated or damaged file.
    fn give_up(&mut self);
}

/// Text of a trace whose events are one list.
#[derive(Debug, Default)]
pub(crate) struct EventText {
    pub(crate) text: Vec<u8>,
    /// True once the list has begun.
    pub(crate) has_begun: bool,
    any_event: bool,
}

impl EventText {
    /// Writes the text before the events, unless it is already written.
    pub(crate) fn begin(&mut self, head: impl FnOnce() -> String) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.text.extend_from_slice(head().as_bytes());
        }
    }

    pub(crate) fn put_event(&mut self, parts: &[&[u8]]) {
        let before: &[u8] = if std::mem::replace(&mut self.any_event, true) {
            b",\n"
        } else {
            b"\n"
        };
        self.text.extend_from_slice(before);
        for part in parts {
            self.text.extend_from_slice(part);
        }
    }
}

/// Reader that yields the text of a converter.
///
/// A truncated or damaged file ends the text early, with an error that states the position in the
/// file.
#[derive(Debug)]
pub(crate) struct TextReader<R, C> {
    packets: PacketReader<R>,
    converter: C,
    /// Consumed bytes of the converter's text.
    taken: usize,
    /// Error of a truncated or damaged file, returned once all text is consumed.
    error: Option<io::Error>,
    is_done: bool,
}

impl<R: Read, C: PacketConverter> TextReader<R, C> {
    pub(crate) fn new(source: R, converter: C) -> Self {
        TextReader {
            packets: PacketReader::new(source),
            converter,
            taken: 0,
            error: None,
            is_done: false,
        }
    }

    /// Produces some text, or stores the reason why there is no more.
    fn make_text(&mut self) {
        while self.converter.out().text.len() < BLOCK && !self.is_done && self.error.is_none() {
            if let Err(error) = self.advance() {
                self.converter.give_up();
                self.error = Some(error);
            }
        }
    }

    /// Processes one packet, or the end of the file.
    fn advance(&mut self) -> io::Result<()> {
        if let Some((begin, packet)) = self.packets.next_packet()? {
            let added = self.converter.add_packet(packet);
            return added.map_err(|why| damaged(begin, &why));
        }
        self.converter.finish().map_err(|missing| {
            let end = self.packets.position();
            let text = format!("the file is truncated at byte {end}, before {missing}");
            io::Error::new(ErrorKind::UnexpectedEof, text)
        })?;
        self.is_done = true;
        Ok(())
    }
}

impl<R: Read, C: PacketConverter> Read for TextReader<R, C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.converter.out().text.len() && !self.is_done {
            if let Some(error) = self.error.take() {
                self.is_done = true;
                return Err(error);
            }
            self.converter.out().text.clear();
            self.taken = 0;
            self.make_text();
        }
        let rest = &self.converter.out().text[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}
