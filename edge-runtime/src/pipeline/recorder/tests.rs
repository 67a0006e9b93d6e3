//! Tests of the recorder over stores that refuse, block or panic.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_engine::workflow::{Pixels, RgbPixels};
use watchkeeper_store::{
    Batch, FaultyStore, Keyspace, MAX_VALUE_BYTES, MemoryStore, OpenOutcome, Page, Store,
    StoreError,
};
use watchkeeper_vision::frame::Picture;

use super::*;
use crate::journal::media::MediaLimits;
use crate::journal::{JournalError, Limits, Loss, Stamp};
use crate::pipeline::pixels::FramePixels;
use crate::pipeline::retention::recordings::{self, Recordings};

const LONG: Duration = Duration::from_secs(60);

pub(crate) fn no_last_run() -> LastRun {
    LastRun {
        records: Box::new(|| Ok(Vec::new())),
        mark: UnstoredMark::default(),
    }
}

pub(crate) fn recorder(state: &Path) -> (Recorder, Arc<Journal>) {
    recorder_over(Arc::new(MemoryStore::new()), state)
}

fn recorder_over(store: Arc<dyn Store>, state: &Path) -> (Recorder, Arc<Journal>) {
    recorder_after(store, state, no_last_run())
}

/// A recorder that keeps a mark in `state`.
fn recorder_with_mark(store: Arc<dyn Store>, state: &Path) -> Recorder {
    let (mark, _) = UnstoredMark::open(state);
    let last_run = LastRun {
        mark,
        ..no_last_run()
    };
    recorder_after(store, state, last_run).0
}

fn recorder_after(
    store: Arc<dyn Store>,
    state: &Path,
    last_run: LastRun,
) -> (Recorder, Arc<Journal>) {
    let limits = Limits::default();
    let opened = Journal::with_store(store, state, limits, &OpenOutcome::Clean);
    let journal = Arc::new(opened.unwrap());
    let media = Arc::new(MediaStore::open(state, MediaLimits::default()).unwrap());
    let limits = recordings::Limits {
        max_bytes: 1,
        max_age: Duration::MAX,
        min_free_bytes: 0,
    };
    let recordings = Arc::new(Recordings::new(state, limits));
    let disk_space = Arc::new(DiskSpace::new(state, recordings, Arc::clone(&media)));
    let (recorder, _) = Recorder::spawn(Arc::clone(&journal), media, disk_space, last_run).unwrap();
    (recorder, journal)
}

/// The loss that the next start would report of the mark in `state`.
fn marked_loss(state: &Path) -> Option<Loss> {
    UnstoredMark::open(state).1
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "no {what} within {LONG:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn outage(message: &str) -> Event {
    let stamp = Stamp {
        boot_id: "boot".to_owned(),
        mono_ms: 1,
        at: Wall {
            unix_ms: 0,
            quality: TimeQuality::Unsynced,
        },
        id: EventId::generate(),
    };
    let loss = Loss::new("", 0, String::new());
    let mut event = loss.events(&stamp).swap_remove(0);
    event.body = EventBody::SourceOutage {
        cause: None,
        blind: None,
        message: message.to_owned(),
        lasted_s: None,
    };
    event
}

#[test]
fn oversized_event_is_replaced_by_a_loss_record() {
    let state = tempfile::tempdir().unwrap();
    let (recorder, journal) = recorder(state.path());
    let large = outage(&"x".repeat(MAX_VALUE_BYTES + 1));
    let events = [outage("before"), large.clone(), outage("after")];
    for event in &events {
        assert!(recorder.record(event.clone(), None));
    }
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);

    let page = journal.read_after(EventSeq(0), 100).unwrap();
    let stored: Vec<Event> = page.events.iter().map(|e| e.event().unwrap()).collect();
    let [before, lost, over, after] = &stored[..] else {
        panic!("{stored:?}");
    };
    assert_eq!((before.id, after.id), (events[0].id, events[2].id));
    assert_eq!((lost.phase, over.phase), (Phase::New, Phase::End));
    let EventBody::Loss {
        count: 1, message, ..
    } = &lost.body
    else {
        panic!("{lost:?}");
    };
    let id = large.id.to_string();
    assert!(
        message.contains(&id) && message.contains("too large"),
        "{message}"
    );
    assert_eq!((recorder.lost(), recorder.storage_error()), (1, None));
    assert_eq!(recorder.unrecorded(), 0, "a loss record counts it");
}

