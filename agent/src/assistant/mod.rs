//! The assistant: requests in plain words → answers, and changes of what runs that a person has confirmed.
//!
//! Map: [`situation`] is what the runtime said of itself at one moment, [`conversation`] what is said back and what is waited for,
//! [`offer`] a proposal as a person is shown it ([`made`] where a model wrote it, which is shown as what it [`really`](mod@really) is), with the engine's [`checks`], the [`difference`] to what runs and what was seen when it was [`tried`], [`happened`] the search
//! in the journal, [`reword`] what a model of language is asked where nothing was understood, [`mod@counts`] the numbers, [`costs`] the money, [`recollection`] what was said before, [`policy`] what needs no yes, [`slash`] the short commands of the chat. They are sans-IO: time and answers of the runtime are arguments.
//! [`masks`] hides the secrets that stand in definitions. [`waiting`] and [`trace`] are the two files that it keeps.
//!
//! Invariants:
//! - nothing acts but [`Reply::Apply`](conversation::Reply::Apply), which only a yes to an offer that was shown brings about, or a permit of the owner's [`policy`] for that offer;
//! - an offer is applied only where the same words mean the same changes to the same pipelines when the yes comes; else it is shown anew;
//! - what a person is not told of an offer is not in it: what was assumed, what can't be done and what was not understood stand beside it.
//!
//! Not here: what words mean (`watchkeeper-plain`), who speaks to the runtime and to the terminal ([`crate::cli`]).

pub mod checks;
pub mod conversation;
pub mod costs;
pub mod counts;
pub mod difference;
pub mod happened;
pub mod made;
pub mod masks;
pub mod offer;
pub mod policy;
pub mod really;
pub mod recollection;
pub mod reword;
pub mod situation;
pub mod slash;
pub mod trace;
pub mod tried;
pub mod waiting;
