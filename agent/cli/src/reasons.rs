//! Reasons and notes of the states in a table.

use super::output::Output;

/// Cuts the reason off a state: a sentence in a cell widens the whole table.
pub(super) fn without_reason(state: &str) -> String {
    state
        .split_once(": ")
        .map_or(state, |(word, _)| word)
        .to_owned()
}

/// Prints the reasons and notes of a table's states below it; items are id, state and note.
pub(super) fn print_reasons<'a>(
    states: impl Iterator<Item = (&'a str, String, Option<&'a str>)>,
    out: &Output,
) {
    for (name, state, note) in states {
        let reason = state.split_once(": ").map(|(_, reason)| reason);
        for text in reason.into_iter().chain(note) {
            out.line(format!("  {name}: {text}"));
        }
    }
}
