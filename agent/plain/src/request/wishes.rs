//! What a request wants of its events: what they keep, how grave they are, whether they notify
//! people, and whether it watches or counts.

use watchkeeper_contract::rule::{ClipSpec, Severity};

use super::amounts::seconds;
use crate::names;
use crate::need::Need;
use crate::reader::{Found, Reader, Slot, one_of};

/// What is wanted of an event.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wishes {
    /// Whether anything was wanted, be it only the picture that is kept anyway.
    pub(crate) any: bool,
    /// The clip that is to be kept.
    pub(crate) clip: Option<ClipSpec>,
    /// Whether no channel is notified.
    pub(crate) quiet: bool,
    /// Whether a larger model is to look at what is not sure.
    pub(crate) second_opinion: bool,
}

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

/// What is wanted of an event. A picture is kept anyway.
pub(crate) fn wishes(r: &mut Reader<'_>) -> Result<Wishes, Need> {
    let clip = clip(r)?;
    let kept = r.take_all(&[
        "and? keep|save|log|store|put it|them|that|one in|to|into the? journal|log|history|archive",
        "save|take|keep|store|with|plus|and? a|the? snapshot|still|picture|photo to|in|into the? journal|log|history|archive",
    ]);
    let still = r.take_all(&[
        "and? only|just? save|take|keep|store|log a|the|one? still|snapshot|photo|stills|snapshots|picture|pictures|image of|from it|that|them|this? too?",
        "save|take|keep|store|with|plus|and a|the still|snapshot|photo|stills|snapshots|picture",
        "save|take|keep|store|with|plus|and still|snapshot|stills|snapshots",
        "snapshot|snapshots|stills",
    ]);
    let quiet = quietly(r);
    let second_opinion = r.take_all(&SECOND_OPINION);
    if second_opinion {
        r.assume("A larger model is asked about what is not sure where the configuration has one (llm.second_opinion); until it answers, and without one, the box's own decision holds.");
    }
    Ok(Wishes {
        any: clip.is_some() || still || kept,
        clip,
        quiet,
        second_opinion,
    })
}

/// Reads the clip that is asked for.
fn clip(r: &mut Reader<'_>) -> Result<Option<ClipSpec>, Need> {
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
    while r.take(&["a|the? clip|clips"]).is_some() {}
    Ok(Some(clip))
}

const CLIP: &str = "clip|clips|video|recording";

/// Takes a clip by one of the patterns, in which `CLIP` stands for its words.
fn take_clip(r: &mut Reader<'_>, patterns: &[&str]) -> Option<Found> {
    const KEEP: &str = "save|record|keep|store|take|send?";
    const EVENT: &str = "it|that|this|the? event|happens?";
    let patterns: Vec<String> = patterns
        .iter()
        .map(|rest| {
            let rest = rest.replace("CLIP", CLIP).replace("EVENT", EVENT);
            format!("{KEEP} me? a|the? {rest}")
        })
        .collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    r.take(&patterns)
}

