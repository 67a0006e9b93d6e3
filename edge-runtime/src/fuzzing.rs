//! Readers of outside data that are no part of any interface, open to the fuzz targets in `tests` only.
//!
//! The journal's records and the API's bodies are private on purpose. A fuzzer that had to reach them through a store or a
//! socket would try a thousandth of the inputs and never a damaged one. Nothing is decided here.

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

/// Reads a record of the journal.
///
/// # Errors
/// What is wrong with it.
pub fn stored_event(seq: EventSeq, bytes: &[u8]) -> Result<StoredEvent, BadRecord> {
    StoredEvent::decode(seq, bytes)
}

/// The record of `event` after the one with hash `previous`, and its own hash.
#[must_use]
pub fn store_event(event: &Event, previous: &Hash) -> (Vec<u8>, Hash) {
    record::encode(event, previous)
}

/// Reads the journal's head and writes it again; none when it can't be read.
#[must_use]
pub fn journal_head(bytes: &[u8]) -> Option<Vec<u8>> {
    record::HeadV1::decode(bytes).ok().map(|head| head.encode())
}

/// Reads the file of an effect: the JSON in it; none where it is not one.
#[must_use]
pub fn effect_file(bytes: &[u8]) -> Option<Vec<u8>> {
    effects::fuzzing::read(bytes)
}

/// The file of an effect with this JSON.
#[must_use]
pub fn write_effect_file(body: &[u8]) -> Vec<u8> {
    effects::fuzzing::write(body)
}

/// Reads a pipeline as the API does.
///
/// # Errors
/// The refusal.
pub fn pipeline_body(bytes: &[u8]) -> Result<PipelineSpec, Problem> {
    read(bytes)
}

/// Reads a source as the API does.
///
/// # Errors
/// The refusal.
pub fn source_body(bytes: &[u8]) -> Result<SourceSpec, Problem> {
    read(bytes)
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    body::json(Ok(Bytes::copy_from_slice(bytes)))
        .and_then(body::read)
        .map_err(|refusal| *refusal.0)
}
