//! English that several readers of requests share.
//!
//! - [`past`] and its parts: spans of time before now; [`range`]: times with prepositions, dates;
//!   [`periods`]: several of them.
//! - [`singular`] and [`singulars`]: what a plural is of.
//! - [`one`] and [`several`]: nouns for sentences, in the words of the user.
//! - [`number_word`]: numbers as words.
//! - Words are in lower case. Nothing here reads a clock or knows a request.

mod nouns;
mod numbers;
mod ranges;
mod sentence;
mod spans;
mod words;

pub use nouns::{singular, singulars};
pub use numbers::number_word;
pub use ranges::{Range, periods, range};
pub use sentence::{is_several, one, several};
pub use spans::{NIGHT, Span, part_of_day, past};
pub use words::one_of;
