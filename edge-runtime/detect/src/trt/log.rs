//! Messages of TensorRT in the log of this program.

use watchkeeper_trt::{Level, Message};

/// Writes a message with the name of its engine.
pub(super) fn write(message: &Message<'_>) {
    let Message { engine, text, .. } = message;
    let engine = engine.unwrap_or("unknown");
    match message.level {
        Level::Error => tracing::error!(engine, "TensorRT: {text}"),
        Level::Warning => tracing::warn!(engine, "TensorRT: {text}"),
        Level::Info => tracing::debug!(engine, "TensorRT: {text}"),
    }
}
