//! English that several readers of requests share.
//!
//! - [`past`] and its parts: spans of time before now; [`range`]: times with prepositions, dates;
//!   [`periods`]: several of them.
//! - [`clock_time`]: times of the clock; [`hours`]: those of one day.
//! - [`token`]: a text as words, numbers, times and marks.
//! - [`singular`] and [`singulars`]: what a plural is of.
//! - [`one`] and [`several`]: nouns for sentences, in the words of the user.
//! - [`number_word`]: numbers as words.
//! - Words are in lower case. Nothing here asks what time it is, or knows a request.

mod clock;
mod nouns;
mod numbers;
mod ranges;
mod sentence;
mod spans;
pub mod token;
mod words;

pub use clock::{ClockTime, Sense, clock_time};
pub use nouns::{singular, singulars};
pub use numbers::number_word;
pub use ranges::{Range, hours, last_day, periods, range};
pub use sentence::{is_several, one, several};
pub use spans::{NIGHT, Span, number, part_of_day, past, short_weekday, weekday};
pub use words::{is_courtesy, one_of};
