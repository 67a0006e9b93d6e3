//! An intent → a proposal: pipelines with workflow and rules, and plain sentences about them.
//!
//! Invariant: what is proposed compiles, and its sentences name everything that it holds.

mod deploy;
mod replace;
mod sentence;

use std::collections::BTreeSet;

use watchkeeper_contract::id::PipelineId;

use crate::answer::{Change, Proposal};
use crate::intent::Intent;
use crate::need::{Need, Notes};
use crate::scene::Scene;
use deploy::deploy;
pub(crate) use replace::{Edit, replace};

/// Makes a proposal of intents that act.
pub(crate) fn propose(intents: Vec<Intent>, scene: &Scene, notes: Notes) -> Result<Proposal, Need> {
    let mut assumed = notes.assumed;
    let (mut changes, mut understood) = (Vec::new(), Vec::new());
    for intent in &intents {
        let (more, text) = changes_of(intent, scene)?;
        changes.extend(more);
        understood.push(text);
    }
    let mut touched = BTreeSet::new();
    if let Some(twice) = changes
        .iter()
        .map(Change::pipeline)
        .find(|id| !touched.insert(*id))
    {
        return Err(Need::meaning(format!(
            "That is more than one change of {twice}. Please say them one at a time."
        )));
    }
    let mut told = BTreeSet::new();
    assumed.retain(|sentence| told.insert(sentence.clone()));
    Ok(Proposal {
        changes,
        understood: understood.join(" "),
        assumed,
        not_possible: notes.not_possible,
    })
}

/// Returns the changes of an intent, in order, and the sentence about them.
fn changes_of(intent: &Intent, scene: &Scene) -> Result<(Vec<Change>, String), Need> {
    Ok(match intent {
        Intent::Watch(watches) => deploy(watches, scene)?,
        Intent::Change(spec, text) => (vec![Change::Replace(spec.clone())], text.clone()),
        Intent::Stop(ids) => (
            ids.iter().cloned().map(Change::Stop).collect(),
            control("Stop", ids, scene),
        ),
        Intent::Resume(ids) => (
            ids.iter().cloned().map(Change::Resume).collect(),
            control("Resume", ids, scene),
        ),
        Intent::Pause { pipelines, until } => {
            let pause = |pipeline: &PipelineId| Change::Pause {
                pipeline: pipeline.clone(),
                until: until.clone(),
            };
            let mut text = control("Pause", pipelines, scene);
            match until {
                Some(until) => {
                    text.push_str(&format!(" Until {}.", until.strftime("%Y-%m-%d %H:%M %:z")))
                }
                None => text.push_str(" Until somebody resumes it."),
            }
            (pipelines.iter().map(pause).collect(), text)
        }
    })
}

fn control(verb: &str, ids: &[PipelineId], scene: &Scene) -> String {
    let one = |id: &PipelineId| match scene.pipelines.iter().find(|p| p.spec.id == *id) {
        Some(p) => format!("{id} on {}", p.spec.source),
        None => id.to_string(),
    };
    let all: Vec<String> = ids.iter().map(one).collect();
    let noun = if ids.len() == 1 {
        "pipeline"
    } else {
        "pipelines"
    };
    format!("{verb} {} {noun}: {}.", ids.len(), all.join("; "))
}
