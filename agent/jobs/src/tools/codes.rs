//! `read_codes`: the QR and bar codes of each picture.

use std::path::Path;

use serde::Deserialize;
use watchkeeper_pictures::measure::{CodeKind, codes};
use watchkeeper_pictures::{Picture, PictureError};

use super::common::{COUNT, OF_PICTURES, PICTURES, for_each, pictures_done, readable, value};
use crate::counted;
use crate::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, Values, read,
};

#[derive(Debug)]
pub(super) struct ReadCodes;

#[derive(Debug, Deserialize)]
struct Params {
    pictures: Vec<Picture>,
    kind: Option<String>,
}

impl Tool for ReadCodes {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "read_codes",
            about: "Reads the texts of QR and bar codes in pictures.",
            params: &[
                OF_PICTURES,
                Param::optional(
                    "kind",
                    Kind::Choice(&["any", "qr", "bar"]),
                    "Which codes: QR codes, all others, or any, if absent.",
                ),
            ],
            outputs: &[
                Output {
                    about: "The pictures with a code.",
                    ..PICTURES
                },
                Output::new("others", Kind::Pictures, "The pictures without a code."),
                Output::new("all", Kind::Pictures, "All pictures, each with its codes."),
                COUNT,
            ],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let Params { pictures, kind } = read(params)?;
        let kind = match kind.as_deref() {
            Some("qr") => CodeKind::Qr,
            Some("bar") => CodeKind::Bar,
            _ => CodeKind::Any,
        };
        let read = for_each(&pictures, context, |picture| {
            let codes = Some(codes(Path::new(&picture.file), kind)?);
            let picture = picture.clone();
            Ok::<_, PictureError>(Picture { codes, ..picture })
        })?;
        let (all, unread) = readable(read)?;
        let has_code = |picture: &&Picture| picture.codes.as_ref().is_some_and(|c| !c.is_empty());
        let (with, others): (Vec<&Picture>, Vec<&Picture>) = all.iter().partition(has_code);
        let number = counted(all.len(), "picture");
        let summary = format!("{} of {number} with a code{unread}", with.len());
        let mut done = pictures_done(&with, summary);
        done.values.insert("others".to_owned(), value(&others));
        done.values.insert("all".to_owned(), value(&all));
        Ok(done)
    }
}
