//! A user at the command line of a box under test, with their own home.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use anyhow::Context as _;
use serde_json::Value;

use crate::daemons::{Bench, json_lines, program};

/// Builds the command with the configuration of the box and the user's own state folder.
///
/// # Errors
/// If the command was not built.
pub fn command(bench: &Bench) -> anyhow::Result<Command> {
    let mut command = Command::new(program("watchkeeper")?);
    command
        .arg("--config")
        .arg(bench.config())
        .env("XDG_STATE_HOME", bench.path("home"))
        .stdin(Stdio::null());
    Ok(command)
}

/// Runs a command with `--json` in the folder of the box.
///
/// # Errors
/// If the command can't be started.
pub fn run(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = command(bench)?;
    command.args(arguments).arg("--json");
    Ok(command.current_dir(bench.path("")).output()?)
}

/// Runs a command that has to succeed; returns its objects.
///
/// # Errors
/// If it fails or prints no JSON.
pub fn done(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let out = run(bench, arguments)?;
    let errors = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "{arguments:?}: {errors}");
    json_lines(&out.stdout).with_context(|| errors.into_owned())
}

/// Runs a command that has to fail; returns all that it prints.
///
/// # Errors
/// If it succeeds.
pub fn refused(bench: &Bench, arguments: &[&str]) -> anyhow::Result<String> {
    let out = run(bench, arguments)?;
    anyhow::ensure!(!out.status.success(), "{arguments:?} succeeded");
    let all = [out.stdout, out.stderr].concat();
    Ok(String::from_utf8_lossy(&all).into_owned())
}

/// Returns the names of these entries of the archive.
pub fn entry_names(found: &[Value]) -> Vec<&str> {
    let names = found.iter().map(|entry| entry["name"].as_str());
    names.flatten().collect()
}

/// Runs `watchkeeper ask` with these arguments.
///
/// # Errors
/// If the command can't be started.
pub fn ask(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(command(bench)?.arg("ask").args(arguments).output()?)
}

/// Runs `watchkeeper ask --json`; returns exit code, objects of standard output, standard error.
///
/// # Errors
/// If the command can't be started, or its output is not JSON.
pub fn ask_json(bench: &Bench, arguments: &[&str]) -> anyhow::Result<(i32, Vec<Value>, String)> {
    let arguments = [arguments, &["--json"]].concat();
    let out = ask(bench, &arguments)?;
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    let objects = json_lines(&out.stdout).with_context(|| errors.clone())?;
    Ok((out.status.code().unwrap_or(-1), objects, errors))
}

/// Runs the chat with these lines; returns its objects.
///
/// # Errors
/// If the command can't be started, fails, or writes no JSON.
pub fn chat(bench: &Bench, lines: &str) -> anyhow::Result<Vec<Value>> {
    chat_with(command(bench)?, lines)
}

/// Runs the chat with these lines by a prepared command; returns its objects.
///
/// # Errors
/// As [`chat`].
pub fn chat_with(mut command: Command, lines: &str) -> anyhow::Result<Vec<Value>> {
    let mut child = command
        .args(["chat", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    input.write_all(lines.as_bytes())?;
    drop(input);
    let out = child.wait_with_output()?;
    anyhow::ensure!(out.status.success(), "{}", out.status);
    json_lines(&out.stdout)
}

/// Returns the types of these objects.
pub fn types(objects: &[Value]) -> Vec<&str> {
    objects.iter().filter_map(|o| o["type"].as_str()).collect()
}
