use proptest::prelude::*;

use super::*;

const DAY: i64 = 86_400;

fn limits() -> AuditConfig {
    AuditConfig {
        max_days: 16,
        max_bytes: 1 << 20,
    }
}

fn here() -> (tempfile::TempDir, AuditLog) {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::of_decisions(&dir.path().join("state"), limits());
    (dir, log)
}

fn day(n: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + n * DAY).unwrap()
}

fn append(log: &AuditLog, now: Timestamp, what: &str) -> io::Result<()> {
    let entry = json!({"at": now.to_string(), "what": what, "of": {"text": "yes"}});
    log.append(now, TimeQuality::Synced, entry.as_object().unwrap().clone())
}

fn append_entry(log: &AuditLog, entry: &Value) {
    let entry = entry.as_object().unwrap().clone();
    log.append(day(0), TimeQuality::Synced, entry).unwrap();
}

fn segments(log: &AuditLog) -> Vec<PathBuf> {
    let segments = segment::list(log.folder()).unwrap();
    segments.into_iter().map(|segment| segment.path).collect()
}

#[test]
fn records_are_numbered_chained_and_verified() {
    let (_dir, log) = here();
    assert_eq!(verify(&log).unwrap(), AuditReport::default());
    for _ in 0..5 {
        append(&log, day(0), "confirmed").unwrap();
    }
    let report = verify(&log).unwrap();
    assert_eq!((report.first, report.last), (Some(1), Some(5)));
    assert_eq!((report.verified, report.damage), (5, None));
    let latest = log.latest(2).unwrap();
    assert_eq!(latest[0]["seq"], 4);
    assert_eq!(latest[1]["of"]["text"], "yes");
}

