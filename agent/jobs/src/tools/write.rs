//! `contact_sheet` and `album`: files for people.

use std::collections::HashSet;
use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value};
use watchkeeper_pictures::Group;
use watchkeeper_pictures::album::{self, AlbumError, caption, file_name, unique};
use watchkeeper_pictures::sheet::{self, MAX_PICTURES, SheetError};

use super::common::{COUNT, Collection, FROM, unread};
use crate::counted;
use crate::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, Values, read,
};

/// Most contact sheets of one step.
const MAX_SHEETS: usize = 400;

/// The result of a tool that wrote a file or folder.
fn written(name: String, count: usize, summary: String) -> ToolOutput {
    let values = Map::from_iter([
        ("file".to_owned(), Value::from(name.as_str())),
        ("count".to_owned(), Value::from(count)),
    ]);
    ToolOutput {
        values,
        summary,
        files: vec![name],
    }
}

const FILE: Output = Output::new("file", Kind::Name, "Name in the output folder.");

#[derive(Debug)]
pub(super) struct ContactSheet;

#[derive(Debug, Deserialize)]
struct SheetParams {
    from: Collection,
    file: String,
    #[serde(default)]
    each: bool,
}

impl Tool for ContactSheet {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "contact_sheet",
            about: "Writes one JPEG with small captioned pictures, the first 400.",
            params: &[
                FROM,
                Param::required(
                    "file",
                    Kind::Name,
                    "Name of the JPEG in the output folder, such as best.jpg.",
                ),
                Param::optional(
                    "each",
                    Kind::Flag,
                    "Whether each group has a sheet of its own, named as best 2026-03-01.jpg.",
                ),
            ],
            outputs: &[FILE, COUNT],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let SheetParams { from, file, each } = read(params)?;
        let mut groups = from.into_groups("");
        groups.retain(|group| !group.pictures.is_empty());
        if groups.is_empty() {
            return nothing(file, context);
        }
        if each && groups.len() > MAX_SHEETS {
            let why = format!(
                "{} groups; at most {MAX_SHEETS} get a sheet each",
                groups.len()
            );
            return Err(ToolError::Permanent(why));
        }
        let (mut taken, mut done) = (HashSet::new(), Vec::new());
        let sheets = groups.chunks(if each { 1 } else { groups.len() });
        for groups in sheets {
            let name = match groups {
                [group] if each && !group.name.is_empty() => {
                    let stem = file.strip_suffix(".jpg").unwrap_or(&file);
                    let group = group.name.trim_end_matches(".jpg");
                    let named = file_name(&format!("{stem} {group}.jpg"));
                    unique(&named, &mut taken)
                }
                _ => file.clone(),
            };
            done.push(write_sheet(groups, name, context)?);
        }
        let mut done = done.into_iter();
        let first = done.next().map_or_else(|| nothing(file, context), Ok)?;
        Ok(done.fold(first, |mut all, one| {
            all.files.extend(one.files);
            all.summary = format!("{}; {}", all.summary, one.summary);
            all
        }))
    }
}

/// Writes one sheet of groups.
fn write_sheet(
    groups: &[Group],
    file: String,
    context: &Context<'_>,
) -> Result<ToolOutput, ToolError> {
    let pictures: Vec<_> = groups.iter().flat_map(|group| &group.pictures).collect();
    let captioned = groups.iter().flat_map(|group| {
        let heading = match group.name.as_str() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let of_group = group.pictures.iter();
        // A day is said once: "2026-11-16: a.jpg · 08:00".
        let said = format!(" {} ", group.name);
        of_group.map(move |picture| {
            let text = caption(picture).replacen(&said, " ", 1);
            (picture, format!("{heading}{text}"))
        })
    });
    let captioned: Vec<_> = captioned.collect();
    let drawn = captioned.get(..MAX_PICTURES).unwrap_or(&captioned);
    let sheet = sheet::draw(drawn, &|| context.check_continue().is_ok());
    let sheet = sheet.map_err(|error| match error {
        SheetError::Interrupted => interruption(context),
        error => ToolError::Permanent(error.to_string()),
    })?;
    let target = context.target(&file)?;
    fs::write(target.part(), &sheet.jpeg).map_err(|error| {
        ToolError::Transient(format!(
            "{} can't be written: {error}",
            target.path().display()
        ))
    })?;
    let path = target.publish()?;
    let drawn = sheet.pictures;
    let summary = format!(
        "contact sheet {} of {drawn} of {}{}",
        path.display(),
        counted(pictures.len(), "picture"),
        unread(&sheet.unreadable)
    );
    Ok(written(file, drawn, summary))
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
        const SPEC: ToolSpec = ToolSpec {
            name: "album",
            about: "Copies pictures into a folder, one subfolder for each group, with an HTML page.",
            params: &[
                FROM,
                Param::required(
                    "name",
                    Kind::Name,
                    "Name of the new folder in the output folder.",
                ),
                Param::optional(
                    "title",
                    Kind::Text,
                    "Title of the page; the name if absent.",
                ),
            ],
            outputs: &[FILE, COUNT],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let AlbumParams { from, name, title } = read(params)?;
        let groups = from.into_groups("pictures");
        let number: usize = groups.iter().map(|group| group.pictures.len()).sum();
        if number == 0 {
            return nothing(name, context);
        }
        context.expect(number);
        let target = context.target(&name)?;
        let progress = || {
            context.count();
            context.check_continue().is_ok()
        };
        let title = title.as_deref().unwrap_or(&name);
        let album = album::write(target.part(), title, &groups, &progress);
        let album = album.map_err(|error| match error {
            AlbumError::Io { .. } => ToolError::Transient(error.to_string()),
            AlbumError::Unreadable(_) => ToolError::Permanent(error.to_string()),
            AlbumError::Interrupted => interruption(context),
        })?;
        let path = target.publish()?;
        let summary = format!(
            "album {} with {} in {}{}",
            path.join(album::PAGE).display(),
            counted(album.pictures, "picture"),
            counted(album.folders, "folder"),
            unread(&album.unreadable)
        );
        Ok(written(name, album.pictures, summary))
    }
}

/// The outcome without pictures. Nothing is written: an empty page looks like a result. Steps that
/// use the name go on. A plan of a language model fails: its conditions may be wrong, and it is
/// revised.
fn nothing(name: String, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
    let summary = "no picture matched, so there is nothing to show".to_owned();
    match context.is_revisable {
        true => Err(ToolError::Permanent(summary)),
        false => Ok(ToolOutput {
            files: Vec::new(),
            ..written(name, 0, summary)
        }),
    }
}

/// Why a tool was asked to end.
fn interruption(context: &Context<'_>) -> ToolError {
    // A reason to end stays.
    context
        .check_continue()
        .err()
        .unwrap_or(ToolError::Cancelled)
}
