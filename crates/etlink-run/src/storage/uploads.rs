//! Uploads in progress. A store keeps their parts, and charges for them, until they are completed
//! or aborted.

use super::tasks::{Pending, begin};
use object_store::MultipartUpload;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum time for a store to discard an upload; after that the program ends anyway.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// An upload in parts, shared by its writer and by an early end of the program. Whoever takes it out
/// completes or aborts it.
pub(super) type OpenUpload = Arc<Mutex<Option<Box<dyn MultipartUpload>>>>;

static OPEN: Mutex<Vec<OpenUpload>> = Mutex::new(vec![]);

pub(super) fn add(upload: Box<dyn MultipartUpload>) -> OpenUpload {
    let added = Arc::new(Mutex::new(Some(upload)));
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|other| Arc::strong_count(other) > 1);
    open.push(Arc::clone(&added));
    added
}

pub(super) fn take(upload: &OpenUpload) -> Option<Box<dyn MultipartUpload>> {
    upload.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Discards the parts of an upload that was not completed.
pub(super) fn abort(upload: &OpenUpload) {
    if let Some(upload) = take(upload)
        && let Ok(aborted) = begin(abort_upload(upload))
    {
        drop(aborted.wait());
    }
}

/// Discards the parts of all uploads in progress.
pub(crate) fn abort_uploads() {
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let aborted: Vec<Pending<()>> = open
        .iter()
        .filter_map(|upload| begin(abort_upload(take(upload)?)).ok())
        .collect();
    for one in aborted {
        drop(one.wait());
    }
}

pub(super) async fn abort_upload(mut upload: Box<dyn MultipartUpload>) -> io::Result<()> {
    drop(tokio::time::timeout(END_PATIENCE, upload.abort()).await);
    Ok(())
}
