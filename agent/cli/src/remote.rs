//! Commands that query the runtime of this box: status, sources, pipelines, frames and media.
//!
//! - `--json` prints the runtime's own answer; the text is a summary of it.
//!
//! Not here: a runtime that does not answer (`runtime_absence`), the agent (`agent_health`).

use std::path::PathBuf;

use serde_json::json;
use watchkeeper_config::Config;
use watchkeeper_contract::health::{Health, HealthState};
use watchkeeper_contract::id::{DisplayName, PipelineId};
use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus, RateLimit};
use watchkeeper_contract::source::{
    Pace, RtspTransport, SourceCounters, SourceSpec, SourceState, SourceStatus,
};

use super::agent_health::AgentHealth;
use super::args::{
    FrameAction, FrameKeepArgs, FrameSaveArgs, Global, MediaAction, MediaGetArgs, PipelineAction,
    SourceAction,
};
use super::backend_changes;
use super::discovery;
use super::doctor;
use super::dry_run;
use super::exit::Failure;
use super::local_cameras;
use super::look_rates;
use super::output::Output;
use super::pipeline_file::read_definition;
use super::privacy;
use super::reasons::{failure, not_in_tables, print_reasons, without_causes_of_sources};
use super::runtime_absence;
use super::source_path::absolute_uri;
use super::tune;
use super::user_file::{require_jpeg_name, write_file, write_new_file};
use watchkeeper_assistant::wording::{changed_pipeline, duration, local_time};
use watchkeeper_client::RuntimeClient;

pub(super) async fn status(
    client: &RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let health = runtime_absence::health_or_show(client, config, out).await?;
    let sources = client.sources().await?;
    let pipelines = client.pipelines().await?;
    let agent = AgentHealth::ask(config).await;
    let machine = doctor::clock_and_disk(config);
    out.object(&json!({
        "health": health, "agent": agent.to_json(), "machine": machine, "sources": sources,
        "pipelines": pipelines,
    }));
    show_status(&health, &sources, &pipelines, out);
    out.line("");
    agent.lines().into_iter().for_each(|line| out.line(line));
    machine.iter().for_each(|finding| out.line(finding.text()));
    Ok(())
}

/// Prints the status as text.
pub(super) fn show_status(
    health: &Health,
    sources: &[SourceStatus],
    pipelines: &[PipelineStatus],
    out: &Output,
) {
    let state = match health.state {
        HealthState::Up => "",
        HealthState::Degraded => "degraded, ",
    };
    out.line(format!(
        "runtime {}: {state}up for {}, pid {}, last event {}",
        health.version,
        duration(health.uptime_s),
        health.pid,
        health.last_seq
    ));
    let pipelines = without_causes_of_sources(health, pipelines);
    for sentence in not_in_tables(health).into_iter().chain(&health.notes) {
        out.line(format!("  {sentence}"));
    }
    let effects = &health.effects;
    if effects.waiting + effects.taken + effects.refused + effects.failed > 0 {
        out.line(format!(
            "effects of workflows: {} waiting, {} done, {} refused, {} failed",
            effects.waiting, effects.done, effects.refused, effects.failed
        ));
    }
    if let Some(last) = effects.last_failed.last() {
        out.line(format!(
            "  last failure, step {} of pipeline {}: {}",
            last.step, last.pipeline, last.why
        ));
    }
    if !sources.is_empty() {
        out.line("");
        source_table(sources, out);
    }
    if !pipelines.is_empty() {
        out.line("");
        pipeline_table(&pipelines, out);
    }
}

