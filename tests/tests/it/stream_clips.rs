//! Clips of a camera's own stream, by the real runtime and an RTSP server.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::rtsp::{RtspOptions, RtspServer};
use watchkeeper_tests::scene::{LONG, TRACKED, deploy_on};
use watchkeeper_tests::watch::Watched;

/// A camera of 1280 × 720 with a key frame every two seconds.
const BALL: &str = "videotestsrc is-live=true pattern=ball ! \
    video/x-raw,width=1280,height=720,framerate=15/1 ! \
    x264enc tune=zerolatency speed-preset=ultrafast bitrate=2000 key-int-max=30 ! \
    rtph264pay name=pay0 pt=96 config-interval=1";

/// Seconds between two key frames.
const KEY_S: f64 = 2.0;

/// The camera, on this port or a free one.
fn camera_on(port: Option<u16>) -> anyhow::Result<RtspServer> {
    let options = RtspOptions {
        port,
        launch: Some(BALL.to_owned()),
        is_shared: true,
        ..RtspOptions::default()
    };
    RtspServer::start(Path::new(env!("CARGO_BIN_EXE_rtsp-server")), &options)
}

fn camera() -> anyhow::Result<RtspServer> {
    camera_on(None)
}

/// Watches a source at `uri` with a rule whose clips are to be made of the stream.
fn watch_for_clips(bench: &Bench, uri: &str, after_s: u32) -> anyhow::Result<()> {
    let clip = json!({"before_s": 3, "after_s": after_s, "made_of": "stream"});
    let when = json!({"kind": "count", "detections": TRACKED, "bound": {"over": 0}, "for_s": 6});
    let rule = json!({"name": "ball", "when": when, "clip": clip});
    deploy_on(bench, "watch", "yard", uri, &[rule])?;
    Ok(())
}

/// The `clip` of the first record in this phase.
fn clip_in(bench: &Bench, phase: &str) -> anyhow::Result<Value> {
    wait_up_to(LONG, "a clip", || {
        let events = bench.events().ok()?;
        let mut clips = events
            .into_iter()
            .filter(|event| event["phase"] == phase && event["clip"].is_object());
        clips.next().map(|event| event["clip"].clone())
    })
}

/// The `clip` record of an event about a source at `uri`, whose clip is to be made of the stream.
fn clip_of(bench: &Bench, uri: &str) -> anyhow::Result<Value> {
    watch_for_clips(bench, uri, 2)?;
    clip_in(bench, "clip")
}

/// Size of the pictures of a kept clip, their number, and seconds from the first to the last.
fn watch(bench: &Bench, clip: &Value) -> anyhow::Result<([u32; 2], usize, f64)> {
    let id = clip["id"].as_str().context("an id")?;
    let (status, bytes) = bench.request("GET", &format!("/v1/media/{id}"), None)?;
    ensure!(status == 200, "{clip:#}");
    let file = bench.path("clip.mp4");
    fs::write(&file, bytes)?;
    let video = Watched::start(&file.display().to_string())?;
    let (mut size, mut number, mut last_s) = ([0, 0], 0, 0.0);
    loop {
        match video.frames.recv(video.timeout) {
            Recv::Frame(frame) => {
                size = [frame.picture.width, frame.picture.height];
                number += 1;
                last_s = frame.pts.as_secs_f64();
            }
            Recv::Ended => return Ok((size, number, last_s)),
            other => anyhow::bail!("{other:?}"),
        }
    }
}

#[test]
fn clip_of_stream_has_camera_size_and_states_its_start() -> anyhow::Result<()> {
    let camera = camera()?;
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let clip = clip_of(&bench, camera.uri())?;
    assert_eq!(clip["made_of"], "stream", "{clip:#}");
    assert_eq!(clip["left_out"], 0, "{clip:#}");
    let (before_s, after_s) = (clip["before_s"].as_f64(), clip["after_s"].as_f64());
    let before_s = before_s.context("before_s")?;
    let after_s = after_s.context("after_s")?;
    assert!(
        (3.0 - 0.1..3.0 + KEY_S + 0.2).contains(&before_s),
        "{clip:#}"
    );
    assert!((2.0 - 0.2..2.0 + 0.3).contains(&after_s), "{clip:#}");
    check_content(&bench, &clip, before_s + after_s)
}

/// Decodes a clip, and compares its size, length and number of pictures with those of the stream.
fn check_content(bench: &Bench, clip: &Value, seconds: f64) -> anyhow::Result<()> {
    let (size, number, length_s) = watch(bench, clip)?;
    assert_eq!(size, [1280, 720]);
    assert!((length_s - seconds).abs() < 0.3, "{length_s}: {clip:#}");
    let expected = seconds * 15.0;
    assert!(
        (number as f64 - expected).abs() < 6.0,
        "{number} pictures: {clip:#}"
    );
    Ok(())
}

#[test]
fn clip_of_the_stream_ends_where_the_camera_was_connected_again() -> anyhow::Result<()> {
    let camera = camera()?;
    let (port, uri) = (camera.port(), camera.uri().to_owned());
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    watch_for_clips(&bench, &uri, 50)?;
    let announced = clip_in(&bench, "new")?;
    assert_eq!(announced["made_of"], "stream", "{announced:#}");
    std::thread::sleep(Duration::from_secs(2));
    camera.kill()?;
    let _again = camera_on(port)?;
    let clip = clip_in(&bench, "clip")?;
    assert_eq!(clip["id"], announced["id"], "{clip:#}");
    // The new connection, and what waited in the decoder.
    assert!(clip["left_out"].as_u64() >= Some(1), "{clip:#}");
    let (before_s, after_s) = (clip["before_s"].as_f64(), clip["after_s"].as_f64());
    let (before_s, after_s) = (before_s.context("before_s")?, after_s.context("after_s")?);
    assert!(after_s < 40.0, "the new stream is not in it: {clip:#}");
    check_content(&bench, &clip, before_s + after_s)
}

#[test]
fn source_with_a_mask_or_without_a_stream_has_pictures() -> anyhow::Result<()> {
    let camera = camera()?;
    let masked = format!(
        "[sources.yard]\nuri = {:?}\n[sources.yard.privacy]\n\
         regions = [[[0, 0], [0.1, 0], [0.1, 0.1], [0, 0.1]]]\nfill = \"black\"\n",
        camera.uri()
    );
    let demo = "demo:?seconds=600&width=320&height=180";
    for (config, uri, why) in [
        (masked.as_str(), camera.uri(), "privacy mask"),
        ("", demo, "no key frame of the stream"),
    ] {
        let bench = Bench::new(config)?;
        let _runtime = bench.runtime()?;
        let clip = clip_of(&bench, uri)?;
        assert!(clip["made_of"].is_null(), "{clip:#}");
        assert!(
            clip["note"].as_str().is_some_and(|note| note.contains(why)),
            "{clip:#}"
        );
        let (size, number, _) = watch(&bench, &clip)?;
        assert!(
            size[0] <= 640 && number > 20,
            "{size:?}, {number}: {clip:#}"
        );
    }
    Ok(())
}
