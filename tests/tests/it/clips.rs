//! Clips of events by the real daemons: their contents, their state after a crash, and their
//! recipients.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use image::RgbImage;
use serde_json::{Value, json};
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_tests::daemons::{Bench, data, wait_for, wait_up_to};
use watchkeeper_tests::hooks::Hooks;
use watchkeeper_tests::scene::{LONG, deploy_rule};
use watchkeeper_tests::watch::Watched;
use watchkeeper_vision::shrink;

/// Time at which watching of the road ends, in seconds of the recording.
const STOPS_S: f64 = 20.0;

/// Largest difference between the time of a picture and its stated time, in seconds: one or two
/// pictures.
const OFF_S: f64 = 0.15;

/// Longest side of the compared pictures, in pixels.
const MAX_SIDE: u32 = 160;

/// Watches motion and crossings of this line on a recording, with these rules, to the end.
fn watch(
    bench: &Bench,
    footage: &str,
    line: [[u32; 2]; 2],
    more: &Value,
    rules: &Value,
) -> anyhow::Result<()> {
    let source = json!({"id": "road", "uri": footage, "pace": "fast"});
    bench.json("PUT", "/v1/sources/road", Some(&source))?;
    let (image, tracked) = ("$inputs.image", "$steps.tracker.tracked_detections");
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": image, "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": image, "detections": "$steps.model.predictions"},
            {"type": "roboflow_core/line_counter@v2", "name": "l", "image": image, "detections": tracked, "line_segment": line},
        ],
        "outputs": [
            {"type": "JsonField", "name": "in", "selector": "$steps.l.count_in"},
            {"type": "JsonField", "name": "seen", "selector": tracked},
        ],
    });
    let mut pipeline =
        json!({"id": "road", "source": "road", "workflow": workflow, "rules": rules});
    let members = pipeline.as_object_mut().context("an object")?;
    members.extend(more.as_object().cloned().unwrap_or_default());
    bench.json("POST", "/v1/pipelines", Some(&pipeline))?;
    wait_up_to(4 * LONG, "the end of the road", || {
        let status = bench.get("/v1/pipelines/road").ok()?;
        let state = status["state"].to_string();
        (state.contains("ended") || state.contains("failed")).then_some(())
    })
}

/// Decodes a video to small pictures with their times, up to this second.
fn shown(uri: &str, until_s: f64) -> anyhow::Result<Vec<(f64, RgbImage)>> {
    let video = Watched::start(uri)?;
    let mut shown = Vec::new();
    loop {
        match video.frames.recv(video.timeout) {
            Recv::Frame(frame) => {
                let at_s = frame.pts.as_secs_f64();
                if at_s > until_s {
                    return Ok(shown);
                }
                shown.push((at_s, shrink::within(&frame.picture, MAX_SIDE)?));
            }
            Recv::Ended => return Ok(shown),
            other => anyhow::bail!("{uri}: {other:?}"),
        }
    }
}

/// Finds when a picture was shown: the time of the most similar picture within a second of
/// `about_s`.
fn seen_at(scene: &[(f64, RgbImage)], picture: &RgbImage, about_s: f64) -> Option<f64> {
    let difference = |other: &RgbImage| -> u64 {
        let pixels = other.as_raw().iter().zip(picture.as_raw());
        pixels.map(|(a, b)| u64::from(a.abs_diff(*b))).sum()
    };
    let near = scene.iter().filter(|(at, _)| (at - about_s).abs() <= 1.0);
    let like = near.min_by_key(|(_, other)| difference(other));
    like.map(|(at_s, _)| *at_s)
}

