//! The jobs that a model has here, and what each may have at all.
//!
//! Invariant: this table is the ceiling. A blueprint stays below it, and the gate of tools is asked besides: no job has a tool that acts.

use serde::{Deserialize, Serialize};
use watchkeeper_llm::money::Money;

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Sets up a watch: looks, writes a workflow, sees it on the picture, tries it, puts it up for a yes.
    SetUp,
    /// Judges an event that the box is unsure of.
    Triage,
    /// Answers a question about the box and what it saw.
    Question,
    /// Makes lasting notes of what the journal and the notes of days hold.
    Archive,
}

/// Tools of the set-up, in the order in which a model is told of them.
const SET_UP: &[&str] = &[
    "look_around",
    "list_cameras",
    "get_snapshot",
    "list_available_models",
    "list_workflow_blocks",
    "get_block_details",
    "validate_workflow",
    "preview_workflow",
    "dry_run_workflow",
    "propose_deployment",
    "list_streams",
    "stream_status",
    "propose_control",
    "infer_image",
    "query_events",
    "memory_search",
    "memory_note",
    "update_plan",
];
/// Those of a question: each of them only looks.
const QUESTION: &[&str] = &[
    "look_around",
    "list_cameras",
    "get_snapshot",
    "list_available_models",
    "list_streams",
    "stream_status",
    "infer_image",
    "query_events",
    "memory_search",
];
/// Those of the archive: it looks at streams and journal, and writes notes.
const ARCHIVE: &[&str] = &[
    "look_around",
    "list_streams",
    "stream_status",
    "query_events",
    "memory_search",
    "memory_note",
    "keep_pattern",
];
/// The one of the second opinion, which the harness calls in the model's place.
const TRIAGE: &[&str] = &["get_event"];

impl Job {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::SetUp, Self::Triage, Self::Question, Self::Archive];

    /// Its name, which is that of its built-in blueprint too.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SetUp => "set-up",
            Self::Triage => "triage",
            Self::Question => "question",
            Self::Archive => "archive",
        }
    }

    /// The job of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|job| job.name() == name)
    }

    /// The tools that it may have at all.
    #[must_use]
    pub const fn tools(self) -> &'static [&'static str] {
        match self {
            Self::SetUp => SET_UP,
            Self::Triage => TRIAGE,
            Self::Question => QUESTION,
            Self::Archive => ARCHIVE,
        }
    }

    /// The tool that the harness calls first, so that a job begins with the box as it is. No blueprint can do without.
    #[must_use]
    pub const fn first(self) -> &'static str {
        match self {
            Self::Triage => "get_event",
            Self::SetUp | Self::Question | Self::Archive => "look_around",
        }
    }

    /// Most calls of the model that a blueprint may allow. Of the triage: looks at the picture, the second by the larger model.
    #[must_use]
    pub const fn most_steps(self) -> u32 {
        match self {
            Self::SetUp => crate::setup_agent::turn::MAX_ASKS,
            Self::Triage => 2,
            Self::Question | Self::Archive => 12,
        }
    }

    /// The most that a blueprint may allow to be spent on one request or event.
    #[must_use]
    pub const fn most_cost(self) -> Money {
        const CENT: u64 = 10_000_000;
        Money(match self {
            Self::SetUp => 200 * CENT,
            Self::Triage => 10 * CENT,
            Self::Question | Self::Archive => 100 * CENT,
        })
    }

    /// Whether a person may ask for it in words.
    #[must_use]
    pub const fn is_asked_for(self) -> bool {
        !matches!(self, Self::Triage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::{Effect, Entrypoint, ToolPermissions};
    use crate::setup_agent::tool::ToolSet;

    #[test]
    fn every_job_begins_with_a_tool_of_its_own_and_names_only_tools_that_are_there() {
        for job in Job::ALL {
            assert!(job.tools().contains(&job.first()), "{}", job.name());
            assert_eq!(Job::named(job.name()), Some(job));
            if job == Job::Triage {
                continue;
            }
            let there = ToolSet::of(&ToolPermissions::open(Entrypoint::Ask), job.tools());
            assert_eq!(there.names(), job.tools(), "{}", job.name());
        }
    }

    #[test]
    fn a_question_only_looks_and_the_archive_writes_nothing_but_notes() {
        let effects = |job: Job| -> Vec<(Effect, crate::permissions::ToolScope)> {
            let there = ToolSet::of(&ToolPermissions::open(Entrypoint::Ask), job.tools());
            job.tools()
                .iter()
                .filter_map(|name| there.find(name))
                .map(|tool| (tool.effect, tool.scope))
                .collect()
        };
        let reads = |(effect, _): &(Effect, _)| *effect == Effect::Read;
        assert!(effects(Job::Question).iter().all(reads));
        for (effect, scope) in effects(Job::Archive) {
            let writes_notes =
                (effect, scope) == (Effect::Write, crate::permissions::ToolScope::Memory);
            assert!(effect == Effect::Read || writes_notes);
        }
    }
}
