//! The command's configuration: loading, `config check` and `config show`.
//!
//! - Invariant: the output of `config show` loads as a configuration and holds no secret.
//! - Not here: the rules of the file (`watchkeeper-config`), and whether the files, models and
//!   folders that it names exist ([`inspect`](super::inspect)).

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;
use watchkeeper_config::{
    AgentApiConfig, Backend, BrokerLayers, ChannelConfig, ChannelKind, Config, ConfigError,
    LlmConfig, LoadRequest, LookConfig, LookedAt, MqttConfig, Origin, Precision, SecretSource,
    SinksConfig, load, load_usable, redact,
};
use watchkeeper_contract::privacy::PrivacyMask;
use watchkeeper_jobs::counted;

use super::args::{ConfigAction, Global};
use super::deployed;
use super::exit::{Exit, Failure};
use super::job_schedules;
use super::lookup_check;
use super::output::Output;

/// Site of a run's topics and client id, which keeps them apart from those of the box.
pub(super) const RUN_SITE: &str = "run";

/// Loads the configuration, overridden by the flags of the command line.
pub(super) fn read(global: &Global) -> Result<Config, Failure> {
    load(&request(global, None)).map_err(|_| invalid(&all_errors(global)))
}

/// Loads what is usable of the configuration; defaults stand in the place of wrong values.
pub(super) fn read_usable(global: &Global) -> Config {
    load_usable(&request(global, None)).0
}

/// Everything that `config check` finds wrong. Every command counts and shows this list.
pub(super) fn all_errors(global: &Global) -> Vec<ConfigError> {
    let report = watchkeeper_config::check(&request(global, None), &super::inspect::check);
    by_line(report.errors, report.warnings)
}

fn by_line(mut errors: Vec<ConfigError>, warnings: Vec<ConfigError>) -> Vec<ConfigError> {
    errors.extend(warnings);
    errors.sort_by_key(|error| error.line);
    errors
}

/// Loads the configuration without the broker's password, which this user may be unable to read.
pub(super) fn read_without_broker(global: &Global) -> Result<Config, Failure> {
    let request = LoadRequest {
        broker: BrokerLayers::Nobody,
        ..request(global, None)
    };
    load(&request).map_err(|_| invalid(&all_errors(global)))
}

/// Loads what is usable of the configuration, for a command that needs only the sockets. Its errors
/// become one note.
pub(super) fn read_for_sockets(global: &Global, out: &Output) -> Config {
    let request = LoadRequest {
        broker: BrokerLayers::Nobody,
        ..request(global, None)
    };
    let (config, errors) = load_usable(&request);
    if errors.is_empty() {
        return config;
    }
    let errors = all_errors(global);
    if let [first, ..] = errors.as_slice() {
        out.aside(&format!(
            "note: the configuration has {}, the first: {first}; `watchkeeper config check` shows all. \
             Using {}",
            counted(errors.len(), "error"),
            config.runtime_socket.display()
        ));
    }
    config
}

/// Loads the configuration of a run with `--mqtt`; `onto` adds the broker's address.
///
/// The file's `[mqtt]` is ignored: it names the box's broker, and its client id would disconnect
/// the box's agent.
pub(super) fn read_for_run(
    global: &Global,
    onto: impl FnOnce(LoadRequest) -> LoadRequest,
) -> Result<Config, Failure> {
    let request = LoadRequest {
        broker: BrokerLayers::Asked,
        ..request(global, None)
    };
    let request = request.with("run", "box.site", Some(RUN_SITE));
    load(&onto(request)).map_err(|errors| invalid(&errors))
}

fn request(global: &Global, file: Option<&Path>) -> LoadRequest {
    let text = |path: &PathBuf| path.display().to_string();
    let file = file.map(Path::to_owned).or_else(|| global.config.clone());
    LoadRequest::from_process(file)
        .with(
            "--socket",
            "runtime.socket",
            global.socket.as_ref().map(text),
        )
        .with(
            "--models-dir",
            "models.dir",
            global.models_dir.as_ref().map(text),
        )
        .with(
            "--backend",
            "runtime.inference.backend",
            global.backend.as_ref(),
        )
}

