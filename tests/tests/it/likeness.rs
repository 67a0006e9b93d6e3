//! Likeness of pictures, from the network to the archive and to jobs.
//!
//! Most tests use the tiny CLIP of `tests/models`, whose two numbers are the bright and the dark
//! share of a picture. The network of the package `mobilenet-v2-features` is not in the repository:
//! `tests/tools/oidv4/run FOLDER` fetches it, and `WATCHKEEPER_OIDV4=FOLDER` enables its tests.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use image::{GrayImage, Luma};
use serde_json::{Value, json};
use watchkeeper_models::{Sha256Sum, Zoo};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::daemons::{Bench, Process, data, wait_up_to};
use watchkeeper_tests::onnx::write_bright_cells;
use watchkeeper_tests::person::{self, done, entry_names as names, refused, run};
use watchkeeper_tests::scene::LONG;

/// Name of the packaged network.
const FEATURES: &str = "mobilenet-v2-features";

fn tiny_models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models")
}

/// A box with models of a folder, whose archive makes embeddings.
fn bench(models: &Path, extra: &str) -> anyhow::Result<Bench> {
    Bench::new(&format!(
        "[models]\ndir = {models:?}\n[agent.archive]\nembedding = \"auto\"\n{extra}"
    ))
}

/// Writes a picture of which the left part is white: `white` of 16 columns.
fn write_picture(file: &Path, white: u32) -> anyhow::Result<()> {
    let level = |x: u32| if x / 4 < white { 255 } else { 0 };
    GrayImage::from_fn(64, 64, |x, _| Luma([level(x)])).save(file)?;
    Ok(())
}

fn embeddings(api: &Api) -> anyhow::Result<Value> {
    Ok(api.json("GET", "/v1/archive/stats", None)?["embeddings"].clone())
}

/// Waits until no picture waits.
fn wait_for_all(api: &Api) -> anyhow::Result<Value> {
    wait_up_to(LONG, "all embeddings", || {
        let stats = embeddings(api).ok()?;
        (stats["waiting"] == 0 && stats["model"].is_string()).then_some(stats)
    })
}

/// The nearest to an entry, itself left out.
fn nearest(api: &Api, name: &str) -> anyhow::Result<String> {
    let query = json!({"like": name, "limit": 2});
    let found = api.json("POST", "/v1/archive/query", Some(&query))?;
    let second = found["entries"][1]["name"].as_str();
    Ok(second
        .with_context(|| format!("{name}: {found}"))?
        .to_owned())
}

#[test]
fn pictures_are_found_by_a_picture_a_name_and_a_text() -> anyhow::Result<()> {
    let bench = bench(&tiny_models(), "")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    fs::create_dir(bench.path("in"))?;
    for (name, white) in [("bright", 15), ("grey", 8), ("dark", 1)] {
        write_picture(&bench.path(&format!("in/{name}.png")), white)?;
    }
    fs::write(bench.path("in/damaged.jpg"), "no picture")?;
    done(&bench, &["archive", "ingest", "in", "--as", "yard"])?;
    let stats = wait_for_all(&api)?;
    ensure!(
        stats["model"] == "bright-clip" && stats["made"] == 3,
        "{stats}"
    );
    ensure!(stats["refused"] == 1, "{stats}");

    let like = |what: &str| done(&bench, &["archive", "query", "--like", what]);
    let order = ["yard/bright.png", "yard/grey.png", "yard/dark.png"];
    assert_eq!(names(&like("yard/bright.png")?), order);
    assert_eq!(names(&like("./in/bright.png")?), order);
    let words = ["archive", "query", "pictures", "like", "yard/dark.png"];
    assert_eq!(
        names(&done(&bench, &words)?)[..2],
        ["yard/dark.png", "yard/grey.png"]
    );
    let text = done(&bench, &["archive", "query", "--like-text", "a dark one"])?;
    assert_eq!(names(&text)[0], "yard/dark.png");

    let said = refused(&bench, &["archive", "query", "--like", "yard/damaged.jpg"])?;
    ensure!(said.contains("not a JPEG, PNG or WebP"), "{said}");
    Ok(())
}