/// Checks that a started event has one clip record, whose clip has the requested length, or all
/// there was until `ends_s`. Its file must show the moment of the event at the stated time. Returns
/// the clip.
fn check_clip(
    bench: &Bench,
    event: &Value,
    asked: (f64, f64),
    scene: &[(f64, RgbImage)],
    ends_s: f64,
) -> anyhow::Result<Value> {
    let announced = &event["clip"];
    ensure!(announced["state"] == "filming", "{event:#}");
    let told = records(bench, "clip")?;
    let mut of = told.iter().filter(|t| t["id"] == event["id"]);
    let (clip, None) = (&of.next().context("a clip record")?["clip"], of.next()) else {
        anyhow::bail!("told twice: {event:#}");
    };
    ensure!(clip["id"] == announced["id"], "{clip:#}");
    ensure!(clip["left_out"] == 0, "a recording waits: {clip:#}");
    ensure!(
        clip["before_s"] == announced["before_s"],
        "{clip:#} {announced:#}"
    );
    let before_s = clip["before_s"].as_f64().context("before_s")?;
    let whole_s = before_s + clip["after_s"].as_f64().context("after_s")?;
    let at_s = event["body"]["pts_s"].as_f64().context("pts_s")?;
    let (wanted_before_s, wanted_after_s) = (at_s.min(asked.0), asked.1.min(ends_s - at_s));
    ensure!(
        before_s >= wanted_before_s - 0.1,
        "{before_s} s before {at_s}"
    );
    ensure!(whole_s >= before_s + wanted_after_s - 0.1, "{clip:#}");
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
    let film = shown(&file.display().to_string(), f64::INFINITY)?;
    // Ten pictures a second; some cameras send fewer at times.
    let rate = film.len() as f64 / whole_s;
    ensure!((rate - 10.0).abs() < 1.5, "{rate} a second: {clip:#}");
    let at_the_event = film
        .iter()
        .rfind(|(in_clip_s, _)| *in_clip_s <= before_s + 0.01);
    let (in_clip_s, picture) = at_the_event.context("nothing before the event")?;
    ensure!(before_s - in_clip_s < 0.11, "{in_clip_s} of {before_s}");
    let was_s = at_s - before_s + in_clip_s;
    let seen_s = seen_at(scene, picture, was_s).context("no such moment")?;
    ensure!(
        (seen_s - was_s).abs() < OFF_S,
        "at {in_clip_s} the clip shows what was at {seen_s} and not at {was_s}: {event:#}"
    );
    Ok(clip.clone())
}

/// Returns the records of this phase.
fn records(bench: &Bench, phase: &str) -> anyhow::Result<Vec<Value>> {
    let mut events = bench.events()?;
    events.retain(|e| e["phase"] == phase && e["body"]["kind"] == "rule");
    Ok(events)
}

/// Returns the files of clips that are being written.
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
fn event_of_recorded_road_has_clip_that_starts_before_it() -> anyhow::Result<()> {
    let Some(data) = data("clips of a suburban road") else {
        return Ok(());
    };
    let footage = data.join("video/ahmetozlu_road.mp4").display().to_string();
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    let line = [[0, 218], [640, 218]];
    let clip = json!({"before_s": 6, "after_s": 3});
    let rules = json!([{"name": "passes", "when": {"kind": "crosses", "line": "l"}, "clip": clip}]);
    watch(
        &bench,
        &footage,
        line,
        &json!({"stop_after_s": STOPS_S}),
        &rules,
    )?;
    let scene = shown(&footage, STOPS_S + 1.0)?;
    let begun = records(&bench, "new")?;
    ensure!(begun.len() >= 2, "{begun:#?}");
    for event in &begun {
        check_clip(&bench, event, (6.0, 3.0), &scene, STOPS_S)?;
    }
    ensure!(records(&bench, "clip")?.len() == begun.len());
    ensure!(half_written(&bench).is_empty());
    runtime.stop()?;
    Ok(())
}

#[test]
fn clips_of_two_rules_show_their_own_moments() -> anyhow::Result<()> {
    const SCENE_S: f64 = 40.0;
    let footage = "demo:?seconds=40&width=320&height=180";
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    let asked = [("passes", (2.0, 1.0)), ("comes", (6.0, 2.0))];
    let whens = [
        json!({"kind": "crosses", "line": "l"}),
        json!({"kind": "appears", "detections": "$steps.tracker.tracked_detections"}),
    ];
    let rules: Vec<Value> = asked
        .iter()
        .zip(whens)
        .map(|((name, (before_s, after_s)), when)| {
            json!({"name": name, "when": when, "clip": {"before_s": before_s, "after_s": after_s}})
        })
        .collect();
    let line = [[130, 93], [130, 180]];
    watch(&bench, footage, line, &json!({}), &json!(rules))?;
    let scene = shown(footage, SCENE_S)?;
    let mut begun = records(&bench, "new")?;
    // An event that is decided after the end of the recording has neither picture nor clip.
    let is_last = |e: &Value| e["body"]["pts_s"].as_f64() > Some(SCENE_S - 0.1);
    begun.retain(|e| e["clip"].is_object() || !is_last(e));
    let mut clips = BTreeSet::new();
    for (name, asked) in asked {
        let of_rule = begun.iter().filter(|e| e["body"]["rule"] == name);
        let of_rule: Vec<&Value> = of_rule.collect();
        ensure!(of_rule.len() >= 2, "{name}: {begun:#?}");
        for event in of_rule {
            let clip = check_clip(&bench, event, asked, &scene, SCENE_S)?;
            clips.insert(clip["id"].to_string());
        }
    }
    let told = records(&bench, "clip")?.len();
    ensure!(told == begun.len(), "{told} of {}", begun.len());
    ensure!(clips.len() < told, "none of {told} is shared");
    ensure!(half_written(&bench).is_empty());

    // A player requests a part.
    let id = clips.first().context("a clip")?.trim_matches('"');
    let (status, whole) = bench.request("GET", &format!("/v1/media/{id}"), None)?;
    ensure!(status == 200, "{status}");
    let part = bench.range(&format!("/v1/media/{id}"), "bytes=100-299")?;
    ensure!(part == (206, whole[100..300].to_vec()), "{}", part.0);
    let (_, text) = bench.request("GET", "/v1/metrics", None)?;
    let text = String::from_utf8(text)?;
    for line in [
        format!("watchkeeper_clips_total{{state=\"kept\"}} {told}"),
        "watchkeeper_clips_total{state=\"lost\"} 0".to_owned(),
        "watchkeeper_clip_pictures_left_out_total 0".to_owned(),
    ] {
        ensure!(text.contains(&line), "{line} is not in\n{text}");
    }
    try_on_clip(&bench, id)?;
    runtime.stop()?;
    Ok(())
}

