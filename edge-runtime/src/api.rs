//! The API's answers that need several parts of the runtime.
//!
//! - Nothing here knows HTTP. A [`Problem`] names the field and the remedy.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use watchkeeper_config::{Config, LoadedFile};
use watchkeeper_contract::bundle::{
    BoxKey, BundleFile, BundleSubject, MissingPart, SignedManifest,
};
use watchkeeper_contract::coverage::{CoverageReport, CoverageStatement};
use watchkeeper_contract::event::{Media, MediaKind};
use watchkeeper_contract::health::{Health, HealthReason, HealthState, ReasonKind};
use watchkeeper_contract::id::{EventSeq, PipelineId, SourceId};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_contract::workflow::{FailedStep, WorkflowRun, WorkflowRunResult};
use watchkeeper_engine::workflow::{self, Pixels as _};
use watchkeeper_vision::{jpeg, picture_file};

use crate::board::BoardSampler;
use crate::clock;
use crate::coverage::{SigningError, SigningKey};
use crate::effects::Effects;
use crate::image_run::{NotRun, PictureRun};
use crate::journal::media::MediaStore;
use crate::journal::{AssessError, Assessed, Journal, RetentionRank};
use crate::metrics::Scrape;
use crate::pipeline::box_event::kept_frame;
use crate::pipeline::manager::Manager;
use crate::pipeline::pixels::FramePixels;

/// JPEG quality of frames (0–100).
const FRAME_QUALITY: u8 = 85;

/// JPEG quality of snapshots (0–100).
const SNAPSHOT_QUALITY: u8 = 92;

/// Max wait for a frame.
const FRAME_TIMEOUT: Duration = Duration::from_secs(5);

/// Max wait for events on their way to the disk.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Max pictures of one run: the whole batch is in memory, with everything made from it.
const MAX_PICTURES: usize = 16;

/// The runtime behind the API. What one part answers alone is asked of that part.
pub struct Api {
    pub manager: Arc<Manager>,
    pub board: Arc<BoardSampler>,
    signing: SigningKey,
    /// Site and ID of the box.
    name: String,
    config_warnings: Vec<HealthReason>,
    config_file: Option<LoadedFile>,
    /// Whether the file has changed, as [`Self::check_config_file`] found it.
    has_config_changed: AtomicBool,
}

impl Api {
    pub fn new(
        manager: Arc<Manager>,
        board: Arc<BoardSampler>,
        signing: SigningKey,
        config: &Config,
    ) -> Self {
        let warnings = config.warnings.iter().map(ToString::to_string);
        let warnings = warnings.map(|it| HealthReason::new(ReasonKind::Configuration, it));
        Self {
            manager,
            board,
            signing,
            name: format!("{}/{}", config.site, config.box_id),
            config_warnings: warnings.collect(),
            config_file: config.file.clone(),
            has_config_changed: AtomicBool::new(false),
        }
    }

    /// Compares the configuration file with what was read at the start. May wait for a disk, as
    /// health must not.
    pub fn check_config_file(&self) {
        let file = self.config_file.as_ref();
        let has_changed = file.is_some_and(LoadedFile::has_changed);
        self.has_config_changed
            .store(has_changed, Ordering::Relaxed);
    }

    /// Facts that are not a problem but may surprise.
    fn notes(&self) -> Vec<String> {
        let has_changed = self.has_config_changed.load(Ordering::Relaxed);
        let changed = has_changed.then_some(
            "the configuration file was changed after the runtime's start; restart it to use it",
        );
        let rests = self.manager.rests();
        let idle = rests.then_some("nothing is watched: every pipeline is paused or stopped");
        [changed, idle]
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect()
    }

    fn frame_jpeg(&self, id: &SourceId, quality: u8) -> Result<Vec<u8>, Problem> {
        let frame = self.manager.frame(id, FRAME_TIMEOUT)?;
        encode(&FramePixels::new(frame.picture).rgb(), quality)
    }

    /// The latest frame of a source as JPEG, without drawings.
    ///
    /// # Errors
    /// [`Problem`] when the source is unknown or has no frame yet.
    pub fn source_frame_jpeg(&self, id: &SourceId) -> Result<Vec<u8>, Problem> {
        self.frame_jpeg(id, FRAME_QUALITY)
    }

