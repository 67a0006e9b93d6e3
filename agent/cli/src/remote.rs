//! Commands that ask the runtime of this box: status, sources, pipelines, frames, blocks.

use serde_json::json;
use watchkeeper_config::address::Address;
use watchkeeper_config::bounded;
use watchkeeper_contract::health::{Health, HealthState};
use watchkeeper_contract::id::{DisplayName, PipelineId};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineStatus};
use watchkeeper_contract::source::{
    Blindness, Pace, RtspTransport, SourceSpec, SourceState, SourceStatus,
};
use watchkeeper_http::MAX_DEFINITION_BODY;

use super::args::{FrameArgs, MediaArgs, PipelineAction, SnapshotArgs, SourceAction};
use super::exit::{Exit, Failure};
use super::output::Output;
use watchkeeper_assistant::wording::{changed_pipeline, local_time, pipeline_state};
use watchkeeper_client::RuntimeClient;

/// `watchkeeper status`.
pub(super) async fn status(client: &RuntimeClient, out: &Output) -> Result<(), Failure> {
    let health = client.health().await?;
    let sources = client.sources().await?;
    let pipelines = client.pipelines().await?;
    out.object(&json!({"health": health, "sources": sources, "pipelines": pipelines}));
    show_status(&health, &sources, &pipelines, out);
    Ok(())
}

/// How the box is, for people.
pub(super) fn show_status(
    health: &Health,
    sources: &[SourceStatus],
    pipelines: &[PipelineStatus],
    out: &Output,
) {
    let state = match health.state {
        HealthState::Up => "up",
        HealthState::Degraded => "degraded",
    };
    out.line(format!(
        "runtime {} is {state}, for {}, pid {}, last event {}",
        health.version,
        duration(health.uptime_s),
        health.pid,
        health.last_seq
    ));
    for reason in &health.reasons {
        out.line(format!("  {reason}"));
    }
    let effects = &health.effects;
    if effects.waiting + effects.taken + effects.refused + effects.failed > 0 {
        out.line(format!(
            "sinks of workflows: {} waiting, {} done, {} refused, {} given up",
            effects.waiting, effects.done, effects.refused, effects.failed
        ));
    }
    if let Some(last) = effects.last_failed.last() {
        out.line(format!(
            "  the last given up, of step {} in pipeline {}: {}",
            last.step, last.pipeline, last.why
        ));
    }
    if !sources.is_empty() {
        out.line("");
        source_table(sources, out);
    }
    if !pipelines.is_empty() {
        out.line("");
        pipeline_table(pipelines, out);
    }
}

/// `watchkeeper sources`.
pub(super) async fn sources(
    action: Option<SourceAction>,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    match action.unwrap_or(SourceAction::List) {
        SourceAction::List => {
            let sources = client.sources().await?;
            sources.iter().for_each(|source| out.object(source));
            source_table(&sources, out);
        }
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
                id,
                name,
                uri: absolute(uri, out)?,
                pace: if native { Pace::Native } else { Pace::Fast },
                max_fps,
                rtsp_transport: if udp {
                    RtspTransport::Udp
                } else {
                    RtspTransport::Tcp
                },
                tls_verify: !no_tls_verify,
                stall_s: stall,
            };
            let status = client.put_source(&spec).await?;
            out.both(&status, || {
                format!("source {} is {}", spec.id, source_state(&status.state))
            });
        }
        SourceAction::Remove { id } => {
            client.delete_source(&id).await?;
            out.both(&json!({"removed": id}), || {
                format!("source {id} is removed")
            });
        }
    }
    Ok(())
}

/// The runtime has another working folder: a file of ours needs its whole path.
fn absolute(uri: String, out: &Output) -> Result<String, Failure> {
    match Address::parse(&uri) {
        Ok(Address::Path(path)) => match path.canonicalize() {
            Ok(whole) => Ok(whole.display().to_string()),
            // Another folder than the runtime's would be meant.
            Err(error) if path.is_relative() => Err(Failure::input(format!(
                "can't find {uri} from this folder: {error}"
            ))),
            Err(error) => {
                out.note(format!(
                    "{}: {error}; whoever watches it fails, until it is there and the source is added again",
                    path.display()
                ));
                Ok(uri)
            }
        },
        Ok(Address::V4l2 { device, .. }) => {
            if let Err(error) = device.metadata() {
                out.note(format!(
                    "{}: {error}; it is tried again until it is there",
                    device.display()
                ));
            }
            Ok(uri)
        }
        // What is wrong with an address the runtime says.
        Ok(Address::Rtsp { .. } | Address::Http { .. } | Address::Demo(_)) | Err(_) => Ok(uri),
    }
}

