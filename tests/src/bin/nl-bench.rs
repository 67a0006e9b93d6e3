//! Sends the tasks of a file to a box and grades what it deploys.
//!
//!     cargo run -p watchkeeper-tests --bin nl-bench -- FILE [--runs K] [--only ID] [--json OUT]
//!     cargo run -p watchkeeper-tests --bin nl-bench -- FILE --provider URL --model ID
//!         [--wire claude|openai|gemini|ollama] [--key-env NAME]
//!
//! Build the programs before: `cargo build --workspace`. Exit codes:
//! - 0: it ran; with `--gate` the gate is reached.
//! - 1: one of these failed, or an LLM was configured and never answered.
//! - 2: it could not run, or a task of the file could not be read or run; the others ran.
//!
//! `tests/nl/README.md` has the details.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the answer to a command"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Parser;
use secrecy::SecretString;
use serde_json::Value;
use watchkeeper_tests::exit;
use watchkeeper_tests::nl::bench;
use watchkeeper_tests::nl::provider::{Agent, Wire};
use watchkeeper_tests::nl::report::TaskScore;
use watchkeeper_tests::nl::task::TaskFile;

/// Value of `--provider` for no LLM.
const RULES: &str = "rules";

#[derive(Debug, Parser)]
#[command(about = "Grades plain language on scripted scenes")]
struct Args {
    /// File of tasks.
    file: PathBuf,
    /// `rules`, or the base URL of an LLM server.
    #[arg(long, default_value = RULES, value_name = "rules|URL")]
    provider: String,
    /// Model id of the LLM.
    #[arg(long, value_name = "ID", requires = "provider")]
    model: Option<String>,
    /// Wire protocol of the LLM server.
    #[arg(long, value_enum, default_value = "claude")]
    wire: Wire,
    /// Environment variable that holds the LLM's key.
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Runs of each task, with its instruction and its paraphrase in turn.
    #[arg(long, default_value_t = 4, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Runs only the task of this id; may be repeated.
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// File for the whole result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exits with 1 if the gate of the file is not reached.
    #[arg(long)]
    gate: bool,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()), 2)
}

/// Runs the command and returns its exit code.
fn run(args: &Args) -> anyhow::Result<u8> {
    let mut file = TaskFile::read(&args.file)?;
    if !args.only.is_empty() {
        if let Some(unknown) = args
            .only
            .iter()
            .find(|id| !file.ids().any(|known| known == **id))
        {
            let ids: Vec<&str> = file.ids().collect();
            bail!(
                "--only names {unknown:?}, which is no task of the file; there are: {}",
                ids.join(", ")
            );
        }
        file.tasks.retain(|task| args.only.contains(&task.id));
        file.unreadable.retain(|(id, _)| args.only.contains(id));
    }
    let agent = match args.provider.as_str() {
        RULES if args.model.is_some() => {
            bail!("--model names a model, and --provider the rules; give the address of its server")
        }
        RULES => Agent::Rules,
        url => Agent::Model {
            url: url.to_owned(),
            model: args.model.clone(),
            wire: args.wire,
            key: args.key_env.as_deref().map(key).transpose()?,
        },
    };
    let mut told = |task: &TaskScore| {
        let passed = task.runs.iter().filter(|r| r.graded.passed).count();
        eprintln!("{}: {passed} of {} runs pass", task.task.id, args.runs);
    };
    let score = bench::run(&file, &agent, usize::from(args.runs), &mut told);
    print!("{}", score.table());
    write(args.json.as_deref(), &score.json())?;
    if !score.unreadable.is_empty() || score.shares().not_run > 0 {
        return Ok(2);
    }
    let is_reached = !score.is_llm_silent() && (!args.gate || score.is_released());
    Ok(u8::from(!is_reached))
}

/// Reads the key from an environment variable.
fn key(name: &str) -> anyhow::Result<SecretString> {
    let key = std::env::var(name)
        .with_context(|| format!("--key-env names the variable {name}, which isn't set"))?;
    Ok(key.into())
}

fn write(path: Option<&Path>, value: &Value) -> anyhow::Result<()> {
    let Some(path) = path else {
        return Ok(());
    };
    let text = format!("{value:#}\n");
    std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}
