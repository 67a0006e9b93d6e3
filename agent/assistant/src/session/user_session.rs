//! The assistant with its hands: hears a text in how things are now. What it does besides is beside it: a model is asked (`by_model`), what came of a text is told
//! (`answering`), what was confirmed is carried out (`carrying_out`), and a person's words are kept (`remembering`).
//!
//! Invariants: the only requests that change something are made in [`Session::apply`], for an offer that a yes was said to, by a person or beforehand by the owner's policy; where offers are kept
//! ([`ProposalStore`]), one that waits is on the disk before it is shown, and gone from it before anything is done about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use watchkeeper_config::bounded;
use watchkeeper_contract::id::SourceId;
use watchkeeper_engine::workflow::codec;
use watchkeeper_llm::Client;
use watchkeeper_plain::Plain;
use watchkeeper_plain::intent::Look;

use super::progress::{ProgressEvent, ProgressSink};
use super::secrets::without_secrets;
use super::trial_runner::TrialRunner;
use crate::failure::{Error, ErrorKind};
use crate::notes::Notes;
use crate::permissions::Entrypoint;
use crate::proposal::auto_approval::{ApprovalDecision, ApprovalRules, Author};
use crate::proposal::conversation::{Reply, SessionState};
use crate::proposal::history::SessionHistory;
use crate::proposal::llm_proposal::words;
use crate::proposal::pending::{PendingProposals, Requester};
use crate::proposal::snapshot::SystemSnapshot;
use crate::router;
use crate::setup_agent::tool_context::situation;
use crate::setup_agent::turn_log::TurnLog;
use crate::trace::Trace;
use watchkeeper_client::{ClientError, RuntimeClient};

/// Cameras that are opened at the same time for a look.
const LOOKS_AT_ONCE: usize = 4;
/// Most cameras that are looked at for one request.
const MAX_LOOKS: usize = 16;

/// Opens the way to a model of language when one is wanted. The error is a sentence for a person.
pub type OpenLlm = Box<dyn Fn() -> Result<Client, String> + Send + Sync>;

/// What an assistant works with.
pub struct SessionDeps {
    /// The runtime.
    pub client: RuntimeClient,
    /// Model of the box that the configuration prefers.
    pub preferred: Option<String>,
    /// Absent where no model of language is configured.
    pub model: Option<OpenLlm>,
    /// The notes; none where nothing can be kept.
    pub notes: Option<Notes>,
    /// Folder of what is kept (notes, turns, previews, the trace), or why there is none.
    pub home: Result<PathBuf, String>,
    /// Who serves the model; absent where none is configured.
    pub provider: Option<String>,
    /// What the owner confirmed beforehand on this channel.
    pub policy: ApprovalRules,
    /// Folder of another trace that is shown with the own one: to a person that of the agent.
    pub other_trace: Option<PathBuf>,
    /// Which way requests come in.
    pub channel: Entrypoint,
    /// Who listens.
    pub out: Arc<dyn ProgressSink>,
}

impl std::fmt::Debug for SessionDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("home", &self.home)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

/// Offers that are kept for a yes that may come from elsewhere, or after a restart.
#[derive(Debug)]
pub struct ProposalStore {
    /// The file.
    pub waiting: PendingProposals,
    /// Who they are made for.
    pub by: Requester,
    /// The one that waits here.
    pub id: Option<String>,
}

/// The assistant with its hands.
pub struct Session {
    pub(super) parts: SessionDeps,
    /// What is waited for.
    pub conversation: SessionState,
    pub(super) plain: Plain,
    /// Whether what was heard last are a model's words.
    pub by_model: bool,
    /// Whose words the question is about that waits for an answer, if any does.
    pub(super) asks_for: Author,
    /// Whose words the offer is of that waits. One that was made elsewhere may be a model's.
    pub(super) offered_by: Author,
    /// When requests are taken to be said; absent: now.
    pub at: Option<Timestamp>,
    /// Whether what the rules propose is tried before it is shown. What is confirmed beforehand is not: nobody looks at it.
    pub tries: bool,
    /// What was said and came of it.
    pub(super) earlier: SessionHistory,
    /// Pictures that the next request comes with.
    pub(super) attached: Vec<(String, Bytes)>,
    /// A model's work that is over and not handed over yet.
    pub(super) unsettled: Option<TurnLog>,
    /// Absent where nothing can be kept.
    pub(super) trace: Option<Trace>,
    /// Absent where an offer waits as long as this does.
    pub(super) keeping: Option<ProposalStore>,
}