/// `watchkeeper pipelines`.
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
            out.both(&json!({"removed": id}), || {
                format!("pipeline {id} is deleted")
            });
            return Ok(());
        }
        PipelineAction::Create { file } => {
            let most = MAX_DEFINITION_BODY as u64;
            let text = bounded::read_up_to(&file, most)
                .map_err(|e| Failure::input(format!("can't read {}: {e}", file.display())))?;
            let spec: PipelineSpec = serde_json::from_slice(bounded::without_mark(&text))
                .map_err(|e| Failure::input(format!("{} is no pipeline: {e}", file.display())))?;
            out.busy(format!("deploying {}", spec.id));
            client.put_pipeline(&spec).await?
        }
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
    out.both(&changed, || in_words(&changed));
    Ok(())
}

/// What a pipeline is after a change of it, and what works in another way than it may be meant: a line each.
fn in_words(changed: &PipelineStatus) -> String {
    std::iter::once(changed_pipeline(changed))
        .chain(warned(changed))
        .collect::<Vec<_>>()
        .join("\n")
}

fn warned(status: &PipelineStatus) -> impl Iterator<Item = String> {
    let warnings = status.warnings.iter();
    warnings.map(|warning| format!("warning: {}", warning.message))
}

/// `watchkeeper frame`.
pub(super) async fn frame(
    args: &FrameArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let bytes = match (&args.source, &args.pipeline) {
        (_, Some(pipeline)) => client.pipeline_frame(pipeline).await?,
        (Some(source), None) => match client.source_frame(source).await {
            Err(error) if error.is_not_found() => {
                let name = PipelineId::new(source.as_str());
                let is_pipeline = match name {
                    Ok(name) => client.pipeline(&name).await.is_ok(),
                    Err(_) => false,
                };
                let hint = format!("there is a pipeline of this name: --pipeline {source}");
                return Err(Failure::from(error).with(is_pipeline.then_some(hint)));
            }
            answer => answer?,
        },
        (None, None) => {
            return Err(Failure::input(
                "name a source, or a pipeline with --pipeline",
            ));
        }
    };
    write_file(&args.output, &bytes)?;
    let written = json!({"file": args.output, "bytes": bytes.len()});
    out.both(&written, || {
        format!("{}: {} bytes", args.output.display(), bytes.len())
    });
    Ok(())
}

/// `watchkeeper media`.
pub(super) async fn media(
    args: &MediaArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let bytes = client.media(&args.id).await?;
    write_file(&args.output, &bytes)?;
    let written = json!({"id": args.id, "file": args.output, "bytes": bytes.len()});
    out.both(&written, || {
        format!("{}: {} bytes", args.output.display(), bytes.len())
    });
    Ok(())
}

/// `watchkeeper snapshot`.
pub(super) async fn snapshot(
    args: &SnapshotArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
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
            "kept as {}: {} bytes, sha256 {}{copy}",
            kept.id, kept.bytes, kept.sha256
        )
    });
    Ok(())
}

fn write_file(path: &std::path::Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes)
        .map_err(|e| Failure::new(Exit::Failed, format!("can't write {}: {e}", path.display())))
}

/// A name and, where there is one, what people call it.
fn called(id: &str, name: Option<&DisplayName>) -> String {
    name.map_or_else(|| id.to_owned(), |name| format!("{id} ({name})"))
}

pub(super) fn source_table(sources: &[SourceStatus], out: &Output) {
    let rows = sources.iter().map(|source| {
        let size = source
            .size
            .map_or_else(|| "–".to_owned(), |[w, h]| format!("{w}x{h}"));
        vec![
            called(source.spec.id.as_str(), source.spec.name.as_ref()),
            short(&source_state(&source.state)),
            local_time(source.since.unix_ms),
            size,
            match source.spec.max_fps {
                Some(most) => format!("{}, at most {most} taken", rate(source.counters.fps)),
                None => rate(source.counters.fps),
            },
            source.counters.frames.to_string(),
            source.counters.dropped.to_string(),
            source.spec.uri.clone(),
        ]
    });
    let headers = [
        "source", "state", "since", "size", "fps", "frames", "dropped", "address",
    ];
    out.table(&headers, rows);
    let told = sources.iter().map(|source| {
        (
            source.spec.id.as_str(),
            source_state(&source.state),
            source.note.as_deref(),
        )
    });
    reasons(told, out);
}

/// Frames a second; a meter that has run down may say `-0`.
fn rate(fps: f64) -> String {
    format!("{:.1}", if fps > 0.0 { fps } else { 0.0 })
}

