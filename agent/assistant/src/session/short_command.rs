//! Runs slash commands such as `/status`, typed at a terminal or sent over the agent's API.
//!
//! Invariants:
//! - Commands that run here only read, record a person's answer about an event, pause the heartbeat
//!   or write a blueprint. Operations on the archive run here too. Stop, pause and resume of
//!   pipelines, and narrow, become proposals; what destroys for good asks.
//! - No command reads a file that it names.

use std::path::Path;
use std::sync::Arc;

use watchkeeper_contract::assessment::Via;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_plain::answer::{Look, Looked};

use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::failure::Error;
use crate::permissions::Entrypoint;
use crate::proposal::agent_command::AgentCommand;
use crate::proposal::chat_command::{self, ChatCommand};
use crate::proposal::conversation::Reply;
use crate::proposal::costs::CostReport;
use crate::proposal::snapshot::SystemSnapshot;
use crate::reviews::{self, PersonAnswer};
use crate::trace::{Trace, at, may_see};

/// Events that `/reviews` lists.
const MAX_REVIEWS: u32 = 20;
/// All pipelines, whether they run or not.
const ALL_PIPELINES: Look = Look::Pipelines(None);

#[derive(Debug)]
pub enum CommandResult {
    /// A reply to deliver, with the state that it is based on.
    Reply(Box<Reply>, Box<SystemSnapshot>),
    /// The command reported its result itself.
    Done,
    /// A confirmed request to organise pictures, to run as a job.
    Organise(String),
}

impl CommandResult {
    fn from_reply((reply, here): (Reply, SystemSnapshot)) -> Self {
        Self::Reply(Box::new(reply), Box::new(here))
    }
}

impl Session {
    /// Handles a text or slash command.
    ///
    /// # Errors
    /// If the text or command fails.
    pub async fn handle_input(&mut self, text: &str) -> Result<CommandResult, Error> {
        match chat_command::parse(text) {
            None => match self.handle_operation(text).await? {
                Some(result) => Ok(result),
                None => Ok(CommandResult::from_reply(self.handle_request(text).await?)),
            },
            Some(command) => self.run_command(command).await,
        }
    }

    /// Runs a slash command.
    ///
    /// # Errors
    /// If the command fails or is for terminals only.
    pub async fn run_command(&mut self, command: ChatCommand) -> Result<CommandResult, Error> {
        let out = Arc::clone(&self.deps.out);
        match command {
            ChatCommand::Say(text) => {
                return Ok(CommandResult::from_reply(self.handle_text(&text).await?));
            }
            ChatCommand::Think { blueprint, text } => {
                let replied = self.think(&text, blueprint.as_deref()).await?;
                return Ok(CommandResult::from_reply(replied));
            }
            ChatCommand::Status => {
                let here = self.fetch_snapshot().await?;
                self.answer_look(&look_up(Look::Status(None)), &here)
                    .await?;
                if let Ok(notes) = self.notes() {
                    out.report(ProgressEvent::Note(&notes.describe_embedder()));
                }
            }
            ChatCommand::Streams => {
                let here = self.fetch_snapshot().await?;
                self.answer_look(&look_up(Look::Cameras), &here).await?;
                self.answer_look(&look_up(ALL_PIPELINES), &here).await?;
            }
            ChatCommand::Events(count) => self.latest_events(count).await?,
            ChatCommand::Reviews => {
                let queue = self.deps.client.reviews(MAX_REVIEWS).await?;
                out.report(ProgressEvent::Text(&reviews::describe(&queue).join("\n")));
            }
            ChatCommand::Answer { seq, answer } => self.answer_review(seq, answer).await?,
            ChatCommand::Narrow(pipeline) => {
                return Ok(CommandResult::from_reply(
                    self.propose_narrowing(&pipeline).await?,
                ));
            }
            ChatCommand::Heartbeat(paused) => self.set_heartbeat(paused).await?,
            ChatCommand::Memory(words) => {
                let found = self.search_memory(&words).await?;
                out.report(ProgressEvent::Notes(&found));
            }
            ChatCommand::Plan => out.report(ProgressEvent::Text(&self.waiting_for())),
            ChatCommand::Cost => self.report_cost(),
            ChatCommand::Trace(count) => self.report_trace(count)?,
            ChatCommand::Agents(command) => return self.run_agent_command(command).await,
            ChatCommand::Help => {
                out.report(ProgressEvent::Text(&chat_command::help()));
                return Ok(CommandResult::from_reply(self.handle_text("help").await?));
            }
            ChatCommand::Wrong(why) => return Err(Error::input(why)),
            ChatCommand::Image(_) => {
                return Err(Error::input(
                    "/image works at a terminal only; over the API send pictures in `images` of the message",
                ));
            }
            ChatCommand::Quit => {
                return Err(Error::input(
                    "/quit works at a terminal only; DELETE /v1/conversations/ID ends this conversation",
                ));
            }
        }
        Ok(CommandResult::Done)
    }

