//! The way of the tools to the box: the runtime's contract, the notes, a folder for pictures. Everything here looks, but for the notes.
//!
//! Invariants: there is no method here that changes a source or a pipeline; of an address only its kind and the name of a file leave the box; no
//! file is read that a person did not give.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use jiff::{Timestamp, Zoned};
use serde_json::Value;
use watchkeeper_contract::id::{DisplayName, EventSeq, PipelineId, SourceId};
use watchkeeper_contract::workflow::WorkflowRun;
use watchkeeper_engine::workflow::codec;
use watchkeeper_llm::catalogue::ImageTier;
use watchkeeper_llm::conversation::UserPart;
use watchkeeper_llm::picture::{Detail, prepare};
use watchkeeper_plain::intent::EventsWanted;

use super::geometry::Seen;
use super::preview_spec::{PICTURE, PreviewSpec};
use crate::notes::Notes;
use crate::proposal::event_search::{EventSearch, EventSearchResult};
use crate::proposal::snapshot::SystemSnapshot;
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_store::private_folder::make_private;

/// Most pictures that are kept for a person to look at; the oldest go first, by their numbers: a clock may go back.
const MAX_KEPT: usize = 40;

/// The way to the box.
#[derive(Debug)]
pub struct ToolContext {
    /// The runtime.
    pub client: RuntimeClient,
    /// Model of the box that the configuration prefers.
    pub preferred: Option<String>,
    /// How the model of language sees pictures; `None`: it sees none.
    pub sees: Option<ImageTier>,
    /// How much of a picture it gets.
    pub detail: Detail,
    /// The notes; `None`: nothing is remembered.
    pub memory: Option<Notes>,
    /// Folder for pictures that a person may want to look at; `None`: none are kept.
    pub pictures: Option<PathBuf>,
    /// Pictures that the person gave, each with its name.
    pub attached: Vec<(String, Bytes)>,
    /// What was said and done before in this conversation, as JSON; `null` where nothing was ([`crate::proposal::history`]).
    pub earlier: Value,
    /// The time that it is taken for; `None`: the clock's.
    pub at: Option<Timestamp>,
}

/// A picture as the model sees it.
#[derive(Debug)]
pub struct ModelPicture {
    /// The picture; `None` for a model that sees none.
    pub part: Option<UserPart>,
    /// Pixels of the camera's picture for one of this, across and down.
    pub scale: (f64, f64),
}

/// A picture with what was found on it.
#[derive(Debug)]
pub struct DetectedPicture {
    /// The file, as JPEG; none where nothing was drawn.
    pub picture: Option<Bytes>,
    /// What was detected.
    pub seen: Vec<Seen>,
    /// Steps that failed, a sentence each.
    pub failed: Vec<String>,
}

/// How the box is now.
///
/// # Errors
/// [`ClientError`], as every request.
pub async fn situation(
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

/// Searches the journal.
///
/// # Errors
/// [`ClientError`], as every request.
pub async fn look_back(
    client: &RuntimeClient,
    wanted: &EventsWanted,
) -> Result<EventSearchResult, ClientError> {
    let last = client.health().await?.last_seq;
    let first = client.verify_events(EventSeq(0), 1).await?.first;
    let mut search = EventSearch::new(wanted.clone(), first, last);
    while let Some((after, limit)) = search.next() {
        search.take(client.events(after, limit).await?);
    }
    Ok(search.done())
}

impl ToolContext {
    /// How the box is now. The error is a sentence for the model.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn situation(&self) -> Result<SystemSnapshot, String> {
        let here = situation(&self.client, self.preferred.clone()).await;
        let here = here.map_err(|e| e.in_full())?;
        let now = match self.at {
            Some(at) => at.to_zoned(here.now.time_zone().clone()),
            None => here.now,
        };
        Ok(SystemSnapshot { now, ..here })
    }

    /// The latest picture of a camera. The error is a sentence for the model.
    ///
    /// # Errors
    /// When there is no such camera, or no picture of it.
    pub async fn frame(&self, camera: &SourceId) -> Result<Bytes, String> {
        let frame = self.client.source_frame(camera).await;
        frame.map_err(|e| e.in_full())
    }

    /// A picture that the person gave, by its name.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn attachment(&self, name: &str) -> Result<Bytes, String> {
        let found = self.attached.iter().find(|(known, _)| known == name);
        found.map(|(_, file)| file.clone()).ok_or_else(|| {
            let names: Vec<&str> = self
                .attached
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            match names.as_slice() {
                [] => "the person gave no picture".to_owned(),
                names => format!(
                    "there is no picture of that name; there are: {}",
                    names.join(", ")
                ),
            }
        })
    }

    /// A picture in the size in which the model sees it.
    ///
    /// # Errors
    /// When it is none.
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

    /// Runs a workflow that shows another one on a still picture.
    ///
    /// # Errors
    /// A sentence, when the runtime refuses.
    pub async fn look(&self, drawn: &PreviewSpec, file: &Bytes) -> Result<DetectedPicture, String> {
        let run = WorkflowRun {
            workflow: drawn.definition.clone(),
            images: vec![codec::to_base64(file)],
            parameters: Default::default(),
            model: None,
        };
        let ran = self.client.run_workflow(&run).await;
        let ran = ran.map_err(|e| e.in_full())?;
        let row = ran.results.into_iter().next().unwrap_or_default();
        let picture = row.get(PICTURE).and_then(|p| p.get("value"));
        let picture = picture.and_then(Value::as_str);
        let picture = picture.map(codec::from_base64).transpose()?;
        let found = drawn.found.iter().filter_map(|output| row.get(output));
        Ok(DetectedPicture {
            picture: picture.map(Bytes::from),
            seen: found.flat_map(Seen::all).collect(),
            failed: ran
                .failed
                .into_iter()
                .map(|f| format!("step {}: {}", f.step, f.message))
                .collect(),
        })
    }

    /// Keeps a picture of `draft` on `camera` for the person and answers its path. What can't be kept is not.
    #[must_use]
    pub fn keep(&self, draft: &str, camera: &SourceId, file: &Bytes) -> Option<String> {
        let folder = self.pictures.as_deref()?;
        make_private(folder).ok()?;
        let path = keep_in(folder, &format!("{draft}-{camera}.jpg"), file).ok()?;
        Some(path.display().to_string())
    }

    /// A camera by its id, or by what people call it. The error lists those that there are.
    ///
    /// # Errors
    /// When there is none, or several are called so.
    pub fn camera(name: &str, here: &SystemSnapshot) -> Result<SourceId, String> {
        let known = here.sources.iter().map(|s| &s.spec);
        let known: Vec<_> = known
            .map(|s| (&s.id, s.id.as_str(), title(&s.name)))
            .collect();
        one_called(name, &known).cloned().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(_, id, _)| *id).collect();
            format!(
                "there is no camera {name:?}; there are: {}",
                names.join(", ")
            )
        })
    }

    /// A pipeline by its id, or by what people call it. The error lists those that there are.
    ///
    /// # Errors
    /// When there is none, or several are called so.
    pub fn pipeline(name: &str, here: &SystemSnapshot) -> Result<PipelineId, String> {
        let known = here.pipelines.iter().map(|p| &p.spec);
        let known: Vec<_> = known
            .map(|s| (&s.id, s.id.as_str(), title(&s.name)))
            .collect();
        one_called(name, &known).cloned().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(_, id, _)| *id).collect();
            match names.as_slice() {
                [] => "nothing runs".to_owned(),
                names => format!(
                    "there is no pipeline {name:?}; there are: {}",
                    names.join(", ")
                ),
            }
        })
    }
}

