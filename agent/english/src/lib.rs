//! English that several readers of requests share.
//!
//! - [`past`] and its parts: spans of time before now.
//! - [`singular`] and [`singulars`]: what a plural is of.
//! - [`number_word`]: numbers as words.
//! - Words are in lower case. Nothing here reads a clock or knows a request.

mod nouns;
mod numbers;
mod spans;

pub use nouns::{singular, singulars};
pub use numbers::number_word;
pub use spans::{NIGHT, Span, days, part_of_day, past, within};
