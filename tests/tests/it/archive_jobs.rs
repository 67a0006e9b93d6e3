//! Jobs that enter files into the archive, and organise its entries.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::wait_for;
use watchkeeper_tests::person;

use crate::agent_jobs::Site;
use crate::jobs::{content, id_of, job, run, write_pictures};

const KILLS: u64 = 3;

/// The pipeline of the founding document: ingest, then retrieve what the step before has entered.
/// Its result goes back into the archive.
const PIPELINE: &str = r#"
name: ingest-retrieve
inputs: {folder: FOLDER}
steps:
  - {name: list, tool: list_pictures, params: {folder: "${inputs.folder}"}}
  - name: ingest
    tool: archive_ingest
    params: {from: "${list.pictures}", collection: research, class: square, label: trip=spring}
  - name: retrieve
    tool: archive_query
    depends_on: [ingest]
    params: {collection: "${ingest.collection}", label: trip=spring, class: Square, folder: found}
  - {name: groups, tool: group, params: {pictures: "${retrieve.pictures}", by: class}}
  - {name: album, tool: album, params: {from: "${groups.groups}", name: squares}}
  - {name: keep, tool: archive_ingest, params: {file: "${album.file}", collection: albums}}
"#;

/// Enters a source, and retrieves what is not a picture.
const SOURCE: &str = r#"
name: source
steps:
  - {name: ingest, tool: archive_ingest, params: {source: "mem::alpha", collection: texts}}
  - name: back
    tool: archive_query
    params: {collection: "${ingest.collection}", all_files: true, folder: found}
"#;

/// The entries of the archive, in the order in which they were entered.
fn entries(site: &Site) -> anyhow::Result<Vec<Value>> {
    let query = json!({"limit": 1000});
    let found = site.api.json("POST", "/v1/archive/query", Some(&query))?;
    let mut entries = found["entries"].as_array().context("no entries")?.clone();
    entries.sort_by_key(|entry| entry["number"].as_u64());
    Ok(entries)
}

fn failure_of(site: &Site, plan: &str) -> anyhow::Result<String> {
    fs::write(site.bench.path("plan.yaml"), plan)?;
    let out = job(&site.bench, &["run", "plan.yaml"])?.output()?;
    ensure!(!out.status.success(), "it is done");
    let said = String::from_utf8_lossy(&out.stdout);
    Ok(format!("{said}{}", String::from_utf8_lossy(&out.stderr)))
}

#[test]
fn killed_agent_enters_files_of_a_job_into_the_archive_once() -> anyhow::Result<()> {
    let mut site = Site::new("")?;
    let folder = site.bench.path("photos");
    write_pictures(&folder, 16)?;
    let plan = PIPELINE.replace("FOLDER", &format!("{folder:?}"));
    let id = site.submit_plan(&json!({"plan": plan}))?;
    for kill in 0..KILLS {
        wait_for("the job to begin", || {
            let job = site.job(&id).ok()?;
            let log = job["log"].as_array().filter(|log| !log.is_empty());
            log.map(|_| ())
        })?;
        std::thread::sleep(Duration::from_millis(60 * kill));
        site = site.restart()?;
    }
    let done = site.wait_for_state(&id, "done")?;
    let entries = entries(&site)?;
    let in_collection = |collection: &str| {
        let begin = format!("{collection}/");
        let names = entries.iter().filter_map(|entry| entry["name"].as_str());
        names.filter(|name| name.starts_with(&begin)).count()
    };
    let album = content(
        &site
            .bench
            .path("")
            .join(done["output"].as_str().context("no output")?),
    )?;
    let pages = album.keys().filter(|path| path.starts_with("squares"));
    ensure!(in_collection("research") == 16, "{entries:?}");
    ensure!(in_collection("albums") == pages.count(), "{entries:?}");
    // A second entry under one name would take a number more.
    let first = entries.first().and_then(|entry| entry["number"].as_u64());
    let numbers = entries.iter().filter_map(|entry| entry["number"].as_u64());
    ensure!(
        numbers.eq((first.context("no number")?..).take(entries.len())),
        "{entries:?}"
    );
    Ok(())
}

#[test]
fn user_job_organises_collection_and_replaces_nothing() -> anyhow::Result<()> {
    let site = Site::new("")?;
    write_pictures(&site.bench.path("photos"), 4)?;
    write_pictures(&site.bench.path("others"), 5)?;
    fs::copy(
        site.bench.path("others/p04.jpg"),
        site.bench.path("others/p00.jpg"),
    )?;
    let archive =
        |arguments: &[&str]| person::done(&site.bench, &[&["archive"], arguments].concat());
    archive(&["ingest", "photos", "--as", "holiday", "--camera", "gate"])?;
    archive(&[
        "ingest",
        "mem::no picture",
        "--as",
        "holiday",
        "--name",
        "note.txt",
    ])?;
    archive(&["protect", "holiday/p01.jpg"])?;

    let words = "best 2 of each camera in the collection holiday";
    let made = run(&site.bench, &["plan", words, "--run", "--output", "best"])?;
    id_of(&made)?;
    let files = content(&site.bench.path("best/album"))?;
    let of_gate = files.keys().filter(|path| path.starts_with("gate"));
    ensure!(of_gate.count() == 2, "{:?}", files.keys());

    let query = |collection: &str| {
        format!(
            "name: x\nsteps:\n  - {{name: q, tool: archive_query, params: {{collection: \
             {collection}, folder: f}}}}\n"
        )
    };
    let said = failure_of(&site, &query("holday"))?;
    ensure!(
        said.contains("no collection holday; it has holiday"),
        "{said}"
    );

    let ingest = |more: &str| {
        format!(
            "name: x\nsteps:\n  - {{name: list, tool: list_pictures, params: {{folder: others}}}}\n  \
             - {{name: i, tool: archive_ingest, params: {{from: \"${{list.pictures}}\", collection: \
             holiday{more}}}}}\n"
        )
    };
    let before = entries(&site)?;
    let said = failure_of(&site, &ingest(""))?;
    ensure!(
        said.contains("holiday/p00.jpg has another content"),
        "{said}"
    );
    // Refused as a whole: the new p04.jpg is not entered either.
    ensure!(entries(&site)? == before, "something was entered");
    fs::copy(
        site.bench.path("others/p04.jpg"),
        site.bench.path("others/p01.jpg"),
    )?;
    let said = failure_of(&site, &ingest(", replace: true"))?;
    ensure!(said.contains("holiday/p01.jpg is protected"), "{said}");

    fs::write(site.bench.path("source.yaml"), SOURCE)?;
    run(&site.bench, &["run", "source.yaml", "--output", "back"])?;
    let found = content(&site.bench.path("back/found"))?;
    ensure!(
        found.into_values().eq([b"alpha".to_vec()]),
        "another content"
    );
    // The agent reads no other file of the box for a job.
    let secret = SOURCE.replace("mem::alpha", "file::/etc/passwd");
    let said = failure_of(&site, &secret)?;
    ensure!(said.contains("ingest_roots"), "{said}");
    Ok(())
}
