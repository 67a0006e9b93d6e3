//! Every key of the configuration, declared once.
//!
//! - A key that is not in [`KEYS`] is refused.
//! - A default in [`KEYS`] passes the key's own check.
//! - What each key does is written in `docs/ref/configuration.md`; a test compares its values and
//!   defaults with this table.

use watchkeeper_contract::privacy::MaskFill;
use watchkeeper_contract::source::{MAX_FPS, STALL_S};

use crate::config::CommandAccess;
use crate::permissions::{ChangeKind, ToolEffect};

/// Kind of a key's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any text that is not empty.
    Text,
    /// A name: 1 to 40 of `a-z`, `0-9`, `-`, `_`, beginning with a letter or digit.
    Name,
    /// A display name: 1 to 60 characters on one line.
    DisplayName,
    /// A path; a relative one begins at the folder of the configuration file.
    Path,
    /// Text that is never printed.
    Secret,
    /// Address of a source; a credential in it is never printed.
    Address,
    Switch,
    /// A whole number in a range, both ends included.
    Integer(u64, u64),
    /// A number in a range, both ends included.
    Number(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Permission bits in octal, such as `"0660"`.
    Mode,
    /// A list of texts, none of them empty.
    Texts,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// A table or a list with its own structure, checked later; its form in words.
    Structure(&'static str),
    /// Path of a file, or the structure itself.
    FileOrStructure,
}

/// Declaration of one key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Path; `*` stands for a name that the user chooses.
    pub path: &'static str,
    pub kind: Kind,
    /// Default, as written in a variable; absent when there is none.
    pub default: Option<&'static str>,
}

const fn key(path: &'static str, kind: Kind) -> Key {
    Key {
        path,
        kind,
        default: None,
    }
}

impl Key {
    const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }
}

const MIB: u64 = 1 << 20;

/// Providers of language models.
const PROVIDERS: &[&str] = &["claude", "claude-cli", "openai", "gemini", "local"];

