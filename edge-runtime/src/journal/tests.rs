//! The guarantees of the journal, on a store that fails and loses power, and on the real one.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use watchkeeper_contract::event::{
    ChainReport, Clip, Decision, EVENT_SCHEMA, EventBody, GapCause, Phase, Verdict,
};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::rule::{ClipMaterial, Severity};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::{FaultyStore, Keyspace, MemoryStore, OpenOutcome};

use super::opening::OPEN_PAGE;
use super::*;

mod damage;
mod entered;
mod reviews;

fn event(severity: Severity) -> Event {
    Event {
        schema: EVENT_SCHEMA,
        id: EventId::generate(),
        seq: EventSeq(0),
        boot_id: "boot".to_owned(),
        mono_ms: 12,
        at: Wall {
            unix_ms: 1_700_000_000_123,
            quality: TimeQuality::Synced,
        },
        phase: Phase::New,
        source: None,
        pipeline: None,
        severity,
        body: EventBody::Loss {
            from: "test".to_owned(),
            count: 1,
            message: "näher \"dran\"".to_owned(),
            chain: None,
        },
        decision: Decision {
            verdict: Verdict::Record,
            // A number that is easily printed differently from how it was written.
            confidence: 0.1 + 0.2,
            raw_confidence: None,
            reason: "because".to_owned(),
            asks: None,
        },
        evidence: Vec::new(),
        media: Vec::new(),
        definition: None,
        assessment: None,
        clip: None,
        hash: String::new(),
    }
}

fn infos(n: usize) -> Vec<Event> {
    (0..n).map(|_| event(Severity::Info)).collect()
}

fn journal_over(store: Arc<dyn Store>, state: &Path, limits: Limits) -> Journal {
    let (journal, losses) = opened(Journal::with_store(
        store,
        state,
        limits,
        &OpenOutcome::Clean,
    ));
    assert_eq!(losses, []);
    journal
}

/// A journal that could be opened, and its losses.
pub(super) fn opened(journal: Result<Journal, JournalError>) -> (Journal, Vec<Loss>) {
    let journal = journal.unwrap();
    let losses = journal.take_losses().unwrap();
    (journal, losses)
}

fn seqs(page: &EventPage) -> Vec<u64> {
    page.events.iter().map(|e| e.seq.0).collect()
}

fn everything(journal: &Journal) -> Vec<StoredEvent> {
    let mut all = Vec::new();
    let mut after = EventSeq(0);
    loop {
        let page = journal.read_after(after, 7).unwrap();
        if page.next_after == after {
            return all;
        }
        after = page.next_after;
        all.extend(page.events);
    }
}

#[test]
fn numbers_and_chain_continue_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let (journal, losses) = opened(Journal::open(dir.path(), Limits::default()));
        assert_eq!(losses, []);
        let appended = journal.append(infos(4)).unwrap();
        assert_eq!(appended[0].seq, EventSeq(round * 4 + 1));
        let all = everything(&journal);
        assert_eq!(all.len() as u64, (round + 1) * 4);
        verify(Some(Hash::ZERO), &all).unwrap();
        assert_eq!(all.last().unwrap().event().unwrap(), appended[3]);
    }
}

#[test]
fn changed_removed_or_swapped_record_breaks_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal_over(Arc::new(MemoryStore::new()), dir.path(), Limits::default());
    journal.append(infos(5)).unwrap();
    let sound = everything(&journal);
    verify(Some(Hash::ZERO), &sound).unwrap();

    let (stored, _) = record::encode(&event(Severity::Critical), &sound[1].hash());
    let mut changed = sound.clone();
    changed[2] = StoredEvent::decode(EventSeq(3), &stored).unwrap();
    assert_eq!(verify(Some(Hash::ZERO), &changed).unwrap_err().seq, 4);

    let mut removed = sound.clone();
    removed.remove(2);
    assert!(verify(Some(Hash::ZERO), &removed).is_err());

    let mut swapped = sound;
    swapped.swap(1, 2);
    assert!(verify(Some(Hash::ZERO), &swapped).is_err());
}

