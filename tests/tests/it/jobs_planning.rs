//! `watchkeeper job plan`, `refine` and `keep` as a user runs them, with a scripted model.

use std::fs;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::Bench;
use watchkeeper_tests::scripted_model::{ScriptedModel, answers, calls, faulty};

use crate::jobs::{id_of, job, run, write_pictures};

/// A step in which the model proposes these steps for the pictures of a folder.
fn proposes(folder: &str, steps: &Value) -> Value {
    let plan = json!({"name": "wish", "inputs": {"folder": folder}, "steps": steps});
    calls(&[("propose_plan", plan)])
}

fn list() -> Value {
    json!({"name": "list", "tool": "list_pictures", "params": {"folder": "${inputs.folder}"}})
}

/// Steps for "three crisp ones of ./photos".
fn crisp(tool: &str) -> Value {
    json!([
        list(),
        {"name": "measure", "tool": tool, "params": {"pictures": "${list.pictures}"}},
        {"name": "best", "tool": "select_best",
            "params": {"from": "${measure.pictures}", "count": 3, "by": "sharpness"}},
        {"name": "album", "tool": "album", "params": {"from": "${best.groups}", "name": "crisp"}},
    ])
}

/// A bench whose model plays the steps, made of the absolute path of the pictures.
fn with_model(steps: impl FnOnce(&str) -> Vec<Value>) -> anyhow::Result<(Bench, ScriptedModel)> {
    let bench = Bench::new("")?;
    let steps = steps(&bench.path("photos").display().to_string());
    let model = ScriptedModel::start(&bench.path(""), &steps)?;
    bench.configure(&model.section())?;
    write_pictures(&bench.path("photos"), 6)?;
    write_pictures(&bench.path("other"), 6)?;
    Ok((bench, model))
}

fn notes(objects: &[Value]) -> Vec<&str> {
    let notes = objects.iter().filter(|object| object["type"] == "note");
    notes.filter_map(|note| note["message"].as_str()).collect()
}

/// Number of pictures in the groups of an album.
fn pictures(bench: &Bench, album: &str) -> anyhow::Result<usize> {
    let mut number = 0;
    for group in fs::read_dir(bench.path(album))? {
        let group = group?.path();
        number += match group.is_dir() {
            true => fs::read_dir(group)?.count(),
            false => 0,
        };
    }
    Ok(number)
}

#[test]
fn plan_of_a_model_serves_later_requests_from_the_cache() -> anyhow::Result<()> {
    let tools = ["weigh_pictures", "measure_qualty", "measure_quality"];
    let (bench, model) = with_model(|_| {
        tools
            .map(|tool| proposes("./photos", &crisp(tool)))
            .to_vec()
    })?;
    let request = "three crisp ones of ./photos";
    let objects = run(&bench, &["plan", request, "--run", "--output", "a"])?;
    let notes_of_run = notes(&objects).join("\n");
    for part in [
        "in 2 calls",
        "repaired: step measure: tool \"measure_qualty\"",
    ] {
        ensure!(notes_of_run.contains(part), "{notes_of_run}");
    }
    assert_eq!(pictures(&bench, "a/crisp")?, 3);
    let read = model.requests()?;
    ensure!(read[1].to_string().contains("no tool"), "{}", read[1]);
    let trace = fs::read_to_string(bench.path("home/watchkeeper/trace.jsonl"))?;
    for what in ["job_request", "\"model\"", "\"result\""] {
        ensure!(trace.contains(what), "{what}: {trace}");
    }
    let again = [
        "plan",
        "Two crisp ones of ./other, please!",
        "--run",
        "--output",
        "b",
    ];
    let objects = run(&bench, &again)?;
    ensure!(
        notes(&objects)[0].starts_with("planned as an earlier request"),
        "{objects:?}"
    );
    assert_eq!(pictures(&bench, "b/crisp")?, 2);
    assert_eq!(model.requests()?.len(), 2, "a hit costs no call");
    run(&bench, &["plan", request, "--no-cache"])?;
    assert_eq!(model.requests()?.len(), 3);
    model.finish()
}

#[test]
fn failed_step_is_revised_by_the_model_and_done_steps_stay() -> anyhow::Result<()> {
    let filter = json!({"name": "some", "tool": "filter",
        "params": {"pictures": "${list.pictures}", "camera": "nobody"}});
    let album = |from: &str| json!({"name": "album", "tool": "album", "params": {"from": from, "name": "all"}});
    let first = json!([list(), filter, album("${some.pictures}")]);
    let without_list = json!([filter, album("${some.pictures}")]);
    let revised = json!([list(), filter, album("${list.pictures}")]);
    let (bench, model) = with_model(|photos| {
        vec![
            proposes("./photos", &first),
            proposes(photos, &without_list),
            proposes(photos, &revised),
        ]
    })?;
    let request = [
        "plan",
        "what nobody saw in ./photos",
        "--run",
        "--output",
        "a",
    ];
    let objects = run(&bench, &request)?;
    let revision = "the language model revises the plan (1 of 2)";
    ensure!(
        notes(&objects)
            .iter()
            .any(|note| note.starts_with(revision)),
        "{objects:?}"
    );
    assert_eq!(pictures(&bench, "a/all")?, 6);
    let read = model.requests()?;
    let told = read[1].to_string();
    ensure!(
        told.contains("no pictures") || told.contains("failed"),
        "{told}"
    );
    ensure!(
        read[2].to_string().contains("the step is done"),
        "{}",
        read[2]
    );
    let shown = run(&bench, &["show", &id_of(&objects)?])?;
    let log = shown[0]["log"].as_array().context("no log")?;
    let started = |step: &str| {
        let is_start = |line: &&Value| line["record"] == "started" && line["step"] == step;
        log.iter().filter(is_start).count()
    };
    assert_eq!(
        [started("list"), started("some"), started("album")],
        [1, 1, 2]
    );
    assert_eq!(shown[0]["state"], "done");
    model.finish()
}

