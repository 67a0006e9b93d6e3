//! What a dry run reads instead of the source: a kept clip, or a file.
//!
//! - It is played as a separate source that nothing lists, as fast as it can be.
//! - Of clips only media of the journal are opened, and those of the source of the pipeline.
//! - A file, a folder and each picture of it lie below `runtime.dry_run_roots` after their symbolic
//!   links. A link that changes afterwards is followed: these folders are the operator's.
//! - Frames have the size of the source. Those of a clip have the time of its recording, those of a
//!   file begin now.
//! - All pictures get the present privacy mask of the source: a clip may be older than it.

use std::path::{Path, PathBuf};

use image::imageops::{FilterType, resize};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::source::{Pace, SourceSpec};
use watchkeeper_contract::time::Wall;
use watchkeeper_contract::workflow::DryRun;
use watchkeeper_vision::frame::{Frame, Picture};
use watchkeeper_vision::jpeg;

use crate::capture::mailbox::FrameReceiver;
use crate::capture::source::{Deps, Source, SourceHandle};
use crate::clock;
use crate::pipeline::manager::Manager;

/// Extension of the pictures among the media.
const PICTURE: &str = "jpg";
/// Maximum number of entries of a folder of pictures.
const MAX_ENTRIES: usize = 10_000;
/// Maximum difference of two shapes, as a part of their width.
const SHAPE_TOLERANCE: f64 = 0.02;

/// Recorded pictures, and the camera that they stand for.
pub(super) struct Footage {
    handle: SourceHandle,
    /// Size of the pictures of the camera.
    size: [u32; 2],
    /// Time of the first picture.
    start: Wall,
    /// Path of a file; absent: a clip, whose shape is that of the camera.
    file: Option<String>,
}

impl Footage {
    /// Opens what `request` names; nothing if it names the next seconds of its source.
    pub(super) fn open(manager: &Manager, request: &DryRun) -> Result<Option<Self>, Problem> {
        let source = &request.pipeline.source;
        let (path, start) = match (&request.clip, &request.file) {
            (None, None) => return Ok(None),
            (Some(_), Some(file)) => {
                return Err(refused(
                    "file",
                    file,
                    "there is a clip too; name one of them",
                ));
            }
            (Some(id), None) => find_clip(manager, source, id)?,
            (None, Some(file)) => {
                let path = find_file(&manager.parts().dry_run_roots, file)
                    .map_err(|why| refused("file", file, why))?;
                (path, clock::wall())
            }
        };
        let status = manager.source(source)?;
        let size = status.size.ok_or_else(|| size_unknown(source))?;
        let spec = SourceSpec {
            uri: path.display().to_string(),
            pace: Pace::Fast,
            ..status.spec
        };
        let deps = Deps {
            privacy: manager.parts().privacy.by_name(source).cloned(),
            ..Deps::default()
        };
        Ok(Some(Self {
            handle: Source::spawn(spec, deps),
            size,
            start,
            file: request.file.clone(),
        }))
    }

    pub(super) fn subscribe(&self) -> FrameReceiver {
        self.handle.subscribe()
    }

    /// The frame as the camera would deliver it. Lines and zones are in the pixels of the camera,
    /// and schedules follow the time of the footage.
    pub(super) fn restore(&self, frame: Frame) -> Result<Frame, Problem> {
        let after_ms = i64::try_from(frame.pts.as_millis()).unwrap_or(i64::MAX);
        let wall = Wall {
            unix_ms: self.start.unix_ms.saturating_add(after_ms),
            ..self.start
        };
        let found = [frame.picture.width, frame.picture.height];
        if self.size == found {
            return Ok(Frame { wall, ..frame });
        }
        if let Some(file) = self.file.as_ref().filter(|_| !has_shape(found, self.size)) {
            let ([fw, fh], [cw, ch]) = (found, self.size);
            let why = format!(
                "its pictures are {fw}x{fh} and those of the camera {cw}x{ch}, so lines and zones \
                 would lie elsewhere; use footage of this camera"
            );
            return Err(refused("file", file, why));
        }
        let broken =
            |e: &dyn std::fmt::Display| Problem::not_ready(format!("a picture is broken: {e}"));
        let small = jpeg::to_rgb(&frame.picture).map_err(|e| broken(&e))?;
        let [width, height] = self.size;
        let pixels = resize(&small, width, height, FilterType::Triangle).into_raw();
        let picture = Picture::rgb(width, height, pixels);
        Ok(Frame {
            picture,
            wall,
            ..frame
        })
    }
}

