//! The checked configuration, as the daemons use it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{BoxId, SiteId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::privacy::PrivacyMask;
use watchkeeper_contract::rule::Schedule;
use watchkeeper_contract::source::SourceSpec;

use crate::archive::ArchiveConfig;
use crate::channels::ChannelConfig;
use crate::error::ConfigError;
use crate::jobs::ScheduleConfig;
use crate::loaded_file::{DeclaredSections, LoadedFile};
use crate::lookups::{LookupConfig, ReferencesConfig};
use crate::permissions::PermissionsConfig;
use crate::sinks::{SecretSource, SinksConfig};

/// Folder of the sentence embedding model below that of the models.
pub const MEMORY_MODEL: &str = "memory";

/// The box's folder of models, unless the configuration names another.
pub const SYSTEM_MODELS: &str = "/var/lib/watchkeeper/models";

/// Name of the folder of models' checks in a state folder.
pub const MODEL_CHECKS: &str = "model-checks";

/// Name of the folders of fetched libraries: in the state folder, and beside folders of models.
const LIBRARIES: &str = "lib";

/// A configuration as the daemons use it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Site of the box; a level of every MQTT topic.
    pub site: SiteId,
    /// Name of the box; a level of every MQTT topic.
    pub box_id: BoxId,
    /// Folder for everything that must survive a restart.
    pub state_dir: PathBuf,
    /// Unix socket that the runtime serves and the agent calls.
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
    /// Most bytes of the detection history; 0: none is kept.
    pub history_bytes: u64,
    /// Folders below which a dry run may read files.
    pub dry_run_roots: Vec<PathBuf>,
    /// Early deaths of the runtime after which changed pipelines are held; 0: never.
    pub crash_loop_limit: u32,
    /// Sources declared without error, in the order of their names.
    pub sources: Vec<SourceSpec>,
    /// Privacy masks of declared sources, also of those that were left out.
    pub privacy: Vec<PrivacyMask>,
    /// Pipelines declared without error, as is their source, in the order of their names.
    pub pipelines: Vec<PipelineSpec>,
    /// The broker; absent when no host is set.
    pub mqtt: Option<MqttConfig>,
    /// Bounds and intervals of the agent.
    pub agent: AgentConfig,
    /// Absent: no frame is looked at.
    pub look: Option<LookConfig>,
    /// Look-ups for the chains of rules, in the order of their names.
    pub lookups: Vec<LookupConfig>,
    /// How pictures of events are compared with reference pictures.
    pub references: ReferencesConfig,
    /// How the agent's notes are searched.
    pub memory: MemoryConfig,
    /// Settings of the agent's API.
    pub agent_api: AgentApiConfig,
    /// Bounds and tiers of the archive.
    pub archive: ArchiveConfig,
    /// Changes confirmed in advance, and what tools of a language model may do.
    pub permissions: PermissionsConfig,
    /// Where models are found.
    pub models: ModelsConfig,
    /// The language model; absent when no provider is named.
    pub llm: Option<LlmConfig>,
    /// Effects that workflows may have.
    pub sinks: SinksConfig,
    /// Notification channels, in the order of the names.
    pub channels: Vec<ChannelConfig>,
    /// Schedules of jobs, in the order of their names.
    pub jobs: Vec<ScheduleConfig>,
    /// Errors that do not stop the rest: sources and pipelines that were left out.
    pub warnings: Vec<ConfigError>,
    /// Absent if no file was read.
    pub file: Option<LoadedFile>,
    /// Sections that the file has; absent if no file was read.
    pub declared: Option<DeclaredSections>,
}

impl Config {
    /// Returns what tools of jobs may use.
    #[must_use]
    pub fn job_tools(&self) -> JobToolsConfig {
        JobToolsConfig {
            embedding: self.archive.embedding.clone(),
            faces: self.agent.job_faces,
        }
    }

    /// Lists the folders of fetched libraries: the user's own, that of the state folder, the box's.
    ///
    /// New ones go to the first.
    #[must_use]
    pub fn library_folders(&self) -> Vec<PathBuf> {
        let beside = |models: &Path| models.with_file_name(LIBRARIES);
        let own = self.models.own_dir.as_deref().map(beside);
        let others = [self.state_libraries(), beside(Path::new(SYSTEM_MODELS))];
        let mut folders: Vec<PathBuf> = own.into_iter().chain(others).collect();
        folders.dedup();
        folders
    }

    /// The folder of fetched libraries in the state folder.
    #[must_use]
    pub fn state_libraries(&self) -> PathBuf {
        self.state_dir.join(LIBRARIES)
    }
}

