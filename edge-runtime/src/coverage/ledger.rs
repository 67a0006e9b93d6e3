//! Spans of all pipelines, and the thread that makes them durable.
//!
//! - Pipelines never wait for the disk. At most [`MAX_WAITING`] ended spans wait for it; one more
//!   drops the oldest, which is logged: that time then counts as not watched.
//! - A span is stored before it leaves the file of open spans. A kill in between stores it once.
//! - Pipeline and start identify a span.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::coverage::{CoverageReport, CoverageSpan, MAX_SPANS, SpanEnd, Watched};
use watchkeeper_contract::id::{PipelineId, SourceId};

use super::file;
use super::span::Extent;
use crate::clock;
use crate::journal::{Journal, JournalError};
use crate::thread::{Closing, Thread};

/// Interval of saving open spans; at most this much coverage is lost by a kill or a power cut.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(10);

/// Ended spans that wait for the disk.
pub const MAX_WAITING: usize = 1_000;

/// A span that has not ended.
#[derive(Debug, Clone)]
pub(super) struct OpenSpan {
    pub(super) watch: Arc<Watched>,
    pub(super) extent: Extent,
    /// Why nothing can be seen; a span that is still stored then has no length.
    pub(super) end: Option<SpanEnd>,
    /// When a frame last arrived, looked at or not.
    pub(super) arrived: Instant,
    /// Longest time until its next frame.
    pub(super) limit: Duration,
    /// Whether the pipeline waits for the disk with what the next frame shows.
    pub(super) is_held_up: bool,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<PipelineId, OpenSpan>,
    /// Ended spans that are not stored yet, by the moment of their end.
    ended: VecDeque<CoverageSpan>,
}

/// Data that pipelines, requests and the thread share.
#[derive(Debug)]
struct Shared {
    journal: Arc<Journal>,
    path: PathBuf,
    state: Mutex<State>,
    closing: Closing,
}

/// The coverage of all pipelines.
#[derive(Debug)]
pub struct CoverageLedger {
    shared: Arc<Shared>,
    thread: Thread,
}

impl CoverageLedger {
    /// Opens the ledger, stores what the last run left in the folder `state`, and starts the
    /// thread.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn open(journal: Arc<Journal>, state: &Path) -> std::io::Result<Arc<Self>> {
        let path = state.join(file::NAME);
        let ended = file::read(&path).into_iter().map(|span| CoverageSpan {
            end: SpanEnd::Killed,
            ..span
        });
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ended: ended.collect(),
                ..State::default()
            }),
            journal,
            path,
            closing: Closing::default(),
        });
        let saver = Arc::clone(&shared);
        let thread = Thread::spawn("coverage".to_owned(), move || saver.save_until_closed())?;
        Ok(Arc::new(Self { shared, thread }))
    }

    /// Replaces the open span of a pipeline. A run that was replaced changes nothing of the next.
    pub(super) fn update(
        &self,
        watch: &Arc<Watched>,
        ended: Option<CoverageSpan>,
        open: Option<OpenSpan>,
    ) {
        let mut state = self.shared.state.lock();
        let id = &watch.pipeline;
        match open {
            Some(open) => {
                state.open.insert(id.clone(), open);
            }
            None if state
                .open
                .get(id)
                .is_some_and(|o| Arc::ptr_eq(&o.watch, watch)) =>
            {
                state.open.remove(id);
            }
            None => {}
        }
        let Some(ended) = ended else {
            return;
        };
        if state.ended.len() >= MAX_WAITING
            && let Some(dropped) = state.ended.pop_front()
        {
            tracing::warn!(pipeline = %dropped.watch.pipeline, "coverage is dropped: the disk takes too long");
        }
        state.ended.push_back(ended);
    }

    /// Notes that the pipeline hands over events, which waits while the disk takes none. Its next
    /// frame ends the note.
    pub(super) fn note_handover(&self, watch: &Watched) {
        if let Some(open) = self.shared.state.lock().open.get_mut(&watch.pipeline) {
            open.is_held_up = true;
        }
    }

    /// Coverage of a range of time, of one source or of all. The last span of a pipeline before the
    /// range is part of it. Events that wait for the disk are not counted here.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn report(
        &self,
        from_ms: i64,
        to_ms: i64,
        source: Option<&SourceId>,
    ) -> Result<CoverageReport, JournalError> {
        // Taken before the spans are read, so that none of them ends later.
        let at = clock::wall();
        let mut unstored: Vec<CoverageSpan> = {
            let state = self.shared.state.lock();
            let open = state.open.values().map(current);
            state.ended.iter().cloned().chain(open).collect()
        };
        let mut spans = RangeSpans::new(from_ms..to_ms, source);
        // Read afterwards: what is stored meanwhile is there twice, and never missing.
        for stored in self.shared.journal.coverage().spans() {
            let stored = stored?;
            unstored.retain(|span| !is_same(&stored, span));
            spans.add(stored);
        }
        unstored.into_iter().for_each(|span| spans.add(span));
        let mut spans = spans.sorted();
        let more = spans.len().saturating_sub(MAX_SPANS);
        let cut = spans.drain(..more).map(|span| span.to.unix_ms).max();
        let since = self.shared.journal.coverage().since_ms()?;
        let events_since = self.shared.journal.events_since_ms()?;
        Ok(CoverageReport {
            from_ms,
            to_ms: to_ms.min(at.unix_ms),
            source: source.cloned(),
            at,
            spans,
            spans_since_ms: cut.max(since).map(|ms| ms.min(at.unix_ms)),
            events_since_ms: events_since.map(|ms| ms.min(at.unix_ms)),
            events_waiting: 0,
            events_waiting_since_ms: None,
            head: self.shared.journal.last_link()?,
        })
    }

    /// Stores what has ended and ends the thread, waiting at most `timeout`.
    pub fn shut_down(&self, timeout: Duration) {
        self.shared.closing.close();
        self.thread.join(timeout);
    }
}

