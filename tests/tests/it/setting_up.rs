//! An LLM sets up a pipeline: the real command, the real runtime, real footage, and a scripted LLM
//! behind the provider's own protocol. Its tool calls are executed; its proposal waits for a
//! confirmation.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Process, data, wait_for, wait_up_to};
use watchkeeper_tests::person::{ask, ask_json, chat, command, types};
use watchkeeper_tests::scene::LONG;
use watchkeeper_tests::scripted_model::{answers, calls, faulty, says, thinks};
use watchkeeper_tests::site::{
    CROSSES, Site, clip, last, line, middle, not_reworded, preview, propose, propose_with, validate,
};

/// A clip of 768 × 432 pixels in which four cars cross the middle, two each way.
const CARS: &str = "intel_car-detection.mp4";

#[test]
fn llm_set_up_counts_like_its_trial_once_confirmed() -> anyhow::Result<()> {
    let Some(data) = data("cars in a car park") else {
        return Ok(());
    };
    let plan = |done: bool| json!({"steps": [{"step": "look at the picture", "done": done}, {"step": "count at the middle", "done": false}]});
    let middle = line([0, 216], [768, 216]);
    let steps = [
        thinks(
            "I look first.",
            &[
                ("update_plan", plan(false)),
                ("get_snapshot", json!({"camera": "test"})),
            ],
        ),
        validate(&middle),
        preview("d1"),
        calls(&[(
            "dry_run_workflow",
            json!({"draft": "d1", "camera": "test", "rules": CROSSES, "seconds": 29}),
        )]),
        propose("d1"),
        answers("I propose to count what crosses the middle."),
    ];
    let site = Site::new(&clip(&data, CARS), "", &steps)?;
    let words = "Watch test and count people crossing the middle of the frame";
    let (code, objects, errors) = ask_json(&site.bench, &["--think", words])?;
    assert_eq!(code, 0, "{errors} {objects:#?}");
    let proposal = last(&objects, "proposal")?;
    assert_eq!(proposal["difference"][0]["becomes"], "new");
    assert_eq!(proposal["assumed"], json!(["everything that moves"]));
    let really = proposal["by_model"]["really"].to_string();
    assert!(
        really.contains("line middle from 0,216 to 768,216"),
        "{really}"
    );
    let tried = proposal["by_model"]["evidence"].to_string();
    assert!(
        tried.contains("2 in, 2 out") && tried.contains("4 events"),
        "{tried}"
    );
    let replay = &proposal["tried"][0];
    let outcome = [&replay["backtest"], &replay["not_replayed"]];
    assert!(outcome.iter().any(|found| !found.is_null()), "{replay}");
    let cost = last(&objects, "note")?["message"].to_string();
    assert!(
        cost.contains("6 calls of the LLM") && cost.contains('$'),
        "{cost}"
    );
    assert!(site.pipelines()?.is_empty(), "nothing was said yes to");
    assert!(site.bench.events()?.is_empty(), "a dry run tells nobody");

    let id = proposal["id"].as_str().context("an id")?.to_owned();
    let (code, objects, errors) = ask_json(&site.bench, &["--confirm", &id])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(types(&objects), ["done"], "{objects:#?}");
    let ended = wait_up_to(LONG, "the end of the clip", || {
        let all = site.pipelines().ok()?;
        all.into_iter().find(|p| p["state"]["state"] == "ended")
    })?;
    assert_eq!(ended["spec"], proposal["changes"][0]["spec"]);
    assert_eq!(
        ended["results"]["lines"]["middle"],
        json!({"in": 2, "out": 2})
    );
    // Snapshot and preview reached the LLM as pictures, and the trace holds their hashes.
    for tool in ["get_snapshot", "preview_workflow"] {
        let results = site.results(tool)?;
        assert!(
            results.len() == 1 && results[0].contains("xxh3:"),
            "{tool}: {results:?}"
        );
    }
    for what in [
        "model",
        "thought",
        "gate",
        "tool",
        "result",
        "cost",
        "reflection",
        "proposal",
        "confirmed",
        "done",
    ] {
        assert!(!site.traced(what)?.is_empty(), "{what}");
    }
    let pictures: Vec<PathBuf> = std::fs::read_dir(site.bench.path("home/watchkeeper/previews"))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(pictures.len(), 2, "of the LLM's preview and of the trial");
    site.model.finish()
}

