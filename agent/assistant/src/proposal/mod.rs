//! Proposals: a request becomes an answer, or a change that waits for a user's confirmation.
//! - [`snapshot`]: the state of the runtime at one moment; [`conversation`]: one session's state
//!   machine.
//! - [`checked_proposal`]: a proposal with its [`checks`], its [`difference`] and its [`trial`].
//! - [`llm_proposal`], [`describe`](mod@describe): what an LLM proposed, and its description by the
//!   specification.
//! - [`auto_approval`], [`pending`], [`history`], [`event_search`], [`reword`], [`costs`],
//!   [`chat_command`].
//!
//! Invariants:
//! - Only [`Reply::Apply`](conversation::Reply::Apply) changes anything. It follows a user's yes to
//!   a proposal that was shown, or an [`auto_approval`].
//! - A proposal is applied only if the request still means the same changes to the same pipelines.
//!   Otherwise the session shows the new proposal.
//! - Everything assumed, impossible or not understood is shown with the proposal.
//! - Sans-IO except [`pending`]: time and the runtime's answers are arguments.
//!
//! Not here: parsing of requests (`watchkeeper-plain`), I/O with runtime and user
//! ([`session`](crate::session)).

pub mod auto_approval;
pub mod chat_command;
pub mod checked_proposal;
pub mod checks;
pub mod conversation;
pub mod costs;
pub mod counts;
pub mod describe;
pub mod difference;
pub mod event_search;
pub mod history;
pub mod llm_proposal;
pub mod pending;
pub mod reword;
pub mod snapshot;
pub mod trial;
