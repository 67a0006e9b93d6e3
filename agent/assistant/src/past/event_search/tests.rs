//! Events that a search finds, and where it stops.

use super::*;

fn event(seq: u64, source: &str, label: &str, phase: &str) -> JournalRecord {
    let quality = "synced";
    let event = serde_json::from_value(json!({
        "schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": seq, "boot_id": "b", "mono_ms": 0,
        "at": {"unix_ms": seq * 1000, "quality": quality}, "phase": phase, "source": source, "severity": "info",
        "body": {"kind": "rule", "rule": "door", "condition": "crosses", "reason": "r", "label": label,
            "tracks": [4], "frame": 120, "pts_s": 4.04},
        "decision": {"verdict": "record", "confidence": 0.8, "reason": "r"}, "evidence": [], "hash": "",
    }));
    JournalRecord::Known(Box::new(event.unwrap()))
}

fn wanted() -> EventsWanted {
    EventsWanted::default()
}

/// A journal with an event per second: cars at the gate, every third a person at the dock.
/// Records up to `gone` were deleted.
fn search(wanted: EventsWanted, last: u64, gone: u64) -> (EventSearchResult, usize) {
    let mut search = EventSearch::new(wanted, EventSeq(gone + 1), EventSeq(last));
    let mut pages = 0;
    while let Some((after, limit)) = search.next() {
        pages += 1;
        assert!(after.0 >= gone);
        let page = (after.0 + 1..=last)
            .take(limit as usize)
            .map(|seq| match seq % 3 {
                0 => event(seq, "dock", "person", "new"),
                1 => event(seq, "gate", "car", "new"),
                _ => event(seq, "gate", "car", "end"),
            });
        search.take(page.collect());
    }
    (search.done(), pages)
}

#[test]
fn search_returns_newest_and_counts_all_once() {
    let (all, pages) = search(wanted(), 1200, 0);
    assert_eq!((all.number, pages, all.cut), (800, 3, false));
    let cameras: Vec<u64> = all.by_camera.values().copied().collect();
    assert_eq!(cameras, [400, 400], "all, not only the listed ones");
    assert_eq!(all.events.len(), MAX_SHOWN);
    assert_eq!(all.events.last().unwrap().seq, EventSeq(1200));
    assert_eq!(all.number_sentence(), "800 events.");
    assert_eq!(all.list_sentence().unwrap(), "The latest 50:");
}

#[test]
fn answer_of_a_person_decides_how_an_event_counts() {
    let answered = |seq, answer: &str| {
        let JournalRecord::Known(mut record) = event(seq, "gate", "person", "assessed") else {
            panic!("it is known");
        };
        let mut given = json!({"by": {"kind": "person", "via": "chat"}, "answer": answer});
        if answer == "correct" {
            given["label"] = json!("truck");
        }
        record.assessment = Some(serde_json::from_value(given).unwrap());
        JournalRecord::Known(record)
    };
    let of = |labels: &[&str], answers: &[&str]| {
        let wanted = EventsWanted {
            labels: labels.iter().map(|l| (*l).to_owned()).collect(),
            ..wanted()
        };
        let last = EventSeq(1 + answers.len() as u64);
        let mut search = EventSearch::new(wanted, EventSeq(1), last);
        let mut page = vec![event(1, "gate", "person", "new")];
        page.extend(
            (2..)
                .zip(answers)
                .map(|(seq, answer)| answered(seq, answer)),
        );
        search.take(page);
        let found = search.done();
        let shown = found
            .events
            .first()
            .and_then(|event| event.assessment.as_ref());
        let last = answers.last().filter(|_| found.number > 0);
        assert_eq!(
            shown.map(|given| json!(given.answer)),
            last.map(|l| json!(l))
        );
        found.number_sentence()
    };
    let found = |answers: &[&str]| of(&[], answers);
    assert_eq!(found(&["approve"]), "1 event.");
    let rejected = "No event was recorded. Not counted: 1 event that a person rejected.";
    assert_eq!(found(&["reject"]), rejected);
    assert_eq!(found(&["reject", "approve"]), "1 event.");
    let corrected = "1 event. Counted by the corrected class: 1 event.";
    assert_eq!(found(&["approve", "correct"]), corrected);
    assert_eq!(of(&["truck"], &["correct"]), corrected);
    assert_eq!(of(&["person"], &["correct"]), "No event was recorded.");
    assert_eq!(of(&["person"], &["correct", "reject"]), rejected);
}

