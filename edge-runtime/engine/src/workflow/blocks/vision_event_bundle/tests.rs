//! Files and events of a bundle.

use serde_json::{Value as Json, json};

use super::super::super::tests::bench::{Bench, boxes, picture};
use super::*;

/// A bench for a step with these further properties, whose effects are written below `events`.
fn bench(more: &Json) -> Bench {
    let mut step =
        json!({"type": "roboflow_core/vision_event_bundle@v1", "target_directory": "events"});
    for (key, value) in more.as_object().unwrap() {
        step[key] = value.clone();
    }
    let inputs = [("image", Kind::Image), ("boxes", Kind::ObjectDetection)];
    Bench::new(step, &inputs)
}

fn feed(bench: &mut Bench) -> Json {
    let bbox = json!({"x": 20.0, "y": 10.0, "width": 20.0, "height": 10.0, "class": "dog"});
    let image = picture(1, [40, 20], |_, _| [5; 3]);
    let given = [("image", image), ("boxes", boxes([40, 20], &[bbox]))];
    bench.feed(&given).unwrap()
}

fn bundles(bench: &Bench) -> Vec<(&FileBundle, Json)> {
    let payload = |b: &FileBundle| serde_json::from_slice(&b.members[0].bytes).unwrap();
    let all = bench.effects().iter().map(|effect| match effect {
        Effect::Bundle(bundle) => bundle,
        other => panic!("{other:?}"),
    });
    all.map(|b| (b, payload(b))).collect()
}

#[test]
fn event_is_a_file_with_payload_and_pictures() {
    let mut bench = bench(&json!({
        "event_type": "safety_alert", "severity": "high", "alert_type": "no_helmet", "qc_result": "pass",
        "input_image": "$inputs.image", "output_image": "$inputs.image", "predictions": "$inputs.boxes",
        "custom_metadata": {"gate": 3}
    }));
    let out = feed(&mut bench);
    assert_eq!(out["error_status"], false, "{out:#}");
    let all = bundles(&bench);
    let (bundle, payload) = &all[0];
    assert_eq!(bundle.directory, "events");
    let id = out["event_id"].as_str().unwrap();
    assert_eq!(
        bundle.name,
        format!("event_20240506T070809_500000_{id}.tar.gz")
    );
    assert_eq!(out["bundle_path"], format!("events/{}", bundle.name));
    assert_eq!(payload["eventId"], id);
    assert_eq!(payload["timestamp"], "2024-05-06T07:08:09.5Z");
    // Data of another type is dropped.
    assert_eq!(
        payload["eventData"],
        json!({"severity": "high", "alertType": "no_helmet"})
    );
    assert_eq!(payload["customMetadata"], json!({"gate": 3}));
    let image = &payload["images"][0];
    assert_eq!(image["objectDetections"][0]["class"], "dog");
    for key in ["file", "inputFile"] {
        let member = bundle.members.iter().find(|m| m.name == image[key]);
        assert!(member.unwrap().bytes.starts_with(&[0xff, 0xd8]), "{key}");
    }
}

#[test]
fn event_without_pictures_shows_none_and_off_step_no_file() {
    let mut plain = bench(&json!({"event_type": "custom"}));
    feed(&mut plain);
    assert!(bundles(&plain)[0].1.get("displayImagePosition").is_none());
    let mut off = bench(&json!({"event_type": "custom", "disable_sink": true}));
    assert_eq!(feed(&mut off)["bundle_path"], "");
    assert!(off.effects().is_empty());
}

#[test]
fn file_name_is_used_and_refusal_is_reported() {
    let named =
        json!({"event_type": "quality_check", "qc_result": "fail", "file_name": "shift-7.tar.gz"});
    let mut bench_named = bench(&named);
    feed(&mut bench_named);
    let all = bundles(&bench_named);
    assert_eq!(all[0].0.name, "shift-7.tar.gz");
    assert_eq!(all[0].1["eventData"], json!({"result": "fail"}));
    let out = feed(&mut bench(&named).without_effects());
    assert!(
        out["error_status"] == true && out["event_id"] == "",
        "{out:#}"
    );
}

#[test]
fn masks_points_and_classes_have_their_own_lists() {
    let rows = |prediction: Json| classifications(&prediction);
    let several = rows(
        json!({"predictions": {"a": {"confidence": 0.9}, "b": {"confidence": 0.2}}, "predicted_classes": ["a"]}),
    );
    assert_eq!(several, [json!({"class": "a", "confidence": 0.9})]);
    let one = rows(json!({"predictions": [{"class": "a", "confidence": 0.9}], "top": "a"}));
    assert_eq!(one, [json!({"class": "a", "confidence": 0.9})]);
    assert_eq!(
        rows(json!({"predictions": [], "top": "a", "confidence": 0.3}))[0]["confidence"],
        0.3
    );
    let outline = json!([{"x": 0, "y": 0}, {"x": 4, "y": 0}, {"x": 4, "y": 4}]);
    let with_mask = json!({"x": 2.0, "y": 2.0, "width": 4.0, "height": 4.0, "points": outline});
    let lists = annotations(&boxes([8, 8], &[with_mask])).unwrap();
    assert_eq!(
        lists["instanceSegmentations"][0]["points"],
        json!([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0]])
    );
    let keypoint = json!({"x": 1.0, "y": 2.0, "class_id": 5, "class": "nose", "confidence": 0.5});
    let with_points =
        json!({"x": 2.0, "y": 2.0, "width": 4.0, "height": 4.0, "keypoints": [keypoint]});
    let lists = annotations(&boxes([8, 8], &[with_points])).unwrap();
    assert_eq!(
        lists["keypoints"][0]["keypoints"],
        json!([{"id": 5, "x": 1.0, "y": 2.0}])
    );
}