impl Drop for CoverageLedger {
    fn drop(&mut self) {
        self.shared.closing.close();
    }
}

impl Shared {
    /// Saves every [`SAVE_INTERVAL`], and once more at the end.
    fn save_until_closed(&self) {
        self.drop_stored();
        let (mut has_failed, mut written) = (false, file::read(&self.path));
        loop {
            let is_closing = self.closing.wait(SAVE_INTERVAL);
            // Logged once per failure: events that can't be stored report a full disk.
            match self.save(&mut written) {
                Ok(()) => has_failed = false,
                Err(error) if !std::mem::replace(&mut has_failed, true) => {
                    tracing::warn!(error, "cannot store the coverage; retrying");
                }
                Err(_) => {}
            }
            if is_closing {
                return;
            }
        }
    }

    /// Drops the spans of the last run that it stored before it was killed. On this thread, because
    /// reading the spans of months would delay the first frame.
    fn drop_stored(&self) {
        let left = self.state.lock().ended.clone();
        if left.is_empty() {
            return;
        }
        let stored = self.journal.coverage().spans().map_while(Result::ok);
        let stored = stored.filter(|stored| left.iter().any(|span| is_same(stored, span)));
        let stored: Vec<CoverageSpan> = stored.collect();
        let is_stored = |span: &CoverageSpan| stored.iter().any(|stored| is_same(stored, span));
        self.state.lock().ended.retain(|span| !is_stored(span));
    }

    /// Stores the ended spans, then writes the others to the file if they are not there yet.
    fn save(&self, written: &mut Vec<CoverageSpan>) -> Result<(), String> {
        let waiting: Vec<CoverageSpan> = self.state.lock().ended.iter().cloned().collect();
        if !waiting.is_empty() {
            // The lock is not held: a slow disk delays no pipeline.
            let stored = self.journal.coverage().append(&waiting);
            stored.map_err(|error| error.to_string())?;
        }
        let others: Vec<CoverageSpan> = {
            let mut state = self.state.lock();
            // The queue may have dropped some of them meanwhile.
            state.ended.retain(|span| !waiting.contains(span));
            // At one moment, so that a span that ends now is in one of the two.
            let open = state.open.values().map(current);
            state.ended.iter().cloned().chain(open).collect()
        };
        if others != *written {
            file::write(&self.path, &others).map_err(|error| error.to_string())?;
            *written = others;
        }
        Ok(())
    }
}

/// The span so far. Without a frame for too long, it has ended with the last one.
fn current(open: &OpenSpan) -> CoverageSpan {
    let is_late = open.arrived.elapsed() > open.limit;
    let end = match open.end {
        Some(end) => end,
        None if is_late && open.is_held_up => SpanEnd::Disk,
        None if is_late => SpanEnd::NoFrames,
        None => SpanEnd::Open,
    };
    open.extent.span(&open.watch, end)
}

/// The spans of a range of time, of one source or of all.
struct RangeSpans<'a> {
    range: Range<i64>,
    source: Option<&'a SourceId>,
    within: Vec<CoverageSpan>,
    /// The last span of each pipeline before the range: its end says why nothing was watched
    /// afterwards.
    earlier: BTreeMap<PipelineId, CoverageSpan>,
}

impl<'a> RangeSpans<'a> {
    fn new(range: Range<i64>, source: Option<&'a SourceId>) -> Self {
        Self {
            range,
            source,
            within: Vec::new(),
            earlier: BTreeMap::new(),
        }
    }

    /// Adds a span, unless it is of another source or time.
    fn add(&mut self, span: CoverageSpan) {
        let is_of_source = self
            .source
            .is_none_or(|source| span.watch.source == *source);
        if !is_of_source || span.from.unix_ms >= self.range.end {
            return;
        }
        if span.to.unix_ms >= self.range.start {
            self.within.push(span);
            return;
        }
        let last = self.earlier.get(&span.watch.pipeline);
        if last.is_none_or(|last| last.from.unix_ms <= span.from.unix_ms) {
            self.earlier.insert(span.watch.pipeline.clone(), span);
        }
    }

    /// The spans by their start.
    fn sorted(self) -> Vec<CoverageSpan> {
        let mut spans = self.within;
        spans.extend(self.earlier.into_values());
        spans.sort_by_key(|span| span.from.unix_ms);
        spans
    }
}

fn is_same(one: &CoverageSpan, other: &CoverageSpan) -> bool {
    one.watch.pipeline == other.watch.pipeline && one.from == other.from
}

#[cfg(test)]
mod tests;
