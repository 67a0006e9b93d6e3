//! Effects that workflows may have outside the box: the section `[sinks]`, read and asked.
//!
//! - Whatever is not named here is refused. Anyone who can deploy may write a workflow; the
//!   operator decides on hosts, folders and secrets.
//! - Both daemons ask here. The runtime asks before it keeps an effect, so that the step reports a
//!   refusal at once; the agent asks before it executes one.
//!
//! Not here: the value of a secret (the agent reads it when it is used), and what a host name
//! resolves to. A named host is trusted by its name.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use url::{Host, Url};
use watchkeeper_contract::effect::{Effect, S3Write, Sealed};

/// Ports of HTTP and HTTPS that need not be named.
const WEB_PORTS: &[u16] = &[80, 443];
/// Ports of SMTP that need not be named.
const MAIL_PORTS: &[u16] = &[25, 465, 587];
/// Ports of MQTT that need not be named.
const MQTT_PORTS: &[u16] = &[1883, 8883];

/// Longest prefix of a file's name in bytes; the rest of the name must fit too.
const MAX_PREFIX: usize = 100;

/// The section `[sinks]`.
#[derive(Debug, Clone)]
pub struct SinksConfig {
    /// Hosts that may be called.
    pub hosts: Vec<HostRule>,
    /// Folders below which files may be written; absolute, without `.` and `..`.
    pub folders: Vec<PathBuf>,
    /// Secrets by the names that workflows have for them.
    pub secrets: BTreeMap<String, SecretSource>,
    /// PEM file with the authorities to trust; absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// Address of Slack's methods.
    pub slack_url: Option<Url>,
    /// Address of Twilio's API.
    pub twilio_url: Option<Url>,
    /// A store that speaks S3; absent: Amazon's.
    pub s3_url: Option<Url>,
    /// Age at which an effect that did not succeed is given up.
    pub max_age: Duration,
}

impl Default for SinksConfig {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            folders: Vec::new(),
            secrets: BTreeMap::new(),
            ca_file: None,
            slack_url: None,
            twilio_url: None,
            s3_url: None,
            max_age: Duration::from_secs(86_400),
        }
    }
}

/// Source from which a secret is read when it is used.
#[derive(Debug, Clone)]
pub enum SecretSource {
    /// The configuration itself.
    Value(SecretString),
    /// The first line of a file.
    File(PathBuf),
    /// A variable of the agent's environment.
    Variable(String),
    /// A credential of the agent's service.
    Credential(String),
}

/// A host that may be called: `name`, at the usual ports of the protocol, or `name:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    host: Host<String>,
    port: Option<u16>,
}

impl HostRule {
    /// Parses a rule.
    ///
    /// # Errors
    /// One phrase with what is wrong.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains("://") || text.contains('/') {
            return Err("must be a host, not an address; write the part between // and /");
        }
        if text.contains('*') {
            return Err("must be one host, without *; write each host");
        }
        let split = text
            .rsplit_once(':')
            .filter(|(host, _)| host.ends_with(']') || !host.contains(':'));
        let (name, port) = match split {
            Some((name, port)) => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (
                    name,
                    Some(port.ok_or("needs a port from 1 to 65535 after the colon")?),
                )
            }
            None => (text, None),
        };
        let host = Host::parse(name).map_err(|_| "is not a host name")?;
        Ok(Self { host, port })
    }

    /// Makes the rule that admits an address, at its port.
    #[must_use]
    pub fn for_url(url: &Url) -> Option<Self> {
        Some(Self {
            host: url.host()?.to_owned(),
            port: Some(url.port_or_known_default()?),
        })
    }

    fn admits(&self, host: &Host<String>, port: u16, usual: &[u16]) -> bool {
        self.host == *host
            && match self.port {
                Some(named) => named == port,
                None => usual.contains(&port),
            }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => self.host.fmt(f),
        }
    }
}

/// A folder that may be written, and the path from there to the requested folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// One of [`SinksConfig::folders`].
    pub folder: PathBuf,
    /// Names of the folders below it, each a plain one.
    pub below: Vec<String>,
}

impl SinksConfig {
    /// Checks whether an effect is allowed.
    ///
    /// # Errors
    /// One sentence with the key that would allow it, without anything that would be sent.
    pub fn admits(&self, effect: &Effect) -> Result<(), String> {
        match effect {
            Effect::Http(call) => self.admits_url(&web_url(&call.url)?)?,
            Effect::Email(email) => self.admits_host(&email.server, email.port, MAIL_PORTS)?,
            Effect::Slack(_) => self.admits_url(&self.slack_url()?)?,
            Effect::Sms(_) => self.admits_url(&self.twilio_url()?)?,
            Effect::S3(write) => self.admits_url(&self.s3_host(write)?)?,
            Effect::Mqtt(message) => {
                message.check()?;
                self.admits_host(&message.host, message.port, MQTT_PORTS)?;
            }
            Effect::Bundle(bundle) => {
                self.place(&bundle.directory)?;
                plain_name("the name of the file", &bundle.name)?;
            }
            Effect::File(write) => {
                self.place(&write.directory)?;
                plain_name("file_name_prefix", &write.prefix)?;
                plain_name("the extension of the file", &write.extension)?;
            }
        }
        for sealed in effect.sealed() {
            if let Sealed::Secret(name) = sealed
                && !self.secrets.contains_key(name)
            {
                return Err(no_secret(name));
            }
        }
        Ok(())
    }

