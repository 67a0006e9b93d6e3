//! `watchkeeper-scripted-model --port PORT --scenario FILE`: the scripted model as a program.
//!
//! Its base URL is configured as that of a provider. With `--exchange DIR` each request without a
//! step in the scenario is written to DIR, and its answer is read from there.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use watchkeeper_scripted_model::{Script, Server, ServerKind, Settings};

/// Play a language model from a script or through files in the protocol of Claude, or from a
/// recording of another provider.
#[derive(Debug, Parser)]
struct Args {
    /// Port to listen on; 0 selects a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// JSON file with the steps: {"steps": [{"reply": {"text": "…"}}, {"fault": {"kind":
    /// "overloaded"}}]}.
    #[arg(long, required_unless_present = "exchange")]
    scenario: Option<PathBuf>,
    /// Folder for requests after the scenario's steps (NNNN.request.json) and their answers
    /// (NNNN.reply.json).
    #[arg(long, value_name = "DIR")]
    exchange: Option<PathBuf>,
    /// Server to play; default: Claude.
    #[arg(long = "as", value_name = "SERVER", value_enum)]
    server_kind: Option<ServerArg>,
    /// Recording to play instead: JSON file of requests with the answer to each step; the scenario
    /// has the steps.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server_kind", "exchange"])]
    recorded: Option<PathBuf>,
    /// Accepted API key; default: any, but a missing key is refused as by the provider.
    #[arg(long)]
    key: Option<String>,
    /// Model to serve besides Claude's own; may be repeated.
    #[arg(long = "model", value_name = "ID")]
    models: Vec<String>,
    /// Log file of requests with status and usage of their answers, one JSON object a line.
    #[arg(long)]
    requests: Option<PathBuf>,
}

/// Value of `--as`, see [`ServerKind`].
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ServerArg {
    Ollama,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let script = match &args.scenario {
        Some(path) => read(path)?,
        None => Script::default(),
    };
    let server = Server::with(Settings {
        port: args.port,
        key: args.key,
        models: args.models,
        script,
        kind: match (args.recorded, args.server_kind) {
            (Some(path), _) => ServerKind::Recorded(path),
            (None, Some(ServerArg::Ollama)) => ServerKind::Ollama,
            (None, None) => ServerKind::Claude,
        },
        exchange: args.exchange,
    })
    .await?;
    if let Some(path) = &args.requests {
        let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        server.log_requests(file);
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

fn read(path: &Path) -> anyhow::Result<Script> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    let script: Script = serde_json::from_str(&text).with_context(name)?;
    script.check().with_context(name)?;
    Ok(script)
}
