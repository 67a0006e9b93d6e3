//! What an agent needs to start, read from the configuration.

use std::path::PathBuf;
use std::time::Duration;

use watchkeeper_config::{
    AgentApiConfig, ArchiveConfig, AuditConfig, ChannelConfig, Config, JobLimitsConfig,
    JobToolsConfig, LlmConfig, LookConfig, LookupConfig, MemoryConfig, PermissionsConfig,
    ReferencesConfig, ScheduleConfig, SinksConfig,
};
use watchkeeper_contract::id::{BoxId, SiteId};

use crate::fleet::mqtt::broker::{Broker, Keys};
use crate::fleet::outbox::{ClassLimits, Limits};

/// Timeout of a second opinion: its recipients know the event and should not wait much longer.
const OPINION_TIMEOUT: Duration = Duration::from_secs(20);

/// Dependencies of an agent at its start.
#[derive(Debug, Clone)]
pub struct Setup {
    pub site: SiteId,
    pub box_id: BoxId,
    /// Folder for everything that must survive a restart.
    pub state_dir: PathBuf,
    pub runtime_socket: PathBuf,
    /// Absent: nothing is published over MQTT.
    pub broker: Option<Broker>,
    /// Bounds of the outbox.
    pub limits: Limits,
    /// Interval of telemetry.
    pub telemetry_every: Duration,
    /// Hosts and folders that effects of workflows may use.
    pub sinks: SinksConfig,
    /// Notification channels of the configuration.
    pub channels: Vec<ChannelConfig>,
    /// Absent: no second opinions.
    pub opinions: Option<OpinionSetup>,
    /// Look-ups for the chains of rules.
    pub lookups: Vec<LookupConfig>,
    /// How chains compare pictures.
    pub references: ReferencesConfig,
    /// Absent: no API is served.
    pub api: Option<ApiSetup>,
    /// Absent: no heartbeat.
    pub heartbeat: Option<HeartbeatSetup>,
    /// How notes are searched.
    pub memory: MemoryConfig,
    /// Retention of the audit log.
    pub audit: AuditConfig,
    /// Retention of jobs.
    pub job_limits: JobLimitsConfig,
    /// What tools of jobs may do.
    pub job_tools: JobToolsConfig,
    /// Schedules of jobs.
    pub schedules: Vec<ScheduleConfig>,
}

/// Setup of the heartbeat.
#[derive(Debug, Clone)]
pub struct HeartbeatSetup {
    /// Time between two checks.
    pub every: Duration,
    /// Frames that the LLM looks at; absent: none.
    pub look: Option<LookConfig>,
    /// Asked about findings. Where several setups have an LLM it is the same: they share a ledger.
    pub llm: Option<LlmConfig>,
}

/// Setup of the agent's API.
#[derive(Debug, Clone)]
pub struct ApiSetup {
    /// Addresses of the API.
    pub config: AgentApiConfig,
    /// Used by conversations. Where several setups have an LLM it is the same: they share a ledger.
    pub llm: Option<LlmConfig>,
    /// The detection model that the configuration prefers.
    pub preferred: Option<String>,
    /// Changes that need no confirmation.
    pub policy: PermissionsConfig,
    /// Bounds and tiers of the archive.
    pub archive: ArchiveConfig,
}

/// Setup of second opinions.
#[derive(Debug, Clone)]
pub struct OpinionSetup {
    /// The model, with its budget.
    pub llm: LlmConfig,
    /// Time that the model has for one event.
    pub time: Duration,
}

impl Setup {
    /// The setup that `config` describes.
    pub fn of(config: &Config) -> Self {
        let agent = config.agent;
        let asked = config.llm.as_ref().filter(|llm| llm.second_opinion);
        Self {
            site: config.site.clone(),
            box_id: config.box_id.clone(),
            state_dir: config.state_dir.clone(),
            runtime_socket: config.runtime_socket.clone(),
            broker: config.mqtt.clone().map(|settings| Broker {
                settings,
                keys: Keys::OWN,
            }),
            limits: Limits {
                events: ClassLimits {
                    entries: usize::try_from(agent.outbox_events).unwrap_or(usize::MAX),
                    bytes: agent.outbox_bytes,
                },
                ..Limits::default()
            },
            telemetry_every: agent.telemetry,
            sinks: config.sinks.clone(),
            channels: config.channels.clone(),
            opinions: asked.map(|llm| OpinionSetup {
                llm: llm.clone(),
                time: OPINION_TIMEOUT,
            }),
            lookups: config.lookups.clone(),
            references: config.references.clone(),
            api: Some(ApiSetup {
                config: config.agent_api.clone(),
                policy: config.permissions.clone(),
                archive: config.archive.clone(),
                llm: config.llm.clone(),
                preferred: config.models.default.clone(),
            }),
            heartbeat: agent.heartbeat.map(|every| HeartbeatSetup {
                every,
                look: config.look.clone(),
                llm: config.llm.clone(),
            }),
            memory: config.memory.clone(),
            audit: agent.audit,
            job_limits: agent.job_limits,
            job_tools: config.job_tools(),
            schedules: config.jobs.clone(),
        }
    }

    /// The language model that all parts share, where one is configured.
    pub(super) fn llm(&self) -> Option<&LlmConfig> {
        let opinions = self.opinions.as_ref().map(|opinions| &opinions.llm);
        opinions
            .or_else(|| self.api.as_ref()?.llm.as_ref())
            .or_else(|| self.heartbeat.as_ref()?.llm.as_ref())
    }
}
