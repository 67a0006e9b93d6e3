//! Printed answers, paths and durations.

use super::absolute_uri;
use super::*;
use crate::exit::Exit;
use watchkeeper_assistant::wording::pipeline_state;

#[test]
fn deployed_pipeline_prints_its_warnings() {
    let status: PipelineStatus = serde_json::from_value(json!({
        "spec": {"id": "gate", "source": "yard", "workflow": {}},
        "state": {"state": "running"},
        "since": {"unix_ms": 0, "quality": "synced"},
        "rules": [],
        "warnings": [{"kind": "class_filter", "message": "class_filter names \"persn\""}],
        "results": watchkeeper_contract::pipeline::PipelineResults::default(),
    }))
    .unwrap_or_else(|e| panic!("{e}"));
    let text = describe_change(&status);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "pipeline gate is running",
            "warning: class_filter names \"persn\""
        ]
    );
}

#[test]
fn paused_pipeline_shows_when_its_pause_ends() {
    let status = |paused_until: Option<&str>| -> PipelineStatus {
        let mut value = json!({
            "spec": {"id": "gate", "source": "yard", "workflow": {}, "paused": true},
            "state": {"state": "paused"},
            "since": {"unix_ms": 0, "quality": "synced"},
            "rules": [],
            "warnings": [],
            "results": watchkeeper_contract::pipeline::PipelineResults::default(),
        });
        value["paused_until"] = json!(paused_until);
        serde_json::from_value(value).unwrap_or_else(|e| panic!("{e}"))
    };
    assert_eq!(state_with_end(&status(None)), "paused");
    let end = local_time(1_795_000_000_000);
    let until = status(Some("2026-11-18T11:06:40Z"));
    assert_eq!(state_with_end(&until), format!("paused until {end}"));
}

#[test]
fn pipeline_without_frames_is_not_shown_as_running() {
    let state = |limited_by: &str| {
        let status = json!({
            "spec": {"id": "gate", "source": "yard", "workflow": {}},
            "state": {"state": "running"},
            "since": {"unix_ms": 0, "quality": "synced"},
            "looks": {"wanted_fps": 0.0, "looked_fps": 0.0, "limited_by": limited_by},
            "results": watchkeeper_contract::pipeline::PipelineResults::default(),
        });
        state_with_end(&serde_json::from_value(status).unwrap_or_else(|e| panic!("{e}")))
    };
    assert_eq!(state("camera"), "no picture");
    assert_eq!(state("disk"), "waits for the disk");
    assert_eq!(state("capacity"), "running");
}

#[test]
fn cause_of_a_failed_camera_is_shown_once() {
    let cause = "/dev/video9 is no camera";
    let pipelines: Vec<PipelineStatus> = serde_json::from_value(json!([{
        "spec": {"id": "gate", "source": "yard", "workflow": {}},
        "state": {"state": "failed", "message": cause},
        "since": {"unix_ms": 0, "quality": "synced"},
        "results": watchkeeper_contract::pipeline::PipelineResults::default(),
    }]))
    .unwrap_or_else(|e| panic!("{e}"));
    let mut health: Health = serde_json::from_value(json!({
        "state": "degraded", "reasons": ["source \"yard\": gone", "the disk is full"],
        "details": [
            {"kind": "source_state", "source": "yard", "message": "source \"yard\": gone"},
            {"kind": "pipeline_state", "source": "yard", "pipeline": "gate", "message": "failed"},
            {"kind": "kind_of_a_newer_runtime", "message": "the disk is full"},
        ],
        "version": "1", "boot_id": "b", "uptime_s": 1.0, "pid": 1, "last_seq": 0,
    }))
    .unwrap_or_else(|e| panic!("{e}"));
    let shown = |health: &Health| {
        let pipelines = without_causes_of_sources(health, &pipelines);
        pipeline_state(&pipelines[0].state)
    };
    assert_eq!(shown(&health), "failed: its camera \"yard\" failed");
    assert_eq!(not_in_tables(&health), ["the disk is full"]);
    health.details.clear();
    assert_eq!(
        shown(&health),
        format!("failed: {cause}"),
        "an older runtime"
    );
    assert_eq!(
        not_in_tables(&health),
        ["source \"yard\": gone", "the disk is full"]
    );
}

#[test]
fn retry_within_a_second_has_no_number() {
    let lost = |retry_in_s| {
        source_state(&SourceState::Lost {
            cause: watchkeeper_contract::source::LossCause::Refused,
            message: "connection refused".to_owned(),
            retry_in_s,
        })
    };
    assert_eq!(lost(0.4), "lost: connection refused; retrying");
    assert_eq!(lost(1.4), "lost: connection refused; retry in 1 s");
}

#[test]
fn paths_become_absolute_and_missing_relative_ones_fail() {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let clip = dir.path().join("a b.mp4");
    std::fs::write(&clip, "").unwrap_or_else(|e| panic!("{e}"));
    let out = Output::new(false);
    let whole = clip.canonicalize().unwrap_or_else(|e| panic!("{e}"));
    let shown = Ok(whole.display().to_string());
    let plain = clip.display().to_string();
    assert_eq!(absolute_uri(plain.clone(), &out), shown);
    let url = format!("file://{}", plain.replace(' ', "%20"));
    assert_eq!(absolute_uri(url, &out), shown);
    let gone = absolute_uri("no/such.mp4".to_owned(), &out);
    assert_eq!(gone.map_err(|f| f.exit), Err(Exit::BadInput));
    for unchanged in [
        "/no/such.mp4",
        "v4l2:/dev/null?fps=5",
        "/dev/video99",
        "rtsp://cam/1",
    ] {
        assert_eq!(
            absolute_uri(unchanged.to_owned(), &out),
            Ok(unchanged.to_owned())
        );
    }
}

#[test]
fn default_file_of_a_frame_replaces_no_other() {
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let file = folder.path().join("gate.jpg");
    write_new_file(&file, b"first").unwrap_or_else(|e| panic!("{e}"));
    let error = write_new_file(&file, b"second").map(|()| String::new());
    let error = error.unwrap_or_else(|e| e.to_string());
    assert!(error.contains("exists already; use -o"), "{error}");
    assert_eq!(std::fs::read(&file).ok().as_deref(), Some(&b"first"[..]));
}
