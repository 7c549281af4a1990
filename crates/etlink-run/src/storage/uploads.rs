//! Uploads in progress. A store keeps their parts, and charges for them, until they are completed
//! or aborted.

use super::client::Place;
use super::error::store_error;
use super::tasks::{Pending, begin};
use object_store::MultipartId;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Maximum time that an ending program waits for its store.
const END_PATIENCE: Duration = Duration::from_secs(5);

static OPEN: Mutex<BTreeMap<u64, (Place, MultipartId)>> = Mutex::new(BTreeMap::new());

/// Number of an upload of this process.
pub(super) type UploadNumber = u64;

/// Registers an upload.
pub(super) fn add(place: &Place, id: &MultipartId) -> UploadNumber {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
    open.insert(number, (place.clone(), id.clone()));
    number
}

/// Removes a completed upload from the registry.
pub(super) fn remove(number: UploadNumber) -> Option<(Place, MultipartId)> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.remove(&number)
}

/// Aborts an upload, so that the store deletes its parts. On failure, the bucket's lifecycle rules
/// remove them.
pub(super) fn abort(number: UploadNumber) {
    if let Some((place, id)) = remove(number)
        && let Ok(aborted) = begin(abort_upload(place, id))
    {
        drop(aborted.wait());
    }
}

/// Like `abort`, within a request, which must not wait for another.
pub(super) async fn abort_in_request(number: UploadNumber) {
    if let Some((place, id)) = remove(number) {
        drop(abort_upload(place, id).await);
    }
}

/// Aborts all uploads in progress.
pub(crate) fn abort_uploads() {
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let aborted: Vec<Pending<()>> = open
        .into_values()
        .filter_map(|(place, id)| begin(abort_upload(place, id)).ok())
        .collect();
    for one in aborted {
        drop(one.wait());
    }
}

async fn abort_upload(place: Place, id: MultipartId) -> io::Result<()> {
    let Some(parts) = &place.store.parts else {
        return Ok(());
    };
    let aborted = parts.abort_multipart(&place.key, &id);
    match tokio::time::timeout(END_PATIENCE, aborted).await {
        Ok(aborted) => aborted.map_err(|error| store_error(place.service, error)),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
