//! The eight scenarios of the agent's design, each from a user's request to its result: real
//! programs, real footage, a scripted LLM.
//!
//! | # | The person says | What shows it |
//! |---|---|---|
//! | 1 | "Detect all people in this video: test.mp4" | [`people_in_a_recording_are_detected_and_reported`] |
//! | 2 | "Watch test.mp4 and count people crossing the middle of the frame" | `setting_up.rs`: `llm_set_up_counts_like_its_trial_once_confirmed`; the clip is a car park |
//! | 3 | "What objects can you detect?" | [`detectable_classes_are_those_of_the_boxs_models`] |
//! | 4 | "Use the YOLO-World model to find all 'coffee cups' in image.jpg" | [`object_in_a_picture_is_found_by_the_local_model`]: the box has no text-prompted detector, so the reply says that YOLO-World is missing, and the present model looks for its class `cup` |
//! | 5 | "Stop all pipelines" | `setting_up.rs`: `confirmed_proposal_stops_every_pipeline` |
//! | 6 | "Set up PPE detection – alert when someone doesn't have a hard hat" | [`own_model_alerts_on_missing_hard_hats`] (with the user's own network), `setting_up.rs`: `unknown_class_is_reported_and_nothing_is_proposed` |
//! | 7 | "What's in this image?" with a picture | [`question_about_a_picture_is_answered_by_the_llm`] |
//! | 8 | an invalid workflow | `setting_up.rs`: validation errors fix an invalid definition, the preview fixes a misplaced line, both within two attempts |

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{data, wait_up_to};
use watchkeeper_tests::person::ask_json;
use watchkeeper_tests::scene::LONG;
use watchkeeper_tests::scripted_model::{answers, calls};
use watchkeeper_tests::site::{DEMO, Site, clip, last, validate};

/// Fills a folder of models with the network of the footage; returns the name under which the box
/// knows it.
fn with_network(data: &Path, folder: &Path) -> anyhow::Result<String> {
    let models = folder.join("models");
    fs::create_dir(&models)?;
    fs::copy(
        data.join("models/yolox_nano.onnx"),
        models.join("yolox-nano.onnx"),
    )?;
    Ok(format!("[models]\ndir = {models:?}\n"))
}

/// Makes a workflow with a model that detects these classes, and a tracker after it.
fn detection(model: &str, kind: &str, classes: &[&str]) -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": format!("roboflow_core/{kind}"), "name": "detect", "images": "$inputs.image", "model_id": model, "class_filter": classes},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
        ],
        "outputs": [{"type": "JsonField", "name": "found", "selector": "$steps.detect.predictions"}],
    })
}

/// Makes a step that proposes the first draft as this pipeline.
fn propose(pipeline: &str, rules: &Value, says: &str) -> Value {
    calls(&[(
        "propose_deployment",
        json!({
            "draft": "d1", "camera": "test", "pipeline": pipeline, "rules": rules.to_string(), "says": says,
            "assumed": [], "not_possible": [], "stop_after_s": 0,
        }),
    )])
}

/// Asks, confirms the proposal, and waits for the end of the recording; returns the pipeline.
fn confirmed(site: &Site, words: &str) -> anyhow::Result<Value> {
    let (code, objects, errors) = ask_json(&site.bench, &["--think", words])?;
    ensure!(code == 0, "{errors} {objects:#?}");
    let proposal = last(&objects, "proposal")?;
    ensure!(site.pipelines()?.is_empty(), "nothing was said yes to");
    let id = proposal["id"].as_str().context("an id")?;
    let (code, _, errors) = ask_json(&site.bench, &["--confirm", id])?;
    ensure!(code == 0, "{errors}");
    wait_up_to(2 * LONG, "the end of the recording", || {
        let all = site.pipelines().ok()?;
        all.into_iter().find(|p| p["state"]["state"] == "ended")
    })
}

