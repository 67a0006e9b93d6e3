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
use watchkeeper_client::clock::wall_now;
use watchkeeper_contract::id::SourceId;
use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::picture::{Detail, prepare};
use watchkeeper_llm::{Client, JobSpec};
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};

use super::asker::Asker;
use super::look::{self, Seen};

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
        let client = match self.client().await? {
            Ok(client) => client,
            Err(why) => {
                self.note("no_look", json!({"sentence": why})).await;
                return None;
            }
        };
        let mut last = None;
        for camera in cameras {
            match self.look_at(&client, &runtime, &camera, local).await {
                Ok(seen) => Arc::clone(&self).keep_seen(camera.clone(), seen).await,
                Err(LookError::Failed(why)) => {
                    let particulars = json!({"camera": camera, "sentence": why});
                    self.note("no_look", particulars).await;
                }
                Err(LookError::Refused(why)) => {
                    let particulars = json!({"camera": camera, "sentence": why});
                    self.note("no_look", particulars).await;
                    return last;
                }
            }
            last = Some(camera);
        }
        last
    }

    async fn look_at(
        &self,
        client: &Client,
        runtime: &RuntimeClient,
        camera: &SourceId,
        local: Option<DateTime>,
    ) -> Result<Seen, LookError> {
        let mut job = client.start_job(JobSpec {
            name: format!("look/{}", ulid::Ulid::new()),
            class: CallClass::Look,
            rule: None,
            tier: Tier::Small,
            detail: Detail::Low,
            time: CALL_TIMEOUT,
        });
        let (model, detail) = (job.model().clone(), job.detail());
        let sees = model.image_tier.ok_or_else(|| {
            let why = format!(
                "the model {} accepts no pictures; no frame is looked at",
                model.id
            );
            LookError::Refused(why)
        })?;
        let frame = runtime.source_frame(camera).await;
        let frame = frame.map_err(|e| LookError::Failed(format!("no frame: {e}")))?;
        let prepared = tokio::task::spawn_blocking(move || prepare(&frame, sees, detail)).await;
        let prepared = prepared.map_err(|e| LookError::Failed(e.to_string()))?;
        let prepared = prepared.map_err(|e| LookError::Failed(e.to_string()))?;
        let conversation =
            look::build_conversation(camera, prepared.picture, local).map_err(LookError::Failed)?;
        let reply = job
            .ask(&conversation, &look::call_options(), &mut |_| {})
            .await;
        let (usage, cost) = job.spent();
        let mut particulars = json!({
            "model": model.id, "usd": cost.dollars(), "tokens": usage.total(), "job": "look",
            "camera": camera,
        });
        match reply {
            Ok(reply) => {
                self.note("model", particulars).await;
                look::parse_answer(&reply.text()).map_err(LookError::Failed)
            }
            Err(error) => {
                particulars["sentence"] = json!(error.in_full());
                self.note("model_away", particulars).await;
                Err(match error {
                    LlmError::Budget(_) => LookError::Refused(error.to_string()),
                    other => LookError::Failed(other.to_string()),
                })
            }
        }
    }

    /// Writes what was seen to the trace and the notes.
    async fn keep_seen(self: Arc<Self>, camera: SourceId, seen: Seen) {
        let (origin, text) = match seen {
            Seen::Nothing => return,
            Seen::Words(words) => (Origin::Camera, words),
            Seen::Suspect => {
                let text = "a text in the picture may address a language model; what the model \
                            said about the frame was left out";
                (Origin::Agent, text.to_owned())
            }
        };
        self.note("seen", json!({"camera": camera, "text": text}))
            .await;
        let asker = Arc::clone(&self);
        let kept = tokio::task::spawn_blocking(move || {
            let mut memory = asker.notes.open()?;
            let words = Words::new(&text).map_err(|e| e.to_string())?;
            let entry = Entry {
                camera: Some(camera),
                tags: Tag::new("look").into_iter().collect(),
                ..Entry::new(Kind::Observation, origin, words)
            };
            memory
                .remember(wall_now(), entry)
                .map(|_| ())
                .map_err(|e| e.to_string())
        });
        if let Ok(Err(why)) = kept.await {
            tracing::warn!(why, "heartbeat: cannot write an observation to the notes");
        }
    }
}