    /// Runs a command about operations on the archive or about blueprints.
    async fn run_agent_command(&mut self, command: AgentCommand) -> Result<CommandResult, Error> {
        match command {
            AgentCommand::Observe => self.observe().await,
            AgentCommand::History(as_lines) => self.report_history(as_lines),
            AgentCommand::Manual { action, parameters } => {
                return self.run_manual(&action, &parameters).await;
            }
            AgentCommand::Agent => self.report_agent()?,
            AgentCommand::Switch(name) => {
                self.switch_blueprint(name.as_deref())?;
                self.report_agent()?;
            }
            AgentCommand::List => self.report_blueprints().await?,
            AgentCommand::Show(name) => self.show_blueprint(&name).await?,
            AgentCommand::Create { name, job } => self.create_blueprint(&name, job.as_deref())?,
        }
        Ok(CommandResult::Done)
    }

    /// Records the answer of the user about an event.
    async fn answer_review(&self, seq: EventSeq, answer: PersonAnswer) -> Result<(), Error> {
        let class = answer.label.clone();
        let request = answer.into_request(Via::Chat);
        let record = self.deps.client.assess(seq, &request).await?;
        let text = format!("Event {seq}: {}.", reviews::describe_record(&record));
        self.deps.out.report(ProgressEvent::Text(&text));
        // A note on what is recorded already: without the models there is none.
        if let Some(class) = class
            && let Ok(models) = self.deps.client.models().await
            && let Some(note) = reviews::unknown_class(&class, &models)
        {
            self.report_note(&note);
        }
        Ok(())
    }

    /// Shows, pauses or resumes the heartbeat of the agent.
    async fn set_heartbeat(&self, paused: Option<bool>) -> Result<(), Error> {
        let Some(heartbeat) = &self.deps.heartbeat else {
            return Err(Error::input(
                "this session reaches no agent, so there is no heartbeat",
            ));
        };
        let status = heartbeat.set(paused).await;
        let status = status.map_err(Error::failed)?;
        let out = &self.deps.out;
        out.report(ProgressEvent::Text(&status.sentence()));
        Ok(())
    }

    /// The text for which the conversation waits.
    fn waiting_for(&self) -> String {
        match (self.conversation.shown(), self.conversation.question()) {
            (Some(shown), _) => format!("Waiting for your yes or no: {}", shown.full_request()),
            (None, Some(question)) => format!("Waiting for your answer: {}", question.text),
            (None, None) => "Nothing is waiting.".to_owned(),
        }
    }

    /// Reports the latest journal records.
    async fn latest_events(&self, count: u32) -> Result<(), Error> {
        let client = &self.deps.client;
        let last = client.health().await?.last_seq;
        let mut after = EventSeq(last.0.saturating_sub(u64::from(count)));
        let mut wanted = count;
        // The runtime may return a shorter page than requested.
        while wanted > 0 {
            let page = client.events(after, wanted).await?;
            let Some(end) = page.last() else {
                break;
            };
            after = end.seq();
            wanted = wanted.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
            for record in &page {
                self.deps.out.report(ProgressEvent::Record(record));
            }
        }
        if wanted == count {
            self.deps
                .out
                .report(ProgressEvent::Text("There are no events."));
        }
        Ok(())
    }

    /// Reports the costs from the ledger of the user, or of the agent.
    pub(super) fn report_cost(&self) {
        let model = self.deps.open_llm.as_ref();
        let ledger = model.map(|open| open().map(|client| client.report()));
        let cost = CostReport::new(self.deps.provider.clone(), ledger);
        self.deps.out.report(ProgressEvent::Cost(&cost));
        if matches!(self.deps.entrypoint, Entrypoint::Ask | Entrypoint::Chat) {
            self.report_note("these are calls of ask and chat; those of the agent: GET /v1/cost");
        }
    }

    /// Reports the latest trace entries, including those of the other trace that this user may
    /// read.
    fn report_trace(&self, count: usize) -> Result<(), Error> {
        let (out, channel) = (&self.deps.out, self.deps.entrypoint);
        let home = self.home()?;
        let latest = |folder: &Path| {
            Trace::new(folder, channel.name()).latest_where(count, |entry| may_see(channel, entry))
        };
        let mut entries = latest(home).map_err(|error| {
            let sentence = format!("cannot read the trace in {}: {error}", home.display());
            Error::failed(sentence)
        })?;
        if let Some(other) = &self.deps.other_trace {
            match latest(other) {
                Ok(others) => entries.extend(others),
                Err(error) => out.report(ProgressEvent::Note(&format!(
                    "without the agent's trace: cannot read {}: {error}",
                    other.display()
                ))),
            }
        }
        entries.sort_by_key(at);
        let entries = entries.split_off(entries.len().saturating_sub(count));
        if entries.is_empty() {
            out.report(ProgressEvent::Text("The trace is empty."));
        }
        entries
            .iter()
            .for_each(|entry| out.report(ProgressEvent::TraceEntry(entry)));
        Ok(())
    }
}

fn look_up(look: Look) -> Looked {
    let text = match look {
        Look::Pipelines(_) => "No pipeline is deployed.",
        _ => "",
    };
    Looked {
        look,
        text: text.to_owned(),
    }
}
