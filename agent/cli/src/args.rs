//! Flags of the command line. Turning them into a checked request is the commands' first step.

mod archive;
mod audit;
mod backends;
mod camera;
mod chat;
mod coverage;
mod event_export;
mod evidence;
mod frame;
mod heartbeat;
mod job;
mod memory;
mod pipeline;
mod pull;
mod reference;
mod reviews;
mod run;
mod tune;
mod value;
mod watch;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use watchkeeper_assistant::blueprint::BlueprintName;
use watchkeeper_contract::id::{DisplayName, SourceId};

pub(crate) use self::archive::{ArchiveAction, ArchiveIngestArgs, ArchiveQueryArgs, Like};
pub(crate) use self::audit::{AuditAction, AuditArgs};
pub(crate) use self::backends::{BackendAction, BackendPullArgs, BenchArgs, CalibrateArgs};
pub(crate) use self::camera::{FindArgs, SetArgs};
pub(crate) use self::chat::ChatArgs;
pub(crate) use self::coverage::CoverageArgs;
pub(crate) use self::event_export::{EventAction, EventArgs, EventExportArgs};
pub(crate) use self::evidence::{EvidenceAction, EvidenceExportArgs, EvidenceVerifyArgs};
pub(crate) use self::frame::{
    FrameAction, FrameKeepArgs, FrameSaveArgs, MediaAction, MediaGetArgs,
};
pub(crate) use self::heartbeat::HeartbeatAction;
pub(crate) use self::job::{
    JobAction, JobOutput, JobOwner, JobPlanArgs, JobRefineArgs, JobRunArgs, TemplateAction,
};
pub(crate) use self::memory::{DEFAULT_NOTES, MemoryAction, MemoryArgs, MemoryListArgs};
pub(crate) use self::pipeline::{PipelineAction, PipelineTryArgs};
pub(crate) use self::pull::PullArgs;
pub(crate) use self::reference::ReferenceAction;
pub(crate) use self::reviews::{AnswerArgs, ReviewAction, ReviewArgs};
pub(crate) use self::run::RunArgs;
pub(crate) use self::tune::TuneArgs;
use self::value::{positive, seconds};
pub(crate) use self::watch::{PARAMETERS, WatchArgs};

/// Local video analytics for cameras: detect, count, alert.
#[derive(Debug, Parser)]
#[command(
    name = "watchkeeper",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "Examples:
  watchkeeper run rtsp://user:password@10.0.0.20/stream --watch person
  watchkeeper ask \"tell me when a person enters the left half on camera gate\"
  watchkeeper doctor"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Print JSON to standard output, one object a line.
    #[arg(long, global = true)]
    pub json: bool,
    /// Configuration file [default: $WATCHKEEPER_CONFIG, else /etc/watchkeeper/watchkeeper.toml].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Unix socket of the runtime [default: from the configuration].
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Folder of model files [default: from the configuration].
    #[arg(long, global = true, value_name = "DIR")]
    pub models_dir: Option<PathBuf>,
    /// Back end that runs models: auto, trt, ort or rten [default: from the configuration].
    #[arg(long, global = true, value_name = "NAME")]
    pub backend: Option<String>,
    /// Write the logs of started programs to standard error.
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Online(OnlineCommand),
    #[command(flatten)]
    Offline(OfflineCommand),
}

