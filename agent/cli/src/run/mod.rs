//! `watchkeeper run`: starts its own daemons for one watch.
//!
//! Steps: check the flags ([`request`]), start the daemons ([`sandbox`]), create source and
//! pipeline. Then [`follow`] the run to its end, print the [`summary`], stop the daemons and remove
//! their state.

mod broker;
mod children;
mod delivery;
mod follow;
mod format_event;
mod notices;
mod pending_effects;
mod privacy;
mod request;
mod sandbox;
mod signals;
mod state_folders;
mod summary;
mod unanswered;
mod verdict;

use std::path::{Path, PathBuf};
use std::time::Duration;

use watchkeeper_config::{Config, LoadRequest, effective, load};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_models::Zoo;

use broker::BrokerAddress;
use follow::Outcome;
use request::RunRequest;
use sandbox::{RunEnvironment, RunSetup};
pub(crate) use signals::Signals;
use summary::Summary;
use verdict::RunTarget;

use super::args::{Global, RunArgs};
use super::configuration::{for_run, invalid, read_without_broker, without_broker};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::user_file::{new_file, place, place_new, unwritten};
use watchkeeper_client::ClientError;

/// Timeout of the video files' completion. The runtime itself fails after 30 s, with the reason.
const FINISH_VIDEO_TIMEOUT: Duration = Duration::from_secs(45);
/// Interval at which the status is polled meanwhile.
const FINISH_VIDEO_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Lists how to query the runs of this user, one line each.
pub(crate) fn other_sockets() -> Vec<String> {
    state_folders::running(&std::env::temp_dir())
}

/// The request for the configuration of a run: that of the box, with the broker of `--mqtt` or
/// without one.
fn load_request(args: &RunArgs, global: &Global) -> Result<LoadRequest, Failure> {
    Ok(match args.mqtt.as_deref() {
        Some(broker) => BrokerAddress::parse(broker)?.onto(for_run(global)),
        None => without_broker(global),
    })
}

/// Loads the configuration of a run.
///
/// # Errors
/// An invalid configuration or address.
pub(super) fn configuration(args: &RunArgs, global: &Global) -> Result<Config, Failure> {
    match args.mqtt {
        Some(_) => load(&load_request(args, global)?).map_err(|errors| invalid(&errors)),
        None => read_without_broker(global),
    }
}

pub(super) async fn run(
    args: &RunArgs,
    config: &Config,
    global: &Global,
    out: &Output,
) -> Result<(), Failure> {
    let zoo = Zoo::with_dirs(config.models.folders());
    let request = request::check(args, &zoo, config.models.default.as_deref())?;
    request.check_backend(crate::backends::named(global))?;
    for note in &request.notes {
        out.note(note);
    }
    if let Some(video) = request.video.as_ref().filter(|video| video.exists()) {
        out.note(format!(
            "{} exists and will be overwritten",
            video.display()
        ));
    }
    let keep = request.keep_state.as_deref();
    out.busy("starting");
    let mask = privacy::mask(&args.mask, config, &request.uri)?;
    if let Some(mask) = &mask {
        out.note(privacy::describe(mask));
    }
    let setup = RunSetup {
        config,
        written: effective(&load_request(args, global)?, config),
        mask: mask.as_ref(),
        keep,
        verbose: global.verbose,
    };
    let mut environment = RunEnvironment::open(setup).await?;
    let outcome = watch(&mut environment, &request, out).await;
    let undelivered = environment.close(out).await;
    let Outcome {
        results,
        detector,
        note,
        failure,
    } = outcome?;
    match failure {
        // Without a frame, or with a line outside the picture, a summary has no meaning.
        Some(failure) if results.frames == 0 || failure.exit == Exit::BadInput => Err(failure),
        failure => {
            let summary = Summary::from(&results).with_notes(detector, note);
            let summary = match &args.workflow {
                Some(_) => summary.with_outputs(&results),
                None => summary,
            };
            out.both(&summary, || summary.text());
            failure.or(undelivered).map_or(Ok(()), Err)
        }
    }
}

async fn watch(
    environment: &mut RunEnvironment,
    request: &RunRequest,
    out: &Output,
) -> Result<Outcome, Failure> {
    let source = valid_id(SourceId::new(privacy::SOURCE))?;
    let pipeline = valid_id(PipelineId::new("watch"))?;
    let client = &environment.client;
    client
        .put_source(&SourceSpec {
            pace: request.pace,
            tls_verify: request.tls_verify,
            ..SourceSpec::new(source.clone(), &request.uri)
        })
        .await?;
    out.busy("loading the model");
    client
        .put_pipeline(&PipelineSpec {
            model: request.model.clone(),
            rules: request.rules.clone(),
            record: request.video.is_some(),
            show: request.show,
            stop_after_s: request.seconds,
            ..PipelineSpec::new(pipeline.clone(), source.clone(), request.workflow.clone())
        })
        .await?;
    let target = RunTarget {
        source,
        pipeline,
        is_local: request.is_local,
        seconds: request.seconds,
        batches_events: request.rules.is_none(),
    };
    let mut outcome = follow::follow(environment, &target, out).await?;
    if let (Some(video), true) = (&request.video, outcome.results.frames > 0) {
        let fetched = tokio::select! {
            fetched = fetch_video(environment, &target.pipeline, video, out) => fetched,
            () = signals::next() => Err(Failure::failed("interrupted before the video was saved")),
        };
        if let Err(failure) = fetched {
            out.end_live_line();
            outcome.failure.get_or_insert(failure);
        }
    }
    Ok(outcome)
}

