//! Effects that workflows may have outside the box: the section `[sinks]`, read and asked.
//!
//! - Whatever is not named here is refused. Anyone who can deploy may write a workflow; the
//!   operator decides on hosts, folders and secrets.
//! - Both daemons ask here: the runtime before it keeps an effect, so that the step reports a
//!   refusal at once, and the agent before it executes one.
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

/// Where a secret is read when it is used.
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
    pub fn of(url: &Url) -> Option<Self> {
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
    pub fn s3_host(&self, write: &S3Write) -> Result<Url, String> {
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
mod tests {
    use proptest::prelude::*;
    use watchkeeper_contract::effect::{
        FileBundle, FileWrite, HttpBody, HttpCall, HttpMethod, MqttMessage, MqttQos,
    };

    use super::*;

    fn sinks(hosts: &[&str], folders: &[&str]) -> SinksConfig {
        SinksConfig {
            hosts: hosts
                .iter()
                .map(|h| HostRule::parse(h).expect("a host"))
                .collect(),
            folders: folders.iter().map(PathBuf::from).collect(),
            secrets: BTreeMap::from([("KNOWN".to_owned(), SecretSource::Variable("K".to_owned()))]),
            ..SinksConfig::default()
        }
    }

    fn call(url: &str) -> Effect {
        Effect::Http(HttpCall {
            url: url.to_owned(),
            method: HttpMethod::Post,
            query: Vec::new(),
            headers: BTreeMap::new(),
            body: HttpBody::Empty,
            timeout_s: 1.0,
        })
    }

    fn write(directory: &str, prefix: &str) -> Effect {
        Effect::File(FileWrite {
            directory: directory.to_owned(),
            prefix: prefix.to_owned(),
            extension: "csv".to_owned(),
            content: "a\n".to_owned(),
            append: false,
        })
    }

    #[test]
    fn refusal_names_the_key_that_would_allow_it() {
        let none = sinks(&[], &[]);
        let why = none
            .admits(&call("https://hooks.example.org/T0KEN"))
            .expect_err("refused");
        assert!(
            why.contains("\"hooks.example.org\"") && why.contains("sinks.hosts"),
            "{why}"
        );
        assert!(!why.contains("T0KEN"), "{why}");
        let why = none.admits(&write("logs", "a")).expect_err("refused");
        assert!(why.contains("sinks.folders"), "{why}");
    }

    #[test]
    fn host_is_allowed_at_usual_ports_others_are_named() {
        let some = sinks(&["Hooks.example.org", "127.0.0.1:8080", "[::1]"], &[]);
        for good in [
            "https://hooks.example.org/a",
            "http://HOOKS.example.org/",
            "http://127.0.0.1:8080/",
            "http://[::1]/",
        ] {
            assert_eq!(some.admits(&call(good)), Ok(()), "{good}");
        }
        for bad in [
            "https://hooks.example.org:8443/",
            "https://hooks.example.org.evil.example/",
            "https://evil.example/hooks.example.org",
            "https://hooks.example.org@evil.example/",
            "http://127.0.0.1/",
            "http://127.0.0.1:8081/",
            "http://2130706433/",
            "http://localhost:8080/",
            "file:///etc/passwd",
            "no address",
        ] {
            assert!(some.admits(&call(bad)).is_err(), "{bad}");
        }
        let why = some
            .admits(&call("http://127.0.0.1:8081/"))
            .expect_err("refused");
        assert!(why.contains("\"127.0.0.1:8081\""), "{why}");
    }

    #[test]
    fn broker_is_allowed_at_mqtt_ports_only() {
        let publish = |host: &str, port| {
            Effect::Mqtt(MqttMessage {
                host: host.to_owned(),
                port,
                tls: false,
                username: None,
                password: None,
                topic: "yard/count".to_owned(),
                payload: "3".to_owned(),
                qos: MqttQos::AtLeastOnce,
                retain: false,
                timeout_s: 0.5,
            })
        };
        let some = sinks(&["broker.example", "127.0.0.1:11883"], &[]);
        for (host, port) in [
            ("broker.example", 1883),
            ("Broker.example", 8883),
            ("127.0.0.1", 11883),
        ] {
            assert_eq!(some.admits(&publish(host, port)), Ok(()), "{host}:{port}");
        }
        for (host, port) in [
            ("broker.example", 443),
            ("127.0.0.1", 1883),
            ("evil.example", 1883),
            ("broker.example/x", 1883),
            ("user@broker.example", 1883),
        ] {
            assert!(some.admits(&publish(host, port)).is_err(), "{host}:{port}");
        }
        let why = some.admits(&publish("127.0.0.1", 1884));
        let why = why.expect_err("refused");
        assert!(why.contains("\"127.0.0.1:1884\""), "{why}");
    }

    #[test]
    fn bundle_needs_plain_name_below_allowed_folder() {
        let some = sinks(&[], &["/srv/out"]);
        let pack = |directory: &str, name: &str| {
            some.admits(&Effect::Bundle(FileBundle {
                directory: directory.to_owned(),
                name: name.to_owned(),
                members: Vec::new(),
            }))
        };
        assert_eq!(pack("events", "event_1.tar.gz"), Ok(()));
        for (directory, name) in [
            ("/etc", "a"),
            ("events", "../a"),
            ("events", ".a"),
            ("events", ""),
        ] {
            assert!(pack(directory, name).is_err(), "{directory} {name}");
        }
    }

    #[test]
    fn a_rule_that_is_no_host_is_refused() {
        for bad in [
            "",
            "https://a.example",
            "a.example/x",
            "*.example",
            "a:0",
            "a:70000",
            "a b",
        ] {
            assert!(HostRule::parse(bad).is_err(), "{bad}");
        }
        for (good, shown) in [("A.example:25", "a.example:25"), ("[::1]:80", "[::1]:80")] {
            let rule = HostRule::parse(good).map(|rule| rule.to_string());
            assert_eq!(rule.as_deref(), Ok(shown));
        }
    }

    #[test]
    fn folder_is_written_only_below_allowed_one() {
        let some = sinks(&[], &["/srv/out", "/srv/out/deep", "/mnt/usb"]);
        let place = |folder: &str, below: &[&str]| {
            Ok(Place {
                folder: folder.into(),
                below: below.iter().map(|&b| b.to_owned()).collect(),
            })
        };
        assert_eq!(some.place("logs/./a"), place("/srv/out", &["logs", "a"]));
        assert_eq!(
            some.place("/srv/out/deep/x"),
            place("/srv/out/deep", &["x"])
        );
        assert_eq!(some.place("/mnt/usb"), place("/mnt/usb", &[]));
        for bad in [
            "/etc",
            "/srv/output",
            "..",
            "a/../b",
            "/srv/out/../../etc",
            "a\0b",
        ] {
            assert!(some.place(bad).is_err(), "{bad}");
        }
        for bad in ["", "../a", "a/b", ".hidden", "a\nb", &"x".repeat(200)] {
            assert!(some.admits(&write("logs", bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_has_to_be_one_of_the_configuration() {
        let some = sinks(&["a.example"], &[]);
        let with = |name: &str| {
            let Effect::Http(mut http) = call("https://a.example/") else {
                return call("");
            };
            let secret = Sealed::Secret(name.to_owned());
            http.headers.insert("authorization".to_owned(), secret);
            Effect::Http(http)
        };
        assert_eq!(some.admits(&with("KNOWN")), Ok(()));
        let why = some.admits(&with("OTHER")).expect_err("refused");
        assert!(
            why.contains("sinks.secrets") && why.contains("OTHER"),
            "{why}"
        );
    }

    #[test]
    fn a_bucket_of_amazon_is_a_host_of_its_own() {
        let write = |bucket: &str| {
            Effect::S3(S3Write {
                bucket: bucket.to_owned(),
                prefix: "a".to_owned(),
                extension: "csv".to_owned(),
                content: "a\n".to_owned(),
                replace: false,
                region: Some("eu-central-1".to_owned()),
                access_key_id: None,
                secret_access_key: None,
            })
        };
        let some = sinks(&["mine.s3.eu-central-1.amazonaws.com"], &[]);
        assert_eq!(some.admits(&write("mine")), Ok(()));
        for bad in [
            "theirs",
            "evil.example/",
            "mine.s3.eu-central-1.amazonaws.com/x",
            "",
        ] {
            assert!(some.admits(&write(bad)).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn files_stay_below_allowed_folders(directory in "[a./\\\\ ~]{0,20}") {
            let some = sinks(&[], &["/srv/out", "/mnt/usb"]);
            if let Ok(place) = some.place(&directory) {
                prop_assert!(some.folders.contains(&place.folder));
                for name in &place.below {
                    prop_assert!(!name.contains('/') && name != ".." && name != "." && !name.is_empty());
                }
            }
        }

        #[test]
        fn calls_reach_only_named_hosts(url in "https?://[a-z.@:/#?\\\\]{0,12}ok\\.example[a-z.@:/0-9#?\\\\]{0,12}") {
            let some = sinks(&["ok.example"], &[]);
            if some.admits(&call(&url)).is_ok() {
                let url = Url::parse(&url).expect("it was admitted");
                prop_assert_eq!(url.host_str(), Some("ok.example"));
                prop_assert!(WEB_PORTS.contains(&url.port_or_known_default().unwrap_or(0)));
            }
        }
    }
}