/// Commands that [`online`](super::online) runs on an event loop, with the configuration and a
/// client of the runtime.
#[derive(Debug, Subcommand)]
pub(crate) enum OnlineCommand {
    /// Watch a camera or file now: print events as they happen, and the counts at the end.
    Run(Box<RunArgs>),
    /// Show the status of runtime, cameras, pipelines, agent, broker, clock and disk.
    Status,
    /// List, find, add, set up, remove and tune cameras [default: list].
    #[command(name = "cameras", visible_alias = "sources")]
    Sources {
        #[command(subcommand)]
        action: Option<SourceAction>,
    },
    /// List, show, create, pause, resume and delete pipelines [default: list].
    Pipelines {
        #[command(subcommand)]
        action: Option<PipelineAction>,
    },
    /// Show, pause or resume the periodic check of the agent [default: status].
    Heartbeat {
        #[command(subcommand)]
        action: Option<HeartbeatAction>,
    },
    /// Print events of the journal, export them, or verify their hash chain.
    Events(EventArgs),
    /// List the events that wait for a person, and answer them.
    Reviews(ReviewArgs),
    /// Show when cameras were watched, and why not at other times.
    Coverage(CoverageArgs),
    /// Write an event or a job to one file that the box signs, or verify one.
    Evidence {
        #[command(subcommand)]
        action: EvidenceAction,
    },
    /// Save the latest frame of a camera to a file, or keep it on the box.
    Frame {
        #[command(subcommand)]
        action: FrameAction,
    },
    /// Download kept pictures and clips.
    Media {
        #[command(subcommand)]
        action: MediaAction,
    },
    /// Ingest, find, save, protect and destroy what the agent's archive holds.
    Archive {
        #[command(subcommand)]
        action: ArchiveAction,
    },
    /// Add, list and remove reference pictures, which rules compare with.
    #[command(visible_alias = "references")]
    Reference {
        #[command(subcommand)]
        action: ReferenceAction,
    },
    /// Ask a question or request a change in plain English; changes need your confirmation.
    Ask(AskArgs),
    /// Propose a watch by a template, as `ask` does by a sentence.
    Watch(Box<WatchArgs>),
    /// Chat with the box in plain English; changes need your confirmation.
    Chat(ChatArgs),
    /// List, download, verify, add and measure models [default: list].
    Models {
        #[command(subcommand)]
        action: Option<ModelAction>,
    },
    /// List the back ends that run models, and install ONNX Runtime [default: list].
    Backends {
        #[command(subcommand)]
        action: Option<BackendAction>,
    },
}

/// Commands that read what they need of the configuration themselves; some talk to the agent or a
/// service on an event loop of their own.
#[derive(Debug, Subcommand)]
pub(crate) enum OfflineCommand {
    /// Print the log of requests, proposals, confirmations and calls of language models.
    Trace(TraceArgs),
    /// Print or verify the audit log: confirmations, effects, money spent [default: list].
    Audit(AuditArgs),
    /// Organise pictures by plans: plan, check, run, resume and show jobs.
    #[command(visible_alias = "jobs")]
    Job {
        #[command(subcommand)]
        action: JobAction,
    },
    /// Manage blueprints: instructions, tools and budget of LLM jobs [default: list].
    Blueprints(BlueprintArgs),
    /// Ask a look-up of the configuration about a value, as the chain of a rule does.
    Lookup {
        /// Name of the look-up: [agent.lookups.NAME].
        name: String,
        /// Value, such as a number plate; for fields a picture file, which is only checked.
        value: String,
    },
    /// List, search and remove notes, such as observations and lessons [default: list].
    Memory(MemoryArgs),
    /// List the workflow blocks, or describe one.
    Blocks {
        /// Type of the block to describe, such as line_counter.
        block: Option<String>,
    },
    /// Check a workflow, or run it on pictures or recorded detections.
    Workflow {
        #[command(subcommand)]
        action: WorkflowAction,
    },
    /// Check or print the configuration.
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Show the board: its temperatures, power, load, memory and storage.
    Board {
        /// Show it again every two seconds.
        #[arg(long)]
        watch: bool,
    },
    /// Check this machine and print the command that fixes each problem.
    Doctor,
    /// Load a sentence embedding model once, within limits; called before the notes use it.
    #[command(hide = true)]
    EmbeddingCheck {
        /// Folder of the model.
        folder: PathBuf,
    },
    /// Print the completion script of a shell.
    Completions {
        /// Shell that reads the script.
        shell: clap_complete::Shell,
    },
}

