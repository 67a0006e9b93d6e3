//! What an event keeps, and whether it is critical.

use watchkeeper_contract::rule::ClipSpec;

use super::amounts::seconds;
use crate::reader::Reader;
use crate::refusal::Refusal;

/// Words for an event that is graver than another.
pub(crate) const CRITICAL: &str = "critical|critically|urgent|urgently|emergency";

/// Whether the events are critical; the words for it are used then.
pub(super) fn is_critical(r: &mut Reader<'_>) -> bool {
    // An emergency exit is a place.
    let places = r.find_all("emergency exit|exits|entrance|door|doors");
    r.with_hidden(places, |r| r.take_all(&[CRITICAL]))
}

/// Reads the clip that is asked for.
pub(super) fn clip(r: &mut Reader<'_>) -> Result<Option<ClipSpec>, Refusal> {
    let Some((clip, assumed)) = clip_span(r) else {
        return Ok(None);
    };
    let (most_before, most) = (ClipSpec::MAX_PRE_ROLL_S, ClipSpec::MAX_CLIP_S);
    if clip.before_s > most_before || !(ClipSpec::MIN_CLIP_S..=most).contains(&clip.length_s()) {
        let text = format!(
            "A clip begins {} before the event at most, and is {} to {} long. Please ask again with a shorter one.",
            seconds(most_before),
            seconds(ClipSpec::MIN_CLIP_S),
            seconds(most)
        );
        return Err(Refusal::meaning(text));
    }
    r.notes.assumed.extend(assumed);
    // Further words for the same clip.
    r.take_all(&["a|the? clip|clips"]);
    Ok(Some(clip))
}

/// Takes the words for a clip: its length before and after the beginning of the event, and what was
/// assumed of it.
fn clip_span(r: &mut Reader<'_>) -> Option<(ClipSpec, Option<String>)> {
    let usual = ClipSpec::default();
    let clip = |before_s: f64, after_s: f64| ClipSpec {
        before_s,
        after_s,
        ..usual
    };
    if let Some(found) = r.take(&["@clip_from_to"]) {
        return Some((clip(found.value(0), found.value(1)), None));
    }
    let (before_s, after_s, assumed) = if let Some(found) = r.take(&["@clip_from"]) {
        (found.value(0), usual.after_s, "How long the clip goes on")
    } else if let Some(found) = r.take(&["@clip_of"]) {
        let before_s = usual.before_s.min(found.value(0) / 2.0);
        (before_s, found.value(0) - before_s, "When the clip begins")
    } else {
        r.take(&["@clip"])?;
        (usual.before_s, usual.after_s, "How long the clip is")
    };
    let (before, after) = (seconds(before_s), seconds(after_s));
    let assumed =
        format!("{assumed} was not said: from {before} before to {after} after it began.");
    Some((clip(before_s, after_s), Some(assumed)))
}
