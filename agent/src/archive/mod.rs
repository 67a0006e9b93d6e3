//! The archive in the agent: what opens it, what it ingests, and the events that enter by
//! themselves.
//!
//! - [`service`]: the verbs. [`sources`]: reading what an ingest names. [`roots`]: files below
//!   allowed folders. [`web`]: one GET. [`media`]: media of references. [`journal`]: a record as
//!   references. [`follow`]: its feed. [`embed`]: embeddings. [`camera_names`]: names of cameras.
//!
//! Invariants:
//! - An archive that can't be opened is reported at each request; the agent runs on.
//! - A file is read only below a configured folder, a host called only at a public address or by
//!   a configured name.
//! - A reference enters with its metadata only; its content stays with the runtime.

mod camera_names;
mod embed;
mod follow;
mod journal;
mod media;
mod roots;
pub(crate) mod service;
mod sources;
mod web;

use watchkeeper_archive::entry::MAX_FIELD;
use watchkeeper_assistant::wording::single_line;

pub(crate) use service::{ArchiveService, ArchiveSetup};

/// A text as a field or label of an entry: one line of at most [`MAX_FIELD`] characters.
pub(crate) fn field_text(text: &str) -> String {
    let cut: String = single_line(text).chars().take(MAX_FIELD).collect();
    cut.trim().to_owned()
}
