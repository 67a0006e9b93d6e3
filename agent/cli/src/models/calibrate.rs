//! `watchkeeper models calibrate`: starts `watchkeeper-runtime model-calibrate` and prints its
//! report.

use std::time::Duration;

use watchkeeper_contract::backend::ModelCalibration;

use crate::args::{CalibrateArgs, Global};
use crate::exit::Failure;
use crate::output::Output;
use crate::runtime_program;

/// Longest calibration: two engines of TensorRT, each of which may take 30 minutes, and the runs.
const TIMEOUT: Duration = Duration::from_secs(90 * 60);

/// Calibrates a model and prints the figures.
///
/// # Errors
/// [`Exit::Failed`](crate::exit::Exit): nothing could be calibrated, or the result was not kept.
pub(super) fn run(args: &CalibrateArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    let mut command = runtime_program::command(global)?;
    let (frames, every) = (args.frames.to_string(), args.every.to_string());
    command.args(["model-calibrate", "--frames", &frames, "--every", &every]);
    let source = runtime_program::source(&args.source);
    let name = runtime_program::model(&args.name);
    command.arg("--source").arg(source).arg("--").arg(name);
    out.busy(format!("calibrating {}", args.name));
    let report = runtime_program::answer::<ModelCalibration>(&mut command, TIMEOUT);
    out.end_live_line();
    let report = report?;
    out.both(&report, || text(&report));
    match &report.why_not {
        None => Ok(()),
        Some(why) => {
            let sentence = format!("the int8 network of {} is not kept: {why}", report.model);
            Err(Failure::failed(sentence))
        }
    }
}

fn text(report: &ModelCalibration) -> String {
    let ModelCalibration {
        model,
        backend,
        tensors,
        range_frames,
        golden_frames,
        boxes,
        changed_boxes,
        before_ms,
        int8_ms,
        ..
    } = report;
    let figures = format!(
        "{model} on {backend}: ranges of {tensors} tensors from {range_frames} frames; {changed_boxes} \
         of {boxes} boxes changed on {golden_frames} later ones; {before_ms:.2} ms before, \
         {int8_ms:.2} ms in int8"
    );
    match &report.file {
        Some(file) => {
            format!(
                "{figures}\nKept {file}; set runtime.inference.precision = \"int8\" and restart the \
                 daemon to use it"
            )
        }
        None => figures,
    }
}
