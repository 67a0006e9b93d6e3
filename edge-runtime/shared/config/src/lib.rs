//! One configuration file, checked before anything starts.
//!
//! Owns the way from what a person wrote (a TOML file, `WATCHKEEPER_SECTION__KEY` variables, flags) to a
//! [`Config`] that cannot be wrong, and how the address of a source is read and shown ([`address`], [`redact`]). Every key is declared once in [`keys`]: its kind, default and bounds drive
//! the check, and the same declaration prints `docs/ref/configuration.md`.
//!
//! Invariant: [`load`] reports *everything* that is wrong, each with the key, the value found, what is allowed
//! and where it was written. A bad camera is a warning: it is left out and the rest run.
//!
//! Not here: reading a socket, starting anything, and defaults that depend on hardware.

pub mod address;
pub mod bounded;
pub mod channels;
mod check;
pub mod demo;
pub mod docs;
mod error;
pub mod keys;
mod layers;
mod lines;
pub mod permissions;
mod raw;
pub mod redact;
pub mod sinks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use watchkeeper_contract::id::{BoxId, SiteId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;

pub use channels::{ChannelConfig, ChannelKind};
pub use error::{ConfigError, Origin};
pub use layers::{BrokerLayers, ENV_PREFIX, LoadRequest, Override};
pub use permissions::{ChangeKind, PermissionsConfig, ToolEffect, ToolsConfig};
pub use sinks::{HostRule, SecretSource, SinksConfig};

/// Where the configuration is read from when nothing else is said.
pub const DEFAULT_FILE: &str = "/etc/watchkeeper/watchkeeper.toml";

/// Variable that names another file than [`DEFAULT_FILE`].
pub const FILE_VARIABLE: &str = "WATCHKEEPER_CONFIG";

/// Folder of the model of sentences below that of the models.
pub const MEMORY_MODEL: &str = "memory";

/// Where the box's models are when nobody said otherwise.
pub const SYSTEM_MODELS: &str = "/var/lib/watchkeeper/models";

/// A configuration as the daemons use it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Site the box stands at; a level of every MQTT topic.
    pub site: SiteId,
    /// Name of the box; a level of every MQTT topic.
    pub box_id: BoxId,
    /// Folder for everything that must survive a restart.
    pub state_dir: PathBuf,
    /// Unix socket the runtime serves and the agent calls.
    pub runtime_socket: PathBuf,
    /// Permission bits of that socket: the authority to use the API.
    pub socket_mode: u32,
    /// How models are run.
    pub inference: InferenceConfig,
    /// Bounds of the event journal.
    pub journal: JournalConfig,
    /// Bounds of kept pictures.
    pub media: MediaConfig,
    /// Bounds of annotated videos.
    pub recordings: RecordingsConfig,
    /// Early deaths of the runtime after which suspects are held; 0 is never.
    pub crash_loop_limit: u32,
    /// Sources that are declared well, in the order of their names.
    pub sources: Vec<SourceSpec>,
    /// Pipelines that are declared well and whose source is too, in the order of their names.
    pub pipelines: Vec<PipelineSpec>,
    /// The broker; absent when no host is set.
    pub mqtt: Option<MqttConfig>,
    /// Bounds and rhythm of the agent.
    pub agent: AgentConfig,
    /// How the agent's notes are found.
    pub memory: MemoryConfig,
    /// Where the agent serves its API.
    pub agent_api: AgentApiConfig,
    /// What is confirmed without asking a person.
    pub permissions: PermissionsConfig,
    /// Where models are found.
    pub models: ModelsConfig,
    /// The model of language; absent when no provider is named.
    pub llm: Option<LlmConfig>,
    /// What workflows may have done outside.
    pub sinks: SinksConfig,
    /// How people are told of events, in the order of the names.
    pub channels: Vec<ChannelConfig>,
    /// What is wrong but does not stop the rest: cameras and pipelines that were left out.
    pub warnings: Vec<ConfigError>,
}

/// How models are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferenceConfig {
    /// Which engine.
    pub backend: Backend,
    /// Threads of one inference; absent: one per core, at most two.
    pub threads: Option<usize>,
    /// ONNX Runtime's shared library; absent: the system's search path.
    pub ort_library: Option<PathBuf>,
}

