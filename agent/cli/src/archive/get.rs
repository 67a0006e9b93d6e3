//! `watchkeeper archive get`: saves a content, or writes it to standard output.
//!
//! - A content is checked by its SHA-256. A file gets its name when it is whole.

use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use watchkeeper_archive::EntryName;
use watchkeeper_store::chain::Hash;

use super::super::agent_client::AgentClient;
use super::super::exit::Failure;
use super::super::output::Output;
use super::super::user_file::{new_file, place, unwritten};

/// The output that is not a file.
const STANDARD_OUTPUT: &str = "-";

pub(super) async fn run(
    name: &EntryName,
    output: Option<PathBuf>,
    skip_cache: bool,
    client: &AgentClient,
    out: &Output,
) -> Result<(), Failure> {
    let path = format!("archive/entries/{name}?skip_cache={skip_cache}");
    let request = client.request(Method::GET, &path);
    if output.as_deref() == Some(Path::new(STANDARD_OUTPUT)) {
        return write_to_stdout(client.send(request).await?).await;
    }
    let output = match output {
        Some(output) => output,
        // A place that the user did not name must be free.
        None => free_place(name.name().into())?,
    };
    let answer = client.send(request).await?;
    let tier = header(&answer, "x-watchkeeper-tier");
    let hash = header(&answer, "x-watchkeeper-sha256");
    let bytes = save(&output, answer, &hash).await?;
    let saved = json!({
        "type": "saved", "name": name, "file": output, "bytes": bytes, "tier": tier,
    });
    out.both(&saved, || {
        format!("Saved {} ({bytes} bytes, from {tier})", output.display())
    });
    if skip_cache && !["durable", "runtime"].contains(&tier.as_str()) {
        out.note(format!(
            "the content on disk was damaged or missing; a copy from {tier} has replaced it"
        ));
    }
    Ok(())
}

fn free_place(place: PathBuf) -> Result<PathBuf, Failure> {
    match place.symlink_metadata() {
        Err(_) => Ok(place),
        Ok(_) => Err(Failure::input(format!(
            "{} exists; name another file, or this one, with --output",
            place.display()
        ))),
    }
}

/// A header of an answer; empty if it is absent.
pub(super) fn header(answer: &reqwest::Response, name: &str) -> String {
    let value = answer.headers().get(name);
    let value = value.and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// Saves a content once all of it has come; returns its bytes.
async fn save(output: &Path, answer: reqwest::Response, hash: &str) -> Result<u64, Failure> {
    let mut file = new_file(output).map_err(unwritten(output))?;
    let bytes = receive(&mut file, output, answer, hash).await?;
    place(file, output).map_err(unwritten(output))?;
    Ok(bytes)
}

/// Writes a content to standard output once all of it has come, and nothing else.
async fn write_to_stdout(answer: reqwest::Response) -> Result<(), Failure> {
    let output = Path::new(STANDARD_OUTPUT);
    let hash = header(&answer, "x-watchkeeper-sha256");
    let mut file = tempfile::tempfile().map_err(unwritten(output))?;
    receive(&mut file, output, answer, &hash).await?;
    let copied = file.rewind().and_then(|()| {
        let mut out = io::stdout().lock();
        io::copy(&mut file, &mut out)?;
        out.flush()
    });
    copied.map_err(unwritten(output))
}

/// Receives a content and compares it with its hash; returns its bytes.
async fn receive(
    file: &mut impl io::Write,
    output: &Path,
    mut answer: reqwest::Response,
    hash: &str,
) -> Result<u64, Failure> {
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|_| unwritten(output)("the agent broke off its answer; try again"))?
    {
        file.write_all(&chunk).map_err(unwritten(output))?;
        hasher.update(&chunk);
        bytes += chunk.len() as u64;
    }
    if Hash(hasher.finalize().into()).to_string() != hash {
        return Err(unwritten(output)(
            "the content did not come whole; try again",
        ));
    }
    Ok(bytes)
}