fn invalid(errors: &[ConfigError]) -> Failure {
    let sentence = format!("the configuration has {}:", counted(errors.len(), "error"));
    Failure::new(Exit::BadInput, sentence).with(errors.iter().map(ToString::to_string))
}

pub(super) fn run(action: ConfigAction, global: &Global, out: &Output) -> Result<(), Failure> {
    match action {
        ConfigAction::Check { file } => check(&request(global, file.as_deref()), out),
        ConfigAction::Show => {
            let config = read(global)?;
            for warning in &config.warnings {
                out.note(warning.to_string());
            }
            let shown = effective(&config);
            out.both(&shown, || {
                toml::to_string_pretty(&shown).unwrap_or_default()
            });
            Ok(())
        }
    }
}

fn check(request: &LoadRequest, out: &Output) -> Result<(), Failure> {
    let watchkeeper_config::Report {
        errors,
        warnings,
        mut notes,
        file,
        config,
    } = watchkeeper_config::check(request, &super::inspect::check);
    if file.is_none() && config.is_some() {
        notes.insert(
            0,
            "no configuration file found; checking defaults and environment variables".to_owned(),
        );
    }
    let deployed = config.as_ref().and_then(deployed::besides);
    if let (Some(config), Some(deployed)) = (&config, &deployed) {
        notes.extend(super::inspect::deployed(config, deployed));
    }
    for note in &notes {
        out.note(note);
    }
    let report = json!({
        "ok": errors.is_empty() && warnings.is_empty(),
        "errors": errors.iter().map(error_object).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(error_object).collect::<Vec<_>>(),
        "notes": notes,
        "file": file,
    });
    out.object(&report);
    match config {
        None => Err(invalid(&by_line(errors, warnings))),
        Some(config) if warnings.is_empty() => {
            let file = file.map(|file| format!(" ({})", file.display()));
            let besides = match deployed {
                Some(deployed) if deployed.is_empty() => String::new(),
                Some(deployed) => format!(" of the file, {} deployed by hand", deployed.len()),
                None => "; no runtime answers, so only the file was checked".to_owned(),
            };
            out.line(format!(
                "the configuration is valid{}: box {} at site {}, {}, {}{besides}",
                file.unwrap_or_default(),
                config.box_id,
                config.site,
                counted(config.sources.len(), "camera"),
                counted(config.pipelines.len(), "pipeline")
            ));
            Ok(())
        }
        Some(_) => {
            let sentence = "warning: the box starts, but these parts do not work:";
            let lines = warnings.iter().map(ToString::to_string);
            Err(Failure::new(Exit::BadInput, sentence).with(lines))
        }
    }
}

fn error_object(error: &ConfigError) -> Value {
    let (kind, name) = match &error.origin {
        Origin::File(path) => ("file", path.display().to_string()),
        Origin::Variable(name) => ("variable", name.clone()),
        Origin::Flag(name) => ("flag", name.clone()),
        Origin::Default => ("default", String::new()),
    };
    json!({
        "key": error.key, "found": error.found, "problem": error.problem, "allowed": error.allowed,
        "nearest": error.nearest, "from": {"kind": kind, "name": name, "line": error.line},
        "message": error.to_string(),
    })
}

/// Returns the effective configuration in the shape of the file; secrets are `***`.
fn effective(config: &Config) -> Value {
    let mut shown = json!({
        "box": {"site": config.site, "id": config.box_id},
        "runtime": runtime_section(config),
        "agent": agent_section(config),
        "models": models_section(config),
    });
    for channel in &config.channels {
        shown["channels"][channel.id.as_str()] = channel_section(channel);
    }
    if let Some(mqtt) = &config.mqtt {
        let mut section = mqtt_section(mqtt);
        set(
            &mut section,
            "password",
            mqtt.password.as_ref().map(|_| "***"),
        );
        shown["mqtt"] = section;
    }
    if let Some(llm) = &config.llm {
        shown["llm"] = llm_section(llm);
    }
    let hidden = |_: &str, _: &SecretString| json!({"value": "***"});
    let section = sinks_section(&config.sinks, |url| redact::uri(url.as_str()), hidden);
    if let Some(section) = section {
        shown["sinks"] = section;
    }
    for source in &config.sources {
        let mut section = serde_json::to_value(source).unwrap_or_default();
        section["uri"] = json!(redact::uri(&source.uri));
        if let Some(mask) = config.privacy.iter().find(|mask| mask.source == source.id) {
            section["privacy"] = privacy_section(mask);
        }
        shown["sources"][source.id.as_str()] = without_id(section);
    }
    for pipeline in &config.pipelines {
        let section = serde_json::to_value(pipeline).unwrap_or_default();
        shown["pipelines"][pipeline.id.as_str()] = without_id(section);
    }
    shown
}

