//! `rank_alike` and `group_alike`: likeness by the embeddings of a network.
//!
//! - Both compare embeddings of one model of the runtime, and are missing without it.
//! - A picture without an embedding is left out and counted.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use watchkeeper_jobs::counted;
use watchkeeper_jobs::tool::{Context, Kind, Param, Tool, ToolError, ToolOutput, ToolSpec, read};
use watchkeeper_jobs::tools::{COUNT, GROUPS, OF_PICTURES, PICTURES, groups_done, pictures_done};
use watchkeeper_pictures::likeness::cosine;
use watchkeeper_pictures::{Group, Picture};

use super::connection::RuntimeAccess;
use crate::embedding::EmbeddingModel;

/// Likeness of pictures of one group. Of the photos of `tests/tools/likeness`, 2 in 10,000 pairs of
/// different scenes are as alike.
const ALIKE: f64 = 0.75;
const LIKENESS: Kind = Kind::Number { min: 0.0, max: 1.0 };

#[derive(Debug)]
pub(super) struct RankAlike(pub(super) Arc<RuntimeAccess>);

#[derive(Debug, Deserialize)]
struct RankParams {
    pictures: Vec<Picture>,
    to: Vec<Picture>,
    least: Option<f64>,
    count: Option<usize>,
}

impl Tool for RankAlike {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "rank_alike",
            about: "Orders pictures by their likeness to others, the most alike first.",
            params: &[
                OF_PICTURES,
                Param::required(
                    "to",
                    Kind::Pictures,
                    "The pictures to compare with; the nearest of them counts.",
                ),
                Param::optional(
                    "least",
                    LIKENESS,
                    "Least likeness of those kept; all if absent.",
                ),
                Param::optional(
                    "count",
                    Kind::Integer {
                        min: 1,
                        max: 10_000,
                    },
                    "Number of those kept, the most alike; all if absent.",
                ),
            ],
            outputs: &[PICTURES, COUNT],
        };
        &SPEC
    }

    fn missing(&self, _: &Map<String, Value>) -> Option<String> {
        self.0.missing_model(EmbeddingModel::among)
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let RankParams {
            pictures,
            to,
            least,
            count,
        } = read(params)?;
        let (mut connection, embedder, model) = self.0.connect_to_model(context)?;
        let targets = connection.embeddings(&embedder, &model, &to)?;
        if targets.is_empty() {
            let why = "to: there is no picture to compare with".to_owned();
            return Err(ToolError::Permanent(why));
        }
        let found = connection.embeddings(&embedder, &model, &pictures)?;
        let of = |vector: &[f32]| {
            let likeness = targets
                .iter()
                .filter_map(|(_, target)| cosine(target, vector));
            likeness.max_by(f64::total_cmp).unwrap_or(-1.0)
        };
        let ranked = ranked(
            found
                .into_iter()
                .map(|(p, vector)| (of(&vector), p))
                .collect(),
        );
        let kept = ranked
            .into_iter()
            .filter(|(likeness, _)| least.is_none_or(|l| *likeness >= l))
            .take(count.unwrap_or(usize::MAX));
        let kept: Vec<(f64, Picture)> = kept.collect();
        let first = kept
            .first()
            .map(|(likeness, first)| format!("; first {} with {likeness:.2}", first.name()));
        let number = counted(kept.len(), "picture");
        let summary = format!(
            "{number} by likeness ({}){}{}",
            model.name,
            first.unwrap_or_default(),
            connection.unread()
        );
        let kept: Vec<Picture> = kept.into_iter().map(|(_, picture)| picture).collect();
        Ok(pictures_done(&kept, summary))
    }
}

/// The most alike first; equals by path.
fn ranked(mut pictures: Vec<(f64, Picture)>) -> Vec<(f64, Picture)> {
    pictures.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.file.cmp(&other.file)));
    pictures
}

#[derive(Debug)]
pub(super) struct GroupAlike(pub(super) Arc<RuntimeAccess>);

#[derive(Debug, Deserialize)]
struct GroupParams {
    pictures: Vec<Picture>,
    least: Option<f64>,
}

