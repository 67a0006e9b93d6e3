//! Looks at frames: fetches each, asks the small model, and keeps what it reports.
//!
//! Invariants:
//! - The frame is one that the runtime serves, after the camera's privacy mask.
//! - A refusal by the budget ends the looks of this check.
//! - Every error becomes one sentence in the trace, and stops nothing.

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::DateTime;
use serde_json::json;
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::id::SourceId;
use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{Client, JobSpec};
use watchkeeper_memory::note::Origin;

use super::asker::{Asker, remember};
use super::look::{self, FrameReport};
use crate::background::blocking;
use crate::model_access::{ModelAccess, prepare_for};

/// Timeout of the call about one frame.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a frame was not looked at.
enum LookError {
    /// The budget or the model refuses every further frame.
    Refused(String),
    Failed(String),
}

impl Asker {
    /// Looks at a frame of each camera. Returns the last camera that had its turn.
    pub async fn look(
        self: Arc<Self>,
        runtime: RuntimeClient,
        cameras: Vec<SourceId>,
        local: Option<DateTime>,
    ) -> Option<SourceId> {
        let (model, trace) = (self.model.as_ref()?, &self.trace);
        let client = match model.client().await {
            Ok(client) => client,
            Err(why) => {
                let details = json!({"sentence": why});
                trace.note_or_log_in_background("no_look", details).await;
                return None;
            }
        };
        let mut last = None;
        for camera in cameras {
            let view = View {
                model,
                client: &client,
                runtime: &runtime,
                local,
            };
            let seen = view.look_at(&camera).await;
            let is_refused = matches!(seen, Err(LookError::Refused(_)));
            match seen {
                Ok(seen) => Arc::clone(&self).keep_seen(camera.clone(), seen).await,
                Err(LookError::Failed(why) | LookError::Refused(why)) => {
                    let details = json!({"camera": camera, "sentence": why});
                    trace.note_or_log_in_background("no_look", details).await;
                }
            }
            if is_refused {
                break;
            }
            last = Some(camera);
        }
        last
    }

    /// Writes what was seen to the trace and the notes.
    async fn keep_seen(self: Arc<Self>, camera: SourceId, seen: FrameReport) {
        let (origin, text) = match seen {
            FrameReport::Nothing => return,
            FrameReport::Words(words) => (Origin::Camera, words),
            FrameReport::Suspect => {
                let text = "a text in the picture may address a language model; what the model \
                            said about the frame was left out";
                (Origin::Agent, text.to_owned())
            }
        };
        let details = json!({"camera": camera, "text": text});
        self.trace.note_or_log_in_background("seen", details).await;
        let asker = Arc::clone(&self);
        let kept = blocking(move || {
            let mut memory = asker.notes.open()?;
            remember(&mut memory, "look", Some(camera), origin, &text)
        });
        if let Err(why) = kept.await.flatten() {
            tracing::warn!(why, "heartbeat: can't write an observation to the notes");
        }
    }
}

/// Data that the looks of one check share.
struct View<'v> {
    model: &'v ModelAccess,
    client: &'v Client,
    runtime: &'v RuntimeClient,
    local: Option<DateTime>,
}

impl View<'_> {
    async fn look_at(&self, camera: &SourceId) -> Result<FrameReport, LookError> {
        let mut job = self.client.start_job(JobSpec {
            name: format!("look/{}", ulid::Ulid::new()),
            class: CallClass::Look,
            rule: None,
            tier: Tier::Small,
            detail: Detail::Low,
            time: CALL_TIMEOUT,
        });
        if job.model().image_tier.is_none() {
            let model = &job.model().id;
            let why = format!("the model {model} accepts no pictures; no frame is looked at");
            return Err(LookError::Refused(why));
        }
        let frame = self.runtime.source_frame(camera).await;
        let frame = frame.map_err(|e| LookError::Failed(format!("no frame: {e}")))?;
        let picture = prepare_for(&job, frame).await.map_err(LookError::Failed)?;
        let conversation = look::build_conversation(camera, picture, self.local);
        let conversation = conversation.map_err(LookError::Failed)?;
        let (options, details) = (
            look::call_options(),
            json!({"job": "look", "camera": camera}),
        );
        let asking = self.model.ask(&mut job, &conversation, &options, details);
        let reply = asking.await.map_err(|error| match error {
            LlmError::Budget(_) => LookError::Refused(error.to_string()),
            other => LookError::Failed(other.to_string()),
        })?;
        look::parse_answer(&reply.text()).map_err(|e| LookError::Failed(e.to_string()))
    }
}
