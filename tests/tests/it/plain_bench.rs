//! The score of plain language on scripted scenes does not get worse, and its checks reject
//! defects.
#![allow(clippy::print_stderr, reason = "the score is to be read")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use watchkeeper_tests::daemons::data;
use watchkeeper_tests::nl::provider::{Agent, Wire};
use watchkeeper_tests::nl::report::{Mutation, Score};
use watchkeeper_tests::nl::stand_in::USUAL;
use watchkeeper_tests::nl::task::TaskFile;
use watchkeeper_tests::nl::{bench, oracle};
use watchkeeper_tests::scripted_model::{KEY, ScriptedModel, answers, calls, says};

fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("nl").join(name)
}

fn rules(file: &TaskFile, runs: usize) -> anyhow::Result<Score> {
    let score = bench::run(file, &Agent::Rules, runs, &mut |_| {})?;
    eprintln!("{}", score.table());
    Ok(score)
}

fn mutation(file: &TaskFile) -> anyhow::Result<Mutation> {
    let mutation = bench::mutate(file, &oracle::read(&ours("oracles.json"))?)?;
    eprintln!("{}", mutation.table());
    assert!(mutation.wrong.is_empty(), "{:?}", mutation.wrong);
    assert!(mutation.unsolved.is_empty(), "{:?}", mutation.unsolved);
    Ok(mutation)
}

/// Every operation of a check.
const OPERATIONS: [&str; 16] = [
    "behaviour",
    "budget",
    "deployed",
    "geom",
    "has",
    "lacks",
    "memory",
    "no_deploy",
    "param",
    "path",
    "reply",
    "state",
    "tools",
    "unchanged",
    "updated",
    "valid",
];

#[test]
fn tasks_use_every_operation_and_have_no_unread_fields() -> anyhow::Result<()> {
    let file = TaskFile::read(&ours("tasks.json"))?;
    let ops: BTreeSet<&str> = file
        .tasks
        .iter()
        .flat_map(|t| &t.checks)
        .map(|c| c.op())
        .collect();
    assert_eq!(ops, OPERATIONS.into_iter().collect());
    for task in &file.tasks {
        assert!(task.unread.is_empty(), "{}: {:?}", task.id, task.unread);
    }
    Ok(())
}

#[test]
fn rules_pass_all_own_tasks_in_both_wordings() -> anyhow::Result<()> {
    let score = rules(&TaskFile::read(&ours("tasks.json"))?, 2)?;
    let failed: Vec<&str> = score
        .tasks
        .iter()
        .filter(|t| !t.every_run())
        .map(|t| t.task.id.as_str())
        .collect();
    assert!(failed.is_empty(), "{failed:?}\n{}", score.table());
    assert!(score.is_released());
    Ok(())
}

#[test]
fn solutions_pass_and_their_mutants_are_rejected() -> anyhow::Result<()> {
    let mutation = mutation(&TaskFile::read(&ours("tasks.json"))?)?;
    let alive: Vec<String> = mutation
        .tried
        .iter()
        .filter(|t| t.caught_by.is_empty())
        .map(|t| format!("{} {} {}", t.task, t.mutant.kind, t.mutant.place))
        .collect();
    assert!(alive.is_empty(), "not turned down: {alive:#?}");
    let by: BTreeSet<&str> = mutation
        .tried
        .iter()
        .flat_map(|t| &t.caught_by)
        .map(String::as_str)
        .collect();
    // No mutant adds a step that a solution must lack.
    for op in OPERATIONS.into_iter().filter(|op| *op != "lacks") {
        assert!(by.contains(op), "no mutant is turned down by {op}");
    }
    Ok(())
}

#[test]
fn rules_keep_their_score_on_development_tasks() -> anyhow::Result<()> {
    let Some(data) = data("the tasks of development") else {
        return Ok(());
    };
    let file = TaskFile::read(&data.join("nl_tasks_dev.json"))?;
    let score = rules(&file, 2)?;
    let passed = score.shares().passed;
    assert!(
        passed >= MIN_PASSED,
        "{passed} runs pass, and it were {MIN_PASSED}\n{}",
        score.table()
    );
    let mutation = mutation(&file)?;
    assert!(
        mutation.caught() >= MIN_REJECTED,
        "{} of {}",
        mutation.caught(),
        mutation.tried.len()
    );
    Ok(())
}

