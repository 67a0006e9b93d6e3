//! Understands common requests in plain English, without a model, and proposes what to do.
//!
//! Owns: the language (words in `lexicon.toml`, phrases in the modules that read them), the typed [`intent`], the [`Proposal`] made of it, the
//! templates of the commonest watches ([`templates`]). The way is: text → tokens → requests → phrases → [`Intent`](intent::Intent)s → one [`Proposal`], something to look up, or a question.
//!
//! Invariants:
//! - nothing acts: whatever would change the box is a [`Proposal`] that somebody else confirms;
//! - without a verb that asks for it nothing is proposed, and what is needed and wasn't said is asked for;
//! - a word is used only where it has an effect; a request that what was left over would turn into another one is not offered;
//! - what was assumed, what can't be done and what was not understood is told, the last in the person's own words;
//! - names of cameras, places and pipelines are compared with what a person wrote, and never read as a request;
//! - the text is bounded ([`MAX_CHARS`]), no text makes anything here panic, and the same text in the same scene gives the same answer.
//!
//! Sans-IO: the time is part of the [`Scene`]. Not here: who is asked to confirm, what is looked up, how an answer is shown.

mod against;
mod amend;
pub mod answer;
mod apart;
mod asks;
mod audience;
mod beyond;
mod chosen;
mod control;
mod crossed;
mod data;
mod deployed;
mod edit;
mod english;
mod hours;
mod instead;
pub mod intent;
mod keeping;
mod kinds;
mod lexicon;
mod look;
mod moments;
mod names;
mod need;
mod pieces;
mod place;
mod propose;
mod reader;
mod receiver;
mod request;
pub mod scene;
mod span;
mod spelling;
mod states;
pub mod templates;
mod token;
mod tongue;
mod understand;
mod wanted;
mod weighty;

pub use answer::{Answer, Change, Missing, Proposal, Question};
pub use data::DataError;
pub use scene::Scene;
pub use token::MAX_CHARS;
pub use understand::{Plain, TooLong};