#[test]
fn unknown_request_goes_to_llm_and_chat_yes_applies_it() -> anyhow::Result<()> {
    let steps = [
        not_reworded(),
        calls(&[
            ("list_cameras", json!({})),
            ("list_workflow_blocks", json!({"category": ""})),
        ]),
        calls(&[(
            "get_block_details",
            json!({"type": "roboflow_core/line_counter@v2"}),
        )]),
        validate(&middle()),
        preview("d1"),
        propose("d1"),
        answers("Es wartet auf dein Ja."),
    ];
    let site = Site::demo(&steps)?;
    let said = chat(
        &site.bench,
        "Wer da so alles langlatscht, das zähl mal\nyes\n",
    )?;
    let proposal = last(&said, "proposal")?;
    assert_eq!(proposal["by_model"]["model"], "claude-sonnet-5-5");
    // It is replayed too; nothing watched this camera before.
    let why = &proposal["tried"][0]["not_replayed"];
    assert!(
        why.as_str().is_some_and(|why| why.contains("no history")),
        "{proposal:#}"
    );
    last(&said, "done")?;
    assert_eq!(site.pipelines()?.len(), 1);
    site.model.finish()
}

#[test]
fn other_reply_than_yes_changes_nothing_and_reaches_llm() -> anyhow::Result<()> {
    let (left, right) = (line([100, 0], [100, 360]), line([500, 0], [500, 360]));
    let steps = [
        not_reworded(),
        validate(&left),
        preview("d1"),
        propose("d1"),
        answers("Left."),
        not_reworded(),
        validate(&right),
        preview("d1"),
        propose("d1"),
        answers("Right."),
    ];
    let site = Site::demo(&steps)?;
    let said = chat(&site.bench, "Zähl mal links\nNee, lieber rechts drüben\n")?;
    let proposals: Vec<&Value> = said.iter().filter(|o| o["type"] == "proposal").collect();
    assert_eq!(proposals.len(), 2, "{said:#?}");
    assert!(site.pipelines()?.is_empty());
    let looks = site.results("look_around")?;
    assert!(
        !looks[0].contains("came_of_it") && looks[1].contains("came_of_it"),
        "{looks:?}"
    );
    site.model.finish()
}

#[test]
fn invalid_definition_is_fixed_by_validation_errors() -> anyhow::Result<()> {
    let mut wrong = middle();
    wrong["steps"][2]["type"] = json!("roboflow_core/line_countr@v2");
    let steps = [
        calls(&[(
            "validate_workflow",
            json!({"workflow": "{\"version\": \"1.0\", "}),
        )]),
        validate(&wrong),
        validate(&middle()),
        preview("d1"),
        propose("d1"),
        answers("Done."),
    ];
    let site = Site::demo(&steps)?;
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "count"])?;
    assert_eq!(code, 0, "{errors}");
    last(&objects, "proposal")?;
    let checks = site.results("validate_workflow")?;
    assert!(checks[0].contains("not JSON"), "{checks:?}");
    assert!(checks[1].contains("which does not exist"), "{checks:?}");
    assert!(checks[2].contains("\\\"draft\\\":\\\"d1\\\""), "{checks:?}");
    site.model.finish()
}

#[test]
fn misplaced_line_is_fixed_by_preview_before_the_proposal() -> anyhow::Result<()> {
    let steps = [
        validate(&line([900, 0], [900, 360])),
        // A proposal before the preview, and one after it.
        propose("d1"),
        preview("d1"),
        propose("d1"),
        validate(&middle()),
        // A preview and a proposal in one answer: the model has not seen the picture.
        calls(&[
            ("preview_workflow", json!({"draft": "d2", "camera": "test"})),
            (
                "propose_deployment",
                json!({"draft": "d2", "camera": "test", "pipeline": "cars", "rules": CROSSES,
                    "says": "Counts cars.", "assumed": [], "not_possible": []}),
            ),
        ]),
        propose("d2"),
        answers("Now it lies in the picture."),
    ];
    let site = Site::demo(&steps)?;
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "count"])?;
    assert_eq!(code, 0, "{errors}");
    let proposal = last(&objects, "proposal")?;
    let really = proposal["by_model"]["really"].to_string();
    assert!(really.contains("320,0 to 320,360"), "{really}");
    let refused = site.results("propose_deployment")?;
    assert!(
        refused[0].contains("look at it with preview_workflow"),
        "{refused:?}"
    );
    assert!(refused[1].contains("640x360"), "{refused:?}");
    assert!(refused[2].contains("have not seen"), "{refused:?}");
    let seen = site.results("preview_workflow")?;
    assert!(seen[0].contains("reaches out of the picture"), "{seen:?}");
    site.model.finish()
}

