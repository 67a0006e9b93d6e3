//! Which flags of a run are accepted, and what they become.

use clap::Parser;

use super::*;
use crate::args::{Cli, Command, OnlineCommand};
use crate::exit::Exit;

fn run(args: &[&str]) -> Result<RunRequest, Failure> {
    let line = ["watchkeeper", "run"].iter().chain(args);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Online(OnlineCommand::Run(args)) => check(&args, &Zoo::builtin(), None),
        other => panic!("{other:?}"),
    }
}

fn refusal(args: &[&str]) -> String {
    let failure = run(args).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput, "{args:?}");
    failure.to_string()
}

#[test]
fn back_end_without_network_is_refused_with_its_remedy() {
    let request = run(&["demo:"]).unwrap();
    let failure = request.check_backend(Some("trt")).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput);
    let sentence = failure.to_string();
    assert!(
        sentence.contains("--backend trt") && sentence.contains("--model"),
        "{sentence}"
    );
    assert!(request.check_backend(None).is_ok());
}

#[test]
fn invalid_flags_are_refused_before_the_start() {
    for (args, part) in [
        (
            &["file:///nonexistent.mp4"][..],
            "no such file or folder: file:///nonexistent.mp4",
        ),
        (
            &["/nonexistent.mp4"][..],
            "no such file or folder: /nonexistent.mp4",
        ),
        (
            &["/dev/shm/nonexistent.mp4"][..],
            "no such file or folder: /dev/shm/nonexistent.mp4",
        ),
        (&["rtps://camera/1"], "did you mean rtsp?"),
        (&["demo:", "--rule", "@/dev/zero"], "/dev/zero"),
        (&["demo:", "--model", "yolox-nono"], "yolox-nano"),
        (
            &["demo:", "--model", "yolox-nano"],
            "models pull yolox-nano",
        ),
        (
            &["demo:", "--model", "/nonexistent.onnx"],
            "/nonexistent.onnx",
        ),
        (
            &["demo:", "--workflow", "/nonexistent.json"],
            "/nonexistent.json",
        ),
        (
            &["demo:", "--line", "a:0,0,1,1", "--zone", "a:0,0,9,0,9,9"],
            "used twice",
        ),
        (&["demo:", "--rule", "{\"nam\": 1}"], "nam"),
        (&["demo:", "--tiles"], "--tiles needs a network"),
        (
            &["demo:", "--video", "/nonexistent/out.mp4"],
            "no such folder",
        ),
        (
            &["demo:", "--video", "/tmp/out.avi"],
            "name it /tmp/out.mp4",
        ),
        (
            &["demo:", "--video", "/proc/out.mp4"],
            "can't write to /proc",
        ),
    ] {
        let message = refusal(args);
        assert!(message.contains(part), "{args:?}: {message}");
    }
}

#[test]
fn misspelt_selector_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("w.json");
    let mut workflow = plan::workflow(&Watch::default(), MOTION);
    workflow["steps"][1]["detections"] = serde_json::json!("$steps.detcet.predictions");
    std::fs::write(&file, workflow.to_string()).unwrap();
    let file = file.display().to_string();
    let message = refusal(&["demo:", "--workflow", &file]);
    assert!(message.contains("detcet"), "{message}");
}

#[test]
fn motion_detector_is_the_fallback_with_a_note() {
    let request = run(&["rtsp://camera/1"]).unwrap();
    assert_eq!(request.model.as_deref(), Some(MOTION));
    assert_eq!(request.notes.len(), 1);
    assert_eq!(run(&["demo:"]).unwrap().notes, Vec::<String>::new());
}

#[test]
fn classes_are_ignored_with_a_note_for_the_motion_detector() {
    let request = run(&["demo:", "--model", "motion", "--watch", "person,car"]).unwrap();
    assert!(request.workflow["steps"][0].get("class_filter").is_none());
    assert!(
        request.notes[0].contains("person,car"),
        "{:?}",
        request.notes
    );
}

#[test]
fn default_classes_are_the_moving_ones() {
    let coco = watchkeeper_models::labels::list("coco-91").unwrap();
    let coco: Vec<&str> = coco.iter().map(AsRef::as_ref).collect();
    let mut notes = Vec::new();
    let watched = classes(Vec::new(), &coco, &[], "m", &mut notes).unwrap();
    assert!(watched.iter().any(|c| c == "person") && watched.iter().all(|c| c != "bench"));
    assert!(notes[0].contains("all 80 classes of m"), "{notes:?}");

    notes.clear();
    let all = classes(vec![ALL.to_owned()], &coco, &[], "m", &mut notes).unwrap();
    let own = classes(Vec::new(), &["person", "helmet"], &[], "m", &mut notes).unwrap();
    assert_eq!((all, own, &*notes), (vec![], vec![], &[][..]));
    let usual = ["person".to_owned()];
    let named = classes(Vec::new(), &["person", "boot"], &usual, "m", &mut notes).unwrap();
    assert_eq!(named, usual);
    let asked = classes(
        vec!["boot".to_owned()],
        &["person", "boot"],
        &usual,
        "m",
        &mut notes,
    );
    assert_eq!(asked.unwrap(), ["boot"]);
}

#[test]
fn misspelt_class_is_refused_with_the_nearest_one() {
    let refused = |word: &str, labels: &[&str]| {
        let refused = known_classes(vec![word.to_owned()], labels, "m", &mut Vec::new());
        refused.unwrap_err().to_string()
    };
    let coco = ["person", "car", "truck"];
    let of_objectron = ["person", "vehicle"];
    for (word, labels, expected) in [
        ("persom", &coco[..], "did you mean person?"),
        ("truck", &of_objectron, "did you mean vehicle?"),
        ("child", &coco, "does not know the class \"child\""),
    ] {
        let refused = refused(word, labels);
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn group_of_classes_is_watched_as_its_labels() {
    let watched = |word: &str, labels: &[&str]| {
        known_classes(vec![word.to_owned()], labels, "m", &mut Vec::new()).unwrap()
    };
    let coco = ["person", "car", "truck", "cat"];
    assert_eq!(watched("people", &coco), ["person"]);
    assert_eq!(watched("vehicles", &coco), ["car", "truck"]);
    assert_eq!(watched("Cars", &coco), ["car"]);
    assert_eq!(watched("vehicles", &["person", "vehicle"]), ["vehicle"]);
}