#[test]
fn served_text_is_the_hashed_text_plus_the_hash() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal_over(Arc::new(MemoryStore::new()), dir.path(), Limits::default());
    let appended = journal.append(infos(1)).unwrap();
    let stored = &everything(&journal)[0];
    let tail = format!(",\"hash\":\"{}\"}}", appended[0].hash);
    let served = stored.json();
    let canonical = format!("{}}}", served.strip_suffix(&tail).unwrap());
    let by_hand = Hash::of(format!("{}{canonical}", "0".repeat(64)).as_bytes());
    assert_eq!(by_hand.to_string(), appended[0].hash);
}

#[test]
fn data_of_a_newer_version_keeps_the_journal_closed() {
    let newer_event = [&[0, 2][..], &[0; 33], b"{}"].concat();
    let cases: [(Keyspace, &[u8], &[u8], &str); 5] = [
        (EVENTS, &log_key(3), &newer_event, "event 3"),
        (
            META,
            HEAD,
            br#"{"format":2,"upto":9}"#,
            "the journal's head",
        ),
        (
            Keyspace::new("sources"),
            b"gate",
            br#"{"format":3}"#,
            "\"gate\" of sources",
        ),
        (
            Keyspace::new("pipelines"),
            b"p",
            br#"{"format":3}"#,
            "\"p\" of pipelines",
        ),
        (
            Keyspace::new("words"),
            b"p",
            br#"{"format":2}"#,
            "\"p\" of words",
        ),
    ];
    for (keyspace, key, value, what) in cases {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        journal_over(Arc::clone(&store) as _, dir.path(), Limits::default())
            .append(infos(2))
            .unwrap();
        store
            .commit(Batch::new().put(keyspace, key, value))
            .unwrap();
        let refused = Journal::with_store(
            Arc::clone(&store) as _,
            dir.path(),
            Limits::default(),
            &OpenOutcome::Clean,
        );
        let said = refused.unwrap_err().to_string();
        let folder = dir.path().join("journal");
        assert!(said.starts_with(&folder.display().to_string()), "{said}");
        // Specifications have their own format.
        let known = if value == br#"{"format":3}"# { 2 } else { 1 };
        let found = known + 1;
        let formats = format!("{what} has format {found} and this version reads up to {known}");
        assert!(said.contains(&formats), "{said}");
        assert_eq!(store.get(keyspace, key).unwrap().as_deref(), Some(value));
        assert!(store.get(EVENTS, &log_key(1)).unwrap().is_some());
    }
}

#[test]
fn records_of_a_sound_store_are_read_by_the_first_append() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    journal_over(Arc::clone(&store) as _, dir.path(), Limits::default())
        .append(infos(3))
        .unwrap();
    // Nothing but reading all of them finds this one.
    let newer = [&[0, 2][..], &[0; 33], b"{}"].concat();
    store
        .commit(Batch::new().put(EVENTS, &log_key(2), &newer))
        .unwrap();
    let (over, limits) = (Arc::clone(&store) as _, Limits::default());
    let journal = Journal::with_store(over, dir.path(), limits, &OpenOutcome::Clean).unwrap();
    assert_eq!(journal.head().last, EventSeq(3));
    for _ in 0..2 {
        let refused = journal.append(infos(1)).unwrap_err().to_string();
        assert!(refused.contains("event 2 has format 2"), "{refused}");
    }
    assert_eq!(store.get(EVENTS, &log_key(4)).unwrap(), None);
}

#[test]
fn event_is_visible_only_when_durable() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    let reported = journal.subscribe();
    journal.append(infos(1)).unwrap();
    store.syncs.blow_at(1);
    assert!(journal.append(infos(1)).is_err());
    assert_eq!(reported.borrow().last, EventSeq(1));
    assert_eq!(seqs(&journal.read_after(EventSeq(0), 10).unwrap()), [1]);
    assert_eq!(journal.stats().failed, 1);
}

#[test]
fn refused_write_uses_no_number() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    store.writes.blow_at(1);
    assert!(journal.append(infos(3)).is_err());
    store.writes.repair();
    assert_eq!(journal.append(infos(1)).unwrap()[0].seq, EventSeq(1));
    verify(Some(Hash::ZERO), &everything(&journal)).unwrap();
}

