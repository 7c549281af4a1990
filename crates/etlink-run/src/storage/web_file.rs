//! Reads a file from a web server, which need not support ranges: a single response, a few blocks
//! ahead.
//!
//! ```text
//! first to open   |== head ==|…          receives it, and leaves the transfer where it is
//! next to open    |== head ==|           from memory
//! whole file      |== head ==|=========> takes the transfer over
//! ```
//! A command reads the beginning of a file several times, to detect its kind and its rank, before
//! it reads the whole file. The head is kept for that, so that the file is transferred once. A
//! second read of the whole file requests the part after the head, by a range if the server
//! supports ranges.

use super::client::Place;
use super::error::store_error;
use super::tasks::{Pending, begin, wait_for};
use super::url::Service;
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{Receiver, channel};

/// Maximum number of received blocks; servers send some 16 kB at a time.
const BLOCKS_AHEAD: usize = 256;
/// Bytes kept of the beginning of a file. The kind of a file is detected from its first 256 KiB,
/// unpacked.
const HEAD_BYTES: usize = 1 << 20;

/// Files by URL. They stay as they were at the command's first request.
static FILES: Mutex<BTreeMap<PathBuf, Arc<WebFile>>> = Mutex::new(BTreeMap::new());

/// A file on a web server, as described by the server when it was first opened.
pub(super) struct WebFile {
    place: Place,
    object: ObjectMeta,
    /// Beginning of the file.
    head: Bytes,
    /// True if the head is the whole file.
    is_whole: bool,
    /// Transfer of the part after the head; `None` once a reader took it over.
    rest: Mutex<Option<Transfer>>,
}

/// A response that is being received.
struct Transfer {
    /// Block that was received, but not returned yet.
    first: Bytes,
    blocks: Receiver<io::Result<Bytes>>,
    /// Task of the transfer, which ends when this is dropped.
    _task: Pending<()>,
}

impl Transfer {
    /// Returns the next block; `None` at the end of the file.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        if !self.first.is_empty() {
            return Ok(Some(std::mem::take(&mut self.first)));
        }
        self.blocks.blocking_recv().transpose()
    }

    /// Skips bytes, or fewer at the end of the file.
    fn skip(&mut self, mut bytes: usize) -> io::Result<()> {
        while bytes > 0
            && let Some(mut block) = self.next()?
        {
            let skipped = bytes.min(block.len());
            block.advance(skipped);
            bytes -= skipped;
            self.first = block;
        }
        Ok(())
    }
}

/// Reader of a file from its beginning.
pub(super) struct WebReader {
    file: Arc<WebFile>,
    current: Bytes,
    /// Transfer of the part after the head, once this reader has reached it.
    transfer: Option<Transfer>,
}

impl WebReader {
    /// Opens a file. Requests it from the server unless it was opened before.
    ///
    /// # Errors
    /// Fails if the server does not provide the file.
    pub(super) fn open(path: &Path, place: Place) -> io::Result<WebReader> {
        let known = locked(&FILES).get(path).cloned();
        let file = match known {
            Some(file) => file,
            None => {
                let file = Arc::new(WebFile::ask(place)?);
                locked(&FILES).insert(path.to_owned(), Arc::clone(&file));
                file
            }
        };
        Ok(WebReader {
            current: file.head.clone(),
            file,
            transfer: None,
        })
    }

    /// Returns the server's metadata of the file.
    pub(super) fn object(&self) -> &ObjectMeta {
        &self.file.object
    }

    /// Returns the next block after the head, which is empty at the end of the file.
    fn next(&mut self) -> io::Result<Bytes> {
        if self.file.is_whole {
            return Ok(Bytes::new());
        }
        let transfer = match &mut self.transfer {
            Some(transfer) => transfer,
            none => none.insert(self.file.rest()?),
        };
        Ok(transfer.next()?.unwrap_or_default())
    }
}

impl Read for WebReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() {
            self.current = self.next()?;
        }
        let read = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}

impl WebFile {
    /// Requests a file, and receives its head.
    fn ask(place: Place) -> io::Result<WebFile> {
        let answer = get(&place, GetOptions::default())?;
        let object = answer.meta.clone();
        let (mut transfer, mut head) = (receive(place.service, answer)?, vec![]);
        let mut is_whole = false;
        while head.len() < HEAD_BYTES && !is_whole {
            match transfer.next()? {
                Some(block) => head.extend_from_slice(&block),
                None => is_whole = true,
            }
        }
        Ok(WebFile {
            place,
            object,
            head: head.into(),
            is_whole,
            rest: Mutex::new(Some(transfer)),
        })
    }

    /// Returns the transfer of the part after the head: the first one, or another.
    fn rest(&self) -> io::Result<Transfer> {
        let first = locked(&self.rest).take();
        first.map_or_else(|| self.ask_behind(self.head.len()), Ok)
    }

    /// Requests the part after the head: by a range, or the whole file without ranges.
    fn ask_behind(&self, head_bytes: usize) -> io::Result<Transfer> {
        let service = self.place.service;
        let ranged = GetOptions {
            range: Some(GetRange::Offset(head_bytes as u64)),
            if_match: self.object.e_tag.clone(),
            ..GetOptions::default()
        };
        if let Ok(answer) = get(&self.place, ranged) {
            return receive(service, answer);
        }
        let answer = get(&self.place, GetOptions::default())?;
        let is_other =
            answer.meta.e_tag != self.object.e_tag || answer.meta.size != self.object.size;
        if is_other {
            let changed = "the object changed while in use; run the command again";
            return Err(io::Error::new(io::ErrorKind::InvalidData, changed));
        }
        let mut transfer = receive(service, answer)?;
        transfer.skip(head_bytes)?;
        Ok(transfer)
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get(place: &Place, options: GetOptions) -> io::Result<GetResult> {
    let place = place.clone();
    wait_for(async move {
        let answer = place.store.get_opts(&place.key, options).await;
        answer.map_err(|error| store_error(place.service, error))
    })
}

/// Receives a response, a few blocks ahead of its reader.
fn receive(service: Service, answer: GetResult) -> io::Result<Transfer> {
    let (sender, blocks) = channel(BLOCKS_AHEAD);
    let task = begin(async move {
        let mut stream = answer.into_stream();
        while let Some(block) = stream.next().await {
            let block = block.map_err(|error| store_error(service, error));
            // the reader was dropped
            if sender.send(block).await.is_err() {
                break;
            }
        }
        Ok(())
    })?;
    Ok(Transfer {
        first: Bytes::new(),
        blocks,
        _task: task,
    })
}
