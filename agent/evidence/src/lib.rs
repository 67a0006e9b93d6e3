//! Evidence from several sources: which are asked, what they answer, and what follows.
//!
//! - [`chain`]: order, weights and final state, sans-IO.
//! - [`source`]: what one source found. [`value`]: what is looked up.
//! - [`table`], [`http`]: look-ups in files and services. [`fields`]: fields that a model reads.
//! - [`picture`]: checks of a picture before a model sees it.
//! - [`mod@reference`]: pictures to compare with.
//!
//! Invariants:
//! - A source that fails is a separate link with its cause; it is never left out.
//! - Nothing is guessed: an answer that is ambiguous or of another form is not an answer.
//! - Text from cameras, files and services is data; it never becomes part of an address's host.
//!
//! Not here: the journal, the model, the store (`agent`).

pub mod chain;
pub mod fields;
pub mod http;
pub mod lookup;
pub mod picture;
pub mod reference;
pub mod source;
pub mod table;
pub mod value;