fn all_events(journal: &Journal) -> Vec<Event> {
    let (mut stored, mut after) = (Vec::new(), EventSeq(0));
    while after < journal.head().last {
        let page = journal.read_after(after, MAX_BOX_EVENTS).unwrap();
        stored.extend(page.events.iter().map(|e| e.event().unwrap()));
        after = page.next_after;
    }
    stored
}

#[test]
fn records_of_the_last_run_are_stored_before_new_events() {
    let state = tempfile::tempdir().unwrap();
    let (left, new) = (outage("left"), outage("new"));
    let (read, journal_is_read) = mpsc::channel();
    let records = vec![left.clone()];
    let last_run = LastRun {
        records: Box::new(move || {
            journal_is_read.recv().unwrap();
            Ok(records)
        }),
        ..no_last_run()
    };
    let (recorder, journal) = recorder_after(Arc::new(MemoryStore::new()), state.path(), last_run);
    assert!(recorder.record(new.clone(), None));
    assert_eq!(recorder.flush(None, Duration::ZERO), FlushResult::NotYet);
    read.send(()).unwrap();
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    let ids: Vec<EventId> = all_events(&journal).iter().map(|event| event.id).collect();
    assert_eq!(ids, [left.id, new.id]);
}

#[test]
fn events_queued_while_the_journal_is_read_are_marked_at_a_stop() {
    let state = tempfile::tempdir().unwrap();
    let (read, journal_is_read) = mpsc::channel();
    let last_run = LastRun {
        records: Box::new(move || {
            journal_is_read.recv().unwrap();
            Ok(Vec::new())
        }),
        mark: UnstoredMark::open(state.path()).0,
    };
    let (recorder, _) = recorder_after(Arc::new(MemoryStore::new()), state.path(), last_run);
    assert_eq!(recorder.mark_unstored(), 0);
    assert_eq!(marked_loss(state.path()), None);
    for _ in 0..2 {
        assert!(recorder.record(outage("queued"), None));
    }
    assert_eq!(recorder.mark_unstored(), 2);
    let loss = marked_loss(state.path()).unwrap();
    assert_eq!(loss.count, 2);
    assert!(
        loss.message.contains("still being read"),
        "{}",
        loss.message
    );
    // A thread that is done in time stores them, and nothing is lost.
    read.send(()).unwrap();
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    wait_until("cleared mark", || marked_loss(state.path()).is_none());
}

#[test]
fn journal_that_cannot_be_read_breaks_the_recorder() {
    let state = tempfile::tempdir().unwrap();
    let what = "the journal's head".to_owned();
    let why = "on purpose".to_owned();
    let last_run = LastRun {
        records: Box::new(|| Err(JournalError::Unreadable { what, why })),
        ..no_last_run()
    };
    let (recorder, _journal) = recorder_after(Arc::new(MemoryStore::new()), state.path(), last_run);
    assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
    let broken = recorder.broken().unwrap();
    assert!(broken.contains("on purpose"), "{broken}");
    assert!(!recorder.record(outage("too late"), None));
}

#[test]
fn report_over_a_refusing_store_is_dropped_and_counted() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (recorder, journal) = recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
    store.writes.blow_at(1);
    // The thread holds a group in addition to the queue.
    let sent = MAX_BOX_EVENTS + 2 * MAX_PIPELINE_EVENTS;
    for _ in 0..sent {
        assert!(recorder.report(outage("waits")));
    }
    let dropped = recorder.lost();
    assert!(dropped >= MAX_PIPELINE_EVENTS as u64, "{dropped}");
    store.writes.repair();
    assert!(recorder.record(outage("of a pipeline"), None));
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    assert!(recorder.report(outage("has a place again")));
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);

    // The thread may take its group between two reports, so the loss may be anywhere among them.
    let stored = all_events(&journal);
    let losses = stored.iter().filter_map(|event| match &event.body {
        EventBody::Loss { count, .. } => Some(*count),
        _ => None,
    });
    let losses: Vec<u64> = losses.collect();
    assert_eq!((losses.len(), losses[0]), (2, dropped), "{losses:?}");
    assert_eq!(stored.len() as u64, sent as u64 - dropped + 2 + 2);
    assert_eq!(recorder.lost(), dropped);
    assert_eq!(recorder.unrecorded(), 0, "the loss record counts them");
}

#[test]
fn dropped_reports_are_marked_when_their_loss_record_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (recorder, _) = recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
    store.writes.blow_at(1);
    let mut sent = 0;
    while recorder.lost() < 10 {
        assert!(recorder.report(outage("waits")));
        sent += 1;
    }
    recorder.end_by(Instant::now());
    assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
    // The loss record has two records itself.
    assert_eq!(recorder.mark_unstored(), sent + 2);
    assert_eq!(recorder.unrecorded(), sent + 2);
}

