//! `list_pictures`: the picture files of a folder.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use watchkeeper_pictures::Picture;
use watchkeeper_pictures::folder::{self, FolderError, FolderFiles};

use super::common::{COUNT, PICTURES, for_each, pictures_done, readable};
use crate::counted;
use crate::tool::{Context, Kind, Param, Tool, ToolError, ToolOutput, ToolSpec, Values, read};

#[derive(Debug)]
pub(super) struct ListPictures;

#[derive(Debug, Deserialize)]
struct Params {
    folder: String,
    #[serde(default = "yes")]
    subfolders: bool,
}

const fn yes() -> bool {
    true
}

impl Tool for ListPictures {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "list_pictures",
            about: "Lists the JPEG, PNG and WebP files of a folder with size, time, place, camera.",
            params: &[
                Param::required("folder", Kind::Folder, "The folder, or one picture file."),
                Param::optional(
                    "subfolders",
                    Kind::Flag,
                    "Whether subfolders are listed too; true if absent.",
                ),
            ],
            outputs: &[PICTURES, COUNT],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let Params { folder, subfolders } = read(params)?;
        let path = std::path::absolute(Path::new(&folder))
            .map_err(|error| ToolError::Permanent(format!("folder {folder}: {error}")))?;
        let found = folder::pictures(&path, subfolders).map_err(|error| match error {
            FolderError::Io { ref source, .. } if source.kind() != ErrorKind::NotFound => {
                ToolError::Transient(error.to_string())
            }
            error => ToolError::Permanent(error.to_string()),
        })?;
        let mut read = for_each(&found.files, context, |file| {
            Picture::read(file).map_err(|error| error.to_string())
        })?;
        let skipped = found.skipped.iter();
        read.extend(skipped.map(|(file, why)| Err(format!("{}: {why}", file.display()))));
        let (pictures, unread) = readable(read)?;
        let number = counted(pictures.len(), "picture");
        let others = others(&found);
        let summary = format!("{number} in {}{unread}{others}", path.display());
        Ok(pictures_done(&pictures, summary))
    }
}

/// Counts files of another kind at the end of a summary; empty if there is none.
fn others(found: &FolderFiles) -> String {
    let name = found.other.as_deref().and_then(Path::file_name);
    name.map_or_else(String::new, |name| {
        let number = counted(found.others, "file");
        format!(
            "; {number} of another kind left out, such as {}",
            name.display()
        )
    })
}
