//! `find_duplicates`: sets of pictures of one moment, and one of each.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde::Deserialize;
use watchkeeper_pictures::duplicates::{Look, sets};
use watchkeeper_pictures::select::compare;
use watchkeeper_pictures::{Group, Measurer, Picture, PictureError};
use watchkeeper_store::chain::Hash;

use super::common::{
    COUNT, GROUPS, OF_PICTURES, PICTURES, for_each, pictures_done, readable, value,
};
use super::select::{BY, order};
use crate::counted;
use crate::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, Values, read,
};

#[derive(Debug)]
pub(super) struct FindDuplicates(pub(super) Arc<Measurer>);

#[derive(Debug, Deserialize)]
struct Params {
    pictures: Vec<Picture>,
    within_seconds: Option<f64>,
    #[serde(default)]
    exact: bool,
    by: Option<String>,
}

/// Longest time from the first picture of a burst to another if the plan has none.
const BURST_S: f64 = 10.0;

impl Tool for FindDuplicates {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "find_duplicates",
            about: "Finds bursts and copies: near duplicates by look. Keeps the original of copies, and the best of a burst.",
            params: &[
                OF_PICTURES,
                Param::optional(
                    "within_seconds",
                    Kind::Number { min: 0.0, max: 1e9 },
                    "Longest time from the first picture of a burst to another, where both are known; 10 if absent.",
                ),
                Param::optional(
                    "exact",
                    Kind::Flag,
                    "Whether only files of equal bytes are duplicates; false if absent.",
                ),
                Param {
                    about: "The order whose first picture is kept of a burst; quality if absent.",
                    ..BY
                },
            ],
            outputs: &[
                Output {
                    about: "The pictures without all but the best of each set of duplicates.",
                    ..PICTURES
                },
                COUNT,
                Output {
                    about: "The sets of duplicates, the best picture of each first.",
                    ..GROUPS
                },
            ],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let Params {
            pictures,
            within_seconds,
            exact,
            by,
        } = read(params)?;
        let zone = TimeZone::system();
        let (pictures, sets, unread) = match exact {
            true => {
                let sets = equal_files(&pictures, context)?;
                (pictures, sets, String::new())
            }
            false => {
                let within_s = within_seconds.unwrap_or(BURST_S);
                self.near_duplicates(&pictures, within_s, &zone, context)?
            }
        };
        let order = order(by.as_deref());
        let compare = |a: &Picture, b: &Picture| compare(a, b, order, &zone);
        let (groups, kept) = separate(pictures, &sets, compare);
        let more: usize = groups.iter().map(|group| group.pictures.len() - 1).sum();
        let summary = format!(
            "{} of {} duplicates; {} kept, {more} left out{unread}",
            counted(groups.len(), "set"),
            if exact { "exact" } else { "near" },
            counted(kept.len(), "picture")
        );
        let mut done = pictures_done(&kept, summary);
        done.values.insert("groups".to_owned(), value(&groups));
        Ok(done)
    }
}

impl FindDuplicates {
    /// The pictures that can be read, the set of each, and the end of a summary that names the
    /// others.
    fn near_duplicates(
        &self,
        pictures: &[Picture],
        within_s: f64,
        zone: &TimeZone,
        context: &Context<'_>,
    ) -> Result<(Vec<Picture>, Vec<usize>, String), ToolError> {
        let measured = for_each(pictures, context, |picture| -> Result<_, PictureError> {
            let measured = self.0.measure(Path::new(&picture.file))?;
            let scores = Some(measured.scores);
            Ok((
                Picture {
                    scores,
                    ..picture.clone()
                },
                measured,
            ))
        })?;
        let (measured, unread) = readable(measured)?;
        let looks = measured.iter().map(|(picture, measured)| Look {
            measured: Arc::clone(measured),
            taken: picture.instant(zone),
            camera: picture.camera.clone(),
        });
        let looks: Vec<Look> = looks.collect();
        context.expect(looks.len());
        let sets = sets(&looks, within_s, || {
            context.count();
            context.check_continue()
        })?;
        let pictures = measured.into_iter().map(|(picture, _)| picture).collect();
        Ok((pictures, sets, unread))
    }
}

