//! The verbs of a request: watching or counting, what happens in the picture, what an event keeps.
//!
//! - A used word is marked, so that no other phrase takes it.
//! - What cannot be done is asked about or noted, never dropped.

use watchkeeper_contract::rule::ClipSpec;

use super::amounts::seconds;
use crate::answer::Missing;
use crate::lexicon::Lexicon;
use crate::names;
use crate::need::{Need, Notes};
use crate::reader::{Found, Reader};
use crate::scene::Scene;

/// Whether a verb of watching and one of counting stood there; all of them are used.
pub(super) fn verbs(r: &mut Reader, scene: &Scene, lexicon: &Lexicon) -> (bool, bool) {
    // `at the counter` is a place, and `Watch tower` a camera where there is one.
    let counters = (1..r.tokens.len()).filter(|i| {
        r.word(*i) == "counter" && matches!(r.any_word(*i - 1), "the" | "our" | "my" | "at")
    });
    let places: Vec<usize> = counters
        .chain(names::camera_words(r, scene, lexicon))
        .collect();
    set(r, &places, true);
    let mut take = |verbs: &[String]| {
        let mut any = false;
        for verb in verbs {
            any |= r.take_all(&[verb.as_str()]);
        }
        any
    };
    let counted = take(&lexicon.verbs.count);
    let told = take(&lexicon.verbs.watch);
    // What a note ends with.
    r.take_all(&["message|messages|msg with?"]);
    set(r, &places, false);
    (told, counted)
}

