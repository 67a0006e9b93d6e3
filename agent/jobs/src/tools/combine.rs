//! `combine`: pictures of two lists, or those of one that are not in the other.

use std::collections::HashSet;

use serde::Deserialize;
use watchkeeper_pictures::Picture;

use super::common::{COUNT, OF_PICTURES, PICTURES, pictures_done};
use crate::counted;
use crate::tool::{Context, Kind, Param, Tool, ToolError, ToolOutput, ToolSpec, Values, read};

#[derive(Debug)]
pub(super) struct Combine;

#[derive(Debug, Deserialize)]
struct Params {
    pictures: Vec<Picture>,
    #[serde(default)]
    more: Vec<Picture>,
    #[serde(default)]
    without: Vec<Picture>,
}

impl Tool for Combine {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "combine",
            about: "Joins pictures with more of them, and leaves out others; each file once.",
            params: &[
                OF_PICTURES,
                Param::optional("more", Kind::Pictures, "Pictures that are added."),
                Param::optional("without", Kind::Pictures, "Pictures that are left out."),
            ],
            outputs: &[PICTURES, COUNT],
        };
        &SPEC
    }

    fn run(&self, params: Values, _: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let Params {
            mut pictures,
            more,
            without,
        } = read(params)?;
        let mut known: HashSet<String> = without.into_iter().map(|one| one.file).collect();
        pictures.extend(more);
        let number = pictures.len();
        pictures.retain(|picture| known.insert(picture.file.clone()));
        let kept = pictures.len();
        let summary = format!("{kept} of {} kept", counted(number, "picture"));
        Ok(pictures_done(&pictures, summary))
    }
}
