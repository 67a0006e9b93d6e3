//! `watchkeeper run`: the whole house for one watch.
//!
//! Flags are checked into a [`request`], the daemons are started in a temporary [`sandbox`], the source and the pipeline
//! are created, the run is [`follow`]ed to its end, and everything is put away again.

mod broker;
mod children;
mod delivery;
mod drawing;
mod follow;
mod format_event;
mod pending_effects;
mod request;
mod sandbox;
mod summary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use watchkeeper_config::Config;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec, PipelineState};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::source::{RtspTransport, SourceSpec};
pub use watchkeeper_engine::templates::shape;
use watchkeeper_engine::templates::watch as plan;
use watchkeeper_models::Zoo;

use broker::BrokerAddress;
pub(crate) use children::find;
use follow::{Followed, Outcome};
use request::RunRequest;
use sandbox::House;
use summary::Summary;

use super::args::{Global, RunArgs};
use super::configuration::{read_for_run, read_without_broker};
use super::exit::{Exit, Failure};
use super::output::Output;
use watchkeeper_client::ClientError;

/// How long the runtime may take to finish the video file. It gives up by itself after half a minute, and says why.
const FINISH_VIDEO: Duration = Duration::from_secs(45);

/// The workflow that lines, zones and classes make for a network.
///
/// # Errors
/// The name that two of them have, or a class that is none.
pub fn workflow_of(
    lines: &[shape::NamedLine],
    zones: &[shape::NamedZone],
    classes: &[String],
) -> Result<serde_json::Value, String> {
    let watch = plan::Watch {
        classes: classes.to_vec(),
        lines: lines.to_vec(),
        zones: zones.to_vec(),
        confidence: None,
        counts: Vec::new(),
    };
    plan::unique_names(&watch).map_err(|e| e.to_string())?;
    plan::plain_classes(&watch).map_err(|e| e.to_string())?;
    Ok(plan::workflow(&watch, "yolox-nano"))
}

/// The configuration of a run: the box's own, but for the broker.
///
/// # Errors
/// What is wrong with it, or with the address in `--mqtt`.
pub(super) fn configuration(args: &RunArgs, global: &Global) -> Result<Config, Failure> {
    match args.mqtt.as_deref().map(BrokerAddress::parse).transpose()? {
        Some(broker) => read_for_run(global, |request| broker.onto(request)),
        None => read_without_broker(global),
    }
}

/// Runs one watch from the flags to the summary.
///
/// # Errors
/// [`Failure`] with the exit code of its kind.
pub(super) async fn run(
    args: &RunArgs,
    config: &Config,
    out: &Output,
    verbose: bool,
) -> Result<(), Failure> {
    let zoo = Zoo::with_dirs(config.models.folders());
    let request = request::check(args, &zoo, config.models.default.as_deref())?;
    for note in &request.notes {
        out.note(note);
    }
    if let Some(video) = request.video.as_ref().filter(|video| video.exists()) {
        out.note(format!(
            "{} is there already and will be written over",
            video.display()
        ));
    }
    let keep = request.keep_state.as_deref();
    out.busy("starting");
    let mut house = House::open(config, keep, verbose).await?;
    let ended = watch(&mut house, &request, out).await;
    let undelivered = house.close(out).await;
    let Outcome { results, failure } = ended?;
    match failure {
        // Without a frame, or with a request that makes no sense for this picture, there is nothing to sum up.
        Some(failure) if results.frames == 0 || failure.exit == Exit::BadInput => Err(failure),
        failure => {
            let summary = Summary::from(&results);
            let summary = match &args.workflow {
                Some(_) => summary.with_outputs(&results),
                None => summary,
            };
            out.both(&summary, || summary.text());
            failure.or(undelivered).map_or(Ok(()), Err)
        }
    }
}

async fn watch(house: &mut House, request: &RunRequest, out: &Output) -> Result<Outcome, Failure> {
    let source = name(SourceId::new("source"))?;
    let pipeline = name(PipelineId::new("watch"))?;
    house
        .client
        .put_source(&SourceSpec {
            id: source.clone(),
            name: None,
            uri: request.uri.clone(),
            pace: request.pace,
            max_fps: None,
            rtsp_transport: RtspTransport::default(),
            tls_verify: request.tls_verify,
            stall_s: None,
        })
        .await?;
    out.busy("loading the model");
    house
        .client
        .put_pipeline(&PipelineSpec {
            id: pipeline.clone(),
            name: None,
            source: source.clone(),
            workflow: request.workflow.clone(),
            parameters: BTreeMap::new(),
            model: request.model.clone(),
            rules: request.rules.clone(),
            detect: DetectMode::default(),
            record: request.video.is_some(),
            show: request.show,
            stop_after_s: request.seconds,
            paused: true,
        })
        .await?;
    let followed = Followed {
        source,
        pipeline,
        is_local: request.is_local,
        seconds: request.seconds,
        gathers: request.rules.is_none(),
    };
    let mut outcome = follow::follow(house, &followed, out).await?;
    if let (Some(video), true) = (&request.video, outcome.results.frames > 0)
        && let Err(failure) = fetch_video(house, &followed.pipeline, video, out).await
    {
        outcome.failure.get_or_insert(failure);
    }
    Ok(outcome)
}

/// Names written in this file are valid; a change that breaks one is found by every run.
fn name<T, E: std::fmt::Display>(parsed: Result<T, E>) -> Result<T, Failure> {
    parsed.map_err(|e| Failure::new(Exit::Failed, e.to_string()))
}

