//! A start before the journal is verified: how long it takes, and what damage does.

use std::ops::Bound;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use watchkeeper_store::chain::{Hash, link};
use watchkeeper_store::{Batch, DiskStore, Entry, Keyspace, Options, Store as _, log_key, log_seq};
use watchkeeper_tests::daemons::{Bench, FAILED, Process, soak, wait_up_to};
use watchkeeper_tests::scene::{LONG, deploy, more_events};

const EVENTS: Keyspace = Keyspace::new("events");
const META: Keyspace = Keyspace::new("journal");
/// Bytes of a stored event before its hash: format and severity.
const BEFORE_HASH: usize = 3;
/// Bytes of a stored event before its text.
const BEFORE_TEXT: usize = BEFORE_HASH + 32;
/// The default limit of the journal.
const RECORDS: u64 = 200_000;
/// Starts of each state of the journal.
const TURNS: usize = 3;

/// The text of a stored event.
fn text(entry: &Entry) -> Option<&str> {
    std::str::from_utf8(entry.value.get(BEFORE_TEXT..)?).ok()
}

/// Repeats the last event of the journal until it has `records` records.
fn fill(bench: &Bench, records: u64) -> anyhow::Result<()> {
    let folder = bench.path("state/journal");
    let (store, _) = DiskStore::open(&folder, &Options::default())?;
    let page = store.scan(EVENTS, Bound::Unbounded, usize::MAX)?;
    let last = page.entries.last().context("the journal has no event")?;
    let mut seq = log_seq(&last.key).context("its key is no number")?;
    let (prefix, event) = (
        &last.value[..BEFORE_HASH],
        text(last).context("it has no text")?,
    );
    let old = format!("\"seq\":{seq}");
    let mut hash = Hash::from_bytes(&last.value[BEFORE_HASH..BEFORE_TEXT]).context("no hash")?;
    let head = store
        .get(META, b"head")?
        .context("the journal has no head")?;
    let mut head: Value = serde_json::from_slice(&head)?;
    while seq < records {
        let mut batch = Batch::new();
        for _ in 0..100 {
            seq += 1;
            let event = event.replace(&old, &format!("\"seq\":{seq}"));
            hash = link(&hash, &event);
            let record = [prefix, &hash.0[..], event.as_bytes()].concat();
            batch = batch.put(EVENTS, &log_key(seq), &record);
        }
        head["last"] = seq.into();
        head["records"] = seq.into();
        head["hash"] = hash.to_string().into();
        let head = serde_json::to_vec(&head)?;
        store.write(batch.put(META, b"head", &head).mark(&head))?;
    }
    Ok(store.sync()?)
}

/// Starts the runtime, and returns the time to the first frame of its pipeline.
fn first_frame(bench: &Bench) -> anyhow::Result<(Process, Duration)> {
    let began = Instant::now();
    let runtime = bench.runtime()?;
    wait_up_to(LONG, "a frame", || {
        let pipelines = bench.get("/v1/pipelines").ok()?;
        let frames = pipelines.pointer("/0/results/frames")?.as_u64()?;
        (frames > 0).then_some(())
    })?;
    Ok((runtime, began.elapsed()))
}

/// Waits until the runtime has stored another event, and so has verified its journal.
fn wait_until_stored(bench: &Bench) -> anyhow::Result<()> {
    let last = || bench.get("/v1/health").ok()?["last_seq"].as_u64();
    let before = last();
    wait_up_to(LONG, "an event", || (last() > before).then_some(()))
}

/// Median time to the first frame after a stop, and after a kill.
fn median_starts(bench: &Bench) -> anyhow::Result<[Duration; 2]> {
    let (mut stopped, mut killed) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let (runtime, time) = first_frame(bench)?;
        stopped.push(time);
        wait_until_stored(bench)?;
        runtime.kill()?;
        let (runtime, time) = first_frame(bench)?;
        killed.push(time);
        wait_until_stored(bench)?;
        runtime.stop()?;
    }
    Ok([stopped, killed].map(|mut times| {
        times.sort_unstable();
        times[TURNS / 2]
    }))
}

#[test]
#[expect(clippy::print_stderr, reason = "the figures are the result")]
fn start_with_a_full_journal_is_compared_with_a_short_one() -> anyhow::Result<()> {
    if !soak("starts with a full journal") {
        return Ok(());
    }
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    deploy(&bench)?;
    more_events(&bench, 3)?;
    runtime.stop()?;
    let short = median_starts(&bench)?;
    fill(&bench, RECORDS)?;
    let full = median_starts(&bench)?;
    for (end, short, full) in [("stop", short[0], full[0]), ("kill", short[1], full[1])] {
        eprintln!(
            "first frame after a {end}: {short:.2?} with a short journal, {full:.2?} with \
             {RECORDS} records, ratio {:.2}",
            full.as_secs_f64() / short.as_secs_f64()
        );
    }
    Ok(())
}

#[test]
fn damage_found_while_cameras_run_is_reported_by_the_next_start() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    deploy(&bench)?;
    let events = more_events(&bench, 6)?;
    runtime.stop()?;
    let file = bench.path("state/journal/data/records.redb");
    let mut bytes = std::fs::read(&file)?;
    let first = events.first().context("no event")?;
    let id = first["id"].as_str().context("no id")?.as_bytes();
    let found = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(id));
    let found: Vec<usize> = found.collect();
    ensure!(!found.is_empty(), "the first event is not in the file");
    for at in found {
        bytes[at] ^= 1;
    }
    std::fs::write(&file, bytes)?;

    let (code, log) = bench.spawn_runtime()?.wait_for_exit(LONG)?;
    ensure!(code == Some(FAILED), "{code:?}: {log}");
    ensure!(log.contains("the store was repaired"), "{log}");
    let runtime = bench.runtime()?;
    let is_loss = |event: &Value| event["body"]["kind"] == "loss";
    let after = wait_up_to(LONG, "a loss record", || {
        let events = bench.events().ok()?;
        events.iter().any(is_loss).then_some(events)
    })?;
    let kept = events.last().context("no event")?;
    ensure!(after.contains(kept), "{after:#?}");
    more_events(&bench, 2)?;
    runtime.stop()
}
