//! The assistant: requests in plain words → answers, and changes of what runs that a person has confirmed.
//!
//! Map: [`snapshot`] is what the runtime said of itself at one moment, [`conversation`] what is said back and what is waited for,
//! [`offer`] a proposal as a person is shown it ([`llm_proposal`] where a model wrote it, which is shown as what it [`describe`](mod@describe) is), with the engine's [`checks`], the [`difference`] to what runs and what was seen when it was [`trial`], [`event_search`] the search
//! in the journal, [`reword`] what a model of language is asked where nothing was understood, [`mod@counts`] the numbers, [`costs`] the money, [`history`] what was said before, [`auto_approval`] what needs no yes, [`chat_command`] the short commands of the chat. They are sans-IO: time and answers of the runtime are arguments.
//! [`redact`](crate::redact) hides the secrets that stand in definitions. [`pending`] and [`trace`](crate::trace) are the two files that it keeps.
//!
//! Invariants:
//! - nothing acts but [`Reply::Apply`](conversation::Reply::Apply), which only a yes to an offer that was shown brings about, or a permit of the owner's [`auto_approval`] for that offer;
//! - an offer is applied only where the same words mean the same changes to the same pipelines when the yes comes; else it is shown anew;
//! - what a person is not told of an offer is not in it: what was assumed, what can't be done and what was not understood stand beside it.
//!
//! Not here: what words mean (`watchkeeper-plain`), who speaks to the runtime and to the terminal (`watchkeeper-cli`).

pub mod auto_approval;
pub mod chat_command;
pub mod checks;
pub mod conversation;
pub mod costs;
pub mod counts;
pub mod describe;
pub mod difference;
pub mod event_search;
pub mod history;
pub mod llm_proposal;
pub mod offer;
pub mod pending;
pub mod reword;
pub mod snapshot;
pub mod trial;