/// Takes the words for a clip: its length before and after the beginning of the event, and what was
/// assumed of it.
fn clip_span(r: &mut Reader<'_>) -> Option<(ClipSpec, Option<String>)> {
    const BOTH: [&str; 2] = [
        "CLIP from|of|with? <d> before EVENT and|to|until|till <d> after|afterwards EVENT",
        "CLIP that|which? starts|begins|starting|beginning <d> before|earlier and|to|until ends|ending|goes? <d> after|afterwards|later it?",
    ];
    const BEFORE: [&str; 3] = [
        "CLIP that|which? starts|begins|starting|beginning <d> before|earlier EVENT",
        "CLIP with|and|including? a? <d> of? pre-roll|preroll|lead-in",
        "CLIP from|of|with <d> before|earlier EVENT",
    ];
    let usual = ClipSpec::default();
    let clip = |before_s: f64, after_s: f64| ClipSpec {
        before_s,
        after_s,
        ..usual
    };
    if let Some(found) = take_clip(r, &BOTH) {
        return Some((clip(found.value(0), found.value(1)), None));
    }
    if let Some(found) = take_clip(r, &BEFORE) {
        let after = seconds(usual.after_s);
        let assumed = format!("How long the clip goes on was not said: {after} after it began.");
        return Some((clip(found.value(0), usual.after_s), Some(assumed)));
    }
    if let Some(found) = take_clip(r, &["<d> long? CLIP", "CLIP of|with <d>"]) {
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
    let assumed = format!(
        "How long the clip is was not said: from {} before to {} after it began.",
        seconds(usual.before_s),
        seconds(usual.after_s)
    );
    Some((usual, Some(assumed)))
}

/// Refuses silence about what is critical, and beside a channel.
pub(super) fn refuse_contradictions(severity: Severity, is_sent: bool) -> Result<(), Need> {
    let why = match (severity, is_sent) {
        (Severity::Critical, _) => {
            "It is to be urgent, and nobody is to be told: what is critical is always told."
        }
        (_, true) => "Somebody is to be told, and nobody is to be told.",
        (_, false) => return Ok(()),
    };
    Err(Need::meaning(format!(
        "{why} Say it without one of the two."
    )))
}

/// How grave the events are.
pub(super) fn severity(r: &mut Reader<'_>) -> Severity {
    const CRITICAL: [&str; 1] = ["critical|critically|urgent|urgently|emergency"];
    // An emergency exit is a place.
    let is_place = |i: &usize| r.begins(*i, &["emergency exit|exits|entrance|door|doors"]);
    let places: Vec<usize> = (0..r.tokens.len()).filter(is_place).collect();
    places.iter().for_each(|i| r.mark(*i..i + 1));
    let is_critical = r.take_all(&CRITICAL);
    for i in places {
        r.set(i..i + 1, Slot::Free);
    }
    if is_critical {
        Severity::Critical
    } else if r.find(&["warn|warning|alarm|alert|alerts"]).is_some() {
        Severity::Warning
    } else {
        Severity::Info
    }
}

/// Takes words that say nothing of what is watched for.
pub(super) fn take_courtesies(r: &mut Reader<'_>) {
    // `stop the hall watch; instead tell me …`
    if r.word(0) == "instead" {
        r.mark(0..1);
    }
    if r.fits("note|notes|reminder|fyi|memo|request|task|todo :|-|–", 0)
        .is_some()
    {
        r.mark(0..2);
    }
    r.take_all(&[
        "right|straight away|now",
        "at once when|if|whenever",
        "in case",
        "as well",
        "thank you",
        "live",
    ]);
    // What goes on (`nothing else but a dog`) says something else.
    let last = r.find(&["and|but? nothing else|more"]);
    if let Some(found) = last.filter(|f| one_of("|.|,|;|!|\n|)", r.any_word(f.at.end))) {
        r.mark(found.at);
    }
    // `the second a lorry turns up`, `once a person enters`
    const SOON: &str = "the? second|moment|minute|instant|once a|an|any|someone|somebody|anyone|anybody|it|they|people";
    while let Some(found) = r.find(&[SOON]) {
        r.mark(found.at.start..found.at.end - 1);
    }
}

/// Marks `abandoned` before a class, and says whether it stands there.
pub(super) fn take_abandoned(r: &mut Reader<'_>) -> bool {
    let abandoned: Vec<usize> = (0..r.tokens.len())
        .filter(|i| one_of("unattended|abandoned", r.word(*i)) && names::class_begins(r, i + 1))
        .collect();
    for at in &abandoned {
        r.mark(*at..at + 1);
    }
    !abandoned.is_empty()
}

/// Whether a verb of watching and one of counting stood there; all of them are used.
pub(super) fn verbs(r: &mut Reader<'_>) -> (bool, bool) {
    let lexicon = r.lexicon;
    // `at the counter` and `parking spot` are places, and `Watch tower` a camera where there is
    // one.
    let nouns = (1..r.tokens.len()).filter(|i| match r.word(*i) {
        "counter" => one_of("the|our|my|at", r.before(*i)),
        "spot" => one_of("the|my|our|parking", r.before(*i)),
        _ => false,
    });
    let names: Vec<usize> = nouns
        .chain(names::camera_spots(r).into_iter().flat_map(|(at, _)| at))
        .collect();
    for i in &names {
        r.mark(*i..i + 1);
    }
    let mut take = |verbs: &[String]| {
        let takes = |any, verb: &String| r.take_all(&[verb.as_str()]) | any;
        verbs.iter().fold(false, takes)
    };
    let counted = take(&lexicon.verbs.count);
    let told = take(&lexicon.verbs.watch);
    r.take_all(&["message|messages|msg with?"]);
    if counted {
        r.take_all(&["how many", "the? number of"]);
    }
    for i in names {
        r.set(i..i + 1, Slot::Free);
    }
    (told, counted)
}
