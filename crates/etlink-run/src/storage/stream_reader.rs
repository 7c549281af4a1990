//! Reads a file of a web server, which need not know ranges: one answer, a few blocks ahead.

use super::client::Place;
use super::error::store_error;
use super::tasks::{Pending, begin, wait_for};
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use object_store::ObjectMeta;
use std::io::{self, Read};
use tokio::sync::mpsc::{Receiver, channel};

/// Blocks that wait to be read; servers send some 16 kB at once.
const AHEAD: usize = 256;

/// The content of a file.
pub(super) struct StreamReader {
    object: ObjectMeta,
    blocks: Receiver<io::Result<Bytes>>,
    current: Bytes,
    /// The transfer ends with this.
    _transfer: Pending<()>,
}

impl StreamReader {
    /// Asks for a file, and begins to fetch it.
    ///
    /// # Errors
    /// The server does not give it.
    pub(super) fn open(place: &Place) -> io::Result<StreamReader> {
        let (service, asked) = (place.service, place.clone());
        let answer = wait_for(async move {
            let answer = asked
                .store
                .objects
                .get_opts(&asked.key, Default::default())
                .await;
            answer.map_err(|error| store_error(service, error))
        })?;
        let object = answer.meta.clone();
        let (sender, blocks) = channel(AHEAD);
        let transfer = begin(async move {
            let mut stream = answer.into_stream();
            while let Some(block) = stream.next().await {
                let block = block.map_err(|error| store_error(service, error));
                // nobody reads any more
                if sender.send(block).await.is_err() {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(StreamReader {
            object,
            blocks,
            current: Bytes::new(),
            _transfer: transfer,
        })
    }

    /// What the server says of the file.
    pub(super) fn object(&self) -> &ObjectMeta {
        &self.object
    }
}

impl Read for StreamReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.blocks.blocking_recv() {
                Some(block) => self.current = block?,
                None => return Ok(0),
            }
        }
        let read = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}