/// Builds the section `[sources.NAME.privacy]`.
pub(super) fn privacy_section(mask: &PrivacyMask) -> Value {
    json!({"regions": mask.regions, "classes": mask.classes, "fill": mask.fill})
}

fn runtime_section(config: &Config) -> Value {
    json!({
        "socket": config.runtime_socket,
        "socket_mode": format!("{:04o}", config.socket_mode),
        "state_dir": config.state_dir,
        "media_bytes": config.media.max_bytes,
        "history_bytes": config.history_bytes,
        "dry_run_roots": config.dry_run_roots,
        "recording_bytes": config.recordings.max_bytes,
        "recording_days": config.recordings.max_age.as_secs_f64() / 86_400.0,
        "crash_loop_limit": config.crash_loop_limit,
        "journal_events": config.journal.max_events,
        "journal_bytes": config.journal.max_bytes,
        "inference": inference_section(config, config.inference.ort_library.as_deref()),
    })
}

fn agent_section(config: &Config) -> Value {
    let mut section = json!({
        "outbox_events": config.agent.outbox_events,
        "outbox_bytes": config.agent.outbox_bytes,
        "telemetry_s": config.agent.telemetry.as_secs_f64(),
        "api": api_section(&config.agent_api),
    });
    for (entrypoint, kinds) in config.permissions.lists() {
        if !kinds.is_empty() {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            section["auto_approve"][entrypoint] = json!(names);
        }
    }
    for (entrypoint, effects) in config.permissions.tools.lists() {
        let names: Vec<&str> = effects.iter().map(|effect| effect.name()).collect();
        section["tools"][entrypoint] = json!(names);
    }
    section["audit"] = json!({
        "max_days": config.agent.audit.max_days, "max_bytes": config.agent.audit.max_bytes,
    });
    let limits = config.agent.job_limits;
    section["job_limits"] = json!({
        "max_jobs": limits.max_jobs, "max_bytes": limits.max_bytes, "max_days": limits.max_days,
    });
    for schedule in &config.jobs {
        section["jobs"][&schedule.name] = job_schedules::section(schedule);
    }
    if let Some(interval) = config.agent.heartbeat {
        section["heartbeat"] = json!({"interval_min": interval.as_secs() / 60});
    }
    if let Some(look) = &config.look {
        look_section(look, &mut section["heartbeat"]);
    }
    for found in &config.lookups {
        section["lookups"][found.name.as_str()] = lookup_check::section(&found.kind);
    }
    section["references"] = json!({"model": config.references.model});
    if let Some(least) = config.references.min_likeness {
        section["references"]["min_likeness"] = json!(least);
    }
    if let Some(model) = &config.memory.model {
        section["memory"] = json!({"model": model});
    }
    section
}

/// Adds the looks at frames to the section `[agent.heartbeat]`.
fn look_section(look: &LookConfig, section: &mut Value) {
    section["look_at"] = match &look.cameras {
        LookedAt::All => json!(["*"]),
        LookedAt::These(cameras) => json!(cameras),
    };
    section["look_frames"] = json!(look.frames);
    if let Some(hours) = &look.schedule {
        section["look_from"] = json!(hours.from);
        section["look_to"] = json!(hours.to);
    }
}

fn models_section(config: &Config) -> Value {
    let mut section = json!({});
    set(&mut section, "dir", config.models.dir.as_ref());
    let mirror = config.models.mirror.as_deref().map(redact::uri);
    set(&mut section, "mirror", mirror);
    set(&mut section, "default", config.models.default.as_ref());
    section
}

