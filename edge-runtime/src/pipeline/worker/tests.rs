//! A pipeline's thread over a real source.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::Path;

use serde_json::json;

use super::*;
use crate::capture::source::{Deps, Source, SourceHandle};
use crate::media::video::tests::read_back;
use crate::pipeline::detectors::Detectors;
use crate::pipeline::host::DetectHost;
use crate::pipeline::plan::plan;
use crate::pipeline::recorder::tests::recorder;
use crate::pipeline::recordings::{Limits, Recordings};

struct OneSource(SourceHandle);

impl Subscribe for OneSource {
    fn subscribe(&self, _: &SourceId) -> Option<FrameReceiver> {
        Some(self.0.subscribe())
    }
}

/// A pipeline that records what the source at `uri` shows, and nothing else.
fn recording(uri: &Path, state: &Path) -> Worker {
    let source = json!({"id": "cam", "uri": uri});
    let source = Source::spawn(serde_json::from_value(source).unwrap(), Deps::default());
    let spec: PipelineSpec = serde_json::from_value(json!({
        "id": "p", "source": "cam", "record": true, "rules": [],
        "workflow": {"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [], "outputs": []},
    }))
    .unwrap();
    let run = Run::new(
        plan(&spec).unwrap(),
        DetectHost::new(Detectors::default(), 1),
        &spec,
    );
    let limits = Limits {
        max_bytes: 64 << 20,
        max_age: Duration::MAX,
        min_free_bytes: 0,
    };
    let recordings = Arc::new(Recordings::new(state, limits));
    let services = Services {
        sources: Arc::new(OneSource(source)),
        recorder: recorder(state).0,
        metrics: Arc::new(Metrics::new()),
        boot_id: Arc::from("boot"),
        started: Instant::now(),
    };
    let recording = recordings.of(&spec.id);
    Worker::spawn(spec, run, Some(recording), services).unwrap()
}

#[test]
fn a_camera_that_is_set_to_another_size_goes_on_in_a_part_of_its_own() {
    let (pictures, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for n in 0..7u32 {
        let [width, height] = if n < 3 { [64, 48] } else { [96, 64] };
        image::RgbImage::new(width, height)
            .save(pictures.path().join(format!("{n}.png")))
            .unwrap();
    }
    let worker = recording(pictures.path(), state.path());
    let until = Instant::now() + Duration::from_secs(60);
    while worker.state() != PipelineState::Ended {
        assert!(Instant::now() < until, "{:?}", worker.state());
        std::thread::sleep(Duration::from_millis(5));
    }
    let parts = std::fs::read_dir(state.path().join("recordings")).unwrap();
    let mut parts: Vec<PathBuf> = parts.map(|part| part.unwrap().path()).collect();
    parts.sort();
    let seen: Vec<_> = parts.iter().map(|part| read_back(part)).collect();
    assert_eq!(seen, [(3, Some([64, 48])), (4, Some([96, 64]))]);
    assert_eq!(worker.recording().unwrap(), parts[1]);
}