fn refused(field: &str, value: &str, why: impl Into<String>) -> Problem {
    Problem::invalid_value(why).at(field, value.to_owned())
}

/// Whether pictures of two sizes have one shape, so that the one can be scaled to the other.
fn has_shape([width, height]: [u32; 2], [of_width, of_height]: [u32; 2]) -> bool {
    let scaled = f64::from(width) * f64::from(of_height);
    let wanted = f64::from(of_width) * f64::from(height);
    (scaled - wanted).abs() <= SHAPE_TOLERANCE * wanted
}

/// The file of the clip with the media id `id`, and when it starts.
fn find_clip(manager: &Manager, source: &SourceId, id: &str) -> Result<(PathBuf, Wall), Problem> {
    let file = manager.parts().media.path(id);
    let file = file.map_err(|e| refused("clip", id, e.to_string()))?;
    if file.extension().is_some_and(|e| e == PICTURE) {
        let why = "it is a picture; name the clip of an event";
        return Err(refused("clip", id, why));
    }
    let event = manager.parts().journal.event_of_clip(id);
    let event = event.map_err(|e| Problem::new(500, ProblemCode::Storage, e.to_string()))?;
    let start = start_of(event.as_ref(), source).map_err(|why| refused("clip", id, why))?;
    Ok((file, start))
}

/// When the clip of `event` starts; why it is refused if it is not one of `source`.
fn start_of(event: Option<&Event>, source: &SourceId) -> Result<Wall, String> {
    let Some(event) = event else {
        let why = "the journal no longer has its event, so its camera is unknown";
        return Err(format!(
            "{why}; name the clip of an event in `GET /v1/events`"
        ));
    };
    match (&event.source, &event.clip) {
        (Some(of), Some(clip)) if of == source => Ok(clip.start),
        (of, _) => Err(format!(
            "it is a clip of camera {:?}, and the pipeline is on {:?}; name a clip of that camera",
            of.as_ref().map_or("unknown", SourceId::as_str),
            source.as_str()
        )),
    }
}

fn size_unknown(source: &SourceId) -> Problem {
    let source = source.as_str();
    let detail = format!(
        "the size of the camera is unknown, and lines and zones are in its pixels; get one frame \
         of source {source:?} (`watchkeeper frame save {source}`), then try again"
    );
    Problem::conflict(detail).at("source", source)
}

