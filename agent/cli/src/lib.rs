//! The command `watchkeeper`: flags → checked request → answer and exit code.
//!
//! - [`args`] declares the flags, [`exit`] the exit codes; [`output`] alone writes to the terminal.
//! - [`run`] starts its own daemons for one watch.
//! - `remote` and `events` query a running runtime.
//! - `ask` and `chat` open a [`watchkeeper_assistant::session`], which `render` prints; `trace` and
//!   `blueprints` manage its log and its blueprints below `state_folder`.
//! - The other commands need no runtime.

mod agent_health;
pub mod args;
mod ask;
mod blueprints;
mod chain;
mod chat;
mod configuration;
mod doctor;
mod events;
pub mod exit;
mod inspect;
mod manual;
mod models;
pub mod output;
mod remote;
mod render;
pub mod run;
mod state_folder;
mod trace;
mod user_llm;
mod workflow;

/// Parsers of outside data, public for the fuzz targets in `tests` only.
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

/// Dispatches a command; starts an async runtime only for the commands that need one.
fn answer(cli: Cli, out: &Output) -> Result<(), Failure> {
    let Cli { global, command } = cli;
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
            let warnings = configuration::warnings(&global);
            return doctor::run(configuration::read(&global), &warnings, out);
        }
        Command::Trace(args) => return trace::run(args, &global, out),
        Command::Blueprints(args) => return blueprints::run(args, &global, out),
        other => other,
    };
    let config = match &command {
        Command::Run(args) => run::configuration(args, &global)?,
        Command::Status
        | Command::Sources { .. }
        | Command::Pipelines { .. }
        | Command::Events(_)
        | Command::Frame { .. }
        | Command::Media { .. } => configuration::read_for_sockets(&global, out),
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
        Command::Status => remote::status(&client, config, out).await,
        Command::Sources { action } => remote::sources(action, &client, out).await,
        Command::Pipelines { action } => remote::pipelines(action, &client, out).await,
        Command::Events(args) => events::run(args, &client, out).await,
        Command::Frame { action } => remote::frame(&action, &client, out).await,
        Command::Media { action } => remote::media(&action, &client, out).await,
        Command::Ask(args) => ask::run(&args, client, config, out).await,
        Command::Chat => chat::run(client, config, out).await,
        // `answer` handles these without an async runtime.
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
