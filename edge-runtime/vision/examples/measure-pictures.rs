//! Measures pictures and compares each with each: `measure-pictures FILE…`.
//!
//! Prints one JSON object a picture: `file`, `sharpness`, `brightness`, `contrast`, and `ms`. `ms`
//! are the milliseconds of its numbers and its thumbnail's views together. Then prints one object a
//! pair: `a` and `b`, the places of the pictures in the list, and `similarity`.
//! `tests/tools/quality/run` compares them with what the pictures are known to be.

#![expect(clippy::print_stdout, reason = "what it finds is its output")]

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use watchkeeper_vision::imaging::near_duplicate::{Thumbnail, Views};
use watchkeeper_vision::imaging::quality::Quality;
use watchkeeper_vision::imaging::{grey, pixels};
use watchkeeper_vision::picture_file;

fn main() -> Result<()> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    ensure!(!files.is_empty(), "usage: measure-pictures FILE…");
    let mut all: Vec<Views> = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).with_context(|| file.clone())?;
        let grey = grey(&pixels(picture_file::decode(&bytes)?));
        let began = Instant::now();
        let quality = Quality::of(&grey);
        all.push(Thumbnail::of(&grey).views());
        let ms = began.elapsed().as_secs_f64() * 1e3;
        println!(
            "{}",
            json!({"file": file, "sharpness": quality.sharpness, "brightness": quality.brightness,
                "contrast": quality.contrast, "ms": ms})
        );
    }
    for (a, one) in all.iter().enumerate() {
        for (b, other) in all.iter().enumerate().skip(a + 1) {
            let similarity = one.similarity(other);
            println!("{}", json!({"a": a, "b": b, "similarity": similarity}));
        }
    }
    Ok(())
}