#[test]
fn missing_text_model_or_model_is_refused_with_remedy() -> anyhow::Result<()> {
    let bench = Bench::new("[models]\ndir = \"none\"\n")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    Api::on(&bench).wait_until_up()?;
    let said = refused(&bench, &["archive", "query", "--like-text", "a red truck"])?;
    ensure!(said.contains("clip-vit-b-32"), "{said}");
    Ok(())
}

#[test]
fn embeddings_wait_for_a_runtime_and_are_completed_after_kills() -> anyhow::Result<()> {
    const PICTURES: u32 = 20;
    let bench = bench(&tiny_models(), "")?;
    let agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    fs::create_dir(bench.path("in"))?;
    for n in 0..PICTURES {
        let file = bench.path(&format!("in/p{n:02}.png"));
        GrayImage::from_fn(64, 64, |x, y| Luma([(x * n + y) as u8])).save(file)?;
    }
    done(&bench, &["archive", "ingest", "in", "--as", "yard"])?;
    let stats = wait_up_to(LONG, "the reason", || {
        embeddings(&api)
            .ok()
            .filter(|stats| stats["why"].is_string())
    })?;
    let why = stats["why"].as_str().context("no reason")?;
    ensure!(why.contains("not reachable"), "{stats}");

    let made = |at_least: u64| {
        wait_up_to(LONG, "some embeddings", || {
            let made = embeddings(&api).ok()?["made"].as_u64()?;
            (made >= at_least).then_some(made)
        })
    };
    // The runtime ends in the middle, then the agent.
    let runtime = bench.runtime()?;
    made(3)?;
    runtime.kill()?;
    std::thread::sleep(Duration::from_millis(200));
    let _runtime = bench.runtime()?;
    made(6)?;
    agent.kill()?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    wait_for_all(&api)?;
    let query = json!({"like": "yard/p00.png", "limit": 1});
    let found = api.json("POST", "/v1/archive/query", Some(&query))?;
    assert_eq!(found["matched"], PICTURES, "{found}");
    Ok(())
}

/// Groups by likeness, by words, and by objects.
const PLAN: &str = r#"
name: seen
inputs: {folder: photos, like: like}
steps:
  - {name: list, tool: list_pictures, params: {folder: "${inputs.folder}"}}
  - {name: like, tool: list_pictures, params: {folder: "${inputs.like}"}}
  - {name: alike, tool: group_alike, params: {pictures: "${list.pictures}", least: 0.9}}
  - {name: ranked, tool: rank_alike, params: {pictures: "${list.pictures}", to: "${like.pictures}"}}
  - {name: tags, tool: tag, params: {pictures: "${list.pictures}", labels: [a dark one, Bright!]}}
  - {name: found, tool: find_objects, params: {pictures: "${list.pictures}", class: thing}}
"#;

/// A box with the tiny CLIP and a detector of bright cells, and pictures for [`PLAN`].
fn bench_of_jobs() -> anyhow::Result<Bench> {
    let bench = Bench::new("[models]\ndir = \"models\"\n")?;
    fs::create_dir(bench.path("models"))?;
    for file in fs::read_dir(tiny_models())? {
        let file = file?;
        let name = file.file_name();
        if name.to_string_lossy().starts_with("bright-clip") || name == "bright-merges.txt" {
            fs::copy(file.path(), bench.path("models").join(name))?;
        }
    }
    write_bright_cells(&bench.path("models"), "cells")?;
    fs::create_dir(bench.path("photos"))?;
    fs::create_dir(bench.path("like"))?;
    for (name, white) in [("a", 16), ("b", 15), ("c", 8), ("d", 0)] {
        write_picture(&bench.path(&format!("photos/{name}.png")), white)?;
    }
    write_picture(&bench.path("like/dark.png"), 1)?;
    fs::write(bench.path("plan.yaml"), PLAN)?;
    Ok(bench)
}

