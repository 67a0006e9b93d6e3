//! Flags as a person types them. Turning them into a checked request is the commands' first step.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use watchkeeper_contract::id::{DisplayName, PipelineId, SourceId};

use super::run::shape::{NamedLine, NamedZone};
use watchkeeper_assistant::blueprint::BlueprintName;
use watchkeeper_assistant::moment::{FORMS, parse_moment};

/// Headless edge vision: watches cameras, decides, remembers, reports.
#[derive(Debug, Parser)]
#[command(
    name = "watchkeeper",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Write one JSON object a line for programs, and nothing else, to standard output.
    #[arg(long, global = true)]
    pub json: bool,
    /// Configuration file [default: WATCHKEEPER_CONFIG, else /etc/watchkeeper/watchkeeper.toml where it exists].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Unix socket of the runtime [default: from the configuration].
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Folder of model files [default: from the configuration].
    #[arg(long, global = true, value_name = "DIR")]
    pub models_dir: Option<PathBuf>,
    /// Say more: the logs of programs that were started go to standard error.
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch a source now: starts everything it needs, prints events as they happen and the counts at the end.
    Run(Box<RunArgs>),
    /// Show how the runtime, its sources and its pipelines are.
    Status,
    /// List, add and remove sources.
    Sources {
        /// What to do [default: list].
        #[command(subcommand)]
        action: Option<SourceAction>,
    },
    /// List, show, create, pause, resume and delete pipelines.
    Pipelines {
        /// What to do [default: list].
        #[command(subcommand)]
        action: Option<PipelineAction>,
    },
    /// Print events of the journal, or check that nobody changed them.
    Events(EventArgs),
    /// Save the latest frame of a source, or the annotated frame of a pipeline, as JPEG.
    Frame(FrameArgs),
    /// Fetch a kept picture by its id, as events and snapshots name it.
    Media(MediaArgs),
    /// Keep the latest frame of a source, as events keep theirs, and say its id.
    Snapshot(SnapshotArgs),
    /// Say in plain words what to watch, to change or to know. Nothing is changed before you say yes.
    Ask(AskArgs),
    /// Talk with the box in plain words. Nothing is changed before you say yes.
    Chat,
    /// Print what was asked in plain words, proposed, confirmed and done, and what the agent asked a model about doubtful events.
    Trace(TraceArgs),
    /// List, show, create, change, copy and delete blueprints: which jobs a model of language has here, and what each may use and spend.
    Blueprints(BlueprintArgs),
    /// List, fetch, check and add models.
    Models {
        /// What to do [default: list].
        #[command(subcommand)]
        action: Option<ModelAction>,
    },
    /// List the blocks a workflow can use, or describe one.
    Blocks {
        /// Type of the block to describe.
        block: Option<String>,
    },
    /// Check a workflow definition, or run it on pictures or on recorded detections.
    Workflow {
        /// What to do.
        #[command(subcommand)]
        action: WorkflowAction,
    },
    /// Check or show the configuration.
    Config {
        /// What to do.
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Find what is missing on this machine and say the command that mends it.
    Doctor,
    /// Print the completion script of a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages.
    Man {
        /// Folder to write them to; left out: the first page goes to standard output.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Flags of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// A video file, a folder of images, rtsp://…, http://…, /dev/videoN or demo:
    pub source: String,
    /// Workflow to run, in Roboflow's JSON.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["watch", "line", "zone"])]
    pub workflow: Option<PathBuf>,
    /// Classes to watch, such as person,car; `all` for every class the model knows [default: people, vehicles and
    /// animals with a model that knows COCO's classes, else all].
    #[arg(long, value_name = "CLASSES", value_delimiter = ',')]
    pub watch: Vec<String>,
    /// Count crossings of this line; in pixels of the source. May be given several times.
    #[arg(long, value_name = "NAME:x1,y1,x2,y2", allow_hyphen_values = true)]
    pub line: Vec<NamedLine>,
    /// Time visits of this polygon; in pixels of the source. May be given several times.
    #[arg(
        long,
        value_name = "NAME:x1,y1,x2,y2,x3,y3,…",
        allow_hyphen_values = true
    )]
    pub zone: Vec<NamedZone>,
    /// Model: a name of the zoo, an ONNX file, or motion [default: yolox-nano where it is here, else motion].
    #[arg(long, value_name = "NAME|FILE")]
    pub model: Option<String>,
    /// Lowest score of a detection, 0 to 1 [default: 0.1, the tracker sorts out the rest].
    #[arg(long, value_name = "SCORE", value_parser = unit_interval)]
    pub confidence: Option<f64>,
    /// Make events by this rule instead of those that follow from lines and zones: a JSON object, or @FILE with one or a
    /// list. May be given several times.
    #[arg(long, value_name = "JSON|@FILE")]
    pub rule: Vec<String>,
    /// Stop after this many seconds of the source, counted from its first frame; for a camera those are the clock's.
    #[arg(long = "for", value_name = "SECONDS", value_parser = positive)]
    pub seconds: Option<f64>,
    /// Play recordings at their own speed, as a camera would, dropping late frames.
    #[arg(long, conflicts_with = "fast")]
    pub native: bool,
    /// Take every frame of a recording, as fast as it goes (the default).
    #[arg(long)]
    pub fast: bool,
    /// Take any certificate of rtsps:// and https://, as cameras need that signed their own.
    #[arg(long)]
    pub no_tls_verify: bool,
    /// Write an annotated video.
    #[arg(long, value_name = "OUT.mp4")]
    pub video: Option<PathBuf>,
    /// Show the annotated frames in a window.
    #[arg(long)]
    pub show: bool,
    /// Keep journal, pictures and logs in this folder instead of a temporary one.
    #[arg(long, value_name = "DIR")]
    pub keep_state: Option<PathBuf>,
    /// Publish the events to this MQTT broker: [mqtt[s]://][USER@]HOST[:PORT]. Its password is taken from
    /// WATCHKEEPER_MQTT__PASSWORD or from the file in WATCHKEEPER_MQTT__PASSWORD_FILE, never from here.
    #[arg(long, value_name = "ADDRESS")]
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "the brackets are the address's own; a person reads them in --help"
    )]
    pub mqtt: Option<String>,
}

