//! `watchkeeper-scripted-model --port PORT --scenario FILE`: the scripted model as a program of its own, to be configured as a provider's base URL.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use watchkeeper_scripted_model::{Script, Server};

/// Plays a language model from a script, in Claude's protocol, on the loopback interface.
#[derive(Debug, Parser)]
struct Args {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// JSON file with the steps: {"steps": [{"reply": {"text": "…"}}, {"fault": {"kind": "overloaded"}}]}.
    #[arg(long)]
    scenario: PathBuf,
    /// Key that is accepted; without it any is.
    #[arg(long)]
    key: Option<String>,
    /// File that every request is noted in with its answer's status and usage, one JSON object a line.
    #[arg(long)]
    requests: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let name = args.scenario.display();
    let text = std::fs::read_to_string(&args.scenario).with_context(|| format!("{name}"))?;
    let script: Script = serde_json::from_str(&text).with_context(|| format!("{name}"))?;
    let server = Server::on(args.port, args.key.as_deref(), script).await?;
    if let Some(path) = &args.requests {
        let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        server.note_in(file);
    }
    writeln!(std::io::stdout(), "{}", server.base_url())?;
    tokio::signal::ctrl_c().await?;
    let violations = server.violations();
    for violation in &violations {
        writeln!(std::io::stderr(), "broken contract: {violation}")?;
    }
    anyhow::ensure!(
        violations.is_empty(),
        "{} requests broke the contract",
        violations.len()
    );
    Ok(())
}
