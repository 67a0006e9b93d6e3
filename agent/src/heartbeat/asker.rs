//! Asks the language model once about findings, and writes the findings to the notes.
//!
//! An error becomes one sentence in the trace; the findings are reported without a remark.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use watchkeeper_contract::id::SourceId;
use watchkeeper_llm::JobSpec;
use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::picture::Detail;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};
use watchkeeper_memory::{Memory, Note, Query};

use super::finding::Finding;
use super::input::{Budget, CheckInput};
use super::prompt;
use crate::background::blocking;
use crate::model_access::ModelAccess;
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::clock::wall_now;

/// Timeout of the only call; the report of the findings waits for it.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Tag of its notes.
const TAG: &str = "heartbeat";
/// Age of the oldest observation that the model sees.
const OBSERVED_SPAN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Dependencies of a heartbeat: language model, trace and notes.
#[derive(Debug)]
pub struct Asker {
    /// Absent if no model is configured.
    pub model: Option<ModelAccess>,
    pub trace: Trace,
    pub notes: Notes,
}

/// Remark of the language model on the findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    pub words: String,
    pub model: String,
}

impl Asker {
    /// Returns the spending; `None` without a model or a readable ledger.
    pub async fn budget(self: Arc<Self>) -> Option<Budget> {
        let report = self.model.as_ref()?.client().await.ok()?.report();
        Some(Budget {
            day: report.day,
            day_limit: report.limits.day,
            month: report.month,
            month_limit: report.limits.month,
        })
    }

    /// Asks the model for a remark on `found`, within its budget; writes findings and remark to
    /// trace and notes.
    pub async fn add(self: Arc<Self>, found: Vec<Finding>, mut input: CheckInput) -> Option<Added> {
        let sentences: Vec<String> = found.iter().map(Finding::sentence).collect();
        let (trace, details) = (
            &self.trace,
            json!({"sentence": sentences.join("; "), "findings": found}),
        );
        trace.note_or_log_in_background("heartbeat", details).await;
        let added = match &self.model {
            None => None,
            Some(model) => match self.ask(model, &found, &mut input).await {
                Ok(added) => added,
                Err(why) => {
                    let details = json!({"sentence": why});
                    trace.note_or_log_in_background("no_help", details).await;
                    None
                }
            },
        };
        let (asker, noted) = (Arc::clone(&self), added.clone());
        // A panic costs the notes, not the report.
        let kept = blocking(move || asker.keep(&found, noted.as_ref()));
        if let Err(why) = kept.await.flatten() {
            tracing::warn!(why, "heartbeat: can't write the findings to the notes");
        }
        added
    }

    /// Reads the latest observations of the cameras with findings. An error costs only them.
    async fn observations(self: Arc<Self>, found: &[Finding]) -> Vec<Note> {
        let cameras = found.iter().filter_map(Finding::camera).cloned();
        let cameras: BTreeSet<SourceId> = cameras.collect();
        let read = move || -> Result<Vec<Note>, String> {
            if !self.notes.exist() {
                return Ok(Vec::new());
            }
            let mut memory = self.notes.open()?;
            let mut notes = Vec::new();
            for camera in cameras.into_iter().take(prompt::MAX_OBSERVATIONS) {
                let query = Query {
                    camera: Some(camera),
                    kinds: vec![Kind::Observation],
                    since: Timestamp::now().checked_sub(OBSERVED_SPAN).ok(),
                    limit: prompt::MAX_OBSERVATIONS,
                    ..Query::new("")
                };
                let found = memory.list(&query).map_err(|e| e.to_string())?;
                notes.extend(found.into_iter().map(|found| found.note));
            }
            notes.sort_by_key(|note| std::cmp::Reverse(note.at));
            Ok(notes)
        };
        blocking(read).await.flatten().unwrap_or_else(|why| {
            tracing::warn!(why, "heartbeat: can't read the observations of cameras");
            Vec::new()
        })
    }

    async fn ask(
        self: &Arc<Self>,
        model: &ModelAccess,
        found: &[Finding],
        input: &mut CheckInput,
    ) -> Result<Option<Added>, String> {
        let client = model.client().await?;
        input.observations = Arc::clone(self).observations(found).await;
        let conversation = prompt::build_conversation(found, input)?;
        let mut job = client.start_job(JobSpec {
            name: format!("heartbeat/{}", ulid::Ulid::new()),
            class: CallClass::Heartbeat,
            rule: None,
            tier: Tier::Small,
            detail: Detail::Low,
            time: CALL_TIMEOUT,
        });
        let (options, details) = (prompt::call_options(), json!({"job": "heartbeat"}));
        let asking = model.ask(&mut job, &conversation, &options, details);
        let reply = asking.await.map_err(|error| error.to_string())?;
        let words = prompt::parse_answer(&reply.text()).map_err(|error| error.to_string())?;
        let model = job.model().id.clone();
        Ok(words.map(|words| Added { words, model }))
    }

    fn keep(&self, found: &[Finding], added: Option<&Added>) -> Result<(), String> {
        let mut memory = self.notes.open()?;
        for finding in found {
            let camera = finding.camera().cloned();
            remember(&mut memory, TAG, camera, Origin::Agent, &finding.sentence())?;
        }
        if let Some(added) = added {
            // The conversation contained names that users gave, so the words are not the agent's
            // own.
            remember(&mut memory, TAG, None, Origin::Camera, &added.words)?;
        }
        Ok(())
    }
}

/// Writes an observation to the notes, tagged with what made it.
///
/// # Errors
/// A sentence, if the text can't be a note or the notes can't be written.
pub(super) fn remember(
    memory: &mut Memory,
    tag: &str,
    camera: Option<SourceId>,
    origin: Origin,
    text: &str,
) -> Result<(), String> {
    let words = Words::new(text).map_err(|e| e.to_string())?;
    let entry = Entry {
        camera,
        tags: Tag::new(tag).into_iter().collect(),
        ..Entry::new(Kind::Observation, origin, words)
    };
    let kept = memory.remember(wall_now(), entry);
    kept.map(drop).map_err(|e| e.to_string())
}
