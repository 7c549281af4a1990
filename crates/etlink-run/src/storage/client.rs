//! Clients of stores, one per bucket.

use super::credentials;
use super::error::{store_error, usage_error};
use super::url::{ObjectUrl, Service};
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::ClientConfigKey;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig,
};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of retries of a request that a store temporarily refuses (5xx, 429), or that was
/// interrupted.
const RETRIES: usize = 12;
/// Maximum pause between two retries. Pauses begin with 100 ms and double each time.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum time for all retries of a request.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of a request for a block of a few MiB; a slow line transfers 70 kB/s.
const REQUEST_TIMEOUT: &str = "60s";

/// An object, or a prefix of names, in its store.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) store: Store,
    pub(super) key: Key,
    pub(super) service: Service,
}

/// Client of a bucket or a web server.
type Store = Arc<dyn ObjectStore>;

static STORES: Mutex<BTreeMap<(Service, String), Store>> = Mutex::new(BTreeMap::new());

/// Returns the object that a URL names, with a client of its store.
pub(super) fn place_of(path: &Path) -> io::Result<Place> {
    let url = ObjectUrl::parse(path).map_err(|bad| usage_error(&bad))?;
    let key = match url.service {
        // the client has the whole URL: a signed one must not change by a character
        Service::Web => Key::default(),
        _ => Key::parse(&url.key)
            .map_err(|error| usage_error(&format!("invalid object name: {error}")))?,
    };
    let client = match url.service {
        Service::Web => url.full.clone(),
        _ => url.bucket.clone(),
    };
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let store = match stores.get(&(url.service, client.clone())) {
        Some(store) => store.clone(),
        None => {
            let store = make_store(&url)?;
            stores.insert((url.service, client), store.clone());
            store
        }
    };
    Ok(Place {
        store,
        key,
        service: url.service,
    })
}

fn make_store(url: &ObjectUrl) -> io::Result<Store> {
    // required to create any client; if the surrounding program has chosen a provider, that
    // provider is used
    drop(rustls::crypto::ring::default_provider().install_default());
    let service = url.service;
    let built = match service {
        Service::S3 => {
            let key = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
            let builder = credentials::s3_builder(&url.bucket)?
                .with_config(key, REQUEST_TIMEOUT)
                .with_retry(retries());
            builder.build().map(shared)
        }
        Service::Google => {
            credentials::check_google()?;
            let key = ClientConfigKey::Timeout;
            let builder = GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(&url.bucket)
                .with_config(
                    object_store::gcp::GoogleConfigKey::Client(key),
                    REQUEST_TIMEOUT,
                )
                .with_retry(retries());
            builder.build().map(shared)
        }
        Service::Azure => {
            let key = ClientConfigKey::Timeout;
            let builder = MicrosoftAzureBuilder::from_env()
                .with_container_name(&url.bucket)
                .with_config(
                    object_store::azure::AzureConfigKey::Client(key),
                    REQUEST_TIMEOUT,
                )
                .with_retry(retries());
            builder.build().map(shared)
        }
        Service::Web => return web_store(url),
        #[cfg(test)]
        Service::Memory => Ok(shared(object_store::memory::InMemory::new())),
    };
    built.map_err(|error| store_error(service, error))
}

fn shared(store: impl ObjectStore) -> Store {
    Arc::new(store)
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            max_backoff: LONGEST_PAUSE,
            ..BackoffConfig::default()
        },
        max_retries: RETRIES,
        retry_timeout: PATIENCE,
    }
}

/// Creates a client of a single file on a web server.
fn web_store(url: &ObjectUrl) -> io::Result<Store> {
    let is_plain = url.full.to_ascii_lowercase().starts_with("http://");
    if is_plain && !credentials::is_this_machine(&url.bucket) && !credentials::allows_http() {
        return Err(usage_error(
            "http:// is not encrypted; use https://, or set AWS_ALLOW_HTTP=true",
        ));
    }
    let (address, headers) = without_password(&url.full)?;
    let options = ClientOptions::new()
        .with_allow_http(is_plain)
        .with_default_headers(headers)
        // a file is a single response of any duration; only the wait for its next bytes is limited
        .with_timeout_disabled()
        .with_read_timeout(PATIENCE);
    let store = HttpBuilder::new()
        .with_url(address)
        .with_client_options(options)
        .with_retry(retries())
        .build()
        .map_err(|error| store_error(Service::Web, error))?;
    Ok(shared(store))
}

/// Moves `user:password@` from a URL to a header, because the client ignores it in the URL.
fn without_password(url: &str) -> io::Result<(String, HeaderMap)> {
    use base64::Engine;
    let mut headers = HeaderMap::new();
    let Some((scheme, rest)) = url.split_once("://") else {
        return Ok((url.to_owned(), headers));
    };
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    let Some((user, host)) = host.rsplit_once('@') else {
        return Ok((url.to_owned(), headers));
    };
    let word = base64::engine::general_purpose::STANDARD.encode(user);
    let mut value = HeaderValue::from_str(&format!("Basic {word}"))
        .map_err(|_| usage_error("the user and password in the URL cannot be sent"))?;
    value.set_sensitive(true);
    headers.insert("authorization", value);
    Ok((format!("{scheme}://{host}{path}"), headers))
}
