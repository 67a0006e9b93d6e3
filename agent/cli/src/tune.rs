//! `watchkeeper cameras tune`: starts `watchkeeper-runtime camera-trial` and prints its report.

use std::process::Command as Process;
use std::time::Duration;

use watchkeeper_contract::camera_trial::{CameraTrialReport, TrialCandidate};
use watchkeeper_models::model_check::{Ended, run_within};

use super::args::{Global, TuneArgs};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::runtime_program::{self, PROGRAM};

/// Longest trial: all models of the zoo with tiles on a slow processor.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Runs the trial.
///
/// # Errors
/// [`Exit::BadInput`] for a camera that can't be opened or a model that is not installed,
/// [`Exit::NoRuntime`] without the program.
pub(super) fn run(args: &TuneArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    let mut command = trial_command(args, global)?;
    out.busy("watching, then comparing the models");
    let ended = run_within(&mut command, TIMEOUT, &|| false);
    out.end_live_line();
    let ended =
        ended.map_err(|e| Failure::new(Exit::NoRuntime, format!("can't start {PROGRAM}: {e}")))?;
    let ended = ended.ok_or_else(|| {
        let minutes = TIMEOUT.as_secs() / 60;
        Failure::failed(format!(
            "the trial did not end within {minutes} minutes; name fewer models with --model"
        ))
    })?;
    if global.verbose {
        out.aside(&ended.stderr);
    }
    let report = read_report(&ended)?;
    out.both(&report, || text(&report));
    Ok(())
}

fn trial_command(args: &TuneArgs, global: &Global) -> Result<Process, Failure> {
    let mut command = runtime_program::command(global)?;
    let seconds = args.seconds.to_string();
    command.args(["camera-trial", "--seconds", &seconds]);
    let classes = args.watch.iter().map(|class| class.trim());
    for class in classes.filter(|class| !class.is_empty()) {
        command.args(["--class", class]);
    }
    for model in &args.model {
        command.args(["--model", model]);
    }
    if let Some(folder) = &args.out {
        command.arg("--out").arg(folder);
    }
    if args.no_tls_verify {
        command.arg("--no-tls-verify");
    }
    command.args(["--", &args.camera]);
    Ok(command)
}

fn read_report(ended: &Ended) -> Result<CameraTrialReport, Failure> {
    let errors = &ended.stderr;
    match ended.status.code() {
        Some(0) => serde_json::from_str(&ended.stdout).map_err(|e| {
            let sentence = format!("{PROGRAM} printed no report ({e}); is it of another version?");
            Failure::failed(sentence)
        }),
        Some(2) => {
            let last = errors.lines().rfind(|line| !line.trim().is_empty());
            Err(Failure::input(last.unwrap_or("the trial failed")))
        }
        _ => {
            let sentence = format!("{PROGRAM} ended with {}", ended.status);
            Err(Failure::failed(sentence).with(errors.lines().map(str::to_owned)))
        }
    }
}

/// The report as text: the table, the proposal with its flags, and what the trial can't know.
fn text(report: &CameraTrialReport) -> String {
    let [width, height] = report.size;
    let mut lines = vec![format!(
        "{} frames of {width}x{height} over {:.0} s from {}",
        report.frames, report.seconds, report.source
    )];
    let headers = [
        "candidate",
        "ms/frame",
        "fps",
        "objects",
        "still",
        "doubtful",
        "tracks",
        "confidence",
        "smallest px",
        "differs",
    ];
    let rows = report.candidates.iter().map(row);
    lines.push(super::output::table(&headers, rows).trim_end().to_owned());
    lines.push(String::new());
    match report
        .proposed
        .and_then(|index| report.candidates.get(index))
    {
        Some(candidate) => {
            lines.push(format!("proposal: {}. {}", candidate.name(), report.reason));
            if let Some(source) = report.source_fps.filter(|source| *source > candidate.fps) {
                lines.push(format!(
                    "  This machine keeps up with {:.1} of the source's {source:.0} frames per second.",
                    candidate.fps
                ));
            }
            lines.push(format!("  {}", flags(candidate, &report.classes)));
        }
        None => lines.push(format!("no proposal: {}", report.reason)),
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(
        report
            .pictures
            .iter()
            .map(|path| format!("picture: {path}")),
    );
    lines.join("\n")
}

/// Objects, still objects and doubtful boxes are means of a frame.
fn row(candidate: &TrialCandidate) -> Vec<String> {
    let some = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    vec![
        candidate.name(),
        format!("{:.1}", candidate.ms_per_frame),
        format!("{:.1}", candidate.fps),
        format!("{:.2}", candidate.objects_per_frame),
        format!("{:.2}", candidate.still_per_frame),
        format!("{:.2}", candidate.doubtful_per_frame),
        candidate.tracks.to_string(),
        some(candidate.mean_confidence, 2),
        some(candidate.smallest_px, 0),
        candidate
            .disagreement
            .map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
    ]
}

/// The flags of `watchkeeper run` for a candidate, and the properties of a detection step.
fn flags(candidate: &TrialCandidate, classes: &[String]) -> String {
    let mut flags = format!("run with --model {}", quoted(&candidate.model));
    let mut step = format!("model_id {:?}", candidate.model);
    if let Some(tiles) = &candidate.tiles {
        flags.push_str(&format!(" --tiles {tiles}"));
        step = format!("watchkeeper/tiled_object_detection@v1: {step}, tiles {tiles:?}");
    }
    let classes = match classes {
        [] => "all".to_owned(),
        some => some.join(","),
    };
    flags.push_str(&format!(" --watch {}", quoted(&classes)));
    format!("{flags}\n  or, in a workflow, {step}")
}

/// A word of a shell command, in quotes where it needs them.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(proposed: Option<usize>) -> CameraTrialReport {
        CameraTrialReport {
            source: "rtsp://***@gate/1".to_owned(),
            size: [1920, 1080],
            source_fps: Some(25.0),
            frames: 50,
            seconds: 9.8,
            dark_frames: 0,
            classes: vec!["person".to_owned()],
            candidates: vec![TrialCandidate {
                model: "yolox-nano".to_owned(),
                tiles: Some("3x2".to_owned()),
                ms_per_frame: 140.0,
                fps: 5.0,
                objects_per_frame: 3.25,
                still_per_frame: 1.0,
                doubtful_per_frame: 0.5,
                tracks: 7,
                mean_confidence: Some(0.61),
                smallest_px: None,
                disagreement: Some(0.125),
            }],
            proposed,
            reason: "It finds most.".to_owned(),
            pictures: vec!["out/side-by-side.jpg".to_owned()],
            notes: vec!["All frames were light.".to_owned()],
        }
    }

    #[test]
    fn proposal_comes_with_its_flags() {
        let text = text(&report(Some(0)));
        for part in [
            "yolox-nano, tiles 3x2",
            "3.25",
            "run with --model yolox-nano --tiles 3x2 --watch person",
            "watchkeeper/tiled_object_detection@v1: model_id \"yolox-nano\", tiles \"3x2\"",
            "note: All frames were light.",
            "picture: out/side-by-side.jpg",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn flags_are_quoted_for_a_shell() {
        let mut report = report(Some(0));
        report.candidates[0].model = "my models/it's.onnx".to_owned();
        report.classes = Vec::new();
        let text = text(&report);
        let expected = r"--model 'my models/it'\''s.onnx' --tiles 3x2 --watch all";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn trial_without_proposal_gives_the_reason() {
        let text = text(&report(None));
        assert!(text.contains("no proposal: It finds most."), "{text}");
        assert!(!text.contains("--model"), "{text}");
    }
}
