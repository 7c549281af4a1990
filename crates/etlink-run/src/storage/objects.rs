//! Files at URLs: metadata, content, and listings of folders.

use super::client::{Place, place_of};
use super::error::{store_error, usage_error};
use super::range_reader::RangeReader;
use super::tasks::wait_for;
use super::url::Service;
use super::web_file::WebReader;
use super::{FileData, FolderEntry, OpenFile, StoredKind, object_entry};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::path::Path;

const FOLDER: FileData = FileData {
    kind: StoredKind::Folder,
    bytes: 0,
    changed: None,
    tag: None,
};

/// Returns the metadata of an object, or of a folder if names of objects continue after the URL.
pub(super) fn file_data(path: &Path) -> io::Result<FileData> {
    let place = place_of(path)?;
    if place.service == Service::Web {
        let content = WebReader::open(path, place)?;
        return Ok(file_of(content.object()));
    }
    match head(&place) {
        Ok(object) => Ok(file_of(&object)),
        Err(error) if error.kind() == ErrorKind::NotFound => folder_data(&place),
        Err(error) => Err(error),
    }
}

fn file_of(object: &ObjectMeta) -> FileData {
    FileData {
        kind: StoredKind::File,
        bytes: object.size,
        changed: Some(object.last_modified.into()),
        tag: object.e_tag.as_ref().map(tag_hash),
    }
}

fn tag_hash(tag: &String) -> u64 {
    let mut hasher = DefaultHasher::new();
    tag.hash(&mut hasher);
    hasher.finish()
}

fn head(place: &Place) -> io::Result<ObjectMeta> {
    if place.key.as_ref().is_empty() {
        return Err(ErrorKind::NotFound.into());
    }
    let place = place.clone();
    wait_for(async move {
        let answer = place.store.head(&place.key).await;
        answer.map_err(|error| store_error(place.service, error))
    })
}

fn folder_data(place: &Place) -> io::Result<FileData> {
    let (objects, folders) = list_entries(place)?;
    // a bucket exists even if it is empty
    if objects.is_empty() && folders.is_empty() && !place.key.as_ref().is_empty() {
        return Err(store_error(
            place.service,
            object_store::Error::NotFound {
                path: place.key.to_string(),
                source: "no object starts with this name".into(),
            },
        ));
    }
    Ok(FOLDER)
}

/// Opens an object; some of its blocks are fetched ahead.
pub(super) fn open(path: &Path) -> io::Result<OpenFile> {
    let place = place_of(path)?;
    if place.service == Service::Web {
        let content = WebReader::open(path, place)?;
        return Ok(OpenFile {
            data: file_of(content.object()),
            content: Box::new(content),
        });
    }
    let object = match head(&place) {
        Ok(object) => object,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(OpenFile {
                data: folder_data(&place)?,
                content: Box::new(io::empty()),
            });
        }
        Err(error) => return Err(error),
    };
    Ok(OpenFile {
        data: file_of(&object),
        content: Box::new(RangeReader::new(place, &object)),
    })
}

/// Reads the last bytes of an object into `last`.
pub(super) fn read_end(path: &Path, last: &mut [u8]) -> io::Result<()> {
    let place = place_of(path)?;
    if place.service == Service::Web {
        return Err(ErrorKind::Unsupported.into());
    }
    let wanted = last.len() as u64;
    let bytes = wait_for(async move {
        let options = GetOptions {
            range: Some(GetRange::Suffix(wanted)),
            ..GetOptions::default()
        };
        let answer = place.store.get_opts(&place.key, options).await;
        let got = match answer {
            Ok(answer) => answer.bytes().await,
            Err(error) => Err(error),
        };
        got.map_err(|error| store_error(place.service, error))
    })?;
    if bytes.len() != last.len() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    last.copy_from_slice(&bytes);
    Ok(())
}

/// Lists a folder, up to the next slash of names.
pub(super) fn list(folder: &Path) -> io::Result<Vec<FolderEntry>> {
    let place = place_of(folder)?;
    if place.service == Service::Web {
        return Err(usage_error(
            "a web server does not list folders; give the URL of a file",
        ));
    }
    let (objects, folders) = list_entries(&place)?;
    let entry = |key: &Key, object| Some(object_entry(folder, key.filename()?, object));
    let files = objects
        .iter()
        .filter_map(|object| entry(&object.location, Some(file_of(object))));
    let folders = folders.iter().filter_map(|key| entry(key, None));
    Ok(files.chain(folders).collect())
}

/// Lists the objects and folders directly below a folder.
fn list_entries(place: &Place) -> io::Result<(Vec<ObjectMeta>, Vec<Key>)> {
    let place = place.clone();
    wait_for(async move {
        let prefix = Some(&place.key).filter(|key| !key.as_ref().is_empty());
        let found = place.store.list_with_delimiter(prefix).await;
        let found = found.map_err(|error| store_error(place.service, error))?;
        let objects = found.objects.into_iter();
        // consoles mark an empty folder by an object with its name
        let objects = objects.filter(|object| object.location != place.key);
        Ok((objects.collect(), found.common_prefixes))
    })
}

/// Removes an object.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let place = place_of(path)?;
    wait_for(async move {
        let removed = place.store.delete(&place.key).await;
        removed.map_err(|error| store_error(place.service, error))
    })
}
