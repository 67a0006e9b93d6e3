//! Tools of an LLM on the real runtime: looking by every task, results of a pipeline and its
//! history, edits of a draft. Also a question that is handed over to the set-up.

use std::path::Path;

use anyhow::ensure;
use serde_json::{Value, json};
use watchkeeper_tests::daemons::wait_up_to;
use watchkeeper_tests::person::ask_json;
use watchkeeper_tests::scene::LONG;
use watchkeeper_tests::scripted_model::{answers, calls};
use watchkeeper_tests::site::{CROSSES, DEMO, Site, last, middle, preview, propose, validate};

/// Runs `watchkeeper ask` and fails unless it succeeds.
fn ask(site: &Site, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let (code, objects, errors) = ask_json(&site.bench, arguments)?;
    ensure!(code == 0, "{errors} {objects:#?}");
    Ok(objects)
}

#[test]
fn llm_looks_by_every_task_and_at_the_results_of_a_pipeline() -> anyhow::Result<()> {
    let look = |task: &str, model: &str, classes: Value| {
        let arguments = json!({
            "task": task, "camera": "test", "picture": "", "model_id": model, "classes": classes,
            "confidence": 0.3,
        });
        ("infer_image", arguments)
    };
    let labels = json!(["bright", "dark"]);
    let site = Site::new(
        DEMO,
        &format!(
            "[models]\ndir = {:?}\n",
            Path::new(env!("CARGO_MANIFEST_DIR")).join("models")
        ),
        &[
            calls(&[
                look("read_text", "bright-class", json!([])),
                look("zero_shot", "bright-clip", json!([])),
                look("classify", "bright-class", json!([])),
                look("zero_shot", "bright-clip", labels.clone()),
                look("zero_shot", "bright-words", labels),
                look("read_text", "bright-page", json!([])),
            ]),
            calls(&[
                ("get_snapshot", json!({"camera": "", "pipeline": "watched"})),
                (
                    "stream_status",
                    json!({"pipeline": "watched", "definition": false, "past_hours": 1}),
                ),
                (
                    "query_events",
                    json!({"camera": "", "class": "", "hours": 1, "by": "hour"}),
                ),
                ("get_example", json!({"name": "both-at-once"})),
            ]),
            answers("It moves."),
        ],
    )?;
    let rules: Value = serde_json::from_str(CROSSES)?;
    let spec = json!({"id": "watched", "source": "test", "workflow": middle(), "rules": rules});
    site.bench.json("POST", "/v1/pipelines", Some(&spec))?;
    wait_up_to(LONG, "a crossing", || {
        let events = site.bench.events().ok()?;
        events
            .iter()
            .any(|e| e["pipeline"] == "watched")
            .then_some(())
    })?;
    ask(&site, &["--think", "What is to be seen?"])?;
    let looks = site.results("infer_image")?;
    for (at, part) in [
        (0, "the models that do it are: bright-page, bright-text"),
        (1, "zero_shot needs 1 to 40 descriptions"),
        (2, "\\\"top\\\""),
        (3, "most_similar_class"),
        (4, "predictions"),
        (5, "\\\"result\\\""),
    ] {
        let is_error = looks[at].contains("\"is_error\":true");
        ensure!(
            looks[at].contains(part) && is_error == (at < 2),
            "{part}: {}",
            looks[at]
        );
    }
    let frames = site.results("get_snapshot")?;
    ensure!(frames[0].contains("xxh3:"), "{frames:?}");
    let status = site.results("stream_status")?;
    ensure!(
        status[0].contains("covered_s") && status[0].contains("crossed"),
        "{status:?}"
    );
    let events = site.results("query_events")?;
    for part in ["coverage", "beginning_and_number", "\\\"known\\\""] {
        ensure!(events[0].contains(part), "{part}: {events:?}");
    }
    let example = site.results("get_example")?;
    ensure!(example[0].contains("DetectionsFilter"), "{example:?}");
    site.model.finish()
}

#[test]
fn question_is_handed_over_and_the_set_up_edits_its_draft() -> anyhow::Result<()> {
    let edits = |find: &str, replace: &str| json!([{"find": find, "replace": replace}]);
    let edit = |find: &str, replace: &str| {
        let arguments = json!({"draft": "d1", "edits": edits(find, replace)});
        calls(&[("validate_workflow", arguments)])
    };
    let tried = json!({
        "draft": "d2", "edits": edits("\"middle\",\"type\"", "\"middle\",\"type\""),
        "camera": "test", "rules": CROSSES, "seconds": 1, "hours": 0,
    });
    let forbidden = json!({
        "draft": "d2", "edits": [], "camera": "test", "rules": CROSSES, "seconds": 1, "hours": 0,
        "clip": "/etc/passwd",
    });
    let site = Site::demo(&[
        calls(&[("start_setup", json!({}))]),
        validate(&middle()),
        edit("320", "100"),
        edit("[[320,0],[320,360]]", "[[100,0],[100,360]]"),
        preview("d2"),
        calls(&[("dry_run_workflow", tried), ("dry_run_workflow", forbidden)]),
        propose("d3"),
        answers("It waits for your yes."),
    ])?;
    let objects = ask(
        &site,
        &[
            "--blueprint",
            "question",
            "How many cross the middle from now on?",
        ],
    )?;
    let proposal = last(&objects, "proposal")?;
    let really = proposal["by_model"]["really"].to_string();
    ensure!(really.contains("100,0 to 100,360"), "{really}");
    let checks = site.results("validate_workflow")?;
    ensure!(checks[1].contains("was found 2 times in d1"), "{checks:?}");
    ensure!(!checks[0].contains("no rules"), "{checks:?}");
    let tried = site.results("dry_run_workflow")?;
    ensure!(tried[0].contains("\\\"draft\\\":\\\"d3\\\""), "{tried:?}");
    ensure!(tried[1].contains("runtime.dry_run_roots"), "{tried:?}");
    let blueprints: Vec<Value> = site
        .traced("blueprint")?
        .iter()
        .map(|entry| json!([entry["of"]["blueprint"], entry["of"]["chosen_by"]]))
        .collect();
    ensure!(
        blueprints
            == [
                json!(["question", "person"]),
                json!(["set-up", "hand_over"])
            ],
        "{blueprints:?}"
    );
    ensure!(site.pipelines()?.is_empty(), "nothing was said yes to");
    site.model.finish()
}
