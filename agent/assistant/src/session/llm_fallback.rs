//! What a model makes of what the rules did not understand: other words, which the rules read, or a proposal of its own.
//!
//! Invariant: a model that is no help costs its price and nothing else; the rules go on alone, and it is told why.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use watchkeeper_llm::Client;

use super::progress::ProgressEvent;
use super::rewording::{RewordFailure, RewordResult, reword};
use super::secrets::without_secrets;
use super::setup_runner::{SetupRequest, SetupRunner};
use super::user_session::Session;
use crate::blueprint::store::BlueprintEntry;
use crate::blueprint::{BlueprintError, BlueprintStore, Job, error};
use crate::failure::{Error, ErrorKind};
use crate::proposal::auto_approval::Author;
use crate::proposal::conversation::Reply;
use crate::proposal::llm_proposal::words;
use crate::proposal::snapshot::SystemSnapshot;
use crate::router::{self, ChosenBy, Route, RouteError};
use crate::setup_agent::turn::TurnEnd;
use crate::wording::quoted;

impl Session {
    /// The way to the model.
    pub(super) fn language(&self) -> Result<Client, Error> {
        let open = self.parts.model.as_ref().ok_or_else(|| {
            Error::input("no model of language is configured: the section [llm] of the configuration names one")
        })?;
        open().map_err(|why| Error::new(ErrorKind::Failed, why))
    }

    /// What a model makes of what the rules did not understand: other words, which the rules read, or a proposal of its own. `None`: it was no help,
    /// which is told.
    pub(super) async fn ask_model(
        &mut self,
        text: &str,
        attached: Vec<(String, Bytes)>,
        here: &mut SystemSnapshot,
    ) -> Result<Option<Reply>, Error> {
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
        let mut routed = router::set_up(&shelf, ChosenBy::Pictures).map_err(at_fault)?;
        if attached.is_empty() {
            let jobs = router::choices(&shelf);
            routed.by = ChosenBy::Nobody;
            match reword(&client, text, &here.scene(&here.now), &jobs).await {
                Ok(said) if said.reworded.request.is_empty() => {
                    routed = router::chosen(&said.reworded.job, &shelf).map_err(at_fault)?;
                    self.note("not_reworded", || {
                        json!({
                            "sentence": "the model has no words for it that the rules understand", "model": said.model,
                            "usd": said.cost.dollars(), "job": said.reworded.job,
                        })
                    });
                }
                Ok(said) => {
                    routed = router::chosen(&said.reworded.job, &shelf).map_err(at_fault)?;
                    let before = self.conversation.clone();
                    let reply = self.by_rules(&said.reworded.request, here, true).await?;
                    let left_out = &said.reworded.left_out;
                    let is_whole = router::takes(routed.blueprint.job, left_out, &reply);
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
                Err(RewordFailure::Nothing(why)) => {
                    self.note("not_reworded", || json!({"sentence": why.to_string()}));
                }
                Err(why @ (RewordFailure::Model(_) | RewordFailure::Talk(_))) => {
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

    /// Has a model work on a request without asking the rules: by the blueprint of this name, else by that of the set-up.
    ///
    /// # Errors
    /// When there is no such blueprint, or the runtime or the model is no help.
    pub async fn think(
        &mut self,
        text: &str,
        blueprint: Option<&str>,
    ) -> Result<(Reply, SystemSnapshot), Error> {
        let text = &*without_secrets(text, &*self.parts.out);
        let routed = match blueprint {
            Some(name) => self.named(name)?,
            None => {
                let shelf = self.shelf();
                router::set_up(&shelf, ChosenBy::Person).map_err(at_fault)?
            }
        };
        let here = self.situation().await?;
        self.note("request", || json!({"text": text, "think": true}));
        let client = self.language()?;
        let attached = std::mem::take(&mut self.attached);
        let reply = self.work(&client, text, attached, routed, &here).await;
        let reply = reply.map_err(|why| Error::new(ErrorKind::Failed, why))?;
        self.by_model = true;
        (self.asks_for, self.offered_by) = (Author::Models, Author::Models);
        self.trace_reply(&reply);
        let (reply, here) = self.by_policy(reply, Author::Models, false, here).await?;
        self.keep_exchange(text, &reply);
        Ok((reply, here))
    }

    /// Tells that the rules go on alone, and why.
    pub(super) fn no_help(&self, why: &str) {
        self.note("no_help", || json!({"sentence": why}));
        self.say(&format!(
            "I go by my own rules, because the model of language was no help: {why}"
        ));
    }

    fn tell_reworded(&self, said: &RewordResult, is_whole: bool) {
        let RewordResult {
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

    fn tell_left_out(&self, said: &RewordResult) {
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
    pub(super) fn shelf(&self) -> Vec<BlueprintEntry> {
        let Ok(home) = &self.parts.home else {
            return BlueprintStore::built_in();
        };
        match BlueprintStore::of(home).list() {
            Ok((all, notes)) => {
                notes.iter().for_each(|note| self.say(note));
                for trouble in all.iter().filter_map(BlueprintEntry::trouble) {
                    self.note("damaged_blueprint", || json!({"sentence": trouble}));
                    self.say(&trouble);
                }
                all
            }
            Err(error) => {
                self.say(&format!("{error}; the built-in blueprints serve"));
                BlueprintStore::built_in()
            }
        }
    }

    /// The blueprint that a person named.
    pub(super) fn named(&self, name: &str) -> Result<Route, Error> {
        let home = self.parts.home.as_ref();
        let home = home.map_err(|why| Error::new(ErrorKind::Failed, why.clone()))?;
        let listed = BlueprintStore::of(home).get(name).map_err(RouteError::from);
        let routed = listed.and_then(router::named);
        routed.map_err(|why| Error::input(why.to_string()))
    }

    /// Has a model work on a request by a blueprint.
    pub(super) async fn work(
        &mut self,
        client: &Client,
        text: &str,
        attached: Vec<(String, Bytes)>,
        routed: Route,
        here: &SystemSnapshot,
    ) -> Result<Reply, String> {
        let working = SetupRunner {
            client,
            runtime: &self.parts.client,
            preferred: self.parts.preferred.clone(),
            folder: self.parts.home.clone()?,
            notes: self.notes()?.clone(),
            at: self.at,
            trace: self.trace.as_ref(),
            out: Arc::clone(&self.parts.out),
        };
        let request = SetupRequest {
            text,
            routed,
            gate: self.parts.policy.gate().clone(),
            attached,
            earlier: self.earlier.told(),
        };
        let (end, ahead) = working.run(request).await?;
        self.unsettled = Some(ahead);
        match end {
            TurnEnd::Answer { text } => Ok(self.conversation.answer(text)),
            TurnEnd::Nothing { why } => Err(why),
            TurnEnd::Proposal { made, text: said } => {
                if !said.is_empty() {
                    let line = format!("{} says: {}", made.model, words(&said));
                    self.parts.out.tell(ProgressEvent::Said(&line, &said));
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
}

/// A blueprint of this build that can't be read.
fn at_fault(flaws: Vec<BlueprintError>) -> Error {
    Error::new(ErrorKind::Failed, error::sentence(&flaws))
}
