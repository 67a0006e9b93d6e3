//! Internal parsers, open to the fuzz targets in `tests` only.
//!
//! The records of the journal and the bodies of the API are private. Through a store or a socket, a
//! fuzzer would try few inputs and never a damaged one.

use axum::body::Bytes;
use serde::de::DeserializeOwned;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_http::body;
use watchkeeper_store::BadRecord;

use crate::history::{SeenFrame, SeenPicture};
use crate::journal::{self, Hash, StoredEvent, record};
use crate::{effects, history};

/// Decodes a record of the journal.
///
/// # Errors
/// Why it can't be decoded.
pub fn stored_event(seq: EventSeq, bytes: &[u8]) -> Result<StoredEvent, BadRecord> {
    StoredEvent::decode(seq, bytes)
}

/// The record of `event` after the one with hash `previous`, and its own hash.
pub fn store_event(event: &Event, previous: &Hash) -> (Vec<u8>, Hash) {
    record::encode(event, previous)
}

/// Decodes and encodes the journal's head.
pub fn journal_head(bytes: &[u8]) -> Option<Vec<u8>> {
    record::HeadV1::decode(bytes).ok().map(|head| head.encode())
}

/// The JSON in the file of an effect.
pub fn effect_file(bytes: &[u8]) -> Option<Vec<u8>> {
    effects::fuzzing::read(bytes)
}

/// The file of an effect with this JSON.
#[must_use]
pub fn write_effect_file(body: &[u8]) -> Vec<u8> {
    effects::fuzzing::write(body)
}

/// Reads a chunk of the detection history; its bytes as it is written, and its frames.
pub fn history_chunk(bytes: &[u8]) -> Option<(Vec<u8>, Vec<SeenFrame>)> {
    history::fuzzing::read_chunk(bytes)
}

/// Pictures of the detection history in these bytes.
pub fn history_pictures(bytes: &[u8]) -> Vec<SeenPicture> {
    history::fuzzing::read_pictures(bytes)
}

/// Parses an assessment as the API does.
///
/// # Errors
/// The problem of the API.
pub fn assessment_body(bytes: &[u8]) -> Result<NewAssessment, Problem> {
    read(bytes)
}

/// Checks an assessment as the journal does.
///
/// # Errors
/// Why it is refused.
pub fn check_assessment(new: &NewAssessment) -> Result<(), String> {
    journal::check_assessment(new).map_err(|e| e.to_string())
}

/// Parses a pipeline as the API does.
///
/// # Errors
/// The problem of the API.
pub fn pipeline_body(bytes: &[u8]) -> Result<PipelineSpec, Problem> {
    read(bytes)
}

/// Parses a source as the API does.
///
/// # Errors
/// The problem of the API.
pub fn source_body(bytes: &[u8]) -> Result<SourceSpec, Problem> {
    read(bytes)
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    body::json(Ok(Bytes::copy_from_slice(bytes)))
        .and_then(body::read)
        .map_err(|refusal| *refusal.0)
}
