//! What the tools have in common: collections, their results, and work on all cores.

use std::collections::HashMap;
use std::path::Path;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use watchkeeper_pictures::measure::version;
use watchkeeper_pictures::{Group, Measurer, Picture, PictureError, Scores};

use crate::tool::{Context, Kind, Output, Param, ToolError, ToolOutput};

/// Version of the scores: those of another one are measured again.
const SCALE: u32 = 2;

/// Names of unreadable pictures in a summary.
const MAX_NAMED: usize = 3;

/// Pictures, or groups of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Collection {
    Groups(Vec<Group>),
    Pictures(Vec<Picture>),
}

impl Collection {
    /// Returns groups; pictures without groups are one, named `name`.
    #[must_use]
    pub fn into_groups(self, name: &str) -> Vec<Group> {
        match self {
            Self::Groups(groups) => groups,
            Self::Pictures(pictures) => vec![Group {
                name: name.to_owned(),
                why: String::new(),
                pictures,
            }],
        }
    }
}

/// The parameter of tools that take pictures.
pub const OF_PICTURES: Param = Param::required("pictures", Kind::Pictures, "The pictures.");

/// The parameter of tools that take pictures or groups of them.
pub(super) const FROM: Param =
    Param::required("from", Kind::Collection, "Pictures, or groups of pictures.");

pub const PICTURES: Output = Output::new("pictures", Kind::Pictures, "The pictures.");

pub const COUNT: Output = Output::new(
    "count",
    Kind::Integer {
        min: 0,
        max: u64::MAX,
    },
    "Number of pictures.",
);

pub const GROUPS: Output = Output::new("groups", Kind::Groups, "The groups.");

/// The names of a table.
pub(super) const fn names<T, const N: usize>(table: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = table[at].0;
        at += 1;
    }
    names
}

/// A value of a result. Values of our types have text keys and finite numbers, so they serialise.
pub(super) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// The result of a tool that yields pictures.
pub fn pictures_done<P: Serialize>(pictures: &[P], summary: String) -> ToolOutput {
    let values = Map::from_iter([
        ("pictures".to_owned(), value(&pictures)),
        ("count".to_owned(), Value::from(pictures.len())),
    ]);
    ToolOutput {
        values,
        summary,
        files: Vec::new(),
    }
}

/// The result of a tool that yields groups, and their pictures.
pub fn groups_done(groups: &[Group], summary: String) -> ToolOutput {
    let pictures: Vec<&Picture> = groups.iter().flat_map(|group| &group.pictures).collect();
    pictures_and_groups_done(&pictures, groups, summary)
}

/// The result of a tool that yields pictures, and groups that may hold others.
pub fn pictures_and_groups_done<P: Serialize>(
    pictures: &[P],
    groups: &[Group],
    summary: String,
) -> ToolOutput {
    let mut done = pictures_done(pictures, summary);
    done.values.insert("groups".to_owned(), value(&groups));
    done
}

/// Measures the pictures without scores. Returns the end of a summary that names those that can't
/// be read, and so stay without scores.
///
/// # Errors
/// Those of [`for_each`], and [`ToolError::Permanent`] if no picture has scores.
pub(super) fn add_scores(
    measurer: &Measurer,
    groups: &mut [Group],
    context: &Context<'_>,
) -> Result<String, ToolError> {
    let failed = try_add_scores(measurer, groups, context)?;
    let mut pictures = groups.iter().flat_map(|group| &group.pictures);
    unread_but_some(pictures.any(|picture| picture.scores.is_some()), &failed)
}

/// Measures the pictures without scores; a resumed job has those that it measured before. Returns
/// why some can't be read, and so stay without.
///
/// # Errors
/// Those of [`for_each`], and if the answers of the job can't be opened.
pub(super) fn try_add_scores(
    measurer: &Measurer,
    groups: &mut [Group],
    context: &Context<'_>,
) -> Result<Vec<String>, ToolError> {
    let lacking = groups.iter().flat_map(|group| &group.pictures);
    let lacking = lacking.filter(|picture| picture.scores.is_none());
    let lacking: Vec<String> = lacking.map(|picture| picture.file.clone()).collect();
    if lacking.is_empty() {
        return Ok(Vec::new());
    }
    let answers = Mutex::new(context.answers()?);
    let measured = for_each(&lacking, context, |file| -> Result<_, PictureError> {
        let path = Path::new(file);
        let key = format!("scores {SCALE} {}", version(path)?);
        let kept = answers
            .lock()
            .get(&key)
            .and_then(|kept| Scores::deserialize(kept).ok());
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let scores = measurer.measure(path)?.scores;
        // What the disk refuses is measured again by a resumed job.
        answers.lock().put(key, value(&scores)).ok();
        Ok(scores)
    })?;
    let (mut scores, mut failed) = (HashMap::new(), Vec::new());
    for (file, measured) in lacking.iter().zip(measured) {
        match measured {
            Ok(measured) => {
                scores.insert(file.as_str(), measured);
            }
            Err(error) => failed.push(error.to_string()),
        }
    }
    for picture in groups.iter_mut().flat_map(|group| &mut group.pictures) {
        let known = picture.scores.take();
        picture.scores = known.or_else(|| scores.get(picture.file.as_str()).copied());
    }
    Ok(failed)
}

/// The overall score of a picture; 0 if it was not measured.
pub(super) fn overall(picture: &Picture) -> f64 {
    picture.scores.map_or(0.0, |scores| scores.overall)
}

/// Runs `work` for each item on all cores, in order; counts each in the context.
///
/// # Errors
/// When the job is cancelled or the step's time is over.
pub(super) fn for_each<T: Sync, R: Send>(
    items: &[T],
    context: &Context<'_>,
    work: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>, ToolError> {
    use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

    context.expect(items.len());
    (items.par_iter())
        .map(|item| {
            context.check_continue()?;
            let result = work(item);
            context.count();
            Ok(result)
        })
        .collect()
}

/// Separates what was read from what was not.
///
/// # Errors
/// [`ToolError::Permanent`] if nothing was read, but something failed.
pub(super) fn readable<T, E: std::fmt::Display>(
    results: Vec<Result<T, E>>,
) -> Result<(Vec<T>, String), ToolError> {
    let mut read = Vec::with_capacity(results.len());
    let mut failed = Vec::new();
    for result in results {
        match result {
            Ok(one) => read.push(one),
            Err(error) => failed.push(error.to_string()),
        }
    }
    let unread = unread_but_some(!read.is_empty(), &failed)?;
    Ok((read, unread))
}

/// Names unreadable pictures at the end of a summary.
///
/// # Errors
/// [`ToolError::Permanent`] if nothing else was read.
pub(super) fn unread_but_some(has_read: bool, failed: &[String]) -> Result<String, ToolError> {
    let unread = unread(failed);
    match has_read || failed.is_empty() {
        true => Ok(unread),
        false => Err(ToolError::Permanent(format!(
            "no picture can be read{unread}"
        ))),
    }
}

/// Names unreadable pictures at the end of a summary; empty if there is none.
pub(super) fn unread(failed: &[String]) -> String {
    let named = failed.iter().take(MAX_NAMED).map(String::as_str);
    // Some decoders write lines.
    let named = named.collect::<Vec<_>>().join("; ").replace('\n', " ");
    match failed.len() {
        0 => String::new(),
        number if number <= MAX_NAMED => format!("; {number} can't be read: {named}"),
        number => format!("; {number} can't be read: {named}; …"),
    }
}