/// The set of each picture: the place of the first file with equal bytes. Only files whose length
/// is that of another are read.
fn equal_files(pictures: &[Picture], context: &Context<'_>) -> Result<Vec<usize>, ToolError> {
    let lengths: Vec<_> = pictures.iter().map(Picture::file_bytes).collect();
    let mut numbers: HashMap<Option<u64>, usize> = HashMap::new();
    lengths
        .iter()
        .for_each(|length| *numbers.entry(*length).or_default() += 1);
    let looks: Vec<_> = pictures.iter().zip(&lengths).collect();
    let hashes = for_each(&looks, context, |(picture, length)| {
        let is_alone = length.is_none() || numbers.get(length) == Some(&1);
        let bytes = (!is_alone).then(|| picture.bytes().ok()).flatten();
        bytes.map(|bytes| Hash::of(&bytes))
    })?;
    let mut firsts = HashMap::new();
    let sets = hashes
        .into_iter()
        .enumerate()
        .map(|(place, hash)| hash.map_or(place, |hash| *firsts.entry(hash).or_insert(place)));
    Ok(sets.collect())
}

/// Orders copies after their original. A copy has fewer pixels, has lost its time or camera, or was
/// compressed to less than half the bytes of the largest. Pictures of one burst are equal.
fn originality((bytes, picture): &(u64, Picture), most_bytes: u64) -> (u64, usize, bool) {
    let pixels = u64::from(picture.width) * u64::from(picture.height);
    let known = [picture.taken.is_some(), picture.camera.is_some()];
    (
        pixels,
        known.into_iter().filter(|is_known| *is_known).count(),
        bytes.saturating_mul(2) >= most_bytes,
    )
}

/// A picture with the bytes of its file; 0 if it is gone since it was measured.
fn with_bytes(picture: Picture) -> (u64, Picture) {
    (picture.file_bytes().unwrap_or_default(), picture)
}

/// The sets of more than one picture, best first, and the pictures that are kept.
fn separate(
    pictures: Vec<Picture>,
    sets: &[usize],
    compare: impl Fn(&Picture, &Picture) -> Ordering,
) -> (Vec<Group>, Vec<Picture>) {
    let mut members: Vec<Vec<Picture>> = vec![Vec::new(); pictures.len()];
    for (picture, set) in pictures.into_iter().zip(sets) {
        if let Some(members) = members.get_mut(*set) {
            members.push(picture);
        }
    }
    let mut groups = Vec::new();
    let mut kept = Vec::new();
    for members in members {
        let mut members: Vec<_> = members.into_iter().map(with_bytes).collect();
        let most = members.iter().map(|(bytes, _)| *bytes).max();
        let most = most.unwrap_or_default();
        // A copy of a file has the longer name: "a copy.jpg", "a (1).jpg".
        let name = |one: &(u64, Picture)| (one.1.name().len(), one.1.name().to_owned());
        members.sort_by(|a, b| {
            let by_original = originality(b, most).cmp(&originality(a, most));
            by_original
                .then_with(|| compare(&a.1, &b.1))
                .then_with(|| name(a).cmp(&name(b)))
        });
        let members: Vec<Picture> = members.into_iter().map(|(_, picture)| picture).collect();
        let Some(best) = members.first() else {
            continue;
        };
        kept.push(best.clone());
        if members.len() > 1 {
            groups.push(Group {
                name: best.name().to_owned(),
                why: format!("near duplicates of {}", best.name()),
                pictures: members,
            });
        }
    }
    (groups, kept)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn original_of_equal_files_has_the_shorter_name() {
        let names = ["a (1).jpg", "a copy.jpg", "a.jpg"];
        let pictures = names.map(|file| json!({"file": file, "width": 4, "height": 3}));
        let pictures = pictures.map(|one| serde_json::from_value::<Picture>(one).unwrap());
        let (groups, kept) = separate(pictures.to_vec(), &[0; 3], |_, _| Ordering::Equal);
        assert_eq!(groups[0].pictures.len(), 3);
        let kept: Vec<&str> = kept.iter().map(Picture::name).collect();
        assert_eq!(kept, ["a.jpg"]);
    }
}