pub(super) async fn sources(
    action: Option<SourceAction>,
    client: &RuntimeClient,
    global: &Global,
    out: &Output,
) -> Result<(), Failure> {
    match action.unwrap_or(SourceAction::List) {
        SourceAction::List => {
            let sources = client.sources().await?;
            sources.iter().for_each(|source| out.object(source));
            source_table(&sources, out);
            local_cameras::print_unused(&sources, out).await;
        }
        // These need no runtime.
        SourceAction::Tune(args) => tune::run(&args, global, out)?,
        SourceAction::Devices => local_cameras::devices(out),
        SourceAction::Find(args) => discovery::run(&args, out)?,
        SourceAction::Show { id } => {
            let source = client.source(&id).await?;
            source_table(std::slice::from_ref(&source), out);
            local_cameras::show(&source, out)?;
        }
        SourceAction::Set(args) => local_cameras::set(args, client, out).await?,
        SourceAction::Add {
            id,
            uri,
            name,
            native,
            max_fps,
            udp,
            no_tls_verify,
            stall,
        } => {
            let spec = SourceSpec {
                name,
                pace: if native { Pace::Native } else { Pace::Fast },
                max_fps,
                rtsp_transport: if udp {
                    RtspTransport::Udp
                } else {
                    RtspTransport::Tcp
                },
                tls_verify: !no_tls_verify,
                stall_s: stall,
                ..SourceSpec::new(id, absolute_uri(uri, out)?)
            };
            let verb = match client.source(&spec.id).await {
                Ok(_) => "Replaced",
                Err(_) => "Added",
            };
            let status = client.put_source(&spec).await?;
            out.both(&status, || match &status.state {
                SourceState::Idle => {
                    format!("{verb} camera {} (idle until a pipeline uses it)", spec.id)
                }
                state => format!("{verb} camera {} ({})", spec.id, source_state(state)),
            });
        }
        SourceAction::Remove { id } => {
            client.delete_source(&id).await?;
            out.both(&json!({"removed": id}), || format!("Removed camera {id}"));
        }
    }
    Ok(())
}

pub(super) async fn pipelines(
    action: Option<PipelineAction>,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let changed = match action.unwrap_or(PipelineAction::List) {
        PipelineAction::List => {
            let pipelines = client.pipelines().await?;
            pipelines.iter().for_each(|pipeline| out.object(pipeline));
            pipeline_table(&pipelines, out);
            return Ok(());
        }
        PipelineAction::Show { id } => {
            let status = client.pipeline(&id).await?;
            out.object(&status);
            show_pipeline(&status, out);
            return Ok(());
        }
        PipelineAction::Delete { id } => {
            client.delete_pipeline(&id).await?;
            out.both(&json!({"removed": id}), || format!("Deleted pipeline {id}"));
            return Ok(());
        }
        PipelineAction::Create { file } => {
            let spec = read_definition(&file)?;
            out.busy(format!("deploying {}", spec.id));
            client.put_pipeline(&spec).await?
        }
        PipelineAction::Try(args) => return dry_run::run(args, client, out).await,
        PipelineAction::Pause { id, until } => {
            out.busy(format!("pausing {id}"));
            client.pause_pipeline(&id, until).await?
        }
        PipelineAction::Resume { id } => {
            out.busy(format!("resuming {id}"));
            client.resume_pipeline(&id).await?
        }
    };
    out.end_live_line();
    out.both(&changed, || describe_change(&changed));
    Ok(())
}

/// Describes a changed pipeline and its warnings, one a line.
fn describe_change(changed: &PipelineStatus) -> String {
    std::iter::once(changed_pipeline(changed))
        .chain(warning_lines(changed))
        .collect::<Vec<_>>()
        .join("\n")
}

fn warning_lines(status: &PipelineStatus) -> impl Iterator<Item = String> {
    let warnings = status.warnings.iter();
    warnings.map(|warning| format!("warning: {}", warning.message))
}

pub(super) async fn frame(
    action: &FrameAction,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    match action {
        FrameAction::Save(args) => frame_save(args, client, out).await,
        FrameAction::Keep(args) => frame_keep(args, client, out).await,
    }
}

