//! The journal after damage: what loss records name, and what verifying finds.

use std::collections::BTreeSet;

use watchkeeper_contract::event::{ChainLoss, ChainStart, LostRange};
use watchkeeper_store::LateStore;

use super::*;

/// Flips of bits in a normal run and in a long one.
const FLIPS: u64 = 208;
const SOAK_FLIPS: u64 = 5000;

fn stamp() -> Stamp {
    Stamp {
        boot_id: "b".to_owned(),
        mono_ms: 0,
        at: event(Severity::Info).at,
        id: EventId::generate(),
    }
}

/// Opens the journal and appends its losses, like the runtime at its start.
fn open_and_report(state: &Path, limits: Limits) -> (Journal, Vec<Loss>) {
    let (journal, losses) = opened(Journal::open(state, limits));
    report(&journal, &losses);
    (journal, losses)
}

pub(super) fn report(journal: &Journal, losses: &[Loss]) -> Vec<Event> {
    let events = losses.iter().flat_map(|loss| loss.events(&stamp()));
    let events: Vec<Event> = events.collect();
    journal.set_unreported(&events);
    journal.append(events).unwrap()
}

/// The store of a journal of six records, the third of which was deleted.
pub(super) fn without_the_third(folder: &Path) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    journal_over(Arc::clone(&store) as _, folder, Limits::default())
        .append(infos(6))
        .unwrap();
    store
        .commit(Batch::new().delete(EVENTS, &log_key(3)))
        .unwrap();
    store
}

/// Verifies all of the journal in small pages.
fn verify_all(journal: &Journal) -> ChainReport {
    let mut all = journal.verify_after(EventSeq(0), 7).unwrap();
    while all.next_after < all.last {
        let page = journal.verify_after(all.next_after, 7).unwrap();
        assert!(page.next_after > all.next_after);
        all.join(page);
    }
    all
}

fn unexplained(report: &ChainReport) -> usize {
    let gaps = report.gaps.iter();
    gaps.filter(|gap| gap.cause == GapCause::Unexplained)
        .count()
        + report.parts.iter().filter(|p| p.broken.is_some()).count()
}

/// First and last number of each part.
fn parts(report: &ChainReport) -> Vec<(u64, u64)> {
    let parts = report.parts.iter();
    parts.map(|part| (part.first.0, part.last.0)).collect()
}

fn gaps(report: &ChainReport) -> Vec<(u64, u64, GapCause, Option<u64>)> {
    let gaps = report.gaps.iter();
    gaps.map(|gap| {
        let record = gap.record.map(|seq| seq.0);
        (gap.first.0, gap.last.0, gap.cause, record)
    })
    .collect()
}

/// Losses that the stored loss records name.
fn named(journal: &Journal) -> Vec<ChainLoss> {
    let events = everything(journal).into_iter();
    events
        .filter_map(|stored| match stored.event().unwrap().body {
            EventBody::Loss { chain, .. } => chain.map(|chain| *chain),
            _ => None,
        })
        .collect()
}

fn ranges(losses: &[Loss]) -> Vec<(u64, u64, bool)> {
    let chains = losses.iter().filter_map(|loss| loss.chain.as_ref());
    chains
        .flat_map(|chain| &chain.lost)
        .map(|range| (range.first.0, range.last.0, range.at_most))
        .collect()
}

pub(super) fn database(state: &Path) -> PathBuf {
    state.join("journal/data/records.redb")
}

/// Flips a bit in the text of the stored record `seq`.
fn flip_in_record(state: &Path, text: &str) {
    let mut bytes = fs::read(database(state)).unwrap();
    let text = text.as_bytes();
    let found: Vec<usize> = (0..bytes.len() - text.len())
        .filter(|at| bytes[*at] == text[0] && bytes[*at..].starts_with(text))
        .collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at + text.len() / 2] ^= 4;
    }
    fs::write(database(state), bytes).unwrap();
}

