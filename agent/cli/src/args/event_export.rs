//! Arguments of `watchkeeper events`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use watchkeeper_contract::id::SourceId;

use super::value::{count, past};

#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EventArgs {
    #[command(subcommand)]
    pub action: Option<EventAction>,
    /// Print new events as they happen.
    #[arg(long, short)]
    pub follow: bool,
    /// Print only events after this number [default: the latest --limit records].
    #[arg(long, value_name = "NUMBER", value_parser = count::<u64>)]
    pub after: Option<u64>,
    /// Maximum number of records to read before following; an event has several.
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = count::<u32>)]
    pub limit: u32,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EventAction {
    /// Write events to a folder for a person: pictures, clips, JSON and one page.
    Export(EventExportArgs),
    /// Verify the hash chain of the journal and print its last hash, to compare with a saved one.
    Verify {
        /// Also verify a signed statement of `coverage --statement`: its signature, and that the
        /// journal still has the record that it names.
        #[arg(long, value_name = "FILE")]
        statement: Option<PathBuf>,
        /// Public key that must have signed the statement [default: that of this box].
        #[arg(long, value_name = "KEY", requires = "statement")]
        key: Option<String>,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EventExportArgs {
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