#[test]
fn event_of_the_box_is_lost_whole_or_gets_its_end() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (recorder, journal) = recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
    store.writes.blow_at(1);
    let end = |event: &Event| Event {
        phase: Phase::End,
        ..event.clone()
    };
    let (early, late) = (outage("early"), outage("late"));
    assert!(recorder.report(early.clone()));
    wait_until("refusal", || recorder.storage_error().is_some());
    while recorder.lost() == 0 {
        let flapping = outage("flaps");
        assert!(recorder.report(flapping.clone()) && recorder.report(end(&flapping)));
    }
    assert!(recorder.report(late.clone()));
    store.writes.repair();
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    let lost = recorder.lost();
    assert!(recorder.report(end(&late)) && recorder.report(end(&early)));
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    assert_eq!(recorder.lost(), lost);

    let stored = all_events(&journal);
    let of = |phase| -> Vec<EventId> {
        let of = stored.iter().filter(|event| event.phase == phase);
        let mut ids: Vec<_> = of.map(|event| event.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(of(Phase::New), of(Phase::End));
    assert!(stored.iter().all(|event| event.id != late.id));
}

/// A picture during whose encoding something happens.
struct Encoded<F>(F);

impl<F> std::fmt::Debug for Encoded<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoded")
    }
}

impl<F: Fn() + Send + Sync> Pixels for Encoded<F> {
    fn size(&self) -> [u32; 2] {
        [1, 1]
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        (self.0)();
        Arc::new(RgbPixels {
            width: 1,
            height: 1,
            data: vec![0; 3],
        })
    }
}

fn pictures(during: impl Fn() + Send + Sync + 'static) -> Pictures {
    let clean = FramePixels::new(Picture::rgb(1, 1, vec![0; 3]));
    Pictures::new(Arc::new(clean), Some(Arc::new(Encoded(during))))
}

#[test]
fn event_does_not_wait_for_pictures_of_later_ones() {
    let state = tempfile::tempdir().unwrap();
    let (recorder, journal) = recorder(state.path());
    let stored = move || journal.read_after(EventSeq(0), 9).unwrap().events.len();
    let stored = Arc::new(stored);
    let (seen, seen_later) = (Arc::new(Mutex::new(None)), Arc::clone(&stored));
    let noted = Arc::clone(&seen);
    let later = pictures(move || *noted.lock() = Some(seen_later()));
    let sender = recorder.clone();
    let first = pictures(move || {
        assert!(sender.record(outage("later"), Some(later.clone())));
    });
    assert!(recorder.record(outage("first"), Some(first)));
    wait_until("second event", || stored() == 2);
    assert_eq!(*seen.lock(), Some(1));
}

#[test]
fn processor_time_is_that_of_events_of_pipelines() {
    let state = tempfile::tempdir().unwrap();
    let (recorder, _journal) = recorder(state.path());
    assert!(recorder.report(outage("of the box")));
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    // The thread adds the time of a group after it is durable.
    let of = |phase| Event {
        phase,
        ..outage("of a pipeline")
    };
    assert!(recorder.record(of(Phase::New), Some(pictures(|| ()))));
    assert!(recorder.record(of(Phase::End), None));
    wait_until("time of the event", || recorder.event_times().events > 0);
    let times = recorder.event_times();
    assert_eq!((times.events, times.clips), (1, 0), "{times:?}");
    assert!(times.recorder_s > 0.0, "{times:?}");
}

#[test]
fn pictures_wait_until_the_queue_has_memory_for_them() {
    let all = 64 << 20;
    for (held, bytes, waits) in [
        (0, 2 * all, false),
        (1, all, true),
        (all / 2, all / 2, false),
        (all / 2, all / 2 + 1, true),
        (2 * all, 0, false),
    ] {
        let mut progress = Progress::default();
        progress.enter(Lane::Pipelines, Some(held));
        let lacks_room = progress.lacks_room_for(bytes);
        assert_eq!(lacks_room, waits, "{bytes} beside {held}");
        progress.leave(Lane::Pipelines, Some(held));
        assert!(!progress.lacks_room_for(bytes));
    }
}

