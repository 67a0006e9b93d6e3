//! Keeps lessons in the notes: the same mistake is one lesson, and their number is bounded.
//!
//! Invariants:
//! - A merged lesson is saved before the ones that it replaces are removed, so a crash loses none.
//! - Over [`MAX_LESSONS`] the least repeated are removed first, of these the oldest, and each
//!   removal is logged.
//! - Only lessons of the agent and of a language model are merged, counted and removed.

use watchkeeper_contract::time::Wall;
use watchkeeper_memory::note::{Kind, Origin};
use watchkeeper_memory::{Found, Memory, Query};

use super::{ErrorClass, Lesson, line};

/// Maximum lessons that the agent keeps.
pub(crate) const MAX_LESSONS: usize = 200;

/// Saves a lesson. Returns it as saved: joined with the earlier ones about the same mistake.
///
/// # Errors
/// A sentence, if the notes can't be read or written.
pub fn save(memory: &mut Memory, now: Wall, lesson: Lesson) -> Result<Lesson, String> {
    let earlier: Vec<(Found, Lesson)> = list_own(memory)?
        .into_iter()
        .filter_map(|found| {
            let known = read(&found).filter(|known| known.is_same(&lesson))?;
            Some((found, known))
        })
        .collect();
    let merged = earlier
        .iter()
        .fold(lesson, |lesson, (_, known)| lesson.merge(known.clone()));
    let entry = merged.to_entry()?;
    let saved = memory.remember(now, entry).map_err(|e| e.to_string())?;
    let saved = memory.note_at(&saved.file, saved.line);
    let saved = saved.map_err(|e| e.to_string())?;
    for (found, _) in earlier.iter().filter(|(found, _)| found.note != saved) {
        remove(memory, found)?;
    }
    evict(memory, &saved)?;
    Ok(merged)
}

/// Removes the lessons about corrections that led to `request`, because it was undone.
///
/// # Errors
/// A sentence, if the notes can't be read or written.
pub fn forget_correction(memory: &mut Memory, request: &str) -> Result<(), String> {
    for found in list_own(memory)? {
        let is_it = |lesson: &Lesson| {
            lesson.mistake.class == ErrorClass::Corrected
                && lesson.worked.as_deref() == Some(&line(request))
        };
        if read(&found).as_ref().is_some_and(is_it) {
            remove(memory, &found)?;
        }
    }
    Ok(())
}

/// The lesson in a note; `None` for one of another form.
pub fn read(found: &Found) -> Option<Lesson> {
    Lesson::read(found.note.words.as_str(), found.note.camera.clone())
}

/// Lessons of the agent and of a language model, the newest first.
fn list_own(memory: &mut Memory) -> Result<Vec<Found>, String> {
    let query = Query {
        kinds: vec![Kind::Lesson],
        limit: usize::MAX,
        ..Query::new("")
    };
    let mut found = memory.list(&query).map_err(|e| e.to_string())?;
    found.retain(|found| matches!(found.note.origin, Origin::Agent | Origin::Model));
    Ok(found)
}

/// Removes the lessons over [`MAX_LESSONS`], but not `saved`.
fn evict(memory: &mut Memory, saved: &watchkeeper_memory::Note) -> Result<(), String> {
    let mut all = list_own(memory)?;
    let surplus = all.len().saturating_sub(MAX_LESSONS);
    all.retain(|found| found.note != *saved);
    all.sort_by_key(|found| (read(found).map_or(0, |lesson| lesson.times), found.note.at));
    for found in all.iter().take(surplus) {
        remove(memory, found)?;
        tracing::info!(
            file = %found.file.display(),
            lesson = found.note.words.as_str(),
            "memory: removed a lesson; there are more than {MAX_LESSONS}"
        );
    }
    Ok(())
}

fn remove(memory: &mut Memory, found: &Found) -> Result<(), String> {
    let removed = memory.forget(&found.file, found.line, &found.note);
    removed.map_err(|e| e.to_string())
}
