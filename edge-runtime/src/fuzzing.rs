//! Internal parsers, open to the fuzz targets in `tests` only.
//!
//! The records of the journal and the bodies of the API are private. A fuzzer that had to go
//! through a store or a socket would try few inputs and never a damaged one.

use axum::body::Bytes;
use serde::de::DeserializeOwned;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_http::body;
use watchkeeper_store::BadRecord;

use crate::effects;
use crate::journal::{Hash, StoredEvent, record};

/// Decodes a record of the journal.
///
/// # Errors
/// Why it can't be decoded.
pub fn stored_event(seq: EventSeq, bytes: &[u8]) -> Result<StoredEvent, BadRecord> {
    StoredEvent::decode(seq, bytes)
}

/// The record of `event` after the one with hash `previous`, and its own hash.
#[must_use]
pub fn store_event(event: &Event, previous: &Hash) -> (Vec<u8>, Hash) {
    record::encode(event, previous)
}

/// Decodes and encodes the journal's head.
#[must_use]
pub fn journal_head(bytes: &[u8]) -> Option<Vec<u8>> {
    record::HeadV1::decode(bytes).ok().map(|head| head.encode())
}

/// The JSON in the file of an effect.
#[must_use]
pub fn effect_file(bytes: &[u8]) -> Option<Vec<u8>> {
    effects::fuzzing::read(bytes)
}

/// The file of an effect with this JSON.
#[must_use]
pub fn write_effect_file(body: &[u8]) -> Vec<u8> {
    effects::fuzzing::write(body)
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
