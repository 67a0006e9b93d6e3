//! Delivers replies, and stores a proposal before it is shown.
//!
//! Invariant: with a proposal store, a waiting proposal is on disk before it is shown, and deleted
//! before it is applied.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceState;
use watchkeeper_models::{PREFERRED, Zoo};
use watchkeeper_plain::answer::{EventsWanted, Look, Looked, Unknown};
use watchkeeper_plain::{Missing, Question};

use super::progress::{ProgressEvent, ProgressSink};
use super::user_session::Session;
use crate::failure::Error;
use crate::past;
use crate::permissions::Entrypoint;
use crate::proposal::checked_proposal::CheckedProposal;
use crate::proposal::conversation::{Reply, ShownProposal};
use crate::proposal::counts::format_line_counters;
use crate::proposal::pending::{PendingError, PendingProposals};
use crate::proposal::snapshot::{DETECTION, SystemSnapshot};
use crate::wording::quoted;

/// Task of the models that compare a picture with words.
const COMPARES_WITH_WORDS: &str = "image-text-embedding";

/// A stored proposal, removed again if the session ends before it knows the id.
struct UnclaimedProposal {
    all: PendingProposals,
    socket: PathBuf,
    id: Option<String>,
}

impl Drop for UnclaimedProposal {
    fn drop(&mut self) {
        if let Some(id) = &self.id
            && let Err(error) = self.all.take(id, &self.socket, Timestamp::now())
        {
            tracing::warn!(%error, "cannot delete a proposal that was never shown");
        }
    }
}

impl Session {
    /// Shows a proposal. `hint` says how to confirm it.
    pub fn show_proposal(&self, offer: &CheckedProposal, id: Option<&str>, hint: &str) {
        self.deps
            .out
            .report(ProgressEvent::Proposal(offer, id, hint));
    }

    /// Delivers a reply and applies a confirmed proposal. `before` is the proposal that waited
    /// before the text.
    ///
    /// # Errors
    /// If the request failed or could not be applied.
    pub async fn deliver(
        &mut self,
        before: Option<&ShownProposal>,
        reply: Reply,
        here: &SystemSnapshot,
    ) -> Result<(), Error> {
        // Actions were dropped before the text was handled.
        let before = before.filter(|shown| shown.changes().is_some());
        let shown = self.conversation.shown();
        let (waits, is_another) = (shown.is_some(), shown != before);
        let taken = match reply {
            _ if !is_another => Ok(()),
            Reply::Apply(_) => self.take_pending().await,
            _ => self.drop_pending().await,
        };
        if let Err(error) = taken {
            // What could not be deleted still waits, so that the answer can be repeated.
            self.restore_waiting(before);
            return Err(error.into());
        }
        if before.is_some() && is_another && drops_previous(&reply) {
            self.report_note("the previous proposal is dropped");
        }
        let out = Arc::clone(&self.deps.out);
        match reply {
            Reply::Proposal(offer) => self.store_and_show(&offer, here).await,
            Reply::ChangedProposal(offer) => {
                self.report_note("the system changed or the proposal expired: nothing was done, here is the new proposal");
                self.store_and_show(&offer, here).await
            }
            Reply::Apply(offer) => self.apply(&offer).await,
            Reply::Invalid(offer, why) => {
                self.show_proposal(&offer, None, "");
                Err(Error::input(format!("This cannot be confirmed: {why}.")))
            }
            Reply::Look(looked) => {
                self.answer_look(&looked, here).await?;
                if waits {
                    out.report(ProgressEvent::StillPending);
                }
                Ok(())
            }
            Reply::Remember(kind, words) => self.save_note(kind, &words).await,
            Reply::Ask(question) => {
                out.report(ProgressEvent::Question(&question, here));
                Ok(())
            }
            Reply::Answer { text, is_by_model } => {
                out.report(ProgressEvent::of_answer(&text, is_by_model));
                Ok(())
            }
            Reply::Actions(actions, model) => self.offer_actions(actions, Some(&model)).await,
            Reply::Unknown(unknown) => Err(Self::unknown_error(&unknown, here)),
            Reply::TooLong(error) => {
                if waits {
                    out.report(ProgressEvent::StillPending);
                }
                Err(Error::input(error.to_string()))
            }
            Reply::Dropped => {
                out.report(ProgressEvent::Dropped);
                Ok(())
            }
            Reply::NothingPending => Err(Error::input(
                "Nothing waits for a yes or a no. Ask for a watch or for information; /help shows examples.",
            )),
            Reply::Empty | Reply::ProbeCameras(_) => Ok(()),
        }
    }