/// What to do with sources.
#[derive(Debug, Subcommand)]
pub enum SourceAction {
    /// List them.
    List,
    /// Add one, or replace the one of that name.
    Add {
        /// Name.
        id: SourceId,
        /// Where the pictures come from.
        uri: String,
        /// What people call it, such as "Loading dock"; its id where nothing is said.
        #[arg(long, value_name = "NAME")]
        name: Option<DisplayName>,
        /// Play recordings at their own speed.
        #[arg(long)]
        native: bool,
        /// Upper bound on frames a second.
        #[arg(long, value_name = "FPS", value_parser = positive)]
        max_fps: Option<f64>,
        /// Take RTSP over UDP.
        #[arg(long)]
        udp: bool,
        /// Take any certificate of rtsps:// and https://, as cameras need that signed their own.
        #[arg(long)]
        no_tls_verify: bool,
        /// Longest time between two pictures of a camera before it counts as lost; 5 where nothing is said.
        #[arg(long, value_name = "SECONDS", value_parser = positive)]
        stall: Option<f64>,
    },
    /// Remove one.
    Remove {
        /// Name.
        id: SourceId,
    },
}

/// What to do with pipelines.
#[derive(Debug, Subcommand)]
pub enum PipelineAction {
    /// List them.
    List,
    /// Show one with its results.
    Show {
        /// Name.
        id: PipelineId,
    },
    /// Create one from a JSON file, or replace the one of its name.
    Create {
        /// A file with {"id": "gate-count", "source": "gate", "workflow": {…}, "rules": […]}, where source is a camera's name and workflow is a
        /// definition as `workflow validate` takes it; docs/ref/api.md has the rest of its fields.
        file: PathBuf,
    },
    /// Pause one.
    Pause {
        /// Name.
        id: PipelineId,
        /// When it goes on by itself: the box's local time, such as 2026-03-29T08:00, or with an offset, such as 2026-03-29T08:00:00+02:00; otherwise when it
        /// is resumed.
        #[arg(long, value_name = "TIME", value_parser = until)]
        until: Option<Timestamp>,
    },
    /// Let a paused one go on.
    Resume {
        /// Name.
        id: PipelineId,
    },
    /// Delete one.
    Delete {
        /// Name.
        id: PipelineId,
    },
}

/// Flags of `events`.
#[derive(Debug, Clone, Copy, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct EventArgs {
    /// What else to do with them.
    #[command(subcommand)]
    pub action: Option<EventAction>,
    /// Go on with new ones as they happen.
    #[arg(long, short)]
    pub follow: bool,
    /// Only records after this number [default: the latest --limit ones].
    #[arg(long, value_name = "NUMBER")]
    pub after: Option<u64>,
    /// Most records to print before following.
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    pub limit: u32,
}

