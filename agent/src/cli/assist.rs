//! The shell around the assistant, shared by `ask` and `chat`: asks the runtime how things are, shows what came of a text, carries out what was
//! confirmed.
//!
//! Invariant: the only request that changes something is made in [`Assist::apply`], for an offer that a yes was said to.

use std::collections::VecDeque;
use std::path::Path;

use bytes::Bytes;
use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use watchkeeper_config::Config;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceState;
use watchkeeper_engine::workflow::codec;
use watchkeeper_llm::Client;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};
use watchkeeper_memory::{Memory, Query};
use watchkeeper_plain::answer::{Looked, Unknown};
use watchkeeper_plain::intent::{EventsWanted, Look};
use watchkeeper_plain::{Change, Missing, Plain, Question};

use super::events::{self, Clock};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::persons_model::PersonsModel;
use super::remote;
use super::rewording::{Said, Unsaid, reword};
use super::setting_up::{Request, SettingUp};
use super::state_folder::state_folder;
use crate::assistant::conversation::{Conversation, Reply};
use crate::assistant::counts::counts;
use crate::assistant::difference::Difference;
use crate::assistant::made::words;
use crate::assistant::offer::Offer;
use crate::assistant::situation::Situation;
use crate::assistant::trace::Trace;
use crate::clock::wall_now;
use crate::runtime_client::{ClientError, RuntimeClient};
use crate::setter::ahead::Ahead;
use crate::setter::gate::Channel;
use crate::setter::hands::{self, look_back, situation};
use crate::setter::turn::End;
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
    model: Option<PersonsModel>,
    /// Whether what was heard last are a model's words.
    pub(super) by_model: bool,
    channel: Channel,
    /// What was said and came of it, the oldest first.
    earlier: VecDeque<Value>,
    /// Pictures that the next request comes with.
    pub(super) attached: Vec<(String, Bytes)>,
    /// A model's work that is over and not handed to the person yet.
    unsettled: Option<Ahead>,
    /// Absent where nothing can be kept.
    trace: Option<Trace>,
}

/// Most pictures of one request.
const MAX_ATTACHED: usize = 4;
/// Largest picture, in bytes.
const MAX_PICTURE: u64 = 16 << 20;
/// Exchanges that a model is told of: a later request may be about them.
const EARLIER: usize = 6;
/// Longest part of one that it is told, in characters.
const TOLD: usize = 3_000;

