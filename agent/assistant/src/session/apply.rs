//! Applies a confirmed proposal, one change after the other.
//!
//! Invariant: only these requests of a session change something, and only for a confirmed proposal.

use std::sync::Arc;

use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_memory::Memory;
use watchkeeper_memory::note::{Entry, Kind, Origin, Words};
use watchkeeper_plain::Change;

use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::active::save_current;
use crate::failure::Error;
use crate::lesson::mistake::RULES;
use crate::lesson::{ErrorClass, Lesson, Mistake, store};
use crate::proposal::checked_proposal::CheckedProposal;
use crate::proposal::difference::ProposalDiff;
use crate::redact;
use crate::setup_agent::kept_watch;
use crate::wording::{changed_pipeline, quoted};
use watchkeeper_client::clock::wall_now;

use watchkeeper_client::ClientError;

/// Returns advice for a request without an answer, whose effect is unknown.
fn outcome_advice(error: &ClientError, pipeline: &PipelineId) -> Option<String> {
    let is_open = matches!(
        error,
        ClientError::Broken { .. } | ClientError::Timeout { .. }
    );
    is_open.then(|| {
        format!(
            "it is unknown whether {pipeline} was changed: `watchkeeper pipelines` shows the current state; ask again if the change is missing"
        )
    })
}

impl Session {
    /// Records the confirmation, then applies the changes in order and stops at the first failure.
    ///
    /// # Errors
    /// If the confirmation can't be recorded; nothing is changed then. Otherwise with the failed
    /// change, and the changes made before it.
    pub async fn apply(&self, offer: &CheckedProposal) -> Result<(), Error> {
        self.record_confirmed(offer.to_json()).await?;
        let mut done = Vec::new();
        for (change, difference) in offer.proposal.changes.iter().zip(&offer.difference) {
            if !difference.has_effect() {
                continue;
            }
            let out = Arc::clone(&self.deps.out);
            out.report(ProgressEvent::Busy(&format!(
                "changing {}",
                difference.pipeline
            )));
            let outcome = self.execute_change(change, difference).await;
            out.report(ProgressEvent::Idle);
            match outcome {
                Ok(sentence) => done.push(sentence),
                Err(error) => {
                    let advice = outcome_advice(&error, change.pipeline());
                    let mut failure = Error::from(error);
                    failure.details.extend(advice);
                    let earlier = done
                        .iter()
                        .map(|sentence| format!("already done: {sentence}"));
                    failure.details.extend(earlier);
                    self.save_active().await;
                    let details = json!({"sentence": failure.to_string()});
                    self.audit_event("failed", details).await;
                    return Err(failure);
                }
            }
        }
        let details = json!({"sentence": done.join("; ")});
        self.audit_event("done", details).await;
        self.save_active().await;
        self.save_watch_note(offer).await;
        self.save_correction(offer).await;
        self.forget_undone(offer).await;
        Ok(())
    }

    /// Writes what was confirmed to the audit log: durable before anything is changed. A session
    /// without a folder for its state has no audit log, and says so.
    pub(super) async fn record_confirmed(&self, what: Value) -> Result<(), Error> {
        let Some(trace) = &self.trace else {
            self.report_note("no folder for the state is known: the audit log lacks this change");
            return Ok(());
        };
        let recorded = trace.note_in_background("confirmed", what).await;
        recorded.map_err(|error| {
            let sentence = format!(
                "nothing was changed: the confirmation cannot be written to the audit log in {}: \
                 {error}; free space there, or correct the permissions of the folder",
                trace.folder().display()
            );
            Error::failed(sentence)
        })
    }

    /// Converts a time of the request to wall-clock time. A request with another assumed time keeps
    /// its distance from now.
    fn to_wall_clock(&self, moment: &Zoned) -> Timestamp {
        let moment = moment.timestamp();
        let shifted = self.request_time.and_then(|at| {
            let from_then = moment.duration_since(at);
            Timestamp::now().checked_add(from_then).ok()
        });
        shifted.unwrap_or(moment)
    }

