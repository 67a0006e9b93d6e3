//! One configuration file, checked before anything starts.
//!
//! Owns the way from a TOML file, `WATCHKEEPER_SECTION__KEY` variables and flags to a [`Config`]
//! without errors. Owns how addresses of sources are parsed and shown ([`address`], [`redact`]).
//!
//! - Every key is declared once in [`keys`]: its kind, default and bounds drive the check.
//! - [`load`] reports *everything* that is wrong: key, value, what is allowed, and where it was
//!   written.
//! - An error in a source or a pipeline is a warning: it is left out, and the rest runs. For the
//!   runtime, an error in a section that only the agent uses is a warning too.
//!
//! Not here: reading a socket, starting anything, defaults that depend on hardware.

pub mod address;
pub mod archive;
pub mod bounded;
pub mod channels;
mod check;
mod config;
pub mod demo;
mod error;
pub mod jobs;
pub mod keys;
mod layers;
mod lines;
mod loaded_file;
pub mod lookups;
pub mod permissions;
pub mod privacy;
mod raw;
pub mod redact;
pub mod sinks;
mod variables;

use std::path::PathBuf;

pub use archive::{AUTO_EMBEDDING, ArchiveConfig, S3Config};
pub use channels::{ChannelConfig, ChannelKind};
pub use check::MAX_SOCKET_PATH;
pub use config::{
    AgentApiConfig, AgentConfig, AuditConfig, Backend, ClientCert, CommandAccess, Config,
    InferenceConfig, JobLimitsConfig, JobToolsConfig, JournalConfig, LlmConfig, LookConfig,
    LookedAt, MEMORY_MODEL, MODEL_CHECKS, MediaConfig, MemoryConfig, ModelsConfig, MqttConfig,
    PipelineDraft, Precision, RecordingsConfig, SYSTEM_MODELS, SkippedSections, TcpApiConfig,
};
pub use error::{ConfigError, Origin};
pub use jobs::{CronTimes, EventFilter, ScheduleConfig, ScheduledWork, Trigger};
pub use layers::{BrokerLayers, DEFAULT_FILE, ENV_PREFIX, FILE_VARIABLE, LoadRequest, Override};
pub use loaded_file::{DeclaredSections, LoadedFile};
pub use lookups::{LookupConfig, LookupKind, LookupValue, ReferencesConfig};
pub use permissions::{ChangeKind, PermissionsConfig, ToolEffect, ToolsConfig};
pub use privacy::PrivacyMasks;
pub use sinks::{HostRule, SecretSource, SinksConfig};

/// Reads every layer and checks the result.
///
/// # Errors
/// Everything that is wrong outside `[sources]` and `[pipelines]`: variables and flags, then the
/// file by its lines. Errors inside those two are in [`Config::warnings`], and the entry is left
/// out.
pub fn load(request: &LoadRequest) -> Result<Config, Vec<ConfigError>> {
    let report = report(request, &|_, _| Findings::default());
    match report.config {
        Some(config) => Ok(config),
        None => Err(report.errors),
    }
}

/// Reads the usable part: defaults replace wrong values, and a file that is not TOML.
///
/// For commands that need little of it, such as the path of a socket. Returns the errors too.
#[must_use]
pub fn load_usable(request: &LoadRequest) -> (Config, Vec<ConfigError>) {
    let (merged, unreadable) = match layers::merge(request) {
        Ok(merged) => (merged, None),
        Err(error) => (layers::merge_without_file(request), Some(*error)),
    };
    let checked = check::check(&raw::read(&merged), request);
    let mut errors: Vec<ConfigError> = unreadable.into_iter().chain(checked.errors).collect();
    for error in &mut errors {
        place(error, merged.file.as_ref());
    }
    (checked.config, errors)
}

/// Returns what holds in the end, in the shape of the file: it loads again, without secrets.
/// `config` is what [`load`] made of this request.
#[must_use]
pub fn effective(request: &LoadRequest, config: &Config) -> serde_json::Value {
    let merged = layers::merge(request).unwrap_or_else(|_| layers::merge_without_file(request));
    check::effective(&raw::read(&merged), request, config)
}

/// Result of checking a configuration without running it. Errors are in the order of the lines;
/// those of variables and flags come first.
#[derive(Debug, Default)]
pub struct Report {
    /// Errors that keep the daemons from starting.
    pub errors: Vec<ConfigError>,
    /// Errors that leave something out while the rest runs.
    pub warnings: Vec<ConfigError>,
    /// Remarks on settings without error.
    pub notes: Vec<String>,
    /// File that was read; absent when there is none.
    pub file: Option<PathBuf>,
    /// The configuration, when there are no errors.
    pub config: Option<Config>,
}

/// Inspects a configuration and the sections left out of it.
pub type Inspector<'l> = &'l dyn Fn(&Config, &SkippedSections) -> Findings;

/// Findings of an [`Inspector`].
#[derive(Debug, Default)]
pub struct Findings {
    /// Errors that keep a daemon from starting, by key; [`check()`] adds where they were written.
    pub fatal: Vec<ConfigError>,
    /// Errors that leave something out while the rest runs, by key.
    pub errors: Vec<ConfigError>,
    /// Remarks on settings without error.
    pub notes: Vec<String>,
}

/// Reads and checks like [`load`], and returns every finding at once.
///
/// `inspector` checks what this crate can't; it sees defaults in the place of wrong values.
#[must_use]
pub fn check(request: &LoadRequest, inspector: Inspector<'_>) -> Report {
    report(request, inspector)
}

fn report(request: &LoadRequest, inspector: Inspector<'_>) -> Report {
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
    let mut found = inspector(&checked.config, &checked.skipped);
    for error in found.fatal.iter_mut().chain(&mut found.errors) {
        error.origin = check::origin(&read, &error.key);
    }
    report.errors.extend(found.fatal);
    report.warnings.extend(found.errors);
    report.notes = found.notes;
    report.notes.extend(variables::notes(request, &read));
    report
        .notes
        .extend(check::same_names(&checked.config.sources));
    if checked.skipped.has_unread {
        let note = "sections with an error are checked further once their errors are corrected";
        report.notes.push(note.to_owned());
    }
    let mut config = checked.config;
    let without_login = config.mqtt.as_ref().filter(|mqtt| !mqtt.has_login());
    report
        .notes
        .extend(without_login.map(config::MqttConfig::describe_commands));
    let errors = report.errors.iter_mut().chain(&mut report.warnings);
    for error in errors.chain(&mut config.warnings) {
        place(error, merged.file.as_ref());
    }
    report.errors.sort_by_key(|error| error.line);
    report.warnings.sort_by_key(|warning| warning.line);
    report.config = report.errors.is_empty().then_some(config);
    report
}

/// Adds the line of an error; a missing key gets the line of its section.
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