/// How models are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferenceConfig {
    pub backend: Backend,
    pub precision: Precision,
    /// Threads of one inference; absent: one per core, at most two.
    pub threads: Option<usize>,
    /// ONNX Runtime's shared library; absent: the system's search path.
    pub ort_library: Option<PathBuf>,
    /// `libwk_trt.so`; absent: the system's folders.
    pub trt_library: Option<PathBuf>,
    /// Folder of TensorRT's engines; absent: `engines` in the state folder.
    pub engine_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `trt` or `ort` when its library loads, else `rten`.
    Auto,
    /// The engine in pure Rust.
    Rten,
    /// ONNX Runtime, opened at run time.
    Ort,
    /// TensorRT, through a shim that is opened at run time.
    Trt,
}

/// The precision in which networks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Precision of the file.
    Fp32,
    /// On TensorRT float16 where little is lost; elsewhere that of the file.
    Fp16,
    /// The network of a calibration, where one was kept.
    Int8,
}

/// Bounds of the event journal. The bound that is reached first drops the oldest records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalConfig {
    /// Most records kept.
    pub max_events: u64,
    /// Most bytes of records kept.
    pub max_bytes: u64,
}

/// Bounds of kept pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaConfig {
    /// Most bytes of pictures and clips; those of critical events are deleted last.
    pub max_bytes: u64,
}

/// Bounds of annotated videos. The bound that is reached first deletes the oldest parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingsConfig {
    /// Most bytes of all parts.
    pub max_bytes: u64,
    /// Greatest age of a part.
    pub max_age: Duration,
}

/// How to reach the broker.
#[derive(Debug, Clone)]
pub struct MqttConfig {
    /// Host name or address.
    pub host: String,
    pub port: u16,
    /// Client id; unique at the broker.
    pub client_id: String,
    pub username: Option<String>,
    /// Password, from the key or the file; never printed.
    pub password: Option<SecretString>,
    /// File of the password, read again at every connect.
    pub password_file: Option<PathBuf>,
    /// Commands that the box accepts from the broker.
    pub commands: CommandAccess,
    /// Whether the connection is TLS.
    pub tls: bool,
    /// PEM file with the authorities to trust; absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// Client certificate; absent: none is sent.
    pub client_cert: Option<ClientCert>,
    /// Time for one attempt to connect.
    pub connect_timeout: Duration,
    /// Interval of keep-alive packets.
    pub keep_alive: Duration,
}

impl MqttConfig {
    /// Whether the configuration makes the box known to the broker, which then asks its other
    /// clients for a login too.
    #[must_use]
    pub fn has_login(&self) -> bool {
        self.username.is_some() || self.client_cert.is_some()
    }

    /// Describes who can command the box.
    #[must_use]
    pub fn describe_commands(&self) -> String {
        match (self.commands, self.has_login()) {
            (CommandAccess::Off, _) => "mqtt.commands is off: the box accepts none".to_owned(),
            (commands, true) => format!(
                "mqtt.commands is {commands}: everyone whom the broker lets publish below cmd/ \
                 commands this box"
            ),
            (commands, false) => format!(
                "mqtt.commands is {commands} and there is no login: everyone who reaches the \
                 broker commands this box"
            ),
        }
    }
}

/// Commands that the box accepts from its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandAccess {
    Off,
    /// Those that change neither cameras nor pipelines.
    Read,
    All,
}

impl CommandAccess {
    /// Every value in the configuration.
    pub const NAMES: &[&str] = &["off", "read", "all"];
}

impl fmt::Display for CommandAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Read => "read",
            Self::All => "all",
        })
    }
}

/// Client certificate and key, for a broker that asks for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCert {
    /// PEM file with the certificate, and those of the authorities between.
    pub cert_file: PathBuf,
    /// PEM file with its private key.
    pub key_file: PathBuf,
}

/// Bounds and intervals of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentConfig {
    /// Most messages in the outbox.
    pub outbox_events: u64,
    /// Most bytes of messages in the outbox.
    pub outbox_bytes: u64,
    /// Interval of telemetry.
    pub telemetry: Duration,
    /// Interval of the heartbeat; absent: off.
    pub heartbeat: Option<Duration>,
    pub audit: AuditConfig,
    /// Retention of jobs, of the agent and of each user.
    pub job_limits: JobLimitsConfig,
    /// Whether jobs may look for faces.
    pub job_faces: bool,
}

/// Permissions of the tools of jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobToolsConfig {
    /// Model for likeness, as the archive's; absent: an installed one.
    pub embedding: Option<String>,
    /// Whether faces may be looked for.
    pub faces: bool,
}

/// Bounds of stored jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimitsConfig {
    pub max_jobs: usize,
    /// Most bytes in the jobs' own folders.
    pub max_bytes: u64,
    /// Days after its end after which a job is removed.
    pub max_days: u64,
}

