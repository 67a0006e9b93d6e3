//! Clients that send requests and never read an answer.

use std::io::{Result, Write};

/// Connects `count` clients; each writes as much of `text` as the system takes at once and never
/// reads. `connect` returns streams that do not block.
///
/// # Errors
/// If a client can't connect.
pub fn hold<S: Write>(count: usize, connect: impl Fn() -> Result<S>, text: &str) -> Result<Vec<S>> {
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = connect()?;
        // A full buffer or an early close is what such a client gets.
        stream.write_all(text.as_bytes()).ok();
        held.push(stream);
    }
    Ok(held)
}