#[test]
fn unknown_class_is_reported_and_nothing_is_proposed() -> anyhow::Result<()> {
    let steps = [
        calls(&[
            ("list_available_models", json!({})),
            ("list_workflow_blocks", json!({"category": "model"})),
        ]),
        answers("No model here knows that; motion sees only that something moves."),
    ];
    let site = Site::demo(&steps)?;
    let words = "Set up PPE detection – alert when someone doesn't have a hard hat";
    let (code, objects, errors) = ask_json(&site.bench, &["--think", words])?;
    assert_eq!(code, 0, "{errors}");
    let answer = last(&objects, "answer")?;
    assert!(
        answer["text"].to_string().contains("No model here"),
        "{answer}"
    );
    let models = site.results("list_available_models")?;
    assert!(
        models[0].contains("motion") && models[0].contains("person"),
        "{models:?}"
    );
    let blocks = site.results("list_workflow_blocks")?;
    assert!(blocks[0].contains("classification_model"), "{blocks:?}");
    assert!(site.pipelines()?.is_empty());
    site.model.finish()
}

#[test]
fn llm_can_read_only_the_attached_picture() -> anyhow::Result<()> {
    let site = Site::demo(&[
        calls(&[
            (
                "infer_image",
                json!({"camera": "", "picture": "shelf.png", "model_id": "motion", "classes": [], "confidence": 0.3}),
            ),
            (
                "infer_image",
                json!({"camera": "", "picture": "/etc/passwd", "model_id": "motion", "classes": [], "confidence": 0.3}),
            ),
        ]),
        answers("A grey shelf."),
    ])?;
    let picture = site.bench.path("shelf.png");
    image::RgbImage::from_pixel(64, 48, image::Rgb([90, 90, 90])).save(&picture)?;
    let picture = picture.display().to_string();
    let (code, objects, errors) =
        ask_json(&site.bench, &["--image", &picture, "What's in this image?"])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(last(&objects, "answer")?["text"], "A grey shelf.");
    let looks = site.results("infer_image")?;
    assert!(looks[0].contains("xxh3:"), "{looks:?}");
    assert!(looks[1].contains("there is no picture"), "{looks:?}");
    site.model.finish()
}

#[test]
fn confirmed_proposal_stops_every_pipeline() -> anyhow::Result<()> {
    let stop = json!({"action": "stop", "pipelines": ["one", "two"], "says": "Stops both."});
    let site = Site::demo(&[
        calls(&[("list_streams", json!({}))]),
        calls(&[("propose_control", stop)]),
        answers("Both wait for your yes."),
    ])?;
    for id in ["one", "two"] {
        let spec = json!({"id": id, "source": "test", "workflow": middle()});
        site.bench.json("POST", "/v1/pipelines", Some(&spec))?;
    }
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "Stop all pipelines"])?;
    assert_eq!(code, 0, "{errors}");
    let proposal = last(&objects, "proposal")?;
    assert_eq!(site.pipelines()?.len(), 2);
    let id = proposal["id"].as_str().context("an id")?;
    let (code, _, errors) = ask_json(&site.bench, &["--confirm", id])?;
    assert_eq!(code, 0, "{errors}");
    assert!(site.pipelines()?.is_empty());
    site.model.finish()
}