    /// Checks whether an address may be called.
    ///
    /// # Errors
    /// One sentence with the key that would allow it. It names the host and no other part of the
    /// address: a path may hold a token.
    pub fn admits_url(&self, url: &Url) -> Result<(), String> {
        if !["http", "https"].contains(&url.scheme()) {
            return Err(format!(
                "{} is not supported; use http or https",
                url.scheme()
            ));
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err("the address names no host".to_owned());
        };
        self.admits_named(&host.to_owned(), port, WEB_PORTS)
    }

    fn admits_host(&self, name: &str, port: u16, usual: &[u16]) -> Result<(), String> {
        // The connection parses the name again; a name that needs decoding could mean another host
        // there.
        let host = Host::parse(name).ok();
        let host = host.filter(|host| host.to_string().eq_ignore_ascii_case(name));
        let host = host.ok_or_else(|| format!("{name:?} is not a plain host name"))?;
        self.admits_named(&host, port, usual)
    }

    fn admits_named(&self, host: &Host<String>, port: u16, usual: &[u16]) -> Result<(), String> {
        if self.hosts.iter().any(|rule| rule.admits(host, port, usual)) {
            return Ok(());
        }
        let rule = HostRule {
            host: host.clone(),
            port: (!usual.contains(&port)).then_some(port),
        };
        Err(format!(
            "the configuration does not allow the host {rule}; to allow it, add \"{rule}\" to sinks.hosts"
        ))
    }

    /// Finds the allowed folder of `directory`. A relative one begins in the first allowed folder.
    ///
    /// # Errors
    /// One sentence with the key that would allow it.
    pub fn place(&self, directory: &str) -> Result<Place, String> {
        let Some(first) = self.folders.first() else {
            return Err(
                "the configuration allows no folder; to allow one, add it to sinks.folders"
                    .to_owned(),
            );
        };
        let path = Path::new(directory);
        if directory.contains('\0') || path.components().any(|c| c == Component::ParentDir) {
            return Err(format!(
                "the folder {directory:?} contains \"..\"; write it without"
            ));
        }
        let (folder, rest) = if path.is_absolute() {
            let within = |folder: &&PathBuf| path.starts_with(folder);
            let folder = self.folders.iter().filter(within);
            let Some(folder) = folder.max_by_key(|folder| folder.components().count()) else {
                return Err(format!(
                    "the configuration does not allow the folder {directory:?}; to allow it, add it to sinks.folders"
                ));
            };
            (folder, path.strip_prefix(folder).unwrap_or(path))
        } else {
            (first, path)
        };
        let mut below = Vec::new();
        for component in rest.components() {
            match component {
                Component::Normal(name) => below.push(name.to_string_lossy().into_owned()),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(format!("{directory:?} is not a folder"));
                }
            }
        }
        Ok(Place {
            folder: folder.clone(),
            below,
        })
    }

    /// Returns the address of Slack's methods.
    ///
    /// # Errors
    /// Never with a configuration that was checked.
    pub fn slack_url(&self) -> Result<Url, String> {
        self.slack_url.clone().ok_or_else(|| unset("slack_url"))
    }

    /// Returns the address of Twilio's API.
    ///
    /// # Errors
    /// Never with a configuration that was checked.
    pub fn twilio_url(&self) -> Result<Url, String> {
        self.twilio_url.clone().ok_or_else(|| unset("twilio_url"))
    }

    /// Returns the address of an object's bucket. At Amazon it names the bucket, so an allowed host
    /// is an allowed bucket.
    ///
    /// # Errors
    /// When bucket or region make no address.
    fn s3_host(&self, write: &S3Write) -> Result<Url, String> {
        if let Some(url) = &self.s3_url {
            return Ok(url.clone());
        }
        let region = write
            .region
            .as_deref()
            .ok_or("aws_region is missing; set it, or set sinks.s3_url in the configuration")?;
        plain_host("bucket_name", &write.bucket)?;
        plain_host("aws_region", region)?;
        let text = format!("https://{}.s3.{region}.amazonaws.com/", write.bucket);
        Url::parse(&text).map_err(|_| format!("{:?} is not a bucket name", write.bucket))
    }
}

/// Parses the address of a request.
///
/// # Errors
/// One sentence without the address, which may hold a token.
pub fn web_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| format!("the request's url is invalid: {error}"))
}

/// Parses an address of HTTP or HTTPS.
pub(crate) fn http_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// Returns the message about a secret that the configuration does not have.
#[must_use]
pub fn no_secret(name: &str) -> String {
    format!(
        "the configuration has no secret {name:?}; add it to sinks.secrets, such as NAME = {{ file = \"PATH\" }}"
    )
}

fn unset(key: &str) -> String {
    format!("sinks.{key} is not set")
}

/// Refuses a part of a file's name that could leave the folder or hide the file.
fn plain_name(what: &str, text: &str) -> Result<(), String> {
    let is_plain = !text.is_empty()
        && text.len() <= MAX_PREFIX
        && !text.starts_with('.')
        && !text.contains(['/', '\\'])
        && !text.chars().any(char::is_control);
    if is_plain {
        return Ok(());
    }
    Err(format!(
        "{what} {text:?} is not allowed; use up to {MAX_PREFIX} characters without / and without a leading dot"
    ))
}

/// Refuses text that could be more than one part of a host's name.
fn plain_host(what: &str, text: &str) -> Result<(), String> {
    let is_plain = !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
    if is_plain {
        return Ok(());
    }
    Err(format!(
        "{what} {text:?} is not allowed; use letters a to z, digits, dashes and dots"
    ))
}

#[cfg(test)]
mod tests;
