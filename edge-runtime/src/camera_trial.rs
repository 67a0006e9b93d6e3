//! Compares detectors on some seconds of a camera: models, with and without tiles.
//!
//! - Every candidate examines the same frames, one after the other, by the code of a pipeline.
//! - [`frames`] takes them, [`measure`] runs the candidates, [`compare`] judges without I/O,
//!   [`pictures`] draws.
//! - Memory is bounded: at most 60 frames and [`frames::MAX_BYTES`] bytes.
//! - Nothing is journaled. A privacy mask of the configuration applies.
//! - Not here: the motion detector, whose motions are not comparable with objects.

mod compare;
pub(crate) mod frames;
mod measure;
mod pictures;
mod request;

use std::collections::BTreeSet;
use std::io;
use std::process::ExitCode;

use watchkeeper_config::{Config, redact};
use watchkeeper_contract::camera_trial::CameraTrialReport;
use watchkeeper_contract::model::ModelState;
use watchkeeper_contract::problem::nearest_few;

use self::compare::{Finding, Measured};
use self::frames::Taken;
pub use self::request::{CameraTrialError, Request};
use crate::output::{print, write_line};
use crate::pipeline::inference::models::Models;

/// Task of the models that are compared.
const TASK: &str = "object-detection";
/// Most classes that an error suggests.
const MAX_NEAR: usize = 3;

/// Runs the trial and prints its report; returns exit code 0, or 2 with a sentence on standard
/// error.
#[must_use]
pub fn main(request: &Request, config: &Config) -> ExitCode {
    match run(request, config) {
        Ok(report) => print(&report),
        Err(error) => {
            // Nothing can be reported without standard error.
            write_line(&mut io::stderr(), &error).ok();
            ExitCode::from(2)
        }
    }
}

/// Runs a camera trial.
///
/// # Errors
/// [`CameraTrialError`].
pub fn run(request: &Request, config: &Config) -> Result<CameraTrialReport, CameraTrialError> {
    request.check()?;
    let models = Models::new(config);
    let names = models_of(request, &models)?;
    let taken = frames::take(&request.wanted(), config).map_err(CameraTrialError::Source)?;
    let (measured, mut notes) = measure_all(&names, &taken, request, &models)?;
    let finding = compare::compare(&measured, taken.source_fps);
    notes.extend(limits(&taken, &finding));
    let pictures = match &request.out {
        Some(_) if !taken.masked_classes.is_empty() => {
            notes.push(format!(
                "No pictures were written: a privacy mask hides each {} in pictures that leave.",
                taken.masked_classes.join(", ")
            ));
            Vec::new()
        }
        Some(folder) => pictures::write(folder, &taken, &measured, &finding)?,
        None => Vec::new(),
    };
    Ok(CameraTrialReport {
        source: redact::uri(&taken.uri),
        size: taken.size,
        source_fps: taken.source_fps,
        frames: taken.frames.len(),
        seconds: taken.seconds(),
        dark_frames: taken.gains.iter().filter(|gain| gain.is_some()).count(),
        classes: request.class.clone(),
        candidates: finding.candidates,
        proposed: finding.proposed,
        reason: finding.reason,
        pictures,
        notes,
    })
}

/// Measures every model. Returns sentences about those that were left out too.
fn measure_all(
    names: &[String],
    taken: &Taken,
    request: &Request,
    models: &Models,
) -> Result<(Vec<Measured>, Vec<String>), CameraTrialError> {
    let (mut measured, mut notes) = (Vec::new(), Vec::new());
    let mut unknown: Vec<&String> = request.class.iter().collect();
    let mut known = BTreeSet::new();
    for name in names {
        let mut detector = match models.open(name) {
            Ok(detector) => detector,
            // A model that was not asked for by name must not end the trial.
            Err(error) if request.model.is_empty() => {
                notes.push(format!("{name} was left out: {error}."));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let labels = &detector.info().labels;
        unknown.retain(|class| !labels.iter().any(|label| **label == ***class));
        known.extend(labels.iter().map(ToString::to_string));
        let detector = detector.as_mut();
        let of_model = measure::candidates(name, detector, taken, &request.class)?;
        measured.extend(of_model);
    }
    match unknown.first() {
        Some(class) if !measured.is_empty() => {
            let near = nearest_few(class, known.iter().map(String::as_str), MAX_NEAR).join(", ");
            Err(CameraTrialError::Class {
                class: (*class).clone(),
                remedy: match near.is_empty() {
                    true => String::new(),
                    false => format!("; did you mean {near}?"),
                },
            })
        }
        _ => Ok((measured, notes)),
    }
}

/// The models to compare: those of the request, or the installed detectors.
fn models_of(request: &Request, models: &Models) -> Result<Vec<String>, CameraTrialError> {
    if !request.model.is_empty() {
        return Ok(request.model.clone());
    }
    let installed = models
        .list()
        .into_iter()
        .filter(|model| model.task == TASK && matches!(model.state, ModelState::Present { .. }));
    let names: Vec<String> = installed.map(|model| model.name).collect();
    if names.is_empty() {
        return Err(CameraTrialError::NoModel);
    }
    Ok(names)
}

/// Limits of this trial.
fn limits(taken: &Taken, finding: &Finding) -> Vec<String> {
    let mut notes = vec![
        "There is no ground truth: more objects are not always better. Look at the pictures before \
         you decide (--out)."
            .to_owned(),
    ];
    let doubtful = finding
        .candidates
        .iter()
        .any(|c| c.doubtful_per_frame > 0.0);
    if doubtful {
        notes.push(
            "Boxes that no neighbouring frame shows are counted apart as doubtful: they are \
             mistakes, or objects that move far between two frames."
                .to_owned(),
        );
    }
    if finding.candidates.iter().any(|c| c.still_per_frame > 0.0) {
        notes.push(
            "Objects that stay in one place are counted apart as still: parked cars, or mistakes \
             such as a traffic cone."
                .to_owned(),
        );
    }
    let dark = taken.gains.iter().filter(|gain| gain.is_some()).count();
    notes.push(match dark {
        0 => "All frames were light. At night other settings may be better; repeat the trial then."
            .to_owned(),
        dark => format!(
            "{dark} of {} frames were dark and raised by the night gain. By day other settings may \
             be better; repeat the trial then.",
            taken.frames.len()
        ),
    });
    notes
}
