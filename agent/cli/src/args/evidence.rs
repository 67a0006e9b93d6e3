//! Arguments of `watchkeeper evidence`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EvidenceAction {
    /// Write all that the box has about an event, or the whole of a job, to one signed file.
    Export(EvidenceExportArgs),
    /// Verify such a file, and print what it proves and what not; needs no runtime.
    Verify(EvidenceVerifyArgs),
    /// Print the public key of the box and its fingerprint, to be written down elsewhere.
    Key,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EvidenceExportArgs {
    /// Number of a record of the event, ID of the event, or ID of a job.
    #[arg(value_name = "EVENT-OR-JOB")]
    pub what: String,
    /// New file; an existing one is not replaced.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The ID is that of a job of the agent.
    #[arg(long, conflicts_with = "to_head")]
    pub agent: bool,
    /// Link the event to the newest record of the journal; the file then has all events since.
    #[arg(long)]
    pub to_head: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EvidenceVerifyArgs {
    /// File of `evidence export`.
    pub file: PathBuf,
    /// Public key of the box, or a file with it, as `evidence key` prints it.
    #[arg(long, value_name = "KEY-OR-FILE")]
    pub key: Option<String>,
    /// Fingerprint of that key.
    #[arg(long, value_name = "HEX", conflicts_with = "key")]
    pub fingerprint: Option<String>,
}
