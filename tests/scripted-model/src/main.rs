//! `watchkeeper-scripted-model --port PORT --scenario FILE`: the scripted model as a program of its own, to be configured as a provider's base URL, whichever
//! of its protocols the provider speaks.
//! With `--exchange DIR` each request that the scenario has no step for is put into DIR, and the answer is what is put there.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use watchkeeper_scripted_model::{Guise, Script, Server, Settings};

/// Plays a language model from a script or through files, in the provider's own protocol, on the loopback interface.
#[derive(Debug, Parser)]
struct Args {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// JSON file with the steps: {"steps": [{"reply": {"text": "…"}}, {"fault": {"kind": "overloaded"}}]}.
    #[arg(long, required_unless_present = "exchange")]
    scenario: Option<PathBuf>,
    /// Folder in which requests are put as NNNN.request.json, after the scenario's steps, and answers are waited for as NNNN.reply.json.
    #[arg(long, value_name = "DIR")]
    exchange: Option<PathBuf>,
    /// Whose server it is, where the path of a request does not say it: /v1/messages is Claude's, and Ollama serves it too.
    #[arg(long = "as", value_name = "WHOSE", value_enum)]
    guise: Option<Whose>,
    /// Key that is accepted; without it any is, but none is refused where the provider asks for one.
    #[arg(long)]
    key: Option<String>,
    /// Model that Claude's server has besides the provider's own; may be given more than once.
    #[arg(long = "model", value_name = "ID")]
    models: Vec<String>,
    /// File that every request is noted in with its answer's status and usage, one JSON object a line.
    #[arg(long)]
    requests: Option<PathBuf>,
}

/// See [`Guise`].
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Whose {
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
        guise: args.guise.map(|Whose::Ollama| Guise::Ollama),
        exchange: args.exchange,
    })
    .await?;
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

fn read(path: &Path) -> anyhow::Result<Script> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    let script: Script = serde_json::from_str(&text).with_context(name)?;
    script.check().with_context(name)?;
    Ok(script)
}
