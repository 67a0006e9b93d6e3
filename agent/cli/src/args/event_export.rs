//! Arguments of `watchkeeper events export`.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use watchkeeper_contract::id::SourceId;

use super::value::past;

#[derive(Debug, Clone, Args)]
pub struct EventExportArgs {
    /// Numbers of records, or IDs of events.
    #[arg(
        value_name = "EVENT",
        required_unless_present_any = ["from", "to", "camera", "rule"],
        conflicts_with_all = ["from", "to", "camera", "rule"]
    )]
    pub events: Vec<String>,
    /// New folder; an existing one is not changed.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Events since this time: 2026-03-29T08:00, or how long ago, such as 24h.
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub from: Option<Timestamp>,
    /// Events before this time.
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub to: Option<Timestamp>,
    /// Events of this camera.
    #[arg(long, value_name = "ID")]
    pub camera: Option<SourceId>,
    /// Events of the rule with this name.
    #[arg(long, value_name = "NAME")]
    pub rule: Option<String>,
}
