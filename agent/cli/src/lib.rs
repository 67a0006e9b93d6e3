//! The command `watchkeeper`: flags → checked request → answer and exit code.
//!
//! - [`args`] declares the flags, [`exit`] the exit codes; [`output`] alone writes to the terminal.
//! - [`run`] starts its own daemons for one watch.
//! - `remote` and `events` query a running runtime.
//! - `ask`, `watch` and `chat` open a [`watchkeeper_assistant::session`], which `render` prints;
//!   `trace`, `blueprints` and `memory` manage its log, blueprints and notes below `state_folder`.
//! - The other commands need no runtime.

mod agent_client;
mod agent_health;
mod archive;
mod args;
mod ask;
mod audit;
mod backend_changes;
mod backends;
mod blueprints;
mod board;
mod chat;
mod configuration;
mod coverage;
mod deployed;
mod discovery;
mod doctor;
mod download;
mod dry_run;
mod event_export;
mod event_loop;
mod events;
mod evidence;
mod exit;
mod hash_chain;
mod heartbeat;
mod inspect;
mod jobs;
mod journal_record;
mod local_cameras;
mod look_rates;
mod lookup;
mod lookup_check;
mod manual;
mod memory;
mod models;
mod output;
mod pipeline_file;
mod privacy;
mod reasons;
mod reference;
mod remote;
mod render;
mod reviews;
mod run;
mod runtime_absence;
mod runtime_program;
mod source_path;
mod state_folder;
mod trace;
mod tune;
mod user_file;
mod user_llm;
mod watch;
mod workflow;

/// Parsers of outside data, public for the fuzz targets in `tests` only.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::discovery::read_answer;
    pub use super::download::begin;
}

use std::process::ExitCode;

use clap::Parser;
use watchkeeper_config::Config;
use watchkeeper_models::model_check::print_refusal;

use args::{
    Cli, Command, Global, OfflineCommand, OnlineCommand, PipelineAction, SourceAction,
    WorkflowAction,
};
use exit::{Exit, Failure};
use output::Output;
use watchkeeper_client::RuntimeClient;

/// Runs the command with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    // clap prints usage errors itself, with exit code 2, and help and version with 0.
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        let is_json = std::env::args_os().any(|argument| argument == "--json");
        if error.use_stderr() {
            let failure = Failure::input(error.to_string().trim());
            Output::new(is_json).failure_object(&failure);
        }
        error.exit()
    });
    let out = Output::new(cli.global.json);
    let ended = answer(cli, &out);
    out.end_live_line();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            out.failure(&failure);
            ExitCode::from(failure.exit.code())
        }
    }
}

/// Dispatches a command; starts an async runtime only for the commands that need one.
fn answer(cli: Cli, out: &Output) -> Result<(), Failure> {
    match cli.command {
        Command::Offline(command) => offline(command, &cli.global, out),
        Command::Online(command) => {
            let config = configuration_for(&command, &cli.global, out)?;
            let is_query = command.asks_daemon();
            let ended = event_loop::new()?.block_on(online(command, &config, &cli.global, out));
            ended.map_err(
                |failure| match is_query && failure.exit == Exit::NoRuntime {
                    true => failure.with(run::other_sockets()),
                    false => failure,
                },
            )
        }
    }
}

