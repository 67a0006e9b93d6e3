//! The shell around the assistant, shared by `ask` and `chat`: asks the runtime how things are, shows what came of a text, carries out what was
//! confirmed.
//!
//! Invariant: the only request that changes something is made in [`Assist::apply`], for an offer that a yes was said to.

use std::sync::Arc;

use futures_util::StreamExt as _;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};
use watchkeeper_config::Config;
use watchkeeper_contract::id::{EventSeq, SourceId};
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceState;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};
use watchkeeper_memory::{HashedEmbedder, Memory, Query};
use watchkeeper_plain::answer::{Looked, Unknown};
use watchkeeper_plain::intent::{EventsWanted, Intent, Look};
use watchkeeper_plain::{Change, Missing, Plain, Question};

use super::events::{self, Clock};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::remote;
use super::rewording::{Rewording, Said};
use super::state_folder::state_folder;
use crate::assistant::conversation::{Conversation, Reply};
use crate::assistant::counts::counts;
use crate::assistant::difference::Difference;
use crate::assistant::happened::Search;
use crate::assistant::offer::Offer;
use crate::assistant::situation::Situation;
use crate::assistant::trace::Trace;
use crate::clock::wall_now;
use crate::runtime_client::{ClientError, RuntimeClient};
use crate::wording::quoted;

/// Cameras that are opened at the same time for a look.
const LOOKS_AT_ONCE: usize = 4;
/// Most cameras that are looked at for one request.
const MAX_LOOKS: usize = 16;

/// The assistant with its hands.
pub(super) struct Assist<'o> {
    pub(super) client: RuntimeClient,
    pub(super) out: &'o Output,
    pub(super) conversation: Conversation,
    plain: Plain,
    preferred: Option<String>,
    /// Absent where no model of language is configured.
    rewording: Option<Rewording>,
    /// Whether what was heard last are a model's words.
    pub(super) by_model: bool,
    /// Absent where nothing can be kept.
    trace: Option<Trace>,
}

impl<'o> Assist<'o> {
    /// An assistant for the runtime of `client`. What it traces came in over `channel`.
    pub(super) fn new(
        client: RuntimeClient,
        config: &Config,
        channel: &'static str,
        out: &'o Output,
    ) -> Result<Self, Failure> {
        let plain = Plain::new().map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
        let folder = state_folder().ok();
        Ok(Self {
            client,
            out,
            conversation: Conversation::default(),
            plain,
            preferred: config.models.default.clone(),
            rewording: Rewording::of(config),
            by_model: false,
            trace: folder.map(|folder| Trace::new(&folder, channel)),
        })
    }

    /// How things are now.
    pub(super) async fn situation(&self) -> Result<Situation, ClientError> {
        Ok(Situation {
            health: self.client.health().await?,
            sources: self.client.sources().await?,
            pipelines: self.client.pipelines().await?,
            models: self.client.models().await?,
            preferred: self.preferred.clone(),
            now: Zoned::now(),
            looked: false,
        })
    }

    /// Hears a text in how things are now. Cameras of which no picture is known are looked at where the answer needs it.
    pub(super) async fn hear(&mut self, text: &str) -> Result<(Reply, Situation), Failure> {
        let mut here = self.situation().await?;
        self.note("request", || json!({"text": text}));
        let mut reply = self.conversation.hear(text, &self.plain, &here);
        if let Reply::See(cameras) = reply {
            self.see(&cameras).await;
            here = self.situation().await?;
            here.looked = true;
            reply = self.conversation.hear(text, &self.plain, &here);
        }
        self.by_model = false;
        if let Reply::Unknown(_) = &reply
            && self.conversation.question().is_none()
            && let Some(reworded) = self.reword(text, &here).await
        {
            self.by_model = true;
            reply = self
                .conversation
                .hear_reworded(&reworded, &self.plain, &here);
            if let Reply::See(cameras) = reply {
                self.see(&cameras).await;
                here = self.situation().await?;
                here.looked = true;
                reply = self
                    .conversation
                    .hear_reworded(&reworded, &self.plain, &here);
            }
        }
        self.trace_reply(&reply);
        Ok((reply, here))
    }

