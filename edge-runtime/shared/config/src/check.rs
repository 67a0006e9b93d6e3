//! Second stage: makes a [`Config`] of values that are each good.
//!
//! Reads the files that the configuration names (workflows, the password) and resolves keys that
//! depend on each other. An error in a source or a pipeline becomes a warning.

mod agent;
mod archive;
mod effective;
mod jobs;
mod lenient;
mod lookups;
mod outside;
mod privacy;
mod values;
mod watching;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use watchkeeper_contract::id::{BoxId, MAX_NAME_LEN, SiteId, SourceId};
use watchkeeper_contract::source::SourceSpec;

use self::values::Values;
pub(crate) use self::values::origin;
use crate::config::{
    AgentConfig, AuditConfig, Backend, Config, InferenceConfig, JobLimitsConfig, JournalConfig,
    MEMORY_MODEL, MediaConfig, MemoryConfig, ModelsConfig, Precision, RecordingsConfig,
    SkippedSections,
};
use crate::error::ConfigError;
use crate::layers::LoadRequest;
use crate::loaded_file::DeclaredSections;
use crate::raw::Read;

/// Folder of a user's own models below that of their data.
const OWN_MODELS: &str = "watchkeeper/models";

/// Longest path of a socket in bytes: `sun_path` has 108, with a terminator (unix(7)), and the
/// socket is bound under its name with `.new` first.
pub const MAX_SOCKET_PATH: usize = 103;

/// Result of the second stage.
///
/// With errors, the configuration holds defaults in their place: good enough to inspect, not to
/// run.
pub(crate) struct Checked {
    pub(crate) errors: Vec<ConfigError>,
    pub(crate) config: Config,
    pub(crate) skipped: SkippedSections,
}

/// Whether an error leaves out its section, and the rest runs.
fn degrades(error: &ConfigError) -> bool {
    let mut parts = ["sources.", "pipelines.", "agent.jobs."].iter();
    parts.any(|part| error.key.starts_with(part))
}

/// Notes cameras that are shown under one name.
pub(crate) fn same_names(sources: &[SourceSpec]) -> Vec<String> {
    let mut seen: BTreeMap<&str, &SourceId> = BTreeMap::new();
    let notes = sources.iter().filter_map(|source| {
        let (name, id) = (source.name.as_ref()?.as_str(), &source.id);
        let first = *seen.entry(name).or_insert(id);
        (first != id).then(|| {
            format!(
                "sources.{id}.name: camera {first} has the name {name:?} too, so texts do not show \
                 which of them is meant"
            )
        })
    });
    notes.collect()
}

/// Makes a configuration of the values.
pub(crate) fn check(read: &Read, request: &LoadRequest) -> Checked {
    let (mut warnings, mut errors): (Vec<_>, Vec<_>) =
        read.errors.iter().cloned().partition(degrades);
    let values = Values {
        read,
        base: request.base_dir(),
    };

    let site = values.name("box.site", SiteId::new, &mut errors);
    let box_id = box_id(&values, request, &mut errors);
    let mut skipped = SkippedSections::default();
    let privacy = privacy::masks(&values, &mut warnings);
    let sources = watching::sources(&values, &mut warnings, &mut skipped);
    let pipelines = watching::pipelines(&values, &sources, &mut warnings, &mut skipped);
    let (site_id, id) = (site.as_ref(), box_id.as_ref());
    let mqtt = agent::mqtt(&values, site_id, id, &mut errors, &mut warnings);
    let models = models(&values, request, &mut errors);
    let llm = agent::llm(&values, &mut errors);
    let sinks = outside::sinks(&values, &mut errors);
    let channels = outside::channels(&values, &mut errors);
    outside::unknown_channels(&values, &mut warnings);
    let mut config = Config {
        site: site.unwrap_or_else(|| name_of("site")),
        box_id: box_id.unwrap_or_else(|| name_of("box")),
        state_dir: values.path("runtime.state_dir").unwrap_or_default(),
        runtime_socket: values.path("runtime.socket").unwrap_or_default(),
        socket_mode: values.mode("runtime.socket_mode"),
        inference: inference(&values),
        journal: journal(&values),
        media: media(&values),
        recordings: recordings(&values),
        history_bytes: values.whole_or_zero("runtime.history_bytes"),
        dry_run_roots: values.folders("runtime.dry_run_roots", &mut errors),
        crash_loop_limit: values.whole_or_zero("runtime.crash_loop_limit"),
        sources,
        privacy,
        pipelines,
        mqtt,
        agent: agent_bounds(&values),
        look: agent::look(&values, &mut errors),
        lookups: lookups::lookups(&values, &mut errors, &mut skipped),
        references: lookups::references(&values),
        memory: memory(&values, &models),
        agent_api: agent::api(&values, &mut errors),
        archive: archive::archive(&values, &mut errors),
        permissions: agent::permissions(&values),
        models,
        llm,
        sinks,
        channels,
        jobs: jobs::schedules(&values, &mut warnings),
        warnings,
        file: read.file.clone(),
        declared: declared(&values),
    };
    errors.extend(long_sockets(&values, &config));
    config.warnings.extend(take_unused(request, &mut errors));
    Checked {
        errors,
        config,
        skipped,
    }
}

