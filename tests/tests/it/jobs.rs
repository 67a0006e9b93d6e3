//! `watchkeeper job` as a user runs it: on folders, on events of a runtime, killed and resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, Process, data, json_lines, soak, wait_up_to};
use watchkeeper_tests::person;
use watchkeeper_tests::scene::{LONG, STREET, door_workflow};

/// Kills of the usual run, and of the long one.
const KILLS: usize = 8;
const MANY_KILLS: usize = 100;

pub(crate) fn job(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = person::command(bench)?;
    command.arg("job").args(arguments).arg("--json");
    command.current_dir(bench.path(""));
    Ok(command)
}

fn ended(out: &Output) -> anyhow::Result<Vec<Value>> {
    let errors = String::from_utf8_lossy(&out.stderr);
    let said = String::from_utf8_lossy(&out.stdout);
    ensure!(out.status.success(), "{errors}{said}");
    json_lines(&out.stdout).with_context(|| errors.into_owned())
}

/// ID of the job that a run has begun.
pub(crate) fn id_of(objects: &[Value]) -> anyhow::Result<String> {
    let begun = objects.iter().find(|object| object["type"] == "job");
    let id = begun.and_then(|begun| begun["job"].as_str());
    Ok(id.context("no job")?.to_owned())
}

pub(crate) fn run(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    ended(&job(bench, arguments)?.output()?)
}

/// Pictures of squares; larger squares look blurred to nobody, but each size is another picture.
pub(crate) fn write_pictures(folder: &Path, number: u32) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for n in 0..number {
        let picture = image::RgbImage::from_fn(480, 360, |x, y| {
            let side = 3 + n * 2;
            let level = if (x / side + y / side) % 2 == 0 {
                50
            } else {
                180
            };
            image::Rgb([level, (n * 9 % 256) as u8, 90])
        });
        picture.save(folder.join(format!("p{n:02}.jpg")))?;
    }
    Ok(())
}

pub(crate) const PLAN: &str = r#"
name: best-of-a-folder
inputs: {folder: photos}
steps:
  - {name: list, tool: list_pictures, params: {folder: "${inputs.folder}"}}
  - {name: measure, tool: measure_quality, params: {pictures: "${list.pictures}"}}
  - {name: best, tool: select_best, params: {from: "${measure.pictures}", count: 12}}
  - {name: sheet, tool: contact_sheet, params: {from: "${best.pictures}", file: best.jpg}}
  - {name: album, tool: album, params: {from: "${measure.pictures}", name: album}}
"#;

/// Every file below a folder with its content.
pub(crate) fn content(folder: &Path) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(here)? {
            let path = entry?.path();
            match path.is_dir() {
                true => open.push(path),
                // The marker has the ID of the job.
                false if path.ends_with(".watchkeeper-job") => {}
                false => {
                    let bytes = fs::read(&path)?;
                    files.insert(path.strip_prefix(folder)?.to_owned(), bytes);
                }
            }
        }
    }
    Ok(files)
}

