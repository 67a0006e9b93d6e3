//! The shell around [`crate::proposal::trial`]: tries what the rules propose before it is shown, by what a model's tools use too. Its lines and zones
//! are drawn on the camera's picture, and its rules look at some seconds of it.
//!
//! Invariants:
//! - it only looks: the runtime keeps, journals and deploys nothing of it;
//! - whatever keeps it from looking (a camera that is away, a model that is not here, a runtime that is busy) costs the proposal nothing, and is told;
//! - it ends after [`PATIENCE`]. What speaks against the request is looked at twice before it is told, as somebody may just have passed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceState;
use watchkeeper_contract::workflow::DryRun;
use watchkeeper_engine::workflow::{Compiled, compile};
use watchkeeper_llm::picture::Detail;
use watchkeeper_plain::Change;

use super::progress::{ProgressEvent, ProgressSink};
use super::setup_runner::PICTURES;
use crate::proposal::offer::CheckedProposal;
use crate::proposal::snapshot::SystemSnapshot;
use crate::proposal::trial::{TrialRemark, TrialResult, TrialStats};
use crate::setup_agent::geometry::judge;
use crate::setup_agent::preview_spec::drawn;
use crate::setup_agent::tool_context::ToolContext;
use crate::trace::Trace;
use watchkeeper_client::RuntimeClient;

/// Most pipelines of one proposal that are tried.
const MOST: usize = 3;
/// Seconds of a camera's time that one is tried for: a person waits, and a place has to be free for three seconds to count as free.
const TRIED_S: u32 = 4;
/// Longest time that all of it takes: a camera may have to be opened and a network loaded.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked where what is seen speaks against the request.
const LOOKS: usize = 2;

/// Who tries.
pub(super) struct TrialRunner<'t> {
    hands: ToolContext,
    here: &'t SystemSnapshot,
    trace: Option<&'t Trace>,
    out: Arc<dyn ProgressSink>,
}

impl<'t> TrialRunner<'t> {
    /// One who keeps the pictures below `home`, where there is a folder.
    pub(super) fn new(
        client: RuntimeClient,
        home: Option<&PathBuf>,
        here: &'t SystemSnapshot,
        trace: Option<&'t Trace>,
        out: Arc<dyn ProgressSink>,
    ) -> Self {
        let hands = ToolContext {
            client,
            preferred: None,
            sees: None,
            detail: Detail::Medium,
            memory: None,
            pictures: home.map(|folder| folder.join(PICTURES)),
            attached: Vec::new(),
            earlier: Value::Null,
            at: None,
        };
        Self {
            hands,
            here,
            trace,
            out,
        }
    }

    /// Tries the pipelines of an offer that have lines or zones.
    pub(super) async fn run(&self, offer: &CheckedProposal) -> Vec<TrialResult> {
        let changes = offer.proposal.changes.iter().zip(&offer.difference);
        let placed = changes.filter_map(|(change, difference)| match change {
            Change::Deploy(spec) | Change::Replace(spec) if difference.acts() => placed(spec),
            _ => None,
        });
        let until = Instant::now() + PATIENCE;
        let mut all = Vec::new();
        for (spec, compiled) in placed {
            let mut tried = TrialResult::new(spec);
            let why = if all.len() >= MOST {
                Some(format!("of one proposal {MOST} are tried at most"))
            } else {
                self.out.tell(ProgressEvent::Busy(&format!(
                    "trying it for {TRIED_S} s on {}",
                    spec.source
                )));
                let looks = self.looks(spec, &compiled, &mut tried);
                match timeout_at(until, looks).await {
                    Ok(Ok(())) => None,
                    Ok(Err(why)) => Some(why),
                    Err(_) => Some(format!("it took longer than {} s", PATIENCE.as_secs())),
                }
            };
            // What a first look has seen stands, whatever came of the second.
            tried.not_tried = why.filter(|_| tried.seen.is_none());
            self.note(&tried);
            all.push(tried);
        }
        if !all.is_empty() {
            self.out.tell(ProgressEvent::Idle);
        }
        all
    }

