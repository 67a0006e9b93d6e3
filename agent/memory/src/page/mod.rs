//! The Markdown of notes.
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
//! - A line of `##` begins a note, with marks in any order: a time, `@camera`, `#tag`, `(origin)`.
//!   The first other word begins a title, which belongs to the words of the note.
//! - Words by neither user nor agent are quoted with `>` on every line, so they can't begin a note
//!   or be a mark. In plain words a backslash escapes a line that begins with `#` or `>`.
//! - [`read`](fn@read) accepts any bytes, reports errors with their line, and reverses
//!   [`write`](fn@write).

mod body;
mod heading;
mod read;
mod write;

pub use heading::BadHeading;
pub(crate) use heading::whole_seconds;
pub use read::{Page, PageError, PageErrorKind, Placed, read};
pub(crate) use write::without;
pub use write::write;

fn begins_note(line: &str) -> bool {
    line == "##" || line.starts_with("## ") || line.starts_with("##\t") || line == "##\r"
}

#[cfg(test)]
pub(crate) mod tests;
