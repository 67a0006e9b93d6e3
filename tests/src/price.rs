//! The price of a watch: what its proposal said, and what was metered after the yes.
//!
//! - The box has no other watch. The watch itself runs before and is deleted, so that the proposal
//!   has its events and its history; then it is proposed again.
//! - Processor time is that of the process `watchkeeper-runtime`, so all pieces are in it.
//! - A history of less than an hour predicts no events a day. Here the rate of the backtest is
//!   used.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::daemons::{Bench, Process, wait_for, wait_up_to};
use crate::person::ask_json;
use crate::scene::LONG;

/// Events of the watch that are metered.
const EVENTS: usize = 3;

/// Unit of processor times in `/proc`, on every architecture that this runs on.
const TICKS_A_SECOND: f64 = 100.0;

/// One number of the price.
#[derive(Debug)]
pub struct PriceLine {
    pub what: &'static str,
    pub predicted: f64,
    pub metered: f64,
}

/// A watch that was proposed, confirmed and metered.
#[derive(Debug)]
pub struct PricedWatch {
    pub lines: Vec<PriceLine>,
    /// The price of the proposal.
    pub price: Value,
    /// The results of the pipeline after the yes.
    pub results: Value,
    /// Predicted and metered shares of a core: the pipeline's thread, all other threads, events.
    pub predicted: [f64; 3],
    pub metered: [f64; 3],
}

/// A proposed watch.
struct Proposal {
    id: String,
    /// Path of its pipeline in the API.
    path: String,
    /// Name of its pipeline.
    pipeline: String,
    /// What was tried of it.
    trial: Value,
}

/// Proposes a watch by `request`, and meters it for `time` after the yes. It runs for as long
/// before, and is proposed again then.
///
/// # Errors
/// If a step fails, or no event comes in time.
pub fn meter(
    bench: &Bench,
    runtime: &Process,
    request: &str,
    time: Duration,
) -> anyhow::Result<PricedWatch> {
    let first = propose(bench, request)?;
    ask_json(bench, &["--confirm", &first.id])?;
    std::thread::sleep(time);
    finish(bench, &first)?;

    let proposal = propose(bench, request)?;
    let price = proposal.trial["price"].clone();
    let (predicted_rate, predicted) = predicted_shares(&proposal.trial)?;
    let bytes_before = wait_for("the last bytes", || journal_bytes(bench).ok())?;
    let records_before = bench.events()?.len();
    ask_json(bench, &["--confirm", &proposal.id])?;
    let (results, metered, rate) = meter_processor(bench, runtime, &proposal, time)?;
    let events = bench.events()?.split_off(records_before);
    let own: Vec<&Value> = events
        .iter()
        .filter(|event| event["pipeline"] == *proposal.pipeline)
        .collect();
    let new = own.iter().filter(|event| event["phase"] == "new").count() as f64;
    let records: usize = own.iter().map(|event| event.to_string().len()).sum();
    let opinions = own
        .iter()
        .filter_map(|e| e["assessment"]["by"]["cost_usd"].as_f64());
    let stored = (journal_bytes(bench)? - bytes_before) / new;
    // What the proposal calls unknown is no line.
    let line = |(what, name, metered): (&'static str, &str, f64)| {
        let predicted = price[name].as_f64()?;
        Some(PriceLine {
            what,
            predicted,
            metered,
        })
    };
    let known = [
        PriceLine {
            what: "processor, share of a core",
            predicted: predicted.iter().sum(),
            metered: metered.iter().sum(),
        },
        PriceLine {
            what: "events a minute",
            predicted: predicted_rate * 60.0,
            metered: rate * 60.0,
        },
    ];
    let lines = [
        ("storage, bytes an event", "storage_bytes_an_event", stored),
        (
            "uplink, bytes an event",
            "uplink_bytes_an_event",
            records as f64 / new,
        ),
        (
            "model, US$ an event",
            "model_usd_an_event",
            opinions.sum::<f64>() / new,
        ),
    ];
    let lines = lines.into_iter().filter_map(line);
    let lines = known.into_iter().chain(lines).collect();
    Ok(PricedWatch {
        lines,
        price,
        results,
        predicted,
        metered,
    })
}