#[test]
fn killed_job_resumes_without_loss_or_repetition() -> anyhow::Result<()> {
    let kills = match soak("a hundred kills of jobs") {
        true => MANY_KILLS,
        false => KILLS,
    };
    let bench = Bench::new("")?;
    write_pictures(&bench.path("photos"), 16)?;
    fs::write(bench.path("plan.yaml"), PLAN)?;
    run(&bench, &["run", "plan.yaml", "--output", "whole"])?;
    let expected = content(&bench.path("whole"))?;
    ensure!(expected.len() == 18, "{:?}", expected.keys());
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut interrupted = 0;
    for kill in 0..kills {
        let output = format!("out{kill}");
        let command = job(&bench, &["run", "plan.yaml", "--output", &output])?;
        let process = Process::start(command, &bench.path("log"))?;
        let step = ["list", "measure", "best", "sheet", "album"][random.usize(..5)];
        wait_up_to(LONG, "a step to kill", || {
            started(&bench, step).ok().filter(|s| *s > kill)
        })?;
        std::thread::sleep(Duration::from_millis(random.u64(0..60)));
        process.kill()?;
        let jobs = run(&bench, &["list"])?;
        let of_kill = |job: &&Value| {
            let output = Some(bench.path(&output));
            job["output"].as_str().map(PathBuf::from) == output
        };
        let killed = jobs.iter().find(of_kill).context("the job is lost")?;
        interrupted += usize::from(killed["state"] == "interrupted");
        let id = killed["job"].as_str().context("no id")?.to_owned();
        run(&bench, &["resume", &id])?;
        let got = content(&bench.path(&output))?;
        ensure!(got == expected, "seed {seed}, {id}: {:?}", got.keys());
        let shown = run(&bench, &["show", &id])?;
        let log = shown[0]["log"].as_array().context("no log")?;
        let finished = log.iter().filter(|line| line["record"] == "finished");
        let steps: Vec<&str> = finished.filter_map(|line| line["step"].as_str()).collect();
        let once: BTreeSet<&&str> = steps.iter().collect();
        ensure!(steps.len() == 5 && once.len() == 5, "{id}: {steps:?}");
    }
    ensure!(
        interrupted * 2 >= kills,
        "only {interrupted} of {kills} kills met a running job"
    );
    Ok(())
}

/// How often a step was started in all jobs; resumed ones count once.
fn started(bench: &Bench, step: &str) -> anyhow::Result<usize> {
    let mut jobs = 0;
    for entry in fs::read_dir(bench.path("home/watchkeeper/jobs"))? {
        let log = fs::read_to_string(entry?.path().join("log.jsonl")).unwrap_or_default();
        let mark = format!("\"record\":\"started\",\"step\":\"{step}\"");
        jobs += usize::from(log.contains(&mark));
    }
    // The whole one.
    Ok(jobs.saturating_sub(1))
}

#[test]
fn misspelt_plan_is_repaired_and_invalid_one_lists_faults() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    write_pictures(&bench.path("photos"), 3)?;
    let misspelt = PLAN.replace("measure_quality", "measure_qualty");
    fs::write(bench.path("misspelt.yaml"), misspelt)?;
    let objects = run(&bench, &["run", "misspelt.yaml"])?;
    let note = &objects[0]["message"];
    assert_eq!(
        note,
        "repaired: step measure: tool \"measure_qualty\" is measure_quality"
    );
    let invalid = PLAN
        .replace("measure_quality", "weigh")
        .replace("count: 12", "count: none");
    fs::write(bench.path("invalid.yaml"), invalid)?;
    for action in ["run", "validate", "explain"] {
        let out = job(&bench, &[action, "invalid.yaml"])?.output()?;
        assert_eq!(out.status.code(), Some(2), "{action}");
        let errors = String::from_utf8_lossy(&out.stderr);
        for part in ["no tool \"weigh\"", "\"none\" is not an integer"] {
            ensure!(errors.contains(part), "{action}: {errors}");
        }
    }
    let jobs = run(&bench, &["list"])?;
    assert_eq!(jobs.len(), 1, "an invalid plan is no job: {jobs:?}");
    Ok(())
}

#[test]
fn run_and_validate_name_the_same_faults() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    write_pictures(&bench.path("photos"), 3)?;
    // One of form, one of meaning, one of an address, and one that a repair takes away.
    let invalid = PLAN
        .replace("tool: list_pictures", "tool: list_pictures, colour: red")
        .replace("measure_quality", "measure_qualty")
        .replace("count: 12", "count: none")
        .replace(
            "${best.pictures}",
            "job://20200101-000000-abc/best/pictures",
        );
    fs::write(bench.path("invalid.yaml"), invalid)?;
    let errors = |action: &str| -> anyhow::Result<String> {
        let out = job(&bench, &[action, "invalid.yaml"])?.output()?;
        assert_eq!(out.status.code(), Some(2), "{action}");
        Ok(String::from_utf8(out.stderr)?)
    };
    let validated = errors("validate")?;
    assert_eq!(errors("run")?, validated);
    for part in [
        "colour",
        "measure_qualty",
        "\"none\"",
        "20200101-000000-abc",
        "repair: ",
    ] {
        ensure!(validated.contains(part), "{part}: {validated}");
    }
    let counted = PLAN
        .replace("{folder: photos}", "{folder: photos, count: \"2\"}")
        .replace("count: 12", "count: \"${inputs.count}\"");
    fs::write(bench.path("counted.yaml"), counted)?;
    let objects = run(&bench, &["run", "counted.yaml"])?;
    assert_eq!(objects[0]["message"], "repaired: input count: \"2\" is 2");
    Ok(())
}