#[test]
fn search_returns_the_requested_number() {
    let latest = |most| {
        let wanted = EventsWanted {
            most: Some(most),
            ..wanted()
        };
        search(wanted, 1200, 0).0
    };
    let three = latest(3);
    let seqs: Vec<u64> = three.events.iter().map(|e| e.seq.0).collect();
    assert_eq!(seqs, [1197, 1198, 1200]);
    assert_eq!(three.list_sentence().unwrap(), "The latest 3:");
    assert_eq!(latest(1).list_sentence().unwrap(), "The latest:");
    assert_eq!(latest(999).events.len(), MAX_SHOWN);
}

#[test]
fn newest_events_are_found_behind_a_page_of_other_records() {
    let newest = |first_event: u64| {
        let mut search = EventSearch::of_latest(3, EventSeq(1), EventSeq(10_000));
        while let Some((after, limit)) = search.next() {
            let page = (after.0 + 1..).take(limit as usize).map(|seq| {
                let phase = if seq > first_event { "end" } else { "new" };
                event(seq, "gate", "car", phase)
            });
            search.take(page.collect());
        }
        let pages = search.pages;
        let found = search.done();
        (pages, found.events.len(), found.is_complete())
    };
    assert_eq!(newest(10_000), (1, MAX_SHOWN, true));
    assert_eq!(newest(9_400), (2, MAX_SHOWN, true));
    assert_eq!(newest(1_000), (MAX_LATEST_PAGES, 0, false));
}

#[test]
fn record_deleted_during_search_is_not_called_unreadable() {
    let mut search = EventSearch::new(wanted(), EventSeq(1), EventSeq(1_000));
    let page = (501..=1_000).map(|seq| event(seq, "gate", "car", "new"));
    search.take(page.collect());
    // Meanwhile retention deleted the records up to 100.
    let (after, _) = search.next().unwrap();
    assert_eq!(after, EventSeq(0));
    search.raise_floor(EventSeq(101));
    let page = (101..=500).map(|seq| event(seq, "gate", "car", "new"));
    search.take(page.collect());
    assert_eq!(search.next(), None);
    let found = search.done();
    assert_eq!((found.number, found.unreadable, found.cut), (900, 0, false));
    assert!(!found.is_complete());
}

#[test]
fn search_filters_and_ends_before_the_range() {
    let people = EventsWanted {
        camera: Some(SourceId::new("dock").unwrap()),
        labels: vec!["person".to_owned()],
        from: Some(Timestamp::from_second(9_001).unwrap()),
        to: Some(Timestamp::from_second(9_010).unwrap()),
        ..wanted()
    };
    let (found, pages) = search(people, 9_600, 0);
    let seqs: Vec<u64> = found.events.iter().map(|e| e.seq.0).collect();
    // An event of the day before may continue in the range.
    assert_eq!((seqs, pages), (vec![9_003, 9_006, 9_009], 20));
    assert!(!found.cut);
}

#[test]
fn search_filters_by_condition_and_pipeline() {
    let of = |seq: u64, pipeline: &str, condition: &str| {
        let JournalRecord::Known(mut known) = event(seq, "dock", "person", "new") else {
            panic!("an event is known");
        };
        known.pipeline = Some(pipeline.parse().unwrap());
        if let EventBody::Rule(rule) = &mut known.body {
            condition.clone_into(&mut rule.condition);
        }
        JournalRecord::Known(known)
    };
    let number = |wanted: EventsWanted| {
        let mut search = EventSearch::new(wanted, EventSeq(1), EventSeq(4));
        search.take(vec![
            of(1, "a", "crosses"),
            of(2, "a", "stays"),
            of(3, "b", "crosses"),
            of(4, "b", "count"),
        ]);
        search.done().number
    };
    let crossings = EventsWanted {
        conditions: vec!["crosses".to_owned()],
        ..wanted()
    };
    let of_a = vec!["a".parse().unwrap()];
    assert_eq!(number(wanted()), 4);
    assert_eq!(number(crossings.clone()), 2);
    assert_eq!(
        number(EventsWanted {
            pipelines: of_a.clone(),
            ..crossings
        }),
        1
    );
    assert_eq!(
        number(EventsWanted {
            pipelines: of_a,
            ..wanted()
        }),
        2
    );
}

