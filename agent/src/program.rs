//! The program `watchkeeper-agent`: arguments, configuration, parts, run, exit code.
//!
//! - It is linked twice. One is a separate program for the tests of this crate; the other is
//!   `watchkeeper`, which runs it when it is called by [`NAME`].

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;
use watchkeeper_client::error_chain::one_line;
use watchkeeper_config::{Config, ConfigError, LoadRequest};

use crate::run::{Agent, OPINION_TIMEOUT};

/// Name of the program, and of the link to `watchkeeper` that starts it.
pub const NAME: &str = "watchkeeper-agent";

/// Exit code for an invalid configuration, as in the runtime.
const EXIT_CONFIG: u8 = 2;

/// Carries events from the runtime's journal to an MQTT broker, and commands back.
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
struct Args {
    /// Configuration file [default: WATCHKEEPER_CONFIG, else /etc/watchkeeper/watchkeeper.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Stops when standard input ends, as it does when the parent process exits.
    #[arg(long)]
    exit_with_parent: bool,

    /// Writes delivery reports to standard output, one JSON object a line.
    #[arg(long)]
    report: bool,

    /// Clears at exit everything retained at the broker but the state: for a box that is removed.
    #[arg(long)]
    clear_at_end: bool,

    /// Writes the log as one JSON object a line. RUST_LOG sets the level [default: info].
    #[arg(long)]
    log_json: bool,
}

/// Runs the agent by the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    start_logging(args.log_json);
    let config = match load(&args) {
        Ok(config) => config,
        Err(errors) => {
            for error in &errors {
                tracing::error!("{error}");
            }
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    match run(&args, &config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", one_line(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, config: &Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't create the event loop")?;
    let outcome = runtime.block_on(async {
        let stop = stop_signal(args.exit_with_parent)?;
        let mut agent = Agent::start(config, OPINION_TIMEOUT)?;
        if args.report {
            agent = agent.with_reports();
        }
        if args.clear_at_end {
            agent = agent.clearing_at_exit();
        }
        agent.run(stop).await.map_err(anyhow::Error::from)
    });
    // A write that waits for a full disk must not delay the exit.
    runtime.shutdown_background();
    outcome
}

fn load(args: &Args) -> Result<Config, Vec<ConfigError>> {
    let config = watchkeeper_config::load(&LoadRequest::from_process(args.config.clone()))?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

/// Resolves on SIGTERM, SIGINT, SIGHUP or, with `exit_with_parent`, at the end of standard input.
fn stop_signal(exit_with_parent: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate()).context("can't catch SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("can't catch SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("can't catch SIGHUP")?;
    let parent = exit_with_parent.then(watch_parent).transpose()?;
    Ok(async move {
        let parent_gone = async {
            match parent {
                // A panic of the watcher counts as the end too.
                Some(gone) => drop(gone.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            () = parent_gone => {}
        }
    })
}

/// Reads standard input to its end on its own thread: tokio's reader would delay the exit.
fn watch_parent() -> anyhow::Result<oneshot::Receiver<()>> {
    let (sender, parent_gone) = oneshot::channel();
    std::thread::Builder::new()
        .name("parent".to_owned())
        .spawn(move || {
            let mut ignored = [0; 256];
            // An error counts as the end too.
            while std::io::stdin().read(&mut ignored).is_ok_and(|n| n > 0) {}
            sender.send(()).ok();
        })
        .context("can't create the thread that watches the parent")?;
    Ok(parent_gone)
}

fn start_logging(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    if json {
        log.json().init();
    } else {
        log.init();
    }
}
