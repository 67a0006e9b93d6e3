//! Seeds of the fuzz targets, and small random changes of them.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest input in bytes.
const MAX_INPUT: usize = 8192;

/// Texts on which parsers often fail.
const TOKENS: [&str; 24] = [
    "-1",
    "0",
    "1e999",
    "NaN",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "18446744073709551616",
    "5e-324",
    "-9223372036854775808",
    "$steps.",
    "$inputs.image",
    "\u{0}",
    "\u{202e}",
    "ß",
    "://",
    "@",
    "%",
    "=",
    "\n",
    ",",
    "+f",
];

/// Folder of the fuzz targets' crate.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// Reads the seeds of a target, with their paths, sorted.
///
/// # Errors
/// If the folder can't be read.
pub fn seeds(target: &str) -> Result<Vec<(String, Vec<u8>)>, std::io::Error> {
    let mut seeds = Vec::new();
    for entry in fs::read_dir(folder().join("seeds").join(target))? {
        let path = entry?.path();
        seeds.push((path.display().to_string(), fs::read(&path)?));
    }
    seeds.sort();
    Ok(seeds)
}

/// Applies one small change.
pub fn mutate(input: &mut Vec<u8>, others: &[(String, Vec<u8>)], rng: &mut fastrand::Rng) {
    let at = rng.usize(..=input.len());
    let end = (at + rng.usize(..=16)).min(input.len());
    match rng.u8(..7) {
        0 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
        1 if at < input.len() => input[at] = rng.u8(..),
        2 => drop(input.drain(at..end)),
        3 => {
            let twice = input[at..end].to_vec();
            input.splice(at..at, twice);
        }
        4 => input.truncate(at.max(1)),
        5 => {
            // Appends the rest of another seed.
            let (_, other) = &others[rng.usize(..others.len())];
            let from = rng.usize(..=other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let token = TOKENS[rng.usize(..TOKENS.len())].bytes();
            input.splice(at..end, token).for_each(drop);
        }
    }
    input.truncate(MAX_INPUT);
}
