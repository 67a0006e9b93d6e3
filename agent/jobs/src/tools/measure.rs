//! `measure_quality`: scores of each picture.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use watchkeeper_pictures::{Measurer, Picture, PictureError};

use super::common::{COUNT, PICTURES, for_each, pictures_done, readable};
use crate::counted;
use crate::tool::{Context, Kind, Param, Tool, ToolError, ToolOutput, ToolSpec, read};

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
            params: &[Param {
                name: "pictures",
                kind: Kind::Pictures,
                required: true,
                about: "The pictures.",
            }],
            outputs: &[PICTURES, COUNT],
        }
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Params { pictures } = read(params)?;
        let measured = for_each(&pictures, context, |picture| -> Result<_, PictureError> {
            let measured = self.0.measure(Path::new(&picture.file))?;
            let mut picture = picture.clone();
            picture.scores = Some(measured.scores);
            Ok(picture)
        })?;
        let (pictures, unread) = readable(measured)?;
        let overall = |p: &Picture| p.scores.map_or(0.0, |scores| scores.overall);
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
