//! Writes an object. Its content is uploaded in parts as it is written, and the object appears once
//! the upload is completed.

use super::client::{Place, place_of};
use super::error::{store_error, usage_error};
use super::tasks::{Pending, begin, wait_for};
use super::uploads::{self, OpenUpload};
use super::url::Service;
use crate::interrupt::Changes;
use bytes::Bytes;
use object_store::{Error, ObjectStoreExt, PutMode, PutPayload};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size of a part, bytes. Stores accept 10,000 parts, and only the last may be smaller than 5 MiB.
const PART_BYTES: usize = 8 << 20;
const MOST_PARTS: usize = 10_000;
/// Parts of an object that are sent in parallel. Together with the part being filled, they bound
/// the memory of a writer.
const AT_ONCE: usize = 2;
/// Maximum bytes of complete objects, each smaller than a part, that are held until sent.
const HELD_BYTES: usize = 64 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// Writer of an object's content.
pub(crate) struct ObjectWriter {
    place: Place,
    part: Vec<u8>,
    upload: Option<PartUpload>,
}

/// Parts that were sent or are being sent.
struct PartUpload {
    upload: OpenUpload,
    sent: usize,
    running: VecDeque<Pending<()>>,
}

impl Drop for PartUpload {
    fn drop(&mut self) {
        self.running.clear();
        uploads::abort(&self.upload);
    }
}

/// Content that is uploaded, or held for uploading, but not yet an object. Dropping it discards the
/// content.
pub(crate) struct UploadedObject {
    place: Place,
    content: UploadedContent,
}

enum UploadedContent {
    Held(HeldBytes),
    Parts(PartUpload),
}

/// Held content, counted in `HELD` until dropped.
struct HeldBytes(Bytes);

impl Drop for HeldBytes {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// Completion of an upload in progress.
pub(crate) type PendingCommit = Pending<()>;

/// Refuses paths outside an object store.
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    let place = place_of(path)?;
    if place.service == Service::Web {
        return Err(usage_error(
            "etlink cannot write to a web server; give a folder, s3://, gs:// or az://",
        ));
    }
    Ok(())
}

impl ObjectWriter {
    /// Creates a writer, without sending anything yet.
    pub(crate) fn new(path: &Path) -> io::Result<ObjectWriter> {
        check_writable(path)?;
        let place = place_of(path)?;
        if place.key.as_ref().is_empty() {
            return Err(usage_error("the URL names a bucket but no object"));
        }
        Ok(ObjectWriter {
            place,
            part: vec![],
            upload: None,
        })
    }

    /// Sends the remaining content, and returns the object for committing.
    pub(crate) fn finish(mut self) -> io::Result<UploadedObject> {
        let size = self.part.len();
        let is_small = self.upload.is_none();
        if is_small && HELD.fetch_add(size, Ordering::Relaxed) + size <= HELD_BYTES {
            return Ok(UploadedObject {
                place: self.place,
                content: UploadedContent::Held(HeldBytes(self.part.into())),
            });
        }
        if is_small {
            HELD.fetch_sub(size, Ordering::Relaxed);
        }
        if size > 0 || is_small {
            self.send_part()?;
        }
        let Some(mut upload) = self.upload.take() else {
            return Err(ErrorKind::WriteZero.into());
        };
        while !upload.running.is_empty() {
            upload.wait_for_one()?;
        }
        Ok(UploadedObject {
            place: self.place,
            content: UploadedContent::Parts(upload),
        })
    }

    fn send_part(&mut self) -> io::Result<()> {
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => none.insert(PartUpload::begin(&self.place)?),
        };
        if upload.sent == MOST_PARTS {
            return Err(usage_error("cannot write an object of more than 80 GB"));
        }
        if upload.running.len() >= AT_ONCE {
            upload.wait_for_one()?;
        }
        let content = PutPayload::from(std::mem::take(&mut self.part));
        let mut open = upload.upload.lock().unwrap_or_else(PoisonError::into_inner);
        let part = open.as_mut().map(|open| open.put_part(content));
        drop(open);
        let part = part.ok_or(ErrorKind::Interrupted)?;
        let service = self.place.service;
        upload.running.push_back(begin(async move {
            part.await.map_err(|error| store_error(service, error))
        })?);
        upload.sent += 1;
        Ok(())
    }
}

impl PartUpload {
    fn begin(place: &Place) -> io::Result<PartUpload> {
        // held until the upload is registered: after a signal in between, its parts would stay
        let _changes = Changes::begin();
        let place = place.clone();
        let upload = wait_for(async move {
            let made = place.store.put_multipart(&place.key).await;
            made.map_err(|error| store_error(place.service, error))
        })?;
        Ok(PartUpload {
            upload: uploads::add(upload),
            sent: 0,
            running: VecDeque::new(),
        })
    }

    /// Waits for the part that was sent first.
    fn wait_for_one(&mut self) -> io::Result<()> {
        if let Some(first) = self.running.pop_front() {
            first.wait()?;
        }
        Ok(())
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PART_BYTES - self.part.len();
        let taken = bytes.len().min(room);
        self.part.extend_from_slice(&bytes[..taken]);
        if self.part.len() == PART_BYTES {
            self.send_part()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // parts are sent when full, and the store cannot show them earlier
        Ok(())
    }
}

impl UploadedObject {
    /// Makes the content an object. If an object of the name exists, replaces it with `overwrite`,
    /// and fails otherwise.
    pub(crate) fn begin_commit(self, overwrite: bool) -> io::Result<PendingCommit> {
        let UploadedObject { place, content } = self;
        begin(async move {
            match content {
                UploadedContent::Held(held) => put(&place, &held.0, overwrite).await,
                UploadedContent::Parts(upload) => complete(&place, &upload.upload, overwrite).await,
            }
        })
    }
}

async fn put(place: &Place, content: &Bytes, overwrite: bool) -> io::Result<()> {
    let payload = || PutPayload::from(content.clone());
    let objects = &place.store;
    if !overwrite {
        let put = objects.put_opts(&place.key, payload(), PutMode::Create.into());
        match put.await {
            Ok(_) => return Ok(()),
            // for stores without conditional writes
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                refuse_existing(place).await?;
            }
            Err(error) => return Err(store_error(place.service, error)),
        }
    }
    let put = objects.put(&place.key, payload()).await;
    put.map_err(|error| store_error(place.service, error))?;
    Ok(())
}

async fn complete(place: &Place, upload: &OpenUpload, overwrite: bool) -> io::Result<()> {
    let mut open = uploads::take(upload).ok_or(ErrorKind::Interrupted)?;
    // the client cannot complete an upload conditionally
    let mut completed = if overwrite {
        Ok(())
    } else {
        refuse_existing(place).await
    };
    if completed.is_ok() {
        let done = open.complete().await.map(drop);
        completed = done.map_err(|error| store_error(place.service, error));
    }
    if completed.is_err() {
        // aborted here, because `drop` must not wait within a request
        uploads::abort_upload(open).await?;
    }
    completed
}

async fn refuse_existing(place: &Place) -> io::Result<()> {
    match place.store.head(&place.key).await {
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(store_error(place.service, error)),
    }
}
