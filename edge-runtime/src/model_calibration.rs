//! The command `model-calibrate`: makes the network of int8 of a model by frames of a source, and
//! prints a report as JSON.
//!
//! - Frames are taken as for a camera trial, but all that were asked for, and every picture of a
//!   folder. A privacy mask of the configuration applies.
//! - Called by `watchkeeper models calibrate`.

use std::process::ExitCode;
use std::time::Duration;

use watchkeeper_config::Config;
use watchkeeper_contract::backend::ModelCalibration;
use watchkeeper_detect::BackendChoice;
use watchkeeper_detect::calibration::{self, CalibrationError, CalibrationFrame};
use watchkeeper_models::MOTION;

use crate::camera_trial::frames::{self, Wanted};
use crate::output::{print, refuse};
use crate::pipeline::inference::settings::ModelSettings;

/// Most frames of a calibration; they are kept in memory.
const MAX_FRAMES: u32 = 500;

/// Maximum bytes of these frames: 172 of 1920 x 1080.
const MAX_BYTES: usize = 512 << 20;

/// Arguments of `model-calibrate`.
#[derive(Debug, clap::Args)]
pub struct Request {
    /// Name in the zoo, or path of a model file with its manifest
    model: String,
    /// Name of a configured source, or an address: a camera, a recording, a folder of pictures
    #[arg(long, value_name = "SOURCE")]
    source: String,
    /// Frames to take; the first half gives the ranges, the second half decides
    #[arg(long, default_value_t = 100, value_name = "N",
          value_parser = clap::value_parser!(u32).range(2..=i64::from(MAX_FRAMES)))]
    frames: u32,
    /// Seconds of the source from one frame to the next; of a folder, every picture is taken
    #[arg(long, default_value_t = 0.2, value_name = "SECONDS")]
    every: f64,
    /// Back end to calibrate for [default: that of the configuration]
    #[arg(long, value_name = "NAME")]
    backend: Option<BackendChoice>,
}

/// Why nothing was calibrated. One sentence each.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("--every {0}: use a number of seconds over 0 and at most 60")]
    Every(f64),
    #[error(
        "the motion detector is built in and has no network; name a network of `watchkeeper models \
         list`"
    )]
    Motion,
    #[error("{0}")]
    Source(String),
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
}

impl Request {
    /// Calibrates as configured.
    #[must_use]
    pub fn run(&self, config: &Config) -> ExitCode {
        match self.calibrate(config) {
            Ok(report) => print(&report),
            Err(error) => refuse(&error.to_string()),
        }
    }

    fn calibrate(&self, config: &Config) -> Result<ModelCalibration, Error> {
        if self.model == MOTION {
            return Err(Error::Motion);
        }
        const MAX_EVERY: Duration = Duration::from_secs(60);
        let every = Duration::try_from_secs_f64(self.every).ok();
        let is_usable = |every: &Duration| !every.is_zero() && *every <= MAX_EVERY;
        let every = every.filter(is_usable).ok_or(Error::Every(self.every))?;
        let wanted = Wanted {
            source: &self.source,
            seconds: every.as_secs_f64() * f64::from(self.frames),
            no_tls_verify: false,
            max_frames: self.frames as usize,
            max_fps: 1.0 / every.as_secs_f64(),
            max_bytes: MAX_BYTES,
            is_exact: true,
            is_one_size: false,
        };
        let taken = frames::take(&wanted, config).map_err(Error::Source)?;
        let frames: Vec<CalibrationFrame<'_>> = taken
            .frames
            .iter()
            .zip(&taken.gains)
            .map(|(frame, gain)| (&frame.picture, *gain))
            .collect();
        let mut settings = ModelSettings::new(config);
        if let Some(backend) = self.backend {
            settings = settings.with_backend(backend);
        }
        let done = calibration::calibrate(&settings.request(&self.model), &frames)?;
        let [before_ms, int8_ms] = done.times_ms;
        let [range_frames, golden_frames] = done.frames;
        let (file, why_not) = match done.kept {
            Ok(file) => (Some(file.display().to_string()), None),
            Err(why) => (None, Some(why)),
        };
        Ok(ModelCalibration {
            model: self.model.clone(),
            backend: done.backend.to_owned(),
            tensors: done.tensors,
            range_frames,
            golden_frames,
            boxes: done.boxes,
            changed_boxes: done.changed,
            before_ms,
            int8_ms,
            file,
            why_not,
        })
    }
}
