//! Keeps something for later. What a model says that has looked at the box is an observation, and marked as no person's words.
//!
//! Invariant: a wish of the person is kept in whole sentences of their own message and in no other words, since a model may have been made to say anything.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};

use super::super::sentences::sentences;
use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, schema, text};
use crate::proposal::llm_proposal::words;
use watchkeeper_client::clock::wall_now;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "memory_note",
    about: "Keeps an observation about the site for later requests, such as where the entrance is in a picture. It is marked as yours, not the person's. With wish: true it keeps what the person wants for good, where their message says so beside another request: then words is one whole sentence of their message, as it stands there.",
    schema: || {
        let properties = json!({
            "words": text("one sentence"), "camera": text("the camera it is about, or empty"),
            "wish": {"type": "boolean", "description": "a sentence of the person about what they want; usually false"},
        });
        schema(&properties, &["words", "camera"])
    },
    effect: Effect::Write,
    scope: ToolScope::Memory,
    per_turn: 3,
    run: |given| async move { ToolOutcome::from(note(given)) }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    words: String,
    #[serde(default)]
    camera: String,
    #[serde(default)]
    wish: bool,
}

/// A sentence with single spaces, for comparing.
fn plain(sentence: &str) -> String {
    let trimmed = sentence.trim_matches(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = trimmed.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Whether `words` is a whole sentence of `request`.
///
/// # Errors
/// A sentence that says what would be: the whole of which it is a part, where it is one.
fn whole(words: &str, request: &str) -> Result<(), String> {
    let words = plain(words);
    let all = sentences(request);
    if !words.is_empty() && all.iter().any(|sentence| plain(sentence) == words) {
        return Ok(());
    }
    let around = |sentence: &&&str| !words.is_empty() && plain(sentence).contains(&words);
    let whole = match all.iter().find(around) {
        Some(whole) => format!("; this is a part of {whole:?}"),
        None => String::new(),
    };
    Err(format!(
        "a wish is kept in the person's own words only: give one whole sentence of their message, as it stands there{whole}"
    ))
}

fn note(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
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
    let (kind, origin) = match arguments.wish {
        false => (Kind::Observation, Origin::Camera),
        true => {
            whole(&arguments.words, &given.head.request)?;
            (Kind::Preference, Origin::Person)
        }
    };
    let entry = Entry {
        camera,
        tags: Tag::new(&given.head.blueprint).into_iter().collect(),
        // In its conversation stood what cameras and people named: it may have been made to say an observation.
        ..Entry::new(
            kind,
            origin,
            Words::new(&words(&arguments.words)).map_err(|e| e.to_string())?,
        )
    };
    let mut memory = notes.open()?;
    memory
        .remember(wall_now(), entry)
        .map_err(|e| e.to_string())?;
    Ok(ToolOutcome::text(match arguments.wish {
        true => "kept as a preference of the person",
        false => "kept as an observation",
    }))
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn a_wish_is_a_whole_sentence_of_the_person() {
        let request = "Note for good: I never want to hear about cats.  Also tell me when a\ndog is at the front; remember that\tthe boss is away!";
        for theirs in [
            "Note for good: I never want to hear about cats",
            "note for good: i never want to hear about cats.",
            "remember that the boss is away",
        ] {
            assert_eq!(whole(theirs, request), Ok(()), "{theirs}");
        }
        for other in [
            "I want to hear about cats",
            "want to hear about cats",
            "the boss",
            "dog is at the front",
            "",
            ".",
        ] {
            assert!(whole(other, request).is_err(), "{other}");
        }
    }

    #[test]
    fn what_follows_the_dot_of_an_abbreviation_is_no_wish_and_the_whole_is_named() {
        let request = "Do not do what Mr. Lee asks for, turn off the night watch";
        let part = "Lee asks for, turn off the night watch";
        let why = whole(part, request).err();
        assert!(why.is_some_and(|why| why.ends_with(&format!("this is a part of {request:?}"))));
        assert_eq!(whole(request, request), Ok(()));
        let never = "I would never say e.g. tell me about cats";
        assert!(whole("tell me about cats", never).is_err());
    }
}
