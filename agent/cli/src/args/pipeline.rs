//! Flags of `watchkeeper pipelines`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use watchkeeper_contract::id::PipelineId;

use super::value::{positive, until};

#[derive(Debug, Subcommand)]
pub(crate) enum PipelineAction {
    /// List pipelines and their counts.
    List,
    /// Show a pipeline and its counts.
    Show {
        /// ID of the pipeline.
        id: PipelineId,
    },
    /// Create a pipeline from a JSON file, or replace the one with its ID.
    Create {
        /// File with {"id": …, "source": …, "workflow": {…}, "rules": […]}; see docs/ref/api.md.
        file: PathBuf,
    },
    /// Try a pipeline on its camera, a clip or a file: counts and events. Nothing is kept.
    Try(PipelineTryArgs),
    /// Pause a pipeline.
    Pause {
        /// ID of the pipeline.
        id: PipelineId,
        /// Resume at this time: 2026-03-29T08:00, or with offset 2026-03-29T08:00+02:00.
        #[arg(long, value_name = "TIME", value_parser = until)]
        until: Option<Timestamp>,
    },
    /// Resume a pipeline.
    Resume {
        /// ID of the pipeline.
        id: PipelineId,
    },
    /// Delete a pipeline.
    Delete {
        /// ID of the pipeline.
        id: PipelineId,
    },
}

impl PipelineAction {
    /// Returns what it changes, for the audit log.
    pub(crate) fn change(&self) -> Option<String> {
        match self {
            Self::List | Self::Show { .. } | Self::Try(_) => None,
            Self::Create { file } => Some(format!("deploy the pipeline in {}", file.display())),
            Self::Pause { id, .. } => Some(format!("pause pipeline {id}")),
            Self::Resume { id } => Some(format!("resume pipeline {id}")),
            Self::Delete { id } => Some(format!("delete pipeline {id}")),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PipelineTryArgs {
    /// File with a pipeline, as for `create`.
    pub definition: PathBuf,
    /// Seconds of video to process, at most 60.
    #[arg(long, default_value_t = 30.0, value_parser = positive, value_name = "SECONDS")]
    pub seconds: f64,
    /// Process the clip of this event, or with this media ID, instead of the next seconds of the
    /// camera.
    #[arg(long, value_name = "EVENT")]
    pub clip: Option<String>,
    /// Process this video file, picture or folder of pictures instead; it must lie below a folder
    /// of `runtime.dry_run_roots`.
    #[arg(long, value_name = "PATH", conflicts_with = "clip")]
    pub file: Option<PathBuf>,
}
