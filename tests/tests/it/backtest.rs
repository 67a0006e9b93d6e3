//! Backtests of a real runtime: what they say of the past equals what was reported then.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Error, ensure};
use serde_json::{Value, json};
use watchkeeper_engine::workflow::codec::from_base64;
use watchkeeper_tests::daemons::{Bench, data, wait_for, wait_up_to};
use watchkeeper_tests::halves::{RuleEvents, SOURCE, backtest, by_rule, compare};
use watchkeeper_tests::person::ask_json;
use watchkeeper_tests::price::meter;
use watchkeeper_tests::scene::{LONG, STREET, TRACKED, door_workflow};

fn pipeline(id: &str, more: &Value) -> Value {
    let mut rules = vec![
        json!({"name": "crossing", "when": {"kind": "crosses", "line": "door"}}),
        json!({"name": "somebody", "when": {"kind": "appears", "detections": TRACKED}}),
    ];
    for rule in &mut rules {
        for (name, value) in more.as_object().into_iter().flatten() {
            rule[name] = value.clone();
        }
    }
    json!({"id": id, "source": "street", "workflow": door_workflow(), "rules": rules})
}

fn bench() -> anyhow::Result<Bench> {
    Bench::new(&format!(
        "[sources.street]\nuri = {STREET:?}\npace = \"native\"\n"
    ))
}

#[test]
fn backtest_equals_what_the_same_rules_reported() -> anyhow::Result<()> {
    let bench = bench()?;
    let runtime = bench.runtime()?;
    let deployed = pipeline("watch", &json!({}));
    let none = backtest(&bench, &deployed)?;
    let why = none["not_replayed"].as_str().unwrap_or_default();
    ensure!(why.contains("no history of motion on street"), "{none:#}");
    bench.json("POST", "/v1/pipelines", Some(&deployed))?;
    let count = |events: &[Value], rule: &str| {
        let is_it = |event: &&Value| event["phase"] == "new" && event["body"]["rule"] == rule;
        events.iter().filter(is_it).count()
    };
    wait_up_to(LONG, "some crossings", || {
        let events = bench.events().ok()?;
        (count(&events, "crossing") >= 4).then_some(())
    })?;
    // Stopped, because a replay ends like a stopped pipeline: what it still waits for is decided. A
    // paused one may also be in the middle of a frame.
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let events = wait_for("the last events", || bench.events().ok())?;
    let reported: BTreeMap<String, u64> = ["crossing", "somebody"]
        .map(|rule| (rule.to_owned(), count(&events, rule) as u64))
        .into();
    let report = backtest(&bench, &pipeline("draft", &json!({})))?;
    assert_eq!(by_rule(&report), reported, "{report:#}");
    ensure!(
        report["covered_s"].as_f64().is_some_and(|s| s > 5.0),
        "{report:#}"
    );
    ensure!(
        report["events"][0]["event"]["bbox"].is_array(),
        "{report:#}"
    );
    let quiet = backtest(
        &bench,
        &pipeline(
            "draft",
            &json!({"cooldown_s": 3600, "shared_cooldown": true}),
        ),
    )?;
    ensure!(
        by_rule(&quiet)["crossing"] < reported["crossing"],
        "{quiet:#}"
    );

    let wanted = json!({"pipeline": deployed, "hours": 1, "pictures": true});
    let drawn = bench.json("POST", "/v1/workflows/backtest", Some(&wanted))?;
    let strip = drawn["strip"].as_str().context("pictures of the events")?;
    let strip = image::load_from_memory(&from_base64(strip).map_err(Error::msg)?)?;
    // Up to six pictures of the street in rows of three.
    let (columns, rows) = (strip.width() / 320, strip.height() / 180);
    ensure!(
        (1..=3).contains(&columns) && (1..=2).contains(&rows),
        "{strip:?}"
    );

    // What was read was written before, so the next process replays it all.
    runtime.kill()?;
    let _runtime = bench.runtime()?;
    let after = backtest(&bench, &pipeline("draft", &json!({})))?;
    assert_eq!(
        by_rule(&after)["crossing"],
        reported["crossing"],
        "{after:#}"
    );

    let mut blind = pipeline("draft", &json!({}));
    let step = json!({"type": "roboflow_core/barcode_detector@v1", "name": "codes", "images": "$inputs.image"});
    blind["workflow"]["steps"]
        .as_array_mut()
        .into_iter()
        .for_each(|steps| steps.push(step.clone()));
    let refused = backtest(&bench, &blind)?;
    let why = refused["not_replayed"].as_str().unwrap_or_default();
    ensure!(why.contains("step codes reads pixels"), "{refused:#}");
    Ok(())
}