/// Builds the section `[mqtt]` without the password.
pub(super) fn mqtt_section(mqtt: &MqttConfig) -> Value {
    let mut section = json!({
        "host": mqtt.host, "port": mqtt.port, "client_id": mqtt.client_id, "tls": mqtt.tls,
        "commands": mqtt.commands,
        "connect_timeout_s": mqtt.connect_timeout.as_secs(),
        "keep_alive_s": mqtt.keep_alive.as_secs(),
    });
    set(&mut section, "username", mqtt.username.as_ref());
    let ca_file = mqtt.ca_file.as_deref();
    set(&mut section, "ca_file", ca_file.map(absolute));
    if let Some(files) = &mqtt.client_cert {
        section["cert_file"] = json!(absolute(&files.cert_file));
        section["key_file"] = json!(absolute(&files.key_file));
    }
    section
}

/// Builds the section `[agent.api]`, with the place of the token.
fn api_section(api: &AgentApiConfig) -> Value {
    let mut section =
        json!({"socket": api.socket, "socket_mode": format!("{:04o}", api.socket_mode)});
    if let Some(tcp) = &api.tcp {
        section["listen"] = json!(tcp.listen.to_string());
        section["hosts"] = json!(tcp.hosts);
        set(&mut section, "public_url", tcp.public_url.as_ref());
        match &tcp.token {
            SecretSource::File(file) => section["token_file"] = json!(absolute(file)),
            SecretSource::Credential(name) => section["token_credential"] = json!(name),
            // This section has no key for these.
            SecretSource::Value(_) | SecretSource::Variable(_) => {}
        }
    }
    section
}

/// Builds one section of `[channels]`; its address is a secret.
fn channel_section(channel: &ChannelConfig) -> Value {
    let mut section = json!({
        "kind": match channel.kind {
            ChannelKind::Webhook => "webhook",
            ChannelKind::Slack => "slack",
        },
        "notify_end": channel.notify_end, "pictures": channel.pictures,
    });
    match &channel.url {
        SecretSource::Value(_) => section["url"] = json!(redact::MASK),
        SecretSource::File(file) => section["url_file"] = json!(absolute(file)),
        SecretSource::Credential(name) => section["url_credential"] = json!(name),
        SecretSource::Variable(name) => section["url_env"] = json!(name),
    }
    set(&mut section, "min_severity", channel.min_severity);
    section
}

/// Builds the section `[llm]` with the key masked.
fn llm_section(llm: &LlmConfig) -> Value {
    let mut section = json!({
        "provider": llm.provider,
        "calls_per_hour": llm.calls_per_hour,
        "tokens_per_call": llm.tokens_per_call,
        "idle_timeout_s": llm.idle_timeout.as_secs_f64(),
        "timeout_factor": llm.timeout_factor,
        "day_usd": llm.day_usd,
        "month_usd": llm.month_usd,
        "second_opinion": llm.second_opinion,
    });
    let url = llm.base_url.as_deref().map(redact::uri);
    set(&mut section, "base_url", url);
    set(&mut section, "key", llm.key.as_ref().map(|_| "***"));
    let key_file = llm.key_file.as_deref().map(absolute);
    set(&mut section, "key_file", key_file);
    let program = llm.program.as_deref().map(absolute);
    set(&mut section, "program", program);
    set(&mut section, "model", llm.model.as_ref());
    set(&mut section, "large_model", llm.large_model.as_ref());
    let models_file = llm.models_file.as_deref().map(absolute);
    set(&mut section, "models_file", models_file);
    section
}

/// Builds the section `[sinks]`, unless it allows nothing.
///
/// `address` writes a URL, `secret` replaces a secret's value, given its name.
pub(super) fn sinks_section(
    sinks: &SinksConfig,
    address: impl Fn(&Url) -> String,
    mut secret: impl FnMut(&str, &SecretString) -> Value,
) -> Option<Value> {
    if sinks.hosts.is_empty() && sinks.folders.is_empty() && sinks.secrets.is_empty() {
        return None;
    }
    let hosts: Vec<String> = sinks.hosts.iter().map(ToString::to_string).collect();
    let mut section = json!({
        "hosts": hosts, "folders": sinks.folders, "max_age_s": sinks.max_age.as_secs_f64(),
    });
    set(
        &mut section,
        "ca_file",
        sinks.ca_file.as_deref().map(absolute),
    );
    for (key, url) in [
        ("slack_url", &sinks.slack_url),
        ("twilio_url", &sinks.twilio_url),
        ("s3_url", &sinks.s3_url),
    ] {
        set(&mut section, key, url.as_ref().map(&address));
    }
    for (name, source) in &sinks.secrets {
        section["secrets"][name] = match source {
            SecretSource::Value(value) => secret(name, value),
            SecretSource::File(path) => json!({"file": absolute(path)}),
            SecretSource::Variable(variable) => json!({"env": variable}),
            SecretSource::Credential(credential) => json!({"credential": credential}),
        };
    }
    Some(section)
}

