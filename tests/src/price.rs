//! The price of a watch in its proposal, and what the watch takes after the yes.
//!
//! - The watch itself runs before and is deleted, so that the proposal has its events and its
//!   history; then it is proposed again.
//! - Processor time is that of the process `watchkeeper-runtime` with the watch, less that without
//!   it, so all pieces are in it. Beside a second watch both are metered; else the latter is 0.
//! - A history of less than an hour predicts no events a day. Here the rate of the backtest is
//!   used.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use watchkeeper_assistant::proposal::backtest::BacktestSummary;
use watchkeeper_assistant::proposal::price::{Estimate, PriceTag};

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
    pub predicted: Estimate,
    pub metered: f64,
}

/// A watch that was proposed, confirmed and metered.
#[derive(Debug)]
pub struct PricedWatch {
    pub lines: Vec<PriceLine>,
    /// The price of the proposal.
    pub price: PriceTag,
    /// The results of the pipeline after the yes.
    pub results: Value,
    /// Metered shares of a core: the pipeline with its networks, all other threads, events.
    pub metered: [f64; 3],
}

/// A proposed watch.
struct Proposal {
    id: String,
    /// Path of its pipeline in the API.
    path: String,
    /// Name of its pipeline.
    pipeline: String,
    /// Trial of the proposal.
    trial: Value,
}

/// Proposes a watch by `request`, and meters it for `time` after the yes. It runs for as long
/// before, and is proposed again then. With `is_second`, another watch runs already.
///
/// # Errors
/// If a step fails, or no event comes in time.
pub fn meter(
    bench: &Bench,
    runtime: &Process,
    request: &str,
    time: Duration,
    is_second: bool,
) -> anyhow::Result<PricedWatch> {
    let first = propose(bench, request)?;
    ask_json(bench, &["--confirm", &first.id])?;
    std::thread::sleep(time);
    finish(bench, &first)?;

    let proposal = propose(bench, request)?;
    let price: PriceTag = read(&proposal.trial["price"])?;
    let backtest: BacktestSummary = read(&proposal.trial["backtest"])?;
    let without = match is_second {
        true => share_for(runtime, time)?,
        false => 0.0,
    };
    let bytes_before = wait_for("the last bytes", || journal_bytes(bench).ok())?;
    let records_before = bench.events()?.len();
    ask_json(bench, &["--confirm", &proposal.id])?;
    let (results, metered, time_s) = meter_processor(bench, runtime, &proposal, time, without)?;
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
    let events = Estimate::of_events(backtest.events).scaled(1.0 / backtest.covered_s);
    let opinions_a_second = backtest.escalated.scaled(1.0 / backtest.covered_s);
    // What the proposal calls unknown or free is not a line.
    let exact = |number: Option<f64>| number.map(Estimate::exact);
    let usd = price.model_usd_an_opinion.filter(|usd| *usd > 0.0);
    let lines = [
        (
            "processor, share of a core",
            Some(processor(&price, events)?),
            metered.iter().sum(),
        ),
        (
            "events a minute",
            Some(events.scaled(60.0)),
            new / time_s * 60.0,
        ),
        (
            "storage, bytes an event",
            exact(price.storage_bytes_an_event),
            stored,
        ),
        (
            "uplink, bytes an event",
            exact(price.uplink_bytes_an_event),
            records as f64 / new,
        ),
        (
            "model, US$ an hour",
            usd.map(|usd| opinions_a_second.scaled(usd * 3_600.0)),
            opinions.sum::<f64>() / time_s * 3_600.0,
        ),
    ];
    let lines = lines.into_iter().filter_map(|(what, predicted, metered)| {
        Some(PriceLine {
            what,
            predicted: predicted?,
            metered,
        })
    });
    Ok(PricedWatch {
        lines: lines.collect(),
        price,
        results,
        metered,
    })
}

fn read<T: DeserializeOwned>(value: &Value) -> anyhow::Result<T> {
    serde_json::from_value(value.clone()).with_context(|| format!("{value:#}"))
}

/// The processor share with its events at this rate a second.
fn processor(price: &PriceTag, events: Estimate) -> anyhow::Result<Estimate> {
    let share = price.processor_share.context("a processor share")?;
    ensure!(price.events_share.is_none(), "{price:?}");
    let an_event = price.processor_s_an_event.context("time of an event")?;
    Ok(share.plus(events.scaled(an_event)))
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

/// The results of a pipeline, the shares of [`PricedWatch::metered`], and the seconds. Deletes the
/// pipeline, so that all of its events are metered to their ends.
fn meter_processor(
    bench: &Bench,
    runtime: &Process,
    watch: &Proposal,
    time: Duration,
    without: f64,
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
    let events = events_s(bench)? - events_before;
    let others = (process - events) / all_s - without - pipeline;
    Ok((results, [pipeline, others, events / all_s], all_s))
}

/// Share of a core that the runtime takes in this time.
fn share_for(runtime: &Process, time: Duration) -> anyhow::Result<f64> {
    let (start, before) = (Instant::now(), processor_s(runtime)?);
    std::thread::sleep(time);
    Ok((processor_s(runtime)? - before) / start.elapsed().as_secs_f64())
}

/// Processor time of all events so far, in seconds.
fn events_s(bench: &Bench) -> anyhow::Result<f64> {
    let times = bench.get("/v1/health")?["event_times"].clone();
    let number = |name: &str| times[name].as_f64().with_context(|| times.to_string());
    Ok(number("recorder_s")? + number("clips_s")?)
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
