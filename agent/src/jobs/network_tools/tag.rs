//! `tag`: which of the given words fits a picture best, by a model of pictures and texts.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use watchkeeper_jobs::counted;
use watchkeeper_jobs::tool::{Context, Kind, Param, Tool, ToolError, ToolOutput, ToolSpec, read};
use watchkeeper_jobs::tools::{COUNT, GROUPS, OF_PICTURES, PICTURES, pictures_and_groups_done};
use watchkeeper_pictures::likeness::cosine;
use watchkeeper_pictures::{Group, Picture};

use super::connection::{RuntimeAccess, tool_error};
use crate::embedding::EmbeddingModel;

/// Factor of likenesses before they become shares, as CLIP was trained with.
const SHARPNESS: f64 = 100.0;
/// Name of the group of pictures that no word fits.
const OTHERS: &str = "none of these";

#[derive(Debug)]
pub(super) struct Tag(pub(super) Arc<RuntimeAccess>);

#[derive(Debug, Deserialize)]
struct Params {
    pictures: Vec<Picture>,
    labels: Vec<String>,
    least: Option<f64>,
}

impl Tool for Tag {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "tag",
            about: "Gives each picture the best of these words, such as landmarks or kinds of \
                    scenes, with a score, and groups by them.",
            params: &[
                OF_PICTURES,
                Param::required(
                    "labels",
                    Kind::Texts,
                    "The words, all different, such as [\"Eiffel Tower\", \"car park\"].",
                ),
                Param::optional(
                    "least",
                    Kind::Number { min: 0.0, max: 1.0 },
                    "Least score of a word, where those of all words sum to 1; 0 if absent.",
                ),
            ],
            outputs: &[GROUPS, PICTURES, COUNT],
        };
        &SPEC
    }

    fn missing(&self, _: &Map<String, Value>) -> Option<String> {
        self.0.missing_model(|models, wanted| {
            let model = EmbeddingModel::of_texts(models, wanted)?;
            model.require_texts()?;
            Ok(model)
        })
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let mut params: Params = read(params)?;
        params.labels = distinct(params.labels)?;
        let (mut connection, embedder, model) = self.0.connect_to_model(context)?;
        let mut words = Vec::new();
        for label in &params.labels {
            let made = connection
                .wait(embedder.embed_text_with(&model, label))?
                .map_err(tool_error)?;
            words.push((label.as_str(), made.vector));
        }
        let found = connection.embeddings(&embedder, &model, &params.pictures)?;
        let tagged = found.into_iter().map(|(mut picture, vector)| {
            let tag = best(&words, &vector)
                .filter(|(_, score)| params.least.is_none_or(|least| *score >= least));
            picture.tag = tag.map(|(label, score)| watchkeeper_pictures::Tag {
                label: label.to_owned(),
                score,
            });
            picture
        });
        let tagged: Vec<Picture> = tagged.collect();
        let groups = groups(&params.labels, &tagged);
        let most = groups
            .first()
            .map(|group| format!("; most: {} with {}", group.name, group.pictures.len()));
        let summary = format!(
            "{} by {} words ({}){}{}",
            counted(tagged.len(), "picture"),
            params.labels.len(),
            model.name,
            most.unwrap_or_default(),
            connection.unread()
        );
        Ok(pictures_and_groups_done(&tagged, &groups, summary))
    }
}

/// Words without repetitions, at least two.
fn distinct(mut labels: Vec<String>) -> Result<Vec<String>, ToolError> {
    let mut named = HashSet::new();
    labels.retain(|label| named.insert(label.clone()));
    match labels.len() {
        0 | 1 => Err(ToolError::Permanent(
            "labels: name at least two different words to choose from".to_owned(),
        )),
        _ => Ok(labels),
    }
}

/// The best word with its share of all words.
fn best<'w>(words: &[(&'w str, Vec<f32>)], picture: &[f32]) -> Option<(&'w str, f64)> {
    let likeness = words
        .iter()
        .filter_map(|(label, word)| Some((*label, cosine(word, picture)?)));
    let likeness: Vec<(&str, f64)> = likeness.collect();
    let (label, most) = likeness
        .iter()
        .copied()
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let shares = likeness
        .iter()
        .map(|(_, likeness)| (SHARPNESS * (likeness - most)).exp());
    Some((label, 1.0 / shares.sum::<f64>()))
}

/// A group for each word that a picture has, the largest first.
fn groups(labels: &[String], pictures: &[Picture]) -> Vec<Group> {
    let of = |name: &str, why: String, label: Option<&str>| Group {
        name: name.to_owned(),
        why,
        pictures: pictures
            .iter()
            .filter(|picture| picture.tag.as_ref().map(|tag| tag.label.as_str()) == label)
            .cloned()
            .collect(),
    };
    let named = labels
        .iter()
        .map(|label| of(label, format!("{label} fits best"), Some(label)));
    let others = of(OTHERS, "no word fits well enough".to_owned(), None);
    let mut groups: Vec<Group> = named.chain([others]).collect();
    groups.retain(|group| !group.pictures.is_empty());
    groups.sort_by_key(|group| std::cmp::Reverse(group.pictures.len()));
    groups
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn word_named_twice_makes_one_group() {
        let labels = distinct(["car", "bus", "car"].map(str::to_owned).to_vec()).unwrap();
        let picture = json!({"file": "a", "width": 4, "height": 3,
            "tag": {"label": "car", "score": 0.9}});
        let groups = groups(&labels, &[serde_json::from_value(picture).unwrap()]);
        assert_eq!(groups.len(), 1);
        let refused = distinct(["car", "car"].map(str::to_owned).to_vec()).unwrap_err();
        assert!(refused.to_string().contains("two different words"));
    }
}