    async fn looks(
        &self,
        spec: &PipelineSpec,
        compiled: &Compiled,
        tried: &mut TrialResult,
    ) -> Result<(), String> {
        self.is_there(spec)?;
        for _ in 0..LOOKS {
            let word = self.look(spec, compiled, tried).await?;
            if !matches!(word, Some(TrialRemark::Against(_))) {
                break;
            }
        }
        Ok(())
    }

    /// A camera that is known to be away is not waited for: the error says why it is.
    fn is_there(&self, spec: &PipelineSpec) -> Result<(), String> {
        let mut sources = self.here.sources.iter();
        let camera = sources.find(|source| source.spec.id == spec.source);
        match camera.map(|camera| &camera.state) {
            Some(SourceState::Lost { message, .. } | SourceState::Failed { message, .. }) => {
                Err(message.clone())
            }
            _ => Ok(()),
        }
    }

    /// One look: the picture with the places, then some seconds. What was found out takes the place of what a look before it found.
    async fn look(
        &self,
        spec: &PipelineSpec,
        compiled: &Compiled,
        tried: &mut TrialResult,
    ) -> Result<Option<TrialRemark>, String> {
        let hands = &self.hands;
        let file = hands.frame(&spec.source).await?;
        let source = hands.client.source(&spec.source).await;
        let size = source.map_err(|e| e.in_full())?.size;
        let size = size.ok_or("no picture of this camera was seen yet")?;
        let looked = hands.look(&drawn(&spec.workflow, compiled), &file).await;
        let (picture, mut mind) = match looked {
            Ok(looked) => {
                let found = judge(&compiled.overlays(), size, &looked.seen);
                let mind: Vec<String> = found.wrong.into_iter().chain(found.mind).collect();
                (looked.picture, mind)
            }
            Err(why) => (None, vec![format!("it could not be drawn: {why}")]),
        };
        let kept = picture.and_then(|picture| hands.keep(spec.id.as_str(), &spec.source, &picture));
        self.trace("previewed", || {
            let sentence = kept
                .as_ref()
                .map(|file| format!("{} is drawn in {file}", spec.id));
            json!({"camera": spec.source, "pipeline": spec.id, "sentence": sentence})
        });
        let wanted = DryRun {
            pipeline: spec.clone(),
            seconds: f64::from(TRIED_S),
        };
        let report = hands.client.dry_run(&wanted).await;
        let seen = TrialStats::of(&report.map_err(|e| e.in_full())?);
        let word = seen.word(spec);
        mind.extend(word.iter().map(|word| word.sentence().to_owned()));
        tried.picture = kept;
        self.trace("tried", || {
            json!({"camera": spec.source, "pipeline": spec.id, "sentence": seen.sentence(), "mind": mind})
        });
        tried.seen = Some(seen);
        tried.mind = mind;
        Ok(word)
    }

    /// Notes why one was not tried.
    fn note(&self, tried: &TrialResult) {
        if let Some(why) = &tried.not_tried {
            self.trace(
                "not_tried",
                || json!({"camera": tried.camera, "pipeline": tried.pipeline, "sentence": why}),
            );
        }
    }

    fn trace(&self, what: &str, particulars: impl FnOnce() -> Value) {
        if let Some(trace) = self.trace
            && let Err(error) = trace.note(Timestamp::now(), what, particulars())
        {
            tracing::debug!(%error, "the trace can't be written");
        }
    }
}

/// A pipeline with its workflow, where that has a line or a zone and compiles.
fn placed(spec: &PipelineSpec) -> Option<(&PipelineSpec, Compiled)> {
    let compiled = compile(&spec.workflow, &spec.parameters).ok()?;
    (!compiled.overlays().is_empty()).then_some((spec, compiled))
}