/// Makes a workflow that counts cars in a zone.
fn bay(zone: &Value) -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image",
             "model_id": USUAL, "confidence": 0.4, "class_filter": ["car"]},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
            {"type": "roboflow_core/time_in_zone@v3", "name": "bay", "image": "$inputs.image",
             "detections": "$steps.tracker.tracked_detections", "zone": zone},
        ],
        "outputs": [{"type": "JsonField", "name": "parked", "selector": "$steps.bay.timed_detections"}],
    })
}

#[test]
fn llm_sees_the_script_and_corrects_a_mirrored_preview() -> anyhow::Result<()> {
    let task = json!({
        "id": "M1", "category": "self-correct",
        // A request that the rules do not understand.
        "instruction": "Schau mal links auf den Stellplatz und gib Laut, sobald er leer ist.",
        "scene": {
            "cameras": [{"id": "park", "resolution": [640, 360]}],
            "regions": {"bay_left": [[0.05, 0.5], [0.35, 0.5], [0.35, 0.95], [0.05, 0.95]]},
            "fixture": {"duration_s": 40, "fps": 5, "actors": [
                {"class": "car", "t": [0, 20], "from": [0.2, 0.72], "size": [0.2, 0.3]},
                {"class": "car", "t": [0, 40], "from": [0.8, 0.72], "size": [0.2, 0.3]},
            ]},
        },
        "inject": {"first_preview": "turned over"},
        "checks": [
            {"op": "valid"},
            {"op": "deployed", "n": 1, "cameras": ["park"]},
            {"op": "tools", "order": ["preview_workflow", "preview_workflow", "deploy_workflow"], "max_validate_failures": 0},
            {"op": "geom", "family": "zone_filter|count", "ref": "bay_left", "iou_min": 0.9},
            {"op": "behaviour", "alerts": {"min": 1, "max": 1}, "first_event_s": {"min": 20, "max": 30}},
            {"op": "budget", "max_model_calls": 9, "max_cost_usd": 1},
        ],
    });
    let file = TaskFile::parse(&json!({"version": 1, "tasks": [task]}).to_string())?;
    let zone = json!([[32, 180], [224, 180], [224, 342], [32, 342]]);
    let validate = calls(&[(
        "validate_workflow",
        json!({"workflow": bay(&zone).to_string()}),
    )]);
    let preview = |draft: &str| {
        calls(&[(
            "preview_workflow",
            json!({"draft": draft, "camera": "park"}),
        )])
    };
    let rules = r#"[{"name": "free", "when": {"kind": "count", "detections": "$steps.bay.timed_detections", "bound": {"under": 1}, "for_s": 3}}]"#;
    let steps = [
        says(&json!({"request": "", "left_out": []})),
        calls(&[("get_snapshot", json!({"camera": "park"}))]),
        validate.clone(),
        preview("d1"),
        validate,
        preview("d2"),
        calls(&[(
            "dry_run_workflow",
            json!({"draft": "d2", "camera": "park", "rules": rules, "seconds": 10}),
        )]),
        calls(&[(
            "propose_deployment",
            json!({
                "draft": "d2", "camera": "park", "pipeline": "bay-left", "rules": rules,
                "says": "Notifying when the left bay is free.", "assumed": [], "not_possible": [], "stop_after_s": 0,
            }),
        )]),
        answers("It waits for your yes."),
    ];
    let folder = tempfile::tempdir()?;
    let model = ScriptedModel::start(folder.path(), &steps)?;
    let agent = Agent::Model {
        url: model.base_url().to_owned(),
        model: None,
        wire: Wire::Claude,
        key: Some(KEY.to_owned().into()),
    };
    let score = bench::run(&file, &agent, 1, &mut |_| {})?;
    assert_eq!(score.shares().passed, 1, "{}", score.table());
    model.finish()
}

/// Least number of passing runs, of twenty.
const MIN_PASSED: usize = 15;
/// Least number of rejected mutants.
const MIN_REJECTED: usize = 104;
