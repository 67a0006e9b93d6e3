//! `watchkeeper trace`: what was asked in plain words, and what came of it.

use serde_json::Value;

use super::args::TraceArgs;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::state_folder::state_folder;
use crate::assistant::trace::Trace;

/// Longest line for a person, in characters; `--json` has all of it.
const SHOWN: usize = 160;

/// Prints the latest entries.
pub(super) fn run(args: TraceArgs, out: &Output) -> Result<(), Failure> {
    let folder = state_folder()?;
    let entries = Trace::new(&folder, "trace").latest(args.limit);
    let entries = entries.map_err(|e| {
        let sentence = format!("can't read the trace in {}: {e}", folder.display());
        Failure::new(Exit::Failed, sentence)
    })?;
    if entries.is_empty() {
        out.line("nothing was asked yet");
    }
    for entry in &entries {
        out.both(entry, || line(entry));
    }
    Ok(())
}

fn line(entry: &Value) -> String {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("–");
    let of = entry.get("of").unwrap_or(&Value::Null);
    let said = ["text", "understood", "sentence", "request"].iter();
    let said = said.filter_map(|name| of.get(name)?.as_str()).next();
    let said = said.map_or_else(|| of.to_string(), str::to_owned);
    let shown: String = said.chars().take(SHOWN).collect();
    let more = if shown.len() < said.len() { "…" } else { "" };
    let shown = shown.replace('\n', " ");
    format!(
        "{}  {:5} {:11} {shown}{more}",
        text("at"),
        text("channel"),
        text("what")
    )
}
