//! The assistant with its hands: hears a text in how things are now, tells what came of it, carries out what was confirmed.
//!
//! Invariants: the only requests that change something are made in [`Assist::apply`], for an offer that a yes was said to, by a person or beforehand by the owner's policy; where offers are kept
//! ([`Keeping`]), one that waits is on the disk before it is shown, and gone from it before anything is done about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};
use watchkeeper_config::bounded;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::SourceState;
use watchkeeper_engine::workflow::codec;
use watchkeeper_llm::Client;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};
use watchkeeper_memory::{Found, MemoryError, Query};
use watchkeeper_plain::answer::{Looked, Unknown};
use watchkeeper_plain::intent::Look;
use watchkeeper_plain::{Change, Missing, Plain, Question};

use super::rewording::{Said, Unsaid, reword};
use super::secrets::without_secrets;
use super::told::{Teller, Told};
use super::trying::Trying;
use super::working::{Request, Working};
use crate::active::keep_current;
use crate::assistant::conversation::{Conversation, Reply, Shown};
use crate::assistant::difference::Difference;
use crate::assistant::made::words;
use crate::assistant::offer::Offer;
use crate::assistant::policy::{Decision, Policy, Whose};
use crate::assistant::recollection::Recollection;
use crate::assistant::situation::Situation;
use crate::assistant::trace::Trace;
use crate::assistant::waiting::{By, Waiting, WaitingError};
use crate::blueprint::shelf::Listed;
use crate::blueprint::{Flaw, Job, Shelf, flaw};
use crate::cli::exit::{Exit, Failure};
use crate::cli::now;
use crate::clock::wall_now;
use crate::coordinator::{self, Chooser, NotHere, Routed};
use crate::notes::Notes;
use crate::runtime_client::{ClientError, RuntimeClient};
use crate::setter::ahead::Ahead;
use crate::setter::gate::Channel;
use crate::setter::hands::{look_back, situation};
use crate::setter::turn::End;
use crate::wording::quoted;

/// Cameras that are opened at the same time for a look.
const LOOKS_AT_ONCE: usize = 4;
/// Most cameras that are looked at for one request.
const MAX_LOOKS: usize = 16;

/// Opens the way to a model of language when one is wanted. The error is a sentence for a person.
pub type ToModel = Box<dyn Fn() -> Result<Client, String> + Send + Sync>;

/// What an assistant works with.
pub struct Parts {
    /// The runtime.
    pub client: RuntimeClient,
    /// Model of the box that the configuration prefers.
    pub preferred: Option<String>,
    /// Absent where no model of language is configured.
    pub model: Option<ToModel>,
    /// The notes; none where nothing can be kept.
    pub notes: Option<Notes>,
    /// Folder of what is kept (notes, turns, previews, the trace), or why there is none.
    pub home: Result<PathBuf, String>,
    /// Who serves the model; absent where none is configured.
    pub provider: Option<String>,
    /// What the owner confirmed beforehand on this channel.
    pub policy: Policy,
    /// Folder of another trace that is shown with the own one: to a person that of the agent.
    pub other_trace: Option<PathBuf>,
    /// Which way requests come in.
    pub channel: Channel,
    /// Who listens.
    pub out: Arc<dyn Teller>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("home", &self.home)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

/// Offers that are kept for a yes that may come from elsewhere, or after a restart.
#[derive(Debug)]
pub struct Keeping {
    /// The file.
    pub waiting: Waiting,
    /// Who they are made for.
    pub by: By,
    /// The one that waits here.
    pub id: Option<String>,
}

/// The assistant with its hands.
pub struct Assist {
    pub(super) parts: Parts,
    /// What is waited for.
    pub conversation: Conversation,
    plain: Plain,
    /// Whether what was heard last are a model's words.
    pub by_model: bool,
    /// Whose words the question is about that waits for an answer, if any does.
    asks_for: Whose,
    /// When requests are taken to be said; absent: now.
    pub at: Option<Timestamp>,
    /// Whether what the rules propose is tried before it is shown. What is confirmed beforehand is not: nobody looks at it.
    pub tries: bool,
    /// What was said and came of it.
    earlier: Recollection,
    /// Pictures that the next request comes with.
    attached: Vec<(String, Bytes)>,
    /// A model's work that is over and not handed over yet.
    unsettled: Option<Ahead>,
    /// Absent where nothing can be kept.
    trace: Option<Trace>,
    /// Absent where an offer waits as long as this does.
    keeping: Option<Keeping>,
}

impl std::fmt::Debug for Assist {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assist")
            .field("parts", &self.parts)
            .field("conversation", &self.conversation)
            .finish_non_exhaustive()
    }
}