#[test]
fn job_groups_ranks_tags_and_finds_by_networks() -> anyhow::Result<()> {
    let bench = bench_of_jobs()?;
    let runtime = bench.runtime()?;
    let lines = done(&bench, &["job", "run", "plan.yaml", "--output", "out"])?;
    let finished: Vec<String> = lines
        .iter()
        .filter(|line| line["type"] == "finished")
        .map(|line| line["summary"].to_string())
        .collect();
    for part in [
        "4 pictures in 3 groups of likeness 0.90 and more (bright-clip)",
        "first d.png with",
        "by 2 words (bright-clip)",
        "3 of 4 pictures with thing",
    ] {
        ensure!(
            finished.iter().any(|line| line.contains(part)),
            "{part}: {finished:#?}"
        );
    }
    runtime.kill()?;
    // Without the runtime the step says whom it can't reach; the plan itself has no fault.
    let plan = PLAN.replace("least: 0.9}", "least: 0.9}, retry: {tries: 1}");
    fs::write(bench.path("plan.yaml"), plan)?;
    let said = refused(&bench, &["job", "run", "plan.yaml", "--output", "out2"])?;
    ensure!(said.contains("not reachable"), "{said}");
    Ok(())
}

#[test]
fn plan_that_box_can_not_run_is_a_fault_with_remedy() -> anyhow::Result<()> {
    let bench = bench_of_jobs()?;
    let _runtime = bench.runtime()?;
    let faults = |tool: &str, params: &str| {
        let plan = format!(
            "name: x\nsteps:\n  - {{name: list, tool: list_pictures, params: {{folder: photos}}}}\n  \
             - {{name: see, tool: {tool}, params: {{pictures: \"${{list.pictures}}\"{params}}}}}\n"
        );
        fs::write(bench.path("x.yaml"), plan)?;
        let out = run(&bench, &["job", "validate", "x.yaml"])?;
        let said = [out.stdout, out.stderr].concat();
        anyhow::Ok(String::from_utf8_lossy(&said).into_owned())
    };
    let said = faults("find_objects", ", class: giraffe")?;
    ensure!(
        said.contains("no installed detector finds") && said.contains("thing"),
        "{said}"
    );
    let said = faults("find_objects", ", class: face")?;
    ensure!(said.contains("agent.job_tools.faces"), "{said}");
    // Requests know the classes of the detectors that are here.
    let known = run(&bench, &["job", "plan", "photos in ./photos with things"])?;
    let known = String::from_utf8_lossy(&known.stdout).into_owned();
    ensure!(known.contains("find_objects"), "{known}");
    let unknown = ["job", "plan", "photos in ./photos with captions"];
    let said = refused(&bench, &unknown)?;
    ensure!(said.contains("captions"), "{said}");
    let said = faults("group_alike", "")?;
    ensure!(!said.contains("models pull"), "{said}");
    for file in ["bright-clip.onnx", "cells.onnx"] {
        fs::remove_file(bench.path("models").join(file))?;
    }
    let said = faults("group_alike", "")?;
    ensure!(
        said.contains("watchkeeper models pull mobilenet-v2-features"),
        "{said}"
    );
    let said = faults("find_objects", ", class: person")?;
    ensure!(
        said.contains("watchkeeper models pull ssd-mobilenet-v2"),
        "{said}"
    );
    Ok(())
}

#[test]
fn resumed_job_asks_about_no_picture_twice() -> anyhow::Result<()> {
    const PICTURES: u32 = 60;
    let bench = bench_of_jobs()?;
    for n in 0..PICTURES {
        let file = bench.path(&format!("photos/p{n:02}.png"));
        GrayImage::from_fn(64, 64, |x, y| Luma([(x * n + y) as u8])).save(file)?;
    }
    let plan = "name: x\nsteps:\n  - {name: list, tool: list_pictures, params: {folder: photos}}\n  \
                - {name: see, tool: group_alike, params: {pictures: \"${list.pictures}\"}}\n";
    fs::write(bench.path("x.yaml"), plan)?;
    let _runtime = bench.runtime()?;
    let mut command = person::command(&bench)?;
    command
        .args(["job", "run", "x.yaml", "--json"])
        .current_dir(bench.path(""));
    let process = Process::start(command, &bench.path("log"))?;
    let (id, _) = wait_up_to(LONG, "some answers", || {
        kept(&bench).filter(|(_, keys)| keys.len() > 5)
    })?;
    process.kill()?;
    let before = kept(&bench).context("no answers")?.1.len();
    ensure!(
        before < PICTURES as usize,
        "the job was not killed in the middle"
    );
    done(&bench, &["job", "resume", &id])?;
    let keys = kept(&bench).context("no answers")?.1;
    let once: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(
        (keys.len(), once.len()),
        (PICTURES as usize + 4, PICTURES as usize + 4)
    );
    Ok(())
}

