//! Prints `docs/ref/configuration.md` from the declarations.
//!
//! - A test compares the file with [`render`]; `UPDATE_DOCS=1` rewrites it.

use watchkeeper_config::keys::{self, KEYS, SECTIONS};
use watchkeeper_config::{DEFAULT_FILE, FILE_VARIABLE};

/// Renders the document as Markdown.
pub(crate) fn render() -> String {
    let mut out = format!(
        "# Configuration\n\n\
         <!-- Generated from edge-runtime/shared/config/src/keys.rs; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-config rewrites it. -->\n\n\
         One TOML file serves both daemons and the command: `{DEFAULT_FILE}`, or the one that `--config` or \
         `{FILE_VARIABLE}` names. Every key can be set by a variable too: `WATCHKEEPER_` and the path in capitals, with \
         two underscores for each dot (`mqtt.port` is `WATCHKEEPER_MQTT__PORT`). A flag wins over a variable, a variable \
         over the file, the file over the default.\n\n\
         `watchkeeper config check` reports everything that is wrong at once: the key, the value found, what is allowed \
         and where it was written. An unknown key is refused. `watchkeeper config show` prints what holds in the end, \
         without secrets. Relative paths in the file begin at the file's folder, those in variables and flags at the working \
         directory. What a rule can say stands in [rules.md](rules.md).\n\n\
         ```toml\n{EXAMPLE}```\n"
    );
    for section in SECTIONS {
        let title = section.path.replace('*', "NAME");
        out.push_str(&format!("\n## [{title}]\n\n{}\n\n", section.effect));
        out.push_str("| Key | Value | Default | Effect |\n|---|---|---|---|\n");
        for key in KEYS {
            let Some((parent, name)) = key.path.rsplit_once('.') else {
                continue;
            };
            if parent != section.path {
                continue;
            }
            let unit = if key.unit.is_empty() {
                String::new()
            } else {
                format!(" ({})", key.unit)
            };
            let default = key
                .default
                .map_or_else(|| "–".to_owned(), |d| format!("`{d}`"));
            out.push_str(&format!(
                "| `{name}` | {}{unit} | {default} | {} |\n",
                keys::allowed(key.kind).replace('|', "\\|"),
                key.effect
            ));
        }
    }
    out
}

/// An example that the tests load.
pub(crate) const EXAMPLE: &str = r#"[box]
site = "yard"
id = "gate-1"

[sources.gate]
uri = "rtsp://192.168.1.20:554/stream1"

[pipelines.people]
source = "gate"
workflow = "people.json"
model = "motion"

[[pipelines.people.rules]]
name = "at-the-gate"
when = { kind = "stays", zone = "gate", for_s = 10.0 }

[mqtt]
host = "broker.local"
username = "gate-1"
password_file = "mqtt.password"
"#;
