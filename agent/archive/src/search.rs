//! Queries on the durable tier. Everything here blocks.
//!
//! - Records are read for the answer, and for conditions on details that the index has no room for.
//! - An answer is a prefix of the order, bounded by its limit and by [`MAX_ANSWER_BYTES`]. What it
//!   leaves out is asked for with its member `next` as `after`.
//! - An entry that is replaced or removed while it is looked for is left out.

use std::cmp::{Ordering, Reverse};
use std::collections::HashSet;
use std::sync::Arc;

use jiff::{Timestamp, Zoned};

use crate::durable::Durable;
use crate::embeddings::QueryVector;
use crate::error::ArchiveError;
use crate::name::EntryName;
use crate::query::{Conditions, MAX_ANSWER_BYTES, Matches, Order, Query};
use crate::slot::{Details, Place, Slot};
use crate::verb::Found;
use crate::words::{self, CameraNames, Vocabulary};

/// Answers a query in plain words; `cameras`: the names that cameras have beside their IDs.
pub(crate) fn find(
    durable: &Durable,
    text: &str,
    now: &Zoned,
    cameras: CameraNames,
) -> Result<Found, ArchiveError> {
    let known = Vocabulary::of(&durable.index(), now.timestamp(), cameras);
    let read = words::read(text, &known, now)?;
    let matches = query(durable, &read, None, now.timestamp())?;
    Ok(Found {
        query: read,
        matches,
    })
}

/// Answers a query; `near` takes the place of [`Query::like`].
pub(crate) fn query(
    durable: &Durable,
    query: &Query,
    near: Option<QueryVector>,
    now: Timestamp,
) -> Result<Matches, ArchiveError> {
    let near = match (near, &query.like) {
        (Some(near), _) => Some(near),
        (None, Some(name)) => {
            let found = durable.entry(name, now)?;
            let found = found.ok_or_else(|| ArchiveError::NotFound(name.to_string()))?;
            Some(QueryVector::of_entry(&found, durable)?)
        }
        (None, None) => None,
    };
    if near.is_none() && query.needs_model() {
        let sentence = "only the agent can compare with a text or a picture; ask it";
        return Err(ArchiveError::Refused(sentence.to_owned()));
    }
    let wanted = Conditions::new(query, near.is_some())?;
    let mut found = match near {
        None => in_order(durable, &wanted, now),
        Some(near) => by_likeness(durable, &wanted, &near, now),
    }?;
    if found.matched == 0 {
        found.hint =
            Vocabulary::of(&durable.index(), now, CameraNames::new()).explain_absent(query);
    }
    Ok(found)
}

fn in_order(
    durable: &Durable,
    wanted: &Conditions<'_>,
    now: Timestamp,
) -> Result<Matches, ArchiveError> {
    let query = wanted.query();
    let begin: Option<Place> = match (&query.after, query.order) {
        (None, _) => None,
        (Some(after), Order::Name) => Some((Reverse(now), after.clone())),
        (Some(after), _) => Some(find_begin(durable, after, now)?.place.clone()),
    };
    let (slots, matched) = select(durable, wanted, begin.as_ref(), wanted.limit, now)?;
    let found = slots.into_iter().map(|slot| (None, slot));
    answer(durable, found, matched, wanted.limit, now)
}

fn by_likeness(
    durable: &Durable,
    wanted: &Conditions<'_>,
    near: &QueryVector,
    now: Timestamp,
) -> Result<Matches, ArchiveError> {
    let (slots, _) = select(durable, wanted, None, usize::MAX, now)?;
    let mut ranked = near.compare(durable, slots)?;
    // Of equals the smallest name comes first.
    let order = |a: &(f64, Arc<Slot>), b: &(f64, Arc<Slot>)| -> Ordering {
        let by_likeness = b.0.total_cmp(&a.0);
        by_likeness.then_with(|| a.1.name().cmp(b.1.name()))
    };
    if let Some(after) = &wanted.query().after {
        let begin = find_begin(durable, after, now)?;
        let own = near.compare(durable, vec![begin])?.pop();
        let own = own.ok_or_else(|| {
            let remedy = "use the name that an answer gives as next".to_owned();
            ArchiveError::field("after", after.as_str(), remedy)
        })?;
        ranked.retain(|one| order(one, &own).is_gt());
    }
    let matched = ranked.len();
    if matched > wanted.limit {
        ranked.select_nth_unstable_by(wanted.limit, order);
        ranked.truncate(wanted.limit);
    }
    ranked.sort_unstable_by(order);
    let found = ranked.into_iter().map(|(rank, slot)| (Some(rank), slot));
    answer(durable, found, matched, wanted.limit, now)
}

