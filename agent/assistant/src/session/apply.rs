//! What was confirmed is carried out, one change after the other.
//!
//! Invariant: these are the only requests of the dialogue that change something, and an offer that a yes was said to is the only reason for one.

use std::sync::Arc;

use jiff::{Timestamp, Zoned};
use serde_json::json;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};
use watchkeeper_plain::Change;

use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::active::keep_current;
use crate::failure::Error;
use crate::proposal::difference::ProposalDiff;
use crate::proposal::offer::CheckedProposal;
use crate::redact;
use crate::wording::changed_pipeline;

use watchkeeper_client::ClientError;

/// What is to be done where a request went out and no answer came, so that nobody here knows whether it was done.
fn unknown(error: &ClientError, pipeline: &PipelineId) -> Option<String> {
    let is_open = matches!(
        error,
        ClientError::Broken { .. } | ClientError::Timeout { .. }
    );
    is_open.then(|| {
        format!(
            "it is not known whether {pipeline} was changed: `watchkeeper pipelines` shows what there is now; if it was not done, ask for it again"
        )
    })
}

impl Session {
    /// Carries out an offer, one change after the other. The first that fails ends it, and what was done before is told.
    ///
    /// # Errors
    /// With what failed, and what was done before it.
    pub async fn apply(&self, offer: &CheckedProposal) -> Result<(), Error> {
        let mut done = Vec::new();
        for (change, difference) in offer.proposal.changes.iter().zip(&offer.difference) {
            if !difference.acts() {
                continue;
            }
            let out = Arc::clone(&self.parts.out);
            out.tell(ProgressEvent::Busy(&format!(
                "changing {}",
                difference.pipeline
            )));
            let outcome = self.carry_out(change, difference).await;
            out.tell(ProgressEvent::Idle);
            match outcome {
                Ok(sentence) => done.push(sentence),
                Err(error) => {
                    let unknown = unknown(&error, change.pipeline());
                    let mut failure = Error::from(error);
                    failure.details.extend(unknown);
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
        difference: &ProposalDiff,
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
                out.tell(ProgressEvent::Done(&sentence, json!({"removed": pipeline})));
                return Ok(sentence);
            }
        };
        let sentence = changed_pipeline(&status);
        let done = json!({"becomes": difference.becomes, "pipeline": redact::status(&status)});
        out.tell(ProgressEvent::Done(&sentence, done));
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
    fn keep_watch(&self, offer: &CheckedProposal) {
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
        let Ok(words) = Words::new(&format!("Asked for and confirmed: {}", offer.words())) else {
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use watchkeeper_contract::problem::{Problem, ProblemCode};

    use super::*;

    #[test]
    fn where_no_answer_came_it_is_said_that_nobody_knows_and_where_to_look() {
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
            let told = unknown(&open, &gate).unwrap_or_default();
            assert!(
                told.contains("not known whether gate") && told.contains("`watchkeeper pipelines`"),
                "{told}"
            );
        }
        assert_eq!(unknown(&refused, &gate), None);
    }
}
