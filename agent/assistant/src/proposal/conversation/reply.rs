//! What a session replies to a text.
//!
//! Invariant: only [`Reply::Apply`] changes anything.

use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::Kind;
use watchkeeper_plain::answer::{Looked, Unknown};
use watchkeeper_plain::{Question, TooLong};

use crate::operations::proposed_action::ProposedAction;
use crate::proposal::checked_proposal::CheckedProposal;

/// A session's reply to a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A proposal that waits for confirmation.
    Proposal(Box<CheckedProposal>),
    /// Confirmed, but what runs changed or the proposal expired. The new proposal waits for
    /// confirmation.
    ChangedProposal(Box<CheckedProposal>),
    /// Understood, but it cannot be confirmed; with the reason.
    Invalid(Box<CheckedProposal>, String),
    /// A confirmed proposal to apply now.
    Apply(Box<CheckedProposal>),
    /// A question about an incomplete request; the session waits for the answer.
    Ask(Question),
    Look(Looked),
    /// A note to save. It changes nothing on the box.
    Remember(Kind, String),
    /// These cameras must be opened for their picture sizes. The caller then handles the text once
    /// more.
    ProbeCameras(Vec<SourceId>),
    /// An answer of an LLM, or of the box without one; nothing to confirm.
    Answer {
        text: String,
        is_by_model: bool,
    },
    /// Actions on archive and jobs that a model proposes, and its name.
    Actions(Vec<ProposedAction>, String),
    Unknown(Unknown),
    /// The text exceeds the limit of the parser.
    TooLong(TooLong),
    /// The user declined what was waiting.
    Dropped,
    /// A yes or a no while nothing waits.
    NothingPending,
    Empty,
}
