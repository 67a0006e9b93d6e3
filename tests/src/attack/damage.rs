//! Flips one bit in the files of a stopped box and starts it again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use watchkeeper_contract::event::{ChainGap, GapCause};

use super::Report;
use super::arena::{ALL, Arena};
use crate::agent_api::Api;
use crate::broker::Subscriber;
use crate::daemons::{Bench, wait_up_to};
use crate::person::command;
use crate::scene::{LONG, arrived, deploy_fast, more_events, seqs};

/// Events of the box before the damage, at least.
const EVENTS: usize = 60;
/// Longest wait for the outbox to be delivered after a start.
const DELIVERY: Duration = Duration::from_secs(30);

/// One flip: what is damaged, and what there was before.
struct Flip<'a> {
    name: String,
    what: String,
    /// Events of the sound journal.
    before: &'a [Value],
    /// Numbers of those that the subscriber had.
    arrived: &'a BTreeSet<u64>,
}

/// Flips `flips` bits, each in a copy of the same state: in turns in the journal's files and in the
/// agent's. Every event has to be readable or named as lost, and at the broker or named as lost.
///
/// # Errors
/// If a process can't be started, or the files can't be read.
pub fn damage(flips: u64, random: &mut fastrand::Rng) -> anyhow::Result<Report> {
    let mut report = Report::new("damaged files");
    let mut arena = Arena::start("")?;
    let before = fill(&mut arena)?;
    let arrived = arrived(&arena.subscriber);
    let state = arena.bench.path("state");
    let sound = arena.bench.path("sound");
    fs::rename(&state, &sound)?;
    let mut told = 0;
    for n in 0..flips {
        if state.exists() {
            fs::remove_dir_all(&state)?;
        }
        copy_folder(&sound, &state)?;
        let part = if n % 2 == 0 { "journal" } else { "agent" };
        let file = flip_a_bit(&state.join(part), random)?;
        let flip = Flip {
            name: format!("flip-{n}"),
            what: format!("flip {n} in {}", file.display()),
            before: &before,
            arrived: &arrived,
        };
        let looked = flip.look(&mut arena, &mut report);
        told += u64::from(looked.with_context(|| flip.what.clone())?);
        arena.forget_runtime();
        arena.kill_agent()?;
    }
    report.attempted("flipped bits", flips);
    report.attempted("of them with a reported loss", told);
    report.attempted("events in each copy", before.len() as u64);
    arena.finish(&mut report)?;
    Ok(report)
}

/// Journals some events. The first half is at the subscriber, the second in the agent's outbox,
/// because the broker is down.
fn fill(arena: &mut Arena) -> anyhow::Result<Vec<Value>> {
    fill_half(&arena.bench)?;
    wait_up_to(LONG, "the first half at the broker", || {
        let wanted = seqs(&arena.bench.events().ok()?);
        let there = arrived(&arena.subscriber);
        wanted.iter().all(|seq| there.contains(seq)).then_some(())
    })?;
    arena.broker.down()?;
    fill_half(&arena.bench)?;
    let events = arena.bench.events()?;
    let last = events.last().map(seq);
    let api = Api::on(&arena.bench);
    wait_up_to(LONG, "the agent to read the journal", || {
        let health = api.json("GET", "/v1/health", None).ok()?;
        (health["outbox"]["cursor"].as_u64() >= last).then_some(())
    })?;
    arena.kill_agent()?;
    arena.kill_runtime()?;
    Ok(events)
}

fn fill_half(bench: &Bench) -> anyhow::Result<()> {
    deploy_fast(bench)?;
    more_events(bench, EVENTS / 2)?;
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    Ok(())
}