#[test]
fn answer_counts_what_a_cool_down_left_out() -> anyhow::Result<()> {
    let bench = bench()?;
    let _runtime = bench.runtime()?;
    let quiet = json!({"cooldown_s": 3600, "shared_cooldown": true});
    bench.json("POST", "/v1/pipelines", Some(&pipeline("watch", &quiet)))?;
    wait_up_to(LONG, "some tracks", || {
        let status = bench.get("/v1/pipelines/watch").ok()?;
        (status["results"]["tracks"].as_u64()? >= 6).then_some(())
    })?;
    let question = "how many events on the street camera in the last hour";
    // A cool-down of less than a second is not replayed.
    let (recorded, replayed) = wait_up_to(LONG, "a replay in the answer", || {
        let (_, objects, _) = ask_json(&bench, &[question]).ok()?;
        let answer = objects.iter().find(|object| object["type"] == "events")?;
        let (_, replayed) = answer["text"]
            .as_str()?
            .split_once("watch would have had ")?;
        let replayed: u64 = replayed.split(' ').next()?.parse().ok()?;
        Some((answer["number"].as_u64()?, replayed))
    })?;
    ensure!(replayed > recorded, "{replayed} of {recorded}");
    Ok(())
}

#[test]
fn proposal_says_what_it_would_have_reported() -> anyhow::Result<()> {
    let bench = bench()?;
    let _runtime = bench.runtime()?;
    bench.json(
        "POST",
        "/v1/pipelines",
        Some(&pipeline("watch", &json!({}))),
    )?;
    wait_up_to(LONG, "some events", || {
        (bench.events().ok()?.len() >= 6).then_some(())
    })?;
    let (_, objects, errors) = ask_json(
        &bench,
        &["tell me each time something moves on the street camera"],
    )?;
    let proposal = objects.iter().find(|object| object["type"] == "proposal");
    let trials = proposal.map_or(Value::Null, |proposal| proposal["tried"].clone());
    let backtest = &trials[0]["backtest"];
    ensure!(
        backtest["events"].as_u64().is_some_and(|n| n > 0),
        "{objects:#?} {errors}"
    );
    ensure!(
        backtest["covered_s"].as_f64().is_some_and(|s| s > 0.0),
        "{backtest:#}"
    );
    let pictures = backtest["pictures"].as_str().context("pictures")?;
    ensure!(
        std::fs::read(pictures)?.starts_with(&[0xff, 0xd8]),
        "{pictures}"
    );
    Ok(())
}

fn is_within_a_fifth(told: f64, metered: f64) -> bool {
    (told - metered).abs() <= 0.2 * metered
}

#[test]
fn price_has_the_pieces_that_are_metered_later() -> anyhow::Result<()> {
    let bench = bench()?;
    let runtime = bench.runtime()?;
    let request = "tell me each time something moves on the street camera";
    let watch = meter(&bench, &runtime, request, Duration::from_secs(8), false)?;
    let price = &watch.price;
    // Seconds of history give no rate a day.
    let why = &price.unknown["storage"];
    ensure!(why.contains("history covers only"), "{price:?}");
    ensure!(price.unknown["events"] == *why, "{price:?}");
    ensure!(price.processor_s_an_event > Some(0.0), "{price:?}");
    ensure!(watch.lines.len() == 4, "{watch:?}");
    for line in &watch.lines {
        ensure!(line.predicted.likely > 0.0, "{line:?}");
        ensure!(line.metered > 0.0, "{line:?}");
        // Processor time is compared by the program `price`; here other tests run at the same time.
        let is_bytes = line.what.contains("bytes");
        ensure!(
            !is_bytes || is_within_a_fifth(line.predicted.likely, line.metered),
            "{line:?}"
        );
    }
    // The pieces: the pipeline, decoding in other threads, and events.
    let others = price.shares.and_then(|shares| shares.others);
    let all = price.processor_share.map(|share| share.likely);
    ensure!(others > Some(0.0) && others < all, "{price:?}");
    ensure!(watch.metered.iter().all(|share| *share > 0.0), "{watch:?}");
    Ok(())
}

