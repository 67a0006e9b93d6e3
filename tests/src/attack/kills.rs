//! Kills runtime, agent and broker at random moments, also during a start.

use std::collections::BTreeSet;
use std::time::Duration;

use super::arena::Arena;
use super::{Report, damage};
use crate::daemons::{Process, wait_for};
use crate::scene::{arrived, deploy_fast, seqs, wait_for_all_events};

/// Longest time at work before the next kill, and longest time in which a victim is down.
const WORK_MS: u64 = 2_000;
const DOWN_MS: u64 = 500;
/// Longest time of a start that is interrupted.
const START_MS: u64 = 300;

/// Runs `cycles` of work, kills and restarts. Then each journaled event has to be at the
/// subscriber, and the other way round.
///
/// # Errors
/// If a daemon does not come up again, or the broker can't be restarted.
pub fn kills(cycles: u64, random: &mut fastrand::Rng) -> anyhow::Result<Report> {
    let mut report = Report::new("kills");
    let mut arena = Arena::start("")?;
    deploy_fast(&arena.bench)?;
    wait_for("the first event at the broker", || {
        (!arrived(&arena.subscriber).is_empty()).then_some(())
    })?;
    let mut done = Ends::default();
    for _ in 0..cycles {
        pause(random, WORK_MS);
        cycle(&mut arena, random, &mut done)?;
    }
    report.attempted("cycles", cycles);
    report.attempted("kills of a daemon", done.kills);
    report.attempted("of them during its start", done.in_start);
    report.attempted("restarts of the broker", done.broker);
    settle(&arena, &mut report)?;
    arena.finish(&mut report)?;
    Ok(report)
}

/// Numbers of ended processes.
#[derive(Debug, Default)]
struct Ends {
    kills: u64,
    /// Kills of a daemon that was starting.
    in_start: u64,
    broker: u64,
}

/// Ends one to three of runtime, agent and broker, and starts them again.
fn cycle(arena: &mut Arena, random: &mut fastrand::Rng, done: &mut Ends) -> anyhow::Result<()> {
    let victims = random.u8(1..8);
    let [runtime, agent, broker] = [1, 2, 4].map(|bit| victims & bit > 0);
    if broker {
        // By SIGTERM: killed, it forgets messages of the last second that it has acknowledged.
        arena.broker.down()?;
        done.broker += 1;
    }
    if runtime {
        arena.kill_runtime()?;
        done.kills += 1;
    }
    if agent {
        arena.kill_agent()?;
        done.kills += 1;
    }
    pause(random, DOWN_MS);
    if runtime {
        if random.u8(..4) == 0 {
            kill_in_start(arena.bench.spawn_runtime()?, random, done)?;
        }
        arena.start_runtime()?;
    }
    if agent {
        if random.u8(..4) == 0 {
            kill_in_start(arena.bench.agent()?, random, done)?;
        }
        arena.start_agent()?;
    }
    if broker {
        arena.broker.up()?;
    }
    Ok(())
}

fn kill_in_start(
    starting: Process,
    random: &mut fastrand::Rng,
    done: &mut Ends,
) -> anyhow::Result<()> {
    pause(random, START_MS);
    done.kills += 1;
    done.in_start += 1;
    starting.kill()
}

/// Stops the pipeline, waits for the last event and compares journal and subscriber.
fn settle(arena: &Arena, report: &mut Report) -> anyhow::Result<()> {
    if let Err(missing) = wait_for_all_events(&arena.bench, &arena.subscriber) {
        report.violations.push(missing.to_string());
    }
    let journaled: BTreeSet<u64> = seqs(&arena.bench.events()?).into_iter().collect();
    let arrived = arrived(&arena.subscriber);
    report.attempted("events journaled", journaled.len() as u64);
    report.attempted("events received", arrived.len() as u64);
    let missing = journaled.difference(&arrived).count();
    report.silent(missing, || {
        format!("{missing} journaled events did not arrive")
    });
    let extra: Vec<u64> = arrived.difference(&journaled).copied().collect();
    report.silent(extra.len(), || {
        format!("published and not in the journal: {extra:?}")
    });
    damage::check_chain(&arena.bench, report).map(drop)
}

fn pause(random: &mut fastrand::Rng, at_most_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.u64(..at_most_ms)));
}
