//! The jobs of a language model, and the upper limits of each.
//!
//! Invariant: a blueprint stays within these limits, and [`crate::permissions`] restricts it
//! further. No job has a tool that changes what the box does.

use serde::{Deserialize, Serialize};
use watchkeeper_llm::money::Money;

/// Maximum calls of a language model that any job may make for one request.
pub const MAX_STEPS: u32 = 20;

/// Kind of work that a blueprint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Sets up a watch: writes a workflow, previews it, tries it, and proposes it.
    SetUp,
    /// Judges an uncertain event (second opinion).
    Triage,
    /// Answers a question about the box and its events.
    Question,
    /// Makes lasting notes from the journal and the notes of days.
    Notes,
    /// Plans jobs on pictures ([`crate::jobs`]).
    Jobs,
    /// Proposes ingests into the archive.
    Ingestor,
    /// Finds, reads and prunes in the archive; proposes to destroy.
    Retriever,
    /// Proposes jobs on pictures, for a conversation.
    Organiser,
    /// Describes what the evidence of events shows.
    Identifier,
    /// Hands instructions to the four before.
    Coordinator,
}

// The first tool of each list stays first: every blueprint has it, and five jobs call it unasked
// (`Job::calls_first_tool`).

/// Tools of the set-up, in the order of the prompt.
const SET_UP: &[&str] = &[
    "look_around",
    "list_cameras",
    "get_snapshot",
    "list_available_models",
    "list_workflow_blocks",
    "get_block_details",
    "get_example",
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
    "get_observations",
    "memory_note",
    "update_plan",
];
/// Tools of a question, all read-only.
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
    "get_observations",
    "start_setup",
    "query_archive",
];
/// Tools of the note keeping: they read pipelines and the journal, and write notes.
const NOTES: &[&str] = &[
    "look_around",
    "list_streams",
    "stream_status",
    "query_events",
    "memory_search",
    "get_observations",
    "memory_note",
    "keep_pattern",
    "query_archive",
];
/// Tool of the plans of jobs. It answers with the faults of a plan.
const JOBS: &[&str] = &["propose_plan"];
/// The only tool of the ingestor.
const INGESTOR: &[&str] = &["propose_ingest"];
/// Tools of the retriever. Only the pruning is done without a yes: the entries stay.
const RETRIEVER: &[&str] = &[
    "query_archive",
    "retrieve_archive",
    "prune_archive",
    "propose_destroy",
];
/// The only tool of the organiser.
const ORGANISER: &[&str] = &["propose_job"];
/// Tools of the identifier, all read-only.
const IDENTIFIER: &[&str] = &[
    "query_events",
    "query_archive",
    "retrieve_archive",
    "get_evidence",
    "lookup",
];
/// The only tool of the coordinator, which never acts itself.
const COORDINATOR: &[&str] = &["delegate"];
/// Tool of the second opinion. The agent calls it in place of the model.
const TRIAGE: &[&str] = &["get_event"];

impl Job {
    pub const ALL: [Self; 10] = [
        Self::SetUp,
        Self::Triage,
        Self::Question,
        Self::Notes,
        Self::Jobs,
        Self::Ingestor,
        Self::Retriever,
        Self::Organiser,
        Self::Identifier,
        Self::Coordinator,
    ];

