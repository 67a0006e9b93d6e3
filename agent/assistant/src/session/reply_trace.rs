//! Writes requests, replies and decisions of a session to its trace.
//!
//! Invariant: a trace that cannot be written is logged, and stops nothing.

use serde_json::{Value, json};
use watchkeeper_plain::answer::Look;

use super::user_session::Session;
use crate::proposal::conversation::Reply;
use crate::trace;

impl Session {
    pub(super) fn trace_reply(&self, reply: &Reply) {
        match reply {
            Reply::Proposal(offer) | Reply::ChangedProposal(offer) => {
                self.trace_event("proposal", || offer.to_json())
            }
            Reply::Invalid(offer, why) => {
                self.trace_event(
                    "unsound",
                    || json!({"sentence": why, "offer": offer.to_json()}),
                );
            }
            Reply::Ask(question) => self.trace_event("question", || json!({"text": question.text})),
            Reply::Look(looked) => {
                self.trace_event("look_up", || json!({"text": describe_look(&looked.look)}));
            }
            Reply::Unknown(unknown) => {
                self.trace_event(
                    "unknown",
                    || json!({"text": unknown.not_understood.join(", ")}),
                );
            }
            Reply::TooLong(error) => {
                self.trace_event("unknown", || json!({"text": error.to_string()}))
            }
            Reply::Remember(_, words) => self.trace_event("remember", || json!({"text": words})),
            Reply::Answer { text, .. } => self.trace_event("answer", || json!({"text": text})),
            // Traced when they are shown.
            Reply::Actions(..) => {}
            Reply::Dropped => self.trace_event("dropped", || json!({})),
            // `apply` records a confirmation before it changes anything.
            Reply::Apply(_) | Reply::ProbeCameras(_) | Reply::NothingPending | Reply::Empty => {}
        }
    }

    /// Writes an entry that is audited; a failure is only logged. Other tasks do not wait for the
    /// disk.
    pub(super) async fn audit_event(&self, what: &'static str, particulars: Value) {
        trace::note_in_background(self.trace.as_ref(), what, particulars).await;
    }

    /// Writes an entry of the debug log; a failure is only logged.
    pub(super) fn trace_event(&self, what: &str, particulars: impl FnOnce() -> Value) {
        trace::note(self.trace.as_ref(), what, particulars);
    }
}

const fn describe_look(look: &Look) -> &'static str {
    match look {
        Look::Cameras => "the cameras",
        Look::Pipelines(_) => "the pipelines",
        Look::Coverage(_) => "the coverage",
        Look::Notes(_) => "notes",
        Look::Cost => "costs",
        Look::Status(_) => "the status",
        Look::Events(_) => "events",
        Look::Classes => "the classes",
        Look::Help => "help",
    }
}