/// Makes a path absolute: the file may be read by a process with another working folder.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Builds the section `[runtime.inference]` with the ONNX Runtime at `library`.
pub(super) fn inference_section(config: &Config, library: Option<&Path>) -> Value {
    let mut section = json!({
        "backend": match config.inference.backend {
            Backend::Auto => "auto",
            Backend::Rten => "rten",
            Backend::Ort => "ort",
            Backend::Trt => "trt",
        },
        "precision": match config.inference.precision {
            Precision::Fp32 => "fp32",
            Precision::Fp16 => "fp16",
            Precision::Int8 => "int8",
        },
    });
    set(&mut section, "threads", config.inference.threads);
    set(&mut section, "ort_library", library);
    let trt = &config.inference.trt_library;
    set(&mut section, "trt_library", trt.as_deref().map(absolute));
    let engines = &config.inference.engine_dir;
    set(&mut section, "engine_dir", engines.as_deref().map(absolute));
    section
}

/// Sets a key if it has a value; TOML has no null.
fn set(section: &mut Value, key: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        section[key] = json!(value);
    }
}

fn without_id(mut section: Value) -> Value {
    if let Some(map) = section.as_object_mut() {
        map.remove("id");
    }
    section
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use super::*;

    #[test]
    fn effective_configuration_has_no_secret_and_loads_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("wk.toml");
        let text = "[agent.heartbeat]\ninterval_min = 20\n[agent.memory]\nmodel = \"/srv/sentences\"\n[mqtt]\nhost = \"b\"\nusername = \"u\"\npassword = \"hunter2\"\n[sources.gate]\nuri = \"rtsp://me:hunter2@cam/1\"\n[sources.yard]\nuri = \"http://cam/mjpg?user=me&pwd=hunter2\"\n[models]\nmirror = \"https://mirror/?token=hunter2\"\n[sinks]\nhosts = [\"hooks.example.org:8443\"]\nfolders = [\"/srv/out\"]\nsecrets = { A = { value = \"hunter2\" }, B = { file = \"b.txt\" } }\n[channels.office]\nurl_env = \"HOOK\"\nmin_severity = \"warning\"\n[channels.phone]\nkind = \"slack\"\nurl_file = \"/run/hook\"\n[agent.tools]\nremote = [\"read\"]\n[agent.auto_approve]\nchat = [\"pause\"]\n";
        std::fs::write(&file, text).unwrap();
        let request = LoadRequest {
            file: Some(file.clone()),
            hostname: "h".to_owned(),
            ..LoadRequest::default()
        };
        let shown = toml::to_string_pretty(&effective(&load(&request).unwrap())).unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
        std::fs::write(&file, &shown).unwrap();
        let again = load(&request).unwrap();
        assert_eq!(again.sources.len(), 2);
        assert_eq!(again.warnings, []);
        assert_eq!(
            again.agent.heartbeat,
            Some(std::time::Duration::from_secs(1200))
        );
        assert_eq!(again.memory.model, Some("/srv/sentences".into()));
        assert_eq!(again.sinks.hosts.len(), 1);
        assert_eq!(again.sinks.secrets.len(), 2);
        let [office, phone] = again.channels.as_slice() else {
            panic!("{:?}", again.channels);
        };
        assert!(office.min_severity.is_some() && matches!(office.url, SecretSource::Variable(_)));
        assert_eq!(phone.kind, ChannelKind::Slack);
        assert_eq!(again.permissions.tools.lists().count(), 1);
    }
}
