//! Flags of `watchkeeper reviews`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use watchkeeper_contract::id::{EventSeq, PipelineId};

#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ReviewArgs {
    #[command(subcommand)]
    pub action: Option<ReviewAction>,
    /// Maximum number of events to list.
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=1000))]
    pub limit: u32,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ReviewAction {
    /// Save the picture of an event to a file.
    Picture {
        /// Number of the event, as the list shows it.
        event: EventSeq,
        /// File to write.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// It happened as the event says; channels in `on_act` of its rule are notified now.
    Approve(AnswerArgs),
    /// It did not happen.
    Reject(AnswerArgs),
    /// Something happened, with an object of another class or with other values.
    #[command(after_help = "Examples:
  watchkeeper reviews correct 1841 --class dog
  watchkeeper reviews correct 1841 --field plate=AB123")]
    Correct {
        #[command(flatten)]
        answer: AnswerArgs,
        /// Class that the object really has, such as dog.
        #[arg(long, value_name = "CLASS", required_unless_present = "fields")]
        class: Option<String>,
        /// Value that the rule's chain should have read; may be repeated.
        #[arg(long = "field", value_name = "NAME=VALUE", conflicts_with = "class")]
        fields: Vec<String>,
    },
    /// Show how the answers change the confidence of a pipeline's events.
    Calibration {
        /// Name of the pipeline.
        pipeline: PipelineId,
    },
    /// Propose what the answers say a pipeline's rules should ignore, tried on the answers and on
    /// the last hours of the camera.
    Narrow {
        /// Name of the pipeline.
        pipeline: PipelineId,
        /// Apply the proposal at once.
        #[arg(long)]
        apply: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AnswerArgs {
    /// Numbers of the events, as the list shows them.
    #[arg(required = true, value_name = "EVENT")]
    pub events: Vec<EventSeq>,
    /// Remark to keep in the journal.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Name of the person who answers [default: $USER].
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}
