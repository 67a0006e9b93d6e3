//! The price of a watch: what its proposal said, and what was metered after the yes.
//!
//! - The box has no other watch. What ran before it only leaves events, whose bytes are the
//!   prediction.
//! - Processor time is that of the process `watchkeeper-runtime`, so all pieces are in it.
//! - A history of less than an hour predicts no events a day. Here the rate of the backtest is
//!   used.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::daemons::{Bench, Process, wait_for, wait_up_to};
use crate::person::ask_json;
use crate::scene::LONG;

/// Events of the watch that are metered.
const EVENTS: usize = 6;

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
    /// Events a second, predicted and metered.
    pub rates: [f64; 2],
}

/// Proposes a watch by `request`, confirms it, and meters it for `time`. `earlier` makes events
/// before, for as long.
///
/// # Errors
/// If a step fails, or no event comes in time.
pub fn meter(
    bench: &Bench,
    runtime: &Process,
    earlier: &Value,
    request: &str,
    time: Duration,
) -> anyhow::Result<PricedWatch> {
    bench.json("POST", "/v1/pipelines", Some(earlier))?;
    let name = earlier["id"].as_str().context("an id")?;
    std::thread::sleep(time);
    wait_up_to(LONG, "some events", || ended(bench, name))?;
    bench.json("DELETE", &format!("/v1/pipelines/{name}"), None)?;

    let (_, objects, errors) = ask_json(bench, &[request])?;
    let proposal = objects.iter().find(|object| object["type"] == "proposal");
    let proposal = proposal.context(errors)?;
    let price = proposal["tried"][0]["price"].clone();
    let (rate, predicted) = predicted_shares(&proposal["tried"][0])?;
    let id = proposal["id"].as_str().context("an id")?;
    let name = proposal["changes"][0]["spec"]["id"]
        .as_str()
        .context("a name")?;

    let bytes_before = wait_for("the last bytes", || journal_bytes(bench).ok())?;
    ask_json(bench, &["--confirm", id])?;
    let path = format!("/v1/pipelines/{name}");
    let (results, metered, metered_rate) = meter_processor(bench, runtime, &path, time)?;
    wait_up_to(LONG, "events of the watch", || ended(bench, name))?;
    bench.json("DELETE", &path, None)?;

    // The end of the watch has ended and stored the last ones.
    let events = bench.events()?;
    let own: Vec<&Value> = events.iter().filter(|e| e["pipeline"] == name).collect();
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
    let processor = PriceLine {
        what: "processor, share of a core",
        predicted: predicted.iter().sum(),
        metered: metered.iter().sum(),
    };
    let lines = [
        ("storage, bytes an event", "storage_bytes_an_event", stored),
        (
            "uplink, bytes an event",
            "uplink_bytes_an_event",
            records as f64 / new,
        ),
        ("model, dollars", "model_usd_a_month", opinions.sum()),
    ];
    let lines = lines.into_iter().filter_map(line);
    let lines = std::iter::once(processor).chain(lines).collect();
    Ok(PricedWatch {
        lines,
        price,
        results,
        predicted,
        metered,
        rates: [rate, metered_rate],
    })
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

/// The results of a pipeline, the shares of [`PricedWatch::metered`], and events a second.
fn meter_processor(
    bench: &Bench,
    runtime: &Process,
    path: &str,
    time: Duration,
) -> anyhow::Result<(Value, [f64; 3], f64)> {
    let results = || -> anyhow::Result<Value> { Ok(bench.get(path)?["results"].clone()) };
    // Its network may have to be loaded first.
    wait_up_to(LONG, "frames", || {
        (results().ok()?["frames"].as_u64() > Some(0)).then_some(())
    })?;
    let own_s = |results: &Value| results["processor_s"].as_f64().context("processor time");
    let before = (own_s(&results()?)?, events_s(bench)?, processor_s(runtime)?);
    // No request meanwhile: answering it would be metered too.
    std::thread::sleep(time);
    let process = processor_s(runtime)? - before.2;
    let (results, elapsed_s) = (results()?, time.as_secs_f64());
    let pipeline = own_s(&results)? - before.0;
    let [events, number] = events_s(bench)?;
    let events = events - before.1[0];
    let shares = [pipeline, process - pipeline - events, events];
    let rate = (number - before.1[1]) / elapsed_s;
    Ok((results, shares.map(|spent| spent / elapsed_s), rate))
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

/// All events, once enough of those of a pipeline have ended.
fn ended(bench: &Bench, pipeline: &str) -> Option<Vec<Value>> {
    let events = bench.events().ok()?;
    let of = events.iter().filter(|event| event["pipeline"] == pipeline);
    let ended = of.filter(|event| event["phase"] == "end").count();
    (ended >= EVENTS).then_some(events)
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
