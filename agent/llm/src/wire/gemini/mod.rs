//! Gemini's generateContent: `POST /v1beta/models/MODEL:generateContent`.

mod encode;
mod error_body;
mod read;

pub(super) use encode::encode;
pub(super) use error_body::read_error;
pub(super) use read::{Stream, decode};

/// Prefix of the ids of calls for which the provider gave none. Such ids are never sent.
const OWN_ID: &str = "wk-";
