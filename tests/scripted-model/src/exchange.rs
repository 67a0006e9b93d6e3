//! A model played through files: each request becomes a file in a folder, its answer another one.
//!
//! - A visible file is complete: it is written under another name and renamed.
//! - A request is written once, under a number that no earlier run in the folder used.
//! - An invalid answer is reported in a file and awaited again, so that the player can correct it.

mod conversations;
mod request;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use conversations::Conversations;
pub(crate) use request::{Message, NeutralRequest, Part, Picture, Tool};

use crate::script::{Reply, Step};

/// Interval at which the folder is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which an invalid answer may still be incomplete.
const WRITE_GRACE: Duration = Duration::from_secs(2);

/// A folder with requests and answers.
#[derive(Debug)]
pub(crate) struct Exchange {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    conversations: Conversations,
    pictures: BTreeSet<String>,
}

impl Exchange {
    /// Opens `folder`; creates it if it is missing.
    ///
    /// # Errors
    /// Fails when the folder cannot be created or read.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let named = || format!("--exchange {}", folder.display());
        std::fs::create_dir_all(folder).with_context(named)?;
        let mut last = 0;
        for entry in std::fs::read_dir(folder).with_context(named)? {
            let name = entry.with_context(named)?.file_name();
            let number = name.to_str().and_then(|name| name.split('.').next());
            last = last.max(number.and_then(|n| n.parse().ok()).unwrap_or(0));
        }
        Ok(Self {
            folder: folder.to_owned(),
            state: Mutex::new(State {
                next: last + 1,
                conversations: Conversations::default(),
                pictures: BTreeSet::new(),
            }),
        })
    }

    /// Writes a request to the folder and returns its number.
    ///
    /// # Errors
    /// Fails when a file cannot be written.
    pub(crate) fn put(&self, asked: &NeutralRequest) -> anyhow::Result<u64> {
        let mut state = self.state.lock();
        let number = state.next;
        for picture in asked.pictures() {
            if state.pictures.insert(picture.file.clone()) {
                self.write(&picture.file, &picture.bytes)?;
            }
        }
        let mut request = json!(asked);
        request["number"] = json!(number);
        let position = state.conversations.locate(asked);
        request["conversation"] = json!(position.conversation);
        request["known_messages"] = json!(position.known);
        let text = serde_json::to_vec_pretty(&request)?;
        self.write(&format!("{number:04}.request.json"), &text)?;
        state.next += 1;
        Ok(number)
    }

    /// Waits for the answer to a request. An invalid answer is reported in `NNNN.reply.error`.
    pub(crate) async fn reply(&self, number: u64) -> Step {
        let path = self.folder.join(format!("{number:04}.reply.json"));
        let mut wrong: Option<(Vec<u8>, Instant, bool)> = None;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let Ok(bytes) = std::fs::read(&path) else {
                continue;
            };
            let why = match read(&bytes) {
                Ok(reply) => {
                    return Step {
                        reply,
                        ..Step::default()
                    };
                }
                Err(why) => why,
            };
            match &mut wrong {
                Some((seen, since, is_reported)) if *seen == bytes => {
                    if !*is_reported && since.elapsed() >= WRITE_GRACE {
                        *is_reported = true;
                        let text = format!("{why:#}; write {} again\n", path.display());
                        self.report(number, "reply.error", &text);
                    }
                }
                _ => wrong = Some((bytes, Instant::now(), false)),
            }
        }
    }

    /// Reports that the client has disconnected and needs no answer.
    pub(crate) fn abandon(&self, number: u64) {
        self.report(number, "abandoned", "the client has disconnected\n");
    }

    fn report(&self, number: u64, what: &str, text: &str) {
        if let Err(error) = self.write(&format!("{number:04}.{what}"), text.as_bytes()) {
            // Only standard error is left. The next request fails to be written and reports it too.
            drop(writeln!(std::io::stderr(), "{error:#}"));
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        let part = self.folder.join(format!("{name}.part"));
        std::fs::write(&part, bytes)
            .and_then(|()| std::fs::rename(&part, &path))
            .with_context(|| path.display().to_string())
    }
}

fn read(bytes: &[u8]) -> anyhow::Result<Reply> {
    let reply: Reply = serde_json::from_slice(bytes).context(
        "not a reply: {\"thinking\": …, \"text\": …, \"calls\": [{\"name\": …, \"arguments\": {…}}]}, every member is optional",
    )?;
    for call in &reply.calls {
        ensure!(
            call.arguments.is_object(),
            "the arguments of {:?} must be an object, not {}",
            call.name,
            call.arguments
        );
    }
    let is_said = reply.text.as_deref().is_some_and(|text| !text.is_empty());
    ensure!(
        is_said || !reply.calls.is_empty() || reply.stop.is_some(),
        "the reply is empty: add `text`, `calls` or a `stop` with the reason"
    );
    Ok(reply)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn asked() -> NeutralRequest {
        let message = Message {
            role: "user",
            parts: vec![Part::Text("what is at the dock?".to_owned())],
        };
        NeutralRequest {
            messages: vec![message],
            ..NeutralRequest::default()
        }
    }

    #[tokio::test]
    async fn an_incomplete_or_invalid_answer_is_awaited_again() {
        let folder = tempfile::tempdir().unwrap();
        let exchange = Exchange::open(folder.path()).unwrap();
        let number = exchange.put(&asked()).unwrap();
        let path = folder.path().join("0001.reply.json");
        let correct = async {
            std::fs::write(&path, "{\"text\": \"a lor").unwrap();
            let error = folder.path().join("0001.reply.error");
            while !error.exists() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            std::fs::write(&path, "{\"text\": \"a lorry\"}").unwrap();
            std::fs::read_to_string(error).unwrap()
        };
        let (step, error) = tokio::join!(exchange.reply(number), correct);
        assert_eq!(step.reply.text.as_deref(), Some("a lorry"));
        assert!(error.contains("0001.reply.json"), "{error}");
    }

    #[test]
    fn an_empty_reply_or_arguments_without_object_are_refused() {
        for wrong in [
            "{}",
            r#"{"txt": "a"}"#,
            r#"{"text": ""}"#,
            r#"{"calls": [{"name": "get_snapshot", "arguments": "dock"}]}"#,
            r#"{"calls": [{"arguments": {}}]}"#,
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(read(br#"{"stop": "refusal"}"#).is_ok());
    }

    #[test]
    fn numbers_continue_after_an_earlier_run() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("0007.request.json"), "{}").unwrap();
        let exchange = Exchange::open(folder.path()).unwrap();
        assert_eq!(exchange.put(&asked()).unwrap(), 8);
    }

    #[test]
    fn a_request_counts_messages_of_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let exchange = Exchange::open(folder.path()).unwrap();
        let mut asked = asked();
        exchange.put(&asked).unwrap();
        let said = Message {
            role: "assistant",
            parts: vec![Part::Text("a lorry".to_owned())],
        };
        asked.messages.push(said);
        exchange.put(&asked).unwrap();
        let text = std::fs::read_to_string(folder.path().join("0002.request.json")).unwrap();
        let request: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(request["known_messages"], 1);
        assert_eq!(request["conversation"], 1);
        assert_eq!(request["messages"][1]["parts"][0]["text"], "a lorry");
        // The same messages sent again are another conversation.
        asked.messages.truncate(1);
        exchange.put(&asked).unwrap();
        let text = std::fs::read_to_string(folder.path().join("0003.request.json")).unwrap();
        let request: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(request["known_messages"], 0);
        assert_eq!(request["conversation"], 2);
    }
}
