//! Writes what a model finds in a clip as a recording for `watchkeeper workflow replay`.
//!
//! `record-detections CLIP MODEL CONFIDENCE > RECORDING.json`; MODEL is a name, an ONNX file or
//! `motion`. It runs the daemon's code. Beside the members that a replay reads, `times_s` has the
//! source time of each frame in seconds.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_detect::{DetectParams, DetectorPool, OpenRequest, RawDetection};
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_runtime::capture::source::{Deps, Source};

/// Frames per second of a clip that does not state them.
const USUAL_FPS: f64 = 25.0;
const FRAME_TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [clip, model, confidence] = args.as_slice() else {
        bail!("usage: record-detections CLIP MODEL CONFIDENCE > RECORDING.json");
    };
    let params = DetectParams {
        confidence: Some(confidence.parse()?),
        iou_threshold: Some(0.45),
        // As the workflow of a watch.
        class_agnostic_nms: Some(false),
        ..DetectParams::default()
    };
    let pool = DetectorPool::default();
    let mut detector = pool.open(&OpenRequest {
        model: model.clone(),
        ..OpenRequest::default()
    })?;
    let frames = Source::spawn(clip_source(clip)?, Deps::default());
    let received = frames.subscribe();
    let (mut size, mut fps) = ([0, 0], None);
    let (mut found, mut boxes, mut times_s) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let frame = match received.recv(FRAME_TIMEOUT) {
            Recv::Frame(frame) => frame,
            Recv::Ended => break,
            other => bail!("{clip}: {other:?}"),
        };
        size = [frame.picture.width, frame.picture.height];
        fps = fps.or(frame.fps);
        detector.detect(&frame, &params, &mut found)?;
        boxes.push(found.iter().map(row).collect::<Vec<_>>());
        times_s.push(frame.pts.as_secs_f64());
    }
    let labels = &detector.info().labels;
    let recording = json!({
        "width": size[0], "height": size[1], "fps": fps.unwrap_or(USUAL_FPS),
        "class_names": labels.iter().map(|l| &**l).collect::<Vec<_>>(),
        "times_s": times_s, "frames": boxes,
    });
    #[expect(clippy::print_stdout, reason = "a command-line tool")]
    {
        println!("{recording}");
    }
    Ok(())
}

fn clip_source(clip: &str) -> anyhow::Result<SourceSpec> {
    Ok(SourceSpec::new(
        SourceId::new("clip").context("a valid id")?,
        clip,
    ))
}

fn row(d: &RawDetection) -> [f64; 6] {
    let b = &d.bbox;
    [
        b.x1,
        b.y1,
        b.x2,
        b.y2,
        f64::from(d.score),
        d.class_id as f64,
    ]
}
