//! Run lengths of COCO: of a bitmap, as JSON, and as compressed text.
//!
//! - A bitmap is serialised as its size and run lengths.
//! - Invariant: run lengths of any origin give a bitmap of the given size; surplus is ignored.

use serde_json::{Value as Json, json};

use super::bitmap::Bitmap;

impl Bitmap {
    /// COCO run lengths: column by column, alternately outside and inside, outside first.
    pub fn run_lengths(&self) -> Vec<u32> {
        let mut runs = Vec::new();
        let (mut inside, mut run) = (false, 0_u32);
        for x in 0..self.width {
            for y in 0..self.height {
                if self.at(x, y) != inside {
                    runs.push(run);
                    (inside, run) = (!inside, 0);
                }
                run += 1;
            }
        }
        runs.push(run);
        runs
    }

    /// A bitmap from COCO run lengths; surplus is ignored.
    pub fn from_run_lengths(size: [u32; 2], runs: &[u32]) -> Self {
        let mut bitmap = Self::empty(size);
        let (mut at, mut inside) = (0_usize, false);
        for run in runs {
            let end = at.saturating_add(*run as usize).min(bitmap.cells.len());
            if inside && bitmap.height > 0 {
                for i in at..end {
                    bitmap.set(i / bitmap.height, i % bitmap.height, true);
                }
            }
            (at, inside) = (end, !inside);
        }
        bitmap
    }

    /// COCO's JSON: `{"size": [height, width], "counts": text}`.
    pub fn to_rle_json(&self) -> Json {
        json!({"size": [self.height, self.width], "counts": compress(&self.run_lengths())})
    }

    /// Parses COCO's JSON, with counts as text or as a list. `reserve` is asked for the width and
    /// height of the mask before it takes memory.
    ///
    /// # Errors
    /// What is invalid, or why `reserve` refuses the size.
    pub fn from_rle_json(
        json: &Json,
        reserve: impl FnOnce([u32; 2]) -> Result<(), String>,
    ) -> Result<Self, String> {
        let wrong = || "a run-length mask is {\"size\": [height, width], \"counts\": …}".to_owned();
        let side = |i: usize| {
            let n = json.get("size")?.get(i)?.as_u64()?;
            u32::try_from(n).ok()
        };
        let size = [side(1).ok_or_else(wrong)?, side(0).ok_or_else(wrong)?];
        reserve(size)?;
        let runs = match json.get("counts") {
            Some(Json::String(text)) => expand(text),
            Some(Json::Array(list)) => list
                .iter()
                .map(|n| u32::try_from(n.as_u64()?).ok())
                .collect::<Option<_>>()
                .ok_or_else(wrong)?,
            _ => return Err(wrong()),
        };
        Ok(Self::from_run_lengths(size, &runs))
    }
}

impl From<Bitmap> for ([u32; 2], Vec<u32>) {
    fn from(bitmap: Bitmap) -> Self {
        let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let size = [side(bitmap.width), side(bitmap.height)];
        (size, bitmap.run_lengths())
    }
}

impl From<([u32; 2], Vec<u32>)> for Bitmap {
    fn from((size, runs): ([u32; 2], Vec<u32>)) -> Self {
        Self::from_run_lengths(size, &runs)
    }
}

/// COCO's text of run lengths: differences to the run before the last, five bits per letter, lowest
/// first (`maskApi.c`).
pub(super) fn compress(runs: &[u32]) -> String {
    let mut text = String::new();
    for (i, run) in runs.iter().enumerate() {
        let mut x = i64::from(*run);
        if i > 2 {
            x -= i64::from(runs[i - 2]);
        }
        loop {
            let bits = (x & 0x1f) as u8;
            x >>= 5;
            let more = if bits & 0x10 == 0 { x != 0 } else { x != -1 };
            text.push(char::from(48 + bits + if more { 0x20 } else { 0 }));
            if !more {
                break;
            }
        }
    }
    text
}

/// Inverse of [`compress`]; an invalid letter ends the text.
pub(super) fn expand(text: &str) -> Vec<u32> {
    let mut runs: Vec<u32> = Vec::new();
    let (mut x, mut shift) = (0_i64, 0_u32);
    for byte in text.bytes() {
        let Some(letter) = byte.checked_sub(48).filter(|l| *l < 64 && shift < 60) else {
            break;
        };
        x |= i64::from(letter & 0x1f) << shift;
        shift += 5;
        if letter & 0x20 != 0 {
            continue;
        }
        if letter & 0x10 != 0 {
            x |= -1 << shift;
        }
        if runs.len() > 2 {
            x += runs.get(runs.len() - 2).copied().map_or(0, i64::from);
        }
        runs.push(u32::try_from(x.max(0)).unwrap_or(u32::MAX));
        (x, shift) = (0, 0);
    }
    runs
}
