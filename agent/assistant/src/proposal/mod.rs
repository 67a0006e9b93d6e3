//! Proposals: a request becomes an answer, or a change that waits for a user's confirmation.
//! - [`snapshot`], [`conversation`]: state of the runtime; state machine of one session.
//! - [`checked_proposal`]: a proposal with its [`checks`], [`difference`] and [`trial`].
//! - [`llm_proposal`], [`describe`](mod@describe): what an LLM proposed, described by the
//!   specification.
//!
//! Invariants:
//! - Only [`Reply::Apply`](conversation::Reply::Apply) changes anything, after a yes or
//!   [`auto_approval`].
//! - It applies only if the request still means the same changes to the same pipelines.
//! - Everything assumed, impossible or not understood is shown with the proposal.
//! - Sans-IO except [`pending`]: time and the runtime's answers are arguments.
//!
//! Not here: parsing of requests (`watchkeeper-plain`), I/O ([`session`](crate::session)).

pub mod agent_command;
pub mod auto_approval;
pub mod backtest;
pub mod chat_command;
pub mod checked_proposal;
pub mod checks;
pub mod conversation;
pub mod costs;
pub mod counts;
pub mod describe;
pub mod difference;
pub mod history;
pub mod llm_proposal;
pub mod pending;
pub mod price;
pub mod reword;
pub mod snapshot;
pub mod trial;
mod undo;