    async fn execute_change(
        &self,
        change: &Change,
        difference: &ProposalDiff,
    ) -> Result<String, ClientError> {
        let (client, out) = (&self.deps.client, &self.deps.out);
        let status = match change {
            Change::Deploy(spec) => client.create_pipeline(spec).await?,
            Change::Replace(spec) => client.put_pipeline(spec).await?,
            Change::Pause { pipeline, until } => {
                let until = until.as_ref().map(|until| self.to_wall_clock(until));
                client.pause_pipeline(pipeline, until).await?
            }
            Change::Resume(pipeline) => client.resume_pipeline(pipeline).await?,
            Change::Delete(pipeline) => {
                client.delete_pipeline(pipeline).await?;
                let sentence = format!("pipeline {pipeline} is deleted");
                out.report(ProgressEvent::Done(&sentence, json!({"removed": pipeline})));
                return Ok(sentence);
            }
        };
        let sentence = changed_pipeline(&status);
        let done = json!({"becomes": difference.becomes, "pipeline": redact::status(&status)});
        out.report(ProgressEvent::Done(&sentence, done));
        let notes = status
            .note
            .iter()
            .chain(status.warnings.iter().map(|w| &w.message));
        notes.for_each(|text| self.report_note(text));
        Ok(sentence)
    }

    /// Saves the running pipelines beside the notes. A failure is reported and undoes nothing.
    async fn save_active(&self) {
        let kept = match self.notes() {
            Ok(notes) => save_current(&self.deps.client, notes).await,
            Err(why) => Err(why),
        };
        if let Err(why) = kept {
            self.report_note(&format!(
                "the list of running pipelines was not saved: {why}"
            ));
        }
    }

    /// Saves a lesson if the user corrected the rules before the confirmation.
    async fn save_correction(&self, offer: &CheckedProposal) {
        if offer.corrections.is_empty() || offer.llm_proposal.is_some() {
            return;
        }
        let lesson = Lesson {
            request: offer.request.clone(),
            mistake: Mistake::new(RULES, ErrorClass::Corrected),
            camera: new_pipeline(offer).map(|spec| spec.source.clone()),
            why: format!("the user corrected it: {}", quoted(&offer.corrections)),
            worked: Some(offer.full_request()),
            said: None,
            times: 1,
        };
        let save = |memory: &mut Memory| store::save(memory, wall_now(), lesson);
        let saved = match self.notes() {
            Ok(notes) => notes.with(save).await.map(drop),
            Err(why) => Err(why),
        };
        if let Err(why) = saved {
            self.report_note(&format!("the correction was not noted: {why}"));
        }
    }

    /// Removes the lesson of a correction that this proposal undoes.
    async fn forget_undone(&self, offer: &CheckedProposal) {
        let undone = offer
            .llm_proposal
            .as_ref()
            .and_then(|made| made.undoes.clone());
        let (Some(undone), Ok(notes)) = (undone, self.notes()) else {
            return;
        };
        let forget = move |memory: &mut Memory| store::forget_correction(memory, &undone);
        if notes.exist()
            && let Err(why) = notes.with(forget).await
        {
            self.report_note(&format!("the undone correction was not forgotten: {why}"));
        }
    }

    async fn save_watch_note(&self, offer: &CheckedProposal) {
        // The box's own words are not a request by which an example could be found.
        if offer
            .llm_proposal
            .as_ref()
            .is_some_and(|made| !made.is_by_model())
        {
            return;
        }
        let Some(new) = new_pipeline(offer) else {
            return;
        };
        let Ok(words) = Words::new(&format!(
            "Asked for and confirmed: {}",
            offer.full_request()
        )) else {
            return;
        };
        let entry = Entry {
            camera: Some(new.source.clone()),
            tags: kept_watch::tags(new),
            ..Entry::new(Kind::Observation, Origin::Person, words)
        };
        if let Err(failure) = self.save_entry(entry).await {
            self.report_note(&format!("the watch runs, but no note was saved: {failure}"));
        }
    }
}

/// Returns the first new pipeline of a proposal.
pub(super) fn new_pipeline(offer: &CheckedProposal) -> Option<&PipelineSpec> {
    let mut changes = offer.proposal.changes.iter();
    changes.find_map(|change| match change {
        Change::Deploy(spec) => Some(&**spec),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use watchkeeper_contract::problem::{Problem, ProblemCode};

    use super::*;

    #[test]
    fn request_without_answer_has_advice() {
        let request = || "POST /v1/pipelines".to_owned();
        let broken = ClientError::Broken {
            request: request(),
            cause: "broken pipe".to_owned(),
        };
        let late = ClientError::Timeout {
            request: request(),
            after: Duration::from_secs(1),
        };
        let refusal = Problem::new(409, ProblemCode::Conflict, "there is one already");
        let refused = ClientError::Refused(Box::new(refusal));
        let gate = PipelineId::new("gate").unwrap_or_else(|e| panic!("{e}"));
        for open in [broken, late] {
            let advice = outcome_advice(&open, &gate).unwrap_or_default();
            assert!(
                advice.contains("unknown whether gate")
                    && advice.contains("`watchkeeper pipelines`"),
                "{advice}"
            );
        }
        assert_eq!(outcome_advice(&refused, &gate), None);
    }
}
