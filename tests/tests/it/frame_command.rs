//! `watchkeeper frame` and `watchkeeper media` on a running box.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use watchkeeper_tests::daemons::{Bench, json_lines};
use watchkeeper_tests::person::command;
use watchkeeper_tests::scene::{STREET, deploy};

/// Runs the command with `--json`; returns its one object.
fn json_of(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Value> {
    let out = command(bench)?.args(arguments).arg("--json").output()?;
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    ensure!(out.status.success(), "{arguments:?}: {errors}");
    json_lines(&out.stdout)?.pop().context("no object")
}

fn is_jpeg(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xd8, 0xff])
}

#[test]
fn frames_are_saved_kept_and_downloaded() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    bench.configure(&format!("[sources.street]\nuri = {STREET:?}\n"))?;
    let _runtime = bench.runtime()?;
    deploy(&bench)?;
    let path = |name: &str| bench.path(name).display().to_string();
    let (saved, kept, got) = (path("saved.jpg"), path("kept.jpg"), path("got.jpg"));

    json_of(&bench, &["frame", "save", "street", "-o", &saved])?;
    ensure!(is_jpeg(&std::fs::read(&saved)?));

    let answer = json_of(&bench, &["frame", "keep", "street", "-o", &kept])?;
    let id = answer["id"].as_str().context("no id")?;
    json_of(&bench, &["media", "get", id, "-o", &got])?;
    let (kept, got) = (std::fs::read(&kept)?, std::fs::read(&got)?);
    ensure!(is_jpeg(&kept) && kept == got);
    Ok(())
}

#[test]
fn frame_save_of_a_pipeline_without_its_option_names_the_option() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    bench.configure(&format!("[sources.street]\nuri = {STREET:?}\n"))?;
    let _runtime = bench.runtime()?;
    deploy(&bench)?;
    let pipelines = bench.get("/v1/pipelines")?;
    let id = pipelines[0]["spec"]["id"].as_str().context("no pipeline")?;
    let file = bench.path("x.jpg").display().to_string();
    let out = command(&bench)?
        .args(["frame", "save", id, "-o", &file])
        .output()?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(
        !out.status.success() && errors.contains(&format!("use --pipeline {id}")),
        "{errors}"
    );
    Ok(())
}
