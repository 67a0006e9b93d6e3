//! Runs the trial of a proposal before it is shown. Draws its lines and zones on a frame; runs its
//! rules on some seconds of the camera and on its last hours.
//!
//! Invariants:
//! - A trial deploys, stores and journals nothing.
//! - A trial that cannot run (camera lost, model missing, runtime busy) never stops the proposal;
//!   the reason is shown.
//! - All trials of a proposal end after [`TRIAL_TIMEOUT`].
//! - A result that contradicts the request is checked twice: a person may just have passed.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};
use watchkeeper_contract::backtest::{Backtest, MAX_BACKTEST_HOURS};
use watchkeeper_contract::event::MAX_PAGE;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceState;
use watchkeeper_contract::workflow::DryRun;
use watchkeeper_engine::workflow::{Compiled, compile};
use watchkeeper_plain::Change;

use super::progress::{ProgressEvent, ProgressSink};
use crate::proposal::backtest::{BacktestSummary, strip};
use crate::proposal::checked_proposal::CheckedProposal;
use crate::proposal::price::{
    Estimate, Measured, PriceTag, clip_s, draws, event_bytes, opinion_usd,
};
use crate::proposal::snapshot::SystemSnapshot;
use crate::proposal::trial::{TrialResult, TrialStats};
use crate::setup_agent::geometry::check_places;
use crate::setup_agent::preview_spec::preview;
use crate::setup_agent::tool_context::ToolContext;
use crate::trace::{self, Trace};
use watchkeeper_client::JournalRecord;

/// Most pipelines of one proposal that get a trial.
const MAX_TRIALS: usize = 3;
/// Source time of a trial, in seconds. The user waits, and a zone counts as empty after three
/// seconds.
const TRIAL_S: u32 = 4;
/// Timeout of all trials of a proposal. A camera may have to be opened and a model loaded. The
/// runtime lets a drawing and a trial wait 9 s each for others.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of all backtests of a proposal; the runtime takes eight seconds at most for one, and
/// lets it wait nine.
const BACKTEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Attempts if the result contradicts the request.
const MAX_ATTEMPTS: usize = 2;
/// Name of the picture of a backtest's events.
const EVENTS: &str = "events";

/// Runs the trials of a proposal.
pub(super) struct TrialRunner<'a> {
    pub(super) tools: ToolContext,
    pub(super) here: &'a SystemSnapshot,
    pub(super) trace: Option<&'a Trace>,
    pub(super) out: Arc<dyn ProgressSink>,
}

