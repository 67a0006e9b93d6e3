//! `measure_quality`: scores of each picture.

use std::sync::Arc;

use serde::Deserialize;
use watchkeeper_pictures::{Measurer, Picture};

use super::common::{COUNT, Collection, OF_PICTURES, PICTURES, add_scores, overall, pictures_done};
use crate::counted;
use crate::tool::{Context, Tool, ToolError, ToolOutput, ToolSpec, Values, read};

#[derive(Debug)]
pub(super) struct MeasureQuality(pub(super) Arc<Measurer>);

#[derive(Debug, Deserialize)]
struct Params {
    pictures: Vec<Picture>,
}

impl Tool for MeasureQuality {
    fn spec(&self) -> &'static ToolSpec {
        &ToolSpec {
            name: "measure_quality",
            about: "Scores sharpness, exposure, contrast and freedom from noise of each picture, from 0 to 1.",
            params: &[OF_PICTURES],
            outputs: &[PICTURES, COUNT],
        }
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let Params { pictures } = read(params)?;
        let pictures = pictures.into_iter().map(|picture| Picture {
            scores: None,
            ..picture
        });
        let mut whole = Collection::Pictures(pictures.collect()).into_groups("");
        let unread = add_scores(&self.0, &mut whole, context)?;
        let pictures = whole.into_iter().flat_map(|group| group.pictures);
        let pictures = pictures.filter(|picture| picture.scores.is_some());
        let pictures: Vec<Picture> = pictures.collect();
        let best = pictures
            .iter()
            .max_by(|a, b| overall(a).total_cmp(&overall(b)));
        let best = best.and_then(|best| {
            Some(format!(
                "; best {}: {}",
                best.name(),
                best.scores?.explain()
            ))
        });
        let best = best.unwrap_or_default();
        let summary = format!(
            "{} measured{best}{unread}",
            counted(pictures.len(), "picture")
        );
        Ok(pictures_done(&pictures, summary))
    }
}
