//! Answers about contents that tools keep for a job: a resumed job asks nothing twice.
//!
//! - One line for each answer, in the job's folder; steps of one job share them.
//! - The file has at most [`MAX_BYTES`]; steps that run at once may exceed it by a line each.
//!   A step has at most that in memory. Further answers are not kept and are asked for again.
//! - A line that a crash cut is ignored. What the file lacks is asked for again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest line that is kept, in bytes.
const MAX_LINE: usize = 64 << 10;
/// Largest file: about 19,000 embeddings of 640 numbers.
const MAX_BYTES: u64 = 64 << 20;

/// Answers by key.
#[derive(Debug)]
pub struct AnswerCache {
    file: File,
    max_bytes: u64,
    known: HashMap<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    value: Value,
}

impl AnswerCache {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::open_up_to(path, MAX_BYTES)
    }

    fn open_up_to(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)?;
        let mut known = HashMap::new();
        for line in BufReader::new(&file).take(max_bytes).split(b'\n') {
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
        Ok(Self {
            file,
            max_bytes,
            known,
        })
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.known.get(key)
    }

    /// Keeps an answer, unless it is too long or the file is full.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn put(&mut self, key: String, value: Value) -> io::Result<()> {
        let line = Line { key, value };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        // Another step may have added to the file.
        let bytes = self.file.metadata()?.len() + text.len() as u64;
        if text.len() <= MAX_LINE && bytes <= self.max_bytes {
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

    #[test]
    fn file_does_not_outgrow_its_bound_although_two_steps_fill_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen.jsonl");
        let open = || AnswerCache::open_up_to(&path, 1_000).unwrap();
        let mut steps = [open(), open()];
        for n in 0..100 {
            steps[n % 2].put(format!("key {n}"), json!(n)).unwrap();
        }
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!((900..=1_000).contains(&bytes), "{bytes}");
        assert_eq!(open().get("key 1"), Some(&json!(1)));
        // A file that another program filled is read up to the bound.
        std::fs::write(&path, "{\"key\":\"k\",\"value\":1}\n".repeat(100)).unwrap();
        let before = std::fs::metadata(&path).unwrap().len();
        open().put("more".to_owned(), json!(1)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), before);
    }

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
