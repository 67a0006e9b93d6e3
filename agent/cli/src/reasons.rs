//! Reasons and notes of the states in a table.

use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus};
use watchkeeper_contract::source::{SourceState, SourceStatus};

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

/// The pipelines; one that failed with its camera leaves the cause to the camera.
pub(super) fn without_causes_of_sources(
    sources: &[SourceStatus],
    pipelines: &[PipelineStatus],
) -> Vec<PipelineStatus> {
    let mut pipelines = pipelines.to_vec();
    for pipeline in &mut pipelines {
        let source = sources
            .iter()
            .find(|source| source.spec.id == pipeline.spec.source);
        if let PipelineState::Failed { message } = &mut pipeline.state
            && let Some(SourceState::Failed { message: cause, .. }) = source.map(|it| &it.state)
            && message == cause
        {
            *message = format!("its camera {:?} failed", pipeline.spec.source.as_str());
        }
    }
    pipelines
}

/// The reasons of a degraded health that do not end with a cause that the tables show.
pub(super) fn not_in_tables<'a>(
    reasons: &'a [String],
    sources: &[SourceStatus],
    pipelines: &[PipelineStatus],
) -> Vec<&'a String> {
    let of_sources = sources.iter().filter_map(|source| match &source.state {
        SourceState::Lost { message, .. } | SourceState::Failed { message, .. } => Some(message),
        _ => source.decoder.as_ref()?.fallback.as_ref(),
    });
    let of_pipelines = pipelines
        .iter()
        .filter_map(|pipeline| match &pipeline.state {
            PipelineState::Failed { message } => Some(message),
            _ => None,
        });
    let causes: Vec<&String> = of_sources.chain(of_pipelines).collect();
    let is_shown = |reason: &&String| causes.iter().any(|cause| reason.ends_with(cause.as_str()));
    reasons.iter().filter(|reason| !is_shown(reason)).collect()
}