impl std::fmt::Debug for Session {
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

impl Session {
    /// An assistant that nothing was said to yet.
    ///
    /// # Errors
    /// Never with the lexicon of this build.
    pub fn new(parts: SessionDeps) -> Result<Self, Error> {
        let plain = Plain::new().map_err(|e| Error::new(ErrorKind::Failed, e.to_string()))?;
        let home = parts.home.as_ref().ok();
        Ok(Self {
            trace: home.map(|folder| Trace::new(folder, parts.channel.name())),
            parts,
            conversation: SessionState::default(),
            plain,
            by_model: false,
            asks_for: Author::Persons,
            offered_by: Author::Models,
            at: None,
            tries: true,
            earlier: SessionHistory::default(),
            attached: Vec::new(),
            unsettled: None,
            keeping: None,
        })
    }

    /// Has it keep its offers.
    #[must_use]
    pub fn keeping(mut self, keeping: ProposalStore) -> Self {
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
    pub async fn situation(&self) -> Result<SystemSnapshot, ClientError> {
        let here = situation(&self.parts.client, self.parts.preferred.clone()).await?;
        let now = match self.at {
            Some(at) => at.to_zoned(here.now.time_zone().clone()),
            None => here.now,
        };
        Ok(SystemSnapshot { now, ..here })
    }

    /// Hears a text in how things are now. Cameras of which no picture is known are looked at where the answer needs it; what the rules do not
    /// understand goes to a model, where one is configured.
    ///
    /// # Errors
    /// When the runtime does not answer, or pictures came with it and no model is there to look at them.
    pub async fn hear(&mut self, text: &str) -> Result<(Reply, SystemSnapshot), Error> {
        let text = &*without_secrets(text, &*self.parts.out);
        let mut here = self.situation().await?;
        self.note("request", || json!({"text": text}));
        self.by_model = false;
        let before = self.conversation.clone();
        // An answer to what a model put into other words is heard together with those.
        let mut whose = match before.question() {
            Some(_) => self.asks_for,
            None => Author::Persons,
        };
        let attached = std::mem::take(&mut self.attached);
        let mut by_model = None;
        if !attached.is_empty() {
            // No rule reads a picture.
            self.language()?;
            by_model = self.ask_model(text, attached, &mut here).await?;
            if by_model.is_none() {
                // What the rules make of the words alone is not what was asked. The pictures go with their words: kept, they would come with every later
                // text, and no rule would be heard any more.
                let sentence = "the pictures that came with it were not looked at and are put away; give them again when the model answers, or say it without them";
                return Err(Error::new(ErrorKind::Failed, sentence));
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
            partial => is_fresh && router::is_partial(partial),
        };
        if is_lost && !self.by_model {
            // While the model thinks nothing waits: whoever breaks it off is not left with an offer that they had spoken against.
            let asked = std::mem::take(&mut self.conversation);
            match self.ask_model(text, Vec::new(), &mut here).await {
                Ok(Some(by_model)) => {
                    self.by_model = true;
                    reply = by_model;
                }
                Ok(None) => self.conversation = asked,
                Err(failure) => {
                    // Nobody broke it off: what waited before waits on.
                    self.conversation = before;
                    return Err(failure);
                }
            }
        }
        if self.by_model {
            whose = Author::Models;
        }
        if let Reply::Offer(offer) = &reply {
            // Who corrects a model's words has still not said all of it.
            if !offer.corrections.is_empty() {
                whose = self.offered_by;
            }
            self.offered_by = whose;
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
    pub(super) async fn by_policy(
        &mut self,
        reply: Reply,
        whose: Author,
        waited: bool,
        here: SystemSnapshot,
    ) -> Result<(Reply, SystemSnapshot), Error> {
        let Reply::Offer(offer) = &reply else {
            return Ok((reply, here));
        };
        let permit = match self.parts.policy.decide(offer, whose) {
            ApprovalDecision::Confirmed(permit) => permit,
            ApprovalDecision::Asks(why) => {
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
                "request": offer.words(), "sentence": sentence,
            })
        });
        self.show_offer(offer, None, "");
        self.parts.out.tell(ProgressEvent::Confirmed(&permit));
        let now = match self.situation().await {
            Ok(now) => now,
            Err(error) => {
                // It was shown as confirmed and is kept nowhere: no later yes is to be about it.
                self.conversation = SessionState::default();
                return Err(error.into());
            }
        };
        let reply = self.conversation.permitted(&permit, &self.plain, &now);
        self.trace_reply(&reply);
        Ok((reply, now))
    }

    /// What the owner confirmed beforehand on this channel.
    #[must_use]
    pub fn policy(&self) -> &ApprovalRules {
        &self.parts.policy
    }

    /// Has what the rules propose tried. `before` is the conversation as it was when the text was said: whoever gives up meanwhile is left in it, since nobody
    /// was shown what it has come to.
    async fn try_out(&mut self, reply: &mut Reply, before: SessionState, here: &SystemSnapshot) {
        let (Reply::Offer(offer) | Reply::Anew(offer)) = reply else {
            return;
        };
        if !self.tries || offer.made.is_some() {
            return;
        }
        let after = std::mem::replace(&mut self.conversation, before);
        let home = self.parts.home.as_ref().ok();
        let (client, out) = (self.parts.client.clone(), Arc::clone(&self.parts.out));
        let trying = TrialRunner::new(client, home, here, self.trace.as_ref(), out);
        offer.tried = trying.run(offer).await;
        self.conversation = after;
        self.conversation.tried(&offer.tried);
    }

    /// What the rules make of a text: a person's own, or one that a model has put into other words.
    pub(super) async fn by_rules(
        &mut self,
        text: &str,
        here: &mut SystemSnapshot,
        reworded: bool,
    ) -> Result<Reply, Error> {
        let hear = |talk: &mut SessionState, plain: &Plain, here: &SystemSnapshot| match reworded {
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

    /// Keeps what was said and what came of it, for a later request that is about it.
    pub(super) fn keep_exchange(&mut self, text: &str, reply: &Reply) {
        if let Some(line) = self.earlier.add(text, reply) {
            self.note("summarised", || json!({"text": line}));
        }
    }

    /// Has the runtime open these cameras for a moment, which tells it the size of their pictures. One that shows nothing is told by its state.
    async fn see(&self, cameras: &[SourceId]) {
        let out = Arc::clone(&self.parts.out);
        out.tell(ProgressEvent::Busy(
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
        out.tell(ProgressEvent::Idle);
    }

    pub(super) fn trace_reply(&self, reply: &Reply) {
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
                self.note("look_up", || json!({"text": looked_up(&looked.look)}));
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
    pub(super) fn note(&self, what: &str, particulars: impl FnOnce() -> Value) {
        if let Some(trace) = &self.trace
            && let Err(error) = trace.note(Timestamp::now(), what, particulars())
        {
            tracing::debug!(%error, "the trace can't be written");
        }
    }

    pub(super) fn say(&self, note: &str) {
        self.parts.out.tell(ProgressEvent::Note(note));
    }

    /// Takes the picture in a file, which the next request is about.
    ///
    /// # Errors
    /// When it can't be read or taken.
    pub fn attach_file(&mut self, file: &Path) -> Result<(), Error> {
        let failed = |why: String| Error::input(format!("can't read {}: {why}", file.display()));
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
    pub fn attach(&mut self, name: &str, picture: Bytes) -> Result<(), Error> {
        if self.attached.len() >= MAX_ATTACHED {
            return Err(Error::input(format!(
                "a request comes with at most {MAX_ATTACHED} pictures"
            )));
        }
        let name = words(name);
        self.say(&format!("{name} goes with the request"));
        self.attached.push((name, picture));
        Ok(())
    }
}

/// Has the runtime open a camera for a moment.
async fn look_at(client: RuntimeClient, camera: SourceId) {
    if let Err(error) = client.source_frame(&camera).await {
        tracing::debug!(%camera, %error, "no picture came");
    }
}

/// What a person asked to see, for the trace.
const fn looked_up(look: &Look) -> &'static str {
    match look {
        Look::Cameras => "the cameras",
        Look::Pipelines(_) => "what runs",
        Look::Status(_) => "how things are",
        Look::Events(_) => "what happened",
        Look::Classes => "the classes",
        Look::Templates => "the templates",
        Look::Help => "what can be said",
    }
}