fn offline(command: OfflineCommand, global: &Global, out: &Output) -> Result<(), Failure> {
    match command {
        OfflineCommand::Completions { shell } => {
            manual::completions(shell, out);
            Ok(())
        }
        OfflineCommand::EmbeddingCheck { folder } => {
            let checked = watchkeeper_assistant::notes::check_model(&folder);
            checked.map_err(|why| {
                print_refusal(&why);
                Failure::failed(why)
            })
        }
        OfflineCommand::Workflow { action } => match action {
            WorkflowAction::Validate { file } => workflow::check(&file, out),
            WorkflowAction::Run {
                file,
                image,
                param,
                detector,
            } => workflow::run(&file, &image, &param, detector.as_deref(), global, out),
            WorkflowAction::Replay {
                file,
                detections,
                outputs,
            } => workflow::replay(&file, &detections, outputs, out),
        },
        OfflineCommand::Blocks { block } => workflow::blocks(block.as_deref(), out),
        OfflineCommand::Config { action } => configuration::run(action, global, out),
        OfflineCommand::Board { watch } => board::run(watch, out),
        OfflineCommand::Doctor => {
            let errors = configuration::all_errors(global);
            let mut config = configuration::read_usable(global);
            let deployed = deployed::besides(&config);
            config.pipelines.extend(deployed.into_iter().flatten());
            doctor::run(&config, &errors, global, out)
        }
        OfflineCommand::Trace(args) => trace::run(args, global, out),
        OfflineCommand::Audit(args) => audit::run(args, global, out),
        OfflineCommand::Blueprints(args) => blueprints::run(args, global, out),
        OfflineCommand::Job { action } => jobs::run(action, global, out),
        OfflineCommand::Lookup { name, value } => lookup::run(&name, &value, global, out),
        OfflineCommand::Memory(args) => memory::run(args, global, out),
    }
}

/// Reads what a command needs of the configuration.
fn configuration_for(
    command: &OnlineCommand,
    global: &Global,
    out: &Output,
) -> Result<Config, Failure> {
    Ok(match command {
        OnlineCommand::Run(args) => run::configuration(args, global)?,
        command if !command.asks_daemon() => configuration::read_usable(global),
        OnlineCommand::Status
        | OnlineCommand::Sources { .. }
        | OnlineCommand::Pipelines { .. }
        | OnlineCommand::Archive { .. }
        | OnlineCommand::Reference { .. }
        | OnlineCommand::Heartbeat { .. }
        | OnlineCommand::Events(_)
        | OnlineCommand::Reviews(_)
        | OnlineCommand::Coverage(_)
        | OnlineCommand::Evidence { .. }
        | OnlineCommand::Frame { .. }
        | OnlineCommand::Media { .. } => configuration::read_for_sockets(global, out),
        OnlineCommand::Ask(_)
        | OnlineCommand::Watch(_)
        | OnlineCommand::Chat(_)
        | OnlineCommand::Models { .. }
        | OnlineCommand::Backends { .. } => configuration::read_without_broker(global)?,
    })
}

async fn online(
    command: OnlineCommand,
    config: &Config,
    global: &Global,
    out: &Output,
) -> Result<(), Failure> {
    let client = RuntimeClient::new(&config.runtime_socket)?;
    match command {
        OnlineCommand::Run(args) => run::run(&args, config, global, out).await,
        OnlineCommand::Models { action } => models::run(action, &config.models, global, out).await,
        OnlineCommand::Backends { action } => {
            backends::run(action, &client, config, global, out).await
        }
        OnlineCommand::Status => remote::status(&client, config, out).await,
        OnlineCommand::Sources { action } => {
            let changes = action.as_ref().and_then(SourceAction::change);
            let command = remote::sources(action, &client, global, out);
            audit::recorded(changes, config.agent.audit, command).await
        }
        OnlineCommand::Pipelines { action } => {
            let changes = action.as_ref().and_then(PipelineAction::change);
            let command = remote::pipelines(action, &client, out);
            audit::recorded(changes, config.agent.audit, command).await
        }
        OnlineCommand::Archive { action } => archive::run(action, config, out).await,
        OnlineCommand::Reference { action } => reference::run(action, config, out).await,
        OnlineCommand::Heartbeat { action } => heartbeat::run(action, config, out).await,
        OnlineCommand::Events(args) => events::run(args, &client, out).await,
        OnlineCommand::Reviews(args) => reviews::run(args, client, config, out).await,
        OnlineCommand::Coverage(args) => coverage::run(args, &client, out).await,
        OnlineCommand::Evidence { action } => evidence::run(action, &client, config, out).await,
        OnlineCommand::Frame { action } => remote::frame(&action, &client, out).await,
        OnlineCommand::Media { action } => remote::media(&action, &client, out).await,
        OnlineCommand::Ask(args) => ask::run(&args, client, config, out).await,
        OnlineCommand::Watch(args) => watch::run(&args, client, config, out).await,
        OnlineCommand::Chat(args) => chat::run(client, config, args, out).await,
    }
}
