//! The things that a tool may use: the runtime, the notes, a folder for pictures. It writes only
//! the notes and the pictures.
//!
//! - No method changes a source or a pipeline.
//! - Of an address, only its kind and a file's name leave the box.
//! - No file is read that the user did not attach.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use jiff::{Timestamp, Zoned};
use serde_json::Value;
use watchkeeper_contract::id::{DisplayName, PipelineId, SourceId};
use watchkeeper_contract::workflow::{WorkflowRun, WorkflowRunResult};
use watchkeeper_engine::workflow::codec;
use watchkeeper_llm::catalogue::ImageTier;
use watchkeeper_llm::conversation::UserPart;
use watchkeeper_llm::picture::{Detail, prepare};

use super::geometry::Detection;
use super::preview_spec::{PICTURE, PreviewSpec};
use crate::archive_access::ArchiveAccess;
use crate::lookup_access::LookupAccess;
use crate::notes::Notes;
use crate::proposal::snapshot::SystemSnapshot;
use crate::wording::unknown;
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_store::private_folder::make_private;

/// Maximum pictures in the folder. Those with the lowest numbers are deleted first: a clock may go
/// back.
const MAX_PICTURES: usize = 40;

/// The things that a tool may use.
#[derive(Debug, Clone)]
pub struct ToolContext {
    pub client: RuntimeClient,
    /// `models.default` of the configuration.
    pub preferred: Option<String>,
    /// Picture sizes of the language model; `None`: it takes no pictures.
    pub sees: Option<ImageTier>,
    /// Detail of the pictures that it gets.
    pub detail: Detail,
    /// Whether a second opinion of doubtful events is configured.
    pub second_opinion: bool,
    /// The notes; `None`: there are none.
    pub memory: Option<Notes>,
    /// The archive; `None`: none is reached.
    pub archive: Option<Arc<dyn ArchiveAccess>>,
    /// The look-ups; `None`: none are reached.
    pub lookups: Option<Arc<dyn LookupAccess>>,
    /// Folder of pictures for the user; `None`: none are saved.
    pub pictures: Option<PathBuf>,
    /// The user's pictures, by name.
    pub attached: Vec<(String, Bytes)>,
    /// The conversation so far, as JSON ([`crate::proposal::history`]); `null` if it is new.
    pub earlier: Value,
    /// The time to assume; `None`: that of the clock.
    pub at: Option<Timestamp>,
}

/// A picture in the size for the language model.
#[derive(Debug)]
pub struct ModelPicture {
    /// `None` if the model takes no pictures.
    pub part: Option<UserPart>,
    /// Pixels of the camera's picture per pixel of this one: x, y.
    pub scale: (f64, f64),
}

#[derive(Debug)]
pub struct DetectedPicture {
    /// The annotated picture as JPEG; `None` if nothing was drawn.
    pub picture: Option<Bytes>,
    pub seen: Vec<Detection>,
    /// One sentence for each failed step.
    pub failed: Vec<String>,
}

/// Reads the current state of the runtime.
///
/// # Errors
/// [`ClientError`], as for every request.
pub async fn system_snapshot(
    client: &RuntimeClient,
    preferred: Option<String>,
) -> Result<SystemSnapshot, ClientError> {
    Ok(SystemSnapshot {
        health: client.health().await?,
        sources: client.sources().await?,
        pipelines: client.pipelines().await?,
        models: client.models().await?,
        preferred,
        now: Zoned::now(),
        cameras_probed: false,
    })
}

impl ToolContext {
    /// Reads the current state of the runtime.
    ///
    /// # Errors
    /// A sentence for the language model, if the runtime does not answer.
    pub async fn snapshot(&self) -> Result<SystemSnapshot, String> {
        let here = system_snapshot(&self.client, self.preferred.clone()).await;
        let here = here.map_err(|e| e.in_full())?;
        let now = match self.at {
            Some(at) => at.to_zoned(here.now.time_zone().clone()),
            None => here.now,
        };
        Ok(SystemSnapshot { now, ..here })
    }

    /// Reads the latest frame of a camera.
    ///
    /// # Errors
    /// A sentence for the language model, if the camera is unknown or has no frame.
    pub async fn frame(&self, camera: &SourceId) -> Result<Bytes, String> {
        let frame = self.client.source_frame(camera).await;
        frame.map_err(|e| e.in_full())
    }