#[test]
fn power_cut_loses_no_acknowledged_event() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    journal.append(infos(3)).unwrap();
    let after = journal_over(Arc::new(store.power_cut()), dir.path(), Limits::default());
    assert_eq!(after.head().last, EventSeq(3));
    assert_eq!(after.append(infos(1)).unwrap()[0].seq, EventSeq(4));
}

#[test]
fn open_events_are_ended_once_without_another_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let stamp = Stamp {
        boot_id: "next".to_owned(),
        mono_ms: 3,
        at: Wall {
            unix_ms: 7,
            quality: TimeQuality::Synced,
        },
        id: EventId::generate(),
    };
    let (open, ended) = (event(Severity::Warning), event(Severity::Info));
    let hold = || Event {
        body: EventBody::PipelineHeld {
            message: "held".to_owned(),
        },
        ..event(Severity::Critical)
    };
    // The guard knows one of them, and has lost the other.
    let (held, forgotten) = (hold(), hold());
    let is_over = |event: Event| Event {
        phase: Phase::End,
        ..event
    };
    let mut records = vec![
        open.clone(),
        ended.clone(),
        held.clone(),
        forgotten.clone(),
        is_over(ended),
    ];
    // More than one page of records.
    records.extend(infos(OPEN_PAGE).into_iter().map(is_over));
    journal_over(Arc::clone(&store) as _, dir.path(), Limits::default())
        .append(records)
        .unwrap();

    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    store.reads.blow_at(1);
    let continues = |id| id == held.id;
    let none = |_: &str| None;
    let closed = journal
        .close_open_events(&stamp, &continues, &none)
        .unwrap();
    let [end, no_longer_held] = &closed[..] else {
        panic!("{closed:?}");
    };
    assert_eq!((end.id, end.phase), (open.id, Phase::End));
    assert_eq!(no_longer_held.id, forgotten.id);
    assert_eq!((end.boot_id.as_str(), end.at), ("next", stamp.at));
    assert_eq!(
        journal
            .close_open_events(&stamp, &continues, &none)
            .unwrap(),
        []
    );
}

#[test]
fn interrupted_clip_is_reported_once_after_its_event() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let stamp = Stamp {
        boot_id: "next".to_owned(),
        mono_ms: 0,
        at: event(Severity::Info).at,
        id: EventId::generate(),
    };
    let filmed = |id: &str| Event {
        clip: Some(Clip {
            made_of: ClipMaterial::default(),
            note: None,
            id: id.to_owned(),
            start: stamp.at,
            end: None,
            before_s: 5.0,
            after_s: 10.0,
            left_out: 0,
            state: ClipState::Filming,
        }),
        ..event(Severity::Info)
    };
    let (half, whole, reported) = (filmed("half"), filmed("whole"), filmed("told"));
    let later = |event: &Event, phase| Event {
        phase,
        clip: None,
        ..event.clone()
    };
    let mut records = vec![half.clone(), whole.clone(), reported.clone()];
    records.extend([&half, &whole, &reported].map(|event| later(event, Phase::End)));
    records.push(later(&reported, Phase::Clip));
    journal_over(Arc::clone(&store) as _, dir.path(), Limits::default())
        .append(records)
        .unwrap();

    let kept = ClipState::Kept {
        content_type: "video/mp4".to_owned(),
        bytes: 9,
        sha256: "00".to_owned(),
    };
    let found = |id: &str| (id == "whole").then(|| kept.clone());
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    let closed = journal
        .close_open_events(&stamp, &|_| false, &found)
        .unwrap();
    let [first, second] = &closed[..] else {
        panic!("{closed:?}");
    };
    assert_eq!((first.id, first.phase), (half.id, Phase::Clip));
    let clip = first.clip.as_ref().unwrap();
    let ClipState::Lost { message } = &clip.state else {
        panic!("{clip:?}");
    };
    assert!(
        message.contains("the runtime stopped unexpectedly"),
        "{message}"
    );
    assert_eq!((second.id, second.phase), (whole.id, Phase::Clip));
    assert_eq!(second.clip.as_ref().unwrap().state, kept);

    journal.append(closed).unwrap();
    drop(journal);
    let journal = journal_over(store as _, dir.path(), Limits::default());
    assert_eq!(
        journal
            .close_open_events(&stamp, &|_| false, &found)
            .unwrap(),
        []
    );
}

