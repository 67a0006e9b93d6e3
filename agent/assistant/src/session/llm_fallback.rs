//! LLM fallback of a session: a rewording that the rules parse, or an answer or proposal by a
//! blueprint.
//!
//! Invariant: an LLM that fails costs its price and nothing else. The rules' reply remains, and the
//! user is informed.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use watchkeeper_llm::Client;
use watchkeeper_llm::picture::Detail;

use super::progress::ProgressEvent;
use super::rewording::{RewordFailure, RewordResult, reword};
use super::secrets::hide_secrets;
use super::setup_runner::{PREVIEWS_FOLDER, SetupRequest, SetupRunner};
use super::sub_agents::SubAgents;
use super::user_session::Session;
use crate::blueprint::store::BlueprintEntry;
use crate::blueprint::{BlueprintStore, Job};
use crate::failure::Error;
use crate::proposal::conversation::{Reply, SessionState};
use crate::proposal::llm_proposal::words;
use crate::proposal::snapshot::SystemSnapshot;
use crate::router::{self, ChosenBy, Route, RouteError};
use crate::setup_agent::tool_context::ToolContext;
use crate::setup_agent::turn_record::TurnEnd;

/// Result of [`Session::try_rewording`].
enum RewordOutcome {
    /// The rules understood the rewording.
    Replied(Reply),
    /// The LLM is not available.
    Failed,
    /// The blueprint that works on the text, and the reply for the case that it fails.
    Routed(Route, Option<Box<SpareReply>>),
}

/// A reply to a whole rewording of a text in another language.
struct SpareReply {
    rewording: RewordResult,
    reply: Reply,
    conversation: SessionState,
}

impl Session {
    /// The state folder of this session.
    pub(super) fn home(&self) -> Result<&Path, Error> {
        let home = self.deps.state_dir.as_deref();
        home.map_err(|why| Error::failed(why.clone()))
    }

    /// Tool context of this session's tools and trials.
    pub(super) fn tool_context(&self) -> ToolContext {
        let home = self.deps.state_dir.as_ref().ok();
        ToolContext {
            client: self.deps.client.clone(),
            preferred: self.deps.preferred_model.clone(),
            sees: None,
            detail: Detail::Medium,
            second_opinion: self.deps.second_opinion,
            memory: self.deps.notes.clone(),
            archive: self.archive.clone().map(|archive| archive as _),
            lookups: self.deps.lookups.clone(),
            pictures: home.map(|home| home.join(PREVIEWS_FOLDER)),
            attached: Vec::new(),
            earlier: Value::Null,
            at: self.request_time,
        }
    }

    pub(super) fn llm_client(&self) -> Result<Client, Error> {
        let open = self.deps.open_llm.as_ref().ok_or_else(|| {
            Error::input("no LLM is configured; add a section [llm] to the configuration")
        })?;
        open().map_err(Error::failed)
    }