/// Unwraps an id that this file spells out; an invalid one fails every run.
fn valid_id<T, E: std::fmt::Display>(parsed: Result<T, E>) -> Result<T, Failure> {
    parsed.map_err(|e| Failure::failed(e.to_string()))
}

/// Waits for the annotated video and copies it out of the state folder.
///
/// A change of the picture's size, or a full disk, starts another file beside it.
async fn fetch_video(
    environment: &mut RunEnvironment,
    pipeline: &PipelineId,
    video: &Path,
    out: &Output,
) -> Result<(), Failure> {
    let bar = out.live_line();
    bar.set_message("finishing the video");
    let fetched = fetch_parts(environment, pipeline, video, out).await;
    out.end_live_line();
    let parts: Vec<String> = fetched?.iter().map(|p| p.display().to_string()).collect();
    out.note(match &parts[..] {
        [file] => format!("annotated video: {file}"),
        files => format!(
            "annotated video in {} parts, because the picture size changed or the disk was full: {}",
            files.len(),
            files.join(", ")
        ),
    });
    Ok(())
}

async fn fetch_parts(
    environment: &mut RunEnvironment,
    pipeline: &PipelineId,
    video: &Path,
    out: &Output,
) -> Result<Vec<PathBuf>, Failure> {
    let times = [FINISH_VIDEO_POLL_INTERVAL, FINISH_VIDEO_TIMEOUT];
    let status = environment.status(pipeline, out).await?;
    environment
        .wait_for_end(pipeline, status, times, out)
        .await?;
    let client = &environment.client;
    let cannot = unwritten::<std::io::Error>(video);
    let mut parts = Vec::new();
    loop {
        let number = parts.len() + 1;
        let part = new_file(video).map_err(cannot)?;
        let mut file = tokio::fs::File::from_std(part.reopen().map_err(cannot)?);
        let fetched = client.recording(pipeline, Some(number), &mut file).await;
        let content_type = match fetched {
            Ok(content_type) => content_type,
            Err(e) if number > 1 && is_missing_part(&e) => return Ok(parts),
            Err(e) => return Err(e.into()),
        };
        let video = with_extension_of(video, content_type.as_deref());
        parts.push(save_part(part, &video, number).map_err(cannot)?);
    }
}

/// Returns whether the part does not exist; an unreadable part is another error.
fn is_missing_part(error: &ClientError) -> bool {
    error
        .problem()
        .is_some_and(|p| p.code == ProblemCode::NotFound && p.field.as_deref() == Some("part"))
}

/// Adapts the extension to the content: a box without an MP4 encoder writes WebM.
fn with_extension_of(video: &Path, content_type: Option<&str>) -> PathBuf {
    match content_type {
        Some("video/webm") => video.with_extension("webm"),
        _ => video.to_owned(),
    }
}

/// Saves a part and returns its path.
///
/// The first part overwrites the file that the user named; each other part takes the next free
/// name.
fn save_part(
    mut part: tempfile::NamedTempFile,
    video: &Path,
    number: usize,
) -> std::io::Result<PathBuf> {
    if number == 1 {
        place(part, video)?;
        return Ok(video.to_owned());
    }
    for number in number.. {
        let path = part_path(video, number);
        match place_new(part, &path)? {
            Ok(()) => return Ok(path),
            Err(unplaced) => part = unplaced,
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// Returns `out.mp4` for part 1, `out-2.mp4` for part 2 and so on.
fn part_path(video: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return video.to_owned();
    }
    let stem = video.file_stem().unwrap_or_default().to_string_lossy();
    let extension = video.extension().unwrap_or_default().to_string_lossy();
    video.with_file_name(format!("{stem}-{number}.{extension}"))
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::problem::Problem;

    use super::*;

    #[test]
    fn only_the_named_file_is_overwritten() {
        let dir = tempfile::tempdir().expect("dir");
        let video = dir.path().join("gate.mp4");
        let others = dir.path().join("gate-2.mp4");
        for path in [&video, &others] {
            std::fs::write(path, "before").expect("write");
        }
        let save = |number| {
            let part = tempfile::NamedTempFile::new_in(dir.path()).expect("a part");
            save_part(part, &video, number).expect("saved")
        };
        assert_eq!(save(1), video);
        assert_eq!(save(2), dir.path().join("gate-3.mp4"));
        assert_eq!(save(3), dir.path().join("gate-4.mp4"));
        assert_eq!(std::fs::read(&video).expect("read"), b"");
        assert_eq!(std::fs::read(&others).expect("read"), b"before");
    }

    #[test]
    fn unreadable_part_does_not_end_the_video() {
        let not_found = |field: Option<&str>| {
            let mut problem = Problem::new(404, ProblemCode::NotFound, "gone");
            problem.field = field.map(str::to_owned);
            ClientError::Refused(Box::new(problem))
        };
        assert!(is_missing_part(&not_found(Some("part"))));
        assert!(!is_missing_part(&not_found(None)));
    }

    #[test]
    fn video_extension_follows_the_content() {
        let named =
            |content_type| with_extension_of(Path::new("/videos/gate.mp4"), Some(content_type));
        assert_eq!(named("video/mp4"), Path::new("/videos/gate.mp4"));
        assert_eq!(named("video/webm"), Path::new("/videos/gate.webm"));
    }

    #[test]
    fn further_parts_are_beside_the_first() {
        let path = |number| part_path(Path::new("/videos/gate.mp4"), number);
        assert_eq!(path(1), Path::new("/videos/gate.mp4"));
        assert_eq!(path(2), Path::new("/videos/gate-2.mp4"));
    }
}