fn propose(bench: &Bench, request: &str) -> anyhow::Result<Proposal> {
    let (_, objects, errors) = ask_json(bench, &[request])?;
    let found = objects.iter().find(|object| object["type"] == "proposal");
    let found = found.with_context(|| format!("{errors} {objects:#?}"))?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a name");
    let pipeline = text(&found["changes"][0]["spec"]["id"])?;
    Ok(Proposal {
        id: text(&found["id"])?,
        path: format!("/v1/pipelines/{pipeline}"),
        pipeline,
        trial: found["tried"][0].clone(),
    })
}

/// Waits for enough events of a watch, and deletes it, which ends and stores its last ones.
fn finish(bench: &Bench, watch: &Proposal) -> anyhow::Result<()> {
    wait_up_to(LONG, "events of the watch", || {
        let events = bench.events().ok()?;
        let own = events.iter().filter(|e| e["pipeline"] == *watch.pipeline);
        (own.filter(|event| event["phase"] == "new").count() >= EVENTS).then_some(())
    })?;
    bench.json("DELETE", &watch.path, None)?;
    Ok(())
}

/// Events a second by the backtest, and the shares of [`PricedWatch::predicted`].
fn predicted_shares(trial: &Value) -> anyhow::Result<(f64, [f64; 3])> {
    let number = |value: &Value| value.as_f64().with_context(|| format!("{trial:#}"));
    let (price, backtest) = (&trial["price"], &trial["backtest"]);
    let rate = number(&backtest["events"])? / number(&backtest["covered_s"])?;
    let share = number(&price["processor_share"])?;
    let known = price["events_share"].as_f64().unwrap_or_default();
    let others = price["others_share"].as_f64().unwrap_or_default();
    let events = number(&price["processor_s_an_event"])? * rate;
    Ok((rate, [share - known - others, others, events]))
}

/// The results of a pipeline, the shares of [`PricedWatch::metered`], and events a second. Deletes
/// the pipeline, so that all of its events are metered to their ends.
fn meter_processor(
    bench: &Bench,
    runtime: &Process,
    watch: &Proposal,
    time: Duration,
) -> anyhow::Result<(Value, [f64; 3], f64)> {
    let results = || -> anyhow::Result<Value> { Ok(bench.get(&watch.path)?["results"].clone()) };
    // Its network may have to be loaded first.
    wait_up_to(LONG, "frames", || {
        (results().ok()?["frames"].as_u64() > Some(0)).then_some(())
    })?;
    let own_s = |results: &Value| results["processor_s"].as_f64().context("processor time");
    let (start, before) = (Instant::now(), own_s(&results()?)?);
    let (events_before, process_before) = (events_s(bench)?, processor_s(runtime)?);
    // No request meanwhile: answering it would be metered too.
    std::thread::sleep(time);
    let (results, elapsed_s) = (results()?, start.elapsed().as_secs_f64());
    let pipeline = (own_s(&results)? - before) / elapsed_s;
    // A clip is counted once it is complete, so only after the end of the watch.
    finish(bench, watch)?;
    let process = processor_s(runtime)? - process_before;
    let all_s = start.elapsed().as_secs_f64();
    let [spent, number] = events_s(bench)?;
    let events = spent - events_before[0];
    let others = (process - events) / all_s - pipeline;
    let shares = [pipeline, others, events / all_s];
    Ok((results, shares, (number - events_before[1]) / all_s))
}

/// Processor time of all events so far, in seconds, and their number.
fn events_s(bench: &Bench) -> anyhow::Result<[f64; 2]> {
    let times = bench.get("/v1/health")?["event_times"].clone();
    let number = |name: &str| times[name].as_f64().with_context(|| times.to_string());
    Ok([
        number("recorder_s")? + number("clips_s")?,
        number("events")?,
    ])
}

fn journal_bytes(bench: &Bench) -> anyhow::Result<f64> {
    Ok(metric(bench, "watchkeeper_journal_media_bytes")?
        + metric(bench, "watchkeeper_journal_bytes")?)
}

/// A number of the runtime's metrics.
fn metric(bench: &Bench, name: &str) -> anyhow::Result<f64> {
    let (_, body) = bench.request("GET", "/v1/metrics", None)?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {name}"))?.parse()?)
}

/// Processor time of a process so far, in seconds.
fn processor_s(process: &Process) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.id()))?;
    let (_, fields) = text.rsplit_once(')').context("a name in brackets")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    ensure!(fields.len() > 12, "{text}");
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / TICKS_A_SECOND)
}
