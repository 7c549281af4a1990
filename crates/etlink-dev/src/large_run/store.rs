//! A store on this machine that speaks as much of S3 as etlink asks for. Some of its objects are
//! made when they are read; of what is written it keeps what is read again, and counts the rest.

use super::http::{Answer, Request, read_request};
use anyhow::Result;
use etlink_dev::generate::ranks::SharedObject;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufReader, BufWriter, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Any: no object changes while the store runs.
const LAST_MODIFIED: &str = "Sat, 01 Nov 2025 00:00:00 GMT";
const LISTED_TIME: &str = "2025-11-01T00:00:00.000Z";

/// What went through the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreCounts {
    /// Requests.
    pub requests: u64,
    /// Bytes of objects that were read.
    pub read: u64,
    /// Bytes of objects that were written.
    pub written: u64,
    /// Objects that were written.
    pub objects: u64,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    objects: AtomicU64,
}

/// An object.
#[derive(Clone, Debug)]
enum StoredObject {
    Made(Arc<SharedObject>),
    Kept(Arc<Vec<u8>>),
    /// Only its length is known.
    Counted(u64),
}

impl StoredObject {
    fn bytes(&self) -> u64 {
        match self {
            StoredObject::Made(object) => object.bytes,
            StoredObject::Kept(content) => content.len() as u64,
            StoredObject::Counted(bytes) => *bytes,
        }
    }

