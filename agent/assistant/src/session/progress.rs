//! What the assistant tells while it works and in the end, and the objects that programs get of it.
//!
//! Invariant: a listener is told and never asked; nothing waits for it.

use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceStatus;
use watchkeeper_memory::Found;
use watchkeeper_plain::Question;
use watchkeeper_plain::intent::EventsWanted;

use crate::failure::Error;
use crate::proposal::auto_approval::AutoApproval;
use crate::proposal::costs::CostReport;
use crate::proposal::event_search::EventSearchResult;
use crate::proposal::offer::CheckedProposal;
use crate::proposal::snapshot::SystemSnapshot;
use crate::redact;
use crate::setup_agent::turn::TurnCost;
use watchkeeper_client::JournalRecord;

/// Somebody who listens.
pub trait ProgressSink: Send + Sync {
    /// Hears it.
    fn tell(&self, told: ProgressEvent<'_>);
}

/// What a model does while it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStep {
    /// It thinks.
    Thought,
    /// It uses a tool.
    Action,
    /// A tool failed or was refused.
    Failure,
    /// It has a plan.
    Plan,
}

impl ProgressStep {
    /// Its name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thought => "thought",
            Self::Action => "action",
            Self::Failure => "failure",
            Self::Plan => "plan",
        }
    }
}

/// Something that is told.
#[derive(Debug)]
pub enum ProgressEvent<'t> {
    /// What is waited for.
    Busy(&'t str),
    /// What was waited for came.
    Idle,
    /// Worth knowing, and not the result.
    Note(&'t str),
    /// A model does something: in one line, and its particulars.
    Step(ProgressStep, &'t str, Value),
    /// What a model's work has cost so far.
    Spent(&'t TurnCost),
    /// A model's own words beside what it proposes, in one line and as they came.
    Said(&'t str, &'t str),
    /// An offer: with the id that it is kept under, where it is, and what is waited for.
    Offer(&'t CheckedProposal, Option<&'t str>, &'t str),
    /// Something has to be known first.
    Question(&'t Question, &'t SystemSnapshot),
    /// The offer that was shown is confirmed, by what the owner of the box said beforehand.
    Confirmed(&'t AutoApproval),
    /// The offer from before still waits.
    Waits,
    /// What waited was put aside.
    Dropped,
    /// A change was carried out: in one line, and its particulars.
    Done(&'t str, Value),
    /// A model's answer.
    Answer(&'t str),
    /// An answer of the rules.
    Text(&'t str),
    /// A word was kept: as what, and where.
    Remembered(watchkeeper_memory::Kind, &'t str),
    /// Notes that were searched for.
    Notes(&'t [Found]),
    /// The cameras.
    Cameras(&'t [SourceStatus]),
    /// What is deployed, and what to say where nothing is.
    Pipelines(&'t [PipelineStatus], &'t str),
    /// How all of it is.
    Status(&'t SystemSnapshot),
    /// One camera, its name, and what watches it.
    Camera(&'t [SourceStatus], &'t str, &'t [PipelineStatus]),
    /// Events that were searched for, with the beginning of the sentence about them.
    Events(&'t EventSearchResult, &'t EventsWanted, &'t str),
    /// A record of the journal.
    Record(&'t JournalRecord),
    /// What the model has cost, and what it may.
    Cost(&'t CostReport),
    /// An entry of the trace.
    Traced(&'t Value),
    /// It failed.
    Failure(&'t Error),
}

impl ProgressEvent<'_> {
    /// The object that programs get.
    #[must_use]
    pub fn object(&self) -> Value {
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
            Self::Said(_, text) => json!({"type": "said", "text": text}),
            Self::Offer(offer, id, _) => {
                let mut view = offer.view();
                view["type"] = Value::from("proposal");
                if let Some(id) = id {
                    view["id"] = Value::from(*id);
                }
                view
            }
            Self::Question(question, _) => {
                json!({"type": "question", "text": question.text, "choices": question.choices})
            }
            Self::Confirmed(permit) => {
                json!({"type": "confirmed", "by": permit.key(), "change": permit.kind().name()})
            }
            Self::Waits => {
                json!({"type": "note", "message": "the proposal still waits for a yes or a no"})
            }
            Self::Dropped => json!({"type": "dropped"}),
            Self::Done(_, of) => {
                let mut object = of.clone();
                object["type"] = Value::from("done");
                object
            }
            Self::Answer(text) => json!({"type": "answer", "text": text, "by_model": true}),
            Self::Text(text) => json!({"type": "answer", "text": text}),
            Self::Remembered(kind, file) => {
                json!({"type": "remembered", "kind": kind, "file": file})
            }
            Self::Notes(found) => json!({"type": "notes", "notes": found}),
            Self::Cameras(sources) => json!({"type": "cameras", "sources": sources}),
            Self::Pipelines(pipelines, _) => {
                json!({"type": "pipelines", "pipelines": without_secrets(pipelines)})
            }
            Self::Status(here) => json!({
                "type": "status", "health": here.health, "sources": here.sources, "pipelines": without_secrets(&here.pipelines),
            }),
            Self::Camera(sources, _, on_it) => {
                json!({"type": "status", "sources": sources, "pipelines": without_secrets(on_it)})
            }
            Self::Events(happened, _, _) => {
                let events: Vec<Value> = happened.events.iter().map(event).collect();
                json!({"type": "events", "number": happened.number, "complete": !happened.cut, "events": events})
            }
            Self::Record(JournalRecord::Known(known)) => event(known),
            Self::Record(JournalRecord::Newer(record)) => event(&record.raw),
            Self::Record(JournalRecord::Unreadable { seq, cause }) => {
                json!({"type": "note", "message": format!("event {seq} can't be read: {cause}")})
            }
            Self::Cost(cost) => {
                // Plain data with string keys: serde_json can't fail on it.
                let mut object = serde_json::to_value(cost).unwrap_or_default();
                object["type"] = Value::from("costs");
                object
            }
            Self::Traced(entry) => {
                let mut object = (*entry).clone();
                object["type"] = Value::from("trace");
                object
            }
            Self::Failure(failure) => json!({
                "type": "failure", "message": failure.sentence, "details": failure.details, "exit": failure.kind.code(),
            }),
        }
    }
}

/// Whoever listens may be a program far away, and may pass on what it hears.
fn without_secrets(pipelines: &[PipelineStatus]) -> Vec<Value> {
    pipelines.iter().map(redact::status).collect()
}

/// A record of the journal as an object of its own.
#[must_use]
pub fn event(record: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    value["type"] = Value::from("event");
    value
}