#[test]
fn open_event_counts_only_while_its_pipeline_watches() {
    let began = || {
        let JournalRecord::Known(mut known) = event(1, "hall", "person", "new") else {
            panic!("an event is known");
        };
        known.pipeline = Some("hall".parse().unwrap());
        if let EventBody::Rule(rule) = &mut known.body {
            rule.condition = "appears".to_owned();
        }
        JournalRecord::Known(known)
    };
    let number_of = |conditions: &[&str], ended: Option<u64>, watched: &[(i64, i64)]| {
        let wanted = EventsWanted {
            conditions: conditions.iter().map(ToString::to_string).collect(),
            from: Some(Timestamp::from_second(60).unwrap()),
            to: Some(Timestamp::from_second(120).unwrap()),
            ..wanted()
        };
        let ended: Vec<_> = ended
            .map(|at| event(at, "hall", "person", "end"))
            .into_iter()
            .collect();
        let times = watched.iter().copied().collect();
        let search = EventSearch::new(wanted, EventSeq(1), EventSeq(100));
        let mut search = search.with_watched([("hall".parse().unwrap(), times)].into());
        search.take([vec![began()], ended].concat());
        search.done().number
    };
    let number = |ended, watched: &[(i64, i64)]| number_of(&[], ended, watched);
    assert_eq!(number(None, &[(0, 90_000)]), 1, "seen in the range");
    assert_eq!(number(None, &[(0, 15_000)]), 0, "paused before the range");
    let back = [(0, 15_000), (89_000, 120_000)];
    assert_eq!(number(Some(90), &back), 0, "ended by the next start");
    assert_eq!(number(Some(90), &[(0, 120_000)]), 1);
    let came = number_of(&["appears"], None, &[(0, 120_000)]);
    assert_eq!(came, 0, "it came before the range");
}

#[test]
fn deleted_records_are_not_requested() {
    let (found, pages) = search(wanted(), 1200, 900);
    assert_eq!((found.number, pages), (200, 1));
}

#[test]
fn record_that_the_runtime_leaves_out_is_unreadable() {
    for damaged in [1, 2, 600, 601, 1200] {
        let mut search = EventSearch::new(wanted(), EventSeq(1), EventSeq(1200));
        while let Some((after, limit)) = search.next() {
            let whole = after.0 + 1..=after.0 + u64::from(limit);
            let left = whole.filter(|seq| *seq != damaged);
            search.take(left.map(|seq| event(seq, "gate", "car", "end")).collect());
        }
        let found = search.done();
        assert_eq!((found.number, found.unreadable), (0, 1), "{damaged}");
        let sentence = found.number_sentence();
        assert!(sentence.contains("1 record of the journal"), "{sentence}");
    }
}

#[test]
fn long_journal_is_searched_up_to_the_page_limit() {
    let (found, pages) = search(
        EventsWanted {
            only_number: true,
            ..wanted()
        },
        100_000,
        0,
    );
    assert_eq!(pages, MAX_PAGES);
    assert!(found.cut && found.number_sentence().contains("latest 20000 records"));
    assert!(found.events.is_empty());
}

#[test]
fn empty_journal_needs_no_page() {
    let (found, pages) = search(wanted(), 0, 0);
    assert_eq!(
        (pages, found.number_sentence().as_str()),
        (0, "No event was recorded.")
    );
}

#[test]
fn object_that_appeared_during_a_cooldown_is_found_when_it_came() {
    let JournalRecord::Known(mut late) = event(60, "gate", "person", "new") else {
        panic!("it is known");
    };
    let EventBody::Rule(rule) = &mut late.body else {
        panic!("it is of a rule");
    };
    (rule.condition, rule.dwell_s) = ("appears".to_owned(), Some(26.0));
    rule.held_back = 3;
    let came = Timestamp::from_second(34).unwrap();
    let found = |from: i64, to: i64| {
        let wanted = EventsWanted {
            from: Timestamp::from_second(from).ok(),
            to: Timestamp::from_second(to).ok(),
            ..wanted()
        };
        let mut search = EventSearch::new(wanted, EventSeq(60), EventSeq(60));
        search.take(vec![JournalRecord::Known(late.clone())]);
        search.done()
    };
    assert_eq!(found(30, 50).moments, [came]);
    let sentence = found(30, 50).left_out_sentence().unwrap_or_default();
    assert!(sentence.starts_with("3 more, of any class"), "{sentence}");
    assert!(found(0, 30).moments.is_empty());
}
