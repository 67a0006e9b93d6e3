//! Reasons and notes of the states in a table.

use watchkeeper_contract::health::{Health, HealthReason, ReasonKind};
use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus};

use super::output::Output;

/// Prints the reasons and notes of a table's states below it: a sentence in a cell widens the whole
/// table. Items are id, reason and note.
pub(super) fn print_reasons<'a>(
    states: impl Iterator<Item = (&'a str, Option<String>, Option<&'a str>)>,
    out: &Output,
) {
    for (name, reason, note) in states {
        for text in reason.as_deref().into_iter().chain(note) {
            out.line(format!("  {name}: {text}"));
        }
    }
}

/// Why a pipeline failed.
pub(super) fn failure(state: &PipelineState) -> Option<String> {
    match state {
        PipelineState::Failed { message } => Some(message.clone()),
        _ => None,
    }
}

/// The pipelines; one that failed with its camera leaves the cause to the camera.
pub(super) fn without_causes_of_sources(
    health: &Health,
    pipelines: &[PipelineStatus],
) -> Vec<PipelineStatus> {
    let mut pipelines = pipelines.to_vec();
    for pipeline in &mut pipelines {
        let (id, source) = (&pipeline.spec.id, &pipeline.spec.source);
        let is_of_source = |reason: &HealthReason| {
            reason.kind == ReasonKind::PipelineState
                && (reason.pipeline.as_ref(), reason.source.as_ref()) == (Some(id), Some(source))
        };
        if let PipelineState::Failed { message } = &mut pipeline.state
            && health.details.iter().any(is_of_source)
        {
            *message = format!("its camera {:?} failed", source.as_str());
        }
    }
    pipelines
}

/// The reasons that the tables of cameras and pipelines do not show; an older runtime states no
/// kinds.
pub(super) fn not_in_tables(health: &Health) -> Vec<&String> {
    if health.details.is_empty() {
        return health.reasons.iter().collect();
    }
    let is_shown = |reason: &&HealthReason| {
        matches!(
            reason.kind,
            ReasonKind::SourceState | ReasonKind::Decoder | ReasonKind::PipelineState
        )
    };
    let others = health.details.iter().filter(|reason| !is_shown(reason));
    others.map(|reason| &reason.message).collect()
}