/// Returns the entry after which an answer begins.
fn find_begin(
    durable: &Durable,
    after: &EntryName,
    now: Timestamp,
) -> Result<Arc<Slot>, ArchiveError> {
    let index = durable.index();
    let known = index.slot(after);
    let known = known.filter(|slot| slot.is_there(now.as_microsecond()));
    known.cloned().ok_or_else(|| {
        let remedy = "that entry has expired or was destroyed meanwhile; begin without after";
        ArchiveError::field("after", after.as_str(), remedy.to_owned())
    })
}

/// Returns at least `max` entries that fulfil the conditions, or all, in the order of the query
/// after `begin`; and how many do.
fn select(
    durable: &Durable,
    wanted: &Conditions<'_>,
    begin: Option<&Place>,
    max: usize,
    now: Timestamp,
) -> Result<(Vec<Arc<Slot>>, usize), ArchiveError> {
    let index = durable.index();
    if !wanted.need_details() || index.has_details() {
        return Ok(index.select(wanted, begin, max, now));
    }
    let (mut slots, _) = index.select(wanted, begin, usize::MAX, now);
    drop(index);
    let unknown = slots.iter().filter(|slot| slot.details.is_none());
    let unknown: Vec<&Arc<Slot>> = unknown.collect();
    let mut met = HashSet::new();
    durable.visit(&unknown, now, |entry| {
        if wanted.is_met_by_details(&Details::of(&entry)) {
            met.insert(entry.number);
        }
    })?;
    slots.retain(|slot| slot.details.is_some() || met.contains(&slot.number));
    let matched = slots.len();
    Ok((slots, matched))
}

