//! URLs given as paths, and the secrets in them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Separator between the scheme and the rest of a URL.
const AFTER_SCHEME: &str = "://";

/// Service that stores an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Service {
    /// Amazon S3 and compatible stores.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// A web server, which can only be read.
    Web,
    /// Objects in memory, for tests.
    #[cfg(test)]
    Memory,
}

impl Service {
    fn of_scheme(scheme: &str) -> Option<Service> {
        match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Some(Service::S3),
            "gs" => Some(Service::Google),
            "az" | "azure" => Some(Service::Azure),
            "https" | "http" => Some(Service::Web),
            #[cfg(test)]
            "memory" => Some(Service::Memory),
            _ => None,
        }
    }
}

/// A URL split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectUrl {
    pub(super) service: Service,
    /// Bucket, container or server.
    pub(super) bucket: String,
    /// Name of the object, without slashes at its ends; empty for the bucket itself.
    pub(super) key: String,
    /// Whole URL, with its secrets.
    pub(super) full: String,
}

/// Returns true if a path is a URL. It then never means a file on a disk, even if one exists.
pub fn is_url(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    let scheme = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(byte));
    let length = scheme.count();
    // a single letter is a drive on Windows
    length > 1 && text[0].is_ascii_alphabetic() && text[length..].starts_with(b"://")
}

/// Returns true if a path is the URL of a web server, which cannot list folders.
pub(crate) fn is_web_url(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|url| url.split_once(AFTER_SCHEME));
    scheme.is_some_and(|(scheme, _)| Service::of_scheme(scheme) == Some(Service::Web))
}

impl ObjectUrl {
    /// Fails with a text for people.
    pub(super) fn parse(path: &Path) -> Result<ObjectUrl, String> {
        let text = path.to_str().ok_or("the URL is not valid UTF-8")?;
        let (scheme, rest) = text.split_once(AFTER_SCHEME).unwrap_or_default();
        let Some(service) = Service::of_scheme(scheme) else {
            return Err(format!(
                "URLs of {scheme}:// are not supported; give s3://, gs://, az:// or https://, or a path"
            ));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err("the URL has no bucket; give s3://BUCKET/KEY".to_owned());
        }
        // consecutive slashes in a name are empty folders, which stores distinguish, but no user
        // intends
        let parts: Vec<&str> = key.split('/').filter(|part| !part.is_empty()).collect();
        Ok(ObjectUrl {
            service,
            bucket: bucket.to_owned(),
            key: parts.join("/"),
            full: with_secrets(text),
        })
    }
}

/// Secret parts of URLs, by the URL without them.
static SECRETS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Returns an argument without the secrets of its URL: `user:password@` and the query, which
/// contains the signature of a signed URL. The secrets are remembered for opening the URL, and
/// appear in no message.
pub fn without_secrets(argument: OsString) -> OsString {
    let Some(text) = argument.to_str() else {
        return argument;
    };
    // `--host=https://…` is a single argument
    let begin = match text.split_once('=') {
        Some((option, value)) if option.starts_with('-') && is_url(Path::new(value)) => {
            option.len() + 1
        }
        _ if is_url(Path::new(text)) => 0,
        _ => return argument,
    };
    let (before, url) = text.split_at(begin);
    let shown = shown_url(url);
    if shown == url {
        return argument;
    }
    let mut secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    secrets.insert(shown.clone(), url.to_owned());
    OsString::from(format!("{before}{shown}"))
}

/// Like [`without_secrets`], for a path.
pub fn path_without_secrets(path: PathBuf) -> PathBuf {
    PathBuf::from(without_secrets(path.into_os_string()))
}

fn with_secrets(shown: &str) -> String {
    let secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    secrets
        .get(shown)
        .cloned()
        .unwrap_or_else(|| shown.to_owned())
}

/// Returns a URL without user, password and query. Only web servers have these: in the name of an
/// object, `?` is an ordinary character.
fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(AFTER_SCHEME) else {
        return url.to_owned();
    };
    if Service::of_scheme(scheme) != Some(Service::Web) {
        return url.to_owned();
    }
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let host_end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}{AFTER_SCHEME}{host}{path}")
}

/// Returns a path for messages: a URL without its secrets.
pub(crate) fn shown_path(path: &Path) -> String {
    let text = path.display().to_string();
    if is_url(path) { shown_url(&text) } else { text }
}

/// Removes the secrets of URLs from foreign text.
#[cfg(feature = "s3")]
pub(super) fn hide_secrets(text: &str) -> String {
    let words: Vec<String> = text
        .split(' ')
        .map(|word| match word.find("http") {
            Some(at) if is_url(Path::new(&word[at..])) => {
                format!("{}{}", &word[..at], shown_url(&word[at..]))
            }
            _ => word.to_owned(),
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for url in ["s3://b/k", "gs://b", "https://host/x.json", "weird+1://x"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for path in [
            "", "-", "s3:/b", "C://x", "./s3://b", "a b://x", "1s://x", "://x", "x",
        ] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_url_has_a_service_a_bucket_and_a_key() {
        let parts = |text: &str| {
            let url = ObjectUrl::parse(Path::new(text)).expect("a URL");
            (url.service, url.bucket, url.key)
        };
        let own = |service, bucket: &str, key: &str| (service, bucket.to_owned(), key.to_owned());
        assert_eq!(
            parts("s3://b/run/x.json"),
            own(Service::S3, "b", "run/x.json")
        );
        assert_eq!(parts("s3a://b/run/"), own(Service::S3, "b", "run"));
        assert_eq!(parts("gs://b"), own(Service::Google, "b", ""));
        assert_eq!(parts("az://c//a//b"), own(Service::Azure, "c", "a/b"));
        assert_eq!(parts("s3://b/a b?c"), own(Service::S3, "b", "a b?c"));
        assert_eq!(parts("HTTPS://h:1/x"), own(Service::Web, "h:1", "x"));
        let parse = |text: &str| ObjectUrl::parse(Path::new(text));
        assert!(parse("hdfs://b/x").is_err());
        assert!(parse("s3:///x").is_err());
    }

    #[test]
    fn paths_are_joined_and_cut_as_urls() {
        let folder = PathBuf::from("s3://bucket/run");
        assert_eq!(folder.join("x.et").to_str(), Some("s3://bucket/run/x.et"));
        assert_eq!(folder.parent().and_then(Path::to_str), Some("s3://bucket"));
        assert_eq!(
            folder.join("").join("a").to_str(),
            Some("s3://bucket/run/a")
        );
    }

    #[test]
    fn secrets_are_kept_and_not_shown() {
        let full = "https://user:pa55@host/x.json?X-Amz-Signature=5ec2e7";
        let shown = without_secrets(full.into());
        assert_eq!(shown, "https://host/x.json");
        let url = ObjectUrl::parse(Path::new(&shown)).expect("a URL");
        assert_eq!(url.full, full);
        assert_eq!(
            without_secrets("--device=https://h/y?sig=1".into()),
            "--device=https://h/y"
        );
        for same in ["s3://b/a?b", "--name=x?y", "x?y=z", "https://h/y"] {
            assert_eq!(without_secrets(same.into()), same);
        }
        assert_eq!(shown_path(Path::new("https://u:p@h/x?s=1")), "https://h/x");
    }

    #[cfg(feature = "s3")]
    #[test]
    fn texts_of_others_lose_the_secrets_of_their_urls() {
        assert_eq!(
            hide_secrets("error for url (https://a.b/c?sig=5ec2e7) twice"),
            "error for url (https://a.b/c twice"
        );
    }
}