#[test]
fn disk_that_refuses_costs_pictures_and_no_pipeline_waits() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (recorder, journal) = recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
    store.writes.blow_at(1);
    let at = |unix_ms| {
        let mut event = outage("waits");
        event.at = Wall {
            unix_ms,
            quality: TimeQuality::Synced,
        };
        event
    };
    assert!(recorder.record(at(7), None));
    wait_until("refusal", || recorder.storage_error().is_some());
    for _ in 0..100 {
        assert!(recorder.record(at(9), Some(pictures(|| ()))));
    }
    assert!(!recorder.blocks_pipelines());
    assert_eq!(recorder.waiting_since_ms(), Some(7));
    store.writes.repair();
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    assert_eq!(recorder.waiting_since_ms(), None);
    let stored = all_events(&journal);
    let with_pictures = stored.iter().filter(|event| !event.media.is_empty());
    let lost = stored.iter().find_map(|event| match &event.body {
        EventBody::Loss { count, .. } => Some(*count),
        _ => None,
    });
    // The loss has a record for its begin and one for its end.
    assert_eq!(stored.len(), 103);
    assert_eq!(lost, Some(100 - with_pictures.count() as u64));
    assert_eq!(recorder.lost(), 0);
}

#[test]
fn lost_events_are_never_reported_as_durable() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (recorder, _journal) = recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
    assert!(recorder.record(outage("stored"), None));
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);

    store.writes.blow_at(1);
    assert!(recorder.record(outage("waits"), None));
    assert_eq!(recorder.flush(None, Duration::ZERO), FlushResult::NotYet);
    assert_eq!(recorder.flush_and_count(Duration::ZERO), 1);
    recorder.end_by(Instant::now());
    assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
    assert_eq!(recorder.lost(), 1);
    // No later report may claim that all events are stored.
    assert_eq!([(); 2].map(|()| recorder.flush_and_count(LONG)), [1; 2]);
}

#[test]
fn mark_of_events_given_up_stays_when_later_ones_are_stored() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let recorder = recorder_with_mark(Arc::clone(&store) as Arc<dyn Store>, state.path());
    store.writes.blow_at(1);
    assert!(recorder.record(outage("given up"), None));
    recorder.end_by(Instant::now());
    assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
    store.writes.repair();
    // The second one is stored after the mark was looked at for the first.
    for _ in 0..2 {
        assert!(recorder.record(outage("stored"), None));
        assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
    }
    assert_eq!(recorder.lost(), 1);
    assert_eq!(marked_loss(state.path()).unwrap().count, 1);
}

#[test]
fn last_mark_counts_all_events_that_are_given_up() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let recorder = recorder_with_mark(Arc::clone(&store) as Arc<dyn Store>, state.path());
    store.writes.blow_at(1);
    assert!(recorder.record(outage("first"), None));
    wait_until("mark", || marked_loss(state.path()).is_some());
    for _ in 0..3 {
        assert!(recorder.record(outage("later"), None));
    }
    recorder.end_by(Instant::now());
    assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
    assert_eq!(marked_loss(state.path()).unwrap().count, 4);
}

#[test]
fn mark_is_cleared_although_new_events_keep_coming() {
    let state = tempfile::tempdir().unwrap();
    let (permit, permits) = mpsc::sync_channel(1);
    let (permits, blocks) = (Mutex::new(permits), Arc::new(AtomicBool::new(false)));
    let now = Arc::clone(&blocks);
    let store = Arc::new(FaultyStore::new(BeforeWrites::new(move |_: &Batch| {
        if now.load(Ordering::Relaxed) {
            permits.lock().recv().unwrap();
        }
    })));
    let recorder = recorder_with_mark(Arc::clone(&store) as Arc<dyn Store>, state.path());
    blocks.store(true, Ordering::Relaxed);
    store.writes.blow_at(1);
    assert!(recorder.record(outage("waits"), None));
    wait_until("mark", || marked_loss(state.path()).is_some());
    store.writes.repair();
    assert!(recorder.record(outage("comes meanwhile"), None));
    permit.send(()).unwrap();
    wait_until("cleared mark", || marked_loss(state.path()).is_none());
    assert_eq!(recorder.waiting(), 1);
    blocks.store(false, Ordering::Relaxed);
    permit.send(()).unwrap();
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
}

#[test]
fn loss_is_reported_once_to_its_pipeline() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (recorder, _journal) = recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
    let [gate, yard] = ["gate", "yard"].map(|name| PipelineId::new(name).unwrap());
    store.writes.blow_at(1);
    recorder.end_by(Instant::now());
    let event = Event {
        pipeline: Some(gate.clone()),
        ..outage("lost")
    };
    assert!(recorder.record(event, None));
    assert_eq!(recorder.flush(Some(&yard), LONG), FlushResult::Durable);
    assert_eq!(recorder.flush(Some(&gate), LONG), FlushResult::Lost);
    assert_eq!(recorder.flush(Some(&gate), LONG), FlushResult::Durable);
    assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
}

