//! `watchkeeper trace`: what was asked in plain words, and what the agent asked a model, with what came of it.

use serde_json::Value;

use super::args::{Global, TraceArgs};
use super::configuration;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::state_folder::state_folder;
use watchkeeper_assistant::trace::TRACE_FOLDER;
use watchkeeper_assistant::trace::{Trace, at};
use watchkeeper_assistant::wording::cut;

/// Longest line for a person, in characters; `--json` has all of it.
const SHOWN: usize = 160;

/// Prints the latest entries: of this person's own, and of the agent's where this user may read them.
pub(super) fn run(args: TraceArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    let folder = state_folder()?;
    let entries = Trace::new(&folder, "trace").latest(args.limit);
    let mut entries = entries.map_err(|e| {
        let sentence = format!("can't read the trace in {}: {e}", folder.display());
        Failure::new(Exit::Failed, sentence)
    })?;
    // What is wrong with the configuration takes nobody's own trace away.
    if let Ok(config) = configuration::read_without_broker(global) {
        let folder = config.state_dir.join(TRACE_FOLDER);
        match Trace::new(&folder, "trace").latest(args.limit) {
            Ok(agents) => entries.extend(agents),
            Err(error) => {
                let folder = folder.display();
                out.note(format!(
                    "what the agent asked is left out: can't read {folder}: {error}"
                ));
            }
        }
    }
    entries.sort_by_key(at);
    let entries = entries.split_off(entries.len().saturating_sub(args.limit));
    if entries.is_empty() {
        out.line("nothing was asked yet");
    }
    for entry in &entries {
        out.both(entry, || line(entry));
    }
    Ok(())
}

/// An entry in one line.
pub(super) fn line(entry: &Value) -> String {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("–");
    let of = entry.get("of").unwrap_or(&Value::Null);
    let said = [
        "sentence",
        "text",
        "understood",
        "request",
        "arguments",
        "decision",
        "model",
    ]
    .iter();
    let said = said.filter_map(|name| of.get(name)?.as_str()).next();
    // What a tool answered is its parts, of which pictures are hashes.
    let said = said.or_else(|| of.get("parts")?.as_array()?.last()?.get("text")?.as_str());
    let mut said = said.map_or_else(|| of.to_string(), str::to_owned);
    if let Some(tool) = of.get("tool").and_then(Value::as_str) {
        said = format!("{tool}: {said}");
    }
    if let Some(event) = of.get("event").and_then(Value::as_str) {
        said = format!("{event}: {said}");
    }
    if let Some(usd) = of.get("usd").and_then(Value::as_f64) {
        said = format!("{said} (${usd:.4})");
    }
    let shown = cut(said, SHOWN).replace('\n', " ");
    format!(
        "{}  {:5} {:11} {shown}",
        text("at"),
        text("channel"),
        text("what")
    )
}