#[test]
fn unfinished_line_is_removed_and_the_chain_continues() {
    let (_dir, log) = here();
    append(&log, day(0), "confirmed").unwrap();
    let path = segments(&log)[0].clone();
    let whole = fs::read(&path).unwrap();
    // A process killed at any byte of the next record.
    for cut in [1, 20, whole.len() - 1] {
        let torn = [&whole[..], &whole[..cut]].concat();
        fs::write(&path, torn).unwrap();
        assert_eq!(verify(&log).unwrap().damage, None);
        append(&log, day(0), "spent").unwrap();
        let report = verify(&log).unwrap();
        assert_eq!((report.last, report.damage), (Some(2), None));
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn retention_by_days_leaves_a_verifiable_start() {
    let (_dir, log) = here();
    for n in 0..40 {
        append(&log, day(n), "confirmed").unwrap();
    }
    let report = verify(&log).unwrap();
    assert_eq!(report.damage, None);
    assert!(report.first > Some(1), "{report:?}");
    let oldest = &log.latest(usize::MAX).unwrap()[0];
    let at: Timestamp = oldest["at"].as_str().unwrap().parse().unwrap();
    assert!(at >= day(40 - 16 - 3), "{at}");
    // The start is proven: the first segment that is left can't be taken away unnoticed.
    fs::remove_file(&segments(&log)[0]).unwrap();
    let damage = verify(&log).unwrap().damage.unwrap();
    assert!(
        damage.why.contains("no retention record explains"),
        "{damage:?}"
    );
}

#[test]
fn clock_that_is_not_synchronised_deletes_nothing_by_age() {
    let (_dir, log) = here();
    for n in 0..5 {
        append(&log, day(n), "confirmed").unwrap();
    }
    for quality in [TimeQuality::Estimated, TimeQuality::Unsynced] {
        log.append(day(4_000), quality, Map::new()).unwrap();
    }
    assert_eq!(verify(&log).unwrap().first, Some(1));
    append(&log, day(4_000), "confirmed").unwrap();
    assert!(verify(&log).unwrap().first > Some(1));
}

#[test]
fn retention_by_bytes_keeps_the_bound_and_the_chain() {
    let (_dir, log) = here();
    let long = "x".repeat(MAX_RECORD / 8);
    for _ in 0..80 {
        let entry = json!({"at": day(0).to_string(), "what": "confirmed", "of": {"text": long}});
        append_entry(&log, &entry);
    }
    let listed = segment::list(log.folder()).unwrap();
    let bytes: u64 = listed.iter().map(|segment| segment.bytes).sum();
    assert!(
        bytes <= limits().max_bytes + 2 * MAX_RECORD as u64,
        "{bytes}"
    );
    let report = verify(&log).unwrap();
    assert_eq!(report.damage, None);
    assert!(report.first > Some(1));
}

#[test]
fn crash_before_deletion_leaves_a_log_that_verifies() {
    let (dir, log) = here();
    for n in 0..17 {
        append(&log, day(n), "confirmed").unwrap();
    }
    let before: Vec<_> = segments(&log)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    append(&log, day(40), "confirmed").unwrap();
    assert!(verify(&log).unwrap().first > Some(1));
    // Deleted files come back from the last to the first, as if the crash came earlier.
    for (path, text) in before.iter().rev() {
        if !path.exists() {
            fs::write(path, text).unwrap();
            let report = verify(&log).unwrap();
            assert_eq!(report.damage, None, "{}", path.display());
        }
    }
    drop(dir);
}

#[test]
fn entry_beyond_the_bound_is_replaced_by_its_hash() {
    let (_dir, log) = here();
    let entry = json!({"what": "confirmed", "of": {"text": "x".repeat(MAX_RECORD)}});
    append_entry(&log, &entry);
    let latest = log.latest(1).unwrap();
    assert!(latest[0]["of"]["left_out_bytes"].as_u64() > Some(MAX_RECORD as u64));
    assert_eq!(verify(&log).unwrap().damage, None);
}

#[test]
fn damaged_segment_is_reported_and_later_records_are_kept() {
    let (_dir, log) = here();
    append(&log, day(0), "confirmed").unwrap();
    fs::write(&segments(&log)[0], b"no record\n").unwrap();
    append(&log, day(0), "spent").unwrap();
    assert_eq!(log.latest(9).unwrap().len(), 1);
    let damage = verify(&log).unwrap().damage.unwrap();
    assert_eq!(damage.line, 1);
}

#[test]
fn damaged_oldest_segment_is_deleted_and_its_gap_unproven() {
    let throughout = |_: &str| String::new();
    let at_its_end = |text: &str| text.lines().next().unwrap().to_owned() + "\n";
    for sound in [&throughout as &dyn Fn(&str) -> String, &at_its_end] {
        let (_dir, log) = here();
        for n in 0..17 {
            append(&log, day(n), "confirmed").unwrap();
        }
        let oldest = segments(&log)[0].clone();
        let text = fs::read_to_string(&oldest).unwrap();
        fs::write(&oldest, sound(&text) + "no record\n").unwrap();
        let now = day(18) + SignedDuration::from_hours(1);
        append(&log, now, "confirmed").unwrap();
        assert!(!oldest.exists());
        let report = verify(&log).unwrap();
        assert_eq!(report.first, Some(3));
        let damage = report.damage.unwrap();
        assert!(damage.why.contains("not proven"), "{damage:?}");
        // A whole segment after it, once deleted, proves the next start.
        append(&log, now + SignedDuration::from_hours(48), "confirmed").unwrap();
        assert_eq!(verify(&log).unwrap().damage, None);
    }
}

#[test]
fn damaged_segments_are_deleted_by_the_age_of_a_later_one() {
    let (_dir, log) = here();
    for n in 0..17 {
        append(&log, day(n), "confirmed").unwrap();
    }
    let damaged = segments(&log)[..2].to_vec();
    for path in &damaged {
        fs::write(path, "no record\n").unwrap();
    }
    append(&log, day(24), "confirmed").unwrap();
    assert!(damaged.iter().all(|path| !path.exists()));
}

#[test]
fn retention_explains_no_segment_that_was_deleted_by_hand() {
    let (_dir, log) = here();
    for n in 0..17 {
        append(&log, day(n), "confirmed").unwrap();
    }
    let oldest = segments(&log)[0].clone();
    fs::remove_file(&segments(&log)[1]).unwrap();
    append(&log, day(18) + SignedDuration::from_hours(1), "confirmed").unwrap();
    assert!(!oldest.exists());
    let damage = verify(&log).unwrap().damage.unwrap();
    assert!(
        damage.why.contains("no retention record explains"),
        "{damage:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn change_of_any_byte_is_found(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let (_dir, log) = here();
        for _ in 0..4 {
            append(&log, day(0), "confirmed").unwrap();
        }
        let path = segments(&log)[0].clone();
        let whole = fs::read(&path).unwrap();
        // The last line feed is left out: without it, the last record was never acknowledged.
        let at = at.index(whole.len() - 1);
        let mut changed = whole.clone();
        changed[at] = to;
        fs::write(&path, &changed).unwrap();
        prop_assert_eq!(verify(&log).unwrap().damage.is_some(), changed != whole);
    }

    #[test]
    fn removed_record_is_found(removed in 0_usize..4) {
        let (_dir, log) = here();
        for _ in 0..5 {
            append(&log, day(0), "confirmed").unwrap();
        }
        let path = segments(&log)[0].clone();
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().enumerate().filter(|(n, _)| *n != removed);
        let left: String = lines.map(|(_, line)| format!("{line}\n")).collect();
        fs::write(&path, left).unwrap();
        prop_assert!(verify(&log).unwrap().damage.is_some());
    }
}
