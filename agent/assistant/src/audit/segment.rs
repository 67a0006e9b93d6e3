//! One file of the audit log.
//!
//! A line is read up to [`MAX_LINE`] bytes; a longer one is not a record.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::record::{AuditRecord, MAX_RECORD};

const EXTENSION: &str = ".jsonl";
/// Longest line that is read: a record, its hash and what JSON adds.
const MAX_LINE: u64 = 2 * MAX_RECORD as u64;

#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    /// Number of its first record, from the name.
    pub(super) first: u64,
    pub(super) bytes: u64,
}

/// Lists the segments in `folder`, the oldest first. A missing folder has none.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Segment>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut segments = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(EXTENSION));
        if let Some(first) = number.and_then(|number| number.parse().ok()) {
            segments.push(Segment {
                path: entry.path(),
                first,
                bytes: entry.metadata()?.len(),
            });
        }
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}

impl Segment {
    /// A segment that does not exist yet.
    pub(super) fn new(folder: &Path, first: u64) -> Self {
        Self {
            path: folder.join(format!("{first:020}{EXTENSION}")),
            first,
            bytes: 0,
        }
    }

    /// Hands each finished line to `take`, with its number from 1.
    pub(super) fn each_line(&self, mut take: impl FnMut(u64, &[u8])) -> io::Result<()> {
        self.each_line_until(|number, line| {
            take(number, line);
            ControlFlow::Continue(())
        })
    }

    fn each_line_until(
        &self,
        mut take: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let mut reader = BufReader::new(File::open(&self.path)?);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            let read = reader
                .by_ref()
                .take(MAX_LINE)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            number += 1;
            // An unfinished line was never acknowledged; the rest of one that is too long follows.
            let taken = match line.strip_suffix(b"\n") {
                Some(line) => take(number, line),
                None if read as u64 == MAX_LINE => {
                    reader.skip_until(b'\n')?;
                    take(number, &[])
                }
                None => ControlFlow::Continue(()),
            };
            if taken.is_break() {
                return Ok(());
            }
        }
    }

    /// Returns the first line that is a record.
    pub(super) fn first_record(&self) -> io::Result<Option<AuditRecord>> {
        let mut first = None;
        self.each_line_until(|_, line| {
            first = AuditRecord::decode(line);
            match first {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        })?;
        Ok(first)
    }

    /// Returns the last line if it is a record.
    pub(super) fn last_line(&self) -> io::Result<Option<AuditRecord>> {
        let end = self.read_end()?;
        let lines = end.strip_suffix(b"\n");
        let last = lines.and_then(|lines| lines.rsplit(|byte| *byte == b'\n').next());
        Ok(last.and_then(AuditRecord::decode))
    }

    /// Returns the last line that is a record.
    pub(super) fn last_record(&self) -> io::Result<Option<AuditRecord>> {
        let end = self.read_end()?;
        let lines = end.split(|byte| *byte == b'\n').rev();
        let last = lines
            .filter(|line| !line.is_empty())
            .find_map(AuditRecord::decode);
        if last.is_some() || end.len() as u64 == self.bytes {
            return Ok(last);
        }
        // The end is damaged over more than one line's length.
        let mut last = None;
        self.each_line(|_, line| last = AuditRecord::decode(line).or(last.take()))?;
        Ok(last)
    }

    /// Removes what follows the last line feed.
    pub(super) fn cut_unfinished_line(&mut self) -> io::Result<()> {
        let end = self.read_end()?;
        let unfinished = end.iter().rev().take_while(|byte| **byte != b'\n').count();
        if unfinished == 0 {
            return Ok(());
        }
        self.bytes -= unfinished as u64;
        let file = File::options().write(true).open(&self.path)?;
        file.set_len(self.bytes)?;
        file.sync_all()
    }

    /// Reads the last bytes, as many as a line may have.
    fn read_end(&self) -> io::Result<Vec<u8>> {
        let start = self.bytes.saturating_sub(MAX_LINE);
        let mut end = vec![0; usize::try_from(self.bytes - start).unwrap_or_default()];
        File::open(&self.path)?.read_exact_at(&mut end, start)?;
        Ok(end)
    }
}
