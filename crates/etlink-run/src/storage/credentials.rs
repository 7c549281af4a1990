//! Credentials, from the same sources as in the services' SDKs: the environment, a profile, and the
//! machine itself.

use super::error::{no_credentials_text, usage_error};
use super::url::Service;
use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use std::env;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Metadata server from which machines of Amazon and Azure get their credentials.
const METADATA_ADDRESS: &str = "169.254.169.254:80";
const GOOGLE_METADATA_ADDRESS: &str = "metadata.google.internal:80";
/// Timeout of the metadata server, which responds at once or does not exist. Without this limit,
/// the first request would wait for a minute.
const METADATA_PATIENCE: Duration = Duration::from_secs(1);

/// Returns a builder configured from the environment and the profile.
pub(super) fn s3_builder(bucket: &str) -> io::Result<AmazonS3Builder> {
    use AmazonS3ConfigKey as Setting;
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let profile = AwsProfile::read();
    if builder.get_config_value(&Setting::Region).is_none()
        && let Some(region) = profile.region()
    {
        builder = builder.with_region(region);
    }
    let endpoint = [Setting::S3Endpoint, Setting::Endpoint]
        .iter()
        .find_map(|setting| builder.get_config_value(setting));
    if endpoint.is_some_and(|endpoint| is_local_endpoint(&endpoint)) {
        builder = builder.with_config(Setting::Client(ClientConfigKey::AllowHttp), "true");
    }
    if is_set("AWS_ACCESS_KEY_ID") || is_set("AWS_SECRET_ACCESS_KEY") {
        return Ok(builder);
    }
    // the SDKs check the profile before the machine
    if let Some((key, secret, token)) = profile.keys() {
        builder = builder
            .with_access_key_id(key)
            .with_secret_access_key(secret);
        return Ok(match token {
            Some(token) => builder.with_token(token),
            None => builder,
        });
    }
    if is_set("AWS_PROFILE") {
        return Err(usage_error(
            "the profile in AWS_PROFILE has no aws_access_key_id; first run \
             `eval \"$(aws configure export-credentials --format env)\"`",
        ));
    }
    let is_told = is_set("AWS_SKIP_SIGNATURE")
        || is_set("AWS_WEB_IDENTITY_TOKEN_FILE")
        || is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        || is_set("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        || is_set("AWS_METADATA_ENDPOINT");
    let asks_machine = env::var("AWS_EC2_METADATA_DISABLED").as_deref() != Ok("true");
    if is_told || (asks_machine && answers(METADATA_ADDRESS)) {
        return Ok(builder);
    }
    Err(no_credentials(Service::S3))
}

/// Fails without any credentials, before a minute of requests to a missing metadata server.
pub(super) fn check_google() -> io::Result<()> {
    let variables = [
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SKIP_SIGNATURE",
    ];
    let default = ".config/gcloud/application_default_credentials.json";
    let has_default = home().is_some_and(|home| home.join(default).is_file());
    if variables.iter().any(|name| is_set(name)) || has_default || answers(GOOGLE_METADATA_ADDRESS)
    {
        return Ok(());
    }
    Err(no_credentials(Service::Google))
}

fn no_credentials(service: Service) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        no_credentials_text(service),
    )
}

/// Returns true if plain HTTP is allowed, by the same variable as in Arrow's clients.
pub(super) fn allows_http() -> bool {
    env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns true if `host:port` is on this machine, so that nobody can intercept the connection.
pub(super) fn is_this_machine(host: &str) -> bool {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    matches!(name, "localhost" | "127.0.0.1" | "::1")
}

/// Returns true if an endpoint is on this machine and uses plain HTTP.
fn is_local_endpoint(endpoint: &str) -> bool {
    let host = endpoint.strip_prefix("http://");
    host.is_some_and(|host| is_this_machine(host.split('/').next().unwrap_or(host)))
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn home() -> Option<PathBuf> {
    env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

fn answers(address: &str) -> bool {
    let Ok(mut addresses) = address.to_socket_addrs() else {
        return false;
    };
    addresses.any(|address| TcpStream::connect_timeout(&address, METADATA_PATIENCE).is_ok())
}

/// A profile from `~/.aws/credentials` and `~/.aws/config`.
#[derive(Debug, Default)]
struct AwsProfile {
    credentials: Vec<(String, String)>,
    config: Vec<(String, String)>,
}

impl AwsProfile {
    fn read() -> AwsProfile {
        let name = env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        let file = |variable: &str, usual: &str| {
            let path = env::var_os(variable).map(PathBuf::from);
            let path = path.or_else(|| Some(home()?.join(".aws").join(usual)))?;
            std::fs::read_to_string(path).ok()
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default();
        let config = file("AWS_CONFIG_FILE", "config").unwrap_or_default();
        let section = match name.as_str() {
            "default" => name.clone(),
            _ => format!("profile {name}"),
        };
        AwsProfile {
            credentials: section_of(&credentials, &name),
            config: section_of(&config, &section),
        }
    }

    fn value(&self, key: &str) -> Option<String> {
        let mut all = self.credentials.iter().chain(&self.config);
        all.find(|(name, _)| name == key)
            .map(|(_, value)| value.clone())
    }

    fn region(&self) -> Option<String> {
        self.value("region")
    }

    fn keys(&self) -> Option<(String, String, Option<String>)> {
        let key = self.value("aws_access_key_id")?;
        let secret = self.value("aws_secret_access_key")?;
        Some((key, secret, self.value("aws_session_token")))
    }
}

/// Returns the settings of section `[name]` in an INI file. Indented lines belong to another
/// setting.
fn section_of(text: &str, name: &str) -> Vec<(String, String)> {
    let mut settings = vec![];
    let mut is_in = false;
    for line in text.lines() {
        if let Some(rest) = line.trim().strip_prefix('[') {
            is_in = rest.split(']').next().map(str::trim) == Some(name);
            continue;
        }
        let is_comment = line.starts_with(['#', ';', ' ', '\t']);
        if is_in
            && !is_comment
            && let Some((key, value)) = line.split_once('=')
        {
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_section() {
        let text = "[default]\naws_access_key_id = a\n# no\n[work]\naws_access_key_id=b\n\
                    s3 =\n  region = inner\nregion = eu-west-1\n";
        let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(section_of(text, "default"), [own("aws_access_key_id", "a")]);
        assert_eq!(
            section_of(text, "work"),
            [
                own("aws_access_key_id", "b"),
                own("s3", ""),
                own("region", "eu-west-1")
            ]
        );
        assert_eq!(section_of(text, "none"), []);
    }

    #[test]
    fn only_this_machine_needs_no_encryption() {
        for host in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:80",
            "[::1]:80",
            "u:p@localhost",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "example.org",
            "localhost.example.org",
            "10.0.0.1:80",
            "localhost@x",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
        assert!(is_local_endpoint("http://localhost:5000/x"));
        assert!(!is_local_endpoint("https://localhost"));
    }
}