/// What to do with events besides printing them.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum EventAction {
    /// Check that each record follows from the one before it by its hash: none was changed, removed or put in. Who can write the journal can
    /// make a new chain; compare the hash that is printed with one that was kept elsewhere.
    Verify,
}

/// Flags of `ask`.
#[derive(Debug, Clone, Args)]
pub struct AskArgs {
    /// The request, such as "tell me when a person crosses the vertical line at 50%".
    #[arg(required_unless_present = "confirm")]
    pub text: Vec<String>,
    /// Do it at once, for scripts. Refused where part of the request was not understood or can't be done.
    #[arg(long)]
    pub yes: bool,
    /// Leave the rules aside and let the configured model of language look, write a workflow and propose it.
    #[arg(long)]
    pub think: bool,
    /// Leave the rules aside and let the configured model of language work on it by this blueprint.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["think", "yes"])]
    pub blueprint: Option<String>,
    /// A picture that the request is about, JPEG or PNG. It goes to the configured model of language.
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
    /// Say yes to a proposal that was shown before. One that would mean something else by now is shown anew and not carried out.
    #[arg(long, value_name = "ID", conflicts_with_all = ["text", "yes", "think", "blueprint", "image"])]
    pub confirm: Option<String>,
    /// Understand it as if it were said then, such as 2026-03-28T21:10:00+01:00: for trying what a time in a request means.
    #[arg(long, value_name = "TIME", hide = true)]
    pub at: Option<Timestamp>,
}

/// Flags of `blueprints`.
#[derive(Debug, Clone, Args)]
pub struct BlueprintArgs {
    /// What to do [default: list].
    #[command(subcommand)]
    pub action: Option<BlueprintAction>,
    /// Those of the agent (second opinions, its API) in the box's state folder, and not those of your own `ask` and `chat`.
    #[arg(long, global = true)]
    pub agent: bool,
}

/// What to do with blueprints.
#[derive(Debug, Clone, Subcommand)]
pub enum BlueprintAction {
    /// List them, the built-in ones too.
    List,
    /// Print one, as its file is written.
    Show {
        /// Name.
        name: String,
    },
    /// Create one from a file.
    Create {
        /// Name.
        name: BlueprintName,
        /// The file; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
    },
    /// Change one, in the editor of EDITOR where nothing else gives the text. A built-in one gets a file in its place.
    Update {
        /// Name.
        name: BlueprintName,
        /// The file with the new text; `-` is standard input, which is taken too where it is no terminal.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Copy one to another name.
    Duplicate {
        /// Name.
        name: BlueprintName,
        /// Name of the copy.
        new: BlueprintName,
    },
    /// Delete the file of one. The built-in ones stay.
    Delete {
        /// Name.
        name: BlueprintName,
    },
}

/// Flags of `trace`.
#[derive(Debug, Clone, Copy, Args)]
pub struct TraceArgs {
    /// Most entries to print, the latest.
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    pub limit: usize,
}

/// Flags of `frame`.
#[derive(Debug, Clone, Args)]
pub struct FrameArgs {
    /// Source whose latest frame to save.
    #[arg(required_unless_present = "pipeline")]
    pub source: Option<SourceId>,
    /// Pipeline whose annotated frame to save.
    #[arg(long, conflicts_with = "source", value_name = "ID")]
    pub pipeline: Option<PipelineId>,
    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Flags of `media`.
#[derive(Debug, Clone, Args)]
pub struct MediaArgs {
    /// Id of the picture.
    pub id: String,
    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Flags of `snapshot`.
#[derive(Debug, Clone, Args)]
pub struct SnapshotArgs {
    /// Source whose latest frame to keep.
    pub source: SourceId,
    /// File to write a copy to.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What to do with models.
#[derive(Debug, Subcommand)]
pub enum ModelAction {
    /// List the zoo and what is here.
    List,
    /// Fetch one from where it is published, continuing an earlier attempt.
    Pull {
        /// Name in the zoo.
        name: String,
        /// Accept a file whose checksum is not known, and write its checksum down.
        #[arg(long)]
        trust: bool,
        /// Accept exactly this checksum.
        #[arg(long, value_name = "HEX", conflicts_with = "trust")]
        sha256: Option<String>,
    },
    /// Compare files with their checksums.
    Verify {
        /// Which; left out: every one that is here.
        names: Vec<String>,
    },
    /// Copy a file into the models folder.
    Add {
        /// The file.
        file: PathBuf,
        /// Its manifest [default: the .toml beside it, or a known export].
        #[arg(long, value_name = "FILE")]
        manifest: Option<PathBuf>,
        /// Model of the zoo that has the same layout and classes.
        #[arg(long, value_name = "NAME", conflicts_with = "manifest")]
        like: Option<String>,
        /// Its name [default: that of its manifest; with --like that of the file].
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
}

/// What to do with a workflow.
#[derive(Debug, Subcommand)]
pub enum WorkflowAction {
    /// Check a definition without deploying it; needs no runtime.
    Validate {
        /// The definition, in Roboflow's JSON.
        file: PathBuf,
    },
    /// Run a definition on still pictures; needs no runtime.
    Run {
        /// The definition, in Roboflow's JSON.
        file: PathBuf,
        /// Pictures, JPEG or PNG; several are one batch.
        #[arg(long, num_args = 1.., value_name = "IMAGE")]
        image: Vec<PathBuf>,
        /// Value of another input, as NAME=JSON.
        #[arg(long, value_name = "NAME=JSON")]
        param: Vec<String>,
        /// Model that takes the place of every detection model: a name in the zoo, a file, or a folder of a package.
        #[arg(long, value_name = "NAME-OR-FOLDER")]
        detector: Option<String>,
    },
    /// Run a definition on recorded detections, frame by frame; needs no runtime.
    Replay {
        /// The definition, in Roboflow's JSON.
        file: PathBuf,
        /// The recording.
        #[arg(long, value_name = "FILE")]
        detections: PathBuf,
        /// Add the workflow's outputs to each frame, pictures by their size.
        #[arg(long)]
        outputs: bool,
    },
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Report everything that is wrong.
    Check {
        /// File to check [default: --config].
        file: Option<PathBuf>,
    },
    /// Print what holds in the end, without secrets.
    Show,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n.is_finite() => Ok(n),
        _ => Err("must be a number above 0".to_owned()),
    }
}

/// A moment with an offset, or of the clocks of this machine.
fn until(text: &str) -> Result<Timestamp, String> {
    parse_moment(text, &TimeZone::system()).ok_or_else(|| format!("must be a time such as {FORMS}"))
}

fn unit_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if (0.0..=1.0).contains(&n) => Ok(n),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use clap::CommandFactory;