/// Most pictures of one request.
pub const MAX_ATTACHED: usize = 4;
/// Largest picture, in bytes.
pub const MAX_PICTURE: u64 = 16 << 20;

impl Assist {
    /// An assistant that nothing was said to yet.
    ///
    /// # Errors
    /// Never with the lexicon of this build.
    pub fn new(parts: Parts) -> Result<Self, Failure> {
        let plain = Plain::new().map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
        let home = parts.home.as_ref().ok();
        Ok(Self {
            trace: home.map(|folder| Trace::new(folder, parts.channel.name())),
            parts,
            conversation: Conversation::default(),
            plain,
            by_model: false,
            asks_for: Whose::Persons,
            at: None,
            tries: true,
            earlier: Recollection::default(),
            attached: Vec::new(),
            unsettled: None,
            keeping: None,
        })
    }

    /// Has it keep its offers.
    #[must_use]
    pub fn keeping(mut self, keeping: Keeping) -> Self {
        self.keeping = Some(keeping);
        self
    }

    /// The id of the offer that is kept and waits.
    #[must_use]
    pub fn kept(&self) -> Option<&str> {
        self.keeping.as_ref()?.id.as_deref()
    }

    /// The socket of the runtime.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.parts.client.socket()
    }

    /// How things are now.
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn situation(&self) -> Result<Situation, ClientError> {
        let here = situation(&self.parts.client, self.parts.preferred.clone()).await?;
        let now = match self.at {
            Some(at) => at.to_zoned(here.now.time_zone().clone()),
            None => here.now,
        };
        Ok(Situation { now, ..here })
    }

    /// Hears a text in how things are now. Cameras of which no picture is known are looked at where the answer needs it; what the rules do not
    /// understand goes to a model, where one is configured.
    ///
    /// # Errors
    /// When the runtime does not answer, or pictures came with it and no model is there to look at them.
    pub async fn hear(&mut self, text: &str) -> Result<(Reply, Situation), Failure> {
        let text = &*without_secrets(text, &*self.parts.out);
        let mut here = self.situation().await?;
        self.note("request", || json!({"text": text}));
        self.by_model = false;
        let before = self.conversation.clone();
        // An answer to what a model put into other words is heard together with those.
        let mut whose = match before.question() {
            Some(_) => self.asks_for,
            None => Whose::Persons,
        };
        let attached = std::mem::take(&mut self.attached);
        let mut by_model = None;
        if !attached.is_empty() {
            // No rule reads a picture.
            self.language()?;
            by_model = self.ask_model(text, attached.clone(), &mut here).await?;
            if by_model.is_none() {
                // What the rules make of the words alone is not what was asked.
                self.attached = attached;
                let sentence = "the pictures that came with it were not looked at; say it again when the model answers, or without them";
                return Err(Failure::new(Exit::Failed, sentence));
            }
        }
        let mut reply = match by_model {
            Some(reply) => {
                self.by_model = true;
                reply
            }
            None => self.by_rules(text, &mut here, false).await?,
        };
        let is_fresh = before.question().is_none();
        let is_lost = match &reply {
            Reply::Unknown(_) => self.conversation.question().is_none(),
            // Somebody who answers a question of the rules talks to them.
            partial => is_fresh && coordinator::is_partial(partial),
        };
        if is_lost && !self.by_model {
            // While the model thinks nothing waits: whoever breaks it off is not left with an offer that they had spoken against.
            let asked = std::mem::take(&mut self.conversation);
            match self.ask_model(text, Vec::new(), &mut here).await? {
                Some(by_model) => {
                    self.by_model = true;
                    reply = by_model;
                }
                None => self.conversation = asked,
            }
        }
        if self.by_model {
            whose = Whose::Models;
        }
        self.asks_for = whose;
        let waited = before.shown().is_some();
        self.try_out(&mut reply, before, &here).await;
        self.trace_reply(&reply);
        let (reply, here) = self.by_policy(reply, whose, waited, here).await?;
        self.keep_exchange(text, &reply);
        Ok((reply, here))
    }

    /// Has an offer confirmed where the owner said so beforehand: it is shown as any other, with the key that says yes, and compared with what runs then. `waited`:
    /// another one waited for a yes when the text was said.
    async fn by_policy(
        &mut self,
        reply: Reply,
        whose: Whose,
        waited: bool,
        here: Situation,
    ) -> Result<(Reply, Situation), Failure> {
        let Reply::Offer(offer) = &reply else {
            return Ok((reply, here));
        };
        let permit = match self.parts.policy.decide(offer, whose) {
            Decision::Confirmed(permit) => permit,
            Decision::Asks(why) => {
                let key = self.parts.policy.key();
                self.note(
                    "policy",
                    || json!({"by": key, "decision": "asked", "sentence": why}),
                );
                return Ok((reply, here));
            }
        };
        if waited {
            self.say("the proposal before this is put aside");
        }
        self.forget_kept(&reply)?;
        let sentence = format!("confirmed by {}: {}", permit.key(), permit.kind().name());
        self.note("policy", || {
            json!({
                "by": permit.key(), "decision": "confirmed", "change": permit.kind().name(),
                "request": offer.request, "sentence": sentence,
            })
        });
        self.show_offer(offer, None, "");
        self.parts.out.tell(Told::Confirmed(&permit));
        let now = match self.situation().await {
            Ok(now) => now,
            Err(error) => {
                // It was shown as confirmed and is kept nowhere: no later yes is to be about it.
                self.conversation = Conversation::default();
                return Err(error.into());
            }
        };
        let reply = self.conversation.permitted(&permit, &self.plain, &now);
        self.trace_reply(&reply);
        Ok((reply, now))
    }

    /// What the owner confirmed beforehand on this channel.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.parts.policy
    }

    /// Has what the rules propose tried. `before` is the conversation as it was when the text was said: whoever gives up meanwhile is left in it, since nobody
    /// was shown what it has come to.
    async fn try_out(&mut self, reply: &mut Reply, before: Conversation, here: &Situation) {
        let (Reply::Offer(offer) | Reply::Anew(offer)) = reply else {
            return;
        };
        if !self.tries || offer.made.is_some() {
            return;
        }
        let after = std::mem::replace(&mut self.conversation, before);
        let home = self.parts.home.as_ref().ok();
        let (client, out) = (self.parts.client.clone(), Arc::clone(&self.parts.out));
        let trying = Trying::new(client, home, here, self.trace.as_ref(), out);
        offer.tried = trying.run(offer).await;
        self.conversation = after;
        self.conversation.tried(&offer.tried);
    }

    /// Has a model work on a request without asking the rules: by the blueprint of this name, else by that of the set-up.
    ///
    /// # Errors
    /// When there is no such blueprint, or the runtime or the model is no help.
    pub async fn think(
        &mut self,
        text: &str,
        blueprint: Option<&str>,
    ) -> Result<(Reply, Situation), Failure> {
        let text = &*without_secrets(text, &*self.parts.out);
        let routed = match blueprint {
            Some(name) => self.named(name)?,
            None => {
                let shelf = self.shelf();
                coordinator::set_up(&shelf, Chooser::Person).map_err(at_fault)?
            }
        };
        let here = self.situation().await?;
        self.note("request", || json!({"text": text, "think": true}));
        let client = self.language()?;
        let attached = std::mem::take(&mut self.attached);
        let reply = self.work(&client, text, attached, routed, &here).await;
        let reply = reply.map_err(|why| Failure::new(Exit::Failed, why))?;
        self.by_model = true;
        self.asks_for = Whose::Models;
        self.trace_reply(&reply);
        let (reply, here) = self.by_policy(reply, Whose::Models, false, here).await?;
        self.keep_exchange(text, &reply);
        Ok((reply, here))
    }

    /// The way to the model.
    fn language(&self) -> Result<Client, Failure> {
        let open = self.parts.model.as_ref().ok_or_else(|| {
            Failure::input("no model of language is configured: the section [llm] of the configuration names one")
        })?;
        open().map_err(|why| Failure::new(Exit::Failed, why))
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
        if self.parts.model.is_none() {
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
        let shelf = self.shelf();
        let mut routed = coordinator::set_up(&shelf, Chooser::Pictures).map_err(at_fault)?;
        if attached.is_empty() {
            let jobs = coordinator::choices(&shelf);
            routed.by = Chooser::Nobody;
            match reword(&client, text, &here.scene(&here.now), &jobs).await {
                Ok(said) if said.reworded.request.is_empty() => {
                    routed = coordinator::chosen(&said.reworded.job, &shelf).map_err(at_fault)?;
                    self.note("not_reworded", || {
                        json!({
                            "sentence": "the model has no words for it that the rules understand", "model": said.model,
                            "usd": said.cost.dollars(), "job": said.reworded.job,
                        })
                    });
                }
                Ok(said) => {
                    routed = coordinator::chosen(&said.reworded.job, &shelf).map_err(at_fault)?;
                    let before = self.conversation.clone();
                    let reply = self.by_rules(&said.reworded.request, here, true).await?;
                    let left_out = &said.reworded.left_out;
                    let is_whole = coordinator::takes(routed.blueprint.job, left_out, &reply);
                    // The rules answer in English only.
                    let is_taken = is_whole && said.reworded.is_english();
                    self.tell_reworded(&said, is_taken);
                    if is_taken {
                        return Ok(Some(reply));
                    }
                    let is_set_up = routed.blueprint.job == Job::SetUp;
                    if is_whole || is_set_up && matches!(reply, Reply::Offer(_)) {
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
        match self.work(&client, text, attached, routed, here).await {
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
        self.say(&format!(
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
            self.say(&format!(
                "{model} put it as {:?} ({cost})",
                reworded.request
            ));
        }
    }

    fn tell_left_out(&self, said: &Said) {
        self.say(&format!(
            "{} put it as {:?}",
            said.model, said.reworded.request
        ));
        let left_out = &said.reworded.left_out;
        if !left_out.is_empty() {
            self.say(&format!("it left out: {}", quoted(left_out)));
        }
    }

    /// The blueprints there are. What is wrong with one is told, and takes no other away.
    fn shelf(&self) -> Vec<Listed> {
        let Ok(home) = &self.parts.home else {
            return Shelf::built_in();
        };
        match Shelf::of(home).list() {
            Ok((all, notes)) => {
                notes.iter().for_each(|note| self.say(note));
                for trouble in all.iter().filter_map(Listed::trouble) {
                    self.note("damaged_blueprint", || json!({"sentence": trouble}));
                    self.say(&trouble);
                }
                all
            }
            Err(error) => {
                self.say(&format!("{error}; the built-in blueprints serve"));
                Shelf::built_in()
            }
        }
    }

    /// The blueprint that a person named.
    fn named(&self, name: &str) -> Result<Routed, Failure> {
        let home = self.parts.home.as_ref();
        let home = home.map_err(|why| Failure::new(Exit::Failed, why.clone()))?;
        let listed = Shelf::of(home).get(name).map_err(NotHere::from);
        let routed = listed.and_then(coordinator::named);
        routed.map_err(|why| Failure::input(why.to_string()))
    }

    /// Has a model work on a request by a blueprint.
    async fn work(
        &mut self,
        client: &Client,
        text: &str,
        attached: Vec<(String, Bytes)>,
        routed: Routed,
        here: &Situation,
    ) -> Result<Reply, String> {
        let working = Working {
            client,
            runtime: &self.parts.client,
            preferred: self.parts.preferred.clone(),
            folder: self.parts.home.clone()?,
            notes: self.notes()?.clone(),
            at: self.at,
            trace: self.trace.as_ref(),
            out: Arc::clone(&self.parts.out),
        };
        let request = Request {
            text,
            routed,
            gate: self.parts.policy.gate().clone(),
            attached,
            earlier: self.earlier.told(),
        };
        let (end, ahead) = working.run(request).await?;
        self.unsettled = Some(ahead);
        match end {
            End::Answer { text } => Ok(self.conversation.answer(text)),
            End::Nothing { why } => Err(why),
            End::Proposal { made, text: said } => {
                if !said.is_empty() {
                    let line = format!("{} says: {}", made.model, words(&said));
                    self.parts.out.tell(Told::Said(&line, &said));
                }
                // What runs may have changed while the model worked.
                let now = self.situation().await.unwrap_or_else(|_| here.clone());
                Ok(self.conversation.propose(text, *made, &now))
            }
        }
    }

    /// What a model's work came to was handed over: it is not gone on with.
    pub fn settle(&mut self) {
        if let Some(ahead) = self.unsettled.take() {
            ahead.forget();
        }
    }

    /// Keeps what was said and what came of it, for a later request that is about it.
    fn keep_exchange(&mut self, text: &str, reply: &Reply) {
        if let Some(line) = self.earlier.add(text, reply) {
            self.note("summarised", || json!({"text": line}));
        }
    }

    /// Has the runtime open these cameras for a moment, which tells it the size of their pictures. One that shows nothing is told by its state.
    async fn see(&self, cameras: &[SourceId]) {
        let out = Arc::clone(&self.parts.out);
        out.tell(Told::Busy(
            "looking at cameras of which no picture was seen yet",
        ));
        let looks: Vec<BoxFuture<'static, ()>> = cameras
            .iter()
            .take(MAX_LOOKS)
            .map(|id| look_at(self.parts.client.clone(), id.clone()).boxed())
            .collect();
        futures_util::stream::iter(looks)
            .buffer_unordered(LOOKS_AT_ONCE)
            .collect::<Vec<()>>()
            .await;
        out.tell(Told::Idle);
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

    fn say(&self, note: &str) {
        self.parts.out.tell(Told::Note(note));
    }

    /// Takes the picture in a file, which the next request is about.
    ///
    /// # Errors
    /// When it can't be read or taken.
    pub fn attach_file(&mut self, file: &Path) -> Result<(), Failure> {
        let failed = |why: String| Failure::input(format!("can't read {}: {why}", file.display()));
        let bytes = bounded::read_up_to(file, MAX_PICTURE).map_err(|e| failed(e.to_string()))?;
        if !codec::is_picture(&bytes) {
            return Err(failed("it is no JPEG or PNG".to_owned()));
        }
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
        self.attach(&name.unwrap_or_default(), Bytes::from(bytes))
    }

    /// Takes a picture that the next request is about: a JPEG or PNG.
    ///
    /// # Errors
    /// When there are as many as there may be.
    pub fn attach(&mut self, name: &str, picture: Bytes) -> Result<(), Failure> {
        if self.attached.len() >= MAX_ATTACHED {
            return Err(Failure::input(format!(
                "a request comes with at most {MAX_ATTACHED} pictures"
            )));
        }
        let name = words(name);
        self.say(&format!("{name} goes with the request"));
        self.attached.push((name, picture));
        Ok(())
    }

    /// Shows an offer. `hint` says what waits for what.
    pub fn show_offer(&self, offer: &Offer, id: Option<&str>, hint: &str) {
        self.parts.out.tell(Told::Offer(offer, id, hint));
    }

    /// Tells what came of a text; what was confirmed is carried out. `before` waited for a yes when it was said.
    ///
    /// # Errors
    /// When nothing came of it, or it could not be carried out.
    pub async fn tell(
        &mut self,
        before: Option<&Shown>,
        reply: Reply,
        here: &Situation,
    ) -> Result<(), Failure> {
        let shown = self.conversation.shown();
        let (waits, is_another) = (shown.is_some(), shown != before);
        let is_answer = matches!(reply, Reply::Apply(_) | Reply::Dropped | Reply::Anew(_));
        if before.is_some() && is_another && !is_answer {
            self.say("the proposal before this is put aside");
        }
        if is_another {
            self.forget_kept(&reply)?;
        }
        let out = Arc::clone(&self.parts.out);
        match reply {
            Reply::Offer(offer) => self.keep_and_show(&offer, here),
            Reply::Anew(offer) => {
                self.say("what runs has changed since, or it is too long ago: nothing was done, and this is the proposal as it is now");
                self.keep_and_show(&offer, here)
            }
            Reply::Apply(offer) => self.apply(&offer).await,
            Reply::Unsound(offer, why) => {
                self.show_offer(&offer, None, "");
                Err(Failure::input(format!(
                    "This can't be confirmed, because {why}."
                )))
            }
            Reply::Look(looked) => {
                self.look(&looked, here).await?;
                if waits {
                    out.tell(Told::Waits);
                }
                Ok(())
            }
            Reply::Remember(kind, words) => self.remember(kind, &words),
            Reply::Ask(question) => {
                out.tell(Told::Question(&question, here));
                Ok(())
            }
            Reply::Answer(text) => {
                out.tell(Told::Answer(&text));
                Ok(())
            }
            Reply::Unknown(unknown) => Err(Self::unknown(&unknown)),
            Reply::TooLong(error) => Err(Failure::input(error.to_string())),
            Reply::Dropped => {
                out.tell(Told::Dropped);
                Ok(())
            }
            Reply::NothingWaits => Err(Failure::input(
                "Nothing waits for a yes or a no. Say what to watch, or what you want to know; /help has examples.",
            )),
            Reply::Silence | Reply::See(_) => Ok(()),
        }
    }

    /// Takes an offer that waits no more off the disk. Where it is to be carried out and is not there any more, somebody else had it first.
    fn forget_kept(&mut self, reply: &Reply) -> Result<(), Failure> {
        let socket = self.parts.client.socket().to_path_buf();
        let Some(keeping) = &mut self.keeping else {
            return Ok(());
        };
        let Some(id) = keeping.id.take() else {
            return Ok(());
        };
        match (keeping.waiting.take(&id, &socket, Timestamp::now()), reply) {
            (Ok(_), _) => Ok(()),
            (Err(error), Reply::Apply(_)) => Err(error.into()),
            // It may be an hour old by now.
            (Err(WaitingError::Unknown { .. }), _) => Ok(()),
            (Err(error), _) => {
                tracing::warn!(%error, "a proposal that was put aside still waits");
                Ok(())
            }
        }
    }

    fn keep_and_show(&mut self, offer: &Offer, here: &Situation) -> Result<(), Failure> {
        let socket = self.parts.client.socket();
        if let (Some(keeping), Some(shown)) = (&mut self.keeping, self.conversation.shown()) {
            let by = Some(keeping.by.clone());
            let kept = keeping
                .waiting
                .keep(socket, shown, by, here.now.timestamp());
            // What could not be kept is not shown, so no yes can be to it.
            keeping.id = Some(kept.inspect_err(|_| self.conversation = Conversation::default())?);
        }
        self.show_offer(offer, self.kept(), "Shall I do that? yes or no");
        Ok(())
    }

    /// The sentence of a question, with what could be answered. Where a picture is missing, why none comes.
    #[must_use]
    pub fn question(question: &Question, here: &Situation) -> Failure {
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
    #[must_use]
    pub fn unknown(unknown: &Unknown) -> Failure {
        let words = &unknown.not_understood;
        let details = (!words.is_empty()).then(|| format!("not understood: {}", quoted(words)));
        Failure::input(&unknown.text).with(details)
    }

    /// Carries out an offer, one change after the other. The first that fails ends it, and what was done before is told.
    ///
    /// # Errors
    /// With what failed, and what was done before it.
    pub async fn apply(&self, offer: &Offer) -> Result<(), Failure> {
        let mut done = Vec::new();
        for (change, difference) in offer.proposal.changes.iter().zip(&offer.difference) {
            if !difference.acts() {
                continue;
            }
            let out = Arc::clone(&self.parts.out);
            out.tell(Told::Busy(&format!("changing {}", difference.pipeline)));
            let outcome = self.carry_out(change, difference).await;
            out.tell(Told::Idle);
            match outcome {
                Ok(sentence) => done.push(sentence),
                Err(error) => {
                    let mut failure = Failure::from(error);
                    let told = done
                        .iter()
                        .map(|sentence| format!("done before it: {sentence}"));
                    failure.details.extend(told);
                    self.keep_active().await;
                    self.note("failed", || json!({"sentence": failure.to_string()}));
                    return Err(failure);
                }
            }
        }
        self.note("done", || json!({"sentence": done.join("; ")}));
        self.keep_active().await;
        self.keep_watch(offer);
        Ok(())
    }

    /// A moment of a request by the box's clock. Where the request is taken to be said at another time, it is as long from now as it is from then.
    fn by_the_clock(&self, moment: &Zoned) -> Timestamp {
        let moment = moment.timestamp();
        let shifted = self.at.and_then(|at| {
            let from_then = moment.duration_since(at);
            Timestamp::now().checked_add(from_then).ok()
        });
        shifted.unwrap_or(moment)
    }

    async fn carry_out(
        &self,
        change: &Change,
        difference: &Difference,
    ) -> Result<String, ClientError> {
        let (client, out) = (&self.parts.client, &self.parts.out);
        let status = match change {
            Change::Deploy(spec) => client.create_pipeline(spec).await?,
            Change::Replace(spec) => client.put_pipeline(spec).await?,
            Change::Pause { pipeline, until } => {
                let until = until.as_ref().map(|until| self.by_the_clock(until));
                client.pause_pipeline(pipeline, until).await?
            }
            Change::Resume(pipeline) => client.resume_pipeline(pipeline).await?,
            Change::Stop(pipeline) => {
                client.delete_pipeline(pipeline).await?;
                let sentence = format!("pipeline {pipeline} is gone");
                out.tell(Told::Done(&sentence, json!({"removed": pipeline})));
                return Ok(sentence);
            }
        };
        let sentence = now(&status);
        let done = json!({"becomes": difference.becomes, "pipeline": status});
        out.tell(Told::Done(&sentence, done));
        let told = status
            .note
            .iter()
            .chain(status.warnings.iter().map(|w| &w.message));
        told.for_each(|text| self.say(text));
        Ok(sentence)
    }

    /// Keeps what runs now beside the notes. That it can't be kept undoes nothing, and is told.
    async fn keep_active(&self) {
        let kept = match self.notes() {
            Ok(notes) => keep_current(&self.parts.client, notes).await,
            Err(why) => Err(why),
        };
        if let Err(why) = kept {
            self.say(&format!("what runs now was not noted down: {why}"));
        }
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
            self.say(&format!(
                "the watch runs, and was not noted down: {failure}"
            ));
        }
    }

    /// Keeps a person's word.
    ///
    /// # Errors
    /// When it is no note, or can't be kept.
    pub fn remember(&self, kind: Kind, words: &str) -> Result<(), Failure> {
        let words = Words::new(words).map_err(|e| Failure::input(e.to_string()))?;
        let at = self.remember_entry(Entry::new(kind, Origin::Person, words))?;
        self.parts.out.tell(Told::Remembered(kind, &at));
        Ok(())
    }

    fn remember_entry(&self, entry: Entry) -> Result<String, Failure> {
        let failed = |why: String| Failure::new(Exit::Failed, why);
        let mut memory = self.notes().and_then(Notes::open).map_err(failed)?;
        let kept = memory.remember(wall_now(), entry).map_err(unkept)?;
        Ok(memory.folder().join(kept.file).display().to_string())
    }

    /// The notes that have to do with these words.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn search_memory(&self, words: &str) -> Result<Vec<Found>, Failure> {
        let query = Query {
            now: Some(Timestamp::now()),
            ..Query::new(words)
        };
        let failed = |why: String| Failure::new(Exit::Failed, why);
        let mut memory = self.notes().and_then(Notes::open).map_err(failed)?;
        memory.search(query).map_err(unkept)
    }

    /// The notes. The error is a sentence for a person.
    fn notes(&self) -> Result<&Notes, String> {
        let home = self.parts.home.as_ref();
        home.map_err(Clone::clone)?;
        let nowhere = || "there is no folder for notes here".to_owned();
        self.parts.notes.as_ref().ok_or_else(nowhere)
    }

    /// Looks something up and tells it.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn look(&self, looked: &Looked, here: &Situation) -> Result<(), Failure> {
        let out = Arc::clone(&self.parts.out);
        match &looked.look {
            Look::Cameras => out.tell(Told::Cameras(&here.sources)),
            Look::Pipelines => out.tell(Told::Pipelines(&here.pipelines, &looked.text)),
            Look::Status(None) => out.tell(Told::Status(here)),
            Look::Status(Some(camera)) => {
                let sources = here.sources.iter().filter(|s| s.spec.id == *camera);
                let sources: Vec<_> = sources.cloned().collect();
                let on_it = here.pipelines.iter().filter(|p| p.spec.source == *camera);
                let on_it: Vec<_> = on_it.cloned().collect();
                out.tell(Told::Camera(&sources, camera.as_str(), &on_it));
            }
            Look::Events(wanted) => {
                let happened = look_back(&self.parts.client, wanted).await?;
                out.tell(Told::Events(&happened, wanted, &looked.text));
            }
            Look::Classes | Look::Templates | Look::Help => out.tell(Told::Text(&looked.text)),
        }
        if !looked.not_understood.is_empty() {
            let words = quoted(&looked.not_understood);
            self.say(&format!("not understood, and left out: {words}"));
        }
        Ok(())
    }
}

/// Has the runtime open a camera for a moment.
async fn look_at(client: RuntimeClient, camera: SourceId) {
    if let Err(error) = client.source_frame(&camera).await {
        tracing::debug!(%camera, %error, "no picture came");
    }
}

/// A blueprint of this build that can't be read.
fn at_fault(flaws: Vec<Flaw>) -> Failure {
    Failure::new(Exit::Failed, flaw::sentence(&flaws))
}

fn unkept(error: MemoryError) -> Failure {
    Failure::new(Exit::Failed, error.to_string())
}
