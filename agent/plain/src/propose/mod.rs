//! What a request means → a proposal: pipelines with workflow and rules, and sentences about them.
//!
//! - What is proposed compiles, and its sentences name everything that it holds.
//! - A change is made only where a verb asks for it.

mod deploy;
mod replace;
mod sentence;

use std::collections::BTreeSet;

use jiff::Zoned;
use watchkeeper_contract::id::PipelineId;

use crate::answer::{Change, Proposal};
use crate::refusal::{Notes, Refusal};
use crate::scene::{Scene, joined};
pub(crate) use deploy::deploy;
pub(crate) use replace::{check_direction, replace};

/// Changes that one request asks for, in order, and the sentence about them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangeSet {
    pub(crate) changes: Vec<Change>,
    pub(crate) text: String,
}

impl ChangeSet {
    /// Does the same to each of some pipelines.
    pub(crate) fn of(
        verb: &str,
        ids: Vec<PipelineId>,
        scene: &Scene,
        change: impl Fn(PipelineId) -> Change,
    ) -> Self {
        let one = |id: &PipelineId| match scene.pipeline(id) {
            Some(p) => format!("{id} on {}", p.spec.source),
            None => id.to_string(),
        };
        let all = joined(ids.iter().map(one), "; ");
        let s = if ids.len() == 1 { "" } else { "s" };
        Self {
            text: format!("{verb} {} pipeline{s}: {all}.", ids.len()),
            changes: ids.into_iter().map(change).collect(),
        }
    }
}

/// The end of a pause in words.
pub(crate) fn pause_end(until: Option<&Zoned>) -> String {
    match until {
        Some(until) => until.strftime("Until %Y-%m-%d %H:%M %:z").to_string(),
        None => "Until somebody resumes it".to_owned(),
    }
}

/// Pauses pipelines, until a moment or until a person resumes them.
pub(crate) fn pause(ids: Vec<PipelineId>, until: Option<Zoned>, scene: &Scene) -> ChangeSet {
    let end = format!(" {}.", pause_end(until.as_ref()));
    let mut one = ChangeSet::of("Pause", ids, scene, |pipeline| Change::Pause {
        pipeline,
        until: until.clone(),
    });
    one.text.push_str(&end);
    one
}

/// Makes one proposal of the changes of several requests. Refuses two changes of one pipeline.
pub(crate) fn propose(proposed: Vec<ChangeSet>, notes: Notes) -> Result<Proposal, Refusal> {
    let understood = joined(proposed.iter().map(|one| &one.text), " ");
    let changes: Vec<Change> = proposed.into_iter().flat_map(|one| one.changes).collect();
    let mut touched = BTreeSet::new();
    let mut ids = changes.iter().map(Change::pipeline);
    if let Some(twice) = ids.find(|id| !touched.insert(*id)) {
        return Err(Refusal::meaning(format!(
            "That is more than one change of {twice}. Please say them one at a time."
        )));
    }
    let mut told = BTreeSet::new();
    let mut assumed = notes.assumed;
    assumed.retain(|sentence| told.insert(sentence.clone()));
    Ok(Proposal {
        changes,
        understood,
        assumed,
        not_possible: notes.not_possible,
    })
}