    /// Asks an LLM about a text that the rules did not understand. It asks for a rewording that the
    /// rules parse, else for an answer or a proposal by a blueprint. `None` if the LLM failed; the
    /// user is then informed.
    pub(super) async fn ask_llm(
        &mut self,
        text: &str,
        attached: Vec<(String, Bytes)>,
        here: &mut SystemSnapshot,
    ) -> Result<Option<Reply>, Error> {
        if self.deps.open_llm.is_none() {
            return Ok(None);
        }
        let opened = match self.llm_client() {
            Ok(client) => self.list_blueprints().await.map(|all| (client, all)),
            Err(failure) => Err(failure),
        };
        let (client, blueprints) = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                self.report_llm_failure(&failure.sentence);
                return Ok(None);
            }
        };
        let chosen = self.blueprint.clone().filter(|_| attached.is_empty());
        let rewording = if let Some(name) = chosen {
            RewordOutcome::Routed(self.route_by_name(&name)?, None)
        } else if attached.is_empty() {
            self.try_rewording(&client, text, &blueprints, here).await?
        } else {
            self.routed(router::route_to_setup(&blueprints, ChosenBy::Pictures))
        };
        let (route, spare) = match rewording {
            RewordOutcome::Replied(reply) => return Ok(Some(reply)),
            RewordOutcome::Failed => return Ok(None),
            RewordOutcome::Routed(route, spare) => (route, spare),
        };
        match self.run_setup(&client, text, attached, route, here).await {
            Ok(reply) => Ok(Some(reply)),
            Err(why) => {
                self.report_llm_failure(&why);
                Ok(spare.map(|spare| {
                    let RewordResult {
                        reworded, model, ..
                    } = &spare.rewording;
                    self.report_note(&format!("{model} reworded it as {:?}", reworded.request));
                    self.conversation = spare.conversation;
                    spare.reply
                }))
            }
        }
    }

    /// Lets the LLM reword a text and the rules handle the rewording.
    async fn try_rewording(
        &mut self,
        client: &Client,
        text: &str,
        blueprints: &[BlueprintEntry],
        here: &mut SystemSnapshot,
    ) -> Result<RewordOutcome, Error> {
        let jobs = router::choices(blueprints);
        let (trace, scene) = (self.trace.as_ref(), here.scene(&here.now));
        let said = match reword(client, trace, text, &scene, &jobs).await {
            Ok(said) => said,
            Err(RewordFailure::Nothing(why)) => {
                self.trace_event("not_reworded", || json!({"sentence": why.to_string()}));
                let route = router::route_to_setup(blueprints, ChosenBy::Nobody);
                return Ok(self.routed(route));
            }
            Err(why @ (RewordFailure::Model(_) | RewordFailure::Talk(_))) => {
                self.report_llm_failure(&why.to_string());
                return Ok(RewordOutcome::Failed);
            }
        };
        let route = match router::route_by_model(&said.reworded.job, blueprints) {
            Ok(route) => route,
            refused => return Ok(self.routed(refused)),
        };
        if said.reworded.request.is_empty() {
            let sentence = "the LLM found no words that the rules understand";
            self.trace_event(
                "not_reworded",
                || json!({"sentence": sentence, "job": said.reworded.job}),
            );
            return Ok(RewordOutcome::Routed(route, None));
        }
        let before = self.conversation.clone();
        let rules = SessionState::handle_reworded;
        let reply = self
            .apply_rules(&said.reworded.request, here, rules)
            .await?;
        let job = route.blueprint.job;
        let is_complete = router::accepts_rewording(job, &said.reworded.left_out, &reply);
        // The rules answer in English only.
        let is_used = is_complete && said.reworded.is_english();
        self.report_rewording(&said, is_used);
        if is_used {
            return Ok(RewordOutcome::Replied(reply));
        }
        let conversation = std::mem::replace(&mut self.conversation, before);
        let spare = is_complete.then(|| {
            Box::new(SpareReply {
                rewording: said,
                reply,
                conversation,
            })
        });
        Ok(RewordOutcome::Routed(route, spare))
    }

    /// Informs the user if a route is refused.
    fn routed(&self, route: Result<Route, String>) -> RewordOutcome {
        match route {
            Ok(route) => RewordOutcome::Routed(route, None),
            Err(why) => {
                self.report_llm_failure(&why);
                RewordOutcome::Failed
            }
        }
    }

    /// Lets an LLM work on a request without the rules, by the named blueprint or the one for
    /// set-up.
    ///
    /// # Errors
    /// If the blueprint does not exist, or the runtime or the LLM fails.
    pub async fn think(
        &mut self,
        text: &str,
        blueprint: Option<&str>,
    ) -> Result<(Reply, SystemSnapshot), Error> {
        self.drop_actions().await;
        let text = &*hide_secrets(text, &*self.deps.out);
        let routed = match blueprint {
            Some(name) => self.route_by_name(name)?,
            None => {
                let routed =
                    router::route_to_setup(&self.list_blueprints().await?, ChosenBy::Person);
                routed.map_err(Error::failed)?
            }
        };
        let here = self.fetch_snapshot().await?;
        self.trace_event("request", || json!({"text": text, "think": true}));
        let client = self.llm_client()?;
        let before = self.conversation.clone();
        let attached = std::mem::take(&mut self.attached);
        let reply = self.run_setup(&client, text, attached, routed, &here).await;
        let reply = reply.map_err(Error::failed)?;
        self.is_llm_reply = true;
        self.finish_reply(text, reply, before, here).await
    }

    /// Informs the user that the rules answer alone, and why.
    pub(super) fn report_llm_failure(&self, why: &str) {
        self.trace_event("no_help", || json!({"sentence": why}));
        self.report_note(&format!(
            "The built-in rules answer, because the LLM does not: {why}. Cameras and watches continue."
        ));
    }

    fn report_rewording(&self, said: &RewordResult, is_used: bool) {
        let RewordResult {
            reworded,
            model,
            cost,
        } = said;
        self.trace_event(
            "reworded",
            || json!({"text": reworded.request, "left_out": reworded.left_out, "used": is_used}),
        );
        if is_used {
            self.report_note(&format!(
                "{model} reworded it as {:?} ({cost})",
                reworded.request
            ));
        }
    }

    /// Lists the blueprints. A damaged one is reported and disables no other.
    pub(super) async fn list_blueprints(&self) -> Result<Vec<BlueprintEntry>, Error> {
        let store = BlueprintStore::new(self.home()?);
        // Each file is read.
        let listed = tokio::task::spawn_blocking(move || store.list()).await;
        let (all, notes) = listed.map_err(|died| Error::failed(died.to_string()))??;
        notes.iter().for_each(|note| self.report_note(note));
        for trouble in all.iter().filter_map(BlueprintEntry::trouble) {
            self.trace_event("damaged_blueprint", || json!({"sentence": trouble}));
            self.report_note(&trouble);
        }
        Ok(all)
    }

    /// Returns the blueprint that a user named.
    pub(super) fn route_by_name(&self, name: &str) -> Result<Route, Error> {
        let home = self.home()?;
        let listed = BlueprintStore::new(home)
            .get(name)
            .map_err(RouteError::from);
        let routed = listed.and_then(router::route_by_user);
        routed.map_err(|why| Error::input(why.to_string()))
    }

    /// Lets an LLM work on a request by a blueprint.
    pub(super) async fn run_setup(
        &mut self,
        client: &Client,
        text: &str,
        attached: Vec<(String, Bytes)>,
        routed: Route,
        here: &SystemSnapshot,
    ) -> Result<Reply, String> {
        self.notes()?;
        let runner = SetupRunner {
            client,
            folder: self.deps.state_dir.clone()?,
            tools: self.tool_context(),
            trace: self.trace.as_ref(),
            out: Arc::clone(&self.deps.out),
        };
        let request = |routed, attached| SetupRequest {
            text,
            routed,
            permissions: self.deps.approval.permissions().clone(),
            attached,
            earlier: self.history.to_json(),
        };
        let agents = SubAgents {
            runner: &runner,
            permissions: self.deps.approval.permissions().clone(),
        };
        let is_question = routed.blueprint.job == Job::Question;
        let first = request(routed, attached.clone());
        let (mut end, mut turn_log) = runner.run(first, &agents).await?;
        if end == TurnEnd::HandOver {
            turn_log.remove();
            self.report_note("this needs a set-up, which takes over");
            let listed = self.list_blueprints().await;
            let blueprints = listed.map_err(|failure| failure.sentence)?;
            let routed = router::route_to_setup(&blueprints, ChosenBy::HandOver)?;
            (end, turn_log) = runner.run(request(routed, attached), &agents).await?;
        }
        let model = turn_log.turn.model().to_owned();
        let is_checked = turn_log.turn.facts().past().next().is_some();
        self.finished_turn = Some(turn_log);
        match end {
            // No set-up has a tool that hands over.
            TurnEnd::HandOver => Err("the set-up handed the request over to itself".to_owned()),
            TurnEnd::Answer { text } => {
                if is_question && !is_checked {
                    self.report_note("no watch was changed, and no events were searched");
                }
                Ok(self.conversation.answer(text, true))
            }
            TurnEnd::NoResult { why } => Err(why),
            TurnEnd::Actions {
                actions,
                text: said,
            } => {
                self.report_comment(&model, &said);
                Ok(Reply::Actions(actions, model))
            }
            TurnEnd::Proposal {
                proposal: made,
                text: said,
            } => {
                self.report_comment(&made.model, &said);
                // The state may have changed while the LLM worked.
                let now = self.fetch_snapshot().await.unwrap_or_else(|_| here.clone());
                Ok(self.conversation.propose_by_llm(text, *made, &now))
            }
        }
    }

    /// Reports the text of a model with its proposal.
    fn report_comment(&self, model: &str, said: &str) {
        if !said.is_empty() {
            let line = format!("{} says: {}", words(model), words(said));
            let out = &self.deps.out;
            out.report(ProgressEvent::LlmComment(&line, said));
        }
    }

    /// Deletes the log of a finished turn once its result is delivered: the turn is never resumed.
    pub fn settle(&mut self) {
        if let Some(turn_log) = self.finished_turn.take() {
            turn_log.remove();
        }
    }
}