/// Returns the LLM's answer to a question.
fn answer(site: &Site, arguments: &[&str]) -> anyhow::Result<String> {
    let (code, objects, errors) = ask_json(&site.bench, arguments)?;
    ensure!(code == 0, "{errors} {objects:#?}");
    Ok(last(&objects, "answer")?["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// Returns the classes of the rule events.
fn classes(site: &Site) -> anyhow::Result<Vec<String>> {
    let events = site.bench.events()?;
    let new = events
        .iter()
        .filter(|e| e["body"]["kind"] == "rule" && e["phase"] == "new");
    Ok(new
        .map(|e| e["body"]["label"].as_str().unwrap_or_default().to_owned())
        .collect())
}

#[test]
fn people_in_a_recording_are_detected_and_reported() -> anyhow::Result<()> {
    let Some(data) = data("people on a pavement, by a network") else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let appears = json!([{"name": "person", "when": {"kind": "appears", "detections": "$steps.tracker.tracked_detections"}}]);
    let steps = [
        calls(&[("list_available_models", json!({}))]),
        validate(&detection(
            "yolox-nano",
            "roboflow_object_detection_model@v2",
            &["person"],
        )),
        propose("people", &appears, "Detects all people in the recording."),
        answers("It waits for your yes."),
        calls(&[
            (
                "stream_status",
                json!({"pipeline": "people", "definition": false}),
            ),
            (
                "query_events",
                json!({"camera": "test", "class": "person", "hours": 0}),
            ),
        ]),
        answers("People walk by, several at a time."),
    ];
    let site = Site::new(
        &clip(&data, "TUD-Campus.mp4"),
        &with_network(&data, folder.path())?,
        &steps,
    )?;
    let ended = confirmed(&site, "Detect all people in this video: test.mp4")?;
    ensure!(
        ended["detector"].to_string().contains("yolox-nano"),
        "{ended:#}"
    );
    // Six people walk by at a time, of whom some hide others.
    let found = ended
        .pointer("/results/outputs/found/predictions")
        .and_then(Value::as_array);
    let found = found.with_context(|| format!("{ended:#}"))?;
    ensure!(
        found.len() >= 2 && found.iter().all(|d| d["class"] == "person"),
        "{found:#?}"
    );
    let people = classes(&site)?;
    ensure!(
        people.len() >= 3 && people.iter().all(|class| class == "person"),
        "{people:?}"
    );
    // The LLM reports them from what the box says.
    let said = answer(&site, &["--think", "What did you find?"])?;
    let rules = said.strip_prefix("People walk by, several at a time.\n");
    let is_named = rules.is_some_and(|rules| rules.starts_with("By the journal: person, "));
    ensure!(is_named, "{said}");
    // The whole answer, which the trace would cut.
    let requests = site.model.requests()?;
    let told = requests.last().context("a request")?["body"].to_string();
    let number = format!("\\\"number\\\":{}", people.len());
    for part in ["\\\"classes\\\":[\\\"person\\\"]", number.as_str()] {
        ensure!(told.contains(part), "no {part} in {told}");
    }
    site.model.finish()
}

#[test]
fn detectable_classes_are_those_of_the_boxs_models() -> anyhow::Result<()> {
    let Some(data) = data("what a network knows") else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let steps = [
        calls(&[
            ("list_workflow_blocks", json!({"category": "model"})),
            ("list_available_models", json!({})),
        ]),
        answers("Eighty classes, such as person, car and cup."),
    ];
    let site = Site::new(DEMO, &with_network(&data, folder.path())?, &steps)?;
    let said = answer(&site, &["--think", "What objects can you detect?"])?;
    ensure!(said.starts_with("Eighty"), "{said}");
    let requests = site.model.requests()?;
    let told = requests.last().context("a request")?["body"].to_string();
    for known in ["yolox-nano", "motion", "person", "cup", "toothbrush"] {
        let known = format!("\\\"{known}\\\"");
        ensure!(told.contains(&known), "no {known} in {told}");
    }
    ensure!(told.contains("roboflow_object_detection_model"), "{told}");
    ensure!(site.pipelines()?.is_empty());
    site.model.finish()
}

#[test]
fn object_in_a_picture_is_found_by_the_local_model() -> anyhow::Result<()> {
    let Some(data) = data("a cup in a photo, by a network") else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let looks = |model: &str, class: &str| {
        calls(&[(
            "infer_image",
            json!({"camera": "", "picture": "image.jpg", "model_id": model, "classes": [class], "confidence": 0.3}),
        )])
    };
    let steps = [
        looks("yolo-world", "coffee cup"),
        looks("yolox-nano", "coffee cup"),
        looks("yolox-nano", "cup"),
        answers("YOLO-World is not here; the model that is finds one cup."),
    ];
    let site = Site::new(DEMO, &with_network(&data, folder.path())?, &steps)?;
    let picture = photo(&data, folder.path())?;
    let words = "Use the YOLO-World model to find all 'coffee cups' in image.jpg";
    let said = answer(&site, &["--think", "--image", &picture, words])?;
    ensure!(said.contains("finds one cup"), "{said}");
    let looked = site.results("infer_image")?;
    ensure!(
        looked[0].contains("there is no model") && looked[0].contains("yolox-nano"),
        "{looked:?}"
    );
    ensure!(
        looked[1].contains("does not know the class") && looked[1].contains("cup"),
        "{looked:?}"
    );
    ensure!(
        looked[2].contains("\\\"found\\\":1") && looked[2].contains("cup"),
        "{looked:?}"
    );
    ensure!(site.pipelines()?.is_empty());
    site.model.finish()
}

/// Writes a photo of a cup on a table.
fn photo(data: &Path, folder: &Path) -> anyhow::Result<String> {
    let path = folder.join("image.jpg");
    fs::copy(data.join("coco/images/000000002592.jpg"), &path)?;
    Ok(path.display().to_string())
}

#[test]
fn question_about_a_picture_is_answered_by_the_llm() -> anyhow::Result<()> {
    let Some(data) = data("a photo") else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let looks = json!({"camera": "", "picture": "image.jpg", "model_id": "motion", "classes": [], "confidence": 0.3});
    let site = Site::demo(&[
        calls(&[("infer_image", looks)]),
        answers("A cup and a plate on a table."),
    ])?;
    let picture = photo(&data, folder.path())?;
    // The rules read no picture, so the request goes to the LLM without `--think`.
    let said = answer(&site, &["--image", &picture, "What's in this image?"])?;
    ensure!(said == "A cup and a plate on a table.", "{said}");
    let requests = site.model.requests()?;
    let sent = requests.last().context("a request")?["body"]["messages"].clone();
    let sent = sent
        .as_array()
        .and_then(|m| m.last())
        .context("a message")?;
    let sent = &sent["content"][0]["content"][0];
    ensure!(
        sent["type"] == "image" && sent["source"]["media_type"] == "image/jpeg",
        "{}",
        sent["type"]
    );
    ensure!(site.pipelines()?.is_empty());
    site.model.finish()
}

/// Writes models and a recording. A bright object crosses the picture; the network reports it as a
/// head without a hard hat.
fn building_site(folder: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (models, place) = (folder.join("models"), folder.join("place"));
    fs::create_dir(&models)?;
    fs::create_dir(&place)?;
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    fs::copy(own.join("bright-seg.onnx"), models.join("hard-hats.onnx"))?;
    let manifest = fs::read_to_string(own.join("bright-seg.toml"))?;
    let manifest = manifest
        .replace("bright-seg", "hard-hats")
        .replace("\"thing\"", "\"no-hardhat\"");
    fs::write(models.join("hard-hats.toml"), manifest)?;
    for frame in 0..40_u32 {
        let left = frame.saturating_sub(10) * 2;
        let picture = image::RgbImage::from_fn(128, 64, |x, y| {
            let is_bright = frame >= 10 && (left..left + 40).contains(&x) && (16..48).contains(&y);
            image::Rgb(if is_bright { [255; 3] } else { [0; 3] })
        });
        picture.save(place.join(format!("{frame:02}.png")))?;
    }
    Ok((models, place))
}

#[test]
fn own_model_alerts_on_missing_hard_hats() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (models, place) = building_site(folder.path())?;
    let alert = json!([{
        "name": "no-hard-hat", "severity": "critical", "classes": ["no-hardhat"],
        "when": {"kind": "appears", "detections": "$steps.tracker.tracked_detections"},
    }]);
    let steps = [
        calls(&[("list_available_models", json!({}))]),
        validate(&detection(
            "hard-hats",
            "roboflow_instance_segmentation_model@v2",
            &["no-hardhat"],
        )),
        propose("hats", &alert, "Notifies you of anyone without a hard hat."),
        answers("It waits for your yes."),
    ];
    let site = Site::new(
        &place.display().to_string(),
        &format!("[models]\ndir = {models:?}\n"),
        &steps,
    )?;
    let words = "Set up PPE detection – alert when someone doesn't have a hard hat";
    let ended = confirmed(&site, words)?;
    ensure!(
        ended["results"]["step_errors"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty),
        "{ended:#}"
    );
    ensure!(
        classes(&site)? == ["no-hardhat"],
        "{:#?}",
        site.bench.events()?
    );
    ensure!(site.results("list_available_models")?[0].contains("no-hardhat"));
    site.model.finish()
}