/// The keys, by section.
pub const KEYS: &[Key] = &[
    key("box.site", Kind::Name).default("site"),
    key("box.id", Kind::Name),
    key("runtime.socket", Kind::Path).default("/run/watchkeeper/runtime.sock"),
    key("runtime.socket_mode", Kind::Mode).default("0660"),
    key("runtime.state_dir", Kind::Path).default("/var/lib/watchkeeper"),
    key("runtime.media_bytes", Kind::Integer(16 * MIB, 1 << 50)).default("2147483648"),
    key("runtime.history_bytes", Kind::Integer(0, 1 << 40)).default("134217728"),
    key("runtime.dry_run_roots", Kind::Texts),
    key("runtime.journal_events", Kind::Integer(1_000, 100_000_000)).default("200000"),
    key("runtime.journal_bytes", Kind::Integer(MIB, 1 << 40)).default("536870912"),
    key("runtime.recording_bytes", Kind::Integer(64 * MIB, 1 << 50)).default("4294967296"),
    key("runtime.recording_days", Kind::Number(0.01, 36_500.0)).default("30"),
    key("runtime.crash_loop_limit", Kind::Integer(0, 1000)).default("3"),
    key(
        "runtime.inference.backend",
        Kind::Choice(&["auto", "rten", "ort", "trt"]),
    )
    .default("auto"),
    key(
        "runtime.inference.precision",
        Kind::Choice(&["fp32", "fp16", "int8"]),
    )
    .default("fp16"),
    key("runtime.inference.threads", Kind::Integer(1, 256)),
    key("runtime.inference.ort_library", Kind::Path),
    key("runtime.inference.trt_library", Kind::Path),
    key("runtime.inference.engine_dir", Kind::Path),
    key("sources.*.uri", Kind::Address),
    key("sources.*.pace", Kind::Choice(&["fast", "native"])).default("fast"),
    key(
        "sources.*.max_fps",
        Kind::Number(*MAX_FPS.start(), *MAX_FPS.end()),
    ),
    key("sources.*.rtsp_transport", Kind::Choice(&["tcp", "udp"])).default("tcp"),
    key("sources.*.tls_verify", Kind::Switch).default("true"),
    key("sources.*.fixed_view", Kind::Switch).default("true"),
    key(
        "sources.*.controls",
        Kind::Structure("a table of names and values, { exposure_time_absolute = 200 }"),
    ),
    key(
        "sources.*.decoder",
        Kind::Choice(&["auto", "software", "nvidia", "v4l2", "va"]),
    )
    .default("auto"),
    key(
        "sources.*.scale",
        Kind::Structure("two whole numbers, [1280, 720]"),
    ),
    key(
        "sources.*.stall_s",
        Kind::Number(*STALL_S.start(), *STALL_S.end()),
    )
    .default("5"),
    key("sources.*.name", Kind::DisplayName),
    key(
        "sources.*.privacy.regions",
        Kind::Structure("a list of regions, [[[x, y], [x, y], …], …]"),
    ),
    key("sources.*.privacy.classes", Kind::Texts),
    key("sources.*.privacy.fill", Kind::Choice(MaskFill::NAMES)).default("black"),
    key("pipelines.*.name", Kind::DisplayName),
    key("pipelines.*.source", Kind::Name),
    key("pipelines.*.workflow", Kind::FileOrStructure),
    key(
        "pipelines.*.parameters",
        Kind::Structure("a table of names and values"),
    ),
    key("pipelines.*.model", Kind::Text),
    key(
        "pipelines.*.rules",
        Kind::Structure("a list of tables, [[pipelines.NAME.rules]]"),
    ),
    key(
        "pipelines.*.detect",
        Kind::Structure("a table, { mode = \"on_motion\" }"),
    ),
    key("pipelines.*.target_fps", Kind::Number(0.01, 1000.0)),
    key(
        "pipelines.*.priority",
        Kind::Choice(&["low", "normal", "high"]),
    )
    .default("normal"),
    key("pipelines.*.record", Kind::Switch).default("false"),
    key("pipelines.*.show", Kind::Switch).default("false"),
    key("pipelines.*.paused", Kind::Switch).default("false"),
    key("mqtt.host", Kind::Text),
    key("mqtt.port", Kind::Integer(1, 65535)),
    key("mqtt.client_id", Kind::Text),
    key("mqtt.username", Kind::Text),
    key("mqtt.password", Kind::Secret),
    key("mqtt.password_file", Kind::Path),
    key("mqtt.commands", Kind::Choice(CommandAccess::NAMES)),
    key("mqtt.tls", Kind::Switch).default("false"),
    key("mqtt.ca_file", Kind::Path),
    key("mqtt.cert_file", Kind::Path),
    key("mqtt.key_file", Kind::Path),
    key("mqtt.connect_timeout_s", Kind::Integer(1, 300)).default("15"),
    key("mqtt.keep_alive_s", Kind::Integer(5, 3600)).default("30"),
    key("agent.outbox_events", Kind::Integer(100, 100_000_000)).default("100000"),
    key("agent.outbox_bytes", Kind::Integer(MIB, 1 << 40)).default("268435456"),
    key("agent.telemetry_s", Kind::Number(1.0, 86_400.0)).default("30"),
    key("agent.api.socket", Kind::Path),
    key("agent.api.socket_mode", Kind::Mode).default("0660"),
    key("agent.api.listen", Kind::Text),
    key("agent.api.hosts", Kind::Texts),
    key("agent.api.public_url", Kind::Text),
    key("agent.api.token_file", Kind::Path),
    key("agent.api.token_credential", Kind::Text),
    key("agent.archive.max_bytes", Kind::Integer(MIB, 1 << 44)).default("8589934592"),
    key(
        "agent.archive.max_entry_bytes",
        Kind::Integer(1024, 1 << 36),
    )
    .default("268435456"),
    key("agent.archive.memory_bytes", Kind::Integer(0, 1 << 34)).default("33554432"),
    key("agent.archive.memcached", Kind::Texts),
    key("agent.archive.s3_endpoints", Kind::Texts),
    key("agent.archive.s3_bucket", Kind::Text),
    key("agent.archive.s3_region", Kind::Text).default("us-east-1"),
    key("agent.archive.s3_prefix", Kind::Text),
    key("agent.archive.s3_access_key", Kind::Text),
    key("agent.archive.s3_secret_key_file", Kind::Path),
    key("agent.archive.s3_secret_key_credential", Kind::Text),
    key("agent.archive.ingest_roots", Kind::Texts),
    key("agent.archive.ingest_hosts", Kind::Texts),
    key("agent.archive.index_events", Kind::Switch).default("true"),
    key("agent.archive.embedding", Kind::Text),
    key("agent.auto_approve.ask", Kind::Words(ChangeKind::NAMES)),
    key("agent.auto_approve.chat", Kind::Words(ChangeKind::NAMES)),
    key("agent.auto_approve.local", Kind::Words(ChangeKind::NAMES)),
    key("agent.auto_approve.remote", Kind::Words(ChangeKind::NAMES)),
    key("agent.tools.ask", Kind::Words(ToolEffect::NAMES)),
    key("agent.tools.chat", Kind::Words(ToolEffect::NAMES)),
    key("agent.tools.local", Kind::Words(ToolEffect::NAMES)),
    key("agent.tools.remote", Kind::Words(ToolEffect::NAMES)),
    key("agent.heartbeat.interval_min", Kind::Integer(15, 60)),
    key("agent.heartbeat.look_at", Kind::Texts),
    key("agent.heartbeat.look_frames", Kind::Integer(1, 8)).default("2"),
    key("agent.heartbeat.look_from", Kind::Text),
    key("agent.heartbeat.look_to", Kind::Text),
    key("agent.audit.max_days", Kind::Integer(1, 3_650)).default("365"),
    key("agent.audit.max_bytes", Kind::Integer(1 << 20, 1 << 40)).default("67108864"),
    key(
        "agent.lookups.*.kind",
        Kind::Choice(&["http", "table", "fields"]),
    ),
    key("agent.lookups.*.only_below", Kind::Number(0.0, 1.0)),
    key("agent.lookups.*.value", Kind::Text).default("read"),
    key("agent.lookups.*.url", Kind::Text),
    key("agent.lookups.*.method", Kind::Choice(&["GET", "POST"])).default("GET"),
    key("agent.lookups.*.body", Kind::Text),
    key(
        "agent.lookups.*.headers",
        Kind::Structure("a table of names and texts"),
    ),
    key("agent.lookups.*.answer", Kind::Text),
    key(
        "agent.lookups.*.answer_type",
        Kind::Choice(&["text", "number", "bool", "choice"]),
    )
    .default("text"),
    key("agent.lookups.*.choices", Kind::Texts),
    key("agent.lookups.*.expect", Kind::Texts),
    key("agent.lookups.*.confidence", Kind::Number(0.0, 1.0)).default("0.95"),
    key("agent.lookups.*.confidence_at", Kind::Text),
    key("agent.lookups.*.cache_s", Kind::Number(0.0, 2_592_000.0)).default("3600"),
    key("agent.lookups.*.cache_entries", Kind::Integer(1, 100_000)).default("1000"),
    key("agent.lookups.*.per_minute", Kind::Integer(1, 6_000)).default("60"),
    key("agent.lookups.*.tries", Kind::Integer(1, 4)).default("3"),
    key("agent.lookups.*.timeout_s", Kind::Number(0.1, 60.0)).default("10"),
    key("agent.lookups.*.max_bytes", Kind::Integer(64, 1_048_576)).default("65536"),
    key("agent.lookups.*.private", Kind::Switch).default("false"),
    key("agent.lookups.*.ca_file", Kind::Path),
    key("agent.lookups.*.path", Kind::Path),
    key("agent.lookups.*.table", Kind::Text),
    key("agent.lookups.*.key", Kind::Text),
    key("agent.lookups.*.columns", Kind::Texts),
    key("agent.lookups.*.match", Kind::Choice(&["exact", "fuzzy"])).default("exact"),
    key("agent.lookups.*.alike", Kind::Switch).default("false"),
    key(
        "agent.lookups.*.schema",
        Kind::Structure("a table, a JSON Schema"),
    ),
    key("agent.lookups.*.question", Kind::Text),
    key("agent.references.model", Kind::Text).default("mobilenet-v2-features"),
    key("agent.references.min_likeness", Kind::Number(0.0, 0.99)),
    key("agent.jobs.*.plan", Kind::Path),
    key("agent.jobs.*.request", Kind::Text),
    key("agent.jobs.*.cron", Kind::Text),
    key("agent.jobs.*.catch_up", Kind::Switch).default("false"),
    key("agent.jobs.*.on.camera", Kind::Name),
    key("agent.jobs.*.on.class", Kind::Text),
    key("agent.jobs.*.on.rule", Kind::Text),
    key(
        "agent.jobs.*.on.verdict",
        Kind::Choice(&["escalate", "review", "record", "act"]),
    ),
    key("agent.jobs.*.min_interval_s", Kind::Integer(10, 604_800)).default("600"),
    key("agent.jobs.*.output", Kind::Text),
    key("agent.jobs.*.keep_last", Kind::Integer(1, 1000)),
    key("agent.jobs.*.notify_failure", Kind::Switch).default("false"),
    key("agent.job_limits.max_jobs", Kind::Integer(1, 10_000)).default("200"),
    key(
        "agent.job_limits.max_bytes",
        Kind::Integer(1 << 20, 1 << 44),
    )
    .default("10737418240"),
    key("agent.job_limits.max_days", Kind::Integer(1, 3_650)).default("90"),
    key("agent.job_tools.faces", Kind::Switch).default("false"),
    key("agent.memory.model", Kind::Path),
    key("models.dir", Kind::Path),
    key("models.mirror", Kind::Text),
    key("models.default", Kind::Text),
    key("llm.provider", Kind::Choice(PROVIDERS)),
    key("llm.program", Kind::Path),
    key("llm.base_url", Kind::Text),
    key("llm.key", Kind::Secret),
    key("llm.key_file", Kind::Path),
    key("llm.model", Kind::Text),
    key("llm.large_model", Kind::Text),
    key("llm.models_file", Kind::Path),
    key("llm.second_opinion", Kind::Switch).default("false"),
    key("llm.calls_per_hour", Kind::Integer(1, 10_000)).default("60"),
    key("llm.tokens_per_call", Kind::Integer(1_000, 2_000_000)).default("60000"),
    key("llm.idle_timeout_s", Kind::Number(1.0, 3_600.0)).default("90"),
    key("llm.timeout_factor", Kind::Integer(1, 100)).default("1"),
    key("llm.day_usd", Kind::Number(0.0, 10_000.0)).default("1"),
    key("llm.month_usd", Kind::Number(0.0, 100_000.0)).default("20"),
    key("llm.second.provider", Kind::Choice(PROVIDERS)),
    key("llm.second.program", Kind::Path),
    key("llm.second.base_url", Kind::Text),
    key("llm.second.key", Kind::Secret),
    key("llm.second.key_file", Kind::Path),
    key("sinks.hosts", Kind::Texts),
    key("sinks.folders", Kind::Texts),
    key("sinks.ca_file", Kind::Path),
    key("sinks.slack_url", Kind::Text).default("https://slack.com/api/"),
    key("sinks.twilio_url", Kind::Text).default("https://api.twilio.com/"),
    key("sinks.s3_url", Kind::Text),
    key("sinks.max_age_s", Kind::Number(10.0, 2_592_000.0)).default("86400"),
    key("sinks.secrets.*.file", Kind::Path),
    key("sinks.secrets.*.credential", Kind::Text),
    key("sinks.secrets.*.env", Kind::Text),
    key("sinks.secrets.*.value", Kind::Secret),
    key("channels.*.kind", Kind::Choice(&["webhook", "slack"])).default("webhook"),
    key("channels.*.url", Kind::Secret),
    key("channels.*.url_file", Kind::Path),
    key("channels.*.url_credential", Kind::Text),
    key("channels.*.url_env", Kind::Text),
    key(
        "channels.*.min_severity",
        Kind::Choice(&["info", "warning", "critical"]),
    ),
    key("channels.*.notify_end", Kind::Switch).default("false"),
    key("channels.*.pictures", Kind::Switch).default("true"),
];