fn source_state(state: &SourceState) -> String {
    match state {
        SourceState::Connecting { attempt } => format!("connecting ({attempt})"),
        SourceState::Live { blind: None } => "live".to_owned(),
        SourceState::Live {
            blind: Some(Blindness::Frozen),
        } => "live, picture frozen".to_owned(),
        SourceState::Live {
            blind: Some(Blindness::Black),
        } => "live, picture black".to_owned(),
        SourceState::Lost {
            message,
            retry_in_s,
            ..
        } => match *retry_in_s > 0.0 {
            true => format!("lost: {message}; next attempt in {retry_in_s:.0} s"),
            false => format!("lost: {message}; trying again"),
        },
        SourceState::Ended => "ended".to_owned(),
        SourceState::Failed { message, .. } => format!("failed: {message}"),
        SourceState::Idle => "idle".to_owned(),
    }
}

/// The word of a state, without its reason: a sentence in a cell makes the whole table as wide.
fn short(state: &str) -> String {
    state
        .split_once(": ")
        .map_or(state, |(word, _)| word)
        .to_owned()
}

/// Below a table, the reasons of its states and what a person should know about them.
fn reasons<'a>(told: impl Iterator<Item = (&'a str, String, Option<&'a str>)>, out: &Output) {
    for (name, state, note) in told {
        let reason = state.split_once(": ").map(|(_, reason)| reason);
        for text in reason.into_iter().chain(note) {
            out.line(format!("  {name}: {text}"));
        }
    }
}

pub(super) fn pipeline_table(pipelines: &[PipelineStatus], out: &Output) {
    let rows = pipelines.iter().map(|pipeline| {
        vec![
            called(pipeline.spec.id.as_str(), pipeline.spec.name.as_ref()),
            short(&pipeline_state(&pipeline.state)),
            pipeline.spec.source.to_string(),
            pipeline.detector.clone().unwrap_or_else(|| "–".to_owned()),
            pipeline.results.frames.to_string(),
            pipeline.results.tracks.to_string(),
            pipeline.results.events.to_string(),
        ]
    });
    let headers = [
        "pipeline", "state", "source", "detector", "frames", "tracks", "events",
    ];
    out.table(&headers, rows);
    let told = pipelines.iter().map(|pipeline| {
        (
            pipeline.spec.id.as_str(),
            pipeline_state(&pipeline.state),
            pipeline.note.as_deref(),
        )
    });
    reasons(told, out);
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
        out.table(&["stage", "ms a frame"], stages);
    }
    warned(status).for_each(|line| out.line(line));
    if results.unwatched > 0 {
        out.line(format!(
            "rules had no place for another track {} times: they watch as many as they can",
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

/// A duration for people, in its two largest units.
fn duration(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, ..) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pipeline_warns_of_is_told_to_people_when_it_is_deployed() {
        let status: PipelineStatus = serde_json::from_value(json!({
            "spec": {"id": "gate", "source": "yard", "workflow": {}},
            "state": {"state": "running"},
            "since": {"unix_ms": 0, "quality": "synced"},
            "rules": [],
            "warnings": [{"kind": "class_filter", "message": "class_filter names \"persn\""}],
            "results": watchkeeper_contract::pipeline::PipelineResults::default(),
        }))
        .unwrap_or_else(|e| panic!("{e}"));
        let told = in_words(&status);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "pipeline gate is running",
                "warning: class_filter names \"persn\""
            ]
        );
    }

    #[test]
    fn what_is_there_is_found_however_its_address_is_written_and_a_relative_file_must_be_there() {
        let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let clip = dir.path().join("a b.mp4");
        std::fs::write(&clip, "").unwrap_or_else(|e| panic!("{e}"));
        let out = Output::new(false);
        let whole = clip.canonicalize().unwrap_or_else(|e| panic!("{e}"));
        let shown = Ok(whole.display().to_string());
        let plain = clip.display().to_string();
        assert_eq!(absolute(plain.clone(), &out), shown);
        let url = format!("file://{}", plain.replace(' ', "%20"));
        assert_eq!(absolute(url, &out), shown);
        let gone = absolute("no/such.mp4".to_owned(), &out);
        assert_eq!(gone.map_err(|f| f.exit), Err(Exit::BadInput));
        for as_it_is in [
            "/no/such.mp4",
            "v4l2:/dev/null?fps=5",
            "/dev/video99",
            "rtsp://cam/1",
        ] {
            assert_eq!(absolute(as_it_is.to_owned(), &out), Ok(as_it_is.to_owned()));
        }
    }

    #[test]
    fn a_duration_is_told_in_its_two_largest_units() {
        for (seconds, text) in [
            (5.9, "5 s"),
            (65.0, "1 min 5 s"),
            (3_700.0, "1 h 1 min"),
            (90_000.0, "1 d 1 h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