#[test]
fn chain_continues_through_a_salvage() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = opened(Journal::open(dir.path(), Limits::default()));
    for _ in 0..60 {
        journal.append(infos(5)).unwrap();
    }
    let before = everything(&journal);
    drop(journal);
    flip_in_record(dir.path(), before[149].canonical());

    // A start that fails before it reports names the same numbers as the next one.
    let first = ranges(&opened(Journal::open(dir.path(), Limits::default())).1);
    let (journal, losses) = open_and_report(dir.path(), Limits::default());
    assert_eq!(ranges(&losses), first);
    let [(from, to, false)] = first[..] else {
        panic!("{losses:?}");
    };
    assert!((2..=150).contains(&from) && (150..300).contains(&to));
    let chain = losses[1].chain.clone().unwrap();
    assert_eq!((chain.last, chain.next), (EventSeq(300), EventSeq(301)));
    assert_eq!(chain.hash, before[299].hash().to_string());
    assert_eq!(losses[1].count, to - from + 1);

    journal.append(infos(1)).unwrap();
    let all = verify_all(&journal);
    assert_eq!(unexplained(&all), 0, "{all:?}");
    let last = journal.head().last.0;
    assert_eq!(parts(&all), [(1, from - 1), (to + 1, last)]);
    // The third record is the first one about the missing numbers.
    assert_eq!(gaps(&all), [(from, to, GapCause::Lost, Some(303))]);
    assert_eq!(all.parts[1].start, ChainStart::LossRecord);
    assert_eq!(all.checked, last - (to - from + 1));

    drop(journal);
    let (journal, losses) = opened(Journal::open(dir.path(), Limits::default()));
    assert_eq!(losses, [], "the loss is reported once");
    assert_eq!(gaps(&verify_all(&journal)), gaps(&all));
}

#[test]
fn change_of_the_record_after_a_loss_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = without_the_third(dir.path());
    let outcome = OpenOutcome::Truncated { lost_batches: 1 };
    let result = Journal::with_store(
        Arc::clone(&store) as _,
        dir.path(),
        Limits::default(),
        &outcome,
    );
    let (journal, losses) = opened(result);
    assert_eq!(gaps(&verify_all(&journal)), [(3, 3, GapCause::Lost, None)]);
    report(&journal, &losses);
    let all = verify_all(&journal);
    assert_eq!(gaps(&all), [(3, 3, GapCause::Lost, Some(7))]);
    assert_eq!((parts(&all), unexplained(&all)), (vec![(1, 2), (4, 8)], 0));

    let mut changed = store.get(EVENTS, &log_key(4)).unwrap().unwrap();
    let at = changed.len() - 3;
    changed[at] ^= 1;
    store
        .commit(Batch::new().put(EVENTS, &log_key(4), &changed))
        .unwrap();
    let all = verify_all(&journal);
    assert_eq!(all.broken.unwrap().seq, EventSeq(4));
}

#[test]
fn verifying_goes_on_behind_a_break() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    journal.append(infos(9)).unwrap();
    for seq in [4, 9] {
        store
            .commit(Batch::new().delete(EVENTS, &log_key(seq)))
            .unwrap();
    }
    let all = verify_all(&journal);
    assert_eq!(parts(&all), [(1, 3), (5, 8)]);
    let cause = GapCause::Unexplained;
    assert_eq!(gaps(&all), [(4, 4, cause, None), (9, 9, cause, None)]);
    assert_eq!(all.parts[1].broken, all.broken);
    assert_eq!(all.broken.unwrap().seq, EventSeq(5));
}

#[test]
fn record_removed_from_sound_files_stays_unexplained() {
    let dir = tempfile::tempdir().unwrap();
    let store = without_the_third(dir.path());
    let (outcome, limits) = (OpenOutcome::Clean, Limits::default());
    let result = Journal::with_store(store as _, dir.path(), limits, &outcome);
    let (journal, losses) = opened(result);
    assert!(losses[0].message.contains("files are sound"), "{losses:?}");
    report(&journal, &losses);
    let all = verify_all(&journal);
    assert_eq!(gaps(&all), [(3, 3, GapCause::Unexplained, Some(7))]);
    assert!(unexplained(&all) > 0);
}

