//! `watchkeeper-runtime`: arguments → configuration → parts → run → exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use watchkeeper_config::LoadRequest;
use watchkeeper_detect::{NO_TELEMETRY_ENV, trt};
use watchkeeper_runtime::media::window::{self, WindowSize};
use watchkeeper_runtime::{
    camera_trial, capture, daemon, image_run, model_calibration, model_queries,
};

/// Watches cameras: capture, inference, workflows, journal. Serves HTTP on a Unix socket; needs
/// neither network nor agent.
#[derive(Debug, Parser)]
#[command(name = "watchkeeper-runtime", version, about)]
struct Args {
    /// Configuration file [default: WATCHKEEPER_CONFIG, else /etc/watchkeeper/watchkeeper.toml if
    /// it exists]; see docs/ref/configuration.md
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    lifetime: daemon::Lifetime,
    /// Write logs as JSON, one object per line
    #[arg(long)]
    log_json: bool,
    /// Print missing GStreamer elements as JSON and exit
    #[arg(long)]
    check_media: bool,
    /// Show pictures of this size from standard input; the runtime starts itself this way for a
    /// preview window
    #[arg(long, hide = true, value_name = "WIDTHxHEIGHT")]
    window: Option<WindowSize>,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Commands besides running the daemon.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workflow on still pictures and print the results as JSON; called by `watchkeeper
    /// workflow run`
    WorkflowRun(image_run::Request),
    /// Compare detectors on some seconds of a camera and print a report as JSON; called by
    /// `watchkeeper cameras tune`
    CameraTrial(camera_trial::Request),
    /// Open a model as a pipeline would, with limits of memory; called by `watchkeeper models add`,
    /// and by the runtime before a first load
    ModelCheck(daemon::ModelCheck),
    /// Print the back ends of this box as JSON; called by `watchkeeper backends`
    Backends(model_queries::Backends),
    /// Measure a model on the back ends of this box and print a report as JSON; called by
    /// `watchkeeper models bench` and by the runtime
    ModelBench(model_queries::ModelBenchRequest),
    /// Make the network of int8 of a model by frames of a source and print a report as JSON; called
    /// by `watchkeeper models calibrate`
    ModelCalibrate(model_calibration::Request),
    /// Ask for TensorRT and the device and print the answer as JSON; called by the runtime
    #[command(hide = true)]
    TrtProbe {
        #[arg(long, value_name = "FILE")]
        library: PathBuf,
    },
    /// Build an engine of TensorRT; called by the runtime
    #[command(hide = true)]
    TrtBuild {
        #[arg(long, value_name = "JSON")]
        order: String,
    },
}

impl Command {
    /// Runs a command that needs no configuration, or that a runtime called with its settings.
    fn begin(&self) -> Option<ExitCode> {
        let written = match self {
            Self::ModelCheck(check) => return check.begin(),
            Self::Backends(query) => return query.begin(),
            Self::ModelBench(request) => return request.begin(),
            Self::TrtProbe { library } => trt::probe::serve(library),
            Self::TrtBuild { order } => trt::build::serve(order),
            Self::WorkflowRun(_) | Self::CameraTrial(_) | Self::ModelCalibrate(_) => return None,
        };
        // Without a reader the output does not matter.
        Some(written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
    }
}

/// Sets the environment variables that GStreamer elements and ONNX Runtime read.
#[expect(
    unsafe_code,
    reason = "the libraries read these from the environment only"
)]
fn prepare_environment() {
    for (name, value) in [capture::DRAIN_V4L2_ENV, NO_TELEMETRY_ENV] {
        // SAFETY: `main` calls this first, so no other thread can read the environment meanwhile.
        unsafe { std::env::set_var(name, value) };
    }
}

fn main() -> ExitCode {
    prepare_environment();
    let args = Args::parse();
    if args.check_media {
        return daemon::check_media();
    }
    daemon::init_logs(args.log_json);
    if let Some(ended) = args.command.as_ref().and_then(Command::begin) {
        return ended;
    }
    if let Some(size) = args.window {
        return match window::serve(size) {
            Ok(()) => ExitCode::SUCCESS,
            // The process that opened the window has the reason.
            Err(_) => ExitCode::FAILURE,
        };
    }
    let config = match watchkeeper_config::load(&LoadRequest::of_runtime(args.config)) {
        Ok(config) => config,
        Err(errors) => {
            for error in &errors {
                tracing::error!("{error}");
            }
            return ExitCode::from(daemon::EXIT_CONFIG);
        }
    };
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match &args.command {
        Some(Command::WorkflowRun(request)) => return image_run::main(request, &config),
        Some(Command::CameraTrial(request)) => return camera_trial::main(request, &config),
        Some(Command::ModelCheck(check)) => return check.run(&config),
        Some(Command::Backends(query)) => return query.run(&config),
        Some(Command::ModelBench(request)) => return request.run(&config),
        Some(Command::ModelCalibrate(request)) => return request.run(&config),
        Some(Command::TrtProbe { .. } | Command::TrtBuild { .. }) | None => {}
    }
    match daemon::run(config, &args.lifetime) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