/// Tries the watch on a kept clip; only media of the journal are opened.
fn try_on_clip(bench: &Bench, id: &str) -> anyhow::Result<()> {
    let pipeline = bench.get("/v1/pipelines/road")?["spec"].clone();
    let wanted = json!({"pipeline": pipeline, "seconds": 2, "clip": id});
    let report = bench.json("POST", "/v1/workflows/dry-run", Some(&wanted))?;
    let results = &report["results"];
    ensure!(results["frames"].as_u64() > Some(5), "{report:#}");
    ensure!(results["source_s"].as_f64() <= Some(2.0), "{report:#}");
    ensure!(
        results["stages_ms"]["infer"].as_f64() > Some(0.0),
        "{report:#}"
    );
    for elsewhere in ["/etc/passwd", "../journal", "00000000000000000000000000"] {
        let wanted = json!({"pipeline": pipeline, "seconds": 2, "clip": elsewhere});
        let (status, body) = bench.request("POST", "/v1/workflows/dry-run", Some(&wanted))?;
        let body = String::from_utf8_lossy(&body).into_owned();
        ensure!(
            status == 422 && body.contains("\"field\":\"clip\""),
            "{status} {body}"
        );
    }
    Ok(())
}

#[test]
fn clip_in_progress_at_a_kill_is_recorded_as_lost() -> anyhow::Result<()> {
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
        message.is_some_and(|m| m.contains("the runtime stopped unexpectedly")),
        "{told:#}"
    );
    runtime.stop()?;

    // A clip that a stop shortens is kept and recorded once.
    let runtime = bench.runtime()?;
    let events = bench.events()?;
    ensure!(
        events.iter().filter(|e| of_it(e)).count() == 1,
        "{events:#?}"
    );
    let now = bench.get("/v1/health")?["boot_id"].clone();
    let begun = events
        .iter()
        .filter(|e| e["phase"] == "new" && e["clip"]["state"] == "filming" && e["boot_id"] != now);
    for begun in begun {
        let of_it = |e: &&Value| e["id"] == begun["id"] && e["phase"] == "clip";
        let mut of = events.iter().filter(of_it);
        let (Some(told), None) = (of.next(), of.next()) else {
            anyhow::bail!("not told once: {begun:#} {events:#?}");
        };
        // Another one may have started before the runtime was killed.
        let was_killed = begun["boot_id"] == event["boot_id"];
        let is_kept = told["clip"]["state"]["kept"].is_object();
        ensure!(is_kept != was_killed, "{told:#}");
    }
    ensure!(half_written(&bench).is_empty());
    runtime.stop()?;
    Ok(())
}

#[test]
fn channel_gets_picture_at_once_and_clip_when_complete() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let bench = Bench::new("")?;
    let file = bench.path("security.url");
    fs::write(&file, server.url("/hook"))?;
    bench.configure(&format!("[channels.security]\nurl_file = {file:?}\n"))?;
    let runtime = bench.runtime()?;
    let agent = bench.agent()?;
    wait_for("the channel to follow", || {
        let follows = agent.log_text().contains("reader=channel security");
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