#[test]
fn loss_is_reported_after_flushes_that_timed_out() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (recorder, _journal) = recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
    let gate = PipelineId::new("gate").unwrap();
    store.writes.blow_at(1);
    // More events than the queue holds.
    let handing = recorder.clone();
    let of = Some(gate.clone());
    let handing = std::thread::spawn(move || {
        for _ in 0..3 * MAX_PIPELINE_EVENTS {
            let pipeline = of.clone();
            let event = Event {
                pipeline,
                ..outage("waits")
            };
            assert!(handing.record(event, None));
        }
    });
    wait_until("refusal", || recorder.storage_error().is_some());
    for _ in 0..3 * MAX_PIPELINE_EVENTS {
        assert_eq!(
            recorder.flush(Some(&gate), Duration::ZERO),
            FlushResult::NotYet
        );
    }
    recorder.end_by(Instant::now());
    handing.join().unwrap();
    assert_eq!(recorder.flush(Some(&gate), LONG), FlushResult::Lost);
    let lost = 3 * MAX_PIPELINE_EVENTS as u64;
    assert_eq!((recorder.lost(), recorder.unrecorded()), (lost, lost));
    assert_eq!(recorder.flush_and_count(LONG), lost);
}

/// A store that calls a function before each write.
pub(in crate::pipeline) struct BeforeWrites<F> {
    inner: MemoryStore,
    before: F,
}

impl<F> BeforeWrites<F> {
    pub(in crate::pipeline) fn new(before: F) -> Self {
        let inner = MemoryStore::new();
        Self { inner, before }
    }
}

impl<F> std::fmt::Debug for BeforeWrites<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BeforeWrites").field(&self.inner).finish()
    }
}

impl<F: Fn(&Batch) + Send + Sync> Store for BeforeWrites<F> {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(keyspace, key)
    }
    fn scan(
        &self,
        keyspace: Keyspace,
        from: std::ops::Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.inner.scan(keyspace, from, limit)
    }
    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        (self.before)(&batch);
        self.inner.write(batch)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }
    fn check(&self) -> Result<(), StoreError> {
        self.inner.check()
    }
    fn poison(&self) -> Option<String> {
        self.inner.poison()
    }
    fn size_on_disk(&self) -> Result<u64, StoreError> {
        self.inner.size_on_disk()
    }
}

#[test]
fn panic_while_storing_breaks_the_recorder() {
    let state = tempfile::tempdir().unwrap();
    let has_fault = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&has_fault);
    let store =
        BeforeWrites::new(move |_: &Batch| assert!(!now.load(Ordering::Relaxed), "on purpose"));
    let (recorder, _journal) = recorder_over(Arc::new(store), state.path());
    has_fault.store(true, Ordering::Relaxed);
    assert!(recorder.record(outage("the last one"), None));
    assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
    // The error is set before waiting callers return.
    assert!(recorder.broken().is_some() && recorder.storage_error().is_some());
    assert!(
        !recorder.record(outage("too late"), None)
            || recorder.flush(None, LONG) == FlushResult::Lost
    );
}

#[test]
fn mark_stays_until_an_event_that_waited_for_a_place_is_stored() {
    let mut progress = Progress::default();
    let ticket = progress.block(&outage("waits"));
    progress.send_box(&outage("of the box"));
    progress.mark();
    progress.done = 1;
    assert!(!progress.is_mark_settled() && progress.has_blocked(ticket));
    progress.admit(ticket, None);
    let later = progress.block(&outage("later"));
    assert!(!progress.is_mark_settled() && !progress.has_blocked(ticket));
    progress.admit(later, None);
    progress.done = 2;
    assert!(progress.is_mark_settled() && progress.unfinished() == 1);
}

#[test]
fn earliest_time_of_the_events_that_wait_counts() {
    // What the last run left is stored, and not counted as done yet.
    let mut progress = Progress::default();
    progress.sent += 1;
    let at = |unix_ms, quality| {
        let mut event = outage("waits");
        event.at = Wall { unix_ms, quality };
        event
    };
    for (unix_ms, quality, since) in [
        (5, TimeQuality::Synced, Some(5)),
        (3, TimeQuality::Estimated, Some(3)),
        (4, TimeQuality::Synced, Some(3)),
        (4, TimeQuality::Unsynced, None),
        (4, TimeQuality::Synced, None),
    ] {
        progress.send_box(&at(unix_ms, quality));
        assert_eq!(progress.unfinished_since_ms(), since);
    }
    progress.done = progress.sent;
    progress.send_box(&at(9, TimeQuality::Synced));
    assert_eq!(progress.unfinished_since_ms(), Some(9));
}