/// Reads the entries of an answer; `matched` is how many there are. The next answer continues after
/// the last entry that was read: a later one may be gone.
fn answer(
    durable: &Durable,
    found: impl Iterator<Item = (Option<f64>, Arc<Slot>)>,
    matched: usize,
    limit: usize,
    now: Timestamp,
) -> Result<Matches, ArchiveError> {
    let (mut entries, mut likeness) = (Vec::new(), Vec::new());
    let (mut bytes, mut visited, mut last) = (0, 0, None);
    for (rank, slot) in found {
        if entries.len() == limit {
            break;
        }
        if let Some(entry) = durable.entry_of(&slot, now)? {
            bytes += entry.record_bytes();
            if bytes > MAX_ANSWER_BYTES && !entries.is_empty() {
                break;
            }
            entries.push(entry);
            likeness.extend(rank);
        }
        visited += 1;
        last = Some(slot.name().clone());
    }
    let read = entries.last().map(|entry| entry.name.clone());
    Ok(Matches {
        entries,
        matched: matched as u64,
        next: read.or(last).filter(|_| visited < matched),
        likeness,
        hint: None,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use jiff::SignedDuration;
    use proptest::prelude::*;
    use serde_json::json;
    use watchkeeper_pictures::likeness::cosine;
    use watchkeeper_store::{Batch, FaultyStore, MemoryStore, Store as _};

    use super::*;
    use crate::ContentHash;
    use crate::embeddings::EmbeddingOutcome;
    use crate::entry::{Entry, Metadata, NewEntry, Retention};
    use crate::eviction::Limits;
    use crate::on_disk::EMBEDDINGS;

    type Tested = Arc<FaultyStore<MemoryStore>>;

    /// Bounds that the steps of a test reach.
    const LIMITS: Limits = Limits {
        max_bytes: 1 << 20,
        max_entry_bytes: 1 << 20,
        max_entries: 6,
        max_references: 30,
        // Details of about 20 entries find room in the index.
        max_record_bytes: 40 << 10,
    };

    fn open(folder: &tempfile::TempDir, store: &Tested) -> Durable {
        let store = Arc::clone(store) as _;
        Durable::over(folder.path(), store, true, LIMITS, false)
            .unwrap()
            .0
    }

    fn at(seconds: i64) -> Timestamp {
        let start: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        start + SignedDuration::from_secs(seconds)
    }

    fn refer(durable: &Durable, name: &str, metadata: serde_json::Value) {
        let new = NewEntry {
            metadata: serde_json::from_value(metadata).unwrap(),
            ..NewEntry::named(name.parse().unwrap())
        };
        let reference = (new, ContentHash::of(name.as_bytes()), 3, "m".to_owned());
        durable.add_references(vec![reference], 1, at(0)).unwrap();
    }

    fn yard() -> (tempfile::TempDir, Durable) {
        let folder = tempfile::tempdir().unwrap();
        let durable = open(&folder, &Tested::default());
        let time = |day: u32| format!("2026-11-{day:02}T12:00:00Z");
        let known = json!({"class": "car", "camera": "gate", "time": time(3)});
        refer(&durable, "yard/a.jpg", known);
        let known = json!({"class": "person", "camera": "gate", "time": time(5),
            "text": "HH AB 12"});
        refer(&durable, "yard/b.png", known);
        let known = json!({"class": "truck", "zone": "Tür 2", "time": time(4),
            "codes": ["4006381333931"], "labels": {"order": "A-17"}, "tracks": [7]});
        refer(&durable, "dock/a.jpg", known);
        for (name, vector) in [("yard/a.jpg", [1.0, 0.1]), ("yard/b.png", [0.0, 1.0])] {
            let made = EmbeddingOutcome::Vector(vector.to_vec());
            let hash = ContentHash::of(name.as_bytes());
            durable.put_outcome(&hash, "yard", &made).unwrap();
        }
        (folder, durable)
    }

    fn names(durable: &Durable, asked: serde_json::Value) -> Vec<String> {
        let asked: Query = serde_json::from_value(asked).unwrap();
        let found = query(durable, &asked, None, at(0)).unwrap().entries;
        found.iter().map(|entry| entry.name.to_string()).collect()
    }

    #[test]
    fn conditions_are_joined() {
        let (_folder, durable) = yard();
        let span = json!({"since": "2026-11-04T00:00:00Z", "until": "2026-11-05T00:00:00Z"});
        let bounds = json!({"since": "2026-11-04T12:00:00Z", "until": "2026-11-05T12:00:00Z"});
        for (asked, expected) in [
            (json!({}), &["yard/b.png", "dock/a.jpg", "yard/a.jpg"][..]),
            (
                json!({"order": "name"}),
                &["dock/a.jpg", "yard/a.jpg", "yard/b.png"],
            ),
            (json!({"camera": "GATE", "class": "car"}), &["yard/a.jpg"]),
            (json!({"text": "ab 12"}), &["yard/b.png"]),
            (json!({"text": "381333"}), &["dock/a.jpg"]),
            (
                json!({"labels": {"order": "A-17"}, "track": 7}),
                &["dock/a.jpg"],
            ),
            (json!({"zone": "TÜR 2"}), &["dock/a.jpg"]),
            (json!({"zone": "tür 2", "class": "car"}), &[]),
            (json!({"content_type": "image/p"}), &["yard/b.png"]),
            (span, &["dock/a.jpg"]),
            (bounds, &["dock/a.jpg"]),
            (json!({"order": "oldest", "limit": 1}), &["yard/a.jpg"]),
            (json!({"like": "yard/a.jpg"}), &["yard/a.jpg", "yard/b.png"]),
            (json!({"like": "yard/a.jpg", "text": "AB"}), &["yard/b.png"]),
            (json!({"pattern": "dock"}), &["dock/a.jpg"]),
            (json!({"pattern": "*/a.*"}), &["dock/a.jpg", "yard/a.jpg"]),
            (json!({"pattern": "yard/[b-z].png"}), &["yard/b.png"]),
            (json!({"pattern": "y*"}), &["yard/b.png", "yard/a.jpg"]),
        ] {
            assert_eq!(names(&durable, asked.clone()), expected, "{asked}");
        }
    }

    #[test]
    fn next_page_starts_after_last_entry_despite_deletions() {
        let (_folder, durable) = yard();
        let asked = Query::default();
        let wanted = Conditions::new(&asked, false).unwrap();
        let (rows, matched) = durable.index().select(&wanted, None, 2, at(0));
        durable.destroy(&["dock/a.jpg".parse().unwrap()]).unwrap();
        let rows = rows.into_iter().map(|row| (None, row));
        let page = answer(&durable, rows, matched, 2, at(0)).unwrap();
        assert_eq!(page.next, Some("yard/b.png".parse().unwrap()));
        let rest = names(&durable, json!({"after": page.next}));
        assert_eq!(rest, ["yard/a.jpg"]);
    }

    #[test]
    fn conditions_read_only_records_of_entries_without_details() {
        let (folder, store) = (tempfile::tempdir().unwrap(), Tested::default());
        let durable = open(&folder, &store);
        // Its details are longer than those that fill the room.
        let text = "HH AB 12".repeat(20);
        let car = json!({"class": "car", "text": text});
        (0..3).for_each(|n| refer(&durable, &format!("yard/{n}"), car.clone()));
        let other = json!({"text": "EXIT"});
        let mut others = 0;
        while durable.index().has_details() {
            refer(&durable, &format!("dock/{others}"), other.clone());
            others += 1;
        }
        refer(&durable, "yard/last", car);
        assert!((10..26).contains(&others), "{others}");
        let asked = json!({"class": "car", "text": "ab 12", "order": "name", "limit": 1});
        // One for the condition, one for the answer.
        store.reads.blow_at(3);
        let found = query(
            &durable,
            &serde_json::from_value(asked).unwrap(),
            None,
            at(0),
        );
        assert_eq!(found.unwrap().matched, 4);
    }

    #[test]
    fn name_that_no_entry_has_is_named_with_those_that_are_there() {
        let (_folder, durable) = yard();
        let hint = |asked: serde_json::Value| {
            let asked: Query = serde_json::from_value(asked).unwrap();
            query(&durable, &asked, None, at(0)).unwrap().hint
        };
        assert_eq!(
            hint(json!({"class": "Zebra"})).as_deref(),
            Some("no entry has the class \"Zebra\"; classes are car, person, truck")
        );
        let camera = hint(json!({"class": "truck", "camera": "roof"}));
        assert_eq!(
            camera.as_deref(),
            Some("no entry has the camera \"roof\"; cameras are gate")
        );
        assert_eq!(hint(json!({"class": "CAR", "zone": "tür 2"})), None);
        let words = find(
            &durable,
            "zebras",
            &at(0).to_zoned(jiff::tz::TimeZone::UTC),
            CameraNames::new(),
        );
        let refused = words.unwrap_err().to_string();
        assert!(
            refused.ends_with("classes are car, person, truck; cameras are gate"),
            "{refused}"
        );
    }

    #[test]
    fn queueing_pictures_deletes_embeddings_without_entry() {
        let (folder, store) = (tempfile::tempdir().unwrap(), Tested::default());
        let durable = open(&folder, &store);
        refer(&durable, "yard/a.jpg", json!({}));
        let [kept, left] = ["yard/a.jpg", "gone"].map(|name| ContentHash::of(name.as_bytes()));
        let made = EmbeddingOutcome::Vector(vec![1.0]);
        durable.put_outcome(&kept, "d", &made).unwrap();
        let record = store.get(EMBEDDINGS, &kept.0).unwrap().unwrap();
        let batch = Batch::new().put(EMBEDDINGS, &left.0, &record);
        store.write(batch).unwrap();
        durable.begin_embedding("d").unwrap();
        let is_stored = |hash| durable.record(hash).unwrap().is_some();
        assert_eq!([&kept, &left].map(is_stored), [true, false]);
    }

    #[test]
    fn ingest_without_embedding_does_not_wait_for_likeness_query() {
        let (_folder, durable) = yard();
        let _comparing = durable.vectors().read();
        refer(&durable, "yard/new.jpg", json!({}));
        assert_eq!(names(&durable, json!({"pattern": "yard/new.jpg"})).len(), 1);
    }

    #[test]
    fn queries_by_likeness_do_not_wait_for_each_other() {
        let (_folder, durable) = yard();
        let made = EmbeddingOutcome::Vector(vec![1.0, 0.5]);
        let hash = ContentHash::of(b"yard/a.jpg");
        durable.put_outcome(&hash, "d", &made).unwrap();
        let near = || QueryVector {
            digest: "d".to_owned(),
            vector: vec![1.0, 0.0],
        };
        // The first one loads the embeddings.
        let ask = || query(&durable, &Query::default(), Some(near()), at(0)).unwrap();
        assert_eq!(ask().matched, 1);
        let comparing = durable.vectors().read();
        let (sender, answers) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| sender.send(ask().matched));
            let answered = answers.recv_timeout(Duration::from_secs(20));
            // Otherwise a query that waits would keep the test from its end.
            drop(comparing);
            assert_eq!(answered, Ok(1));
        });
    }

    /// Whether text, content or embedding of an entry is in memory, or its embedding in the store.
    fn is_held(durable: &Durable, text: &str, hash: &ContentHash) -> [bool; 3] {
        let hex = hash.to_string();
        let index = format!("{:?}", durable.index());
        let vectors = format!("{:?}", durable.vectors());
        let stored = durable.record(hash).unwrap().is_some();
        [
            index.contains(&text.to_lowercase()) || index.contains(&hex),
            vectors.contains(&hex),
            stored,
        ]
    }

    #[test]
    fn destroyed_entry_is_found_by_no_query_and_held_nowhere() {
        let (folder, store) = (tempfile::tempdir().unwrap(), Tested::default());
        let durable = open(&folder, &store);
        // A reference, an entry with its content, and one that shares the content of another.
        refer(&durable, "yard/a.jpg", json!({"text": "HH AB 12"}));
        let mut hashes = vec![ContentHash::of(b"yard/a.jpg")];
        for (name, content) in [
            ("yard/b.jpg", "1"),
            ("yard/c.jpg", "2"),
            ("dock/c.jpg", "2"),
        ] {
            let mut staged = durable.stage().unwrap();
            staged.append(content.as_bytes()).unwrap();
            let sealed = staged.seal().unwrap();
            hashes.push(sealed.hash);
            let metadata = json!({"text": format!("SECRET {name}")});
            let new = NewEntry {
                metadata: serde_json::from_value(metadata).unwrap(),
                ..NewEntry::named(name.parse().unwrap())
            };
            durable.commit(&sealed, new, at(0)).unwrap();
        }
        for (n, hash) in hashes.iter().enumerate() {
            let made = EmbeddingOutcome::Vector(vec![1.0, n as f32]);
            durable.put_outcome(hash, "d", &made).unwrap();
        }
        let near = || QueryVector {
            digest: "d".to_owned(),
            vector: vec![1.0, 0.0],
        };
        let alike = || query(&durable, &Query::default(), Some(near()), at(0)).unwrap();
        assert_eq!(alike().matched, 4);
        let destroy = |name: &str| durable.destroy(&[name.parse().unwrap()]);
        // Seen although the sync failed: a second destroy finds nothing to remove.
        store.syncs.blow_at(1);
        destroy("yard/a.jpg").unwrap_err();
        store.syncs.repair();
        assert_eq!(is_held(&durable, "HH AB 12", &hashes[0]), [false; 3]);
        for (name, text, hash) in [
            ("yard/a.jpg", "HH AB 12", &hashes[0]),
            ("yard/b.jpg", "SECRET yard/b.jpg", &hashes[1]),
        ] {
            destroy(name).unwrap();
            assert_eq!(is_held(&durable, text, hash), [false; 3], "{name}");
            assert_eq!(names(&durable, json!({"text": text})), [""; 0]);
            // An embedding that was under way comes too late.
            let late = EmbeddingOutcome::Vector(vec![1.0, 2.0]);
            durable.put_outcome(hash, "d", &late).unwrap();
            assert_eq!(is_held(&durable, text, hash), [false; 3], "{name}");
        }
        destroy("yard/c.jpg").unwrap();
        assert_eq!(
            is_held(&durable, "secret yard/c.jpg", &hashes[2])[1..],
            [true; 2]
        );
        let left = alike().entries;
        assert_eq!(
            left.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(),
            ["dock/c.jpg"]
        );
        destroy("dock/c.jpg").unwrap();
        assert_eq!(is_held(&durable, "secret", &hashes[2]), [false; 3]);
        assert_eq!(alike().matched, 0);
    }

    #[test]
    fn class_of_expired_entries_only_is_not_understood() {
        let folder = tempfile::tempdir().unwrap();
        let durable = open(&folder, &Tested::default());
        // Track 2 expires after a minute.
        for (number, class, track) in [(1, 0, 2), (2, 0, 0), (3, 2, 2)] {
            let new = new_entry(number, [3, class, 2, 0, 2, track]);
            let reference = (new, ContentHash::of(b"x"), 1, "m".to_owned());
            durable.add_references(vec![reference], 1, at(0)).unwrap();
        }
        let find = |text: &str, seconds| {
            let now = at(seconds).to_zoned(jiff::tz::TimeZone::UTC);
            find(&durable, text, &now, CameraNames::new()).map(|found| found.matches.matched)
        };
        assert_eq!(find("cars today", 59).ok(), Some(2));
        assert_eq!(find("persons today", 59).ok(), Some(1));
        assert_eq!(find("cars today", 61).ok(), Some(1));
        let refused = find("persons today", 61).unwrap_err().to_string();
        assert!(
            refused.contains("\"persons\" is not understood"),
            "{refused}"
        );
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// Adds or replaces an entry; `facts` choose its metadata.
        Put {
            name: usize,
            facts: [usize; 6],
            is_stored: bool,
        },
        Destroy {
            name: usize,
        },
        Protect {
            name: usize,
            is_on: bool,
        },
        Embed {
            name: usize,
            vector: [i8; 2],
        },
        /// A change that the disk refuses.
        Refused {
            name: usize,
        },
        /// Changes whose sync fails.
        Unsynced {
            name: usize,
        },
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        let facts = [0..4_usize, 0..4, 0..3, 0..8, 0..3, 0..3];
        prop_oneof![
            8 => (0..40_usize, facts, prop::bool::weighted(0.3))
                .prop_map(|(name, facts, is_stored)| Step::Put { name, facts, is_stored }),
            2 => (0..40_usize).prop_map(|name| Step::Destroy { name }),
            1 => (0..40_usize, any::<bool>()).prop_map(|(name, is_on)| Step::Protect { name, is_on }),
            4 => (0..40_usize, [-9..9_i8, 1..9])
                .prop_map(|(name, vector)| Step::Embed { name, vector }),
            1 => (0..40_usize).prop_map(|name| Step::Refused { name }),
            1 => (0..40_usize).prop_map(|name| Step::Unsynced { name }),
            1 => Just(Step::Restart),
        ]
    }

    fn name(number: usize) -> EntryName {
        let collection = ["yard", "dock", "a-b"][number % 3];
        EntryName::new(
            collection,
            &format!("{number}.{}", ["jpg", "mp4"][number % 2]),
        )
        .unwrap()
    }

    fn pick(from: &[&str], at: usize) -> Option<String> {
        from.get(at).map(|text| (*text).to_owned())
    }

    fn new_entry(number: usize, [camera, class, zone, time, text, track]: [usize; 6]) -> NewEntry {
        let metadata = Metadata {
            camera: pick(&["gate", "Gate", "yard"], camera),
            class: pick(&["car", "CAR", "person"], class),
            zone: pick(&["bay 1", "bay 2"], zone),
            event: pick(&["E1", "e2"], text),
            // Equal times are frequent; some entries have none.
            time: (time < 7).then(|| at(time as i64)),
            text: pick(&["HH AB 12", "EXIT"], text),
            tracks: vec![track as i64],
            labels: pick(&["A-17"], camera)
                .map(|order| ("order".to_owned(), order))
                .into_iter()
                .collect(),
            ..Metadata::default()
        };
        NewEntry {
            ttl_s: (track == 2).then_some(60),
            metadata,
            ..NewEntry::named(name(number))
        }
    }

    fn run(step: &Step, folder: &tempfile::TempDir, store: &Tested, durable: &mut Durable) {
        let put = |number: usize, facts, is_stored| {
            let new = new_entry(number, facts);
            // Some contents are shared.
            let content = (number % 7).to_string();
            if is_stored {
                let mut staged = durable.stage().unwrap();
                staged.append(content.as_bytes()).unwrap();
                durable
                    .commit(&staged.seal().unwrap(), new, at(3))
                    .map(drop)
            } else {
                let reference = (new, ContentHash::of(content.as_bytes()), 1, content);
                durable.add_references(vec![reference], 1, at(3)).map(drop)
            }
        };
        match step {
            // A protected name, or no room, refuses it.
            Step::Put {
                name,
                facts,
                is_stored,
            } => drop(put(*name, *facts, *is_stored)),
            Step::Destroy { name: number } => drop(durable.destroy(&[name(*number)])),
            Step::Protect {
                name: number,
                is_on,
            } => {
                let class = [Retention::Normal, Retention::Protected][usize::from(*is_on)];
                durable.set_retention(&[name(*number)], class, at(3)).ok();
            }
            Step::Embed {
                name: number,
                vector,
            } => {
                let hash = durable.index().slot(&name(*number)).map(|slot| slot.hash);
                let made = EmbeddingOutcome::Vector(vector.map(f32::from).to_vec());
                if let Some(hash) = hash {
                    durable.put_outcome(&hash, "d", &made).unwrap();
                }
            }
            Step::Refused { name } => {
                store.writes.blow_at(1);
                // The same content under a protected name needs no write.
                drop(put(*name, [0; 6], name % 2 == 0));
                store.writes.repair();
            }
            Step::Unsynced { name: number } => {
                store.syncs.blow_at(1);
                drop(put(*number, [0; 6], number % 2 == 0));
                drop(durable.destroy(&[name(number / 2)]));
                store.syncs.repair();
            }
            Step::Restart => *durable = open(folder, store),
        }
    }

    /// All names that a query finds, page by page, and the number that the first page names.
    fn pages(
        durable: &Durable,
        asked: &Query,
        near: Option<&QueryVector>,
    ) -> (Vec<EntryName>, u64) {
        let (mut asked, mut all, mut matched) = (asked.clone(), Vec::new(), None);
        loop {
            let found = query(durable, &asked, near.cloned(), at(30)).unwrap();
            matched.get_or_insert(found.matched);
            assert!(found.entries.len() <= asked.limit.unwrap());
            all.extend(found.entries.into_iter().map(|entry| entry.name));
            asked.after = found.next;
            if asked.after.is_none() {
                return (all, matched.unwrap());
            }
        }
    }

    /// Whether a name matches a pattern of [`asked`].
    fn is_named(name: &EntryName, pattern: &str) -> bool {
        let (collection, name) = (name.collection(), name.name());
        match pattern {
            "y*" => collection.starts_with('y'),
            "*/1*" => name.starts_with('1'),
            "[ad]*/?.jpg" => collection != "yard" && name.len() == 5 && name.ends_with(".jpg"),
            pattern => collection == pattern,
        }
    }

    /// The names that a look at every record finds.
    fn scanned(durable: &Durable, asked: &Query, near: Option<&QueryVector>) -> Vec<EntryName> {
        let same = |wanted: &Option<String>, found: &Option<String>| match (wanted, found) {
            (Some(wanted), Some(found)) => wanted.to_lowercase() == found.to_lowercase(),
            (wanted, _) => wanted.is_none(),
        };
        let mut all = Vec::new();
        durable.scan(at(30), |entry| all.push(entry)).unwrap();
        all.retain(|entry| {
            let known = &entry.metadata;
            let moment = entry.moment();
            same(&asked.camera, &known.camera)
                && same(&asked.class, &known.class)
                && same(&asked.zone, &known.zone)
                && same(&asked.event, &known.event)
                && asked.since.is_none_or(|since| moment >= since)
                && asked.until.is_none_or(|until| moment < until)
                && asked
                    .retention
                    .is_none_or(|wanted| entry.retention == wanted)
                && asked
                    .pattern
                    .as_ref()
                    .is_none_or(|pattern| is_named(&entry.name, pattern))
                && asked
                    .labels
                    .iter()
                    .all(|(key, value)| known.labels.get(key) == Some(value))
                && (asked.text.is_none() || known.text.as_deref() == Some("HH AB 12"))
                && asked.track.is_none_or(|track| known.tracks == [track])
                && (asked.content_type.is_none() || entry.content_type == "video/mp4")
        });
        let likeness = |entry: &Entry| -> Option<f64> {
            let near = near?;
            let own = QueryVector::of_entry(entry, durable).ok()?;
            let own = (own.digest == near.digest).then_some(own.vector)?;
            cosine(&near.vector, &own)
        };
        if near.is_some() {
            all.retain(|entry| likeness(entry).is_some());
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        match (near, asked.order) {
            (Some(_), _) => {
                all.sort_by(|a, b| likeness(b).unwrap().total_cmp(&likeness(a).unwrap()))
            }
            (None, Order::Newest) => all.sort_by_key(|entry| Reverse(entry.moment())),
            (None, Order::Oldest) => all.sort_by_key(Entry::moment),
            (None, Order::Name) => {}
        }
        all.into_iter().map(|entry| entry.name).collect()
    }

    fn asked() -> impl Strategy<Value = Query> {
        let choice = |of: &'static [&'static str]| prop::option::of(prop::sample::select(of));
        let order = prop_oneof![Just(Order::Newest), Just(Order::Oldest), Just(Order::Name)];
        let texts = (
            choice(&["GATE", "yard", "gone"]),
            choice(&["car", "Person"]),
            choice(&["bay 1", "BAY 2"]),
            choice(&["yard", "dock", "a", "y*", "*/1*", "[ad]*/?.jpg"]),
            prop::option::weighted(0.3, Just("hh ab")),
            prop::option::weighted(0.2, Just("e1")),
        );
        let rest = (
            prop::option::of((-1..8_i64, 1..5_i64)),
            prop::option::weighted(0.2, any::<bool>()),
            prop::option::weighted(0.3, 0..3_i64),
            prop::option::weighted(0.2, prop::sample::select(&["A-17", "A-18"])),
            prop::bool::weighted(0.2),
            order,
            1..12_usize,
        );
        (texts, rest).prop_map(|((camera, class, zone, pattern, text, event), rest)| {
            let (span, protected, track, label, is_video, order, limit) = rest;
            let own = |text: Option<&str>| text.map(str::to_owned);
            Query {
                camera: own(camera),
                class: own(class),
                zone: own(zone),
                event: own(event),
                pattern: own(pattern),
                text: own(text),
                since: span.map(|(from, _)| at(from)),
                until: span.map(|(from, seconds)| at(from + seconds)),
                retention: protected
                    .map(|is_on| [Retention::Normal, Retention::Protected][usize::from(is_on)]),
                track,
                labels: label
                    .map(|label| ("order".to_owned(), label.to_owned()))
                    .into_iter()
                    .collect(),
                content_type: is_video.then(|| "video/".to_owned()),
                order,
                limit: Some(limit),
                ..Query::default()
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn index_finds_what_a_scan_finds(
            steps in prop::collection::vec(step(), 1..120),
            queries in prop::collection::vec((asked(), 0..40_usize), 1..12),
        ) {
            let (folder, store) = (tempfile::tempdir().unwrap(), Tested::default());
            let mut durable = open(&folder, &store);
            for step in &steps {
                run(step, &folder, &store, &mut durable);
            }
            for (asked, like) in &queries {
                let expected = scanned(&durable, asked, None);
                let count = expected.len() as u64;
                prop_assert_eq!(pages(&durable, asked, None), (expected, count));
                let alike = Query { order: Order::Newest, ..asked.clone() };
                let near = QueryVector { digest: "d".to_owned(), vector: vec![127.0, 31.0] };
                let expected = scanned(&durable, &alike, Some(&near));
                let count = expected.len() as u64;
                prop_assert_eq!(pages(&durable, &alike, Some(&near)), (expected, count));
                let own = durable.entry(&name(*like), at(30)).unwrap();
                let own = own.and_then(|entry| QueryVector::of_entry(&entry, &durable).ok());
                let alike = Query { like: Some(name(*like)), ..alike };
                let Some(own) = own else {
                    prop_assert!(query(&durable, &alike, None, at(30)).is_err());
                    continue;
                };
                let expected = scanned(&durable, &alike, Some(&own));
                let count = expected.len() as u64;
                prop_assert_eq!(pages(&durable, &alike, None), (expected, count));
            }
        }
    }
}
