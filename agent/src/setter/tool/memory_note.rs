//! Keeps something for later. What a model says that has looked at the box is an observation, and marked as no person's words.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};

use super::{Effect, Given, Outcome, Scope, Tool, schema, text};
use crate::assistant::made::words;
use crate::clock::wall_now;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "memory_note",
    about: "Keeps an observation about the site for later requests, such as where the entrance is in a picture. It is marked as yours, not the person's. Not for what the person wants: they say `remember …` themselves.",
    schema: || {
        let properties = json!({"words": text("one sentence"), "camera": text("the camera it is about, or empty")});
        schema(&properties, &["words", "camera"])
    },
    effect: Effect::Write,
    scope: Scope::Memory,
    per_turn: 3,
    run: |given| async move { Outcome::from(note(given)) }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    words: String,
    #[serde(default)]
    camera: String,
}

fn note(given: Given<'_>) -> Result<Outcome, String> {
    let arguments: Arguments = given.arguments()?;
    let notes = given
        .hands
        .memory
        .as_ref()
        .ok_or("nothing is remembered here")?;
    let camera = match arguments.camera.as_str() {
        "" => None,
        name => Some(SourceId::new(name).map_err(|e| e.to_string())?),
    };
    let entry = Entry {
        camera,
        tags: Tag::new(&given.head.blueprint).into_iter().collect(),
        // In its conversation stood what cameras and people named: it may have been made to say this.
        ..Entry::new(
            Kind::Observation,
            Origin::Camera,
            Words::new(&words(&arguments.words)).map_err(|e| e.to_string())?,
        )
    };
    let mut memory = notes.open()?;
    memory
        .remember(wall_now(), entry)
        .map_err(|e| e.to_string())?;
    Ok(Outcome::text("kept as an observation"))
}
