//! The short commands, such as `/status`, wherever a person may type them: at the terminal, or in a conversation over the agent's API.
//!
//! Invariants: what is carried out here only looks; what stops, pauses and resumes goes the way of a request, with its offer and its yes. No file is read
//! that the command names.

use std::sync::Arc;

use watchkeeper_contract::id::EventSeq;
use watchkeeper_plain::answer::Looked;
use watchkeeper_plain::intent::Look;

use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::failure::{Error, ErrorKind};
use crate::proposal::chat_command::{self, ChatCommand};
use crate::proposal::conversation::Reply;
use crate::proposal::costs::CostReport;
use crate::proposal::snapshot::SystemSnapshot;
use crate::trace::{Trace, at, may_see};

/// What came of a text.
#[derive(Debug)]
pub enum CommandResult {
    /// A reply that is still to be told, in how things were when it was heard.
    Reply(Box<Reply>, Box<SystemSnapshot>),
    /// It was looked up and told.
    Told,
}

impl CommandResult {
    fn of((reply, here): (Reply, SystemSnapshot)) -> Self {
        Self::Reply(Box::new(reply), Box::new(here))
    }
}

impl Session {
    /// Hears a text, which may be a short command.
    ///
    /// # Errors
    /// When nothing comes of it.
    pub async fn take(&mut self, text: &str) -> Result<CommandResult, Error> {
        match chat_command::parse(text) {
            None => Ok(CommandResult::of(self.hear(text).await?)),
            Some(command) => self.short(command).await,
        }
    }

    /// Carries out a short command.
    ///
    /// # Errors
    /// When nothing comes of it, or it is for a terminal only.
    pub async fn short(&mut self, command: ChatCommand) -> Result<CommandResult, Error> {
        let out = Arc::clone(&self.parts.out);
        match command {
            ChatCommand::Say(text) => return Ok(CommandResult::of(self.hear(&text).await?)),
            ChatCommand::Think { blueprint, text } => {
                return Ok(CommandResult::of(
                    self.think(&text, blueprint.as_deref()).await?,
                ));
            }
            ChatCommand::Status => {
                let here = self.situation().await?;
                self.look(&looked(Look::Status(None)), &here).await?;
                if let Ok(notes) = self.notes() {
                    out.tell(ProgressEvent::Note(&notes.told()));
                }
            }
            ChatCommand::Streams => {
                let here = self.situation().await?;
                self.look(&looked(Look::Cameras), &here).await?;
                self.look(&looked(Look::Pipelines(None)), &here).await?;
            }
            ChatCommand::Events(count) => self.latest_events(count).await?,
            ChatCommand::Memory(words) => {
                let found = self.search_memory(&words)?;
                out.tell(ProgressEvent::Notes(&found));
            }
            ChatCommand::Plan => {
                let text = match (self.conversation.shown(), self.conversation.question()) {
                    (Some(shown), _) => format!("Waits for your yes or no: {}", shown.words()),
                    (None, Some(question)) => format!("Waits for your answer: {}", question.text),
                    (None, None) => "Nothing waits.".to_owned(),
                };
                out.tell(ProgressEvent::Text(&text));
            }
            ChatCommand::Cost => self.tell_cost(),
            ChatCommand::Trace(count) => self.tell_trace(count)?,
            ChatCommand::Help => {
                out.tell(ProgressEvent::Text(&chat_command::help()));
                return Ok(CommandResult::of(self.hear("help").await?));
            }
            ChatCommand::Wrong(why) => return Err(Error::input(why)),
            ChatCommand::Image(_) => {
                return Err(Error::input(
                    "/image reads a file beside a terminal; here a picture comes in `images` of the message",
                ));
            }
            ChatCommand::Quit => {
                return Err(Error::input(
                    "/quit ends the chat of a terminal; DELETE /v1/conversations/ID ends this conversation",
                ));
            }
        }
        Ok(CommandResult::Told)
    }

    /// The latest records of the journal.
    async fn latest_events(&self, count: u32) -> Result<(), Error> {
        let client = &self.parts.client;
        let last = client.health().await?.last_seq;
        let mut after = EventSeq(last.0.saturating_sub(u64::from(count)));
        let mut wanted = count;
        // The runtime answers a page, which may be shorter than what was asked for.
        while wanted > 0 {
            let page = client.events(after, wanted).await?;
            let Some(end) = page.last() else {
                break;
            };
            after = end.seq();
            wanted = wanted.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
            for record in &page {
                self.parts.out.tell(ProgressEvent::Record(record));
            }
        }
        if wanted == count {
            self.parts
                .out
                .tell(ProgressEvent::Text("There are no events."));
        }
        Ok(())
    }

    /// The books of whoever asks: a person's own, or the agent's.
    fn tell_cost(&self) {
        let model = self.parts.model.as_ref();
        let books = model.map(|open| open().map(|client| client.report()));
        let cost = CostReport::of(self.parts.provider.clone(), books);
        self.parts.out.tell(ProgressEvent::Cost(&cost));
    }

    /// The latest entries of the trace, with those of the other trace where this user may read it.
    fn tell_trace(&self, count: usize) -> Result<(), Error> {
        let (out, channel) = (&self.parts.out, self.parts.channel);
        let home = self.parts.home.as_ref();
        let home = home.map_err(|why| Error::new(ErrorKind::Failed, why.clone()))?;
        let latest = |folder| {
            Trace::new(folder, channel.name()).latest_where(count, |entry| may_see(channel, entry))
        };
        let mut entries = latest(home).map_err(|error| {
            let sentence = format!("can't read the trace in {}: {error}", home.display());
            Error::new(ErrorKind::Failed, sentence)
        })?;
        if let Some(other) = &self.parts.other_trace {
            match latest(other) {
                Ok(others) => entries.extend(others),
                Err(error) => out.tell(ProgressEvent::Note(&format!(
                    "what the agent asked is left out: can't read {}: {error}",
                    other.display()
                ))),
            }
        }
        entries.sort_by_key(at);
        let entries = entries.split_off(entries.len().saturating_sub(count));
        if entries.is_empty() {
            out.tell(ProgressEvent::Text("Nothing was asked yet."));
        }
        entries
            .iter()
            .for_each(|entry| out.tell(ProgressEvent::Traced(entry)));
        Ok(())
    }
}

fn looked(look: Look) -> Looked {
    Looked {
        look,
        text: "Nothing is deployed.".to_owned(),
        not_understood: Vec::new(),
    }
}
