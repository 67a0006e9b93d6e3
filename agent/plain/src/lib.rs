//! Understands common requests in plain English without a model, and proposes what to do.
//!
//! Owns the vocabulary (`lexicon.toml`, `phrases.toml`, `question_words.toml`), the [`Proposal`]
//! made of a request, and the [`templates`] of the commonest watches.
//!
//! ```text
//! "tell me when a person is at the gate for 2 minutes"              modules
//!    │ tokens                                                       token
//!    ▼
//! Reader: the words, and the slot of each that a phrase has used    reader, values
//!    │ sentences and clauses, each with its intent                  pieces, intent
//!    ▼
//! Request ─ watch ──► Parts: camera, place, classes, verbs          request, names, place
//!    │                  │     and Settings: times, hours, channels  settings, hours
//!    │                  │ a word that no phrase used refuses it     closed, request/nearest
//!    │                  │ each correction is merged into the parts  amend
//!    │                  ▼
//!    │                NewWatch, one for each camera                 request/conditions, objects
//!    ├─ change ─────► the pipeline with other classes and Settings  edit, propose/replace
//!    ├─ stop, pause ► the pipelines that it names                   control, deployed
//!    └─ question ───► a kind and its Slots → Look: what to look up  look, question, kinds, moments
//!         ▼
//! Answer: a Proposal (propose), a look-up, a question of what is missing, or the words that were
//! not understood                                                    understand, answer, refusal
//! ```
//!
//! - Nothing acts: a change of the box is a [`Proposal`], which a caller confirms.
//! - Without a verb that asks for it nothing is proposed. What is needed and missing is asked for.
//! - A request that its unread words would change is not proposed.
//! - The answer names what was assumed, what cannot be done and, as written, what was not
//!   understood.
//! - Names of cameras, places and pipelines are compared with the text, never read as a request.
//! - The text is bounded ([`MAX_CHARS`]), no text causes a panic, and one text in one [`Scene`] has
//!   one answer.

mod amend;
pub mod answer;
mod closed;
mod control;
mod deployed;
mod edit;
mod follow_up;
mod hours;
mod intent;
mod kinds;
mod lexicon;
mod look;
mod moments;
mod names;
mod new_watch;
mod pieces;
mod place;
mod propose;
mod question;
mod question_words;
mod reader;
mod refusal;
mod request;
pub mod scene;
mod settings;
pub mod templates;
mod understand;
mod values;

pub use answer::{Answer, Change, Missing, Proposal, Question};
pub use scene::Scene;
pub use toml::de::Error as DataError;
pub use understand::{Plain, TooLong};
pub(crate) use watchkeeper_english::token;

/// Longest request in characters. The longest sensible one (three cameras, a polygon each) has some
/// 600.
pub const MAX_CHARS: usize = 2_000;
