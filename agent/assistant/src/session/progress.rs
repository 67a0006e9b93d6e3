//! Events of a session, and their JSON for programs.
//!
//! Invariant: events flow one way; a session never waits for their receiver.

use std::path::Path;

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use watchkeeper_contract::event::Media;
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceStatus;
use watchkeeper_memory::Found;
use watchkeeper_plain::Question;

use crate::failure::Error;
use crate::operations::proposed_action::{ProposedActions, describe_all};
use crate::operations::trajectory::SessionStep;
use crate::past::PastAnswer;
use crate::proposal::auto_approval::AutoApproval;
use crate::proposal::checked_proposal::CheckedProposal;
use crate::proposal::costs::CostReport;
use crate::proposal::snapshot::SystemSnapshot;
use crate::redact;
use crate::setup_agent::turn::TurnCost;
use watchkeeper_client::JournalRecord;

/// Maximum known and unknown times of a camera in an answer about the past.
const MAX_TIMES: usize = 100;

/// Receiver of the events of a session.
pub trait ProgressSink: Send + Sync {
    fn report(&self, event: ProgressEvent<'_>);
}

/// Kind of a step of the setup agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStep {
    Thought,
    Action,
    /// A tool failed or was not permitted.
    Failure,
    Plan,
}

impl ProgressStep {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thought => "thought",
            Self::Action => "action",
            Self::Failure => "failure",
            Self::Plan => "plan",
        }
    }
}