    /// A picture of the user, by name.
    ///
    /// # Errors
    /// A sentence for the language model, if the name is unknown.
    pub fn attachment(&self, name: &str) -> Result<Bytes, String> {
        let found = self.attached.iter().find(|(known, _)| known == name);
        found.map(|(_, file)| file.clone()).ok_or_else(|| {
            let names: Vec<&str> = self
                .attached
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            match names.as_slice() {
                [] => "the user gave no picture".to_owned(),
                names => unknown("picture", name, names),
            }
        })
    }

    /// Scales a picture for the language model.
    ///
    /// # Errors
    /// A sentence, if `file` is not a picture.
    pub async fn show(&self, file: Bytes) -> Result<ModelPicture, String> {
        let Some(tier) = self.sees else {
            return Ok(ModelPicture {
                part: None,
                scale: (1.0, 1.0),
            });
        };
        let detail = self.detail;
        let prepared = tokio::task::spawn_blocking(move || prepare(&file, tier, detail)).await;
        let prepared = prepared
            .map_err(|e| e.to_string())?
            .map_err(|e| e.to_string())?;
        Ok(ModelPicture {
            part: Some(UserPart::Picture(prepared.picture)),
            scale: prepared.scale,
        })
    }

    /// Runs a workflow on a still picture.
    ///
    /// # Errors
    /// A sentence, if the runtime refuses.
    pub async fn run_workflow(
        &self,
        workflow: &Value,
        file: &Bytes,
    ) -> Result<WorkflowRunResult, String> {
        let run = WorkflowRun {
            workflow: workflow.clone(),
            images: vec![codec::to_base64(file)],
            parameters: Default::default(),
            model: None,
        };
        let ran = self.client.run_workflow(&run).await;
        ran.map_err(|e| e.in_full())
    }

    /// Runs a preview on a still picture.
    ///
    /// # Errors
    /// A sentence, if the runtime refuses.
    pub async fn look(&self, drawn: &PreviewSpec, file: &Bytes) -> Result<DetectedPicture, String> {
        let ran = self.run_workflow(&drawn.definition, file).await?;
        let row = ran.results.into_iter().next().unwrap_or_default();
        let picture = row.get(PICTURE).and_then(|p| p.get("value"));
        let picture = picture.and_then(Value::as_str);
        let picture = picture.map(codec::from_base64).transpose()?;
        let found = drawn.found.iter().filter_map(|output| row.get(output));
        Ok(DetectedPicture {
            picture: picture.map(Bytes::from),
            seen: found.flat_map(Detection::all).collect(),
            failed: ran
                .failed
                .into_iter()
                .map(|f| format!("step {}: {}", f.step, f.message))
                .collect(),
        })
    }

    /// Saves a picture of `draft` on `camera` for the user. Returns its path, or `None` if it can't
    /// be written.
    pub fn keep(&self, draft: &str, camera: &SourceId, file: &Bytes) -> Option<String> {
        let folder = self.pictures.as_deref()?;
        make_private(folder).ok()?;
        let path = save_numbered(folder, &format!("{draft}-{camera}.jpg"), file).ok()?;
        Some(path.display().to_string())
    }

    /// Finds a camera by id or display name.
    ///
    /// # Errors
    /// A sentence with the nearest camera, or all, if none or several match.
    pub fn camera(name: &str, here: &SystemSnapshot) -> Result<SourceId, String> {
        let known = here.sources.iter().map(|s| &s.spec);
        let known: Vec<_> = known
            .map(|s| (&s.id, s.id.as_str(), title(&s.name)))
            .collect();
        named("camera", name, &known)
    }

    /// Finds the camera of a filter; an empty name stands for all cameras.
    ///
    /// # Errors
    /// Those of [`camera`](Self::camera).
    pub fn camera_filter(name: &str, here: &SystemSnapshot) -> Result<Option<SourceId>, String> {
        match name {
            "" => Ok(None),
            name => Self::camera(name, here).map(Some),
        }
    }

    /// Finds a pipeline by id or display name.
    ///
    /// # Errors
    /// A sentence with the nearest pipeline, or all, if none or several match.
    pub fn pipeline(name: &str, here: &SystemSnapshot) -> Result<PipelineId, String> {
        let known = here.pipelines.iter().map(|p| &p.spec);
        let known: Vec<_> = known
            .map(|s| (&s.id, s.id.as_str(), title(&s.name)))
            .collect();
        named("pipeline", name, &known)
    }
}