    /// Deletes a proposal that was just confirmed. A missing one was confirmed elsewhere.
    ///
    /// # Errors
    /// If it could not be deleted, it keeps its id and still waits.
    pub(super) async fn take_pending(&mut self) -> Result<(), PendingError> {
        let socket = self.deps.client.socket().to_path_buf();
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let Some(id) = store.id.take() else {
            return Ok(());
        };
        let wanted = id.clone();
        let take = move |all: &PendingProposals| all.take(&wanted, &socket, Timestamp::now());
        let taken = store.pending.in_background(take).await;
        if let Err(PendingError::Io { .. }) = taken {
            store.id = Some(id);
        }
        taken.map(drop)
    }

    /// Deletes a stored proposal that is dropped. It may have expired.
    ///
    /// # Errors
    /// If it could not be deleted, it keeps its id and still waits.
    pub(super) async fn drop_pending(&mut self) -> Result<(), PendingError> {
        match self.take_pending().await {
            Err(PendingError::Unknown { .. }) => Ok(()),
            dropped => dropped,
        }
    }

    /// Stores what is shown, where proposals are stored.
    pub(super) async fn keep_pending(
        &mut self,
        shown: ShownProposal,
        now: Timestamp,
    ) -> Result<(), PendingError> {
        let socket = self.deps.client.socket().to_path_buf();
        if let Some(store) = &mut self.store {
            let by = store.requester.clone();
            let keep = move |all: &PendingProposals| {
                let id = Some(all.keep(&socket, &shown, by, now)?);
                let all = all.clone();
                Ok(UnclaimedProposal { all, socket, id })
            };
            store.id = store.pending.in_background(keep).await?.id.take();
        }
        Ok(())
    }

    async fn store_and_show(
        &mut self,
        offer: &CheckedProposal,
        here: &SystemSnapshot,
    ) -> Result<(), Error> {
        if let Some(shown) = self.conversation.shown().cloned() {
            let kept = self.keep_pending(shown, here.now.timestamp()).await;
            // A proposal that could not be stored is not shown, so no yes can concern it.
            kept.inspect_err(|_| self.conversation.drop_waiting())?;
        }
        self.show_proposal(offer, self.pending_id(), "Apply? yes or no");
        Ok(())
    }

