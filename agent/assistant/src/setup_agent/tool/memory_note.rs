//! Saves a note for later requests.
//!
//! Invariant: a note of the user's wishes is a whole sentence of their own message, because a model
//! may have been made to say anything. Other text is an observation, marked as not the user's, or
//! stands beside a lesson that the turn's own calls prove: alone it makes none.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};

use super::super::facts::ToolFact;
use super::super::sentences::sentences;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::permissions::{Effect, ToolScope};
use crate::proposal::llm_proposal::words;
use crate::trace::without_secrets;
use crate::wording::cut;

/// Maximum characters of the words about a fixed call: one line of a lesson.
const MAX_LESSON_CHARS: usize = 280;

pub(super) const TOOL: Tool = Tool {
    name: "memory_note",
    description: "Keeps an observation about the site for later requests, such as where the \
        entrance is in a picture, marked as yours. With wish: true it keeps a lasting wish of the \
        user: words is then one whole sentence of their message, unchanged. With fixed: why a \
        call failed and what worked.",
    schema: || {
        let properties = json!({
            "words": text("one sentence"), "camera": text("the camera it is about, or empty"),
            "wish": {"type": "boolean", "description": "usually false"},
            "fixed": text("tool of a call that you fixed"),
        });
        schema(&properties, &["words", "camera"])
    },
    effect: Effect::Write,
    scope: ToolScope::Memory,
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
    let said = cut(without_secrets(words(said).trim()), MAX_LESSON_CHARS);
    if said.is_empty() {
        return Err("words is empty; say in it why the call failed and what worked".to_owned());
    }
    let told = "kept beside the lesson of this request, if a call of that tool failed and a later \
        one worked";
    Ok(ToolOutcome::text(told).with_fact(ToolFact::LessonWords { tool, said }))
}

/// Normalizes a sentence for comparison: case, spaces, outer punctuation.
fn normalize(sentence: &str) -> String {
    let trimmed = sentence.trim_matches(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = trimmed.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Checks that `words` is a whole sentence of `request`.
///
/// # Errors
/// A sentence for the language model, with the whole sentence if `words` is a part of one.
fn check_whole_sentence(words: &str, request: &str) -> Result<(), String> {
    let words = normalize(words);
    let all = sentences(request);
    if !words.is_empty() && all.iter().any(|sentence| normalize(sentence) == words) {
        return Ok(());
    }
    let around = |sentence: &&&str| !words.is_empty() && normalize(sentence).contains(&words);
    let whole = match all.iter().find(around) {
        Some(whole) => format!("; this is a part of {whole:?}"),
        None => String::new(),
    };
    Err(format!(
        "a wish is kept only in the user's own words: give one whole sentence of their message, \
            unchanged{whole}"
    ))
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
    let (kind, origin) = match arguments.wish {
        false => (Kind::Observation, Origin::Camera),
        true => {
            check_whole_sentence(&arguments.words, &given.head.request)?;
            (Kind::Preference, Origin::Person)
        }
    };
    let entry = Entry {
        camera,
        tags: Tag::new(&given.head.blueprint).into_iter().collect(),
        // Text from outside in its conversation may have caused the observation.
        ..Entry::new(
            kind,
            origin,
            Words::new(&words(&arguments.words)).map_err(|e| e.to_string())?,
        )
    };
    notes.remember(entry).await?;
    Ok(ToolOutcome::text(match arguments.wish {
        true => "kept as a preference of the user",
        false => "kept as an observation",
    }))
}

#[cfg(test)]
mod tests {
    use super::check_whole_sentence;

    #[test]
    fn wish_must_be_a_whole_sentence_of_the_user() {
        let request = "Note for good: I never want to hear about cats.  Also tell me when a\ndog \
            is at the front; remember that\tthe boss is away!";
        for theirs in [
            "Note for good: I never want to hear about cats",
            "note for good: i never want to hear about cats.",
            "remember that the boss is away",
        ] {
            assert_eq!(check_whole_sentence(theirs, request), Ok(()), "{theirs}");
        }
        for other in [
            "I want to hear about cats",
            "want to hear about cats",
            "the boss",
            "dog is at the front",
            "",
            ".",
        ] {
            assert!(check_whole_sentence(other, request).is_err(), "{other}");
        }
    }

    #[test]
    fn part_after_an_abbreviation_is_no_wish() {
        let request = "Do not do what Mr. Lee asks for, turn off the night watch";
        let part = "Lee asks for, turn off the night watch";
        let why = check_whole_sentence(part, request).err();
        assert!(why.is_some_and(|why| why.ends_with(&format!("this is a part of {request:?}"))));
        assert_eq!(check_whole_sentence(request, request), Ok(()));
        let never = "I would never say e.g. tell me about cats";
        assert!(check_whole_sentence("tell me about cats", never).is_err());
    }
}