#[test]
fn numbers_never_given_are_not_named() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = opened(Journal::open(dir.path(), Limits::default()));
    journal.append(infos(5)).unwrap();
    let last = everything(&journal)[4].hash();
    drop(journal);
    fs::write(database(dir.path()), [0xff; 64]).unwrap();
    let (journal, losses) = open_and_report(dir.path(), Limits::default());
    assert_eq!(ranges(&losses), [(1, 5, false)]);
    let message = &losses[1].message;
    assert!(message.starts_with("events 1 to 5 are lost: "), "{message}");
    let chain = losses[1].chain.as_ref().unwrap();
    assert_eq!((chain.next, &chain.hash), (EventSeq(6), &last.to_string()));
    let all = verify_all(&journal);
    assert_eq!(gaps(&all), [(1, 5, GapCause::Lost, Some(8))]);
    assert_eq!((parts(&all), unexplained(&all)), (vec![(6, 9)], 0));
    assert_eq!(all.parts[0].start, ChainStart::LossRecord);
}

#[test]
fn loss_says_at_most_where_the_last_number_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = opened(Journal::open(dir.path(), Limits::default()));
    journal.append(infos(5)).unwrap();
    drop(journal);
    fs::write(database(dir.path()), [0xff; 64]).unwrap();
    fs::remove_file(dir.path().join("journal/witness")).unwrap();
    let (journal, losses) = open_and_report(dir.path(), Limits::default());
    let [(1, reserved, true)] = ranges(&losses)[..] else {
        panic!("{losses:?}");
    };
    assert!(reserved >= 1024);
    assert!(losses[1].message.contains("at most"), "{losses:?}");
    assert!(losses[1].message.contains("not be known"), "{losses:?}");
    let all = verify_all(&journal);
    let record = Some(reserved + 3);
    assert_eq!(gaps(&all), [(1, reserved, GapCause::AtMostLost, record)]);
    assert_eq!(unexplained(&all), 0);
}

#[test]
fn lost_last_batches_are_named_and_the_chain_continues() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let journal = journal_over(Arc::clone(&store) as _, dir.path(), Limits::default());
    journal.append(infos(4)).unwrap();
    let head = store.get(META, HEAD).unwrap().unwrap();
    let given = journal.append(infos(2)).unwrap();
    drop(journal);
    // The database went back by one batch; the mark did not.
    let older = Batch::new()
        .put(META, HEAD, &head)
        .delete(EVENTS, &log_key(5))
        .delete(EVENTS, &log_key(6));
    store.commit(older).unwrap();
    let outcome = OpenOutcome::Truncated { lost_batches: 1 };
    let result = Journal::with_store(store as _, dir.path(), Limits::default(), &outcome);
    let (journal, losses) = opened(result);
    assert_eq!(ranges(&losses), [(5, 6, false)]);
    assert_eq!(losses[0].chain.as_ref().unwrap().hash, given[1].hash);
    report(&journal, &losses);
    let all = verify_all(&journal);
    assert_eq!(gaps(&all), [(5, 6, GapCause::Lost, Some(7))]);
    assert_eq!((parts(&all), unexplained(&all)), (vec![(1, 4), (7, 8)], 0));
}

/// A journal of some hundred events in the folder `state`, and the numbers of its records.
fn filled(state: &Path, limits: Limits) -> (Journal, BTreeSet<u64>) {
    let (journal, _) = opened(Journal::open(state, limits));
    for n in 0..75 {
        let mut events = infos(3);
        if n % 5 == 0 {
            events.push(event(Severity::Critical));
        }
        journal.append(events).unwrap();
    }
    let seqs = everything(&journal).iter().map(|e| e.seq.0).collect();
    (journal, seqs)
}

