//! Clips of events by the real daemons: what they show, what a crash leaves of them, and who gets them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, data, run_json, wait_for, wait_up_to};
use watchkeeper_tests::hooks::Hooks;
use watchkeeper_tests::scene::{LONG, deploy_rule};

/// The line that the vehicles of the clip with a road cross.
const LINE: [[u32; 2]; 2] = [[0, 218], [640, 218]];

/// When it is looked at no longer, in seconds of the recording.
const STOPS_S: f64 = 20.0;

/// Counts vehicles on a recorded road, and keeps a clip of each.
fn deploy_road(bench: &Bench, footage: &str, clip: &Value) -> anyhow::Result<()> {
    let source = json!({"id": "road", "uri": footage, "pace": "fast"});
    bench.json("PUT", "/v1/sources/road", Some(&source))?;
    let (image, tracked) = ("$inputs.image", "$steps.tracker.tracked_detections");
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": image, "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": image, "detections": "$steps.model.predictions"},
            {"type": "roboflow_core/line_counter@v2", "name": "l", "image": image, "detections": tracked, "line_segment": LINE},
        ],
        "outputs": [{"type": "JsonField", "name": "in", "selector": "$steps.l.count_in"}],
    });
    let pipeline = json!({
        "id": "road", "source": "road", "workflow": workflow, "stop_after_s": STOPS_S,
        "rules": [{"name": "passes", "when": {"kind": "crosses", "line": "l"}, "clip": clip}],
    });
    bench.json("POST", "/v1/pipelines", Some(&pipeline))?;
    wait_up_to(4 * LONG, "the end of the road", || {
        let status = bench.get("/v1/pipelines/road").ok()?;
        let state = status["state"].to_string();
        (state.contains("ended") || state.contains("failed")).then_some(())
    })
}

/// Records of this phase.
fn records(bench: &Bench, phase: &str) -> anyhow::Result<Vec<Value>> {
    let mut events = bench.events()?;
    events.retain(|e| e["phase"] == phase && e["body"]["kind"] == "rule");
    Ok(events)
}

/// Files of clips that are being written.
fn half_written(bench: &Bench) -> Vec<PathBuf> {
    let days = fs::read_dir(bench.path("state/media"))
        .into_iter()
        .flatten();
    let files = days
        .flatten()
        .flat_map(|day| fs::read_dir(day.path()))
        .flatten();
    let paths = files.flatten().map(|file| file.path());
    let is_hidden = |path: &PathBuf| {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().starts_with('.'));
        name.unwrap_or(false)
    };
    paths.filter(is_hidden).collect()
}

#[test]
fn every_event_of_a_recorded_road_has_a_clip_that_begins_before_it() -> anyhow::Result<()> {
    let Some(data) = data("clips of a suburban road") else {
        return Ok(());
    };
    let footage = data.join("video/ahmetozlu_road.mp4").display().to_string();
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    deploy_road(&bench, &footage, &json!({"before_s": 6, "after_s": 3}))?;
    let (begun, told) = (records(&bench, "new")?, records(&bench, "clip")?);
    ensure!(
        begun.len() >= 2 && told.len() == begun.len(),
        "{begun:#?} {told:#?}"
    );
    let mut seen = 0;
    for event in &begun {
        let announced = &event["clip"];
        ensure!(announced["state"] == "filming", "{event:#}");
        let mut of = told.iter().filter(|t| t["id"] == event["id"]);
        let (clip, None) = (&of.next().context("what became of it")?["clip"], of.next()) else {
            anyhow::bail!("told twice: {event:#}");
        };
        ensure!(clip["id"] == announced["id"], "{clip:#}");
        ensure!(
            clip["before_s"] == announced["before_s"],
            "{clip:#} {announced:#}"
        );
        let before_s = clip["before_s"].as_f64().context("before_s")?;
        let whole_s = before_s + clip["after_s"].as_f64().context("after_s")?;
        let at_s = event["body"]["pts_s"].as_f64().context("pts_s")?;
        // All that was asked for, or all that there was.
        ensure!(
            before_s >= at_s.min(6.0) - 0.1,
            "{before_s} s before {at_s}"
        );
        // The pipeline ends in the middle of the last ones.
        let after_s = (STOPS_S - at_s).min(3.0);
        ensure!(whole_s >= before_s + after_s - 0.1, "{clip:#}");
        let start = clip["start"]["unix_ms"].as_i64();
        ensure!(
            start <= event["at"]["unix_ms"].as_i64(),
            "{clip:#} {event:#}"
        );

        let id = clip["id"].as_str().context("an id")?;
        let (status, bytes) = bench.request("GET", &format!("/v1/media/{id}"), None)?;
        ensure!(status == 200, "{status}");
        ensure!(clip["state"]["kept"]["bytes"] == bytes.len(), "{clip:#}");
        let file = bench.path("clip.mp4");
        fs::write(&file, bytes)?;
        let line = format!(
            "l:{},{},{},{}",
            LINE[0][0], LINE[0][1], LINE[1][0], LINE[1][1]
        );
        let file = file.display().to_string();
        let (code, lines, errors) = run_json(&[&file, "--model", "motion", "--line", &line])?;
        ensure!(code == 0, "{errors}");
        let summary = lines.last().context("a summary")?;
        let frames = summary["frames"].as_u64().context("frames")? as f64;
        // Ten pictures a second, which is two in five of this recording.
        ensure!(
            (frames / whole_s - 10.0).abs() < 1.5,
            "{frames} in {whole_s} s"
        );
        let shown_s = summary["seconds"].as_f64().context("seconds")?;
        ensure!((shown_s - whole_s).abs() < 0.5, "{shown_s} s of {whole_s}");
        // What the event was about is in it, at the moment that it says.
        let crossings = lines.iter().filter(|l| l["phase"] == "new");
        seen += usize::from(crossings.into_iter().any(|crossing| {
            let at_s = crossing["body"]["pts_s"].as_f64().unwrap_or(f64::NAN);
            (at_s - before_s).abs() < 1.0
        }));
    }
    ensure!(2 * seen > begun.len(), "{seen} of {}", begun.len());
    ensure!(half_written(&bench).is_empty());
    runtime.stop()?;
    Ok(())
}