fn title(name: &Option<DisplayName>) -> Option<&str> {
    name.as_ref().map(DisplayName::as_str)
}

/// The one with this id, or the only one whose title or id it is in other capitals.
fn one_called<'i, I>(name: &str, known: &[(&'i I, &str, Option<&str>)]) -> Option<&'i I> {
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

/// Writes a picture into `folder` under the next number, and removes those with the lowest numbers where there are too many. What has no number is nobody's
/// business here.
fn keep_in(folder: &Path, name: &str, file: &[u8]) -> io::Result<PathBuf> {
    let mut kept: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        kept.extend(number_of(&path).map(|number| (number, path)));
    }
    kept.sort();
    let next = kept.last().map_or(1, |(last, _)| last.saturating_add(1));
    let path = folder.join(format!("{next:06}-{name}"));
    // Another program of the same person may be here at the same moment: its picture stays.
    let mut made = File::options().write(true).create_new(true).open(&path)?;
    made.write_all(file)?;
    let spare = (kept.len() + 1).saturating_sub(MAX_KEPT);
    for (_, old) in kept.iter().take(spare) {
        std::fs::remove_file(old).ok();
    }
    Ok(path)
}

/// The number that the name of a picture begins with. Before pictures were numbered it was the time in milliseconds, from which the numbers go on.
fn number_of(path: &Path) -> Option<u64> {
    let (number, _) = path.file_name()?.to_str()?.split_once('-')?;
    number.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_title_and_other_capitals_name_one_and_never_one_of_several() {
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
            assert_eq!(one_called(name, &all).copied(), known, "{name}");
        }
    }

    #[test]
    fn the_newest_pictures_are_kept_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        // Of a time when names began with the milliseconds of a clock that was years ahead.
        for n in 0..MAX_KEPT {
            let name = format!("{}-w-gate.jpg", 4_000_000_000_000_u64 + n as u64);
            std::fs::write(folder.path().join(name), b"old").unwrap();
        }
        std::fs::write(folder.path().join("mine.txt"), b"").unwrap();
        let mut made = Vec::new();
        for n in 0..MAX_KEPT + 3 {
            let bytes = n.to_string();
            let path = keep_in(folder.path(), "w-gate.jpg", bytes.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), bytes);
            made.push(path);
        }
        let there = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(there, MAX_KEPT + 1, "the file that is no picture stays");
        let (gone, kept) = made.split_at(3);
        assert!(gone.iter().all(|path| !path.exists()));
        assert!(kept.iter().all(|path| path.exists()));
    }

    #[test]
    fn numbers_begin_at_one_and_sort_as_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = keep_in(folder.path(), "w-gate.jpg", b"").unwrap();
        assert!(path.ends_with("000001-w-gate.jpg"), "{}", path.display());
        std::fs::write(folder.path().join("9999999-w-gate.jpg"), b"").unwrap();
        let path = keep_in(folder.path(), "w-gate.jpg", b"").unwrap();
        assert!(path.ends_with("10000000-w-gate.jpg"), "{}", path.display());
    }
}
