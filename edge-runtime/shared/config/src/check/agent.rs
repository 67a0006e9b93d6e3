//! Checks the sections of the agent: `[mqtt]`, `[llm]`, `[agent.api]` and its permissions.
//!
//! - A key without effect is an error, because its author expects one.
//! - Files of secrets are read where they are used; only the password of the broker is read here.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use url::{Host, Url};
use watchkeeper_contract::id::{BoxId, SiteId, SourceId};
use watchkeeper_contract::rule::{Schedule, end_minute, minute_of_day};

use super::outside::file_or_credential;
use super::values::{Values, without_effect};
use crate::config::{
    AgentApiConfig, ClientCert, CommandAccess, LlmConfig, LookConfig, LookedAt, MqttConfig,
    TcpApiConfig,
};
use crate::error::ConfigError;
use crate::permissions::{PermissionsConfig, ToolsConfig};
use crate::raw::Read;
use crate::sinks::http_url;

/// Reads the broker. An unreadable password is a warning: the cameras need no broker, and the agent
/// reads the file at every connect.
pub(super) fn mqtt(
    values: &Values<'_>,
    site: Option<&SiteId>,
    box_id: Option<&BoxId>,
    errors: &mut Vec<ConfigError>,
    warnings: &mut Vec<ConfigError>,
) -> Option<MqttConfig> {
    let Some(host) = values.text("mqtt.host") else {
        without_effect("mqtt.", "mqtt.host", values, errors);
        return None;
    };
    if !is_host(&host) {
        let error = values
            .error("mqtt.host", "is not a host")
            .found(host.clone());
        errors.push(error.allowed(
            "a name or an IP address alone, such as \"broker.example\"; the port is mqtt.port, and \
             encryption is mqtt.tls",
        ));
    }
    let tls = values.switch("mqtt.tls");
    for key in ["mqtt.ca_file", "mqtt.cert_file", "mqtt.key_file"] {
        if let (false, Some(found)) = (tls, values.found(key)) {
            let problem = "has no effect, because mqtt.tls is false";
            errors.push(ConfigError::new(key, problem, found.origin.clone()));
        }
    }
    let client_cert = client_cert(values, errors);
    let default_port = if tls { 8883 } else { 1883 };
    let password = password(values, errors, warnings);
    if password.is_some() && values.text("mqtt.username").is_none() {
        errors.push(password_without_user(values));
    }
    let client_id = values
        .text("mqtt.client_id")
        .or_else(|| Some(format!("watchkeeper-{}-{}", site?, box_id?)))?;
    let mut mqtt = MqttConfig {
        host,
        port: values
            .whole("mqtt.port")
            .and_then(|p| u16::try_from(p).ok())
            .unwrap_or(default_port),
        client_id,
        username: values.text("mqtt.username"),
        password,
        password_file: values.path("mqtt.password_file"),
        commands: CommandAccess::Off,
        tls,
        ca_file: values.path("mqtt.ca_file"),
        client_cert,
        connect_timeout: Duration::from_secs(values.whole_or_zero("mqtt.connect_timeout_s")),
        keep_alive: Duration::from_secs(values.whole_or_zero("mqtt.keep_alive_s")),
    };
    mqtt.commands = match values.choice("mqtt.commands") {
        Some(commands) => commands,
        None if mqtt.has_login() => CommandAccess::All,
        None => CommandAccess::Off,
    };
    Some(mqtt)
}

/// Whether a text names a host, and neither a port nor a scheme.
fn is_host(text: &str) -> bool {
    // `fe80::1%eth0` names the interface, too.
    let bare = text.split('%').next().unwrap_or(text);
    let named = Host::parse(text);
    bare.parse::<Ipv6Addr>().is_ok() || matches!(named, Ok(Host::Domain(_) | Host::Ipv4(_)))
}

fn password_without_user(values: &Values<'_>) -> ConfigError {
    let key = ["mqtt.password", "mqtt.password_file"]
        .into_iter()
        .find(|key| values.found(key).is_some())
        .unwrap_or("mqtt.password");
    let problem = "has no effect, because mqtt.username is missing";
    values.error(key, problem)
}

/// Reads the files of the client certificate: both or none.
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
            errors.push(values.error(cert, problem));
            None
        }
    }
}

fn password(
    values: &Values<'_>,
    errors: &mut Vec<ConfigError>,
    warnings: &mut Vec<ConfigError>,
) -> Option<SecretString> {
    let written = values.text("mqtt.password").map(SecretString::from);
    let Some(path) = values.path("mqtt.password_file") else {
        return written;
    };
    let key = "mqtt.password_file";
    let wrong = |problem: String| values.error(key, problem).found(path.display().to_string());
    if written.is_some() {
        errors.push(wrong("mqtt.password is set too; keep one".to_owned()));
        return None;
    }
    let problem = match crate::bounded::read(&path) {
        Ok(text) => match text.lines().next() {
            Some(line) if !line.is_empty() => return Some(SecretString::from(line.to_owned())),
            _ => "the file's first line is empty".to_owned(),
        },
        Err(e) => format!("can't read the file: {e}"),
    };
    warnings.push(wrong(problem));
    None
}

