//! `watchkeeper trace`: the log of requests and LLM calls, of the user and of the agent.

use serde_json::Value;

use super::args::{Global, TraceArgs};
use super::configuration;
use super::exit::Failure;
use super::output::{Output, fitted};
use super::state_folder::state_folder;
use watchkeeper_assistant::trace::TRACE_FOLDER;
use watchkeeper_assistant::trace::{Trace, at};

/// Maximum length of the text of a line, in characters; `--json` has all of it.
const MAX_SHOWN: usize = 160;

/// Prints the latest entries: the user's own, and the agent's if this user may read them.
pub(super) fn run(args: TraceArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    let folder = state_folder()?;
    let entries = Trace::new(&folder, "trace").latest(args.limit);
    let mut entries = entries.map_err(|e| {
        let sentence = format!("can't read the trace in {}: {e}", folder.display());
        Failure::failed(sentence)
    })?;
    // A broken configuration does not hide the user's own trace.
    match agents_entries(args.limit, global) {
        Ok(agents) => entries.extend(agents),
        Err(why) => out.note(format!("entries of the agent are missing: {why}")),
    }
    print_latest(entries, args.limit, "no requests yet", out);
    Ok(())
}

/// Prints the last `limit` of the entries in the order of their times, or `none`.
pub(super) fn print_latest(mut entries: Vec<Value>, limit: usize, none: &str, out: &Output) {
    entries.sort_by_key(at);
    let entries = entries.split_off(entries.len().saturating_sub(limit));
    if entries.is_empty() {
        out.line(none);
    }
    for entry in &entries {
        out.both(entry, || line(entry));
    }
}

fn agents_entries(limit: usize, global: &Global) -> Result<Vec<Value>, Failure> {
    let config = configuration::read_without_broker(global)?;
    let folder = config.state_dir.join(TRACE_FOLDER);
    let unreadable = |e| Failure::failed(format!("can't read {}: {e}", folder.display()));
    Trace::new(&folder, "trace")
        .latest(limit)
        .map_err(unreadable)
}

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
    // A tool's answer consists of parts; pictures are hashes.
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
    let shown = fitted(said, MAX_SHOWN).replace('\n', " ");
    format!(
        "{}  {:5} {:11} {shown}",
        text("at"),
        text("channel"),
        text("what")
    )
}