impl OnlineCommand {
    /// Returns whether the command asks a running daemon.
    pub(crate) fn asks_daemon(&self) -> bool {
        match self {
            Self::Watch(args) => !args.list,
            Self::Sources {
                action: Some(SourceAction::Tune(_) | SourceAction::Devices | SourceAction::Find(_)),
            }
            | Self::Run(_) => false,
            _ => true,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SourceAction {
    /// List cameras and their state.
    List,
    /// Add a camera, or replace the one with this ID.
    #[command(after_help = "Examples:
  watchkeeper cameras add gate rtsp://user:password@192.168.1.20/stream --name \"Main gate\"
  watchkeeper cameras add desk /dev/v4l/by-id/usb-046d_C920-video-index0")]
    Add {
        /// ID of the camera, such as gate.
        id: SourceId,
        /// Address: rtsp://…, http://…, /dev/videoN, csi://N, demo:, a video file or a folder of
        /// images.
        uri: String,
        /// Name in messages, such as "Loading dock" [default: the ID].
        #[arg(long, value_name = "NAME")]
        name: Option<DisplayName>,
        /// Play files in real time, dropping late frames.
        #[arg(long)]
        native: bool,
        /// Maximum frames per second.
        #[arg(long, value_name = "FPS", value_parser = positive)]
        max_fps: Option<f64>,
        /// Use UDP for RTSP [default: TCP].
        #[arg(long)]
        udp: bool,
        /// Accept self-signed certificates.
        #[arg(long)]
        no_tls_verify: bool,
        /// Seconds without a frame before the camera counts as lost [default: 5].
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        stall: Option<f64>,
    },
    /// Remove a camera.
    Remove {
        /// ID of the camera.
        id: SourceId,
    },
    /// List the USB and CSI cameras of this machine with their addresses, formats, sizes and
    /// rates; with --json also their controls. Needs no runtime.
    Devices,
    /// Find ONVIF cameras on the local network; needs no runtime.
    Find(FindArgs),
    /// Show a camera; of a V4L2 device also its controls and their ranges.
    Show {
        /// ID of the camera.
        id: SourceId,
    },
    /// Set controls of a V4L2 device, such as exposure, gain and focus. The runtime keeps
    /// them, and reopens the camera.
    Set(SetArgs),
    /// Compare the installed models, with and without tiles, on some seconds of a camera, and
    /// propose one for this view and machine; needs no runtime.
    Tune(TuneArgs),
}

impl SourceAction {
    /// Returns what it changes, for the audit log.
    pub(crate) fn change(&self) -> Option<String> {
        match self {
            Self::List | Self::Devices | Self::Find(_) | Self::Show { .. } | Self::Tune(_) => None,
            Self::Add { id, .. } => Some(format!("add or replace camera {id}")),
            Self::Remove { id } => Some(format!("remove camera {id}")),
            Self::Set(args) => Some(format!("set controls of camera {}", args.id)),
        }
    }
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  watchkeeper ask \"tell me when a person stays in the zone bench for 2 minutes\"
  watchkeeper ask --confirm yfs6d
  watchkeeper ask \"how many cars yesterday\"")]
pub(crate) struct AskArgs {
    /// Request or question in English.
    #[arg(required_unless_present = "confirm")]
    pub text: Vec<String>,
    /// Apply without confirmation; refused if any part of the request was not understood.
    #[arg(long)]
    pub yes: bool,
    /// Skip the rules: the configured language model writes and proposes a workflow.
    #[arg(long)]
    pub think: bool,
    /// Skip the rules: the configured language model works by this blueprint.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["think", "yes"])]
    pub blueprint: Option<String>,
    /// Picture for the configured language model, JPEG, PNG or WebP; repeatable.
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
    /// Apply the proposal with this ID; if its effect has changed, it is shown again instead.
    #[arg(long, value_name = "ID", conflicts_with_all = ["text", "yes", "think", "blueprint", "image"])]
    pub confirm: Option<String>,
    /// Interpret the request as of this time, such as 2026-03-28T21:10:00+01:00; for tests.
    #[arg(long, value_name = "TIME", hide = true)]
    pub at: Option<Timestamp>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BlueprintArgs {
    #[command(subcommand)]
    pub action: Option<BlueprintAction>,
    /// Use the agent's blueprints (API, second opinions) instead of those of `ask` and `chat`.
    #[arg(long, global = true)]
    pub agent: bool,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BlueprintAction {
    /// List blueprints, the built-in ones included.
    List,
    /// Print the text of a blueprint.
    Show {
        /// Name of the blueprint.
        name: String,
    },
    /// Create a blueprint from a file.
    Create {
        /// Name of the new blueprint.
        name: BlueprintName,
        /// File to read; `-` for standard input.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
    },
    /// Change a blueprint, in $EDITOR or from a file; a file overrides a built-in blueprint.
    Update {
        /// Name of the blueprint.
        name: BlueprintName,
        /// File with the new text; `-` for standard input.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Copy a blueprint to a new name.
    Duplicate {
        /// Name of the blueprint.
        name: BlueprintName,
        /// Name of the copy.
        new: BlueprintName,
    },
    /// Delete the file of a blueprint; built-in blueprints stay.
    Delete {
        /// Name of the blueprint.
        name: BlueprintName,
    },
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TraceArgs {
    /// Maximum number of entries to print, the latest.
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    pub limit: usize,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelAction {
    /// List known models and the files of installed ones.
    List,
    /// Download a model and verify its checksum; resumes an interrupted download.
    Pull(PullArgs),
    /// Measure a model on the back ends of this box: times of each stage, frames a second, memory.
    Bench(BenchArgs),
    /// Make a network of int8 by frames of a camera; keep it if it proves equal and faster.
    Calibrate(CalibrateArgs),
    /// Compare model files with their checksums.
    Verify {
        /// Names of the models [default: all installed].
        names: Vec<String>,
    },
    /// Copy a model file into the models folder.
    Add {
        /// ONNX file of the model.
        file: PathBuf,
        /// Manifest of the model [default: the .toml beside the file, or that of a known export].
        #[arg(long, value_name = "FILE")]
        manifest: Option<PathBuf>,
        /// Known model with the same layout and classes.
        #[arg(long, value_name = "NAME", conflicts_with = "manifest")]
        like: Option<String>,
        /// Name of the new model [default: from its manifest; with --like, from the file name].
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowAction {
    /// Check a definition without deploying it; needs no runtime.
    Validate {
        /// Definition in Roboflow's JSON.
        file: PathBuf,
    },
    /// Run a definition on still pictures; needs no runtime.
    Run {
        /// Definition in Roboflow's JSON.
        file: PathBuf,
        /// JPEG, PNG or WebP pictures; several are one batch.
        #[arg(long, num_args = 1.., value_name = "IMAGE")]
        image: Vec<PathBuf>,
        /// Value of another input; repeatable.
        #[arg(long, value_name = "NAME=JSON")]
        param: Vec<String>,
        /// Model that replaces every detection model: a name, a file, or a package folder.
        #[arg(long, value_name = "NAME-OR-FOLDER")]
        detector: Option<String>,
    },
    /// Run a definition on recorded detections, frame by frame; needs no runtime.
    Replay {
        /// Definition in Roboflow's JSON.
        file: PathBuf,
        /// File of recorded detections.
        #[arg(long, value_name = "FILE")]
        detections: PathBuf,
        /// Print the workflow's outputs of each frame; pictures as their size.
        #[arg(long)]
        outputs: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Check the configuration and print every error.
    Check {
        /// File to check [default: --config].
        file: Option<PathBuf>,
    },
    /// Print the effective configuration (secrets hidden).
    Show,
}

#[cfg(test)]
mod tests;
