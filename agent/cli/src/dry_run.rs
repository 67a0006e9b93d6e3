//! `watchkeeper pipelines try`: a pipeline on the camera, a clip or a file, without trace.

use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::workflow::{DryRun, DryRunReport};

use super::args::PipelineTryArgs;
use super::exit::Failure;
use super::output::Output;
use super::pipeline_file::read_definition;
use watchkeeper_assistant::reviews::verdict_name;

pub(super) async fn run(
    args: PipelineTryArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let pipeline = read_definition(&args.definition)?;
    // The runtime has another working folder.
    let file = args.file.as_deref().map(std::path::absolute).transpose();
    let file = file.map_err(|e| Failure::input(format!("can't find the current folder: {e}")))?;
    out.busy(format!("trying {}", pipeline.id));
    let wanted = DryRun {
        pipeline,
        seconds: args.seconds,
        clip: args.clip,
        file: file.map(|file| file.display().to_string()),
    };
    let report = client.dry_run(&wanted).await?;
    out.end_live_line();
    out.both(&report, || describe(&report));
    Ok(())
}

fn describe(report: &DryRunReport) -> String {
    let results = &report.results;
    let mut lines = vec![format!(
        "{:.1} s of video, {} frames, {} tracks, {} events",
        results.source_s, results.frames, results.tracks, results.events
    )];
    lines.extend(report.ended.iter().map(|why| format!("ended early: {why}")));
    let counts = results.lines.iter();
    lines.extend(
        counts.map(|(name, line)| format!("line {name}: {} in, {} out", line.r#in, line.out)),
    );
    let zones = results.zones.iter();
    lines.extend(zones.map(|(name, zone)| format!("zone {name}: {} visits", zone.count)));
    lines.extend(report.events.iter().map(|event| {
        let (rule, reason) = (&event.event.rule, &event.event.reason);
        let at = event.event.pts_s;
        format!(
            "{at:.1} s {rule}: {reason} ({})",
            verdict_name(event.decision.verdict)
        )
    }));
    if report.more_events > 0 {
        lines.push(format!("and {} more events", report.more_events));
    }
    let failed = results.step_errors.iter();
    lines.extend(failed.map(|(step, error)| {
        format!(
            "step {step} failed {} times: {}",
            error.count, error.message
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