/// Retention of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditConfig {
    /// Longest time that a record is kept, in days.
    pub max_days: u64,
    /// Most bytes of the log.
    pub max_bytes: u64,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            max_days: 365,
            max_bytes: 64 << 20,
        }
    }
}

/// Settings for the frames that a language model looks at in a heartbeat.
#[derive(Debug, Clone, PartialEq)]
pub struct LookConfig {
    pub cameras: LookedAt,
    /// Most frames of one heartbeat.
    pub frames: usize,
    /// When frames are looked at; absent: always.
    pub schedule: Option<Schedule>,
}

/// Cameras whose frames a language model looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookedAt {
    All,
    These(Vec<SourceId>),
}

/// How the agent's notes are searched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryConfig {
    /// Folder of the sentence embedding model that the configuration names.
    pub model: Option<PathBuf>,
    /// Folders where one is looked for otherwise; the first that exists is used.
    pub usual: Vec<PathBuf>,
}

/// Settings of the agent's API.
#[derive(Debug, Clone)]
pub struct AgentApiConfig {
    pub socket: PathBuf,
    /// Permission bits of that socket: the authority to use the API there.
    pub socket_mode: u32,
    /// The API over TCP; absent: only the socket.
    pub tcp: Option<TcpApiConfig>,
}

/// The agent's API over TCP.
#[derive(Debug, Clone)]
pub struct TcpApiConfig {
    /// A loopback address with its port.
    pub listen: SocketAddr,
    /// Host names that requests may have, besides `localhost` and loopback addresses.
    pub hosts: Vec<String>,
    /// Address by which people reach it, without a slash at its end; links in notifications begin
    /// with it.
    pub public_url: Option<String>,
    /// Token that is the authority to use the API there.
    pub token: SecretSource,
}

/// A language model and what it may cost.
#[derive(Debug, Clone)]
pub struct LlmConfig {
    pub provider: String,
    /// Another address than the provider's.
    pub base_url: Option<String>,
    /// The key, where the configuration holds it.
    pub key: Option<SecretString>,
    /// A file with the key.
    pub key_file: Option<PathBuf>,
    /// The program of the provider `claude-cli`.
    pub program: Option<PathBuf>,
    /// Another model than the provider's small one.
    pub model: Option<String>,
    /// Another model than the provider's large one.
    pub large_model: Option<String>,
    /// The operator's model file, in addition to the built-in one.
    pub models_file: Option<PathBuf>,
    /// A second provider, for blueprints that name it; it has no second provider, and its limits
    /// are these.
    pub second: Option<Box<Self>>,
    /// Whether a model looks at the pictures of `escalate` events.
    pub second_opinion: bool,
    /// Most calls within sixty minutes.
    pub calls_per_hour: u32,
    /// Most tokens of one call.
    pub tokens_per_call: u64,
    /// Longest time without a byte from the provider.
    pub idle_timeout: Duration,
    /// Factor of the timeouts of a whole job.
    pub timeout_factor: u32,
    /// Most money a day, in US dollars.
    pub day_usd: f64,
    /// Most money a month, in US dollars.
    pub month_usd: f64,
}

impl LlmConfig {
    /// Returns the provider, and the second one.
    pub fn providers(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.second.as_deref())
    }
}

/// Where models are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelsConfig {
    /// Folder of model files that the configuration names.
    pub dir: Option<PathBuf>,
    /// The user's own folder of model files; absent for root.
    pub own_dir: Option<PathBuf>,
    /// Address of a folder to fetch files from; absent: the published addresses.
    pub mirror: Option<String>,
    /// Model for workflows that name none; absent: `yolox-nano` or `ssd-mobilenet-v2` where its
    /// file is here, else `motion`.
    pub default: Option<String>,
}

impl ModelsConfig {
    /// Lists the folders of model files: the configured one, else the user's own and the box's.
    ///
    /// The first folder that has a model is used; new models are stored in the first.
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

/// Sections left out because of an error, as far as they could be read, so that their rest can be
/// checked too.
#[derive(Debug, Default)]
pub struct SkippedSections {
    pub sources: Vec<SourceSpec>,
    pub pipelines: Vec<PipelineDraft>,
    /// Names of `[agent.lookups.NAME]`.
    pub lookups: Vec<String>,
    /// Whether something of a section could not be read, and so is not checked further.
    pub has_unread: bool,
}

/// A pipeline with an error in it.
#[derive(Debug)]
pub struct PipelineDraft {
    /// The part that could be read. An unreadable workflow is `null`.
    pub spec: PipelineSpec,
    /// Position among the written rules of each rule that could be read.
    pub rules: Vec<usize>,
}