#[test]
fn stale_llm_proposal_is_shown_again_despite_auto_approval() -> anyhow::Result<()> {
    let stop = json!({"action": "stop", "pipelines": ["one"], "says": "Stops it."});
    let steps = [
        calls(&[("propose_control", stop.clone())]),
        answers("It waits."),
    ];
    let site = Site::demo(&[steps.clone(), steps].concat())?;
    let mut spec = json!({"id": "one", "source": "test", "workflow": middle()});
    site.bench.json("POST", "/v1/pipelines", Some(&spec))?;
    let out = ask(&site.bench, &["--think", "--yes", "Stop it"])?;
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{errors}");
    assert!(errors.contains("words of a language model"), "{errors}");
    let (_, objects, _) = ask_json(&site.bench, &["--think", "Stop it, really"])?;
    let id = last(&objects, "proposal")?["id"]
        .as_str()
        .context("an id")?
        .to_owned();
    spec["stop_after_s"] = json!(500.0);
    site.bench.json("PUT", "/v1/pipelines/one", Some(&spec))?;
    let (code, objects, errors) = ask_json(&site.bench, &["--confirm", &id])?;
    assert_eq!(code, 1, "{errors}");
    assert_eq!(site.pipelines()?.len(), 1);
    let renewed = last(&objects, "proposal")?["id"]
        .as_str()
        .context("an id")?
        .to_owned();
    let (code, _, errors) = ask_json(&site.bench, &["--confirm", &renewed])?;
    assert_eq!(code, 0, "{errors}");
    assert!(site.pipelines()?.is_empty());
    site.model.finish()
}

#[test]
fn killed_set_up_resumes_and_repeats_no_tool() -> anyhow::Result<()> {
    let note = calls(&[(
        "memory_note",
        json!({"words": "the door is left", "camera": "test"}),
    )]);
    // The command is killed while the LLM sends nothing.
    let stall = faulty(answers("…"), &json!({"kind": "stall"}));
    let site = Site::demo(&[note, stall, answers("The door is left.")])?;
    let mut killed = command(&site.bench)?;
    killed.args(["ask", "--think", "where is the door"]);
    let killed = Process::start(killed, &site.bench.path("killed.log"))?;
    wait_for("the call that gets no answer", || {
        let asked = site.model.requests().ok()?;
        (asked.len() == 2).then_some(())
    })?;
    killed.kill()?;
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "where is the door"])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(last(&objects, "answer")?["text"], "The door is left.");
    assert_eq!(
        site.results("memory_note")?.len(),
        1,
        "the note is not written again"
    );
    assert_eq!(site.results("look_around")?.len(), 1);
    assert_eq!(site.traced("resumed")?.len(), 1);
    let left = std::fs::read_dir(site.bench.path("home/watchkeeper/turns"))?.count();
    assert_eq!(left, 0, "nothing is left of it");
    site.model.finish()
}

/// Makes a step in which a small LLM rewords a request in another language.
fn reworded(language: &str, request: &str) -> Value {
    says(&json!({"language": language, "request": request, "left_out": [], "job": "set-up"}))
}

const TELL: &str = "Tell me when something crosses the vertical line at 50%.";

#[test]
fn german_request_uses_rules_only_if_the_llm_fails() -> anyhow::Result<()> {
    let fails = || json!({"fault": {"kind": "refusal", "category": "general_harms"}});
    let site = Site::demo(&[
        reworded("de", TELL),
        answers("Soll ich die Mitte nehmen?"),
        reworded("de", TELL),
        fails(),
    ])?;
    let words = "Sag Bescheid, wenn irgendwas die Mitte quert";
    let (code, objects, errors) = ask_json(&site.bench, &[words])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(
        last(&objects, "answer")?["text"],
        "Soll ich die Mitte nehmen?"
    );
    let (code, objects, errors) = ask_json(&site.bench, &[words])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(last(&objects, "proposal")?["request"], TELL);
    assert!(site.pipelines()?.is_empty());
    site.model.finish()
}

