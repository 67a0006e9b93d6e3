//! Counts of a camera's pipeline survive the process that counted them.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, program, wait_up_to};
use watchkeeper_tests::rtsp::{RtspOptions, RtspServer};

/// A ball that flies to and fro without end, on a ground that does not count as dark.
const BALL: &str = "videotestsrc is-live=true pattern=ball background-color=0xff304050 ! \
    video/x-raw,format=I420,width=320,height=240,framerate=15/1 ! \
    x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15 ! \
    rtph264pay name=pay0 pt=96 config-interval=1";

/// The checkpoint interval is ten seconds, and the machine may be busy.
const LONG: Duration = Duration::from_secs(60);

fn count_at_a_line(bench: &Bench, uri: &str) -> anyhow::Result<()> {
    let image = "$inputs.image";
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": image, "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": image, "detections": "$steps.model.predictions"},
            {"type": "roboflow_core/line_counter@v2", "name": "middle", "image": image,
             "detections": "$steps.tracker.tracked_detections", "line_segment": [[160, 0], [160, 240]]},
        ],
        "outputs": [{"type": "JsonField", "name": "in", "selector": "$steps.middle.count_in"},
                    {"type": "JsonField", "name": "out", "selector": "$steps.middle.count_out"}]
    });
    let source = json!({"id": "court", "uri": uri});
    bench.json("PUT", "/v1/sources/court", Some(&source))?;
    let pipeline = json!({"id": "ball", "source": "court", "workflow": workflow, "rules": []});
    bench.json("PUT", "/v1/pipelines/ball", Some(&pipeline))?;
    Ok(())
}

/// Returns the crossings of the line in both directions.
fn crossings(results: &Value) -> u64 {
    let line = &results["lines"]["middle"];
    let side = |side: &str| line[side].as_u64().unwrap_or(0);
    side("in") + side("out")
}

fn results(bench: &Bench) -> Option<Value> {
    bench.get("/v1/pipelines/ball/results").ok()
}

/// Waits for results with more than `times` crossings.
fn crossed(bench: &Bench, times: u64) -> anyhow::Result<Value> {
    wait_up_to(LONG, "the ball to cross the line", || {
        results(bench).filter(|results| crossings(results) > times)
    })
}

#[test]
fn counts_survive_a_kill_and_restart_after_a_deployment() -> anyhow::Result<()> {
    let server = RtspServer::start(
        &program("rtsp-server")?,
        &RtspOptions {
            launch: Some(BALL.to_owned()),
            ..RtspOptions::default()
        },
    )?;
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    count_at_a_line(&bench, server.uri())?;
    let before = crossed(&bench, 1)?;
    let seen = SystemTime::now();
    let state = bench.path("state/states/ball.state");
    wait_up_to(LONG, "the counts to be kept", || {
        let kept = state.metadata().ok()?.modified().ok()?;
        (kept > seen).then_some(())
    })?;
    runtime.kill()?;

    let runtime = bench.runtime()?;
    let after = crossed(&bench, crossings(&before))?;
    assert_eq!(after["counting_since"], before["counting_since"]);
    assert!(after["tracks"].as_u64() >= before["tracks"].as_u64());

    // An orderly stop loses nothing at all.
    let before = crossed(&bench, crossings(&after))?;
    runtime.stop()?;
    let runtime = bench.runtime()?;
    let after = results(&bench).unwrap_or_default();
    assert!(crossings(&after) >= crossings(&before), "{after} {before}");

    count_at_a_line(&bench, server.uri())?;
    let restarted = crossed(&bench, 0)?;
    assert_ne!(restarted["counting_since"], before["counting_since"]);
    assert!(
        crossings(&restarted) < crossings(&before),
        "{restarted} {before}"
    );
    runtime.stop()?;
    Ok(())
}