/// Inference engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// `ort` when its library loads, else `rten`.
    Auto,
    /// The engine in pure Rust.
    Rten,
    /// ONNX Runtime, opened at run time.
    Ort,
}

/// Bounds of the event journal; whichever is reached first drops the oldest records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalConfig {
    /// Records kept.
    pub max_events: u64,
    /// Bytes of records kept.
    pub max_bytes: u64,
}

/// Bounds of kept pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaConfig {
    /// Bytes of pictures kept; the oldest go first.
    pub max_bytes: u64,
}

/// Bounds of annotated videos; whichever is reached first deletes the oldest parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingsConfig {
    /// Bytes of all parts.
    pub max_bytes: u64,
    /// Age of a part.
    pub max_age: Duration,
}

/// How to reach the broker.
#[derive(Debug, Clone)]
pub struct MqttConfig {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Client id; unique at the broker.
    pub client_id: String,
    /// User name.
    pub username: Option<String>,
    /// Password, from the key or the file; never printed.
    pub password: Option<SecretString>,
    /// Whether the connection is TLS.
    pub tls: bool,
    /// PEM file with the authorities to trust; absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate and key by which the box proves who it is; absent: it does not.
    pub client_cert: Option<ClientCert>,
    /// Time for one attempt to connect.
    pub connect_timeout: Duration,
    /// Interval of keep-alive packets.
    pub keep_alive: Duration,
}

/// How the box proves to the broker who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCert {
    /// PEM file with the certificate, and those of the authorities between.
    pub cert_file: PathBuf,
    /// PEM file with its private key.
    pub key_file: PathBuf,
}

/// Bounds and rhythm of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentConfig {
    /// Messages kept in the outbox until the broker has them.
    pub outbox_events: u64,
    /// Bytes of messages kept in the outbox.
    pub outbox_bytes: u64,
    /// Interval of telemetry.
    pub telemetry: Duration,
    /// Time between two looks of the heartbeat; absent: none is taken.
    pub heartbeat: Option<Duration>,
}

/// How the agent's notes are found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryConfig {
    /// The folder of a model of sentences that was named.
    pub model: Option<PathBuf>,
    /// Where one is looked for when none was named; the first that is there is it.
    pub usual: Vec<PathBuf>,
}

/// Where the agent serves its API.
#[derive(Debug, Clone)]
pub struct AgentApiConfig {
    /// Unix socket.
    pub socket: PathBuf,
    /// Permission bits of that socket: the authority to use the API there.
    pub socket_mode: u32,
    /// The same over TCP; absent: only the socket.
    pub tcp: Option<TcpApiConfig>,
}

/// The agent's API over TCP.
#[derive(Debug, Clone)]
pub struct TcpApiConfig {
    /// Address and port; a loopback address.
    pub listen: SocketAddr,
    /// Where the token is that is the authority to use the API there.
    pub token: SecretSource,
}

/// A model of language and what it may cost.
#[derive(Debug, Clone)]
pub struct LlmConfig {
    /// Who serves it.
    pub provider: String,
    /// Another address than the provider's.
    pub base_url: Option<String>,
    /// The key, where it was written.
    pub key: Option<SecretString>,
    /// A file with the key.
    pub key_file: Option<PathBuf>,
    /// Another model than the provider's small one.
    pub model: Option<String>,
    /// Another model than the provider's medium one.
    pub large_model: Option<String>,
    /// A model file of the owner's, which adds to the one that is built in.
    pub models_file: Option<PathBuf>,
    /// Whether a model looks at the pictures of doubtful events.
    pub second_opinion: bool,
    /// Most calls within sixty minutes.
    pub calls_per_hour: u32,
    /// Most tokens of one call.
    pub tokens_per_call: u64,
    /// Longest silence before and within an answer.
    pub idle_timeout: Duration,
    /// How many times as long as usual a whole job may take.
    pub timeout_factor: u32,
    /// Most money a day, in US dollars.
    pub day_usd: f64,
    /// Most money a month, in US dollars.
    pub month_usd: f64,
}

/// Where models are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelsConfig {
    /// The folder of model files that was named.
    pub dir: Option<PathBuf>,
    /// The user's own folder of model files; absent for root.
    pub own_dir: Option<PathBuf>,
    /// Address of a folder that files are fetched from; absent: the published addresses.
    pub mirror: Option<String>,
    /// Model for workflows that name none; absent: `yolox-nano` where its file is here, else `motion`.
    pub default: Option<String>,
}

