//! Uploads in parts that are under way: a store keeps their parts, at a price, until they are
//! completed or aborted.

use super::client::Place;
use super::error::store_error;
use super::tasks::{Pending, begin};
use object_store::MultipartId;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A program that is being ended waits so long for its store.
const END_PATIENCE: Duration = Duration::from_secs(5);

static OPEN: Mutex<BTreeMap<u64, (Place, MultipartId)>> = Mutex::new(BTreeMap::new());

/// Of this process.
pub(super) type UploadNumber = u64;

/// Lists an upload.
pub(super) fn add(place: &Place, id: &MultipartId) -> UploadNumber {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
    open.insert(number, (place.clone(), id.clone()));
    number
}

/// It is completed.
pub(super) fn remove(number: UploadNumber) -> Option<(Place, MultipartId)> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.remove(&number)
}

/// Has the store forget an upload and its parts. What fails is for the rules of the bucket.
pub(super) fn abort(number: UploadNumber) {
    if let Some((place, id)) = remove(number)
        && let Ok(aborted) = begin(abort_upload(place, id))
    {
        drop(aborted.wait());
    }
}

/// The same for a request, which must not wait for another.
pub(super) async fn abort_in_request(number: UploadNumber) {
    if let Some((place, id)) = remove(number) {
        drop(abort_upload(place, id).await);
    }
}

/// The same for all that are under way.
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
