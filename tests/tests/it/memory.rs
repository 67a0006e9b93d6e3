//! Memory of a runtime that watches for an hour.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, soak, wait_up_to};
use watchkeeper_tests::scene::{LONG, TRACKED, deploy_on};

/// Time until caches are full, and time of measuring.
const WARM_UP: Duration = Duration::from_secs(15 * 60);
const MEASURED: Duration = Duration::from_secs(45 * 60);
const INTERVAL: Duration = Duration::from_secs(20);
/// Largest accepted growth.
const MAX_KIB_PER_MINUTE: f64 = 100.0;

/// The street, for longer than the test.
const TWO_HOURS: &str = "demo:?seconds=7200&width=320&height=180";

/// Resident memory of a process in KiB.
fn resident_kib(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("a line VmRSS")?.parse()?)
}

/// Slope of the line that fits the points best.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let joint: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let square: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    joint / square
}

/// Deploys a pipeline of its own on its own camera, with a rule that makes events all day.
fn deploy(bench: &Bench, number: u32) -> anyhow::Result<()> {
    let rule = json!({"name": "somebody", "when": {"kind": "appears", "detections": TRACKED}});
    deploy_rules(bench, number, &[rule])
}

fn deploy_rules(bench: &Bench, number: u32, rules: &[Value]) -> anyhow::Result<()> {
    let (id, camera) = (format!("watch{number}"), format!("cam{number}"));
    deploy_on(bench, &id, &camera, TWO_HOURS, rules)
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "the figures of a long run are worth reading"
)]
fn memory_of_three_pipelines_stays_level_for_an_hour() -> anyhow::Result<()> {
    if !soak("an hour of three pipelines") {
        return Ok(());
    }
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    for number in 0..3 {
        deploy(&bench, number)?;
    }
    let began = Instant::now();
    let mut points = Vec::new();
    while began.elapsed() < WARM_UP + MEASURED {
        std::thread::sleep(INTERVAL);
        if began.elapsed() > WARM_UP {
            let minutes = began.elapsed().as_secs_f64() / 60.0;
            points.push((minutes, resident_kib(runtime.id())?));
        }
    }
    let health: Value = bench.get("/v1/health")?;
    let growth = slope(&points);
    let (first, last) = (points.first(), points.last());
    eprintln!("{growth:.1} KiB a minute; minute and KiB: {first:?} to {last:?}");
    ensure!(
        growth < MAX_KIB_PER_MINUTE,
        "{growth} KiB a minute: {points:?}"
    );
    ensure!(
        health["last_seq"].as_u64() > Some(100),
        "too few events: {health}"
    );
    Ok(())
}

#[test]
fn memory_of_deleted_pipelines_is_returned() -> anyhow::Result<()> {
    const PIPELINES: u32 = 12;
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    let before = resident_kib(runtime.id())?;
    for number in 0..PIPELINES {
        deploy_rules(&bench, number, &[])?;
    }
    for number in 0..PIPELINES {
        wait_up_to(LONG, "frames", || {
            let status = bench.get(&format!("/v1/pipelines/watch{number}")).ok()?;
            (status["results"]["frames"].as_u64() > Some(20)).then_some(())
        })?;
    }
    let grown = resident_kib(runtime.id())? - before;
    for number in 0..PIPELINES {
        bench.json("DELETE", &format!("/v1/pipelines/watch{number}"), None)?;
        bench.json("DELETE", &format!("/v1/sources/cam{number}"), None)?;
    }
    let kept = resident_kib(runtime.id())? - before;
    ensure!(kept < grown / 2.0, "{kept} of {grown} KiB are still there");
    Ok(())
}
