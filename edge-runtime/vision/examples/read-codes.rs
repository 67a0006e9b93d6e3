//! Reads the codes of pictures: `read-codes FILE…`.
//!
//! Prints one JSON object a picture: `file`, the `texts` read, and `ms`, the shortest of five
//! readings in milliseconds. Timed is one call with a grey picture in memory; decoding the file is
//! not. `tests/tools/codes/run` counts with it and compares it with other readers.

#![expect(clippy::print_stdout, reason = "what it finds is its output")]

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use watchkeeper_vision::imaging::codes::{self, Code};
use watchkeeper_vision::imaging::{grey, pixels};
use watchkeeper_vision::picture_file;

const READINGS: usize = 5;

fn main() -> Result<()> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    ensure!(!files.is_empty(), "usage: read-codes FILE…");
    for file in files {
        let bytes = std::fs::read(&file).with_context(|| file.clone())?;
        let grey = grey(&pixels(picture_file::decode(&bytes)?));
        let mut found: Vec<Code> = Vec::new();
        let mut ms = f64::INFINITY;
        for _ in 0..READINGS {
            let began = Instant::now();
            found = codes::codes(&grey);
            ms = ms.min(began.elapsed().as_secs_f64() * 1e3);
        }
        let texts: Vec<&str> = found.iter().map(|code| code.text.as_str()).collect();
        println!("{}", json!({"file": file, "texts": texts, "ms": ms}));
    }
    Ok(())
}
