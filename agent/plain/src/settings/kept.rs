//! What an event keeps, whether it is critical, and whether it notifies.

use watchkeeper_contract::rule::ClipSpec;

use super::amounts::seconds;
use crate::need::Need;
use crate::reader::{Reader, one_of};

/// Words that ask for no notification.
const QUIETLY: [&str; 6] = [
    "and|but? i|we? don't|dont want|need any? to? be? notified|told|alerted|informed|messaged|notifications|messages|alerts|notification",
    "and|but? i|we? do not want|need any? to? be? notified|told|alerted|informed|messaged|notifications|messages|alerts|notification",
    "and|but? don't|dont notify|tell|alert|message|inform|bother me|us|anyone|anybody about? it?",
    "and|but? do not notify|tell|alert|message|inform|bother me|us|anyone|anybody about? it?",
    "and|but|with? no|without message|messages|notification|notifications|alert|alerts|alarms|telling|notifying|alerting me|us|anyone? please?",
    "silently|quietly",
];

/// Takes what says that nobody is to be told, and whether anything did. What goes on
/// (`no alerts at night`) says something else.
pub(crate) fn quietly(r: &mut Reader<'_>) -> bool {
    let mut any = false;
    for at in 0..r.tokens.len() {
        let fits = QUIETLY.iter().filter_map(|pattern| r.fits(pattern, at));
        let Some(found) = fits.max_by_key(|found| found.at.len()) else {
            continue;
        };
        let next = r.any_word(found.at.end);
        if one_of("|.|,|;|!|\n|)|and|but|just|only", next) {
            r.mark(found.at);
            any = true;
        }
    }
    any
}

/// A larger model is to look: what a person says of that.
const SECOND_OPINION: [&str; 4] = [
    "if|when? unsure|uncertain|doubtful|unclear|doubt -|=|:|,? >? a? second opinion",
    "but|and? let|have|ask|use the|a|an? large|larger|big|bigger|smart|smarter|language|ai|vision|cloud? model|ai|llm to|for? check|look|decide|confirm|verify|judge|double-check \
     at? it|the|that? picture|image|photo|still|event? first|before? if|when|where|whenever? you|it|it's|you're|there? are|is? unsure|uncertain|doubtful|not|doubt? sure|certain?",
    "but|and? with|get|ask|want? for? a? second opinion for|of|on|about|if|when|where|in? the|any|all|you|it|it's? are|is|not? unsure|uncertain|unclear|doubtful|doubt|sure|not? \
     sure|cases|ones|events|detections?",
    "double-check|verify|confirm uncertain|doubtful|unsure|unclear ones|cases|events|detections? with|by? the|a? large|larger|big|bigger|language|ai|vision? model|ai|llm?",
];

/// Whether a larger model is to look at what is not sure; the words for it are used then.
pub(super) fn second_opinion(r: &mut Reader<'_>) -> bool {
    let is_wanted = r.take_all(&SECOND_OPINION);
    if is_wanted {
        r.assume("A larger model is asked about what is not sure where the configuration has one (llm.second_opinion); until it answers, and without one, the box's own decision holds.");
    }
    is_wanted
}

/// Whether the picture is to be kept, as it is anyway; the words for it are used then.
pub(super) fn is_kept(r: &mut Reader<'_>) -> bool {
    r.take_all(&[
        "and? keep|save|log|store|put it|them|that|one in|to|into the? journal|log|history|archive",
        "save|take|keep|store|with|plus|and? a|the? snapshot|still|picture|photo to|in|into the? journal|log|history|archive",
        "and? only|just? save|take|keep|store|log a|the|one? still|snapshot|photo|stills|snapshots|picture|pictures|image of|from it|that|them|this? too?",
        "save|take|keep|store|with|plus|and a|the still|snapshot|photo|stills|snapshots|picture",
        "save|take|keep|store|with|plus|and still|snapshot|stills|snapshots",
        "snapshot|snapshots|stills",
    ])
}

/// Whether the events are critical; the words for it are used then.
pub(super) fn is_critical(r: &mut Reader<'_>) -> bool {
    // An emergency exit is a place.
    let is_place = |i: &usize| r.begins(*i, &["emergency exit|exits|entrance|door|doors"]);
    let places: Vec<usize> = (0..r.tokens.len()).filter(is_place).collect();
    r.hiding(&places, |r| {
        r.take_all(&["critical|critically|urgent|urgently|emergency"])
    })
}

/// Reads the clip that is asked for.
pub(super) fn clip(r: &mut Reader<'_>) -> Result<Option<ClipSpec>, Need> {
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
        return Err(Need::meaning(text));
    }
    r.notes.assumed.extend(assumed);
    // Further words for the same clip.
    r.take_all(&["a|the? clip|clips"]);
    Ok(Some(clip))
}

/// Takes the words for a clip: its length before and after the beginning of the event, and what was
/// assumed of it.
fn clip_span(r: &mut Reader<'_>) -> Option<(ClipSpec, Option<String>)> {
    const CLIP: &str = "save|record|keep|store|take|send? me? a|the? clip|clips|video|recording";
    const EVENT: &str = "it|that|this|the? event|happens?";
    let usual = ClipSpec::default();
    let clip = |before_s: f64, after_s: f64| ClipSpec {
        before_s,
        after_s,
        ..usual
    };
    let mut take = |rest: &str| r.take(&[&format!("{CLIP} {}", rest.replace("EVENT", EVENT))]);
    let both = take("from|of|with? <d> before EVENT and|to|until|till <d> after|afterwards EVENT")
        .or_else(|| take("that|which? starts|begins|starting|beginning <d> before|earlier and|to|until ends|ending|goes? <d> after|afterwards|later it?"));
    if let Some(found) = both {
        return Some((clip(found.value(0), found.value(1)), None));
    }
    let before = take("that|which? starts|begins|starting|beginning <d> before|earlier EVENT")
        .or_else(|| take("with|and|including? a? <d> of? pre-roll|preroll|lead-in"))
        .or_else(|| take("from|of|with <d> before|earlier EVENT"));
    if let Some(found) = before {
        let after = seconds(usual.after_s);
        let assumed = format!("How long the clip goes on was not said: {after} after it began.");
        return Some((clip(found.value(0), usual.after_s), Some(assumed)));
    }
    let long = take("of|with <d>");
    let long = long.or_else(|| {
        r.take(&[
            "save|record|keep|store|take|send? me? a|the? <d> long? clip|clips|video|recording",
            // Between the two stood the name of a watch: `a clip for the hall watch of 20 seconds`.
            "save|record|keep|store|take|send|include me? a|an|the? clip|clips|video|recording for? of|with|for <d>",
            "with|plus|and|> a|the? clip|clips for <d>",
        ])
    });
    if let Some(found) = long {
        let length_s = found.value(0);
        let before_s = usual.before_s.min(length_s / 2.0);
        let before = seconds(before_s);
        let assumed = format!("The clip begins {before} before, as that was not said.");
        return Some((clip(before_s, length_s - before_s), Some(assumed)));
    }
    // `in the video of the gate` and `the gate recording` ask for none.
    r.take(&[
        "save|record|keep|store|take|send|include me? a|an|the? clip|clips|video|recording",
        "with|plus|and|> a|the? clip|clips",
    ])?;
    let (before, after) = (seconds(usual.before_s), seconds(usual.after_s));
    let assumed = format!(
        "How long the clip is was not said: from {before} before to {after} after it began."
    );
    Some((usual, Some(assumed)))
}