/// Hides words from the phrases, or shows them again.
fn set(r: &mut Reader, places: &[usize], used: bool) {
    for i in places {
        if let Some(word) = r.used.get_mut(*i) {
            *word = used;
        }
    }
}

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
pub(crate) fn quietly(r: &mut Reader) -> bool {
    let mut any = false;
    for at in 0..r.tokens.len() {
        let fits = QUIETLY.iter().filter_map(|pattern| r.fits(pattern, at));
        let Some(found) = fits.max_by_key(|found| found.at.len()) else {
            continue;
        };
        let next = r.any_word(found.at.end);
        if matches!(
            next,
            "" | "." | "," | ";" | "!" | "\n" | ")" | "and" | "but" | "just" | "only"
        ) {
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
pub(crate) fn wishes(r: &mut Reader, notes: &mut Notes) -> Result<Wishes, Need> {
    let clip = clip(r, notes)?;
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
        notes.assumed.push(
            "A larger model is asked about what is not sure where the configuration has one (llm.second_opinion); until it answers, and without one, the box's own decision holds."
                .to_owned(),
        );
    }
    Ok(Wishes {
        any: clip.is_some() || still || kept,
        clip,
        quiet,
        second_opinion,
    })
}

/// Reads the clip that is asked for.
fn clip(r: &mut Reader, notes: &mut Notes) -> Result<Option<ClipSpec>, Need> {
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
        return Err(Need::new(Missing::Meaning, text));
    }
    notes.assumed.extend(assumed);
    // Further words for the same clip.
    while r.take(&[&format!("a|the {CLIP}"), "clip|clips"]).is_some() {}
    Ok(Some(clip))
}

const CLIP: &str = "clip|clips|video|recording";

/// Takes a clip by one of the patterns, in which `CLIP` stands for its words.
fn take_clip(r: &mut Reader, patterns: &[&str]) -> Option<Found> {
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
fn clip_span(r: &mut Reader) -> Option<(ClipSpec, Option<String>)> {
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
    if let Some(found) = take_clip(r, &BOTH) {
        let clip = ClipSpec {
            before_s: found.value(0),
            after_s: found.value(1),
        };
        return Some((clip, None));
    }
    if let Some(found) = take_clip(r, &BEFORE) {
        let assumed = format!(
            "How long the clip goes on was not said: {} after it began.",
            seconds(usual.after_s)
        );
        let clip = ClipSpec {
            before_s: found.value(0),
            ..usual
        };
        return Some((clip, Some(assumed)));
    }
    if let Some(found) = take_clip(r, &["<d> long? CLIP", "CLIP of|with <d>"]) {
        let before_s = usual.before_s.min(found.value(0) / 2.0);
        let assumed = format!(
            "The clip begins {} before, as that was not said.",
            seconds(before_s)
        );
        let clip = ClipSpec {
            before_s,
            after_s: found.value(0) - before_s,
        };
        return Some((clip, Some(assumed)));
    }
    take_clip(r, &["CLIP"])?;
    let assumed = format!(
        "How long the clip is was not said: from {} before to {} after it began.",
        seconds(usual.before_s),
        seconds(usual.after_s)
    );
    Some((usual, Some(assumed)))
}

/// The words that leave one way out, hidden from the other phrases, and whether it is that in:
/// `but not when they come in`.
fn left_out(r: &mut Reader) -> Option<(Vec<usize>, bool)> {
    const NOT: &str = "but|and? not when|if|whenever|for|on|the? they|he|she|it|people|somebody|someone|anyone|those? who|that? are?";
    const GO: &str =
        "come|comes|coming|came|go|goes|going|walk|walks|walking|drive|drives|driving|get|gets";
    const NO_CARE: &str = "but|and? i|we? don't|dont care|bother|worry|mind about? the|any|if|when? ones|those|people|they|it? that|who|which? are?";
    let ways = [
        (format!("{NO_CARE} {GO} back? in|into|inside again?"), true),
        (format!("{NO_CARE} {GO} out|away again?"), false),
        (format!("{NOT} {GO} back? in|into|inside again?"), true),
        (format!("{NOT} {GO} back again?"), true),
        (
            format!(
                "{NOT} enter|enters|entering|arrive|arrives|arriving|return|returns|returning again?"
            ),
            true,
        ),
        (format!("{NOT} {GO} out|away again?"), false),
        (
            format!("{NOT} leave|leaves|leaving|exit|exits|exiting again?"),
            false,
        ),
    ];
    ways.iter().find_map(|(pattern, comes_in)| {
        let found = r.take(&[pattern.as_str()])?;
        Some((found.at.collect(), *comes_in))
    })
}

/// Takes what says which way does not count, and whether anything did.
pub(crate) fn one_way(r: &mut Reader) -> bool {
    left_out(r).is_some()
}

/// What happens, by the words for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Acts {
    pub(super) crosses: bool,
    pub(super) enters: bool,
    pub(super) leaves: bool,
    pub(super) stays: bool,
    pub(super) empty: bool,
    pub(super) occupied: bool,
    /// It goes both ways: `in and out`.
    pub(super) both_ways: bool,
    /// Only people do that.
    pub(super) people: bool,
    /// It is seen, and no more was said.
    pub(super) seen: bool,
    /// Only what drives does that.
    pub(super) parks: bool,
}

impl Acts {
    /// Whether anything was said to happen.
    pub(super) fn any(&self) -> bool {
        self.crosses
            || self.enters
            || self.leaves
            || self.stays
            || self.empty
            || self.occupied
            || self.seen
    }
}

/// Words before `crossing` that make a place of it.
pub(crate) const CROSSINGS: [&str; 5] = ["zebra", "pedestrian", "level", "railway", "rail"];

/// Takes the words for what happens.
///
/// The order matters: each pattern takes words from those behind it.
pub(super) fn acts(r: &mut Reader) -> Acts {
    let left_out = left_out(r);
    let (crosses, both_ways) = take_crossings(r);
    let leaves = r.take_all(&[
        "has|have left",
        "leave|leaves|leaving|exit|exits|exiting|depart|departs|departing|departure|departures",
        &go("out|away of?"),
    ]);
    let enters = r.take_all(&[
        "enter|enters|entering|entered|arrive|arrives|arriving|arrived|arrival|arrivals|entry|intrudes|trespasses|comes|coming home",
        "enter|enters|entering|entered|arrive|arrives|arriving|arrived|arrival|arrivals|entry|intrudes|trespasses",
        "pulls|pull|pulling|turns|turn|turning|rolls|drives|drive up|in|into",
        &go("in|into|inside|onto"),
    ]);
    let people = r
        .find(&["loiter|loiters|loitering|queue|queues|queueing|queuing|lingers|lingering"])
        .is_some();
    let parks = r
        .find(&[
            "park|parks|parked",
            "keeps|keep|is|are|starts|been|someone|somebody|anyone parking",
            "parking in|on|at|there|here",
        ])
        .is_some();
    let stays = r.take_all(&STAYS);
    let empty =
        r.take_all(&["becomes|is|gets? free|empty|vacant|unoccupied|unattended|unmanned|deserted"]);
    let occupied = take_occupied(r);
    let seen = r.take_all(&[
        "appear|appears|appearing|shows|show up?",
        "passes|passing by?",
        "come|comes|came|coming by|along|past|over|near|close?",
        "gets|get|getting near|close",
        "see|sees|seen|spotted|spot|present|visible|detected|moves|move|moving|seeing|happens",
    ]);
    // `when they leave, but not when they come in`: entering was not asked for anyway.
    if let Some((at, comes_in)) = left_out {
        let other = if comes_in { leaves } else { enters };
        set(r, &at, other && !both_ways);
    }
    Acts {
        both_ways,
        seen,
        people,
        parks,
        crosses: crosses || both_ways,
        enters,
        leaves,
        stays,
        empty,
        occupied,
    }
}

const STAYS: [&str; 10] = [
    "blocked|blocks|blocking|obstructed|obstructs by?",
    "wait|waits|waiting|stay|stays|staying|stand|stands|standing|linger|lingers|lingering around?",
    "loiter|loiters|loitering|remain|remains|remaining|hangs|hang|hanging around|about?",
    "keeps|keep parking",
    "sit|sits|sitting|lie|lies|lying down",
    "stand|stands|standing around|there",
    "left alone|unattended|behind|lying|standing|there",
    "left by|on|at|in|outside|for",
    "abandoned|dumped",
    "park|parks|parked|parking|sit|sits|sitting|dwell|dwells|spend|spends|stop|stops|stopped|lies|lying|queues|queue|queueing|queuing of?",
];

/// A verb of movement before `ends`.
fn go(ends: &str) -> String {
    const GO: &str = "comes|come|coming|came|goes|go|going|walks|walk|walking|gets|get|drives|drive|driving|steps|step|runs|run|running|moves|move|climbs|climb|breaks|break|passes|rides";
    format!("{GO} {ends}")
}

/// Takes the words for a crossing, and whether it goes both ways.
fn take_crossings(r: &mut Reader) -> (bool, bool) {
    // A zebra crossing is a place.
    let places: Vec<usize> = (1..r.tokens.len())
        .filter(|i| r.word(*i) == "crossing" && CROSSINGS.contains(&r.any_word(*i - 1)))
        .collect();
    set(r, &places, true);
    let both_ways = r.take_all(&[
        &go("in|into and|or out"),
        &go("out and|or in"),
        "in and|or out",
        "come|comes|coming and|or go|goes|going",
        "enter|enters|entering and|or leave|leaves|leaving|exit|exits through|over|by",
    ]);
    let crosses = r.take_all(&[
        "cross|crosses|crossing|crossed|crossings over|through?",
        "passes|pass|passing over|through|across",
        &go("across|over|through"),
    ]) | r.take_all(&["the|a|my? line|tripwire"]);
    set(r, &places, false);
    (crosses, both_ways)
}

fn take_occupied(r: &mut Reader) -> bool {
    // What is taken from a place is no longer there.
    let is_away = (0..r.tokens.len()).any(|i| {
        r.word(i) == "taken" && matches!(r.any_word(i + 1), "from" | "away" | "out" | "off" | "by")
    });
    r.take_all(&[match is_away {
        true => "occupied|full|busy",
        false => "occupied|taken|full|busy",
    }])
}