#[test]
fn unknown_class_goes_to_llm_then_to_the_user() -> anyhow::Result<()> {
    let site = Site::demo(&[
        not_reworded(),
        answers("No model here knows a safe; shall I tell you of whatever moves there?"),
        json!({"fault": {"kind": "refusal", "category": "general_harms"}}),
    ])?;
    let words = "Tell me when a safe appears";
    let (code, objects, errors) = ask_json(&site.bench, &[words])?;
    assert_eq!(code, 0, "{errors}");
    assert!(
        last(&objects, "answer")?["text"]
            .to_string()
            .contains("No model here knows a safe")
    );
    // The LLM is no help: the rules refuse as they would have without it, and name what helps.
    let (code, objects, errors) = ask_json(&site.bench, &[words])?;
    assert_eq!(code, 2, "{errors}");
    let refused = last(&objects, "failure")?.to_string();
    for part in ["understand \\\"safe\\\"", "what objects can you detect"] {
        assert!(refused.contains(part), "{refused}");
    }
    site.model.finish()
}

#[test]
fn unrunnable_draft_and_unknown_channel_are_refused() -> anyhow::Result<()> {
    let mut elsewhere = middle();
    for step in elsewhere["steps"].as_array_mut().context("steps")? {
        if step.get("model_id").is_some() {
            step["model_id"] = json!("yolo_world/v2-s");
        }
    }
    let rules = json!([{"name": "in", "when": {"kind": "crosses", "line": "middle", "direction": "any"}, "notify": ["police"]}]);
    let site = Site::demo(&[
        validate(&elsewhere),
        validate(&middle()),
        preview("d1"),
        propose_with("d1", &rules.to_string(), 0),
        answers("There is no such channel."),
    ])?;
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "call the police"])?;
    assert_eq!(code, 0, "{errors}");
    let checked = site.results("validate_workflow")?;
    assert!(
        checked[0].contains("yolo_world/v2-s") && checked[0].contains("on this box"),
        "{checked:?}"
    );
    assert!(checked[1].contains("d1"), "{checked:?}");
    let proposed = site.results("propose_deployment")?;
    assert!(proposed[0].contains("is not configured"), "{proposed:?}");
    assert!(last(&objects, "proposal").is_err(), "{objects:#?}");
    site.model.finish()
}

#[test]
fn rules_change_without_draft_keeps_everything_else() -> anyhow::Result<()> {
    let rules = r#"[{"name": "crossed", "when": {"kind": "crosses", "line": "middle"}, "schedule": {"from": "18:00", "to": "06:00"}}]"#;
    let put_up = |pipeline: &str| json!({"draft": "running", "camera": "Test", "pipeline": pipeline, "rules": rules, "says": "At night alone.", "assumed": [], "not_possible": []});
    let site = Site::demo(&[
        calls(&[(
            "stream_status",
            json!({"pipeline": "night CARS", "definition": false}),
        )]),
        calls(&[("propose_deployment", put_up("dock"))]),
        calls(&[("propose_deployment", put_up("Night cars"))]),
        answers("It waits for your yes."),
    ])?;
    let spec = json!({"id": "cars", "name": "Night cars", "source": "test", "workflow": middle(), "model": "motion", "show": true, "stop_after_s": 90000.0});
    site.bench.json("POST", "/v1/pipelines", Some(&spec))?;
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "only at night"])?;
    assert_eq!(code, 0, "{errors}");
    let refused = site.results("propose_deployment")?;
    assert!(
        refused[0].contains("no pipeline dock whose workflow can stay"),
        "{refused:?}"
    );
    let status = site.results("stream_status")?;
    assert!(
        status[0].contains("stop_after_s") && status[0].contains("left_s"),
        "{status:?}"
    );
    let proposal = last(&objects, "proposal")?;
    assert_eq!(
        proposal["difference"][0]["time"],
        "its time restarts: it ends 90000 s after the change"
    );
    let id = proposal["id"].as_str().context("an id")?;
    let (code, _, errors) = ask_json(&site.bench, &["--confirm", id])?;
    assert_eq!(code, 0, "{errors}");
    let runs = site.pipelines()?;
    let runs = &runs.first().context("a pipeline")?["spec"];
    for kept in [
        "id",
        "name",
        "source",
        "workflow",
        "model",
        "show",
        "stop_after_s",
    ] {
        assert_eq!(runs[kept], spec[kept], "{kept}");
    }
    assert_eq!(runs["rules"][0]["schedule"]["from"], "18:00");
    site.model.finish()
}
