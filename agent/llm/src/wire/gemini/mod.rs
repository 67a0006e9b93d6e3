//! Gemini's generateContent: `POST /v1beta/models/MODEL:generateContent`.

mod encode;
mod fault;
mod read;

pub(super) use encode::encode;
pub(super) use fault::fault;
pub(super) use read::{Stream, whole};

/// Begins the ids of calls to which the provider gave none. Such ids are ours alone and are not sent.
const OWN_ID: &str = "wk-";