/// Copies the annotated video out of the state folder, waiting until its files are finished. What a camera showed in another size, or after the
/// disk was full for a while, is in files of its own beside it.
async fn fetch_video(
    house: &House,
    pipeline: &PipelineId,
    video: &Path,
    out: &Output,
) -> Result<(), Failure> {
    let bar = out.live_line();
    bar.set_message("finishing the video");
    let fetched = fetch_parts(house, pipeline, video).await;
    out.end_live_line();
    let parts: Vec<String> = fetched?.iter().map(|p| p.display().to_string()).collect();
    out.note(match &parts[..] {
        [one] => format!("the annotated video is {one}"),
        many => format!(
            "the annotated video is in {} parts, because the size of the picture changed or the disk was full: {}",
            many.len(),
            many.join(", ")
        ),
    });
    Ok(())
}

async fn fetch_parts(
    house: &House,
    pipeline: &PipelineId,
    video: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let deadline = tokio::time::Instant::now() + FINISH_VIDEO;
    while tokio::time::Instant::now() < deadline {
        match house.client.pipeline(pipeline).await?.state {
            PipelineState::Ended | PipelineState::Paused | PipelineState::Failed { .. } => break,
            PipelineState::Starting | PipelineState::Running => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let folder = match video.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let cannot = |e: std::io::Error| {
        Failure::new(
            Exit::Failed,
            format!("can't write {}: {e}", video.display()),
        )
    };
    let mut parts = Vec::new();
    loop {
        let number = parts.len() + 1;
        let part = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
        let mut file = tokio::fs::File::from_std(part.reopen().map_err(cannot)?);
        let fetched = house
            .client
            .recording(pipeline, Some(number), &mut file)
            .await;
        let content_type = match fetched {
            Ok(content_type) => content_type,
            Err(e) if number > 1 && is_no_part(&e) => return Ok(parts),
            Err(e) => return Err(e.into()),
        };
        let video = as_it_is(video, content_type.as_deref());
        readable_by_all(part.as_file()).map_err(cannot)?;
        parts.push(keep_part(part, &video, number).map_err(cannot)?);
    }
}

/// Whether the runtime said that there is no such part; a part that is there and can't be read is another matter.
fn is_no_part(error: &ClientError) -> bool {
    error
        .problem()
        .is_some_and(|p| p.code == ProblemCode::NotFound && p.field.as_deref() == Some("part"))
}

/// The name of a video by what is in it: a box without an encoder for MP4 writes WebM.
fn as_it_is(video: &Path, content_type: Option<&str>) -> PathBuf {
    match content_type {
        Some("video/webm") => video.with_extension("webm"),
        _ => video.to_owned(),
    }
}

/// Puts a part where it belongs and answers where that is. The first one takes the place of what is there, as the person who named it asked;
/// nobody named the others, so each takes the next name that is free.
fn keep_part(
    mut part: tempfile::NamedTempFile,
    video: &Path,
    number: usize,
) -> std::io::Result<PathBuf> {
    if number == 1 {
        part.persist(video).map_err(|e| e.error)?;
        return Ok(video.to_owned());
    }
    for number in number.. {
        let path = part_path(video, number);
        match part.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(e) if e.error.kind() == std::io::ErrorKind::AlreadyExists => part = e.file,
            Err(e) => return Err(e.error),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// `out.mp4`, then `out-2.mp4` and so on.
fn part_path(video: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return video.to_owned();
    }
    let stem = video.file_stem().unwrap_or_default().to_string_lossy();
    let extension = video.extension().unwrap_or_default().to_string_lossy();
    video.with_file_name(format!("{stem}-{number}.{extension}"))
}

/// A temporary file is private; a video that a person asked for has the usual permissions.
fn readable_by_all(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::problem::Problem;

    use super::*;

    #[test]
    fn only_the_file_that_was_named_is_written_over() {
        let dir = tempfile::tempdir().expect("dir");
        let video = dir.path().join("gate.mp4");
        let others = dir.path().join("gate-2.mp4");
        for path in [&video, &others] {
            std::fs::write(path, "before").expect("write");
        }
        let keep = |number| {
            let part = tempfile::NamedTempFile::new_in(dir.path()).expect("a part");
            keep_part(part, &video, number).expect("kept")
        };
        assert_eq!(keep(1), video);
        assert_eq!(keep(2), dir.path().join("gate-3.mp4"));
        assert_eq!(keep(3), dir.path().join("gate-4.mp4"));
        assert_eq!(std::fs::read(&video).expect("read"), b"");
        assert_eq!(std::fs::read(&others).expect("read"), b"before");
    }

    #[test]
    fn a_part_that_can_not_be_read_is_no_end_of_the_video() {
        let not_found = |field: Option<&str>| {
            let mut problem = Problem::new(404, ProblemCode::NotFound, "gone");
            problem.field = field.map(str::to_owned);
            ClientError::Refused(Box::new(problem))
        };
        assert!(is_no_part(&not_found(Some("part"))));
        assert!(!is_no_part(&not_found(None)));
    }

    #[test]
    fn a_video_is_named_after_what_is_in_it() {
        let named = |content_type| as_it_is(Path::new("/videos/gate.mp4"), Some(content_type));
        assert_eq!(named("video/mp4"), Path::new("/videos/gate.mp4"));
        assert_eq!(named("video/webm"), Path::new("/videos/gate.webm"));
    }

    #[test]
    fn further_parts_of_a_video_lie_beside_the_first() {
        let path = |number| part_path(Path::new("/videos/gate.mp4"), number);
        assert_eq!(path(1), Path::new("/videos/gate.mp4"));
        assert_eq!(path(2), Path::new("/videos/gate-2.mp4"));
    }
}