pub(super) fn llm(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<LlmConfig> {
    let Some(provider) = values.text("llm.provider") else {
        without_effect("llm.", "llm.provider", values, errors);
        return None;
    };
    let mut llm = llm_of(provider, values);
    let second = values.text("llm.second.provider");
    if second.as_ref() == Some(&llm.provider) {
        let (key, problem) = ("llm.second.provider", "is llm.provider; name another one");
        errors.push(values.error(key, problem));
    }
    llm.second = second.map(|provider| {
        let mut second = LlmConfig {
            provider,
            model: None,
            large_model: None,
            ..llm.clone()
        };
        read_server("llm.second", &mut second, values, errors);
        Box::new(second)
    });
    if llm.second.is_none() {
        without_effect("llm.second.", "llm.second.provider", values, errors);
    }
    read_server("llm", &mut llm, values, errors);
    Some(llm)
}

/// The keys of `[llm]` that do not belong to one provider.
fn llm_of(provider: String, values: &Values<'_>) -> LlmConfig {
    let number = |key| values.number(key).unwrap_or_default();
    LlmConfig {
        base_url: None,
        key: None,
        key_file: None,
        program: None,
        model: values.text("llm.model"),
        large_model: values.text("llm.large_model"),
        models_file: values.path("llm.models_file"),
        second_opinion: values.switch("llm.second_opinion"),
        calls_per_hour: values.whole_or_zero("llm.calls_per_hour"),
        tokens_per_call: values.whole_or_zero("llm.tokens_per_call"),
        idle_timeout: values.seconds("llm.idle_timeout_s"),
        timeout_factor: values.whole_or_zero("llm.timeout_factor"),
        day_usd: number("llm.day_usd"),
        month_usd: number("llm.month_usd"),
        second: None,
        provider,
    }
}

impl LlmConfig {
    /// A provider with the default of every key.
    pub fn new(provider: &str) -> Self {
        let values = Values {
            read: &Read::default(),
            base: PathBuf::new(),
        };
        llm_of(provider.to_owned(), &values)
    }
}

/// Reads where the provider of `section` is and its key, and refuses keys without effect.
fn read_server(
    section: &str,
    llm: &mut LlmConfig,
    values: &Values<'_>,
    errors: &mut Vec<ConfigError>,
) {
    let of = |name: &str| format!("{section}.{name}");
    let mut wrong = |key: &str, problem: String| {
        errors.push(values.error(key, problem));
    };
    llm.base_url = values.text(&of("base_url"));
    llm.key = values.text(&of("key")).map(SecretString::from);
    llm.key_file = values.path(&of("key_file"));
    if llm.key.is_some() && llm.key_file.is_some() {
        wrong(
            &of("key_file"),
            format!("{} is set too; keep one", of("key")),
        );
    }
    let is_program = llm.provider == PROGRAM_PROVIDER;
    llm.program = values.path(&of("program")).filter(|_| is_program);
    let ineffective: &[&str] = match is_program {
        true => &["base_url", "key", "key_file"],
        false => &["program"],
    };
    for key in ineffective.iter().map(|name| of(name)) {
        if values.found(&key).is_some() {
            let problem = format!("has no effect with the provider {}", llm.provider);
            wrong(&key, problem);
        }
    }
}

/// Name of the provider that is a program of this machine.
const PROGRAM_PROVIDER: &str = "claude-cli";

/// Reads which frames a language model looks at in a heartbeat.
pub(super) fn look(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<LookConfig> {
    let key = "agent.heartbeat.look_at";
    if values.found(key).is_none() {
        without_effect("agent.heartbeat.look_", key, values, errors);
        return None;
    }
    for needed in ["agent.heartbeat.interval_min", "llm.provider"] {
        if values.found(needed).is_none() {
            let problem = format!("has no effect without {needed}");
            errors.push(values.error(key, problem));
        }
    }
    let named = values.texts(key, errors, |text| match text {
        ALL_CAMERAS => Ok(None),
        name => SourceId::new(name).map(Some).map_err(
            |_| "is not the name of a camera; write a name of [sources], or \"*\" for all",
        ),
    });
    let is_all = named.contains(&None);
    Some(LookConfig {
        cameras: match is_all {
            true => LookedAt::All,
            false => LookedAt::These(named.into_iter().flatten().collect()),
        },
        frames: values.whole_or_zero("agent.heartbeat.look_frames"),
        schedule: look_schedule(values, errors),
    })
}

/// Reads the hours of the looks: both ends or none.
fn look_schedule(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<Schedule> {
    let mut time = |key: &str, other: &str, minute: fn(&str) -> Option<u16>| {
        let text = values.text(key);
        let problem = match &text {
            Some(text) if minute(text).is_none() => "is not a time of day; write it as 22:00",
            None if values.found(other).is_some() => "is missing; give both ends of the hours",
            _ => return text,
        };
        errors.push(values.error(key, problem));
        None
    };
    let (from, to) = ("agent.heartbeat.look_from", "agent.heartbeat.look_to");
    let start = time(from, to, minute_of_day);
    let end = time(to, from, end_minute);
    Some(Schedule {
        days: Vec::new(),
        from: start?,
        to: end?,
    })
}

/// Reads the changes confirmed in advance, and what tools of a language model may do.
pub(super) fn permissions(values: &Values<'_>) -> PermissionsConfig {
    let kinds = |channel: &str| values.choices(&format!("agent.auto_approve.{channel}"));
    let effects = |channel: &str| values.choices(&format!("agent.tools.{channel}"));
    PermissionsConfig {
        ask: kinds("ask").unwrap_or_default(),
        chat: kinds("chat").unwrap_or_default(),
        local: kinds("local").unwrap_or_default(),
        remote: kinds("remote").unwrap_or_default(),
        tools: ToolsConfig {
            ask: effects("ask"),
            chat: effects("chat"),
            local: effects("local"),
            remote: effects("remote"),
        },
    }
}

/// Stands for all cameras in `agent.heartbeat.look_at`.
const ALL_CAMERAS: &str = "*";

/// Name of the agent's socket, beside the runtime's.
const AGENT_SOCKET: &str = "agent.sock";

pub(super) fn api(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> AgentApiConfig {
    let runtime = values.path("runtime.socket").unwrap_or_default();
    let socket = values.path("agent.api.socket");
    let socket = socket.unwrap_or_else(|| runtime.with_file_name(AGENT_SOCKET));
    if socket == runtime {
        let key = "agent.api.socket";
        let problem = "is runtime.socket, which the runtime serves; choose another path";
        errors.push(
            values
                .error(key, problem)
                .found(socket.display().to_string()),
        );
    }
    AgentApiConfig {
        socket,
        socket_mode: values.mode("agent.api.socket_mode"),
        tcp: tcp_api(values, errors),
    }
}

/// A host name without scheme and port, in lower case.
fn host_name(text: &str) -> Result<String, &'static str> {
    let is_name = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
    };
    match is_name(text) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("is not a host name; write it without scheme and port, as in box.example.com"),
    }
}

/// The address for links: HTTP or HTTPS, without user, query and fragment.
fn public_url(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<Url> {
    let key = "agent.api.public_url";
    let text = values.text(key)?;
    let url = http_url(&text).filter(|url| {
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_base = url.query().is_none() && url.fragment().is_none();
        is_plain && is_base
    });
    if url.is_none() {
        let problem = "is not an address for links; write one such as https://box.example.com";
        errors.push(values.error(key, problem).found(text));
    }
    url
}

fn tcp_api(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<TcpApiConfig> {
    let Some(text) = values.text("agent.api.listen") else {
        without_effect("agent.api.token_", "agent.api.listen", values, errors);
        without_effect("agent.api.hosts", "agent.api.listen", values, errors);
        without_effect("agent.api.public_url", "agent.api.listen", values, errors);
        return None;
    };
    let wrong = |problem: &str| {
        let key = "agent.api.listen";
        values.error(key, problem).found(text.clone())
    };
    let listen = match text.parse::<SocketAddr>() {
        Ok(listen) if listen.ip().is_loopback() => Some(listen),
        Ok(_) => {
            errors.push(wrong(
                "can be reached from other machines, and the token is not encrypted; write \
                 127.0.0.1:PORT or [::1]:PORT, and put a proxy with TLS before it for others",
            ));
            None
        }
        Err(_) => {
            errors.push(wrong(
                "is not an address with a port; write 127.0.0.1:PORT or [::1]:PORT",
            ));
            None
        }
    };
    let (file, credential) = ("agent.api.token_file", "agent.api.token_credential");
    let token = file_or_credential(values, file, credential, errors);
    let mut hosts = values.texts("agent.api.hosts", errors, host_name);
    let public_url = public_url(values, errors);
    let public_host = public_url.as_ref().and_then(Url::host_str);
    if let Some(host) = public_host.filter(|host| !hosts.iter().any(|own| own == host)) {
        hosts.push(host.to_owned());
    }
    Some(TcpApiConfig {
        listen: listen?,
        hosts,
        public_url: public_url.map(|url| url.as_str().trim_end_matches('/').to_owned()),
        token: token?,
    })
}