#[test]
fn trial_measures_the_stages_of_a_deployed_watch() -> anyhow::Result<()> {
    let bench = bench()?;
    let _runtime = bench.runtime()?;
    let spec = pipeline("watch", &json!({"clip": {"before_s": 2, "after_s": 1}}));
    let trial = |id: &str| {
        let mut wanted = json!({"pipeline": spec, "seconds": 1.0});
        wanted["pipeline"]["id"] = json!(id);
        bench.json("POST", "/v1/workflows/dry-run", Some(&wanted))
    };
    let alone = trial("watch")?;
    ensure!(alone["others_s"].as_f64() > Some(0.0), "{alone:#}");
    let looked = alone["results"]["frames"]
        .as_f64()
        .map(|frames| frames - 1.0);
    let wanted = alone["wanted_fps"].as_f64();
    ensure!(
        looked > Some(0.0) && looked <= wanted.map(|fps| fps * 1.1),
        "{alone:#}"
    );
    bench.json("POST", "/v1/pipelines", Some(&spec))?;
    let deployed = wait_for("frames", || {
        let results = bench.get("/v1/pipelines/watch").ok()?["results"].clone();
        (results["processor_s"].as_f64() > Some(0.0)).then_some(results)
    })?;
    let stages = |results: &Value| -> Vec<String> {
        let all = results["stages_ms"].as_object().into_iter().flatten();
        let measured = all.filter(|(_, ms)| ms.as_f64() > Some(0.0));
        measured.map(|(stage, _)| stage.clone()).collect()
    };
    assert_eq!(stages(&alone["results"]), stages(&deployed));
    // A pipeline of another name needs no decoding of its own, and one that replaces this pipeline
    // looks like it.
    let beside = trial("second")?;
    ensure!(beside["others_s"] == 0.0, "{beside:#}");
    let instead = trial("watch")?;
    ensure!(instead["others_s"].is_null(), "{instead:#}");
    ensure!(
        instead["results"]["processor_s"].as_f64() > Some(0.0),
        "{instead:#}"
    );
    Ok(())
}

#[test]
fn trial_has_no_decoding_if_a_watch_starts_meanwhile() -> anyhow::Result<()> {
    let bench = bench()?;
    let _runtime = bench.runtime()?;
    let wanted = json!({"pipeline": pipeline("draft", &json!({})), "seconds": 8.0});
    let report = std::thread::scope(|scope| {
        let trial = scope.spawn(|| bench.json("POST", "/v1/workflows/dry-run", Some(&wanted)));
        wait_for("frames of the trial", || {
            let frames = bench.get("/v1/sources/street").ok()?["counters"]["frames"].as_u64();
            (frames > Some(10)).then_some(())
        })?;
        let watch = pipeline("watch", &json!({}));
        bench.json("POST", "/v1/pipelines", Some(&watch))?;
        trial.join().map_err(|_| Error::msg("the trial panicked"))?
    })?;
    ensure!(report["others_s"].is_null(), "{report:#}");
    ensure!(
        report["results"]["processor_s"].as_f64() > Some(0.0),
        "{report:#}"
    );
    Ok(())
}

/// A watch on the motorway that counts at this height of its picture.
fn motorway(y: u32) -> Value {
    let mut spec = pipeline("motorway", &json!({}));
    spec["source"] = json!(SOURCE);
    spec["workflow"]["steps"][2]["line_segment"] = json!([[0, y], [320, y]]);
    let rule = json!({"name": "passes", "when": {"kind": "crosses", "line": "door"}});
    spec["rules"] = json!([rule]);
    spec
}

#[test]
fn backtest_of_first_half_predicts_second_half() -> anyhow::Result<()> {
    let Some(data) = data("motorways, whose traffic is steady") else {
        return Ok(());
    };
    let (mut told, mut came) = (0, 0);
    for (clip, y, half_s) in [
        ("bgs_highway02.avi", 144, 15.0),
        ("motorway_sob1.avi", 150, 16.5),
    ] {
        let both = compare(&data.join("video").join(clip), &motorway(y), half_s)?;
        let RuleEvents {
            predicted,
            reported,
        } = both["passes"];
        let (least, most) = (predicted.min(reported), predicted.max(reported));
        // Of ten to twenty vehicles, chance alone makes a third more or less.
        ensure!(
            least > 0 && 2 * most <= 3 * least,
            "{clip}: {predicted}, then {reported}"
        );
        (told, came) = (told + predicted, came + reported);
    }
    ensure!(
        5 * told.abs_diff(came) <= came,
        "predicted {told}, reported {came}"
    );
    Ok(())
}
