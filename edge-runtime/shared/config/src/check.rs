//! Second stage: from values that are each good to a [`Config`] that is good as a whole.
//!
//! Reads the files the configuration names (workflows, the password) and resolves what one key means for another. What
//! is wrong with a source or a pipeline becomes a warning, what is wrong elsewhere an error.

mod outside;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use watchkeeper_contract::id::{BoxId, MAX_NAME_LEN, SiteId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_contract::source::SourceSpec;

use crate::error::{ConfigError, Origin};
use crate::keys;
use crate::layers::LoadRequest;
use crate::raw::{Found, Read, parse_mode};
use crate::{
    AgentApiConfig, AgentConfig, Backend, ChangeKind, ClientCert, Config, InferenceConfig,
    JournalConfig, LeftOut, LlmConfig, MEMORY_MODEL, MediaConfig, MemoryConfig, ModelsConfig,
    MqttConfig, PermissionsConfig, PipelineDraft, RecordingsConfig, SecretSource, TcpApiConfig,
    ToolEffect, ToolsConfig,
};

/// Folder of a user's own models below that of their data.
const OWN_MODELS: &str = "watchkeeper/models";

/// What the second stage hands over. With errors the configuration holds defaults in their place: good enough to look on, not to run.
pub(crate) struct Checked {
    pub(crate) errors: Vec<ConfigError>,
    pub(crate) config: Config,
    pub(crate) left_out: LeftOut,
}

/// Where a key was written, else what it is part of.
pub(crate) fn origin(read: &Read, key: &str) -> Origin {
    let mut path = key;
    loop {
        if let Some(found) = read.values.get(path) {
            return found.origin.clone();
        }
        match path.rfind(['.', '[']) {
            Some(end) => path = &path[..end],
            None => return Origin::Default,
        }
    }
}

/// Makes a configuration of what was read.
pub(crate) fn check(read: &Read, request: &LoadRequest) -> Checked {
    let degrades =
        |e: &ConfigError| e.key.starts_with("sources.") || e.key.starts_with("pipelines.");
    let (mut warnings, mut errors): (Vec<_>, Vec<_>) =
        read.errors.iter().cloned().partition(degrades);
    let values = Values {
        read,
        base: request.base_dir(),
    };

    let site = values.name("box.site", SiteId::new, &mut errors);
    let box_id = match values.text("box.id") {
        Some(_) => values.name("box.id", BoxId::new, &mut errors),
        None => BoxId::new(sanitise(&request.hostname)).ok(),
    };
    let mut left_out = LeftOut::default();
    let sources = sources(&values, &mut warnings, &mut left_out);
    let pipelines = pipelines(&values, &sources, &mut warnings, &mut left_out);
    let mqtt = mqtt(&values, site.as_ref(), box_id.as_ref(), &mut errors);
    let mirror = mirror(&values, &mut errors);
    let llm = llm(&values, &mut errors);
    let sinks = outside::sinks(&values, &mut errors);
    let channels = outside::channels(&values, &mut errors);
    outside::unheard(&values, &pipelines, &channels, &mut warnings);
    let agent_api = agent_api(&values, &mut errors);
    let models = ModelsConfig {
        dir: values.path("models.dir"),
        own_dir: request.data_home.as_ref().map(|d| d.join(OWN_MODELS)),
        mirror,
        default: values.text("models.default"),
    };
    let folders = models.folders().into_iter();
    let memory = MemoryConfig {
        model: values.path("agent.memory.model"),
        usual: folders.map(|folder| folder.join(MEMORY_MODEL)).collect(),
    };

    let config = Config {
        site: site.unwrap_or_else(|| name_of("site")),
        box_id: box_id.unwrap_or_else(|| name_of("box")),
        state_dir: values.path("runtime.state_dir").unwrap_or_default(),
        runtime_socket: values.path("runtime.socket").unwrap_or_default(),
        socket_mode: values
            .text("runtime.socket_mode")
            .and_then(|t| parse_mode(&t))
            .unwrap_or(0o660),
        inference: InferenceConfig {
            backend: match values.text("runtime.inference.backend").as_deref() {
                Some("rten") => Backend::Rten,
                Some("ort") => Backend::Ort,
                _ => Backend::Auto,
            },
            threads: values
                .whole("runtime.inference.threads")
                .and_then(|n| usize::try_from(n).ok()),
            ort_library: values.path("runtime.inference.ort_library"),
        },
        journal: JournalConfig {
            max_events: values.whole("runtime.journal_events").unwrap_or_default(),
            max_bytes: values.whole("runtime.journal_bytes").unwrap_or_default(),
        },
        media: MediaConfig {
            max_bytes: values.whole("runtime.media_bytes").unwrap_or_default(),
        },
        recordings: RecordingsConfig {
            max_bytes: values.whole("runtime.recording_bytes").unwrap_or_default(),
            max_age: values.seconds("runtime.recording_days") * 86_400,
        },
        crash_loop_limit: values
            .whole("runtime.crash_loop_limit")
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or_default(),
        sources,
        pipelines,
        mqtt,
        agent: AgentConfig {
            outbox_events: values.whole("agent.outbox_events").unwrap_or_default(),
            outbox_bytes: values.whole("agent.outbox_bytes").unwrap_or_default(),
            telemetry: values.seconds("agent.telemetry_s"),
            heartbeat: values
                .whole("agent.heartbeat.interval_min")
                .map(|minutes| Duration::from_secs(60 * minutes)),
        },
        memory,
        agent_api,
        permissions: permissions(&values),
        models,
        llm,
        sinks,
        channels,
        warnings,
    };
    Checked {
        errors,
        config,
        left_out,
    }
}

/// A name of our own.
fn name_of<T>(name: &str) -> T
where
    T: TryFrom<String>,
    T::Error: std::fmt::Debug,
{
    T::try_from(name.to_owned()).expect("our own names are names")
}

/// A host name as a box's name.
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

/// Values by path, the declared default where none was written.
struct Values<'r> {
    read: &'r Read,
    base: PathBuf,
}