impl Tool for GroupAlike {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "group_alike",
            about: "Groups pictures that look alike: of one scene or one kind of object.",
            params: &[
                OF_PICTURES,
                Param::optional(
                    "least",
                    LIKENESS,
                    "Least likeness to the first picture of a group; 0.75 if absent, which fits \
                     mobilenet-v2-features.",
                ),
            ],
            outputs: &[GROUPS, PICTURES, COUNT],
        };
        &SPEC
    }

    fn missing(&self, _: &Map<String, Value>) -> Option<String> {
        self.0.missing_model(EmbeddingModel::among)
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let GroupParams { pictures, least } = read(params)?;
        let least = least.unwrap_or(ALIKE);
        let (mut connection, embedder, model) = self.0.connect_to_model(context)?;
        let found = connection.embeddings(&embedder, &model, &pictures)?;
        let groups = grouped(found, least, &|| context.check_continue())?;
        let number: usize = groups.iter().map(|group| group.pictures.len()).sum();
        let summary = format!(
            "{} in {} of likeness {least:.2} and more ({}){}",
            counted(number, "picture"),
            counted(groups.len(), "group"),
            model.name,
            connection.unread()
        );
        Ok(groups_done(&groups, summary))
    }
}

/// Puts each picture into the group whose first picture is the most alike, or begins one.
fn grouped(
    pictures: Vec<(Picture, Vec<f32>)>,
    least: f64,
    check: &dyn Fn() -> Result<(), ToolError>,
) -> Result<Vec<Group>, ToolError> {
    let mut groups: Vec<(Vec<f32>, Group)> = Vec::new();
    for (picture, vector) in pictures {
        check()?;
        let likeness = groups.iter().enumerate().filter_map(|(nth, (first, _))| {
            Some((cosine(first, &vector)?, nth)).filter(|(likeness, _)| *likeness >= least)
        });
        // Of equals the first group.
        let nearest = likeness.max_by(|(a, i), (b, j)| a.total_cmp(b).then_with(|| j.cmp(i)));
        match nearest.and_then(|(_, nth)| groups.get_mut(nth)) {
            Some((_, group)) => group.pictures.push(picture),
            None => {
                let name = format!("{} like {}", groups.len() + 1, picture.name());
                let why = format!("likeness to {} of {least:.2} and more", picture.name());
                let pictures = vec![picture];
                groups.push((
                    vector,
                    Group {
                        name,
                        why,
                        pictures,
                    },
                ));
            }
        }
    }
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn picture(name: &str) -> Picture {
        serde_json::from_value(json!({"file": name, "width": 4, "height": 3})).unwrap()
    }

    proptest! {
        #[test]
        fn every_picture_is_in_one_group_and_alike_to_its_first(
            vectors in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 3), 0..30),
            least in 0.0..1.0_f64,
        ) {
            let named: Vec<_> = vectors.iter().enumerate()
                .map(|(n, vector)| (picture(&format!("/p/{n}.jpg")), vector.clone()))
                .collect();
            let groups = grouped(named.clone(), least, &|| Ok(())).unwrap();
            let vector = |p: &Picture| &named.iter().find(|(q, _)| q.file == p.file).unwrap().1;
            let mut all: Vec<&str> = Vec::new();
            for group in &groups {
                let (first, rest) = group.pictures.split_first().unwrap();
                for one in rest {
                    prop_assert!(cosine(vector(first), vector(one)).unwrap() >= least);
                }
                all.extend(group.pictures.iter().map(|p| p.file.as_str()));
            }
            // No group could have taken the first picture of a later one.
            for (n, group) in groups.iter().enumerate() {
                for earlier in &groups[..n] {
                    let likeness = cosine(vector(&earlier.pictures[0]), vector(&group.pictures[0]));
                    prop_assert!(likeness.is_none_or(|likeness| likeness < least));
                }
            }
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all.len(), named.len());
        }

        #[test]
        fn order_falls_and_does_not_depend_on_that_of_the_input(
            likeness in prop::collection::vec(-1.0..1.0_f64, 0..20), by in any::<u64>(),
        ) {
            let list: Vec<_> = likeness.iter().enumerate()
                .map(|(n, likeness)| (*likeness, picture(&format!("/p/{n}.jpg"))))
                .collect();
            let mut shuffled = list.clone();
            fastrand::Rng::with_seed(by).shuffle(&mut shuffled);
            let (one, other) = (ranked(list), ranked(shuffled));
            prop_assert_eq!(&one, &other);
            prop_assert!(one.windows(2).all(|pair| pair[0].0 >= pair[1].0));
        }
    }
}