    /// The latest frame of a pipeline as JPEG, with the workflow's drawings.
    ///
    /// # Errors
    /// [`Problem`] when the pipeline is unknown or has no frame yet.
    pub fn pipeline_frame_jpeg(&self, id: &PipelineId) -> Result<Vec<u8>, Problem> {
        let worker = self.manager.worker(id)?;
        let rgb = worker.latest_annotated().ok_or_else(|| {
            Problem::not_ready(format!(
                "pipeline {:?} has not processed a frame yet",
                id.as_str()
            ))
        })?;
        encode(&rgb, FRAME_QUALITY)
    }

    /// Saves the latest frame of a source as media; on disk before it returns.
    ///
    /// # Errors
    /// [`Problem`] when the source is unknown, has no frame yet, or storing fails.
    pub fn snapshot(&self, id: &SourceId) -> Result<Media, Problem> {
        let bytes = self.frame_jpeg(id, SNAPSHOT_QUALITY)?;
        let (rank, unix_ms) = (RetentionRank::Requested, clock::wall().unix_ms);
        let picture = self
            .media()
            .put(MediaKind::Clean, rank, unix_ms, &bytes)
            .map_err(|e| Problem::storage(format!("cannot store the snapshot: {e}")))?;
        let parts = self.manager.parts();
        for record in kept_frame(id, &picture, &parts.boot) {
            parts.recorder.report(record);
        }
        Ok(picture)
    }

    /// Runs a workflow once on still pictures. Failures of steps are part of the result.
    ///
    /// # Errors
    /// [`Problem`] when the definition does not compile, a picture or a parameter is invalid, or a
    /// model is missing.
    pub fn run_workflow(&self, run: &WorkflowRun) -> Result<WorkflowRunResult, Problem> {
        check_count(run.images.len())?;
        // Pictures among the parameters count too: about 150 MB in total. Masks have their own
        // bound.
        let mut pixels_left = picture_file::MAX_PIXELS;
        let mut pictures = Vec::with_capacity(run.images.len());
        for (n, image) in run.images.iter().enumerate() {
            let picture = workflow::codec::picture(image, &mut pixels_left).map_err(|why| {
                let start: String = image.chars().take(20).collect();
                Problem::invalid_value(why).at(format!("images[{n}]"), start)
            })?;
            pictures.push(picture);
        }
        let run_request = PictureRun {
            definition: &run.workflow,
            params: &run.parameters,
            pictures: &pictures,
            max_pixels: pixels_left,
            detector: run.model.as_deref(),
            ignores_unknown_inputs: false,
        };
        let outcome = run_request
            .run(&self.manager.parts().models)
            .map_err(not_run)?;
        let failed = outcome.failures.into_iter().map(|failure| FailedStep {
            step: failure.step,
            message: failure.message,
        });
        Ok(WorkflowRunResult {
            results: outcome.rows,
            failed: failed.collect(),
            notes: outcome.notes,
        })
    }

