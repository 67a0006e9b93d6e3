//! The command `watchkeeper`: flags → checked request → answer and exit code.
//!
//! Map: [`args`] is what a person types, [`exit`] what a script gets back, `output` the only place that writes;
//! `run` is the whole house for one watch, `remote` asks a runtime that is there, `ask` and `chat` do so in plain words (by [`watchkeeper_assistant::session`], of
//! which `showing` is what a person reads; `trace` shows what came of it, `blueprints` says what a model may do there, `state_folder` is where a person's own state lies), the rest works
//! without one.

pub mod args;
mod ask;
mod blueprints;
mod chat;
mod configuration;
mod doctor;
mod events;
pub mod exit;
mod inspect;
pub mod manual;
mod models;
pub mod output;
mod remote;
mod render;
pub mod run;
mod state_folder;
mod trace;
mod user_llm;
mod workflow;

/// Readers of outside data that are no part of any interface, open to the fuzz targets in `tests` only.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::models::begin;
    pub use super::run::workflow_of;
}

use std::process::ExitCode;

use clap::Parser;
use watchkeeper_config::Config;

use args::{Cli, Command, WorkflowAction};
use exit::{Exit, Failure};
use output::Output;
use watchkeeper_client::RuntimeClient;

/// Runs the command with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    // clap prints usage errors itself, with exit code 2, and help and version with 0.
    let cli = Cli::parse();
    let out = Output::new(cli.global.json);
    let ended = answer(cli, &out);
    out.end_live_line();
    match ended {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            out.failure(&failure);
            failure.exit.into()
        }
    }
}

/// Carries out one command.
fn answer(cli: Cli, out: &Output) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    // First those that need neither configuration nor runtime.
    let command = match command {
        Command::Completions { shell } => {
            manual::completions(shell, out);
            return Ok(());
        }
        Command::Man { dir } => return manual::man(dir.as_deref(), out),
        Command::Workflow { action } => {
            return match action {
                WorkflowAction::Validate { file } => workflow::check(&file, out),
                WorkflowAction::Run {
                    file,
                    image,
                    param,
                    detector,
                } => workflow::run(&file, &image, &param, detector.as_deref(), &global),
                WorkflowAction::Replay {
                    file,
                    detections,
                    outputs,
                } => workflow::replay(&file, &detections, outputs, out),
            };
        }
        Command::Blocks { block } => return workflow::blocks(block.as_deref(), out),
        Command::Config { action } => return configuration::run(action, &global, out),
        Command::Doctor => {
            let wrong = configuration::warnings(&global);
            return doctor::run(configuration::read(&global), &wrong, out);
        }
        Command::Trace(args) => return trace::run(args, &global, out),
        Command::Blueprints(args) => return blueprints::run(args, &global, out),
        other => other,
    };
    let config = match &command {
        Command::Run(args) => run::configuration(args, &global)?,
        _ => configuration::read_without_broker(&global)?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(Exit::Failed, format!("can't start: {e}")))?;
    runtime.block_on(online(command, &config, global.verbose, out))
}

/// Commands that talk to a runtime or the network.
async fn online(
    command: Command,
    config: &Config,
    verbose: bool,
    out: &Output,
) -> Result<(), Failure> {
    let client = RuntimeClient::new(&config.runtime_socket)?;
    match command {
        Command::Run(args) => run::run(&args, config, out, verbose).await,
        Command::Models { action } => models::run(action, &config.models, out).await,
        Command::Status => remote::status(&client, out).await,
        Command::Sources { action } => remote::sources(action, &client, out).await,
        Command::Pipelines { action } => remote::pipelines(action, &client, out).await,
        Command::Events(args) => events::run(args, &client, out).await,
        Command::Frame(args) => remote::frame(&args, &client, out).await,
        Command::Media(args) => remote::media(&args, &client, out).await,
        Command::Snapshot(args) => remote::snapshot(&args, &client, out).await,
        Command::Ask(args) => ask::run(&args, client, config, out).await,
        Command::Chat => chat::run(client, config, out).await,
        // Answered before a runtime was needed.
        Command::Blocks { .. }
        | Command::Workflow { .. }
        | Command::Config { .. }
        | Command::Doctor
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Trace(_)
        | Command::Blueprints(_) => Ok(()),
    }
}