#[test]
fn request_for_a_model_is_refused_if_the_model_fails() -> anyhow::Result<()> {
    let broke = faulty(answers("x"), &json!({"kind": "out_of_credit"}));
    let (bench, model) = with_model(|_| vec![broke])?;
    let request = "organise ./photos by day, moody ones only";
    let out = job(&bench, &["plan", request, "--run", "--output", "a"])?.output()?;
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    ensure!(stderr.contains("not understood: \"moody\""), "{stderr}");
    ensure!(stderr.contains("add credit or raise the limit"), "{stderr}");
    ensure!(!bench.path("a").exists(), "a job was begun");
    drop(model);
    Ok(())
}

#[test]
fn job_is_refined_kept_and_used_again_without_a_model() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    write_pictures(&bench.path("photos"), 6)?;
    write_pictures(&bench.path("other"), 6)?;
    let request = "organise ./photos by day and keep the 3 best of each";
    let first = id_of(&run(&bench, &["plan", request, "--run", "--output", "a"])?)?;
    assert_eq!(pictures(&bench, "a/album")?, 3);
    let words = "only the two best, and by month";
    let shown = run(&bench, &["refine", words, "--dry-run"])?;
    let changes = shown[0]["changes"].to_string();
    for part in ["count: 3 → 2", "by: \\\"day\\\" → \\\"month\\\""] {
        ensure!(changes.contains(part), "{changes}");
    }
    ensure!(
        changes.contains(words) && !changes.contains('…'),
        "cut: {changes}"
    );
    let objects = run(&bench, &["refine", &first, words, "--output", "b"])?;
    let second = id_of(&objects)?;
    assert_eq!(pictures(&bench, "b/album")?, 2);
    let trajectory = run(&bench, &["export", &second])?;
    ensure!(
        trajectory
            .iter()
            .all(|line| line["state"]["predecessor"] == *first),
        "{trajectory:?}"
    );
    run(&bench, &["keep", &second, "--as", "monthly"])?;
    run(
        &bench,
        &["plan", "monthly ./other 1", "--run", "--output", "c"],
    )?;
    assert_eq!(pictures(&bench, "c/album")?, 1);
    let wrong = job(&bench, &["plan", "monthly 1 ./other"])?.output()?;
    let errors = String::from_utf8(wrong.stderr)?;
    let takes = "template monthly takes these values in this order, or none: a folder, a number";
    ensure!(
        wrong.status.code() == Some(2) && errors.contains(takes),
        "{errors}"
    );
    let example = format!("for example: monthly {} 2", bench.path("photos").display());
    ensure!(errors.contains(&example), "{errors}");
    // `ask` knows the templates of its user too.
    let asked = watchkeeper_tests::person::ask(&bench, &["monthly"])?;
    ensure!(
        asked.status.success(),
        "{}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let listed = run(&bench, &["templates"])?;
    assert_eq!(listed[0]["template"], "monthly");
    run(&bench, &["templates", "forget", "monthly"])?;
    for (words, reason) in [
        (&["plan", "monthly ./other 1"][..], "not understood: \"1\""),
        (&["refine", "only by mood"], "\"mood\""),
        (&["keep", "nothing"], "no job"),
    ] {
        let out = job(&bench, words)?.output()?;
        assert_eq!(out.status.code(), Some(2), "{words:?}");
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(errors.contains(reason), "{errors}");
    }
    Ok(())
}

#[test]
fn plan_that_can_only_fail_is_refused_before_it_runs() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    write_pictures(&bench.path("photos"), 2)?;
    let plan = |from: &str, tool: &str| {
        let steps = json!([
            {"name": "list", "tool": "list_pictures", "params": {"folder": "./photos"}},
            {"name": "best", "tool": tool, "params": {"from": from, "count": 1}},
        ]);
        json!({"name": "x", "steps": steps}).to_string()
    };
    let done = run(&bench, &["plan", "the newest picture in ./photos", "--run"])?;
    let id = id_of(&done)?;
    for (from, reason) in [
        (
            "job://20260101-000000-abc/list/pictures",
            "no job \"20260101-000000-abc\"",
        ),
        (
            &format!("job://{id}/lists/pictures"),
            "no finished step \"lists\"",
        ),
        (&format!("job://{id}/list/picture"), "no result \"picture\""),
    ] {
        fs::write(bench.path("plan.json"), plan(from, "select_best"))?;
        for action in ["validate", "run"] {
            let out = job(&bench, &[action, "plan.json"])?.output()?;
            assert_eq!(out.status.code(), Some(2), "{action} {from}");
            let errors = String::from_utf8_lossy(&out.stderr);
            ensure!(errors.contains(reason), "{action} {from}: {errors}");
        }
    }
    fs::write(
        bench.path("plan.json"),
        plan(&format!("job://{id}/list/pictures"), "select_best").replace("./photos", "./gone"),
    )?;
    let valid = run(&bench, &["validate", "plan.json"])?;
    let absent = valid[0]["absent_folders"][0].as_str();
    assert_eq!(absent, Some("./gone"));
    for arguments in [
        &["run", "plan.json"][..],
        &["plan", "./gone by day", "--run"],
    ] {
        let out = job(&bench, arguments)?.output()?;
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(errors.contains("there is no folder"), "{errors}");
    }
    assert_eq!(run(&bench, &["list"])?.len(), 1);
    Ok(())
}