    /// The name, also of the built-in blueprint.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SetUp => "set-up",
            Self::Triage => "triage",
            Self::Question => "question",
            Self::Notes => "notes",
            Self::Jobs => "jobs",
            Self::Ingestor => "ingestor",
            Self::Retriever => "retriever",
            Self::Organiser => "organiser",
            Self::Identifier => "identifier",
            Self::Coordinator => "coordinator",
        }
    }

    /// Finds the job with a name; also the job of the built-in blueprint with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|job| job.name() == name)
    }

    /// The tools that its blueprints may have.
    #[must_use]
    pub const fn tools(self) -> &'static [&'static str] {
        match self {
            Self::SetUp => SET_UP,
            Self::Triage => TRIAGE,
            Self::Question => QUESTION,
            Self::Notes => NOTES,
            Self::Jobs => JOBS,
            Self::Ingestor => INGESTOR,
            Self::Retriever => RETRIEVER,
            Self::Organiser => ORGANISER,
            Self::Identifier => IDENTIFIER,
            Self::Coordinator => COORDINATOR,
        }
    }

    /// The tool that every blueprint has: the first of [`Job::tools`].
    #[must_use]
    pub const fn first_tool(self) -> &'static str {
        match self.tools() {
            [first, ..] => first,
            [] => "",
        }
    }

    /// Whether the agent calls the first tool before the model, so that a job begins with the
    /// current state.
    #[must_use]
    pub(crate) const fn calls_first_tool(self) -> bool {
        match self {
            Self::SetUp | Self::Question | Self::Notes | Self::Triage | Self::Retriever => true,
            Self::Jobs
            | Self::Ingestor
            | Self::Organiser
            | Self::Identifier
            | Self::Coordinator => false,
        }
    }

    /// Maximum of `limits.steps`: calls of the language model. The second call of the triage goes
    /// to the large model.
    #[must_use]
    pub const fn max_steps(self) -> u32 {
        match self {
            Self::SetUp => MAX_STEPS,
            Self::Triage => 2,
            Self::Question | Self::Notes | Self::Retriever | Self::Identifier => 12,
            Self::Jobs | Self::Ingestor | Self::Organiser | Self::Coordinator => 8,
        }
    }

    /// Maximum of `limits.cost_usd`, for one request or event.
    #[must_use]
    pub const fn max_cost(self) -> Money {
        const CENT: u64 = 10_000_000;
        Money(match self {
            Self::SetUp => 200 * CENT,
            Self::Triage => 10 * CENT,
            Self::Question
            | Self::Notes
            | Self::Jobs
            | Self::Ingestor
            | Self::Retriever
            | Self::Organiser
            | Self::Identifier
            | Self::Coordinator => 100 * CENT,
        })
    }

    /// Whether a request to set up, ask or archive may start it.
    #[must_use]
    pub(crate) const fn is_user_requestable(self) -> bool {
        !matches!(self, Self::Triage | Self::Jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::{Effect, Entrypoint, ToolPermissions};
    use crate::setup_agent::tool::ToolSet;

    #[test]
    fn every_job_has_its_first_tool_and_only_known_tools() {
        for job in Job::ALL {
            assert!(job.tools().contains(&job.first_tool()), "{}", job.name());
            assert_eq!(Job::from_name(job.name()), Some(job));
            if [Job::Triage, Job::Jobs].contains(&job) {
                continue;
            }
            let there = ToolSet::new(&ToolPermissions::unrestricted(Entrypoint::Ask), job.tools());
            assert_eq!(there.names(), job.tools(), "{}", job.name());
        }
    }

    #[test]
    fn first_tool_of_each_job_is_the_required_one() {
        let first = Job::ALL.map(|job| (job.first_tool(), job.calls_first_tool()));
        let expected = [
            ("look_around", true),
            ("get_event", true),
            ("look_around", true),
            ("look_around", true),
            ("propose_plan", false),
            ("propose_ingest", false),
            ("query_archive", true),
            ("propose_job", false),
            ("query_events", false),
            ("delegate", false),
        ];
        assert_eq!(first, expected);
    }

    #[test]
    fn each_agent_of_the_archive_has_only_its_effects() {
        let tools = |job: Job| {
            let there = ToolSet::new(&ToolPermissions::unrestricted(Entrypoint::Ask), job.tools());
            let found = job.tools().iter().filter_map(|name| there.find(name));
            found.map(|tool| tool.effect).collect::<Vec<_>>()
        };
        assert_eq!(tools(Job::Ingestor), [Effect::Propose]);
        assert_eq!(tools(Job::Organiser), [Effect::Propose]);
        assert_eq!(tools(Job::Coordinator), [Effect::Read]);
        assert_eq!(tools(Job::Identifier), [Effect::Read; 5]);
        let (read, write) = (Effect::Read, Effect::Write);
        assert_eq!(
            tools(Job::Retriever),
            [read, read, write, Effect::ProposeLoss]
        );
        for agent in crate::setup_agent::delegation::AGENTS {
            let job = Job::from_name(agent).unwrap_or(Job::Coordinator);
            assert!(!job.tools().contains(&"delegate"), "{agent}");
        }
    }

    #[test]
    fn question_only_reads_and_note_keeping_writes_only_notes() {
        let writers = |job: Job| -> Vec<&str> {
            let there = ToolSet::new(&ToolPermissions::unrestricted(Entrypoint::Ask), job.tools());
            let tools = job.tools().iter().filter_map(|name| there.find(name));
            let writers = tools.filter(|tool| tool.effect != Effect::Read);
            writers.map(|tool| tool.name).collect()
        };
        assert!(writers(Job::Question).is_empty());
        assert_eq!(writers(Job::Notes), ["memory_note", "keep_pattern"]);
    }
}
