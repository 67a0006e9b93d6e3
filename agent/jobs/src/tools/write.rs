//! `contact_sheet` and `album`: files for people.

use serde::Deserialize;
use serde_json::{Map, Value};
use watchkeeper_pictures::album::{self, AlbumError, caption};
use watchkeeper_pictures::sheet::{self, SheetError};
use watchkeeper_store::durable;

use super::common::{COUNT, Collection};
use crate::tool::{Context, Done, Kind, Output, Param, Tool, ToolError, ToolSpec, read};

/// The result of a tool that wrote a file or folder.
fn written(name: String, count: usize, summary: String) -> Done {
    let values = Map::from_iter([
        ("file".to_owned(), Value::from(name.as_str())),
        ("count".to_owned(), Value::from(count)),
    ]);
    Done {
        values,
        summary,
        files: vec![name],
    }
}

const FILE: Output = Output {
    key: "file",
    kind: Kind::Name,
    about: "Name in the output folder.",
};

#[derive(Debug)]
pub(super) struct ContactSheet;

#[derive(Debug, Deserialize)]
struct SheetParams {
    from: Collection,
    file: String,
}

impl Tool for ContactSheet {
    fn spec(&self) -> &'static ToolSpec {
        &ToolSpec {
            name: "contact_sheet",
            about: "Writes one JPEG with small captioned pictures, at most 400.",
            params: &[
                Param {
                    name: "from",
                    kind: Kind::Collection,
                    required: true,
                    about: "Pictures, or groups of pictures.",
                },
                Param {
                    name: "file",
                    kind: Kind::Name,
                    required: true,
                    about: "Name of the JPEG in the output folder, such as best.jpg.",
                },
            ],
            outputs: &[FILE, COUNT],
        }
    }

    fn run(&self, params: Map<String, Value>, context: &Context<'_>) -> Result<Done, ToolError> {
        let SheetParams { from, file } = read(params)?;
        let pictures = from.into_pictures();
        let captioned: Vec<_> = pictures.iter().map(|p| (p, caption(p))).collect();
        let jpeg = sheet::draw(&captioned, &|| context.go_on().is_ok());
        let jpeg = jpeg.map_err(|error| match error {
            SheetError::Interrupted => context.go_on().err().unwrap_or(ToolError::Cancelled),
            error => ToolError::Permanent(error.to_string()),
        })?;
        let path = context.target(&file)?;
        durable::replace(&path, &jpeg).map_err(|error| {
            ToolError::Transient(format!("{} can't be written: {error}", path.display()))
        })?;
        let summary = format!(
            "contact sheet {} of {} pictures",
            path.display(),
            pictures.len()
        );
        Ok(written(file, pictures.len(), summary))
    }
}

#[derive(Debug)]
pub(super) struct Album;

#[derive(Debug, Deserialize)]
struct AlbumParams {
    from: Collection,
    name: String,
    title: Option<String>,
}

impl Tool for Album {
    fn spec(&self) -> &'static ToolSpec {
        &ToolSpec {
            name: "album",
            about: "Copies pictures into a folder, one subfolder for each group, with an HTML page.",
            params: &[
                Param {
                    name: "from",
                    kind: Kind::Collection,
                    required: true,
                    about: "Pictures, or groups of pictures.",
                },
                Param {
                    name: "name",
                    kind: Kind::Name,
                    required: true,
                    about: "Name of the new folder in the output folder.",
                },
                Param {
                    name: "title",
                    kind: Kind::Text,
                    required: false,
                    about: "Title of the page; the name if absent.",
                },
            ],
            outputs: &[FILE, COUNT],
        }
    }

    fn run(&self, params: Map<String, Value>, context: &Context<'_>) -> Result<Done, ToolError> {
        let AlbumParams { from, name, title } = read(params)?;
        let groups = from.into_groups("pictures");
        context.expect(groups.iter().map(|group| group.pictures.len()).sum());
        let path = context.target(&name)?;
        let progress = || {
            context.count();
            context.go_on().is_ok()
        };
        let title = title.as_deref().unwrap_or(&name);
        let album =
            album::write(&path, title, &groups, &progress).map_err(|error| match error {
                AlbumError::Io { .. } => ToolError::Transient(error.to_string()),
                AlbumError::Exists(_) | AlbumError::Picture(_) => {
                    ToolError::Permanent(error.to_string())
                }
            })?;
        let Some(album) = album else {
            return Err(context.go_on().err().unwrap_or(ToolError::Cancelled));
        };
        let summary = format!(
            "album {} with {} pictures in {} folders",
            path.join(album::PAGE).display(),
            album.pictures,
            album.folders
        );
        Ok(written(name, album.pictures, summary))
    }
}
