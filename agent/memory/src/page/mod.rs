//! The Markdown that notes are written in.
//!
//! ```text
//! # Observations of 2026-11-22
//!
//! Free text before the first `##` is a person's; each paragraph is a note.
//!
//! ## 2026-11-22T14:23:05Z @dock #delivery (camera)
//!
//! > A white van stood at bay 2 for four minutes.
//!
//! ## @dock Deliveries
//!
//! They come on Tuesdays.
//! ```
//!
//! A line of `##` begins a note. Marks stand first in it, in any order: a time, `@camera`, `#tag` and `(origin)`; the first other word begins a
//! title, which belongs to the words of the note. Words that are not a person's or the agent's own are quoted with `>` on every line, so nothing
//! in them can begin a note or be a mark. In plain words a line that begins with `#` or `>` has a backslash before it.
//!
//! Invariants: [`read`](fn@read) takes any bytes; what it does not understand it tells with the line; and what [`write`](fn@write) made is read back as it was.

mod body;
mod heading;
mod read;
mod write;

pub use heading::BadHeading;
pub(crate) use heading::whole_seconds;
pub use read::{Fault, Page, Placed, Why, read};
pub use write::write;

/// Whether a line begins a note.
fn begins_note(line: &str) -> bool {
    line == "##" || line.starts_with("## ") || line.starts_with("##\t") || line == "##\r"
}

#[cfg(test)]
pub(crate) mod tests;
