//! Arguments of `watchkeeper frame` and `watchkeeper media`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use watchkeeper_contract::id::{PipelineId, SourceId};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum FrameAction {
    /// Save the latest frame of a camera, or the annotated frame of a pipeline, as JPEG.
    Save(FrameSaveArgs),
    /// Keep the latest frame of a camera on the box, as an event, and print its ID.
    Keep(FrameKeepArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FrameSaveArgs {
    /// ID of the camera.
    #[arg(required_unless_present = "pipeline")]
    pub source: Option<SourceId>,
    /// Pipeline whose annotated frame to save.
    #[arg(long, conflicts_with = "source", value_name = "ID")]
    pub pipeline: Option<PipelineId>,
    /// File to write. Default: the ID with `.jpg`, in the current folder, if
    /// there is no such file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FrameKeepArgs {
    /// ID of the camera.
    pub source: SourceId,
    /// Also write the picture to this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MediaAction {
    /// Download a picture or clip by its ID; one that was changed on the disk is refused.
    Get(MediaGetArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MediaGetArgs {
    /// ID of the picture or clip, as events show it.
    pub id: String,
    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}