impl ModelsConfig {
    /// Folders of model files: the one that was named, else the user's own and the box's. The first that has a model wins,
    /// and new ones go to the first.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        match &self.dir {
            Some(dir) => vec![dir.clone()],
            None => self
                .own_dir
                .iter()
                .cloned()
                .chain([PathBuf::from(SYSTEM_MODELS)])
                .collect(),
        }
    }
}

/// Reads every layer and checks the result.
///
/// # Errors
/// Everything that is wrong outside `[sources]` and `[pipelines]`, in the order of the keys. What is wrong inside
/// those two is in [`Config::warnings`], and the entry is left out.
pub fn load(request: &LoadRequest) -> Result<Config, Vec<ConfigError>> {
    let report = report(request, &|_, _| Findings::default());
    match report.config {
        Some(config) => Ok(config),
        None => Err(report.errors),
    }
}

/// Everything that can be said about a configuration without running it.
#[derive(Debug, Default)]
pub struct Report {
    /// What keeps the daemons from starting.
    pub errors: Vec<ConfigError>,
    /// What would be left out, or would not work, while the rest runs.
    pub warnings: Vec<ConfigError>,
    /// What is right and may still surprise.
    pub notes: Vec<String>,
    /// The file that was read; absent when there is none.
    pub file: Option<PathBuf>,
    /// The configuration, when there are no errors.
    pub config: Option<Config>,
}

/// What is left out for what is wrong in it, as far as it could be read, so that the rest of it can be looked at too.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Sources.
    pub sources: Vec<SourceSpec>,
    /// Pipelines.
    pub pipelines: Vec<PipelineDraft>,
}

/// A pipeline with something wrong in it.
#[derive(Debug)]
pub struct PipelineDraft {
    /// What could be read. A workflow that could not is `null`.
    pub spec: PipelineSpec,
    /// Position among the written rules of each rule that could be read.
    pub rules: Vec<usize>,
}

/// Looks closer at a configuration and at what is left out of it.
pub type Look<'l> = &'l dyn Fn(&Config, &LeftOut) -> Findings;

/// What a closer look at a configuration finds.
#[derive(Debug, Default)]
pub struct Findings {
    /// What is wrong, by key; where it was written is added by [`check()`].
    pub errors: Vec<ConfigError>,
    /// What is right and may still surprise.
    pub notes: Vec<String>,
}

/// As [`load`], and reports all of it at once. `look` looks closer, at what this crate knows nothing about; it sees a configuration in which
/// defaults stand for what is wrong.
#[must_use]
pub fn check(request: &LoadRequest, look: Look<'_>) -> Report {
    report(request, look)
}

fn report(request: &LoadRequest, look: Look<'_>) -> Report {
    let merged = match layers::merge(request) {
        Ok(merged) => merged,
        Err(error) => {
            return Report {
                errors: vec![*error],
                ..Report::default()
            };
        }
    };
    let read = raw::read(&merged);
    let checked = check::check(&read, request);
    let mut report = Report {
        errors: checked.errors,
        warnings: checked.config.warnings.clone(),
        file: merged.file.as_ref().map(|(path, _)| path.clone()),
        ..Report::default()
    };
    let mut found = look(&checked.config, &checked.left_out);
    for error in &mut found.errors {
        error.origin = check::origin(&read, &error.key);
    }
    report.warnings.extend(found.errors);
    report.notes = found.notes;
    let mut config = checked.config;
    let errors = report.errors.iter_mut().chain(&mut report.warnings);
    for error in errors.chain(&mut config.warnings) {
        place(error, merged.file.as_ref());
    }
    report.config = report.errors.is_empty().then_some(config);
    report
}

/// Adds the line; what is missing is placed at the section it is missing in.
fn place(error: &mut ConfigError, file: Option<&(PathBuf, lines::Lines)>) {
    let Some((path, lines)) = file.filter(|_| !error.key.is_empty()) else {
        return;
    };
    match &error.origin {
        Origin::File(_) => error.line = lines.find(&error.key),
        Origin::Default => {
            if let Some(line) = lines.find(&error.key) {
                error.origin = Origin::File(path.clone());
                error.line = Some(line);
            }
        }
        Origin::Variable(_) | Origin::Flag(_) => {}
    }
}