    /// Has a model of language put into other words what was not understood. What it makes of it is told; so is why it makes nothing.
    async fn reword(&self, text: &str, here: &Situation) -> Option<String> {
        let said = self
            .rewording
            .as_ref()?
            .reword(text, &here.scene(&here.now))
            .await;
        let said = match said {
            Ok(said) => said,
            Err(why) => {
                self.note("not_reworded", || json!({"sentence": why}));
                self.out.note(format!(
                    "I go by my own rules, because the model of language was no help: {why}"
                ));
                return None;
            }
        };
        let Said {
            reworded,
            model,
            cost,
        } = said;
        self.note("reworded", || json!({
            "text": reworded.request, "left_out": reworded.left_out, "model": model, "usd": cost.dollars(),
        }));
        self.out
            .note(format!("{model} put it as {:?} ({cost})", reworded.request));
        if !reworded.left_out.is_empty() {
            self.out
                .note(format!("it left out: {}", quoted(&reworded.left_out)));
        }
        Some(reworded.request)
    }

    /// Has the runtime open these cameras for a moment, which tells it the size of their pictures. One that shows nothing is told by its state.
    async fn see(&self, cameras: &[SourceId]) {
        self.out
            .busy("looking at cameras of which no picture was seen yet");
        let client = &self.client;
        let looks = cameras.iter().take(MAX_LOOKS).map(|id| async move {
            if let Err(error) = client.source_frame(id).await {
                tracing::debug!(camera = %id, %error, "no picture came");
            }
        });
        futures_util::stream::iter(looks)
            .buffer_unordered(LOOKS_AT_ONCE)
            .collect::<Vec<()>>()
            .await;
        self.out.end_live_line();
    }

    fn trace_reply(&self, reply: &Reply) {
        match reply {
            Reply::Offer(offer) | Reply::Anew(offer) => self.note("proposal", || offer.view()),
            Reply::Unsound(offer, why) => {
                self.note(
                    "unsound",
                    || json!({"sentence": why, "offer": offer.view()}),
                );
            }
            Reply::Apply(offer) => self.note("confirmed", || offer.view()),
            Reply::Ask(question) => self.note("question", || json!({"text": question.text})),
            Reply::Look(looked) => {
                self.note("look_up", || json!({"text": format!("{:?}", looked.look)}));
            }
            Reply::Unknown(unknown) => {
                self.note(
                    "unknown",
                    || json!({"text": unknown.not_understood.join(", ")}),
                );
            }
            Reply::TooLong(error) => self.note("unknown", || json!({"text": error.to_string()})),
            Reply::Remember(_, words) => self.note("remember", || json!({"text": words})),
            Reply::Dropped => self.note("dropped", || json!({})),
            Reply::See(_) | Reply::NothingWaits | Reply::Silence => {}
        }
    }

    /// Writes to the trace. That it can't be written is no reason to stop, and is told.
    fn note(&self, what: &str, particulars: impl FnOnce() -> Value) {
        if let Some(trace) = &self.trace
            && let Err(error) = trace.note(Timestamp::now(), what, particulars())
        {
            tracing::debug!(%error, "the trace can't be written");
        }
    }

    /// Shows an offer. `hint` says what waits for what.
    pub(super) fn show_offer(&self, offer: &Offer, id: Option<&str>, hint: &str) {
        if self.out.is_json() {
            let mut view = offer.view();
            view["type"] = Value::from("proposal");
            if let Some(id) = id {
                view["id"] = Value::from(id);
            }
            self.out.object(&view);
        } else {
            for line in offer.lines() {
                self.out.line(line);
            }
            if !hint.is_empty() {
                self.out.line(hint);
            }
        }
    }

    /// The sentence of a question, with what could be answered. Where a picture is missing, why none comes.
    pub(super) fn question(question: &Question, here: &Situation) -> Failure {
        let mut details = Vec::new();
        if !question.choices.is_empty() {
            details.push(format!("could be: {}", question.choices.join(", ")));
        }
        if question.about == Missing::Picture {
            let away = here
                .sources
                .iter()
                .filter_map(|source| match &source.state {
                    SourceState::Lost { message, .. } | SourceState::Failed { message, .. } => {
                        Some(format!("{}: {message}", source.spec.id))
                    }
                    _ => None,
                });
            details.extend(away);
        }
        Failure::input(&question.text).with(details)
    }

    /// The sentence of what was not understood.
    pub(super) fn unknown(unknown: &Unknown) -> Failure {
        let words = &unknown.not_understood;
        let details = (!words.is_empty()).then(|| format!("not understood: {}", quoted(words)));
        Failure::input(&unknown.text).with(details)
    }