/// Removes the errors in sections that this process does not use.
fn take_unused(request: &LoadRequest, errors: &mut Vec<ConfigError>) -> Vec<ConfigError> {
    let is_unused = |error: &mut ConfigError| {
        let section = error.key.split(['.', '[']).next().unwrap_or_default();
        request.unused.contains(&section)
    };
    errors.extract_if(.., is_unused).collect()
}

/// Refuses the paths of sockets that the system does not take.
fn long_sockets(values: &Values<'_>, config: &Config) -> impl Iterator<Item = ConfigError> {
    let sockets = [
        ("runtime.socket", &config.runtime_socket),
        ("agent.api.socket", &config.agent_api.socket),
    ];
    sockets
        .into_iter()
        .filter_map(move |(key, path)| long_socket(values, key, path))
}

fn long_socket(values: &Values<'_>, key: &str, path: &Path) -> Option<ConfigError> {
    let bytes = path.as_os_str().len();
    (bytes > MAX_SOCKET_PATH).then(|| {
        let problem = format!(
            "the path of this socket has {bytes} bytes, and the system takes {MAX_SOCKET_PATH}"
        );
        let error = values.error(key, problem).found(path.display().to_string());
        error.remedy("choose a shorter one")
    })
}

/// Returns the configuration in the shape of the file; `config` was made of the same layers.
pub(crate) fn effective(read: &Read, request: &LoadRequest, config: &Config) -> serde_json::Value {
    let values = Values {
        read,
        base: request.base_dir(),
    };
    effective::effective(&values, config)
}

fn declared(values: &Values<'_>) -> Option<DeclaredSections> {
    let names = |section| values.names(section).map(str::to_owned).collect();
    values.read.file.as_ref().map(|_| DeclaredSections {
        sources: names("sources"),
        pipelines: names("pipelines"),
    })
}

fn media(values: &Values<'_>) -> MediaConfig {
    MediaConfig {
        max_bytes: values.whole_or_zero("runtime.media_bytes"),
    }
}

fn journal(values: &Values<'_>) -> JournalConfig {
    JournalConfig {
        max_events: values.whole_or_zero("runtime.journal_events"),
        max_bytes: values.whole_or_zero("runtime.journal_bytes"),
    }
}

fn recordings(values: &Values<'_>) -> RecordingsConfig {
    RecordingsConfig {
        max_bytes: values.whole_or_zero("runtime.recording_bytes"),
        max_age: values.seconds("runtime.recording_days") * 86_400,
    }
}