#[test]
fn pictures_of_events_are_brought_with_camera_class_and_zone() -> anyhow::Result<()> {
    let bench = Bench::new(&format!(
        "[sources.street]\nuri = {STREET:?}\npace = \"native\"\n"
    ))?;
    let _runtime = bench.runtime()?;
    let rules = json!([{"name": "delivery", "when": {"kind": "crosses", "line": "door"}}]);
    let pipeline =
        json!({"id": "watch", "source": "street", "workflow": door_workflow(), "rules": rules});
    bench.json("POST", "/v1/pipelines", Some(&pipeline))?;
    let kept = || {
        let events = bench.events().ok()?;
        let kept = events
            .iter()
            .filter(|event| event["phase"] == "new" && event["media"][0].is_object());
        (kept.count() >= 2).then_some(())
    };
    wait_up_to(LONG, "two events with pictures", kept)?;
    let words = "a contact sheet and an album of today's deliveries by line";
    let objects = run(&bench, &["plan", words, "--run", "--output", "out"])?;
    let id = id_of(&objects)?;
    let pictures = run_value(&bench, &["show", &id, "events", "pictures"])?;
    let pictures = pictures.as_array().context("no list")?;
    ensure!(pictures.len() >= 2, "{pictures:?}");
    for picture in pictures {
        assert_eq!(picture["camera"], "street");
        assert_eq!(picture["zone"], "door");
        ensure!(picture["taken"].is_string(), "{picture}");
    }
    // A class that no detector of the box finds is refused, and quoted.
    let unknown = run(&bench, &["plan", "an album of today's unicorns", "--run"]);
    let refused = unknown.map_or_else(|error| error.to_string(), |planned| format!("{planned:?}"));
    ensure!(
        refused.contains(r#"not understood: "unicorns""#),
        "{refused}"
    );
    let asked = person::ask(
        &bench,
        &["organise today's deliveries by line and keep the best one of each"],
    )?;
    let errors = String::from_utf8_lossy(&asked.stderr);
    ensure!(asked.status.success(), "{errors}");
    let said = String::from_utf8_lossy(&asked.stdout);
    ensure!(said.contains("album"), "{said}");
    for file in ["sheet.jpg", "album/index.html", "album/door"] {
        ensure!(bench.path("out").join(file).exists(), "{file}");
    }
    Ok(())
}

/// Prints a value of a job; it is one JSON document over several lines.
pub(crate) fn run_value(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Value> {
    let out = job(bench, arguments)?.output()?;
    ensure!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// Kind and group of each picture of the test data.
fn truth(photos: &Path) -> anyhow::Result<BTreeMap<PathBuf, (String, String)>> {
    let table = fs::read_to_string(photos.join("groups.tsv"))?;
    let rows = table.lines().skip(1).map(|line| {
        let mut columns = line.split('\t').map(str::to_owned);
        let mut next = || columns.next().context("a short row");
        let (file, group, kind) = (next()?, next()?, next()?);
        Ok((photos.join(file), (group, kind)))
    });
    rows.collect()
}

fn plan_of_photos(bench: &Bench, photos: &Path, steps: &str) -> anyhow::Result<String> {
    let list = format!(
        "name: photos\nsteps:\n  - {{name: list, tool: list_pictures, params: {{folder: {photos:?}}}}}\n{steps}"
    );
    fs::write(bench.path("photos.yaml"), list)?;
    let objects = run(bench, &["run", "photos.yaml"])?;
    id_of(&objects)
}

#[test]
fn bursts_and_copies_are_found_and_other_scenes_are_not() -> anyhow::Result<()> {
    let Some(data) = data("near duplicates of photos") else {
        return Ok(());
    };
    let photos = data.join("photos");
    let truth = truth(&photos)?;
    let bench = Bench::new("")?;
    let step =
        "  - {name: twins, tool: find_duplicates, params: {pictures: \"${list.pictures}\"}}\n";
    let id = plan_of_photos(&bench, &photos, step)?;
    let groups = run_value(&bench, &["show", &id, "twins", "groups"])?;
    let mut set_of: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (n, group) in groups.as_array().context("no list")?.iter().enumerate() {
        for picture in group["pictures"].as_array().into_iter().flatten() {
            set_of.insert(
                PathBuf::from(picture["file"].as_str().context("no file")?),
                n,
            );
        }
    }
    for group in groups.as_array().into_iter().flatten() {
        let kept = Path::new(group["pictures"][0]["file"].as_str().context("no file")?);
        let copies = ["derived-rejpeg", "derived-half", "derived-crop"];
        let kind = truth.get(kept).map(|(_, kind)| kind.as_str());
        let is_copy = kind.is_some_and(|kind| copies.contains(&kind));
        ensure!(!is_copy, "{} was kept of {group}", kept.display());
    }
    let together = |a: &Path, b: &Path| {
        let (a, b) = (set_of.get(a), set_of.get(b));
        a.is_some() && a == b
    };
    let (mut pairs, mut found) = (0, 0);
    let mut wrong = Vec::new();
    let all: Vec<_> = truth.iter().collect();
    for (n, (a, (group, kind))) in all.iter().enumerate() {
        for (b, (other, _)) in all.iter().skip(n + 1) {
            let is_pair = group == other && (kind == "burst" || group.starts_with("d_"));
            if is_pair {
                pairs += 1;
                found += usize::from(together(a, b));
            } else if group != other && together(a, b) {
                wrong.push(((*a).clone(), (*b).clone()));
            }
        }
    }
    let recall = f64::from(u32::try_from(found)?) / f64::from(u32::try_from(pairs)?);
    ensure!(wrong.is_empty(), "{wrong:?}");
    ensure!(recall >= 0.95, "{found} of {pairs} pairs");
    Ok(())
}

#[test]
fn blurred_pictures_rank_below_the_sharp_one_of_their_scene() -> anyhow::Result<()> {
    let Some(data) = data("quality of photos") else {
        return Ok(());
    };
    let photos = data.join("photos");
    let truth = truth(&photos)?;
    let bench = Bench::new("")?;
    let steps = "  - {name: measure, tool: measure_quality, params: {pictures: \"${list.pictures}\"}}\n  \
         - {name: rank, tool: rank, params: {pictures: \"${measure.pictures}\"}}\n";
    let id = plan_of_photos(&bench, &photos.join("blur"), steps)?;
    let ranked = run_value(&bench, &["show", &id, "rank", "pictures"])?;
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for picture in ranked.as_array().context("no list")? {
        let file = picture["file"].as_str().context("no file")?;
        let (group, _) = truth.get(Path::new(file)).context("not in the table")?;
        first.entry(group).or_insert(file);
    }
    assert_eq!(first.len(), 4);
    for (group, file) in first {
        ensure!(file.contains("/sharp/"), "{group}: {file}");
    }
    Ok(())
}

#[test]
fn pictures_of_all_orientations_are_one_scene() -> anyhow::Result<()> {
    let Some(data) = data("orientation of photos") else {
        return Ok(());
    };
    let bench = Bench::new("")?;
    let steps =
        "  - {name: twins, tool: find_duplicates, params: {pictures: \"${list.pictures}\"}}\n";
    let id = plan_of_photos(&bench, &data.join("photos/orientation"), steps)?;
    let groups = run_value(&bench, &["show", &id, "twins", "groups"])?;
    assert_eq!(groups.as_array().map(Vec::len), Some(1), "{groups}");
    let pictures = groups[0]["pictures"].as_array().context("no list")?;
    assert_eq!(pictures.len(), 9);
    let sizes: BTreeSet<String> = pictures
        .iter()
        .map(|p| format!("{}x{}", p["width"], p["height"]))
        .collect();
    assert_eq!(sizes.len(), 1, "{sizes:?}");
    Ok(())
}