    /// Carries out an offer, one change after the other. The first that fails ends it, and what was done before is told.
    pub(super) async fn apply(&self, offer: &Offer) -> Result<(), Failure> {
        let mut done = Vec::new();
        for (change, difference) in offer.proposal.changes.iter().zip(&offer.difference) {
            if !difference.acts() {
                continue;
            }
            self.out.busy(format!("changing {}", difference.pipeline));
            let outcome = self.carry_out(change, difference).await;
            self.out.end_live_line();
            match outcome {
                Ok(sentence) => done.push(sentence),
                Err(error) => {
                    let mut failure = Failure::from(error);
                    let told = done
                        .iter()
                        .map(|sentence| format!("done before it: {sentence}"));
                    failure.details.extend(told);
                    self.note("failed", || json!({"sentence": failure.to_string()}));
                    return Err(failure);
                }
            }
        }
        self.note("done", || json!({"sentence": done.join("; ")}));
        self.keep_watch(offer);
        Ok(())
    }

    async fn carry_out(
        &self,
        change: &Change,
        difference: &Difference,
    ) -> Result<String, ClientError> {
        let client = &self.client;
        let status = match change {
            Change::Deploy(spec) => client.create_pipeline(spec).await?,
            Change::Replace(spec) => client.put_pipeline(spec).await?,
            Change::Pause { pipeline, .. } => client.pause_pipeline(pipeline).await?,
            Change::Resume(pipeline) => client.resume_pipeline(pipeline).await?,
            Change::Stop(pipeline) => {
                client.delete_pipeline(pipeline).await?;
                let sentence = format!("pipeline {pipeline} is gone");
                self.out
                    .both(&json!({"type": "done", "removed": pipeline}), || {
                        sentence.clone()
                    });
                return Ok(sentence);
            }
        };
        let sentence = remote::now(&status);
        let done = json!({"type": "done", "becomes": difference.becomes, "pipeline": status});
        self.out.both(&done, || sentence.clone());
        let told = status
            .note
            .iter()
            .chain(status.warnings.iter().map(|w| &w.message));
        told.for_each(|text| self.out.note(text));
        Ok(sentence)
    }

    /// Keeps a watch that was asked for and confirmed among the notes.
    fn keep_watch(&self, offer: &Offer) {
        let Intent::Watch(watches) = &offer.proposal.intent else {
            return;
        };
        let Ok(words) = Words::new(&format!("Asked for and confirmed: {}", offer.request)) else {
            return;
        };
        let entry = Entry {
            camera: watches.first().map(|watch| watch.camera.clone()),
            tags: Tag::new("watch").into_iter().collect(),
            ..Entry::new(Kind::Observation, Origin::Person, words)
        };
        if let Err(failure) = self.remember_entry(entry) {
            self.out
                .note(format!("the watch runs, and was not noted down: {failure}"));
        }
    }

    /// Keeps a person's word.
    pub(super) fn remember(&self, kind: Kind, words: &str) -> Result<(), Failure> {
        let words = Words::new(words).map_err(|e| Failure::input(e.to_string()))?;
        let at = self.remember_entry(Entry::new(kind, Origin::Person, words))?;
        let kept = json!({"type": "remembered", "kind": kind, "file": at});
        self.out.both(&kept, || {
            format!("Noted as {} in {at}, where you can edit it.", kind.name())
        });
        Ok(())
    }

    fn remember_entry(&self, entry: Entry) -> Result<String, Failure> {
        let mut memory = open_memory()?;
        let failed = |e: watchkeeper_memory::MemoryError| Failure::new(Exit::Failed, e.to_string());
        let kept = memory.remember(wall_now(), entry).map_err(failed)?;
        Ok(memory.folder().join(kept.file).display().to_string())
    }

    /// Shows the notes that have to do with these words.
    pub(super) fn search_memory(&self, words: &str) -> Result<(), Failure> {
        let mut memory = open_memory()?;
        let query = Query {
            now: Some(Timestamp::now()),
            ..Query::new(words)
        };
        let failed = |e: watchkeeper_memory::MemoryError| Failure::new(Exit::Failed, e.to_string());
        let found = memory.search(query).map_err(failed)?;
        self.out.object(&json!({"type": "notes", "notes": found}));
        if found.is_empty() {
            self.out.line("No note has to do with that.");
        }
        for note in &found {
            let at = note
                .note
                .at
                .map(|at| at.to_zoned(jiff::tz::TimeZone::system()));
            let at = at.map_or_else(|| "–".to_owned(), |at| at.strftime("%F %R").to_string());
            let whose = if note.trusted {
                ""
            } else {
                " (not a person's word)"
            };
            self.out.line(format!(
                "{at}  {}{whose}: {}",
                note.kind.name(),
                note.note.words
            ));
        }
        Ok(())
    }