/// The only job of the box, and the keys of its answers.
fn kept(bench: &Bench) -> Option<(String, Vec<String>)> {
    let list = done(bench, &["job", "list"]).ok()?;
    let id = list.first()?["job"].as_str()?.to_owned();
    let file = bench
        .path("home/watchkeeper/jobs")
        .join(&id)
        .join("seen.jsonl");
    let text = fs::read_to_string(file).ok()?;
    let keys = text.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        line["key"].as_str().map(str::to_owned)
    });
    Some((id, keys.collect()))
}

/// Returns a folder with the packaged network, if the package is there.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn packaged() -> anyhow::Result<Option<tempfile::TempDir>> {
    let package = std::env::var_os("WATCHKEEPER_OIDV4").map(PathBuf::from);
    let package = package.map(|folder| folder.join("package.tgz"));
    let Some(package) = package.filter(|file| file.is_file()) else {
        eprintln!(
            "SKIPPED: the network of {FEATURES} (tests/tools/oidv4/run FOLDER brings its package, WATCHKEEPER_OIDV4 names the folder)"
        );
        return Ok(None);
    };
    let zoo = Zoo::builtin();
    let manifest = zoo.manifest(FEATURES).context("not in the zoo")?;
    let from = manifest.packages.first().context("no package")?;
    let onnx = from.file(File::open(package)?)?;
    let sum = Sha256Sum::of(&onnx);
    ensure!(manifest.known_file(sum).is_some(), "other bytes: {sum}");
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(format!("{FEATURES}.onnx"));
    fs::write(&file, onnx)?;
    fs::write(
        file.with_extension("onnx.sha256"),
        format!("{sum}  {FEATURES}.onnx\n"),
    )?;
    Ok(Some(folder))
}

#[test]
fn nearest_picture_of_a_burst_is_one_of_the_same_burst() -> anyhow::Result<()> {
    let (Some(models), Some(photos)) = (packaged()?, data("photos of bursts")) else {
        return Ok(());
    };
    let bench = bench(models.path(), "")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let photos = photos.join("photos");
    let bursts = photos.join("bursts");
    let made = done(
        &bench,
        &[
            "archive",
            "ingest",
            &bursts.display().to_string(),
            "--as",
            "b",
        ],
    )?;
    let stats = wait_for_all(&api)?;
    assert_eq!(stats["model"], FEATURES);
    let burst = |name: &str| name.rsplit_once('_').map(|(burst, _)| burst.to_owned());
    for name in names(&made) {
        let found = nearest(&api, name)?;
        ensure!(burst(&found) == burst(name), "{name}: {found}");
    }
    // One scene in all orientations of EXIF.
    done(
        &bench,
        &[
            "archive",
            "ingest",
            &photos.join("orientation").display().to_string(),
            "--as",
            "o",
        ],
    )?;
    wait_for_all(&api)?;
    let query = json!({"pattern": "o", "order": "name"});
    let all = api.json("POST", "/v1/archive/query", Some(&query))?;
    let first = all["entries"][0]["name"].as_str().context("no picture")?;
    let query = json!({"pattern": "o", "like": first});
    let found = api.json("POST", "/v1/archive/query", Some(&query))?;
    let likeness = found["likeness"].as_array().context("no likeness")?;
    ensure!(likeness.len() >= 8, "{found}");
    ensure!(
        likeness.iter().all(|one| one.as_f64() > Some(0.95)),
        "{likeness:?}"
    );
    Ok(())
}
