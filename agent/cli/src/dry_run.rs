//! `watchkeeper pipelines try`: a pipeline on the camera, a clip or a file, without trace.

use serde_json::Value;
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::workflow::{DryRun, DryRunReport};

use super::args::PipelineTryArgs;
use super::exit::Failure;
use super::journal_record::record;
use super::output::Output;
use super::pipeline_file::read_definition;
use watchkeeper_assistant::proposal::trial::TrialStats;

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
    out.both(&report, || describe(&report, &wanted.pipeline.workflow));
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

fn describe(report: &DryRunReport, workflow: &Value) -> String {
    let mut lines = TrialStats::from_report(report, workflow).parts();
    lines.extend(report.events.iter().map(|event| {
        let (rule, reason) = (&event.event.rule, &event.event.reason);
        let at = event.event.pts_s;
        format!(
            "{at:.1} s {rule}: {reason} ({})",
            event.decision.verdict.name()
        )
    }));
    let warnings = report.warnings.iter();
    lines.extend(warnings.map(|w| format!("warning: {}", w.message)));
    lines.join("\n")
}