    use super::*;

    fn run_args(args: &[&str]) -> RunArgs {
        let line = ["watchkeeper", "run"].iter().chain(args);
        match Cli::try_parse_from(line).unwrap().command {
            Command::Run(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_declaration_of_the_flags_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_flags_that_evaluation_scripts_use_are_understood() {
        let args = run_args(&[
            "clip.mp4",
            "--json",
            "--watch",
            "person,car",
            "--line",
            "door:0,218,640,218",
            "--line",
            "gate:-5,0,10,20",
            "--zone",
            "desk:0,0,10,0,10,10",
            "--model",
            "motion",
            "--for",
            "12.5",
        ]);
        assert_eq!(args.watch, ["person", "car"]);
        assert_eq!(args.line.len(), 2);
        assert_eq!(args.line[1].from, [-5.0, 0.0]);
        assert_eq!(args.zone[0].points.len(), 3);
        assert_eq!(args.seconds, Some(12.5));
    }

    #[test]
    fn the_end_of_a_pause_is_the_moment_that_was_written_or_none() {
        let until = |text: &str| {
            let line = ["watchkeeper", "pipelines", "pause", "gate", "--until", text];
            match Cli::try_parse_from(line).map(|cli| cli.command) {
                Ok(Command::Pipelines {
                    action: Some(PipelineAction::Pause { until, .. }),
                }) => until,
                Ok(other) => panic!("{other:?}"),
                Err(_) => None,
            }
        };
        let eight = until("2027-03-29T08:00+09:00");
        assert_eq!(eight, "2027-03-28T23:00:00Z".parse().ok());
        assert_eq!(until("2027-03-29T08:00[+09:00]"), eight);
        assert_ne!(until("2027-03-29T08:00"), None);
        assert_eq!(until("2027-03-29T08:00[Nowhere/Else]"), None);
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        for bad in [
            &["c.mp4", "--workflow", "w.json", "--line", "a:0,0,1,1"][..],
            &["c.mp4", "--native", "--fast"],
            &["c.mp4", "--for", "0"],
            &["c.mp4", "--confidence", "1.1"],
            &["c.mp4", "--line", "a:0,0,1"],
            &[],
        ] {
            let line = ["watchkeeper", "run"].iter().chain(bad);
            let error = Cli::try_parse_from(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{bad:?}");
        }
    }
}