async fn frame_save(
    args: &FrameSaveArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    args.output.as_deref().map_or(Ok(()), require_jpeg_name)?;
    let (name, bytes) = match (&args.source, &args.pipeline) {
        (_, Some(pipeline)) => (pipeline.as_str(), client.pipeline_frame(pipeline).await?),
        (Some(source), None) => match client.source_frame(source).await {
            Err(error) if error.is_not_found() => {
                let name = PipelineId::new(source.as_str());
                let is_pipeline = match name {
                    Ok(name) => client.pipeline(&name).await.is_ok(),
                    Err(_) => false,
                };
                let hint = format!("{source} is a pipeline: use --pipeline {source}");
                return Err(Failure::from(error).with(is_pipeline.then_some(hint)));
            }
            answer => (source.as_str(), answer?),
        },
        (None, None) => {
            return Err(Failure::input(
                "no camera given; name one, or a pipeline with --pipeline",
            ));
        }
    };
    let file = match &args.output {
        Some(file) => {
            write_file(file, &bytes)?;
            file.clone()
        }
        None => {
            let file = PathBuf::from(format!("{name}.jpg"));
            write_new_file(&file, &bytes)?;
            file
        }
    };
    let written = json!({"file": file, "bytes": bytes.len()});
    out.both(&written, || {
        format!("Saved {} ({} bytes)", file.display(), bytes.len())
    });
    Ok(())
}

async fn frame_keep(
    args: &FrameKeepArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    args.output.as_deref().map_or(Ok(()), require_jpeg_name)?;
    let kept = client.snapshot(&args.source).await?;
    if let Some(output) = &args.output {
        write_file(output, &client.media(&kept.id).await?)?;
    }
    out.both(&kept, || {
        let copy = args.output.as_ref();
        let copy = copy.map_or_else(String::new, |path| {
            format!(", copied to {}", path.display())
        });
        format!(
            "Kept as {} ({} bytes, sha256 {}){copy}",
            kept.id, kept.bytes, kept.sha256
        )
    });
    Ok(())
}

pub(super) async fn media(
    action: &MediaAction,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let MediaAction::Get(MediaGetArgs { id, output }) = action;
    let bytes = client.verified_media(id).await?;
    write_file(output, &bytes)?;
    let written = json!({"id": id, "file": output, "bytes": bytes.len()});
    out.both(&written, || {
        format!("Saved {} ({} bytes)", output.display(), bytes.len())
    });
    Ok(())
}

/// Formats an id with its display name, if there is one.
fn id_with_name(id: &str, name: Option<&DisplayName>) -> String {
    name.map_or_else(|| id.to_owned(), |name| format!("{id} ({name})"))
}

pub(super) fn source_table(sources: &[SourceStatus], out: &Output) {
    let rows = sources.iter().map(|source| {
        let size = source
            .size
            .map_or_else(|| "–".to_owned(), |[w, h]| format!("{w}x{h}"));
        vec![
            id_with_name(source.spec.id.as_str(), source.spec.name.as_ref()),
            source_state_name(&source.state),
            local_time(source.since.unix_ms),
            size,
            match source.spec.max_fps {
                Some(max) => format!("{} (uses {max})", format_fps(&source.counters)),
                None => format_fps(&source.counters),
            },
            source.counters.frames.to_string(),
            source.counters.dropped.to_string(),
            source.spec.uri.clone(),
        ]
    });
    let headers = [
        "camera", "state", "since", "size", "fps", "frames", "dropped", "address",
    ];
    out.table(&headers, rows);
    let states = sources.iter().map(|source| {
        (
            source.spec.id.as_str(),
            source_reason(&source.state),
            source.note.as_deref(),
        )
    });
    print_reasons(states, out);
    for source in sources {
        if let Some(decoder) = source.decoder.as_ref().filter(|d| d.hardware) {
            out.line(format!(
                "  {}: decoded by {}",
                source.spec.id, decoder.element
            ));
        }
        if let Some(why) = source.decoder.as_ref().and_then(|d| d.fallback.as_ref()) {
            out.line(format!(
                "  {}: decoded on the processor: {why}",
                source.spec.id
            ));
        }
        if let Some(mask) = &source.privacy {
            out.line(format!("  {}: {}", source.spec.id, privacy::describe(mask)));
        }
    }
}

/// Formats a rate; that of frames of less than a second is none yet.
fn format_fps(counters: &SourceCounters) -> String {
    match counters.frames == 0 || (counters.frames as f64) < counters.fps {
        true => "–".to_owned(),
        // The decaying meter of a stopped camera may be `-0`.
        false => format!("{:.1}", counters.fps.max(0.0)),
    }
}

