//! Flags of `watchkeeper coverage`.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use watchkeeper_contract::id::SourceId;

use super::value::past;

/// Range, camera and classes of a coverage report.
#[derive(Debug, Clone, Args)]
pub(crate) struct CoverageArgs {
    /// ID of the camera [default: all].
    pub camera: Option<SourceId>,
    /// Show when an event about this class was possible; repeatable [default: any event].
    #[arg(long, value_name = "CLASS")]
    pub class: Vec<String>,
    /// Start: a time such as 2026-03-29T08:00, or how long ago, such as 24h.
    #[arg(long, value_name = "TIME", value_parser = past, default_value = "24h")]
    pub since: Timestamp,
    /// End [default: now].
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub until: Option<Timestamp>,
    /// Write the report as a statement signed by the box; `events verify --statement` checks it.
    #[arg(long, value_name = "FILE", conflicts_with = "class")]
    pub statement: Option<PathBuf>,
}