#[test]
fn page_unreadable_before_it_is_verified_is_repaired() {
    const PAGE: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits::default();
    let (journal, _) = filled(dir.path(), limits);
    let last = everything(&journal).pop().unwrap().event().unwrap();
    drop(journal);
    let mut bytes = fs::read(database(dir.path())).unwrap();
    let id = last.id.to_string().into_bytes();
    let found = (0..bytes.len() - id.len()).filter(|at| bytes[*at..].starts_with(&id));
    for at in found.collect::<Vec<_>>() {
        // The kind of the page.
        bytes[at / PAGE * PAGE] = u8::MAX;
    }
    fs::write(database(dir.path()), bytes).unwrap();

    Journal::open_by(LateStore::open_unverified, dir.path(), limits).unwrap_err();
    let (journal, losses) = opened(Journal::open_unverified(dir.path(), limits));
    assert!(!losses.is_empty());
    assert!(!everything(&journal).is_empty());
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Flips one bit of the database; of two calls, one chooses only among bytes in use.
fn flip_a_bit(state: &Path, random: &mut fastrand::Rng) -> usize {
    let mut bytes = fs::read(database(state)).unwrap();
    let in_use: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let at = if random.bool() {
        random.usize(..bytes.len())
    } else {
        in_use[random.usize(..in_use.len())]
    };
    bytes[at] ^= 1 << random.u8(..8);
    fs::write(database(state), bytes).unwrap();
    at
}

/// Opens a damaged journal that had the records `before`, the last of them `given`, and reports its
/// losses. Each record is readable or named, nothing else is named, and no gap is unexplained.
fn check_damaged(
    state: &Path,
    limits: Limits,
    before: &BTreeSet<u64>,
    given: u64,
    what: &str,
) -> (Journal, Vec<Loss>) {
    let (journal, losses) = opened(Journal::open(state, limits));
    let readable: BTreeSet<u64> = everything(&journal).iter().map(|e| e.seq.0).collect();
    let stored = named(&journal);
    let found = losses.iter().filter_map(|loss| loss.chain.as_ref());
    let lost: Vec<&LostRange> = found.chain(&stored).flat_map(|chain| &chain.lost).collect();
    for seq in before {
        let is_named = |range: &&LostRange| range.first.0 <= *seq && *seq <= range.last.0;
        assert!(
            readable.contains(seq) || lost.iter().any(&is_named),
            "{what}: {seq} is neither readable nor named: {losses:?}"
        );
    }
    for range in lost {
        assert!(range.last.0 <= given, "{what}: {range:?} was never given");
        let mut seqs = range.first.0..=range.last.0;
        assert!(
            range.at_most || seqs.all(|seq| !readable.contains(&seq)),
            "{what}: {range:?} is readable"
        );
    }
    for loss in losses.iter().filter(|loss| loss.chain.is_some()) {
        assert!(loss.count <= given, "{what}: {loss:?}");
    }
    assert_eq!(unexplained(&verify_all(&journal)), 0, "{what}");
    report(&journal, &losses);
    let all = verify_all(&journal);
    assert_eq!(unexplained(&all), 0, "{what}: {all:?}");
    assert_eq!(all.checked, everything(&journal).len() as u64, "{what}");
    (journal, losses)
}

/// Seeded; `WATCHKEEPER_SOAK=1` flips more bits.
#[test]
fn flipped_bit_of_the_database_leaves_nothing_unexplained() {
    let is_soak = std::env::var_os("WATCHKEEPER_SOAK").is_some();
    let count = if is_soak { SOAK_FLIPS } else { FLIPS };
    let small = Limits {
        max_events: 120,
        ..Limits::default()
    };
    let mut templates = Vec::new();
    for limits in [Limits::default(), small] {
        let closed = tempfile::tempdir().unwrap();
        let killed = tempfile::tempdir().unwrap();
        let (journal, seqs) = filled(closed.path(), limits);
        copy_folder(closed.path(), killed.path());
        drop(journal);
        templates.push((closed, limits, seqs.clone()));
        templates.push((killed, limits, seqs));
    }
    let mut random = fastrand::Rng::with_seed(7);
    let mut damaged = 0;
    for n in 0..count {
        let (template, limits, seqs) = &templates[usize::try_from(n).unwrap() % templates.len()];
        let dir = tempfile::tempdir().unwrap();
        copy_folder(template.path(), dir.path());
        let at = flip_a_bit(dir.path(), &mut random);
        let what = format!("flip {n} at {at}");
        let given = seqs.last().copied().unwrap();
        let (journal, losses) = check_damaged(dir.path(), *limits, seqs, given, &what);
        damaged += u64::from(!losses.is_empty());
        if n % 8 < 4 || losses.is_empty() {
            continue;
        }
        // Damage again, with the records of the first loss in it.
        journal.append(infos(1)).unwrap();
        let seqs = everything(&journal).iter().map(|e| e.seq.0).collect();
        let given = journal.head().last.0;
        drop(journal);
        flip_a_bit(dir.path(), &mut random);
        check_damaged(dir.path(), *limits, &seqs, given, &format!("second {what}"));
    }
    assert!(
        damaged > count / 4,
        "only {damaged} of {count} flips did harm"
    );
}