fn source_state(state: &SourceState) -> String {
    let name = source_state_name(state);
    match source_reason(state) {
        Some(reason) => format!("{name}: {reason}"),
        None => name,
    }
}

fn source_state_name(state: &SourceState) -> String {
    match state {
        SourceState::Connecting { attempt } => format!("connecting ({attempt})"),
        SourceState::Live { blind: Some(how) } => format!("live, {}", how.name()),
        other => other.name().to_owned(),
    }
}

fn source_reason(state: &SourceState) -> Option<String> {
    match state {
        SourceState::Lost {
            message,
            retry_in_s,
            ..
        } => Some(match retry_in_s.round() >= 1.0 {
            true => format!("{message}; retry in {retry_in_s:.0} s"),
            false => format!("{message}; retrying"),
        }),
        SourceState::Failed { message, .. } => Some(message.clone()),
        _ => None,
    }
}

/// Returns the state of a pipeline without its reason, and when its pause ends automatically.
fn state_with_end(pipeline: &PipelineStatus) -> String {
    let state = match (&pipeline.state, pipeline.looks.and_then(|it| it.limited_by)) {
        (PipelineState::Running, Some(RateLimit::Camera)) => "no picture".to_owned(),
        (PipelineState::Running, Some(RateLimit::Disk)) => "waits for the disk".to_owned(),
        (state, _) => state.name().to_owned(),
    };
    match pipeline.paused_until {
        Some(until) => format!("{state} until {}", local_time(until.as_millisecond())),
        None => state,
    }
}

pub(super) fn pipeline_table(pipelines: &[PipelineStatus], out: &Output) {
    let rows = pipelines.iter().map(|pipeline| {
        vec![
            id_with_name(pipeline.spec.id.as_str(), pipeline.spec.name.as_ref()),
            state_with_end(pipeline),
            pipeline.spec.source.to_string(),
            pipeline.detector.clone().unwrap_or_else(|| "–".to_owned()),
            pipeline.results.frames.to_string(),
            pipeline.results.tracks.to_string(),
            pipeline.results.events.to_string(),
        ]
    });
    let headers = [
        "pipeline", "state", "camera", "detector", "frames", "tracks", "events",
    ];
    out.table(&headers, rows);
    let states = pipelines.iter().map(|pipeline| {
        let (id, note) = (pipeline.spec.id.as_str(), pipeline.note.as_deref());
        (id, failure(&pipeline.state), note)
    });
    print_reasons(states, out);
    backend_changes::print(pipelines, out);
    look_rates::print(pipelines, out);
}

fn show_pipeline(status: &PipelineStatus, out: &Output) {
    pipeline_table(std::slice::from_ref(status), out);
    let results = &status.results;
    let lines = results
        .lines
        .iter()
        .map(|(name, count)| vec![name.clone(), count.r#in.to_string(), count.out.to_string()]);
    if !results.lines.is_empty() {
        out.line("");
        out.table(&["line", "in", "out"], lines);
    }
    let zones = results.zones.iter().map(|(name, zone)| {
        vec![
            name.clone(),
            zone.count.to_string(),
            zone.present.to_string(),
        ]
    });
    if !results.zones.is_empty() {
        out.line("");
        out.table(&["zone", "visits", "present"], zones);
    }
    let stages = results
        .stages_ms
        .iter()
        .map(|(name, ms)| vec![name.clone(), format!("{ms:.2}")]);
    if !results.stages_ms.is_empty() {
        out.line("");
        out.table(&["stage", "ms per frame"], stages);
    }
    warning_lines(status).for_each(|line| out.line(line));
    if results.unwatched > 0 {
        out.line(format!(
            "warning: objects beyond the limit of a zone were ignored {} times",
            results.unwatched
        ));
    }
    for (step, error) in &results.step_errors {
        out.line(format!(
            "step {step} failed {} times: {}",
            error.count, error.message
        ));
    }
}

#[cfg(test)]
mod tests;