    fn write_range(&self, range: Range<u64>, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            StoredObject::Made(object) => object.write_range(range, out),
            StoredObject::Kept(content) => {
                out.write_all(&content[range.start as usize..range.end as usize])
            }
            StoredObject::Counted(_) => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Parts of an object that is not completed.
#[derive(Debug, Default)]
struct Upload {
    key: String,
    parts: BTreeMap<u32, StoredObject>,
}

#[derive(Debug, Default)]
struct StoreState {
    /// By bucket and key.
    objects: BTreeMap<String, StoredObject>,
    uploads: BTreeMap<String, Upload>,
    next_upload: u64,
}

/// See the module text.
#[derive(Debug)]
pub struct Store {
    state: Mutex<StoreState>,
    counters: Counters,
}

impl Store {
    /// A store with objects that are made, by bucket and key.
    pub fn new(made: impl IntoIterator<Item = (String, SharedObject)>) -> Store {
        let made = made.into_iter();
        let objects = made.map(|(key, object)| (key, StoredObject::Made(Arc::new(object))));
        let state = StoreState {
            objects: objects.collect(),
            ..StoreState::default()
        };
        Store {
            state: Mutex::new(state),
            counters: Counters::default(),
        }
    }

    /// Answers requests on a port that is free, of this machine alone, until the process ends.
    pub fn serve(self: &Arc<Store>) -> Result<SocketAddr> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let store = Arc::clone(self);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let store = Arc::clone(&store);
                std::thread::spawn(move || store.talk(&connection));
            }
        });
        Ok(address)
    }

    /// What went through it since the last call.
    pub fn take_counts(&self) -> StoreCounts {
        let Counters {
            requests,
            read,
            written,
            objects,
        } = &self.counters;
        StoreCounts {
            requests: requests.swap(0, Ordering::Relaxed),
            read: read.swap(0, Ordering::Relaxed),
            written: written.swap(0, Ordering::Relaxed),
            objects: objects.swap(0, Ordering::Relaxed),
        }
    }

    /// A client that goes away ends its connection: nobody is told.
    fn talk(&self, connection: &TcpStream) {
        drop(connection.set_nodelay(true));
        let mut input = BufReader::with_capacity(1 << 16, connection);
        let mut output = BufWriter::with_capacity(1 << 16, connection);
        while let Ok(Some(request)) = read_request(&mut input) {
            self.counters.requests.fetch_add(1, Ordering::Relaxed);
            if self.answer(&request, &mut output).is_err() || output.flush().is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &Request, out: &mut dyn Write) -> std::io::Result<()> {
        let asked = request.query("list-type").is_some();
        match request.method.as_str() {
            "GET" if asked => Answer::ok(self.list(request).into_bytes()).write(out),
            "GET" | "HEAD" => self.send_object(request, out),
            "PUT" => self.put(request).write(out),
            "POST" if request.query("delete").is_some() => self.delete_listed(request).write(out),
            "POST" => self.post(request).write(out),
            "DELETE" => self.delete(request).write(out),
            _ => Answer::refused(405).write(out),
        }
    }

    fn send_object(&self, request: &Request, out: &mut dyn Write) -> std::io::Result<()> {
        let object = self.lock().objects.get(&request.path).cloned();
        let Some(object) = object else {
            return Answer::refused(404).write(out);
        };
        let bytes = object.bytes();
        let is_head = request.method == "HEAD";
        let range = request.range(bytes);
        let is_counted = matches!(object, StoredObject::Counted(_));
        if !is_head && (is_counted || range.as_ref().is_some_and(Range::is_empty)) {
            return Answer::refused(416).write(out);
        }
        let status = if range.is_some() {
            "206 Partial Content"
        } else {
            "200 OK"
        };
        write!(out, "HTTP/1.1 {status}\r\nAccept-Ranges: bytes\r\n")?;
        if let Some(range) = &range {
            let last = range.end - 1;
            write!(
                out,
                "Content-Range: bytes {}-{last}/{bytes}\r\n",
                range.start
            )?;
        }
        let range = range.unwrap_or(0..bytes);
        let length = range.end - range.start;
        write!(
            out,
            "Content-Length: {length}\r\nETag: \"{bytes:x}\"\r\n\
             Last-Modified: {LAST_MODIFIED}\r\n\r\n"
        )?;
        if is_head {
            return Ok(());
        }
        self.counters.read.fetch_add(length, Ordering::Relaxed);
        object.write_range(range, out)
    }

    /// Of names that begin so, up to the next stroke where one is given.
    fn list(&self, request: &Request) -> String {
        let prefix = request.query("prefix").unwrap_or_default();
        let delimiter = request.query("delimiter").unwrap_or_default();
        let bucket = format!("{}/", request.path.trim_end_matches('/'));
        let begin = format!("{bucket}{prefix}");
        let mut answer = "<?xml version=\"1.0\"?><ListBucketResult>".to_owned();
        let mut folder = String::new();
        let state = self.lock();
        let named = state.objects.range(begin.clone()..);
        for (name, object) in named.take_while(|(name, _)| name.starts_with(&begin)) {
            let key = &name[bucket.len()..];
            let rest = &name[begin.len()..];
            if !delimiter.is_empty()
                && let Some(end) = rest.find(&delimiter)
            {
                let common = &key[..prefix.len() + end + delimiter.len()];
                if folder != common {
                    folder = common.to_owned();
                    let _ = write!(
                        answer,
                        "<CommonPrefixes><Prefix>{common}</Prefix></CommonPrefixes>"
                    );
                }
                continue;
            }
            let bytes = object.bytes();
            let _ = write!(
                answer,
                "<Contents><Key>{key}</Key><LastModified>{LISTED_TIME}</LastModified>\
                 <ETag>\"{bytes:x}\"</ETag><Size>{bytes}</Size></Contents>"
            );
        }
        answer + "<IsTruncated>false</IsTruncated></ListBucketResult>"
    }

    /// What is kept of content that was sent.
    fn stored(&self, name: &str, content: &[u8]) -> StoredObject {
        let bytes = content.len() as u64;
        self.counters.written.fetch_add(bytes, Ordering::Relaxed);
        // the graphs are what there is most of, and nobody reads them again
        if name.contains(".et") && !name.contains(".etlink") {
            StoredObject::Counted(bytes)
        } else {
            StoredObject::Kept(Arc::new(content.to_vec()))
        }
    }

    fn put(&self, request: &Request) -> Answer {
        let object = self.stored(&request.path, &request.body);
        let mut state = self.lock();
        if let Some(upload) = request.query("uploadId") {
            let part = request
                .query("partNumber")
                .and_then(|part| part.parse().ok());
            let (Some(upload), Some(part)) = (state.uploads.get_mut(&upload), part) else {
                return Answer::refused(404);
            };
            upload.parts.insert(part, object);
            return Answer::tagged();
        }
        let is_new = request.header("if-none-match").is_some();
        if is_new && state.objects.contains_key(&request.path) {
            return Answer::refused(412);
        }
        self.counters.objects.fetch_add(1, Ordering::Relaxed);
        state.objects.insert(request.path.clone(), object);
        Answer::tagged()
    }

    /// Begins an upload in parts, or completes it.
    fn post(&self, request: &Request) -> Answer {
        let mut state = self.lock();
        let Some(id) = request.query("uploadId") else {
            state.next_upload += 1;
            let id = state.next_upload.to_string();
            let upload = Upload {
                key: request.path.clone(),
                ..Upload::default()
            };
            state.uploads.insert(id.clone(), upload);
            return Answer::ok(
                format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId>\
                     </InitiateMultipartUploadResult>"
                )
                .into_bytes(),
            );
        };
        let Some(Upload { key, parts }) = state.uploads.remove(&id) else {
            return Answer::refused(404);
        };
        state.objects.insert(key, joined(&parts));
        self.counters.objects.fetch_add(1, Ordering::Relaxed);
        Answer::ok(
            b"<CompleteMultipartUploadResult><ETag>\"1\"</ETag></CompleteMultipartUploadResult>"
                .to_vec(),
        )
    }

    /// Removes several objects, which the body names. No name of etlink's has a character that XML escapes.
    fn delete_listed(&self, request: &Request) -> Answer {
        let body = String::from_utf8_lossy(&request.body);
        let mut answer = "<?xml version=\"1.0\"?><DeleteResult>".to_owned();
        let mut state = self.lock();
        for named in body.split("<Key>").skip(1) {
            let key = named.split("</Key>").next().unwrap_or_default();
            let bucket = request.path.trim_end_matches('/');
            state.objects.remove(&format!("{bucket}/{key}"));
            let _ = write!(answer, "<Deleted><Key>{key}</Key></Deleted>");
        }
        Answer::ok((answer + "</DeleteResult>").into_bytes())
    }

    fn delete(&self, request: &Request) -> Answer {
        let mut state = self.lock();
        match request.query("uploadId") {
            Some(id) => drop(state.uploads.remove(&id)),
            None => drop(state.objects.remove(&request.path)),
        }
        Answer::refused(204)
    }
}

/// An object of parts.
fn joined(parts: &BTreeMap<u32, StoredObject>) -> StoredObject {
    let bytes = parts.values().map(StoredObject::bytes).sum();
    let mut content = vec![];
    for part in parts.values() {
        match part {
            StoredObject::Kept(part) => content.extend_from_slice(part),
            _ => return StoredObject::Counted(bytes),
        }
    }
    StoredObject::Kept(Arc::new(content))
}