#[test]
fn changed_or_removed_record_is_found_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    journal.append(infos(10)).unwrap();
    let checked = || {
        let (mut after, mut broken, mut checked) = (EventSeq(0), None, 0);
        while after < journal.head().last && broken.is_none() {
            let report = journal.verify_after(after, 3).unwrap();
            assert!(report.next_after > after);
            (after, broken) = (report.next_after, report.broken);
            checked += report.checked;
        }
        (checked, broken.map(|broken| broken.seq.0))
    };
    assert_eq!(checked(), (10, None));

    // At the edge of a page, and in its middle.
    for seq in [4, 8] {
        let sound = store.get(EVENTS, &log_key(seq)).unwrap().unwrap();
        let mut changed = sound.clone();
        let at = changed.len() - 3;
        changed[at] ^= 1;
        store
            .commit(Batch::new().put(EVENTS, &log_key(seq), &changed))
            .unwrap();
        assert_eq!(checked().1, Some(seq));
        store
            .commit(Batch::new().delete(EVENTS, &log_key(seq)))
            .unwrap();
        assert_eq!(checked().1, Some(seq + 1));
        store
            .commit(Batch::new().put(EVENTS, &log_key(seq), &sound))
            .unwrap();
        assert_eq!(checked(), (10, None));
    }
}

#[test]
fn retention_leaves_no_gap_in_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_events: 20,
        ..Limits::default()
    };
    let journal = journal_over(Arc::new(MemoryStore::new()), dir.path(), limits);
    journal.append(vec![event(Severity::Critical)]).unwrap();
    for _ in 0..10 {
        journal.append(infos(10)).unwrap();
    }
    let head = journal.head();
    assert!(head.first.0 > 2);
    let report = journal.verify_after(EventSeq(0), MAX_PAGE).unwrap();
    assert_eq!(report.broken, None);
    // The critical record was kept.
    assert_eq!(report.checked, 1 + head.last.0 - head.first.0 + 1);
    assert_eq!(report.next_after, head.last);
    let parts: Vec<_> = report.parts.iter().map(|p| (p.first, p.last)).collect();
    assert_eq!(parts, [(EventSeq(1), EventSeq(1)), (head.first, head.last)]);
    let [gap] = &report.gaps[..] else {
        panic!("{:?}", report.gaps);
    };
    assert_eq!((gap.cause, gap.record), (GapCause::Retention, None));
    assert_eq!((gap.first.0, gap.last.0), (2, head.first.0 - 1));
}

#[test]
fn failed_disk_check_is_known_before_the_next_event() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    journal.check().unwrap();
    assert_eq!(journal.broken(), None);
    store.checks.blow_at(1);
    assert!(journal.check().is_err());
    assert!(journal.broken().unwrap().contains("check"));
}

#[test]
fn retention_moves_first_number_and_keeps_critical() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let limits = Limits {
        max_events: 6,
        max_bytes: u64::MAX,
    };
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), limits);
    journal.append(vec![event(Severity::Critical)]).unwrap();
    for _ in 0..9 {
        journal.append(infos(1)).unwrap();
    }
    let page = journal.read_after(EventSeq(0), 100).unwrap();
    assert_eq!(seqs(&page), [1, 6, 7, 8, 9, 10]);
    assert_eq!(
        page.head,
        Head {
            first: EventSeq(6),
            last: EventSeq(10)
        }
    );
    assert_eq!(journal.stats().dropped, 4);
    // The limit and the first number survive a restart without a false loss.
    let after = journal_over(store, dir.path(), limits);
    assert_eq!(after.head(), page.head);
    after.append(infos(1)).unwrap();
    assert_eq!(after.head().first, EventSeq(7));
}

