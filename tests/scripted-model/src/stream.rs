//! Cuts an answer into pieces and chunks.

use serde_json::Value;

use crate::http::End;
use crate::script::{Fault, Step};

/// Default chunk size in bytes: odd, so that chunks end within lines and characters.
const CHUNK: usize = 7;

/// Cuts a text into pieces of `length` characters.
pub(crate) fn pieces(text: &str, length: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunks(length.max(1))
        .map(|piece| piece.iter().collect())
        .collect()
}

/// Returns the first half of a text.
pub(crate) fn half(text: &str) -> String {
    text.chars().take(text.chars().count() / 2).collect()
}

/// Appends a server-sent event.
pub(crate) fn event(out: &mut String, name: &str, data: &Value) {
    out.push_str(&format!("event: {name}\ndata: {data}\n\n"));
}

/// Chunk size of the answer in bytes.
pub(crate) fn chunk(step: &Step) -> usize {
    step.reply.chunk_bytes.unwrap_or(CHUNK)
}

/// Returns how the connection ends.
pub(crate) fn end(step: &Step) -> End {
    match step.fault {
        Some(Fault::ResetAfterHeaders) => End::Reset,
        Some(Fault::Stall) => End::Stall,
        _ => End::Whole,
    }
}

/// Counts the tokens of the output, and those of its thoughts.
pub(crate) fn output_tokens(step: &Step, written: &[Value]) -> (u64, u64) {
    let bytes: usize = written.iter().map(|part| part.to_string().len()).sum();
    let output = step.reply.output_tokens;
    let thought = step
        .reply
        .thinking
        .as_ref()
        .map_or(0, |t| t.len() as u64 / 4);
    let output = output.unwrap_or((bytes as u64).div_ceil(4).max(1));
    (output, thought.min(output))
}
