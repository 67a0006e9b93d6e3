//! `watchkeeper reference`: the agent's sets of reference pictures.

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};
use watchkeeper_assistant::wording::{counted, local_time, size};
use watchkeeper_config::Config;

use super::agent_client::AgentClient;
use super::args::ReferenceAction;
use super::exit::Failure;
use super::output::Output;
use super::user_file::read_picture;

pub(super) async fn run(
    action: ReferenceAction,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let client = AgentClient::new(&config.agent_api.socket)?;
    match action {
        ReferenceAction::Add { name, files, event } => {
            let known: Vec<Value> = client.get(&path(&name)).await.unwrap_or_default();
            let report = |picture: &Value| {
                let is_known = known.iter().any(|one| one["sha256"] == picture["sha256"]);
                let file = picture["file"].as_str().unwrap_or_default();
                out.both(picture, || match is_known {
                    true => format!("{name} has {file} already"),
                    false => format!("added {file} to {name}"),
                });
            };
            for file in &files {
                report(&add_file(&client, &name, file).await?);
            }
            for seq in event {
                let added: Value = client.post(&path(&name), &json!({ "event": seq })).await?;
                report(&added);
            }
            out.note(format!(
                "a picture counts once it has its embedding; `watchkeeper reference show {name}` \
                 shows which wait, and why"
            ));
        }
        ReferenceAction::List => {
            let sets: Vec<Value> = client.get("references").await?;
            if sets.is_empty() {
                out.note("no sets; `watchkeeper reference add NAME FILE` makes one");
            }
            sets.iter().for_each(|set| out.both(set, || set_line(set)));
        }
        ReferenceAction::Show { name } => {
            let pictures: Vec<Value> = client.get(&path(&name)).await?;
            for picture in &pictures {
                out.both(picture, || picture_line(picture));
            }
        }
        ReferenceAction::Remove { name, pictures } => {
            let mut removed = 0;
            let wanted = pictures.iter().map(|picture| {
                let picture = utf8_percent_encode(picture, NON_ALPHANUMERIC);
                format!("{}?picture={picture}", path(&name))
            });
            let mut wanted: Vec<String> = wanted.collect();
            if wanted.is_empty() {
                wanted.push(path(&name));
            }
            for path in wanted {
                let request = client.request(Method::DELETE, &path);
                let done: Value = client.json(request).await?;
                removed += done["removed"].as_u64().unwrap_or_default();
            }
            out.both(
                &json!({"type": "removed", "set": name, "removed": removed}),
                || format!("removed {} of {name}", counted(removed, "picture")),
            );
        }
    }
    Ok(())
}

fn path(set: &str) -> String {
    format!("references/{}", utf8_percent_encode(set, NON_ALPHANUMERIC))
}

/// Checks a file here, so that a refusal names it, then uploads it.
async fn add_file(client: &AgentClient, set: &str, file: &Path) -> Result<Value, Failure> {
    let content = read_picture(file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = utf8_percent_encode(&name, NON_ALPHANUMERIC);
    let request = client.request(Method::PUT, &format!("{}/{name}", path(set)));
    client.json(request.body(content)).await
}

fn set_line(set: &Value) -> String {
    let number = |member: &str| set[member].as_u64().unwrap_or_default();
    let (pictures, ready) = (number("pictures"), number("ready"));
    let name = set["name"].as_str().unwrap_or_default();
    let state = match (set["problem"].as_str(), ready == pictures) {
        (_, true) => "ready".to_owned(),
        (Some(why), false) => format!("{ready} ready; {why}"),
        (None, false) => format!("{ready} ready, the others wait for their embeddings"),
    };
    let (pictures, bytes) = (counted(pictures, "picture"), size(number("bytes")));
    format!("{name}  {pictures}, {bytes}, {state}")
}

fn picture_line(picture: &Value) -> String {
    let text = |member: &str| picture[member].as_str().unwrap_or_default();
    let added = local_time(picture["added_ms"].as_i64().unwrap_or_default());
    let state = match (picture["ready"].as_bool(), picture["model"].as_str()) {
        (Some(true), Some(model)) => format!("ready by {model}"),
        _ if picture["left_out"] == true => "left out".to_owned(),
        (_, Some(model)) => format!("waits: its embedding is by {model}"),
        (_, None) => "waits for its embedding".to_owned(),
    };
    let why = match (picture["problem"].as_str(), &picture["ready"]) {
        (Some(why), _) => format!("; {why}"),
        (None, Value::Bool(false)) => "; not tried yet, look again in a moment".to_owned(),
        (None, _) => String::new(),
    };
    let sha256: String = text("sha256").chars().take(12).collect();
    format!("{sha256}  {}  {added}  {state}{why}", text("file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_picture_always_has_a_cause() {
        let mut picture = json!({"sha256": "ab", "file": "a.jpg", "added_ms": 0, "ready": false});
        let line = picture_line(&picture);
        assert!(
            line.contains("waits for its embedding; not tried yet"),
            "{line}"
        );
        picture["problem"] = json!("no model");
        let line = picture_line(&picture);
        assert!(
            line.ends_with("waits for its embedding; no model"),
            "{line}"
        );
        let ready = json!({"ready": true, "model": "m", "file": "a.jpg"});
        assert!(picture_line(&ready).ends_with("ready by m"));
    }
}
