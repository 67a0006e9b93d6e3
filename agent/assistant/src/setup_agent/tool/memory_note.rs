//! Saves a note for later requests.
//!
//! Invariant: a note of a user's preference is the user's own message, because a model may have
//! been made to say anything. Other text is an observation, marked as not the user's. Or it is
//! added to a lesson that the turn's own calls prove; alone it makes no lesson.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};

use super::super::facts::ToolFact;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::permissions::Effect;
use crate::proposal::llm_proposal::words;
use crate::trace::without_secrets;
use crate::wording::cut;

/// Maximum characters of a preference, and of the words about a fixed call: one line of a lesson.
const MAX_CHARS: usize = 280;

pub(super) const TOOL: Tool = Tool {
    name: "memory_note",
    description: "Keeps an observation about the site for later requests, such as where the \
        entrance is in a picture, marked as yours. With wish: true it keeps the \
        user's message (up to 280 characters) instead of words, as a lasting wish. With fixed: \
        why a call failed and what worked.",
    schema: || {
        let properties = json!({
            "words": text("one sentence"), "camera": text("the camera it is about, or empty"),
            "wish": {"type": "boolean", "description": "usually false"},
            "fixed": text("tool of a call that you fixed"),
        });
        schema(&properties, &["words", "camera"])
    },
    effect: Effect::Write,
    max_uses: 3,
    run: |given| async move { note(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    words: String,
    #[serde(default)]
    camera: String,
    #[serde(default)]
    wish: bool,
    /// Tool of the fixed call that the words are about; empty: they are about none.
    #[serde(default)]
    fixed: String,
}

/// Cause and remedy of a fixed call, for its lesson.
fn lesson_words(tool: String, said: &str) -> Result<ToolOutcome, String> {
    let said = cut(without_secrets(words(said).trim()), MAX_CHARS);
    if said.is_empty() {
        return Err("words is empty; say in it why the call failed and what worked".to_owned());
    }
    let result = "kept beside the lesson of this request, if a call of that tool failed and a later \
        one worked";
    Ok(ToolOutcome::text(result).with_fact(ToolFact::LessonWords { tool, said }))
}

/// Kind, author and words of a note. Of a preference the words are the user's whole message: a part
/// of it might say the opposite.
///
/// # Errors
/// If the message is too long: it would leave no room for the other preferences.
fn content(arguments: &Arguments, request: &str) -> Result<(Kind, Origin, String), String> {
    match arguments.wish {
        false => Ok((Kind::Observation, Origin::Camera, words(&arguments.words))),
        true if request.chars().count() > MAX_CHARS => Err(format!(
            "the message has more than {MAX_CHARS} characters, so it is not kept as a wish; ask \
             the user to send the wish alone, as \"remember that …\""
        )),
        true => Ok((Kind::Preference, Origin::Person, request.to_owned())),
    }
}

async fn note(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let notes = given
        .context
        .memory
        .as_ref()
        .ok_or("this box keeps no notes")?;
    if !arguments.fixed.is_empty() {
        return lesson_words(arguments.fixed, &arguments.words);
    }
    let camera = match arguments.camera.as_str() {
        "" => None,
        name => Some(SourceId::new(name).map_err(|e| e.to_string())?),
    };
    let (kind, origin, said) = content(&arguments, &given.head.request)?;
    let entry = Entry {
        camera,
        tags: Tag::new(&given.head.blueprint).into_iter().collect(),
        // Text from outside in its conversation may have caused the observation.
        ..Entry::new(kind, origin, Words::new(&said).map_err(|e| e.to_string())?)
    };
    notes.remember(entry).await?;
    Ok(ToolOutcome::text(match arguments.wish {
        true => "kept the user's message as a preference",
        false => "kept as an observation",
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn wish_has_the_message_of_the_user_and_no_words_of_a_model() {
        let request = "I would never say:\ntell me about cats";
        let given = |wish| Arguments {
            words: "Tell me about cats.".to_owned(),
            camera: String::new(),
            wish,
            fixed: String::new(),
        };
        let (kind, origin, said) = content(&given(true), request).unwrap();
        assert_eq!((kind, origin), (Kind::Preference, Origin::Person));
        assert_eq!(said, request);
        let (kind, origin, said) = content(&given(false), request).unwrap();
        assert_eq!((kind, origin), (Kind::Observation, Origin::Camera));
        assert_eq!(said, "Tell me about cats.");
        let long = "x".repeat(MAX_CHARS + 1);
        assert!(content(&given(true), &long).is_err());
        assert!(content(&given(false), &long).is_ok());
    }
}