/// The file or folder at `path` without symbolic links, below one of `roots`.
fn find_file(roots: &[PathBuf], path: &str) -> Result<PathBuf, String> {
    let roots: Vec<PathBuf> = roots.iter().filter_map(|r| r.canonicalize().ok()).collect();
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err("it is not an absolute path; begin it with /".to_owned());
    }
    // One answer for missing files and files elsewhere, so that it does not reveal which files
    // exist.
    let allowed = |path: &Path| {
        let found = path.canonicalize().ok();
        found.filter(|found| roots.iter().any(|root| found.starts_with(root)))
    };
    let found = allowed(path).ok_or_else(|| match roots.as_slice() {
        [] => "the configuration allows no file; to allow a folder, add it to \
            `runtime.dry_run_roots`"
            .to_owned(),
        roots => format!(
            "{} is not a file or folder below a folder of `runtime.dry_run_roots` ({})",
            path.display(),
            roots
                .iter()
                .map(|root| root.display().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    })?;
    let unreadable = |e: std::io::Error| format!("it can't be read: {e}");
    let metadata = found.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        for (nth, entry) in found.read_dir().map_err(unreadable)?.enumerate() {
            let entry = entry.map_err(unreadable)?.path();
            if nth >= MAX_ENTRIES {
                return Err(format!(
                    "the folder has over {MAX_ENTRIES} entries; name a smaller one"
                ));
            }
            if allowed(&entry).is_none() {
                let entry = entry.display();
                return Err(format!(
                    "{entry} is a link to a place that is not allowed; remove it"
                ));
            }
        }
    } else if !metadata.is_file() {
        return Err("it is neither a file nor a folder".to_owned());
    }
    Ok(found)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;
    use watchkeeper_contract::id::EventId;

    use super::*;

    fn event_on(source: &str) -> Event {
        serde_json::from_value(json!({
            "schema": 1, "seq": 1, "id": EventId::generate(), "boot_id": "b", "mono_ms": 1,
            "phase": "new", "at": {"unix_ms": 9, "quality": "synced"}, "severity": "info", "source": source,
            "decision": {"verdict": "record", "confidence": 0.9, "reason": "r"},
            "evidence": [], "media": [], "hash": "",
            "body": {"kind": "source_outage", "message": "m"},
            "clip": {
                "id": "c", "start": {"unix_ms": 7, "quality": "synced"}, "before_s": 1.0,
                "after_s": 1.0, "state": "filming",
            },
        }))
        .unwrap()
    }

    #[test]
    fn clip_is_refused_unless_its_event_is_of_the_camera() {
        let gate = SourceId::new("gate").unwrap();
        let start = start_of(Some(&event_on("gate")), &gate).unwrap();
        assert_eq!(start.unix_ms, 7);
        let other = start_of(Some(&event_on("yard")), &gate).unwrap_err();
        assert!(other.contains("camera \"yard\""), "{other}");
        assert!(
            start_of(None, &gate)
                .unwrap_err()
                .contains("camera is unknown")
        );
    }

    #[test]
    fn unknown_size_is_a_conflict_with_a_remedy() {
        let problem = size_unknown(&SourceId::new("gate").unwrap());
        assert_eq!(problem.status, 409);
        let detail = problem.detail;
        assert!(detail.contains("size of the camera is unknown"), "{detail}");
        assert!(detail.contains("watchkeeper frame save gate"), "{detail}");
    }

    #[test]
    fn only_files_below_a_root_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let (root, beside) = (home.join("root"), home.join("root-beside"));
        for made in [&root, &beside, &root.join("night")] {
            std::fs::create_dir(made).unwrap();
        }
        for file in [
            root.join("a.mp4"),
            root.join("night/1.jpg"),
            beside.join("b.mp4"),
        ] {
            std::fs::write(file, "x").unwrap();
        }
        symlink(root.join("a.mp4"), root.join("inside.mp4")).unwrap();
        symlink(beside.join("b.mp4"), root.join("outside.mp4")).unwrap();
        symlink(&beside, root.join("door")).unwrap();
        let roots = [root.clone(), home.join("absent")];
        let find = |path: PathBuf| find_file(&roots, path.to_str().unwrap());
        assert_eq!(find(root.join("a.mp4")), Ok(root.join("a.mp4")));
        assert_eq!(find(root.join("inside.mp4")), Ok(root.join("a.mp4")));
        assert_eq!(find(root.join("night")), Ok(root.join("night")));
        for elsewhere in [
            beside.join("b.mp4"),
            root.join("outside.mp4"),
            root.join("door/b.mp4"),
            root.join("../root-beside/b.mp4"),
            root.join("absent.mp4"),
            PathBuf::from("/etc/passwd"),
        ] {
            let why = find(elsewhere).unwrap_err();
            assert!(why.contains("runtime.dry_run_roots"), "{why}");
        }
        assert!(find_file(&roots, "a.mp4").unwrap_err().contains("absolute"));
        let none = find_file(&[], "/etc/passwd").unwrap_err();
        assert!(none.contains("allows no file"), "{none}");
        symlink("/etc/passwd", root.join("night/2.jpg")).unwrap();
        let why = find(root.join("night")).unwrap_err();
        assert!(why.contains("2.jpg is a link"), "{why}");
    }

    #[test]
    fn footage_of_another_shape_is_no_footage_of_the_camera() {
        assert!(has_shape([640, 360], [1920, 1080]));
        assert!(has_shape([854, 480], [1920, 1080]));
        assert!(!has_shape([640, 480], [1920, 1080]));
    }
}
