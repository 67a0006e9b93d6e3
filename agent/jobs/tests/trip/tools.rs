//! Tools that stand for the runtime and the archive: events, detector and the collection `trip`
//! know the pictures of the trip.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_jobs::planner::{ARCHIVE_QUERY, EVENT_PICTURES, FIND_OBJECTS};
use watchkeeper_jobs::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, local_time, read,
};
use watchkeeper_jobs::tools::{COUNT, OF_PICTURES, PICTURES, picture_tools, pictures_done};
use watchkeeper_jobs::{KnownNames, Toolbox};
use watchkeeper_pictures::{FoundObject, Picture, folder};

use super::SHOTS;

/// The tools on pictures and those of a runtime whose events have the pictures of `folder`.
pub(crate) fn tools_of_trip(folder: PathBuf) -> Toolbox {
    let mut tools = picture_tools();
    tools.add(Arc::new(FindObjects));
    tools.add(Arc::new(ArchivePictures(folder.clone())));
    tools.add(Arc::new(EventPictures(folder)));
    tools
}

/// Classes of the objects in a picture.
fn classes(picture: &Picture) -> impl Iterator<Item = &'static str> + use<> {
    let name = picture.name().split('.').next().unwrap_or_default();
    let shot = SHOTS.iter().find(|shot| shot.name == name);
    shot.into_iter()
        .flat_map(|shot| shot.objects.split_whitespace())
}

struct FindObjects;

#[derive(Deserialize)]
struct FindParams {
    pictures: Vec<Picture>,
    class: String,
}

impl Tool for FindObjects {
    fn spec(&self) -> &'static ToolSpec {
        const fn pictures(key: &'static str) -> Output {
            Output { key, ..PICTURES }
        }
        const SPEC: ToolSpec = ToolSpec {
            name: FIND_OBJECTS,
            about: "Finds objects.",
            params: &[
                OF_PICTURES,
                Param {
                    required: true,
                    ..Param::optional("class", Kind::Text, "")
                },
            ],
            outputs: &[PICTURES, pictures("others"), pictures("all"), COUNT],
        };
        &SPEC
    }

    fn run(&self, params: Map<String, Value>, _: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let FindParams { pictures, class } = read(params)?;
        let object = |class: &str| FoundObject {
            class: class.to_owned(),
            confidence: 1.0,
            bounds: [0.0; 4],
        };
        let found = pictures.into_iter().map(|picture| Picture {
            objects: Some(
                classes(&picture)
                    .filter(|c| *c == class)
                    .map(object)
                    .collect(),
            ),
            ..picture
        });
        let all: Vec<Picture> = found.collect();
        let (with, others): (Vec<&Picture>, Vec<&Picture>) =
            all.iter().partition(|picture| picture.shows_objects());
        let mut done = pictures_done(&with, String::new());
        done.values.insert("others".to_owned(), json!(others));
        done.values.insert("all".to_owned(), json!(all));
        Ok(done)
    }
}

struct EventPictures(PathBuf);

#[derive(Deserialize)]
struct EventParams {
    since: String,
    until: Option<String>,
    what: Option<String>,
    camera: Option<String>,
}

impl Tool for EventPictures {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: EVENT_PICTURES,
            about: "Brings pictures of events.",
            params: &[
                Param::optional("since", Kind::Time, ""),
                Param::optional("until", Kind::Time, ""),
                Param::optional("what", Kind::Text, ""),
                Param::optional("camera", Kind::Text, ""),
                Param::optional("folder", Kind::Name, ""),
            ],
            outputs: &[PICTURES, COUNT],
        };
        &SPEC
    }

    fn names(&self) -> Option<KnownNames> {
        let mut names = KnownNames::default();
        let cameras = ["gate", "yard"];
        cameras.iter().for_each(|id| names.cameras.add(id, None));
        names.classes = ["person", "dog", "car"].map(str::to_owned).to_vec();
        names.rules = vec!["delivery".to_owned()];
        Some(names)
    }

    fn run(&self, params: Map<String, Value>, _: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let params: EventParams = read(params)?;
        let time = |text: &str| local_time(text).unwrap();
        let (since, until) = (time(&params.since), params.until.as_deref().map(time));
        let same =
            |wanted: &Option<String>, known: &Option<String>| wanted.is_none() || wanted == known;
        let files = SHOTS
            .iter()
            .map(|shot| self.0.join(format!("{}.jpg", shot.name)));
        let read = files.filter_map(|file| Picture::read(&file).ok());
        let events = read.map(|picture| Picture {
            class: classes(&picture).next().map(str::to_owned),
            ..picture
        });
        let is_meant = |picture: &Picture| {
            let taken = picture.taken.unwrap();
            since <= taken
                && until.is_none_or(|until| taken < until)
                && same(&params.what, &picture.class)
                && same(&params.camera, &picture.camera)
        };
        let pictures: Vec<Picture> = events.filter(is_meant).collect();
        Ok(pictures_done(&pictures, String::new()))
    }
}

/// An archive whose one collection has the pictures of a folder.
struct ArchivePictures(PathBuf);

impl Tool for ArchivePictures {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: ARCHIVE_QUERY,
            about: "Brings pictures of the archive.",
            params: &[
                Param::required("collection", Kind::Text, ""),
                Param::required("folder", Kind::Name, ""),
            ],
            outputs: &[PICTURES, COUNT],
        };
        &SPEC
    }

    fn run(&self, params: Map<String, Value>, _: &Context<'_>) -> Result<ToolOutput, ToolError> {
        assert_eq!(params.get("collection"), Some(&json!("trip")));
        let files = folder::pictures(&self.0, true).unwrap().files;
        let read = files.iter().filter_map(|file| Picture::read(file).ok());
        Ok(pictures_done(&read.collect::<Vec<_>>(), String::new()))
    }
}
