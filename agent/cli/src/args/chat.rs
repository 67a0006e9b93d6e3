//! Arguments of `watchkeeper chat`.

use clap::Args;

/// Arguments of `chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// With --json, print new events too, as objects of the type `alert`.
    #[arg(long)]
    pub alerts: bool,
    /// Blueprint for what the rules do not understand [default: the small model chooses].
    #[arg(long, value_name = "NAME")]
    pub blueprint: Option<String>,
}