impl<'o> Assist<'o> {
    /// An assistant for the runtime of `client`. What it traces came in over `channel`.
    pub(super) fn new(
        client: RuntimeClient,
        config: &Config,
        channel: Channel,
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
            model: PersonsModel::of(config),
            by_model: false,
            channel,
            earlier: VecDeque::new(),
            attached: Vec::new(),
            unsettled: None,
            trace: folder.map(|folder| Trace::new(&folder, channel.name())),
        })
    }

    /// How things are now.
    pub(super) async fn situation(&self) -> Result<Situation, ClientError> {
        situation(&self.client, self.preferred.clone()).await
    }

    /// Hears a text in how things are now. Cameras of which no picture is known are looked at where the answer needs it; what the rules do not
    /// understand goes to a model, where one is configured.
    pub(super) async fn hear(&mut self, text: &str) -> Result<(Reply, Situation), Failure> {
        let mut here = self.situation().await?;
        self.note("request", || json!({"text": text}));
        self.by_model = false;
        let attached = std::mem::take(&mut self.attached);
        let mut by_model = None;
        if !attached.is_empty() {
            // No rule reads a picture.
            self.language()?;
            by_model = self.ask_model(text, attached, &mut here).await?;
        }
        let mut reply = match by_model {
            Some(reply) => {
                self.by_model = true;
                reply
            }
            None => self.by_rules(text, &mut here, false).await?,
        };
        if matches!(reply, Reply::Unknown(_))
            && self.conversation.question().is_none()
            && let Some(by_model) = self.ask_model(text, Vec::new(), &mut here).await?
        {
            self.by_model = true;
            reply = by_model;
        }
        self.trace_reply(&reply);
        self.keep_exchange(text, &reply);
        Ok((reply, here))
    }

    /// Has a model work on a request without asking the rules.
    pub(super) async fn think(&mut self, text: &str) -> Result<(Reply, Situation), Failure> {
        let here = self.situation().await?;
        self.note("request", || json!({"text": text, "think": true}));
        let client = self.language()?;
        let attached = std::mem::take(&mut self.attached);
        let reply = self.set_up(&client, text, attached, &here).await;
        let reply = reply.map_err(|why| Failure::new(Exit::Failed, why))?;
        self.by_model = true;
        self.trace_reply(&reply);
        self.keep_exchange(text, &reply);
        Ok((reply, here))
    }

    /// The way to the model.
    fn language(&self) -> Result<Client, Failure> {
        let model = self.model.as_ref().ok_or_else(|| {
            Failure::input("no model of language is configured: the section [llm] of the configuration names one")
        })?;
        model
            .client()
            .map_err(|why| Failure::new(Exit::Failed, why))
    }

    /// What the rules make of a text: a person's own, or one that a model has put into other words.
    async fn by_rules(
        &mut self,
        text: &str,
        here: &mut Situation,
        reworded: bool,
    ) -> Result<Reply, Failure> {
        let hear = |talk: &mut Conversation, plain: &Plain, here: &Situation| match reworded {
            false => talk.hear(text, plain, here),
            true => talk.hear_reworded(text, plain, here),
        };
        let reply = hear(&mut self.conversation, &self.plain, here);
        let Reply::See(cameras) = reply else {
            return Ok(reply);
        };
        self.see(&cameras).await;
        *here = self.situation().await?;
        here.looked = true;
        Ok(hear(&mut self.conversation, &self.plain, here))
    }

    /// What a model makes of what the rules did not understand: other words, which the rules read, or a proposal of its own. `None`: it was no help,
    /// which is told.
    async fn ask_model(
        &mut self,
        text: &str,
        attached: Vec<(String, Bytes)>,
        here: &mut Situation,
    ) -> Result<Option<Reply>, Failure> {
        if self.model.is_none() {
            return Ok(None);
        }
        let client = match self.language() {
            Ok(client) => client,
            Err(failure) => {
                self.no_help(&failure.sentence);
                return Ok(None);
            }
        };
        let mut reworded = None;
        if attached.is_empty() {
            match reword(&client, text, &here.scene(&here.now)).await {
                Ok(said) => {
                    let before = self.conversation.clone();
                    let reply = self.by_rules(&said.reworded.request, here, true).await?;
                    let is_whole = said.reworded.left_out.is_empty()
                        && match &reply {
                            Reply::Offer(offer) => offer.is_whole(),
                            Reply::Look(_) | Reply::Ask(_) => true,
                            _ => false,
                        };
                    self.tell_reworded(&said, is_whole);
                    if is_whole {
                        return Ok(Some(reply));
                    }
                    if matches!(reply, Reply::Offer(_)) {
                        reworded = Some((said, reply, self.conversation.clone()));
                    }
                    self.conversation = before;
                }
                Err(Unsaid::Nothing(why)) => {
                    self.note("not_reworded", || json!({"sentence": why.to_string()}));
                }
                Err(why @ (Unsaid::Model(_) | Unsaid::Talk(_))) => {
                    self.no_help(&why.to_string());
                    return Ok(None);
                }
            }
        }
        match self.set_up(&client, text, attached, here).await {
            Ok(reply) => Ok(Some(reply)),
            Err(why) => {
                self.no_help(&why);
                // Better a part of it than nothing, as long as it says which.
                Ok(reworded.map(|(said, reply, conversation)| {
                    self.tell_left_out(&said);
                    self.conversation = conversation;
                    reply
                }))
            }
        }
    }

    /// Tells that the rules go on alone, and why.
    fn no_help(&self, why: &str) {
        self.note("no_help", || json!({"sentence": why}));
        self.out.note(format!(
            "I go by my own rules, because the model of language was no help: {why}"
        ));
    }

    fn tell_reworded(&self, said: &Said, is_whole: bool) {
        let Said {
            reworded,
            model,
            cost,
        } = said;
        self.note("reworded", || json!({
            "text": reworded.request, "left_out": reworded.left_out, "model": model, "usd": cost.dollars(), "used": is_whole,
        }));
        if is_whole {
            self.out
                .note(format!("{model} put it as {:?} ({cost})", reworded.request));
        }
    }

    fn tell_left_out(&self, said: &Said) {
        self.out.note(format!(
            "{} put it as {:?}",
            said.model, said.reworded.request
        ));
        let left_out = &said.reworded.left_out;
        if !left_out.is_empty() {
            self.out.note(format!("it left out: {}", quoted(left_out)));
        }
    }

    /// Has a model look around, write a workflow, see it and propose it.
    async fn set_up(
        &mut self,
        client: &Client,
        text: &str,
        attached: Vec<(String, Bytes)>,
        here: &Situation,
    ) -> Result<Reply, String> {
        let setting_up = SettingUp {
            client,
            runtime: &self.client,
            preferred: self.preferred.clone(),
            folder: state_folder().map_err(|f| f.sentence)?,
            trace: self.trace.as_ref(),
            out: self.out,
        };
        let request = Request {
            text,
            channel: self.channel,
            attached,
            earlier: self.earlier.iter().cloned().collect(),
        };
        let (end, ahead) = setting_up.run(request).await?;
        self.unsettled = Some(ahead);
        match end {
            End::Answer { text } => Ok(self.conversation.answer(text)),
            End::Nothing { why } => Err(why),
            End::Proposal { made, text: said } => {
                if !said.is_empty() {
                    let line = format!("{} says: {}", made.model, words(&said));
                    self.out
                        .both(&json!({"type": "said", "text": said}), || line);
                }
                // What runs may have changed while the model worked.
                let now = self.situation().await.unwrap_or_else(|_| here.clone());
                Ok(self.conversation.propose(text, *made, &now))
            }
        }
    }

    /// What a model's work came to was handed over: it is not gone on with.
    pub(super) fn settle(&mut self) {
        if let Some(ahead) = self.unsettled.take() {
            ahead.forget();
        }
    }

    /// Keeps what was said and what came of it, for a later request that is about it.
    fn keep_exchange(&mut self, text: &str, reply: &Reply) {
        let came = match reply {
            Reply::Offer(offer) | Reply::Anew(offer) => json!({"proposed": cut(&offer.view())}),
            Reply::Unsound(_, why) => json!({"could_not_be_confirmed": why}),
            Reply::Apply(offer) => json!({"confirmed_and_done": offer.proposal.understood}),
            Reply::Ask(question) => json!({"asked_back": question.text}),
            Reply::Answer(text) => json!({"answered": cut(&Value::from(text.as_str()))}),
            Reply::Dropped => json!("the person said no"),
            Reply::Look(_)
            | Reply::Remember(..)
            | Reply::See(_)
            | Reply::Unknown(_)
            | Reply::TooLong(_)
            | Reply::NothingWaits
            | Reply::Silence => return,
        };
        self.earlier
            .push_back(json!({"person": text, "came_of_it": came}));
        while self.earlier.len() > EARLIER {
            self.earlier.pop_front();
        }
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
            Reply::Answer(text) => self.note("answer", || json!({"text": text})),
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

    /// Takes a picture that the next request is about.
    pub(super) fn attach(&mut self, file: &Path) -> Result<(), Failure> {
        if self.attached.len() >= MAX_ATTACHED {
            return Err(Failure::input(format!(
                "a request comes with at most {MAX_ATTACHED} pictures"
            )));
        }
        let failed = |why: String| Failure::input(format!("can't read {}: {why}", file.display()));
        let size = std::fs::metadata(file)
            .map_err(|e| failed(e.to_string()))?
            .len();
        if size > MAX_PICTURE {
            return Err(failed(format!(
                "it has {size} bytes; at most {MAX_PICTURE} are taken"
            )));
        }
        let bytes = std::fs::read(file).map_err(|e| failed(e.to_string()))?;
        if !codec::is_picture(&bytes) {
            return Err(failed("it is no JPEG or PNG".to_owned()));
        }
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
        let name = words(&name.unwrap_or_default());
        self.out.note(format!("{name} goes with the request"));
        self.attached.push((name, Bytes::from(bytes)));
        Ok(())
    }

    /// Shows a model's answer.
    pub(super) fn answer(&self, text: &str) {
        let shown: Vec<String> = text.lines().map(words).collect();
        self.out.both(
            &json!({"type": "answer", "text": text, "by_model": true}),
            || shown.join("\n"),
        );
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
        let camera = offer
            .proposal
            .changes
            .iter()
            .find_map(|change| match change {
                Change::Deploy(spec) => Some(spec.source.clone()),
                _ => None,
            });
        let Some(camera) = camera else {
            return;
        };
        let Ok(words) = Words::new(&format!("Asked for and confirmed: {}", offer.request)) else {
            return;
        };
        let entry = Entry {
            camera: Some(camera),
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
            Look::Events(wanted) => self.happened(wanted, looked).await?,
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

    async fn happened(&self, wanted: &EventsWanted, looked: &Looked) -> Result<(), Failure> {
        let happened = look_back(&self.client, wanted).await?;
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
    hands::open_memory(&folder).map_err(|why| Failure::new(Exit::Failed, why))
}

/// JSON as a model is told of it: all of it, or its beginning as text.
fn cut(value: &Value) -> Value {
    let text = value.to_string();
    if text.chars().count() <= TOLD {
        return value.clone();
    }
    Value::from(text.chars().take(TOLD).collect::<String>())
}