impl TrialRunner<'_> {
    /// Runs a trial of each pipeline, and replays each on the last hours.
    pub(super) async fn run(&self, offer: &CheckedProposal) -> Vec<TrialResult> {
        let deployed = deployed(offer);
        let until = Instant::now() + TRIAL_TIMEOUT;
        let mut all = Vec::new();
        for spec in &deployed {
            let mut trial = TrialResult::new(spec);
            let why = if all.len() >= MAX_TRIALS {
                Some(format!("a proposal gets at most {MAX_TRIALS} trials"))
            } else {
                self.out.report(ProgressEvent::Busy(&format!(
                    "trying it on {} for {TRIAL_S} s",
                    spec.source
                )));
                let looks = self.try_pipeline(spec, &mut trial);
                match timeout_at(until, looks).await {
                    Ok(Ok(())) => None,
                    Ok(Err(why)) => Some(why),
                    Err(_) => Some(format!("no result within {} s", TRIAL_TIMEOUT.as_secs())),
                }
            };
            // The result of a first attempt is kept, even if the second fails.
            trial.not_tried = why.filter(|_| trial.stats.is_none());
            self.trace_failure(&trial);
            all.push(trial);
        }
        self.add_backtests(&deployed, &mut all).await;
        self.add_prices(&deployed, &mut all).await;
        all
    }

    /// Computes what each pipeline would take, from its trial and the latest events.
    async fn add_prices(&self, deployed: &[&PipelineSpec], all: &mut [TrialResult]) {
        let health = &self.here.health;
        let after = EventSeq(health.last_seq.0.saturating_sub(u64::from(MAX_PAGE)));
        let records = match self.tools.client.events(after, MAX_PAGE).await {
            Ok(records) => records,
            Err(error) => {
                tracing::debug!(%error, "no price of the proposal");
                return;
            }
        };
        let known = records.iter().filter_map(|record| match record {
            JournalRecord::Known(event) => Some(&**event),
            JournalRecord::Newer(_) | JournalRecord::Unreadable { .. } => None,
        });
        for (spec, trial) in deployed.iter().zip(all) {
            let shares = trial.stats.as_ref().and_then(|stats| stats.processor);
            let backtest = trial.backtest.as_ref();
            let replayed = backtest.ok_or_else(|| "it was not replayed".to_owned());
            let opinions = |b: &BacktestSummary| b.per_day().map(|days| b.escalated.scaled(days));
            let measured = Measured {
                processor: shares.ok_or_else(|| "it was not tried".to_owned()),
                event_times: health.event_times,
                events_a_day: replayed.clone().and_then(BacktestSummary::events_a_day),
                opinions_a_day: match self.tools.second_opinion {
                    true => replayed.and_then(opinions),
                    false => Ok(Estimate::default()),
                },
                event: event_bytes(known.clone(), &spec.source),
                clip_s: backtest.map_or_else(|| clip_s(spec, &[]), |backtest| backtest.clip_s),
                opinion_usd: match self.tools.second_opinion {
                    true => opinion_usd(known.clone()),
                    false => Ok(0.0),
                },
                draws: draws(spec),
                is_recorded: spec.record,
            };
            trial.price = Some(PriceTag::new(&measured));
        }
    }

    async fn add_backtests(&self, deployed: &[&PipelineSpec], all: &mut [TrialResult]) {
        let until = Instant::now() + BACKTEST_TIMEOUT;
        for (spec, trial) in deployed.iter().zip(all).take(MAX_TRIALS) {
            self.add_backtest(spec, until, trial).await;
        }
        self.out.report(ProgressEvent::Idle);
    }

    /// Replays a pipeline on the last hours, and adds the result, or why there is none, to its
    /// trial.
    async fn add_backtest(&self, spec: &PipelineSpec, until: Instant, trial: &mut TrialResult) {
        let busy = format!("replaying it on the last hours of {}", spec.source);
        self.out.report(ProgressEvent::Busy(&busy));
        let wanted = Backtest {
            pipeline: spec.clone(),
            hours: MAX_BACKTEST_HOURS,
            pictures: true,
        };
        let replay = self.tools.client.backtest(&wanted);
        let summary = match timeout_at(until, replay).await {
            Ok(Ok(report)) => BacktestSummary::from_report(&report, spec).map(|summary| {
                let strip = strip(&report);
                let kept = strip.and_then(|strip| self.tools.keep(EVENTS, &spec.source, &strip));
                BacktestSummary {
                    pictures: kept,
                    ..summary
                }
            }),
            Ok(Err(error)) => Err(error.in_full()),
            Err(_) => Err(format!("no result within {} s", BACKTEST_TIMEOUT.as_secs())),
        };
        let (event, sentence) = match &summary {
            Ok(summary) => ("replayed", summary.sentence()),
            Err(why) => ("not_replayed", why.clone()),
        };
        trace::note(
            self.trace,
            event,
            || json!({"camera": spec.source, "pipeline": spec.id, "sentence": sentence}),
        );
        match summary {
            Ok(summary) => {
                trial.remarks.extend(summary.remark());
                trial.backtest = Some(summary);
            }
            Err(why) => trial.not_replayed = Some(why),
        }
    }

    async fn try_pipeline(
        &self,
        spec: &PipelineSpec,
        trial: &mut TrialResult,
    ) -> Result<(), String> {
        self.check_camera(spec)?;
        let compiled = compile(&spec.workflow, &spec.parameters)
            .map_err(|_| "its workflow does not compile".to_owned())?;
        for _ in 0..MAX_ATTEMPTS {
            self.run_once(spec, &compiled, trial).await?;
            let stats = trial.stats.as_ref();
            if !stats.is_some_and(|stats| stats.contradicts(spec)) {
                break;
            }
        }
        Ok(())
    }

    /// Draws the preview and runs the rules. The result replaces that of an earlier attempt.
    async fn run_once(
        &self,
        spec: &PipelineSpec,
        compiled: &Compiled,
        trial: &mut TrialResult,
    ) -> Result<(), String> {
        let tools = &self.tools;
        let file = tools.frame(&spec.source).await?;
        let source = tools.client.source(&spec.source).await;
        let size = source.map_err(|e| e.in_full())?.size;
        let size = size.ok_or("this camera has not delivered a frame yet")?;
        let drawing = tools.look(&preview(&spec.workflow, compiled), &file).await;
        let (picture, mut remarks) = match drawing {
            Ok(drawing) => {
                let found = check_places(&compiled.overlays(), size, &drawing.seen);
                let remarks: Vec<String> = found.wrong.into_iter().chain(found.mind).collect();
                (drawing.picture, remarks)
            }
            Err(why) => (None, vec![format!("cannot draw the preview: {why}")]),
        };
        let kept = picture.and_then(|picture| tools.keep(spec.id.as_str(), &spec.source, &picture));
        trace::note(self.trace, "previewed", || {
            let sentence = kept
                .as_ref()
                .map(|file| format!("{} is drawn in {file}", spec.id));
            json!({"camera": spec.source, "pipeline": spec.id, "sentence": sentence})
        });
        let wanted = DryRun {
            pipeline: spec.clone(),
            seconds: f64::from(TRIAL_S),
            clip: None,
            file: None,
        };
        let report = tools.client.dry_run(&wanted).await;
        let report = report.map_err(|e| e.in_full())?;
        let seen = TrialStats::from_report(&report, &spec.workflow);
        remarks.extend(seen.remark(spec));
        trial.picture = kept;
        trial.quiet = seen.quiet(spec);
        trace::note(self.trace, "tried", || {
            json!({
                "camera": spec.source, "pipeline": spec.id, "sentence": seen.sentence(),
                "mind": remarks, "quiet": trial.quiet,
            })
        });
        trial.stats = Some(seen);
        trial.remarks = remarks;
        Ok(())
    }

    /// Returns the error of a camera that is lost or failed, instead of waiting for it.
    fn check_camera(&self, spec: &PipelineSpec) -> Result<(), String> {
        let mut sources = self.here.sources.iter();
        let camera = sources.find(|source| source.spec.id == spec.source);
        match camera.map(|camera| &camera.state) {
            Some(SourceState::Lost { message, .. } | SourceState::Failed { message, .. }) => {
                Err(message.clone())
            }
            _ => Ok(()),
        }
    }

    /// Writes to the trace why a trial did not run.
    fn trace_failure(&self, trial: &TrialResult) {
        if let Some(why) = &trial.not_tried {
            trace::note(
                self.trace,
                "not_tried",
                || json!({"camera": trial.camera, "pipeline": trial.pipeline, "sentence": why}),
            );
        }
    }
}

/// The pipelines that a proposal deploys or changes.
fn deployed(offer: &CheckedProposal) -> Vec<&PipelineSpec> {
    let changes = offer.proposal.changes.iter().zip(&offer.difference);
    let specs = changes.filter_map(|(change, difference)| match change {
        Change::Deploy(spec) | Change::Replace(spec) if difference.has_effect() => Some(&**spec),
        _ => None,
    });
    specs.collect()
}