    /// Looks something up and shows it.
    pub(super) async fn look(&self, looked: &Looked, here: &Situation) -> Result<(), Failure> {
        let out = self.out;
        match &looked.look {
            Look::Cameras => {
                out.object(&json!({"type": "cameras", "sources": here.sources}));
                if here.sources.is_empty() {
                    out.line(
                        "There is no camera yet: `watchkeeper sources add NAME ADDRESS` adds one.",
                    );
                } else {
                    remote::source_table(&here.sources, out);
                }
            }
            Look::Pipelines => {
                out.object(&json!({"type": "pipelines", "pipelines": here.pipelines}));
                if here.pipelines.is_empty() {
                    out.line(&looked.text);
                } else {
                    remote::pipeline_table(&here.pipelines, out);
                }
            }
            Look::Status(None) => {
                let (health, sources, pipelines) = (&here.health, &here.sources, &here.pipelines);
                out.object(&json!({"type": "status", "health": health, "sources": sources, "pipelines": pipelines}));
                remote::show_status(health, sources, pipelines, out);
                self.counts(pipelines);
            }
            Look::Status(Some(camera)) => self.camera(camera, here),
            Look::Events(wanted) => self.happened(wanted, looked, here.health.last_seq).await?,
            Look::Classes | Look::Templates | Look::Help => {
                out.both(&json!({"type": "answer", "text": looked.text}), || {
                    looked.text.clone()
                });
            }
        }
        if !looked.not_understood.is_empty() {
            let words = quoted(&looked.not_understood);
            out.note(format!("not understood, and left out: {words}"));
        }
        Ok(())
    }

    fn camera(&self, camera: &SourceId, here: &Situation) {
        let sources = here.sources.iter().filter(|s| s.spec.id == *camera);
        let sources: Vec<_> = sources.cloned().collect();
        let on_it = here.pipelines.iter().filter(|p| p.spec.source == *camera);
        let on_it: Vec<_> = on_it.cloned().collect();
        let out = self.out;
        out.object(&json!({"type": "status", "sources": sources, "pipelines": on_it}));
        remote::source_table(&sources, out);
        if on_it.is_empty() {
            out.line(format!("Nothing watches {camera}."));
        } else {
            out.line("");
            remote::pipeline_table(&on_it, out);
            self.counts(&on_it);
        }
    }

    /// What pipelines have counted, for a person.
    fn counts(&self, pipelines: &[PipelineStatus]) {
        let lines: Vec<String> = pipelines.iter().filter_map(counts).collect();
        if !lines.is_empty() {
            self.out.line("");
        }
        lines.iter().for_each(|line| self.out.line(line));
    }

    async fn happened(
        &self,
        wanted: &EventsWanted,
        looked: &Looked,
        last: EventSeq,
    ) -> Result<(), Failure> {
        let first = self.client.verify_events(EventSeq(0), 1).await?.first;
        let mut search = Search::new(wanted.clone(), first, last);
        while let Some((after, limit)) = search.next() {
            search.take(self.client.events(after, limit).await?);
        }
        let happened = search.done();
        let sentence = happened.sentence(wanted.only_number);
        if self.out.is_json() {
            let events: Vec<Value> = happened.events.iter().map(events::object).collect();
            self.out.object(&json!({"type": "events", "number": happened.number, "complete": !happened.cut, "events": events}));
            return Ok(());
        }
        let head = [looked.text.as_str(), &sentence];
        let head: Vec<&str> = head.into_iter().filter(|text| !text.is_empty()).collect();
        self.out.line(head.join(" "));
        for event in &happened.events {
            if let Some(line) = events::line(event, Clock::Wall) {
                self.out.line(line);
            }
        }
        Ok(())
    }
}

fn open_memory() -> Result<Memory, Failure> {
    let folder = state_folder()?.join("memory");
    let made = crate::assistant::waiting::make_private(&folder);
    let failed = |cause: String| {
        let sentence = format!("the notes in {} can't be used: {cause}", folder.display());
        Failure::new(Exit::Failed, sentence)
    };
    made.map_err(|e| failed(e.to_string()))?;
    Memory::open(&folder, Arc::new(HashedEmbedder::default())).map_err(|e| failed(e.to_string()))
}