#[test]
fn a_clip_that_was_being_filmed_when_the_runtime_was_killed_is_told_as_lost() -> anyhow::Result<()>
{
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    deploy_rule(&bench, json!({"clip": {"before_s": 2, "after_s": 100}}))?;
    let event = wait_up_to(LONG, "a clip to be filmed", || {
        let filmed = !half_written(&bench).is_empty();
        let begun = records(&bench, "new").ok()?.into_iter().next();
        begun.filter(|_| filmed)
    })?;
    let id = event["clip"]["id"].as_str().context("an id")?.to_owned();
    let path = format!("/v1/media/{id}");
    let (status, _) = bench.request("GET", &path, None)?;
    ensure!(status == 409, "it is still being filmed: {status}");
    runtime.kill()?;
    ensure!(!half_written(&bench).is_empty(), "nothing was left behind");

    let runtime = bench.runtime()?;
    let (status, _) = bench.request("GET", &path, None)?;
    ensure!(status == 404, "half a clip is served: {status}");
    let of_it = |e: &Value| e["id"] == event["id"] && e["phase"] == "clip";
    let told = wait_for("the word about it", || {
        bench.events().ok()?.into_iter().find(of_it)
    })?;
    let message = told["clip"]["state"]["lost"]["message"].as_str();
    ensure!(
        message.is_some_and(|m| m.contains("the runtime ended")),
        "{told:#}"
    );
    runtime.stop()?;

    // What a stop cuts short is kept, and told once.
    let runtime = bench.runtime()?;
    let events = bench.events()?;
    ensure!(
        events.iter().filter(|e| of_it(e)).count() == 1,
        "{events:#?}"
    );
    for begun in records(&bench, "new")? {
        let of_it = |e: &&Value| e["id"] == begun["id"] && e["phase"] == "clip";
        ensure!(
            events.iter().filter(of_it).count() == 1,
            "{begun:#} {events:#?}"
        );
    }
    let short = events.iter().rfind(|e| e["phase"] == "clip");
    if let Some(short) = short.filter(|e| e["id"] != event["id"]) {
        ensure!(short["clip"]["state"]["kept"].is_object(), "{short:#}");
    }
    ensure!(half_written(&bench).is_empty());
    runtime.stop()?;
    Ok(())
}

#[test]
fn a_channel_gets_the_picture_at_once_and_the_clip_when_it_is_there() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let bench = Bench::new("")?;
    let file = bench.path("security.url");
    fs::write(&file, server.url("/hook"))?;
    bench.configure(&format!("[channels.security]\nurl_file = {file:?}\n"))?;
    let runtime = bench.runtime()?;
    let agent = bench.agent()?;
    wait_for("the channel to follow", || {
        let follows = agent.log_text().contains("telling people of events");
        follows.then_some(())
    })?;
    let rule =
        json!({"notify": ["security"], "clip": {"before_s": 1, "after_s": 2}, "cooldown_s": 600});
    deploy_rule(&bench, rule)?;
    let clip = wait_up_to(LONG, "the clip", || {
        let requests = server.requests();
        let mut texts = requests.iter().map(|r| r.text());
        texts.find(|text| text.contains("name=\"clip\""))
    })?;
    ensure!(clip.contains("clip of "), "{clip}");
    ensure!(clip.contains("ftyp"), "no MP4 goes along");
    let requests = server.requests();
    let first = requests.first().context("a message")?.text();
    ensure!(first.contains("name=\"picture\""), "{first}");
    agent.stop()?;
    runtime.stop()?;
    Ok(())
}