    pub fn health(&self) -> Health {
        let review_shares = self.manager.review_shares();
        let mut details = self.config_warnings.clone();
        details.extend(self.manager.troubles(&review_shares));
        Health {
            state: if details.is_empty() {
                HealthState::Up
            } else {
                HealthState::Degraded
            },
            reasons: details.iter().map(|it| it.message.clone()).collect(),
            details,
            notes: self.notes(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: self.manager.parts().boot.id().to_owned(),
            uptime_s: self.manager.parts().boot.uptime().as_secs_f64(),
            pid: std::process::id(),
            last_seq: self.manager.parts().journal.head().last,
            effects: self.manager.parts().effects.counts(),
            review_shares,
            event_times: self.manager.parts().recorder.event_times(),
            storage: self.manager.storage_fault(),
            channels: self.manager.parts().channels.clone(),
        }
    }

    /// All metrics, see [`Metrics::encode`](crate::metrics::Metrics::encode).
    pub fn metrics(&self) -> String {
        let parts = self.manager.parts();
        let sources = parts.metrics.count_sources(|| self.manager.sources());
        let mut scrape = Scrape::default();
        scrape.add_sources(&sources);
        let pipelines = self.manager.pipelines();
        let rates = pipelines.iter();
        scrape.add_looks(rates.filter_map(|p| Some((&p.spec.id, p.looks?))));
        scrape.add_frames(pipelines.iter().map(|p| (&p.spec.id, p.results.frames)));
        let recorder = &parts.recorder;
        scrape.add_recorder(recorder.lost(), recorder.storage_error().is_some());
        scrape.add_effects(&parts.effects.counts());
        let (reading, age) = self.board.latest();
        scrape.add_board(&reading, age);
        scrape.add_journal(&parts.journal, &parts.media);
        parts.metrics.encode(&scrape)
    }

    /// Adds an assessment of the event of record `seq`; durable on return.
    ///
    /// # Errors
    /// Those of [`Journal::assess`].
    pub fn assess(&self, seq: EventSeq, new: NewAssessment) -> Result<Assessed, AssessError> {
        let parts = self.manager.parts();
        parts.journal.assess(seq, new, &parts.boot.stamp())
    }

    /// When pipelines watched in a range, in milliseconds since 1970, and what they could tell; of
    /// one source or of all.
    ///
    /// # Errors
    /// [`Problem`] when the store can't be read.
    pub fn coverage(
        &self,
        range: Range<i64>,
        source: Option<&SourceId>,
    ) -> Result<CoverageReport, Problem> {
        let parts = self.manager.parts();
        let report = parts.coverage.report(range.start, range.end, source);
        let mut report = report.map_err(|e| {
            let detail = format!("cannot read the coverage: {e}");
            Problem::storage(detail)
        })?;
        // Events of the spans may be on their way to the disk.
        report.events_waiting = parts.recorder.flush_and_count(FLUSH_TIMEOUT);
        report.events_waiting_since_ms = parts.recorder.waiting_since_ms();
        Ok(report)
    }

    /// Signs a report with the key of the box.
    ///
    /// # Errors
    /// [`Problem`] when the key can't be read or made.
    pub fn sign(&self, report: CoverageReport) -> Result<CoverageStatement, Problem> {
        self.signing.sign(report).map_err(not_signed)
    }

    /// Makes and signs the manifest of a bundle with these files and missing parts, now.
    ///
    /// # Errors
    /// [`Problem`] when the key can't be read or made.
    pub fn sign_bundle(
        &self,
        subject: BundleSubject,
        contents: (Vec<BundleFile>, Vec<MissingPart>),
    ) -> Result<SignedManifest, Problem> {
        let signed = self
            .signing
            .sign_bundle(self.name.clone(), subject, contents, clock::wall());
        signed.map_err(not_signed)
    }

    /// The public key of the box.
    ///
    /// # Errors
    /// [`Problem`] when the key can't be read or made.
    pub fn box_key(&self) -> Result<BoxKey, Problem> {
        self.signing.public_key().map_err(not_signed)
    }

    pub fn journal(&self) -> &Journal {
        &self.manager.parts().journal
    }

    pub fn media(&self) -> &MediaStore {
        &self.manager.parts().media
    }

    pub fn effects(&self) -> &Effects {
        &self.manager.parts().effects
    }
}

/// Converts the error of a run on pictures.
fn not_run(error: NotRun) -> Problem {
    let (code, field) = match &error {
        NotRun::Workflow(_) => (ProblemCode::InvalidWorkflow, "workflow"),
        NotRun::Model(_) => (ProblemCode::Model, "model"),
    };
    let mut detail = error.to_string();
    let mut errors = Vec::new();
    if let NotRun::Workflow(found) = error {
        if let Some(first) = found.first() {
            detail = format!("{detail}: {}", first.message);
        }
        errors = found;
    }
    let mut problem = Problem::new(422, code, detail);
    problem.field = Some(field.to_owned());
    problem.workflow_errors = errors;
    problem
}

fn encode(rgb: &workflow::RgbPixels, quality: u8) -> Result<Vec<u8>, Problem> {
    jpeg::encode_bytes(&rgb.data, rgb.width, rgb.height, quality)
        .map_err(|e| Problem::internal(format!("cannot encode the picture: {e}")))
}

fn not_signed(error: SigningError) -> Problem {
    Problem::storage(error.to_string())
}

/// Refuses a run of more than [`MAX_PICTURES`].
fn check_count(pictures: usize) -> Result<(), Problem> {
    if pictures > MAX_PICTURES {
        let detail = format!("a run takes at most {MAX_PICTURES} pictures; send several runs");
        let problem = Problem::invalid_value(detail);
        return Err(problem.at("images", pictures.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_of_too_many_pictures_is_refused_with_their_number() {
        assert!(check_count(MAX_PICTURES).is_ok());
        let refused = check_count(MAX_PICTURES + 1).err();
        let refused = refused.map(|problem| (problem.field, problem.value));
        assert_eq!(
            refused,
            Some((Some("images".to_owned()), Some("17".to_owned())))
        );
    }
}
