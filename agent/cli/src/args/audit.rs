//! Arguments of `watchkeeper audit`.

use clap::{Args, Subcommand};

#[derive(Debug, Clone, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub action: Option<AuditAction>,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum AuditAction {
    /// Print the latest records, your own and those of the agent.
    List {
        /// Maximum number of records to print.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Verify the hash chain of each log and print its last hash.
    ///
    /// Fails if a log is damaged, cannot be located or cannot be read. The chain has no key: a
    /// program that can write the files can compute new hashes. Only a hash that you noted
    /// elsewhere shows that.
    Verify,
}
