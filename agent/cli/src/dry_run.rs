//! `watchkeeper pipelines try`: a pipeline on the camera, a clip or a file, without trace.

use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::workflow::{DryRun, DryRunReport};

use super::args::PipelineTryArgs;
use super::exit::Failure;
use super::journal_record::record;
use super::output::Output;
use super::pipeline_file::read_definition;
use watchkeeper_assistant::reviews::verdict_name;
use watchkeeper_assistant::wording::counted;

pub(super) async fn run(
    args: PipelineTryArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let pipeline = read_definition(&args.definition)?;
    // The runtime has another working folder.
    let file = args.file.as_deref().map(std::path::absolute).transpose();
    let file = file.map_err(|e| Failure::input(format!("can't find the current folder: {e}")))?;
    let clip = match args.clip {
        Some(text) => Some(clip_of(text, client).await?),
        None => None,
    };
    out.busy(format!("trying {}", pipeline.id));
    let wanted = DryRun {
        pipeline,
        seconds: args.seconds,
        clip,
        file: file.map(|file| file.display().to_string()),
    };
    let report = client.dry_run(&wanted).await?;
    out.end_live_line();
    out.both(&report, || describe(&report));
    Ok(())
}

/// The media id of a clip that is named so, or by the number of an event.
async fn clip_of(text: String, client: &RuntimeClient) -> Result<String, Failure> {
    let Ok(number) = text.parse::<u64>() else {
        return Ok(text);
    };
    let event = record(client, EventSeq(number)).await?;
    let clip = event.clip.map(|clip| clip.id);
    clip.ok_or_else(|| Failure::input(format!("event {number} has no clip")))
}

fn describe(report: &DryRunReport) -> String {
    let results = &report.results;
    let mut lines = vec![format!(
        "{:.1} s of video, {}, {}, {}",
        results.source_s,
        counted(results.frames, "frame"),
        counted(results.tracks, "track"),
        counted(results.events, "event")
    )];
    lines.extend(report.ended.iter().map(|why| format!("ended: {why}")));
    let counts = results.lines.iter();
    lines.extend(
        counts.map(|(name, line)| format!("line {name}: {} in, {} out", line.r#in, line.out)),
    );
    let zones = results.zones.iter();
    lines
        .extend(zones.map(|(name, zone)| format!("zone {name}: {}", counted(zone.count, "visit"))));
    lines.extend(report.events.iter().map(|event| {
        let (rule, reason) = (&event.event.rule, &event.event.reason);
        let at = event.event.pts_s;
        format!(
            "{at:.1} s {rule}: {reason} ({})",
            verdict_name(event.decision.verdict)
        )
    }));
    if report.more_events > 0 {
        lines.push(format!("and {}", counted(report.more_events, "more event")));
    }
    let failed = results.step_errors.iter();
    lines.extend(failed.map(|(step, error)| {
        format!(
            "step {step} failed {}: {}",
            counted(error.count, "time"),
            error.message
        )
    }));
    lines.extend(
        report
            .warnings
            .iter()
            .map(|w| format!("warning: {}", w.message)),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::pipeline::{PipelineResults, StepError};

    use super::*;

    #[test]
    fn one_is_singular() {
        let error = StepError {
            count: 1,
            message: "m".to_owned(),
        };
        let report = DryRunReport {
            results: PipelineResults {
                frames: 1,
                tracks: 1,
                events: 2,
                step_errors: [("s".to_owned(), error)].into(),
                ..PipelineResults::default()
            },
            more_events: 1,
            ..DryRunReport::default()
        };
        assert_eq!(
            describe(&report),
            "0.0 s of video, 1 frame, 1 track, 2 events\nand 1 more event\n\
             step s failed 1 time: m"
        );
    }
}