impl Values<'_> {
    fn found(&self, path: &str) -> Option<&Found> {
        self.read.values.get(path)
    }

    fn origin(&self, path: &str) -> Origin {
        self.found(path)
            .map_or(Origin::Default, |f| f.origin.clone())
    }

    fn default(path: &str) -> Option<&'static str> {
        keys::find(&path.split('.').collect::<Vec<_>>()).and_then(|k| k.default)
    }

    fn text(&self, path: &str) -> Option<String> {
        match self.found(path) {
            Some(found) => found.value.as_str().map(str::to_owned),
            None => Self::default(path).map(str::to_owned),
        }
    }

    fn whole(&self, path: &str) -> Option<u64> {
        match self.found(path) {
            Some(found) => found.value.as_u64(),
            None => Self::default(path).and_then(|d| d.parse().ok()),
        }
    }

    fn switch(&self, path: &str) -> bool {
        match self.found(path) {
            Some(found) => found.value.as_bool().unwrap_or_default(),
            None => Self::default(path) == Some("true"),
        }
    }

    fn number(&self, path: &str) -> Option<f64> {
        match self.found(path) {
            Some(found) => found.value.as_f64(),
            None => Self::default(path).and_then(|d| d.parse().ok()),
        }
    }

    fn seconds(&self, path: &str) -> Duration {
        let seconds = self.number(path).unwrap_or_default();
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// A path; one from the file begins at the file's folder.
    fn path(&self, path: &str) -> Option<PathBuf> {
        let text = self.text(path)?;
        Some(match self.origin(path) {
            Origin::File(_) => self.base.join(text),
            Origin::Variable(_) | Origin::Flag(_) | Origin::Default => PathBuf::from(text),
        })
    }

    /// The texts of a list, each read by `parse`; what is wrong with one is told with its position.
    fn texts<T>(
        &self,
        path: &str,
        errors: &mut Vec<ConfigError>,
        parse: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Vec<T> {
        let items = self.found(path).and_then(|found| found.value.as_array());
        let mut good = Vec::new();
        for (nth, item) in items.into_iter().flatten().enumerate() {
            let text = item.as_str().unwrap_or_default();
            match parse(text) {
                Ok(read) => good.push(read),
                Err(problem) => {
                    let key = format!("{path}[{nth}]");
                    errors.push(ConfigError::new(key, problem, self.origin(path)).found(text));
                }
            }
        }
        good
    }

    fn name<T, E: std::fmt::Display>(
        &self,
        path: &str,
        parse: impl Fn(String) -> Result<T, E>,
        errors: &mut Vec<ConfigError>,
    ) -> Option<T> {
        let text = self.text(path)?;
        match parse(text) {
            Ok(name) => Some(name),
            Err(e) => {
                errors.push(ConfigError::new(path, e.to_string(), self.origin(path)));
                None
            }
        }
    }

    /// Names written below a section, such as `gate` for `sources.gate`.
    fn names(&self, section: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{section}.");
        self.read
            .named
            .iter()
            .filter_map(move |path| path.strip_prefix(&prefix))
    }

    /// Everything written in one named section.
    fn section(&self, section: &str) -> Map<String, Value> {
        let prefix = format!("{section}.");
        self.read
            .values
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter_map(|(path, found)| {
                Some((path.strip_prefix(&prefix)?.to_owned(), found.value.clone()))
            })
            .collect()
    }
}

/// Whether `key`, or something in it, was already found wrong.
fn is_spoilt(key: &str, warnings: &[ConfigError]) -> bool {
    let is_part = |of: &str| {
        of.strip_prefix(key)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    warnings.iter().any(|warning| is_part(&warning.key))
}

fn missing(key: String) -> ConfigError {
    ConfigError::new(key, "is required and missing", Origin::Default)
}

fn sources(
    values: &Values<'_>,
    warnings: &mut Vec<ConfigError>,
    left_out: &mut LeftOut,
) -> Vec<SourceSpec> {
    let mut sources = Vec::new();
    for name in values.names("sources") {
        let section = format!("sources.{name}");
        let is_good = !is_spoilt(&section, warnings);
        let uri = format!("{section}.uri");
        if values.text(&uri).is_none() {
            if !is_spoilt(&uri, warnings) {
                warnings.push(missing(uri));
            }
            continue;
        }
        let origin = values.origin(&uri);
        let mut fields = values.section(&section);
        fields.insert("id".to_owned(), json!(name));
        match serde_json::from_value::<SourceSpec>(Value::Object(fields)) {
            Ok(mut spec) => {
                if let Origin::File(_) = origin {
                    spec.uri = absolute(&values.base, spec.uri);
                }
                if is_good {
                    sources.push(spec);
                } else {
                    left_out.sources.push(spec);
                }
            }
            Err(e) => warnings.push(ConfigError::new(section, e.to_string(), origin)),
        }
    }
    sources
}

/// A relative file in the configuration begins at the configuration's folder; addresses stay as they are.
fn absolute(base: &std::path::Path, uri: String) -> String {
    let is_address = uri.starts_with('/')
        || uri.split_once(':').is_some_and(|(scheme, _)| {
            !scheme.is_empty()
                && scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '+')
        });
    if is_address {
        uri
    } else {
        base.join(uri).display().to_string()
    }
}

fn pipelines(
    values: &Values<'_>,
    sources: &[SourceSpec],
    warnings: &mut Vec<ConfigError>,
    left_out: &mut LeftOut,
) -> Vec<PipelineSpec> {
    let mut pipelines = Vec::new();
    for name in values.names("pipelines") {
        let before = warnings.len();
        let is_good = !is_spoilt(&format!("pipelines.{name}"), warnings);
        let Some(draft) = pipeline(values, name, sources, warnings) else {
            continue;
        };
        if is_good && warnings.len() == before {
            pipelines.push(draft.spec);
        } else {
            left_out.pipelines.push(draft);
        }
    }
    pipelines
}

/// Reads a pipeline as far as it can be read.
fn pipeline(
    values: &Values<'_>,
    name: &str,
    sources: &[SourceSpec],
    warnings: &mut Vec<ConfigError>,
) -> Option<PipelineDraft> {
    let section = format!("pipelines.{name}");
    let mut fields = values.section(&section);
    for required in ["source", "workflow"] {
        let key = format!("{section}.{required}");
        if fields.contains_key(required) {
            continue;
        }
        if !is_spoilt(&key, warnings) {
            warnings.push(missing(key));
        }
        // Stands in for it, so that the rest can be read.
        let stand_in = if required == "source" {
            json!("none")
        } else {
            Value::Null
        };
        fields.insert(required.to_owned(), stand_in);
    }
    let key = format!("{section}.source");
    if let Some(source) = values.text(&key)
        && !sources.iter().any(|s| s.id.as_str() == source)
    {
        warnings.push(no_source(values, &source, key));
    }
    let key = format!("{section}.workflow");
    let origin = values.origin(&key);
    if let Some(path) = values.path(&key) {
        let read = crate::bounded::read(&path)
            .map_err(|e| format!("can't read the workflow: {e}"))
            .and_then(|text| {
                serde_json::from_str(&text).map_err(|e| format!("the workflow is not JSON: {e}"))
            });
        let workflow = read.unwrap_or_else(|problem| {
            let found = path.display().to_string();
            warnings.push(ConfigError::new(key, problem, origin.clone()).found(found));
            Value::Null
        });
        fields.insert("workflow".to_owned(), workflow);
    }
    fields.insert("id".to_owned(), json!(name));
    let mut wrong = |path: &serde_path_to_error::Path, below: &str, error: &serde_json::Error| {
        let path = path.iter().next().map(|_| format!(".{path}"));
        let key = format!("{section}{below}{}", path.unwrap_or_default());
        let origin = self::origin(values.read, &key);
        warnings.push(ConfigError::new(key, error.to_string(), origin));
    };
    let mut positions = Vec::new();
    if let Some(Value::Array(rules)) = fields.get_mut("rules") {
        let mut position = 0..;
        rules.retain(|rule| {
            let position = position.next().unwrap_or_default();
            match serde_path_to_error::deserialize::<_, RuleSpec>(rule) {
                Ok(_) => positions.push(position),
                Err(e) => wrong(e.path(), &format!(".rules[{position}]"), e.inner()),
            }
            positions.last() == Some(&position)
        });
    }
    // What is wrong is told and taken away, until the rest can be read.
    loop {
        let rest = Value::Object(fields.clone());
        let e = match serde_path_to_error::deserialize::<_, PipelineSpec>(rest) {
            Ok(spec) => {
                return Some(PipelineDraft {
                    spec,
                    rules: positions,
                });
            }
            Err(e) => e,
        };
        wrong(e.path(), "", e.inner());
        let field = match e.path().iter().next() {
            Some(serde_path_to_error::Segment::Map { key }) => key,
            _ => return None,
        };
        if ["id", "source", "workflow"].contains(&field.as_str()) || fields.remove(field).is_none()
        {
            return None;
        }
    }
}

/// A pipeline's source that isn't there, or isn't declared well.
fn no_source(values: &Values<'_>, source: &str, key: String) -> ConfigError {
    let origin = values.origin(&key);
    let declared: Vec<&str> = values.names("sources").collect();
    let error = if declared.contains(&source) {
        let problem = format!("the source is left out for what is wrong in [sources.{source}]");
        ConfigError::new(key, problem, origin)
    } else if declared.is_empty() {
        let problem = format!("no source is declared; write [sources.{source}]");
        ConfigError::new(key, problem, origin)
    } else {
        ConfigError::new(key, "no such source", origin).allowed(declared.join(", "))
    };
    error.found(source)
}

fn mqtt(
    values: &Values<'_>,
    site: Option<&SiteId>,
    box_id: Option<&BoxId>,
    errors: &mut Vec<ConfigError>,
) -> Option<MqttConfig> {
    let Some(host) = values.text("mqtt.host") else {
        without_effect("mqtt.", "mqtt.host", values, errors);
        return None;
    };
    let tls = values.switch("mqtt.tls");
    for key in ["mqtt.ca_file", "mqtt.cert_file", "mqtt.key_file"] {
        if let (false, Some(found)) = (tls, values.found(key)) {
            let problem = "has no effect, because mqtt.tls is false";
            errors.push(ConfigError::new(key, problem, found.origin.clone()));
        }
    }
    let client_cert = client_cert(values, errors);
    let default_port = if tls { 8883 } else { 1883 };
    let password = password(values, errors);
    if let (true, None) = (password.is_some(), values.text("mqtt.username")) {
        let key = ["mqtt.password", "mqtt.password_file"]
            .into_iter()
            .find(|key| values.found(key).is_some())
            .unwrap_or("mqtt.password");
        let problem = "has no effect, because mqtt.username is missing";
        errors.push(ConfigError::new(key, problem, values.origin(key)));
    }
    let client_id = values
        .text("mqtt.client_id")
        .or_else(|| Some(format!("watchkeeper-{}-{}", site?, box_id?)))?;
    Some(MqttConfig {
        host,
        port: values
            .whole("mqtt.port")
            .and_then(|p| u16::try_from(p).ok())
            .unwrap_or(default_port),
        client_id,
        username: values.text("mqtt.username"),
        password,
        tls,
        ca_file: values.path("mqtt.ca_file"),
        client_cert,
        connect_timeout: Duration::from_secs(
            values.whole("mqtt.connect_timeout_s").unwrap_or_default(),
        ),
        keep_alive: Duration::from_secs(values.whole("mqtt.keep_alive_s").unwrap_or_default()),
    })
}

/// Keys of a section without the one that turns it on are a mistake that would otherwise be silent.
fn without_effect(
    section: &str,
    missing: &str,
    values: &Values<'_>,
    errors: &mut Vec<ConfigError>,
) {
    let mut written = values.read.values.iter();
    if let Some((key, found)) = written.find(|(key, _)| key.starts_with(section)) {
        let problem = format!("has no effect, because {missing} is missing");
        errors.push(ConfigError::new(key.clone(), problem, found.origin.clone()));
    }
}

fn llm(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<LlmConfig> {
    let Some(provider) = values.text("llm.provider") else {
        without_effect("llm.", "llm.provider", values, errors);
        return None;
    };
    let key = values.text("llm.key").map(SecretString::from);
    let key_file = values.path("llm.key_file");
    if key.is_some() && key_file.is_some() {
        let problem = "llm.key is set too; keep one of them";
        errors.push(ConfigError::new(
            "llm.key_file",
            problem,
            values.origin("llm.key_file"),
        ));
    }
    let whole = |key| values.whole(key).unwrap_or_default();
    let number = |key| values.number(key).unwrap_or_default();
    Some(LlmConfig {
        provider,
        base_url: values.text("llm.base_url"),
        key,
        key_file,
        model: values.text("llm.model"),
        large_model: values.text("llm.large_model"),
        models_file: values.path("llm.models_file"),
        second_opinion: values.switch("llm.second_opinion"),
        calls_per_hour: u32::try_from(whole("llm.calls_per_hour")).unwrap_or_default(),
        tokens_per_call: whole("llm.tokens_per_call"),
        idle_timeout: values.seconds("llm.idle_timeout_s"),
        timeout_factor: u32::try_from(whole("llm.timeout_factor")).unwrap_or(1),
        day_usd: number("llm.day_usd"),
        month_usd: number("llm.month_usd"),
    })
}

/// Name of the agent's socket, beside the runtime's.
const AGENT_SOCKET: &str = "agent.sock";

/// What is confirmed without asking. The words were checked with their keys; one that is written twice counts once.
fn permissions(values: &Values<'_>) -> PermissionsConfig {
    let list = |channel: &str| {
        let key = format!("agent.auto_approve.{channel}");
        let items = values.found(&key).and_then(|found| found.value.as_array());
        let mut kinds: Vec<ChangeKind> = items
            .into_iter()
            .flatten()
            .filter_map(|item| ChangeKind::named(item.as_str()?))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    };
    PermissionsConfig {
        ask: list("ask"),
        chat: list("chat"),
        local: list("local"),
        remote: list("remote"),
        tools: tools(values),
    }
}

/// What tools of a model may do. The words were checked with their keys; one that is written twice counts once.
fn tools(values: &Values<'_>) -> ToolsConfig {
    let list = |channel: &str| {
        let key = format!("agent.tools.{channel}");
        let items = values.found(&key)?.value.as_array()?;
        let effects = items
            .iter()
            .filter_map(|item| ToolEffect::named(item.as_str()?));
        let effects: BTreeSet<ToolEffect> = effects.collect();
        Some(effects.into_iter().collect())
    };
    ToolsConfig {
        ask: list("ask"),
        chat: list("chat"),
        local: list("local"),
        remote: list("remote"),
    }
}

fn agent_api(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> AgentApiConfig {
    let runtime = values.path("runtime.socket").unwrap_or_default();
    let socket = values.path("agent.api.socket");
    let socket = socket.unwrap_or_else(|| runtime.with_file_name(AGENT_SOCKET));
    if socket == runtime {
        let key = "agent.api.socket";
        let problem = "is runtime.socket, which the runtime serves; choose another path";
        errors.push(
            ConfigError::new(key, problem, values.origin(key)).found(socket.display().to_string()),
        );
    }
    AgentApiConfig {
        socket,
        socket_mode: values
            .text("agent.api.socket_mode")
            .and_then(|t| parse_mode(&t))
            .unwrap_or(0o660),
        tcp: tcp_api(values, errors),
    }
}

fn tcp_api(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<TcpApiConfig> {
    let Some(text) = values.text("agent.api.listen") else {
        without_effect("agent.api.token_", "agent.api.listen", values, errors);
        return None;
    };
    let wrong = |problem: &str| {
        let key = "agent.api.listen";
        ConfigError::new(key, problem, values.origin(key)).found(text.clone())
    };
    let listen = match text.parse::<SocketAddr>() {
        Ok(listen) if listen.ip().is_loopback() => Some(listen),
        Ok(_) => {
            errors.push(wrong(
                "can be reached by others, and the token would travel unencrypted; write 127.0.0.1:PORT or [::1]:PORT, and put a proxy \
                 with TLS before it for other machines",
            ));
            None
        }
        Err(_) => {
            errors.push(wrong(
                "is no address with a port; write 127.0.0.1:PORT or [::1]:PORT",
            ));
            None
        }
    };
    let file = values.path("agent.api.token_file");
    let token = match (file, values.text("agent.api.token_credential")) {
        (Some(file), None) => Some(SecretSource::File(file)),
        (None, Some(name)) => Some(SecretSource::Credential(name)),
        (Some(_), Some(_)) => {
            let key = "agent.api.token_credential";
            let problem = "agent.api.token_file is set too; keep one of them";
            errors.push(ConfigError::new(key, problem, values.origin(key)));
            None
        }
        (None, None) => {
            errors.push(wrong(
                "needs a token; name its file by agent.api.token_file, or a credential by agent.api.token_credential",
            ));
            None
        }
    };
    Some(TcpApiConfig {
        listen: listen?,
        token: token?,
    })
}

/// The address of the mirror. It is printed with every failure, so a login has no place in it.
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
        ConfigError::new(KEY, "is not allowed", values.origin(KEY))
            .allowed("http://… or https://…, without a login"),
    );
    None
}

/// The files of the client certificate: both or none.
fn client_cert(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<ClientCert> {
    let files = ["mqtt.cert_file", "mqtt.key_file"].map(|key| (key, values.path(key)));
    match files {
        [(_, Some(cert_file)), (_, Some(key_file))] => Some(ClientCert {
            cert_file,
            key_file,
        }),
        [(_, None), (_, None)] => None,
        [(cert, Some(_)), (key, None)] | [(key, None), (cert, Some(_))] => {
            let problem = format!("has no effect without {key}");
            errors.push(ConfigError::new(cert, problem, values.origin(cert)));
            None
        }
    }
}

fn password(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<SecretString> {
    let written = values.text("mqtt.password").map(SecretString::from);
    let Some(path) = values.path("mqtt.password_file") else {
        return written;
    };
    let key = "mqtt.password_file";
    let mut wrong = |problem: String| {
        errors.push(
            ConfigError::new(key, problem, values.origin(key)).found(path.display().to_string()),
        );
        None
    };
    if written.is_some() {
        return wrong("mqtt.password is set too; keep one of them".to_owned());
    }
    match crate::bounded::read(&path) {
        Ok(text) => match text.lines().next() {
            Some(line) if !line.is_empty() => Some(SecretString::from(line.to_owned())),
            _ => wrong("the file's first line is empty".to_owned()),
        },
        Err(e) => wrong(format!("can't read the file: {e}")),
    }
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

    #[test]
    fn only_a_relative_file_moves_to_the_folder_of_the_configuration() {
        let base = std::path::Path::new("/etc/wk");
        for same in [
            "/dev/video0",
            "rtsp://cam/1",
            "demo:?seed=1",
            "v4l2:/dev/video0",
        ] {
            assert_eq!(absolute(base, same.to_owned()), same);
        }
        assert_eq!(
            absolute(base, "clips/a.mp4".to_owned()),
            "/etc/wk/clips/a.mp4"
        );
    }
}
