//! A model played through files: each request becomes a file in a folder, and the answer is what somebody puts beside it.
//!
//! Invariants: a file that can be seen is complete (it is written under another name and renamed); a request is written once and under a number that no
//! earlier run in the folder had; an answer that is no answer is told in a file and waited for again, so that whoever plays the model can correct it.

mod asked;
mod known;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

pub(crate) use asked::{Message, NeutralRequest, Part, Picture, Tool};
use known::Known;

use crate::script::{Reply, Step};

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a file that is no answer may be one that is still being written.
const WRITE_GRACE: Duration = Duration::from_secs(2);

/// A folder in which requests and answers lie.
#[derive(Debug)]
pub(crate) struct Exchange {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    known: Known,
    pictures: BTreeSet<String>,
}

impl Exchange {
    /// Uses `folder`, which is made where it is missing.
    ///
    /// # Errors
    /// When it can't be made or read.
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
                known: Known::default(),
                pictures: BTreeSet::new(),
            }),
        })
    }

    /// Puts a request into the folder; its number.
    ///
    /// # Errors
    /// When it can't be written.
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
        let place = state.known.take(asked);
        request["conversation"] = json!(place.conversation);
        request["known_messages"] = json!(place.known);
        let text = serde_json::to_vec_pretty(&request)?;
        self.write(&format!("{number:04}.request.json"), &text)?;
        state.next += 1;
        Ok(number)
    }

    /// Waits until the answer to a request is there. What is no answer is told in `NNNN.reply.error`.
    pub(crate) async fn reply(&self, number: u64) -> Step {
        let path = self.folder.join(format!("{number:04}.reply.json"));
        let mut wrong: Option<(Vec<u8>, Instant, bool)> = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let Ok(bytes) = std::fs::read(&path) else {
                continue;
            };
            let why = match read(&bytes) {
                Ok(reply) => return Step { reply, fault: None },
                Err(why) => why,
            };
            match &mut wrong {
                Some((seen, since, is_told)) if *seen == bytes => {
                    if !*is_told && since.elapsed() >= WRITE_GRACE {
                        *is_told = true;
                        let text = format!("{why:#}; write {} again\n", path.display());
                        self.tell(number, "reply.error", &text);
                    }
                }
                _ => wrong = Some((bytes, Instant::now(), false)),
            }
        }
    }

    /// Whoever asked is no longer there: the answer is wanted by nobody.
    pub(crate) fn abandon(&self, number: u64) {
        self.tell(number, "abandoned", "whoever asked has gone\n");
    }

    fn tell(&self, number: u64, what: &str, text: &str) {
        if let Err(error) = self.write(&format!("{number:04}.{what}"), text.as_bytes()) {
            // Whoever plays the model reads it there; the next request says it to whoever asks.
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
        "no reply: {\"thinking\": …, \"text\": …, \"calls\": [{\"name\": …, \"arguments\": {…}}]}, each of which may be left out",
    )?;
    for call in &reply.calls {
        ensure!(
            call.arguments.is_object(),
            "the arguments of {:?} have to be an object and are {}",
            call.name,
            call.arguments
        );
    }
    let is_said = reply.text.as_deref().is_some_and(|text| !text.is_empty());
    ensure!(
        is_said || !reply.calls.is_empty() || reply.stop.is_some(),
        "the reply says nothing: it needs `text`, or `calls`, or a `stop` that says why"
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
    async fn an_answer_that_is_half_written_or_wrong_is_waited_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let exchange = Exchange::open(folder.path()).unwrap();
        let number = exchange.put(&asked()).unwrap();
        let path = folder.path().join("0001.reply.json");
        let correct = async {
            std::fs::write(&path, "{\"text\": \"a lor").unwrap();
            let error = folder.path().join("0001.reply.error");
            while !error.exists() {
                tokio::time::sleep(LOOK).await;
            }
            std::fs::write(&path, "{\"text\": \"a lorry\"}").unwrap();
            std::fs::read_to_string(error).unwrap()
        };
        let (step, told) = tokio::join!(exchange.reply(number), correct);
        assert_eq!(step.reply.text.as_deref(), Some("a lorry"));
        assert!(told.contains("0001.reply.json"), "{told}");
    }

    #[test]
    fn a_reply_that_says_nothing_or_calls_with_no_object_is_none() {
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
    fn numbers_go_on_behind_those_of_an_earlier_run() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("0007.request.json"), "{}").unwrap();
        let exchange = Exchange::open(folder.path()).unwrap();
        assert_eq!(exchange.put(&asked()).unwrap(), 8);
    }

    #[test]
    fn a_request_says_how_many_of_its_messages_were_seen_before() {
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
        // The same words said anew are another conversation.
        asked.messages.truncate(1);
        exchange.put(&asked).unwrap();
        let text = std::fs::read_to_string(folder.path().join("0003.request.json")).unwrap();
        let request: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(request["known_messages"], 0);
        assert_eq!(request["conversation"], 2);
    }
}