    /// Returns a question with its choices, or with the reason why a frame is missing.
    pub fn question_error(question: &Question, here: &SystemSnapshot) -> Error {
        let mut details = Vec::new();
        if !question.choices.is_empty() {
            details.push(format!("choices: {}", question.choices.join(", ")));
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
        Error::input(&question.text).with(details)
    }

    /// Returns the error for a text that was not understood.
    pub fn unknown_error(unknown: &Unknown, here: &SystemSnapshot) -> Error {
        let words = &unknown.not_understood;
        let details = (!words.is_empty()).then(|| format!("not understood: {}", quoted(words)));
        let remedy = (!unknown.unseen.is_empty()).then(|| what_knows(&unknown.unseen, here));
        Error::input(&unknown.text).with(details.into_iter().chain(remedy))
    }

    /// Looks something up and reports it.
    ///
    /// # Errors
    /// If the runtime does not answer.
    pub async fn answer_look(&self, looked: &Looked, here: &SystemSnapshot) -> Result<(), Error> {
        let out = Arc::clone(&self.deps.out);
        match &looked.look {
            Look::Cameras => out.report(ProgressEvent::Cameras(&here.sources)),
            Look::Pipelines(only) => {
                let is_asked = |p: &&PipelineStatus| {
                    only.as_ref().is_none_or(|only| only.contains(&p.spec.id))
                };
                let asked = here.pipelines.iter().filter(is_asked);
                let asked: Vec<_> = asked.cloned().collect();
                // The table has neither the yes or no nor the end of a pause.
                if only.is_some() && !asked.is_empty() {
                    out.report(ProgressEvent::Text(&looked.text));
                }
                out.report(ProgressEvent::Pipelines(&asked, &looked.text));
            }
            Look::Coverage(wanted) => {
                let answer = past::answer_span(&self.deps.client, wanted).await?;
                let said = answer.coverage_sentence(&TimeZone::system());
                out.report(ProgressEvent::Text(&format!("{} {said}", looked.text)));
            }
            Look::Notes(words) => {
                let found = self.search_memory(words).await?;
                out.report(ProgressEvent::Notes(&found));
            }
            Look::Cost => self.report_cost(),
            Look::Status(camera) => {
                report_status(out.as_ref(), camera.as_ref(), &looked.text, here);
            }
            Look::Events(wanted) => self.answer_events(wanted, &looked.text, here).await?,
            Look::Classes => {
                let text = format!("{} {}", looked.text, by_words(here));
                out.report(ProgressEvent::Text(&text));
            }
            Look::Help => out.report(ProgressEvent::Text(&looked.text)),
        }
        Ok(())
    }

    /// Answers a question about events, after what was `understood`.
    async fn answer_events(
        &self,
        wanted: &EventsWanted,
        understood: &str,
        here: &SystemSnapshot,
    ) -> Result<(), Error> {
        let may_replay = self.deps.entrypoint != Entrypoint::Remote;
        let out = &self.deps.out;
        out.report(ProgressEvent::Busy(
            "searching the journal and its coverage",
        ));
        let answer = past::answer(&self.deps.client, wanted, may_replay).await;
        out.report(ProgressEvent::Idle);
        let answer = answer?;
        let counters = format_line_counters(wanted, &here.pipelines).unwrap_or_default();
        let understood = format!("{understood} {counters}");
        out.report(ProgressEvent::Events(&answer, understood.trim()));
        // The API's answer has the media ids, and there is no user's folder.
        if wanted.pictures && !self.deps.entrypoint.is_api() {
            self.show_pictures(&answer.found.events).await;
        }
        Ok(())
    }
}

/// Whether a reply leaves the proposal that waited before, and makes no new one: a correction
/// changes that proposal.
fn drops_previous(reply: &Reply) -> bool {
    match reply {
        Reply::Apply(_) | Reply::Dropped | Reply::ChangedProposal(_) => false,
        Reply::Proposal(offer) => offer.corrections.is_empty(),
        _ => true,
    }
}

/// Reports the status of one camera or of the box, and what its counts leave out.
fn report_status(
    out: &dyn ProgressSink,
    camera: Option<&SourceId>,
    limits: &str,
    here: &SystemSnapshot,
) {
    match camera {
        None => out.report(ProgressEvent::Status(here)),
        Some(camera) => {
            let sources = here.sources.iter().filter(|s| s.spec.id == *camera);
            let sources: Vec<_> = sources.cloned().collect();
            let on_it = here.pipelines.iter().filter(|p| p.spec.source == *camera);
            let on_it: Vec<_> = on_it.cloned().collect();
            out.report(ProgressEvent::Camera(&sources, camera.as_str(), &on_it));
        }
    }
    if !limits.is_empty() {
        out.report(ProgressEvent::Note(limits));
    }
}

/// Suggestion of a model for something that no model here knows. It is an absent detector with one
/// of the classes, else a model that compares pictures with words.
fn what_knows(classes: &[String], here: &SystemSnapshot) -> String {
    let knows = |model: &&ModelInfo| {
        model.state == ModelState::Absent
            && model.task == DETECTION
            && model.labels.iter().any(|label| classes.contains(label))
    };
    let mut absent = here.models.iter().filter(knows);
    let preferred = absent
        .clone()
        .find(|model| PREFERRED.contains(&model.name.as_str()));
    match preferred.or_else(|| absent.next()) {
        Some(model) => format!(
            "A model that knows it: {}.",
            Zoo::builtin().absence(&model.name)
        ),
        None => by_words(here),
    }
}

/// Suggestion of a model that compares pictures with words, or of how to install one.
fn by_words(here: &SystemSnapshot) -> String {
    let mut present = here.present_models();
    match present.find(|model| model.task == COMPARES_WITH_WORDS) {
        Some(model) => format!(
            "For anything else {} compares a picture with words; a language model (`[llm]`) can \
             propose such a watch.",
            model.name
        ),
        None => format!(
            "What no model has as a class takes one that compares pictures with words, and {}.",
            Zoo::builtin().absence("clip-vit-b-32")
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
