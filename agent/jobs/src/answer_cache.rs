//! What tools have found out about contents, kept for a job: a resumed job asks nothing twice.
//!
//! - One line for each answer, in the job's folder; steps of one job share them.
//! - A line that a crash cut is ignored. What the file lacks is found out again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest line that is kept, in bytes.
const MAX_LINE: usize = 64 << 10;
/// Most answers that are kept; further ones are found out again.
const MAX_LINES: usize = 50_000;

/// Answers by key.
#[derive(Debug)]
pub struct AnswerCache {
    file: File,
    known: HashMap<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    value: Value,
}

impl AnswerCache {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)?;
        let mut known = HashMap::new();
        for line in BufReader::new(&file).split(b'\n').take(MAX_LINES) {
            if let Ok(Line { key, value }) = serde_json::from_slice(&line?) {
                known.insert(key, value);
            }
        }
        if file.metadata()?.len() > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(Self { file, known })
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.known.get(key)
    }

    /// Keeps an answer, unless it is too long or there are too many.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn put(&mut self, key: String, value: Value) -> io::Result<()> {
        let line = Line { key, value };
        let mut text = serde_json::to_vec(&line)?;
        if text.len() < MAX_LINE && self.known.len() < MAX_LINES {
            text.push(b'\n');
            // One write: another step may append too.
            self.file.write_all(&text)?;
            self.known.insert(line.key, line.value);
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn cut_file_keeps_every_whole_line_and_takes_more(cut in 0_u64..400) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("seen.jsonl");
            let mut seen = AnswerCache::open(&path).unwrap();
            for n in 0..10 {
                seen.put(format!("key {n}"), json!({"n": n})).unwrap();
            }
            let text = std::fs::read(&path).unwrap();
            let length = cut.min(text.len() as u64);
            seen.file.set_len(length).unwrap();
            let kept = text[..usize::try_from(length).unwrap()].iter().filter(|b| **b == b'\n');
            let whole = kept.count();
            let mut seen = AnswerCache::open(&path).unwrap();
            seen.put("more".to_owned(), json!(1)).unwrap();
            let seen = AnswerCache::open(&path).unwrap();
            prop_assert_eq!(seen.get("more"), Some(&json!(1)));
            for n in 0..whole {
                prop_assert_eq!(seen.get(&format!("key {n}")), Some(&json!({"n": n})));
            }
        }
    }
}