fn inference(values: &Values<'_>) -> InferenceConfig {
    InferenceConfig {
        backend: values
            .choice("runtime.inference.backend")
            .unwrap_or(Backend::Auto),
        precision: values
            .choice("runtime.inference.precision")
            .unwrap_or(Precision::Fp16),
        threads: values
            .whole("runtime.inference.threads")
            .and_then(|n| usize::try_from(n).ok()),
        ort_library: values.path("runtime.inference.ort_library"),
        trt_library: values.path("runtime.inference.trt_library"),
        engine_dir: values.path("runtime.inference.engine_dir"),
    }
}

fn agent_bounds(values: &Values<'_>) -> AgentConfig {
    AgentConfig {
        outbox_events: values.whole_or_zero("agent.outbox_events"),
        outbox_bytes: values.whole_or_zero("agent.outbox_bytes"),
        telemetry: values.seconds("agent.telemetry_s"),
        heartbeat: values
            .whole("agent.heartbeat.interval_min")
            .map(|minutes| Duration::from_secs(60 * minutes)),
        audit: AuditConfig {
            max_days: values.whole_or_zero("agent.audit.max_days"),
            max_bytes: values.whole_or_zero("agent.audit.max_bytes"),
        },
        job_faces: values.switch("agent.job_tools.faces"),
        job_limits: JobLimitsConfig {
            max_jobs: values.whole_or_zero("agent.job_limits.max_jobs"),
            max_bytes: values.whole_or_zero("agent.job_limits.max_bytes"),
            max_days: values.whole_or_zero("agent.job_limits.max_days"),
        },
    }
}

fn models(
    values: &Values<'_>,
    request: &LoadRequest,
    errors: &mut Vec<ConfigError>,
) -> ModelsConfig {
    ModelsConfig {
        dir: values.path("models.dir"),
        own_dir: request.data_home.as_ref().map(|d| d.join(OWN_MODELS)),
        mirror: mirror(values, errors),
        default: values.text("models.default"),
    }
}

fn memory(values: &Values<'_>, models: &ModelsConfig) -> MemoryConfig {
    let folders = models.folders().into_iter();
    MemoryConfig {
        model: values.path("agent.memory.model"),
        usual: folders.map(|folder| folder.join(MEMORY_MODEL)).collect(),
    }
}

/// Makes a name from a literal.
fn name_of<T>(name: &str) -> T
where
    T: TryFrom<String>,
    T::Error: std::fmt::Debug,
{
    T::try_from(name.to_owned()).expect("our own names are names")
}

/// Reads the name of the box; without one it is that of the host.
fn box_id(
    values: &Values<'_>,
    request: &LoadRequest,
    errors: &mut Vec<ConfigError>,
) -> Option<BoxId> {
    match values.text("box.id") {
        Some(_) => values.name("box.id", BoxId::new, errors),
        None => BoxId::new(sanitise(&request.hostname)).ok(),
    }
}

/// Makes a box's name of a host name.
fn sanitise(hostname: &str) -> String {
    let short = hostname.split('.').next().unwrap_or_default();
    let name: String = short
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' {
                c
            } else {
                '-'
            }
        })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(MAX_NAME_LEN)
        .collect();
    if name.is_empty() {
        "box".to_owned()
    } else {
        name
    }
}

/// Reads the address of the mirror. It is printed with every failure, so it must hold no login.
fn mirror(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<String> {
    const KEY: &str = "models.mirror";
    let address = values.text(KEY)?;
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| address.strip_prefix(scheme));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('@')) {
        return Some(address);
    }
    errors.push(
        values
            .error(KEY, "is not allowed")
            .allowed("http://… or https://…, without a login"),
    );
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_becomes_a_valid_box_name() {
        for (host, name) in [
            ("Jetson-01.local", "jetson-01"),
            ("--gate", "gate"),
            ("kühlhaus", "k-hlhaus"),
            ("", "box"),
            ("...", "box"),
        ] {
            assert_eq!(sanitise(host), name);
            assert!(BoxId::new(sanitise(host)).is_ok());
        }
        assert!(BoxId::new(sanitise(&"x".repeat(200))).is_ok());
    }
}