/// Returns whether `path` (such as `sources.gate.uri`) matches `pattern` (such as `sources.*.uri`).
fn matches(pattern: &str, path: &[&str]) -> bool {
    let mut parts = path.iter();
    for want in pattern.split('.') {
        match parts.next() {
            Some(part) if want == "*" || want == *part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// Finds the declaration of a key.
#[must_use]
pub fn find(path: &[&str]) -> Option<&'static Key> {
    KEYS.iter().find(|k| matches(k.path, path))
}

/// Lists the names that are allowed directly below `path`; `*` where the user chooses the name.
/// Empty when `path` is not a section.
#[must_use]
pub fn children(path: &[&str]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in KEYS {
        let mut parts = key.path.split('.');
        let below = path.iter().all(|part| {
            parts
                .next()
                .is_some_and(|want| want == "*" || want == *part)
        });
        if let (true, Some(name)) = (below, parts.next())
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// The one key further below the section of `path` that has its name.
pub(crate) fn further_below(path: &[&str]) -> Option<&'static str> {
    let (name, section) = path.split_last()?;
    let (begin, end) = (format!("{}.", section.join(".")), format!(".{name}"));
    let is_meant = |key: &&Key| key.path.starts_with(&begin) && key.path.ends_with(&end);
    let mut meant = KEYS.iter().filter(is_meant);
    let first = meant.next()?;
    (meant.next().is_none() && !first.path.contains('*')).then_some(first.path)
}

/// Describes the allowed values.
#[must_use]
pub fn allowed(kind: Kind) -> String {
    match kind {
        Kind::Text => "text that is not empty".to_owned(),
        Kind::Name => {
            "1 to 40 of a-z, 0-9, '-' and '_', beginning with a letter or digit".to_owned()
        }
        Kind::DisplayName => {
            "1 to 60 characters of one line, with a letter or digit among them".to_owned()
        }
        Kind::Path => "a path".to_owned(),
        Kind::Secret => "text".to_owned(),
        Kind::Address => {
            "rtsp://…, rtsps://…, http(s)://…, /dev/videoN, a file, a folder or demo:".to_owned()
        }
        Kind::Switch => "true or false".to_owned(),
        Kind::Integer(min, max) => format!("a whole number from {min} to {max}"),
        Kind::Number(min, max) => format!("a number from {min} to {max}"),
        Kind::Choice(words) => words.join(", "),
        Kind::Mode => "octal permission bits as text, \"0600\" to \"0777\"".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::Words(words) => format!("a list of {}", words.join(", ")),
        Kind::Structure(form) => form.to_owned(),
        Kind::FileOrStructure => "a path of a JSON file, or a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chosen_by_a_person_matches_the_star() {
        assert_eq!(
            find(&["sources", "gate", "uri"]).map(|k| k.path),
            Some("sources.*.uri")
        );
        assert!(find(&["sources", "gate"]).is_none());
        assert!(find(&["sources", "gate", "uri", "x"]).is_none());
    }

    #[test]
    fn a_section_lists_what_may_stand_in_it() {
        assert_eq!(children(&["box"]), ["site", "id"]);
        assert_eq!(children(&["sources"]), ["*"]);
        assert!(children(&["runtime"]).contains(&"inference"));
        assert!(children(&["nothing"]).is_empty());
    }
}
