//! Reads objects in memory through the same calls as in a real store.
#![allow(clippy::expect_used, reason = "what its helpers do cannot fail")]

use super::client::place_of;
use super::tasks::wait_for;
use super::*;
use object_store::{ObjectStoreExt, PutPayload};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn put(url: &str, content: Vec<u8>) {
    let place = place_of(Path::new(url)).expect("a place");
    wait_for(async move {
        let payload = PutPayload::from(content);
        place.store.put(&place.key, payload).await.expect("puts");
        Ok(())
    })
    .expect("puts");
}

fn bytes(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

#[test]
fn an_object_is_read_in_ranges_to_its_last_byte() {
    // empty, within the first range, some ranges, and more than are fetched ahead
    for count in [0, 10, 1 << 17, (1 << 17) + 1, 3 << 20, 7_000_001] {
        let url = format!("memory://reads/{count}");
        let content = bytes(count);
        put(&url, content.clone());
        let mut file = open(Path::new(&url)).expect("opens");
        assert_eq!(file.data.bytes, content.len() as u64);
        let mut read = vec![];
        file.content.read_to_end(&mut read).expect("reads");
        assert!(read == content, "{count}");
    }
}

#[test]
fn the_end_of_an_object_is_read_alone() {
    put("memory://ends/x", bytes(1000));
    let mut last = [0; 4];
    read_end(Path::new("memory://ends/x"), &mut last).expect("reads");
    assert_eq!(last[..], bytes(1000)[3996..]);
    assert!(read_end(Path::new("memory://ends/x"), &mut [0; 4001]).is_err());
}

#[test]
fn an_object_that_changes_while_it_is_read_is_an_error() {
    let url = "memory://changes/x";
    put(url, bytes(3 << 20));
    let mut file = open(Path::new(url)).expect("opens");
    let mut head = [0; 100];
    file.content.read_exact(&mut head).expect("reads");
    put(url, bytes(3 << 20));
    let error = file
        .content
        .read_to_end(&mut vec![])
        .expect_err("has changed");
    assert!(error.to_string().contains("changed"), "{error}");
}

#[test]
fn folders_are_what_names_begin_with() {
    for name in ["run/a.json", "run/b/c.json", "run/b/d.json", "runs"] {
        put(&format!("memory://lists/{name}"), vec![1]);
    }
    let mut found: Vec<(String, bool)> = list(Path::new("memory://lists/run"))
        .expect("lists")
        .into_iter()
        .map(|entry| (entry.path.display().to_string(), entry.is_folder))
        .collect();
    found.sort();
    let own = |path: &str, is_folder| (path.to_owned(), is_folder);
    assert_eq!(
        found,
        [
            own("memory://lists/run/a.json", false),
            own("memory://lists/run/b", true)
        ]
    );
    assert!(is_folder(Path::new("memory://lists/run/")));
    assert!(is_folder(Path::new("memory://lists")));
    assert!(is_file(Path::new("memory://lists/run/a.json")));
    assert!(!is_folder(Path::new("memory://lists/run/a.json")));
    assert!(!exists(Path::new("memory://lists/ru")));
    let missing = read(Path::new("memory://lists/no")).expect_err("is not there");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn an_object_is_removed() {
    let path = Path::new("memory://removes/x");
    put("memory://removes/x", vec![1]);
    remove(path).expect("removes");
    assert!(!exists(path));
}

/// Starts a web server of one file, without ranges. Returns its URL and a counter of requests.
fn web_server(content: Vec<u8>) -> (PathBuf, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, content) = (connection.expect("connects"), content.clone());
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                let mut lines = BufReader::new(connection.try_clone().expect("a copy"));
                let mut line = String::new();
                while lines.read_line(&mut line).expect("a request") > 2 {
                    line.clear();
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let size = content.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
                );
                // a reader that has enough closes the connection
                drop(connection.write_all(head.as_bytes()));
                drop(connection.write_all(&content));
            });
        }
    });
    (
        PathBuf::from(format!("http://127.0.0.1:{port}/trace.json")),
        asked,
    )
}

#[test]
fn a_file_of_a_web_server_is_asked_for_once_until_all_of_it_is_read_again() {
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    let (url, asked) = web_server(content.clone());
    let times = || asked.load(Ordering::SeqCst);
    for bytes in [10, 300_000] {
        let mut head = vec![];
        let file = open(&url).expect("opens");
        assert_eq!(file.data.bytes, content.len() as u64);
        file.content
            .take(bytes)
            .read_to_end(&mut head)
            .expect("reads");
        assert_eq!(head, content[..bytes as usize]);
    }
    assert_eq!(read(&url).expect("reads"), content);
    assert_eq!(times(), 1);
    // requests a range, which is refused, and then the whole file
    assert_eq!(read(&url).expect("reads"), content);
    assert_eq!(times(), 3);
}