#[derive(Debug)]
pub enum ProgressEvent<'a> {
    Busy(&'a str),
    /// The work in progress is done.
    Idle,
    /// Information in addition to the result.
    Note(&'a str),
    /// A step of the setup agent: one line, and details for programs.
    Step(ProgressStep, &'a str, Value),
    Spent(&'a TurnCost),
    /// Text of the LLM with its proposal: as one line, and in full.
    LlmComment(&'a str, &'a str),
    /// A proposal, its id if it is stored, and a hint on how to confirm it.
    Proposal(&'a CheckedProposal, Option<&'a str>, &'a str),
    /// A question that needs an answer.
    Question(&'a Question, &'a SystemSnapshot),
    Confirmed(&'a AutoApproval),
    /// Actions on archive or jobs that wait for a yes, and their id if they are stored.
    Actions(&'a ProposedActions, Option<&'a str>),
    /// A finished operation on the archive.
    Operation(&'a SessionStep),
    /// The earlier proposal still waits.
    StillPending,
    /// The waiting proposal or question was declined.
    Dropped,
    /// A change was applied: one line, and details for programs.
    Done(&'a str, Value),
    Answer(&'a str),
    Text(&'a str),
    /// A note was saved: its kind and its file.
    NoteSaved(watchkeeper_memory::Kind, &'a str),
    Notes(&'a [Found]),
    Cameras(&'a [SourceStatus]),
    /// The pipelines, and a sentence for an empty list.
    Pipelines(&'a [PipelineStatus], &'a str),
    /// Status of runtime, cameras and pipelines.
    Status(&'a SystemSnapshot),
    Camera(&'a [SourceStatus], &'a str, &'a [PipelineStatus]),
    /// An answer about the past, and what was understood.
    Events(&'a PastAnswer, &'a str),
    /// A picture of an event, and the file in which it was saved.
    Picture(&'a Media, &'a Path),
    Record(&'a JournalRecord),
    /// Costs and budget of the LLM.
    Cost(&'a CostReport),
    TraceEntry(&'a Value),
    /// The request failed.
    Failure(&'a Error),
}

impl<'a> ProgressEvent<'a> {
    /// The event of an answer: of an LLM, or of the box without one.
    pub const fn of_answer(text: &'a str, is_by_model: bool) -> Self {
        match is_by_model {
            true => Self::Answer(text),
            false => Self::Text(text),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Busy(text) => json!({"type": "busy", "message": text}),
            Self::Idle => json!({"type": "idle"}),
            Self::Note(text) => json!({"type": "note", "message": text}),
            Self::Step(step, _, of) => {
                let mut object = of.clone();
                object["type"] = Value::from("step");
                object["step"] = Value::from(step.name());
                object
            }
            Self::Spent(spent) => json!({
                "type": "cost", "usd": spent.cost.dollars(), "calls": spent.asks, "tool_calls": spent.runs, "tokens": spent.usage.total(),
            }),
            Self::LlmComment(_, text) => json!({"type": "said", "text": text}),
            Self::Proposal(offer, id, _) => {
                let mut view = offer.to_json();
                view["type"] = Value::from("proposal");
                if let Some(id) = id {
                    view["id"] = Value::from(*id);
                }
                view
            }
            Self::Question(question, _) => {
                json!({"type": "question", "text": question.text, "choices": question.choices})
            }
            Self::Confirmed(approval) => {
                json!({"type": "confirmed", "by": approval.key(), "change": approval.kind().name()})
            }
            Self::Actions(made, id) => json!({
                "type": "actions", "id": id, "actions": made.actions,
                "text": describe_all(&made.actions), "by_model": made.model.is_some(),
            }),
            Self::Operation(step) => {
                // Plain data with string keys always serialises.
                let mut object = serde_json::to_value(step).unwrap_or_default();
                object["type"] = Value::from("operation");
                object
            }
            Self::StillPending => {
                json!({"type": "note", "message": "the proposal still waits: yes or no"})
            }
            Self::Dropped => json!({"type": "dropped"}),
            Self::Done(_, of) => {
                let mut object = of.clone();
                object["type"] = Value::from("done");
                object
            }
            Self::Answer(text) => json!({"type": "answer", "text": text, "by_model": true}),
            Self::Text(text) => json!({"type": "answer", "text": text}),
            Self::NoteSaved(kind, file) => {
                json!({"type": "remembered", "kind": kind, "file": file})
            }
            Self::Notes(found) => json!({"type": "notes", "notes": found}),
            Self::Cameras(sources) => json!({"type": "cameras", "sources": sources}),
            Self::Pipelines(pipelines, _) => {
                json!({"type": "pipelines", "pipelines": hide_secrets(pipelines)})
            }
            Self::Status(here) => json!({
                "type": "status", "health": here.health, "sources": here.sources, "pipelines": hide_secrets(&here.pipelines),
            }),
            Self::Camera(sources, _, on_it) => {
                json!({"type": "status", "sources": sources, "pipelines": hide_secrets(on_it)})
            }
            Self::Events(answer, understood) => events_json(answer, understood),
            Self::Picture(media, file) => {
                json!({"type": "saved", "media": media, "file": file})
            }
            Self::Record(JournalRecord::Known(known)) => event_json(known),
            Self::Record(JournalRecord::Newer(record)) => event_json(&record.raw),
            Self::Record(JournalRecord::Unreadable { seq, cause }) => {
                json!({"type": "note", "message": format!("cannot read event {seq}: {cause}")})
            }
            Self::Cost(cost) => {
                // A struct with string keys always serialises.
                let mut object = serde_json::to_value(cost).unwrap_or_default();
                object["type"] = Value::from("costs");
                object
            }
            Self::TraceEntry(entry) => {
                let mut object = (*entry).clone();
                object["type"] = Value::from("trace");
                object
            }
            Self::Failure(failure) => json!({
                "type": "failure", "message": failure.sentence, "details": failure.details, "exit": failure.exit.code(),
            }),
        }
    }
}

/// Returns an answer about the past, and below `compared_with` what it is compared with.
fn events_json(answer: &PastAnswer, understood: &str) -> Value {
    let (found, zone) = (&answer.found, TimeZone::system());
    let events: Vec<Value> = found.events.iter().map(event_json).collect();
    let mut object = json!({
        "type": "events", "number": found.number, "complete": found.is_complete(), "events": events,
        "text": answer.text(understood, &zone), "coverage": answer.knowledge.to_json(MAX_TIMES, &zone),
    });
    if answer.only_number && answer.knowledge.cameras.len() > 1 {
        object["by_camera"] = json!(found.by_camera);
    }
    if !answer.hours.is_empty() {
        object["by_hour"] = answer
            .hours
            .iter()
            .map(|hour| hour.to_json(&zone))
            .collect();
    }
    if let Some(other) = &answer.compared_with {
        object["compared_with"] = events_json(other, "");
    }
    object
}

/// Returns the pipelines without secrets, since the receiver may pass them on.
fn hide_secrets(pipelines: &[PipelineStatus]) -> Vec<Value> {
    pipelines.iter().map(redact::status).collect()
}

/// Returns a journal record as an event object.
pub fn event_json(record: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    value["type"] = Value::from("event");
    value
}
