//! Errors of stores, without secrets.

use super::url::{Service, hide_secrets};
use std::error::Error;
use std::io::{self, ErrorKind};

/// Maximum length of foreign text in a message.
const LONGEST_TEXT: usize = 300;
/// Metadata servers of Amazon, Azure and Google.
const METADATA_HOSTS: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];

/// Creates the error for wrong input from the user.
pub(super) fn usage_error(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text.to_owned())
}

/// Converts an error of a store to a readable one.
pub(super) fn store_error(service: Service, error: object_store::Error) -> io::Error {
    let text = whole_text(&error);
    let code = error_code(&text);
    let asks_machine = METADATA_HOSTS.iter().any(|host| text.contains(host));
    let (kind, words) = match &error {
        // the metadata server is the last source of credentials
        _ if asks_machine => (ErrorKind::PermissionDenied, no_credentials_text(service)),
        _ if code == Some("NoSuchBucket") || code == Some("ContainerNotFound") => (
            ErrorKind::NotFound,
            format!("the bucket does not exist{}", bucket_remedy(service)),
        ),
        object_store::Error::NotFound { .. } => (ErrorKind::NotFound, not_found(service)),
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => {
            let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
            (
                ErrorKind::PermissionDenied,
                format!("access is denied{code}: {}", credential_remedy(service)),
            )
        }
        object_store::Error::AlreadyExists { .. } => (
            ErrorKind::AlreadyExists,
            "an object with this name exists".to_owned(),
        ),
        object_store::Error::Precondition { .. } => (
            ErrorKind::InvalidData,
            "the object changed while in use; run the command again".to_owned(),
        ),
        object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => (
            ErrorKind::Unsupported,
            format!(
                "the server does not support this request: {}",
                shortened(&text)
            ),
        ),
        _ if text.contains("LOCATION") => (
            ErrorKind::Other,
            "the bucket is in another region: set AWS_REGION".to_owned(),
        ),
        _ => (ErrorKind::Other, shortened(&text)),
    };
    io::Error::new(kind, words)
}

fn not_found(service: Service) -> String {
    match service {
        Service::Web => "the server does not have this file".to_owned(),
        _ => "no object or folder has this name".to_owned(),
    }
}

fn bucket_remedy(service: Service) -> &'static str {
    match service {
        Service::S3 => ": check its name, and AWS_ENDPOINT_URL if the store is not Amazon's",
        _ => "",
    }
}

/// Returns the message for missing credentials.
pub(super) fn no_credentials_text(service: Service) -> String {
    format!("no credentials found: {}", credential_remedy(service))
}

/// Returns the ways to provide credentials for a service.
fn credential_remedy(service: Service) -> &'static str {
    match service {
        Service::S3 => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), or AWS_PROFILE; \
             AWS_SKIP_SIGNATURE=true reads public buckets"
        }
        Service::Google => {
            "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`"
        }
        Service::Azure => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_USE_AZURE_CLI=true"
        }
        Service::Web => "give a signed URL, or https://USER:PASSWORD@HOST/…",
        #[cfg(test)]
        Service::Memory => "nothing",
    }
}

fn whole_text(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // wrappers repeat the text of their cause
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// Returns the code in an XML error: `NoSuchBucket` in `<Error><Code>NoSuchBucket</Code>`.
fn error_code(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_word = code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then_some(code)
}

/// Removes the XML document of a server, which contains ids of keys and requests, and the secrets
/// in URLs.
fn shortened(text: &str) -> String {
    let code = error_code(text).map(|code| format!(" ({code})"));
    let document = text.find('<').unwrap_or(text.len());
    let plain = text[..document].trim_end_matches([' ', ':', '\n']);
    let plain = plain.split('\n').next().unwrap_or(plain);
    let mut shown = hide_secrets(plain);
    if let Some((at, _)) = shown.char_indices().nth(LONGEST_TEXT) {
        shown.truncate(at);
    }
    shown + &code.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: text.into(),
        }
    }

    #[test]
    fn documents_and_signatures_are_not_shown() {
        let answer = "status code: 500: <?xml?><Error><Code>InternalError</Code>\
                      <AWSAccessKeyId>AKIA5ec2e7</AWSAccessKeyId></Error>";
        let error = store_error(Service::S3, generic(answer)).to_string();
        assert_eq!(error, "Generic S3 error: status code: 500 (InternalError)");
        let error = store_error(
            Service::Azure,
            generic("error sending request for url (https://a.b/c?sig=5ec2e7)"),
        );
        assert!(!error.to_string().contains("5ec2e7"), "{error}");
    }

    #[test]
    fn what_is_missing_is_said_with_a_remedy() {
        let missing = object_store::Error::NotFound {
            path: "x".into(),
            source: "<Error><Code>NoSuchBucket</Code>".into(),
        };
        let error = store_error(Service::S3, missing);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().starts_with("the bucket does not exist"));
        let denied = object_store::Error::PermissionDenied {
            path: "x".into(),
            source: "<Error><Code>InvalidAccessKeyId</Code>".into(),
        };
        let error = store_error(Service::S3, denied).to_string();
        assert!(error.starts_with("access is denied (InvalidAccessKeyId): set AWS_"));
    }
}