#[test]
fn store_set_aside_is_reported_and_reuses_no_number() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (journal, _) = opened(Journal::open(dir.path(), Limits::default()));
        journal.append(infos(5)).unwrap();
    }
    fs::write(damage::database(dir.path()), [0xff; 64]).unwrap();
    let (journal, losses) = opened(Journal::open(dir.path(), Limits::default()));
    assert_eq!(losses.len(), 2, "{losses:?}");
    assert!(losses[0].message.contains("set aside"), "{losses:?}");

    let reported = damage::report(&journal, &losses);
    assert!(reported[0].seq > EventSeq(5));
    assert_eq!(journal.head().first, reported[0].seq);
    drop(journal);
    let (_, losses) = opened(Journal::open(dir.path(), Limits::default()));
    assert_eq!(losses, [], "the loss is reported once");
}

#[test]
fn records_missing_from_the_middle_are_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = damage::without_the_third(dir.path());

    let open = || {
        let store = Arc::clone(&store) as _;
        opened(Journal::with_store(
            store,
            dir.path(),
            Limits::default(),
            &OpenOutcome::Clean,
        ))
    };
    // Until the loss is appended, each start reports it.
    for _ in 0..2 {
        let (journal, losses) = open();
        assert_eq!(losses.iter().map(|l| l.count).collect::<Vec<_>>(), [1]);
        assert_eq!(journal.head().first, EventSeq(4));
        journal.append(infos(1)).unwrap();
    }
    let (journal, losses) = open();
    damage::report(&journal, &losses);
    drop(journal);
    assert_eq!(open().1, []);
}

#[test]
fn appends_of_many_threads_form_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal_over(Arc::new(MemoryStore::new()), dir.path(), Limits::default());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let appended = journal.append(infos(3)).unwrap();
                    assert_eq!(appended[2].seq.0, appended[0].seq.0 + 2);
                    assert!(journal.head().last >= appended[2].seq);
                }
            });
        }
    });
    let all = everything(&journal);
    assert_eq!(all.len(), 240);
    verify(Some(Hash::ZERO), &all).unwrap();
}

#[derive(Debug, Clone)]
enum Action {
    Append(u8, bool),
    FailWrite(u8),
    FailSync(u8),
    PowerCut,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (1..5_u8, any::<bool>()).prop_map(|(n, c)| Action::Append(n, c)),
        1 => (1..5_u8).prop_map(Action::FailWrite),
        1 => (1..5_u8).prop_map(Action::FailSync),
        2 => Just(Action::PowerCut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn faults_reuse_no_number_and_lose_no_acknowledged(
        actions in proptest::collection::vec(action(), 1..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let mut journal = Journal::with_store(Arc::clone(&store) as _, dir.path(), Limits::default(), &OpenOutcome::Clean).unwrap();
        let mut acknowledged: Vec<(u64, EventId)> = Vec::new();
        for action in actions {
            let (n, critical) = match action {
                Action::Append(n, critical) => (n, critical),
                Action::FailWrite(n) => { store.writes.blow_at(1); (n, false) }
                Action::FailSync(n) => { store.syncs.blow_at(1); (n, false) }
                Action::PowerCut => {
                    let left = store.inner().power_cut();
                    store = Arc::new(FaultyStore::new(left));
                    journal = Journal::with_store(Arc::clone(&store) as _, dir.path(), Limits::default(), &OpenOutcome::Clean).unwrap();
                    continue;
                }
            };
            let severity = if critical { Severity::Critical } else { Severity::Info };
            if let Ok(done) = journal.append((0..n).map(|_| event(severity)).collect()) {
                acknowledged.extend(done.iter().map(|e| (e.seq.0, e.id)));
            }
            store.writes.repair();
            store.syncs.repair();
        }
        prop_assert!(acknowledged.windows(2).all(|w| w[0].0 < w[1].0), "{acknowledged:?}");
        let all: BTreeMap<u64, EventId> =
            everything(&journal).iter().map(|e| (e.seq.0, e.event().unwrap().id)).collect();
        for (seq, id) in acknowledged {
            prop_assert_eq!(all.get(&seq), Some(&id));
        }
        verify(None, &everything(&journal)).unwrap();
    }
}