impl Flip<'_> {
    /// Starts the damaged box and looks for each earlier event; returns whether a loss is reported.
    /// Damage that is found once the runtime runs ends it, and its unit starts it again.
    fn look(&self, arena: &mut Arena, report: &mut Report) -> anyhow::Result<bool> {
        arena.broker.up()?;
        let subscriber = arena.broker.subscribe_as(&self.name, ALL)?;
        arena.start_agent()?;
        let before = report.clone();
        let mut told = self.look_once(arena, &subscriber, report);
        if let Err(error) = &told {
            let ended = arena.wait_for_end_of_runtime();
            ended.with_context(|| format!("{error:#}"))?;
        }
        if !arena.is_runtime_running() {
            *report = before;
            told = self.look_once(arena, &subscriber, report);
        }
        arena.broker.down()?;
        told
    }

    fn look_once(
        &self,
        arena: &mut Arena,
        subscriber: &Subscriber,
        report: &mut Report,
    ) -> anyhow::Result<bool> {
        arena.start_runtime()?;
        // A report on coverage waits for the recorder, which verifies the journal first.
        arena.bench.get("/v1/coverage")?;
        let gaps = check_chain(&arena.bench, report)?;
        let after = arena.bench.events()?;
        let changed = self.before.iter().filter(|event| {
            let seq = seq(event);
            !gaps.contains(&seq) && !after.contains(event)
        });
        let changed: Vec<u64> = changed.map(seq).collect();
        report.silent(changed.len(), || {
            format!(
                "{}: changed or missing in the journal: {changed:?}",
                self.what
            )
        });
        let missing = || -> BTreeSet<u64> {
            let there = arrived(subscriber);
            let known = |seq: &u64| self.arrived.contains(seq) || there.contains(seq);
            let wanted = self.before.iter().map(seq);
            wanted
                .filter(|seq| !known(seq) && !gaps.contains(seq))
                .collect()
        };
        let explained = || {
            let losses = subscriber.bodies("/ev/loss");
            is_explained(&missing(), &losses).then_some(!losses.is_empty())
        };
        let told = wait_up_to(DELIVERY, "the rest at the broker", explained);
        if told.is_err() {
            let missing = missing();
            report.silent(missing.len(), || {
                format!("{}: not published and not told: {missing:?}", self.what)
            });
        }
        Ok(told.unwrap_or(false) || !gaps.is_empty())
    }
}

fn seq(event: &Value) -> u64 {
    event.get("seq").and_then(Value::as_u64).unwrap_or(0)
}

/// Whether loss records name all of `missing`, or are about damaged files and count as many.
fn is_explained(missing: &BTreeSet<u64>, losses: &[Value]) -> bool {
    let from_store = losses.iter().filter(|loss| loss["from"] == "store");
    let counted: u64 = from_store.filter_map(|loss| loss["count"].as_u64()).sum();
    let ranges = losses.iter().filter_map(|loss| loss["seqs"].as_array());
    let ranges: Vec<(u64, u64)> = ranges
        .flatten()
        .filter_map(|range| Some((range.get(0)?.as_u64()?, range.get(1)?.as_u64()?)))
        .collect();
    let unnamed = missing.iter().filter(|seq| {
        let mut named = ranges.iter();
        !named.any(|(first, last)| first <= *seq && *seq <= last)
    });
    unnamed.count() as u64 <= counted
}

/// Verifies the hash chain with the command; returns the missing numbers that it explains. Counts
/// those that nothing explains.
pub(super) fn check_chain(bench: &Bench, report: &mut Report) -> anyhow::Result<BTreeSet<u64>> {
    let verify = command(bench)?
        .args(["events", "verify", "--json"])
        .output()?;
    let text = String::from_utf8_lossy(&verify.stdout);
    let said: Value = serde_json::from_str(text.trim())
        .with_context(|| String::from_utf8_lossy(&verify.stderr).into_owned())?;
    let mut explained = BTreeSet::new();
    for gap in said["gaps"].as_array().into_iter().flatten() {
        let gap: ChainGap = serde_json::from_value(gap.clone())?;
        let numbers = gap.first.0..=gap.last.0;
        if gap.cause == GapCause::Unexplained {
            report.silent(numbers.count(), || format!("unexplained gap: {gap:?}"));
        } else {
            explained.extend(numbers);
        }
    }
    let is_broken = said["sound"] != true;
    report.silent(usize::from(is_broken), || {
        format!("the chain is broken: {text}")
    });
    Ok(explained)
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Flips one bit in a file below `folder`; larger files are hit more often, and of two flips one
/// hits a byte in use. Returns the file.
fn flip_a_bit(folder: &Path, random: &mut fastrand::Rng) -> anyhow::Result<PathBuf> {
    let mut files = Vec::new();
    list_files(folder, &mut files)?;
    files.sort();
    let sizes = files.iter().map(|file| Ok(fs::metadata(file)?.len()));
    let sizes: Vec<u64> = sizes.collect::<std::io::Result<_>>()?;
    let mut at = random.u64(..sizes.iter().sum::<u64>().max(1));
    for (file, size) in files.iter().zip(sizes) {
        if at >= size {
            at -= size;
            continue;
        }
        let mut bytes = fs::read(file)?;
        let in_use: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        let at = match in_use.is_empty() || random.bool() {
            true => usize::try_from(at)?,
            false => in_use[random.usize(..in_use.len())],
        };
        bytes[at] ^= 1 << random.u8(..8);
        fs::write(file, bytes)?;
        return Ok(file.clone());
    }
    anyhow::bail!("{} has no bytes", folder.display())
}

fn list_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list_files(&entry.path(), files)?;
        } else if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}
