//! Finds lessons again: by a request before it starts, and by an error when a tool fails.
//!
//! Invariants:
//! - At most [`MAX_SHOWN`] lessons and [`MAX_CHARS`] characters are shown to a language model.
//! - A lesson about an error has the same tool and class, and the same place or message.

use serde_json::{Value, json};
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::note::{Kind, Origin, Tag};
use watchkeeper_memory::{Found, Memory, Query};

use super::mistake::RULES;
use super::store::read;
use super::{ErrorClass, Lesson, Mistake, RELATED, SAME, similarity};
use crate::wording::keep_fitting;

/// Maximum lessons about a request.
pub const MAX_SHOWN: usize = 4;
/// Maximum characters of the lessons about a request: about 700 tokens.
pub const MAX_CHARS: usize = 2_000;
/// Notes of a search, of which the related ones are shown.
const SEARCHED: usize = 12;

/// Returns the lessons about requests that resemble `request`: first those with a remedy, and of
/// these the best.
///
/// # Errors
/// A sentence, if the notes can't be read.
pub(crate) fn about_request(memory: &mut Memory, request: &str) -> Result<Vec<Found>, String> {
    let mut found = search(memory, request, Vec::new())?;
    found.retain(|found| match read(found) {
        Some(lesson) => similarity(request, &lesson.request) >= RELATED,
        // A user's lesson has any form; sentences of the agent in another form are not used.
        None => found.note.origin != Origin::Agent,
    });
    found.sort_by_key(|found| read(found).is_some_and(|lesson| lesson.worked.is_none()));
    found.truncate(MAX_SHOWN);
    keep_fitting(&mut found, MAX_CHARS, |found| {
        found.note.words.as_str().chars().count()
    });
    Ok(found)
}

/// Returns the lesson about an error of a tool in a request like this one.
///
/// # Errors
/// A sentence, if the notes can't be read.
pub(crate) fn about_error(
    memory: &mut Memory,
    request: &str,
    mistake: &Mistake,
    why: &str,
) -> Result<Option<Found>, String> {
    let tags = [mistake.tool.as_str(), mistake.class.name()];
    let tags = tags.into_iter().flat_map(Tag::new).collect();
    let found = search(memory, &format!("{request} {mistake} {why}"), tags)?;
    let describes = |lesson: &Lesson| {
        let is_same_place = mistake.block.is_some() && mistake.is_same(&lesson.mistake);
        is_same_place || similarity(why, &lesson.why) >= SAME
    };
    let mut found = found.into_iter();
    Ok(found.find(|found| read(found).is_some_and(|lesson| describes(&lesson))))
}

/// Cosine from which two requests for a camera ask for nearly the same.
const NEARLY_SAME: f32 = 0.8;

/// Cosine from which two requests have the same words, and so mean the same camera.
const SAME_WORDS: f32 = 0.99;

/// Returns the lesson about a correction of a request like this one, about the same camera. A
/// correction that names the id of its camera is found by the words of the request.
///
/// # Errors
/// A sentence, if the notes can't be read.
pub fn correction(
    memory: &mut Memory,
    request: &str,
    camera: Option<&SourceId>,
) -> Result<Option<Lesson>, String> {
    let tags = [RULES, ErrorClass::Corrected.name()];
    let tags = tags.into_iter().flat_map(Tag::new).collect();
    let found = search(memory, request, tags)?;
    let mut lessons = found.iter().filter_map(read);
    Ok(lessons.find(|lesson| {
        let is_end = |c: char| !c.is_alphanumeric() && c != '-' && c != '_';
        let mut words = lesson.why.split(is_end);
        let mut names_camera = |id: &SourceId| words.any(|word| word == id.as_str());
        let needed = match &lesson.camera {
            known if known.as_ref() == camera => NEARLY_SAME,
            Some(corrected) if names_camera(corrected) => SAME_WORDS,
            _ => return false,
        };
        similarity(request, &lesson.request) >= needed
    }))
}

fn search(memory: &mut Memory, text: &str, tags: Vec<Tag>) -> Result<Vec<Found>, String> {
    let query = Query {
        kinds: vec![Kind::Lesson],
        tags,
        limit: SEARCHED,
        ..Query::new(text)
    };
    memory.search(query).map_err(|e| e.to_string())
}

/// Lessons as data for a language model.
pub fn to_json(found: &[Found]) -> Value {
    let one = |found: &Found| {
        json!({
            "words_of": found.note.origin, "is_quotation": !found.trusted,
            "camera": found.note.camera, "lesson": found.note.words,
        })
    };
    found.iter().map(one).collect()
}
