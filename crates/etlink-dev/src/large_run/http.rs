//! As much of HTTP/1.1 as a client of a store speaks: a request at a time, bodies of a known length.

use std::collections::BTreeMap;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::ops::Range;

/// More than a part of an upload; a longer body is no request of ours.
const MOST_BODY_BYTES: usize = 256 << 20;

/// A request.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    /// Bucket and key, without the stroke at its begin.
    pub path: String,
    query: BTreeMap<String, String>,
    /// By their names in small letters.
    headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    /// A value of the query.
    pub fn query(&self, key: &str) -> Option<String> {
        self.query.get(key).cloned()
    }

    pub fn header(&self, key: &str) -> Option<&str> {
        self.headers.get(key).map(String::as_str)
    }

    /// The part of an object of so many bytes that it asks for; `None` for all of it.
    pub fn range(&self, bytes: u64) -> Option<Range<u64>> {
        let text = self.header("range")?.strip_prefix("bytes=")?;
        let (from, to) = text.split_once('-')?;
        if from.is_empty() {
            let last: u64 = to.parse().ok()?;
            return Some(bytes.saturating_sub(last)..bytes);
        }
        let from: u64 = from.parse().ok()?;
        let end = to.parse().map_or(bytes, |last: u64| last + 1);
        Some(from.min(bytes)..end.min(bytes))
    }
}

/// The next request of a connection; none at its end.
pub fn read_request(input: &mut impl BufRead) -> io::Result<Option<Request>> {
    let line = read_line(input)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unescaped(key), unescaped(value))
    });
    let mut request = Request {
        method: method.to_owned(),
        path: unescaped(path.trim_start_matches('/')),
        query: pairs.collect(),
        headers: BTreeMap::new(),
        body: vec![],
    };
    loop {
        let line = read_line(input)?;
        let Some((key, value)) = line.split_once(':') else {
            break;
        };
        let value = value.trim().to_owned();
        request.headers.insert(key.to_lowercase(), value);
    }
    let length = request.header("content-length").unwrap_or("0");
    let length: usize = length.parse().map_err(io::Error::other)?;
    if length > MOST_BODY_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    request.body = vec![0; length];
    input.read_exact(&mut request.body)?;
    Ok(Some(request))
}

fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.by_ref().take(64 << 10).read_line(&mut line)?;
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// Text with `%2F` and the like as what it stands for.
fn unescaped(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An answer that is no object.
pub struct Answer {
    status: u16,
    body: Vec<u8>,
    is_tagged: bool,
}

impl Answer {
    pub fn ok(body: Vec<u8>) -> Answer {
        Answer {
            status: 200,
            body,
            is_tagged: false,
        }
    }

    /// To content that was taken: clients want a name for it.
    pub fn tagged() -> Answer {
        Answer {
            is_tagged: true,
            ..Answer::ok(vec![])
        }
    }

    pub fn refused(status: u16) -> Answer {
        Answer {
            status,
            ..Answer::ok(vec![])
        }
    }

    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (status, length) = (self.status, self.body.len());
        write!(out, "HTTP/1.1 {status} -\r\nContent-Length: {length}\r\n")?;
        if self.is_tagged {
            write!(out, "ETag: \"1\"\r\n")?;
        }
        write!(out, "\r\n")?;
        out.write_all(&self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        let read = read_request(&mut text.as_bytes()).expect("reads");
        read.expect("a request")
    }

    #[test]
    fn requests_as_clients_of_stores_send_them() {
        let asked = request(
            "GET /bucket/a%20b/c?list-type=2&prefix=x%2F HTTP/1.1\r\nRange: bytes=2-4\r\n\r\n",
        );
        assert_eq!(
            (&asked.method[..], &asked.path[..]),
            ("GET", "bucket/a b/c")
        );
        assert_eq!(asked.query("prefix").as_deref(), Some("x/"));
        assert_eq!(asked.range(10), Some(2..5));
        assert_eq!(asked.range(4), Some(2..4));
        let sent = request("PUT /b/k HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc");
        assert_eq!(sent.body, b"abc");
        let end = request("GET /b/k HTTP/1.1\r\nrange: bytes=-4\r\n\r\n");
        assert_eq!(end.range(10), Some(6..10));
        assert!(read_request(&mut &b""[..]).expect("reads").is_none());
    }
}