fn title(name: &Option<DisplayName>) -> Option<&str> {
    name.as_ref().map(DisplayName::as_str)
}

/// Finds the id of a camera or pipeline.
///
/// # Errors
/// A sentence with the nearest id, or all of them.
fn named<I: Clone>(
    what: &str,
    name: &str,
    known: &[(&I, &str, Option<&str>)],
) -> Result<I, String> {
    find_by_name(name, known).cloned().ok_or_else(|| {
        let ids: Vec<&str> = known.iter().map(|(_, id, _)| *id).collect();
        match ids.as_slice() {
            [] => format!("there is no {what}"),
            ids => unknown(what, name, ids),
        }
    })
}

/// Finds an id exactly, or the only id or title that matches in any case.
fn find_by_name<'i, I>(name: &str, known: &[(&'i I, &str, Option<&str>)]) -> Option<&'i I> {
    let exact = known.iter().find(|(_, id, _)| *id == name);
    let name = name.trim().to_lowercase();
    let is_it = |text: &str| text.to_lowercase() == name;
    let mut called = known
        .iter()
        .filter(|(_, id, title)| is_it(id) || title.is_some_and(is_it));
    let one = match (called.next(), called.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    };
    exact.or(one).map(|(id, ..)| *id)
}

/// Writes a picture that only the user can read into `folder` under the next number, and deletes
/// the lowest numbers over [`MAX_PICTURES`]. Other files stay.
pub(crate) fn save_numbered(folder: &Path, name: &str, file: &[u8]) -> io::Result<PathBuf> {
    let mut kept: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        kept.extend(number_of(&path).map(|number| (number, path)));
    }
    kept.sort();
    let next = kept.last().map_or(1, |(last, _)| last.saturating_add(1));
    let path = folder.join(format!("{next:06}-{name}"));
    // Another process of the user may write here too: its picture stays.
    let mut options = File::options();
    let mut made = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    made.write_all(file)?;
    let spare = (kept.len() + 1).saturating_sub(MAX_PICTURES);
    for (_, old) in kept.iter().take(spare) {
        std::fs::remove_file(old).ok();
    }
    Ok(path)
}

/// The number at the start of a picture's file name. Older names start with milliseconds; numbers
/// continue from those.
fn number_of(path: &Path) -> Option<u64> {
    let (number, _) = path.file_name()?.to_str()?.split_once('-')?;
    number.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn name_matches_title_in_any_case_if_unique() {
        let all = [
            (&1, "gate", Some("Main gate")),
            (&2, "dock", Some("Yard")),
            (&3, "yard", Some("Yard")),
            (&4, "hall", None),
        ];
        for (name, known) in [
            ("gate", Some(1)),
            ("main GATE", Some(1)),
            (" Hall", Some(4)),
            ("yard", Some(3)),
            ("Yard", None),
            ("", None),
        ] {
            assert_eq!(find_by_name(name, &all).copied(), known, "{name}");
        }
    }

    #[test]
    fn newest_pictures_stay_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        // Old names: milliseconds of a clock years ahead.
        for n in 0..MAX_PICTURES {
            let name = format!("{}-w-gate.jpg", 4_000_000_000_000_u64 + n as u64);
            std::fs::write(folder.path().join(name), b"old").unwrap();
        }
        std::fs::write(folder.path().join("mine.txt"), b"").unwrap();
        let mut made = Vec::new();
        for n in 0..MAX_PICTURES + 3 {
            let bytes = n.to_string();
            let path = save_numbered(folder.path(), "w-gate.jpg", bytes.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), bytes);
            made.push(path);
        }
        let there = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(there, MAX_PICTURES + 1, "other files stay");
        let (gone, kept) = made.split_at(3);
        assert!(gone.iter().all(|path| !path.exists()));
        assert!(kept.iter().all(|path| path.exists()));
    }

    #[test]
    fn numbers_start_at_one_and_sort_as_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = save_numbered(folder.path(), "w-gate.jpg", b"").unwrap();
        assert!(path.ends_with("000001-w-gate.jpg"), "{}", path.display());
        std::fs::write(folder.path().join("9999999-w-gate.jpg"), b"").unwrap();
        let path = save_numbered(folder.path(), "w-gate.jpg", b"").unwrap();
        assert!(path.ends_with("10000000-w-gate.jpg"), "{}", path.display());
    }
}
