//! The kind of a clause: what it asks for, read from its verb.
//!
//! Invariant: a verb that controls begins its clause; one that watches stands anywhere in it.

use crate::lexicon::VerbKind;
use crate::names::{self, WATCHES};
use crate::reader::{Reader, one_of};
use crate::settings::channels;
use crate::token::Kind;

/// What a clause asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    Watch,
    Stop,
    Pause,
    Resume,
    Change,
    Look,
    /// Forbids something; never a request of its own.
    Not,
    /// Carries no request; adds to another clause.
    Nothing,
}

impl Asks {
    /// Whether it ends, pauses or resumes an existing pipeline.
    pub(crate) fn is_control(self) -> bool {
        matches!(self, Self::Stop | Self::Pause | Self::Resume)
    }
}

/// Words before a verb that carry no meaning.
const POLITE: &str = "please|can|could|would|will|you|kindly|hey|hi|hello|ok|okay|now|just|i|i'd|want|to|need|like|we|go|ahead|and|then|also|let's|so|,|the|computer|watchkeeper|thanks|yes|no|well|-|–";
/// Words that begin a question.
pub(crate) const QUESTIONS: &str = "what|what's|which|who|who's|where|why|how|is|are|was|were|has|have|did|does|do|any|list|show|display|status|help|templates|events|describe|cameras|pipelines|watches|classes|models|whose|explain|compare";
/// Verbs that ask for a watch.
pub(crate) const WATCHING: [VerbKind; 2] = [VerbKind::Watch, VerbKind::Count];
/// Settings of a pipeline that can be higher or lower.
pub(crate) const SETTINGS: &str = "confidence|threshold|cooldown|cool-down|score|duration";
/// How a watch may be, or what was done to it.
pub(crate) const STATES: &str = "stopped|paused|ended|failed|died|dead|down|broken|crashed|running|active|resumed|started|restarted|deleted|removed|changed|created|added|renamed|replaced";

/// Returns what a clause asks for.
pub(crate) fn asks(r: &Reader<'_>) -> Asks {
    let start = skip_polite(r, 0);
    if forbids(r, start) {
        return Asks::Not;
    }
    if says_state(r) {
        return Asks::Look;
    }
    if changes_watch(r, start) {
        return Asks::Change;
    }
    if let Some(asks) = switches(r, start) {
        return asks;
    }
    const TO_BE_SHOWN: [&str; 2] = [
        "tell|show|give me|us what|which|how|who|whether|where|why|what's|whose",
        "let me|us know what|which|how|who|whether|where|why|what's|whose",
    ];
    if r.begins(start, &TO_BE_SHOWN) {
        return Asks::Look;
    }
    // `end the pause` is no end of a watch.
    let leading = [
        (VerbKind::Resume, Asks::Resume),
        (VerbKind::Delete, Asks::Stop),
        (VerbKind::Stop, Asks::Stop),
        (VerbKind::Pause, Asks::Pause),
        (VerbKind::Change, Asks::Change),
    ];
    let of = leading.into_iter().find(|(of, _)| leads(r, start, &[*of]));
    // `make me a sandwich`, `set an alarm when …`: nothing that there is.
    let makes = r.begins(start, &["make|set me|us? a|an|some"])
        && !r.says(&[SETTINGS])
        && !is_of_the_watch(r);
    if let Some((_, asks)) = of.filter(|_| !makes) {
        return asks;
    }
    // `count` and `watch` may stand anywhere, but not in a question.
    if is_question(r, start) {
        return Asks::Look;
    }
    match verb_of_watching(r) {
        Asks::Nothing if is_note(r) || channels(&mut r.clone()).1 => Asks::Watch,
        asks => asks,
    }
}

/// Whether a clause forbids something.
fn forbids(r: &Reader<'_>, start: usize) -> bool {
    r.begins(start, &["don't|dont|never|not|forget|nevermind", "do not"])
        // `keep only the gate watch` names what stays, not what is to go.
        || (r.begins(start, &["keep|leave only|just"]) && r.says(&[WATCHES]))
}

/// Whether a clause is a question.
fn is_question(r: &Reader<'_>, start: usize) -> bool {
    const PAST: [&str; 2] = [
        "yesterday|ago|earlier",
        "last|past night|hour|week|minutes|hours",
    ];
    const STATE: &str = "camera|cam ok|okay|working|online|alive|up";
    const WHO: &str = "anything|something|anyone|anybody|someone|somebody";
    let number = r.begins(
        start,
        &["number of alerts|alarms|events|warnings|incidents"],
    );
    let compares =
        r.begins(start, &["more|fewer|less"]) && r.says(&["than|or yesterday|today|this|last"]);
    if number || compares || r.says(&["busiest"]) || one_of(QUESTIONS, r.word(start)) {
        return true;
    }
    // `when was` asks for a time; `when is` does with a mark.
    if r.begins(start, &["when was|were|did|has"]) {
        return true;
    }
    r.last_word() == "?"
        && (r.says(&["number of", STATE])
            || r.says(&PAST)
            || r.begins(start, &["when is|are", "how many"])
            || (start == 0 && (one_of(WHO, r.word(0)) || r.tokens.len() < 3)))
}

/// Whether a clause says how a watch is: `the bench watch stopped`.
pub(crate) fn says_state(r: &Reader<'_>) -> bool {
    const ORDERS: [VerbKind; 5] = [
        VerbKind::Delete,
        VerbKind::Stop,
        VerbKind::Pause,
        VerbKind::Resume,
        VerbKind::Change,
    ];
    let state = format!("{WATCHES} has|have|is|are|was|were|just|got? {STATES}");
    let is_order = leads(r, skip_polite(r, 0), &ORDERS);
    let says = named_watch(r).is_some_and(|watch| r.begins(watch, &[&state]));
    says && !is_order && !r.says(&["when|if|whenever"])
}

/// The word for a watch behind the name of one that runs, such as that of `the gate watch`. In
/// `at the gate watch the left half` it is a verb.
pub(crate) fn named_watch(r: &Reader<'_>) -> Option<usize> {
    let named = without_name(r);
    let runs = !r.scene.pipelines.is_empty();
    let is_camera = |at: usize| {
        let mut before = (0..at).rev().map(|i| named.any_word(i));
        let first = before.find(|word| !one_of("camera|the|my|our", word));
        named.word(at) == "camera" && !first.is_some_and(|word| one_of("on|at|in", word))
    };
    let is_name = |at: usize| named.word(at).is_empty() || runs && is_camera(at);
    (1..r.tokens.len()).find(|at| is_name(at - 1) && r.fits(WATCHES, *at).is_some())
}

/// A clause whose names of pipelines are read.
pub(crate) fn without_name<'s>(r: &Reader<'s>) -> Reader<'s> {
    let mut r = r.clone();
    names::pipelines(&mut r);
    r
}

/// Reads a verb of watching anywhere in a clause, and a negation before it. What is done to a watch
/// by another verb, such as `rename the gate watch`, is a change of it.
fn verb_of_watching(r: &Reader<'_>) -> Asks {
    let noun = named_watch(r);
    let verbs = r.lexicon.verbs(&WATCHING);
    let found = verbs.flat_map(|verb| (0..r.tokens.len()).filter_map(|at| r.fits(verb, at)));
    let verb = found
        .map(|f| f.at.start)
        .filter(|at| Some(*at) != noun)
        .min();
    match verb {
        None if noun.is_none() => Asks::Nothing,
        // `Gate watch:` heads what is said of it.
        None if names::mentions_class(&without_name(r)) || r.last_word() == ":" => Asks::Watch,
        None => Asks::Change,
        Some(at) => {
            let mut before = (at.saturating_sub(2)..at).map(|i| r.word(i));
            match before.any(|word| one_of("don't|dont|never|not|without", word)) {
                true => Asks::Not,
                false => Asks::Watch,
            }
        }
    }
}

/// Whether a clause says how an existing watch should be, in words that mean something else
/// elsewhere.
fn changes_watch(r: &Reader<'_>, start: usize) -> bool {
    const KEEPS: &str = "keep|save|record|store|include a|an|the? <d>? clip|clips|video|recording";
    const MOVES: &str = "raise|lower|increase|decrease|reduce|shorten|lengthen|extend";
    if (r.begins(start, &[MOVES]) && r.says(&[SETTINGS]))
        || (r.begins(start, &["add", KEEPS]) && is_of_the_watch(r))
    {
        return true;
    }
    if one_of(QUESTIONS, r.word(start)) {
        return false;
    }
    let near = |pattern: &str, most: usize| r.find(&[pattern]).filter(|f| f.at.start <= most);
    // `the gate watch is too jumpy, make it 45 seconds`
    let made = r.find(&["make|set|change it|that"]);
    let makes = near(WATCHES, start + 3)
        .zip(made)
        .is_some_and(|(watch, made)| watch.at.start < made.at.start);
    let sends = r.begins(start, &["send|post|forward|route"])
        && r.says(&["alerts|alarms|events|notifications|warnings to"]);
    // `gate watch without bicycles`, `gate watch confidence 0.7`
    makes
        || sends
        || near(&format!("{WATCHES} should|shall|must|has|needs to?"), 5).is_some()
        || near(
            "watch|alarm|pipeline without|except|excluding|ignoring|minus",
            start + 3,
        )
        .is_some()
        || near(&format!("{WATCHES} {SETTINGS}"), start + 3).is_some()
}

/// Whether something is said for a watch: `add cars to the gate watch`.
fn is_of_the_watch(r: &Reader<'_>) -> bool {
    let to = r.find(&["to|for|of|on|with the|my|our|this"]);
    to.is_some_and(|to| (to.at.end..r.tokens.len()).any(|i| r.begins(i, &[WATCHES])))
}

/// Reads `turn off`, `back on`, `put on hold` and their like; `is the camera off` is a question.
fn switches(r: &Reader<'_>, start: usize) -> Option<Asks> {
    if one_of("is|are|was|were|has|have|had|did|does|do", r.word(start)) {
        return None;
    }
    let after_watch = |rest: &str| r.says(&[&format!("{WATCHES}|camera|cam {rest}")]);
    if r.begins(start, &["put"]) && r.says(&["on hold"]) {
        return Some(Asks::Pause);
    }
    let turns = r.begins(start, &["turn|switch|shut|put|set"]);
    let mut words = r.tokens.iter().rev().filter(|t| t.is_word());
    let last = words.find(|t| !one_of(POLITE, &t.text));
    let ends_on = last.is_some_and(|t| t.text == "on");
    let starts = r.begins(start, &["start|begin"]) && named_watch(r).is_some();
    if starts
        || (turns && (ends_on || r.says(&["back on", "on again"])))
        || after_watch("back on")
        || after_watch("on again")
    {
        return Some(Asks::Resume);
    }
    if r.begins(start, &["shut"]) && r.says(&["up"]) {
        return Some(Asks::Pause);
    }
    let is_off = (turns && r.says(&["off"])) || after_watch("off");
    is_off.then(|| match r.says(&["off for|until"]) {
        true => Asks::Pause,
        false => Asks::Stop,
    })
}

/// Whether a clause ends a note with what is to be done: `: message`, `-> message`.
fn is_note(r: &Reader<'_>) -> bool {
    const NOTES: [&str; 13] = [
        "- > message|msg|still|clip|picture|snapshot|#",
        "= message|msg",
        "at? most|max|maximum one|1 message|alert per|every|each <u>",
        "save|record|keep|store a|an|the? <d>? long? clip|video|recording",
        "only|just keep|save|store|take a|the? still|picture|snapshot|photo|stills|pictures|snapshots",
        "arrival|arrivals|departure|departures :",
        "clip|clips|still|stills|snapshot|snapshots|picture|pictures|photo|photos to #",
        ",|> message|msg|ping .|!?",
        "still|picture|snapshot|photo only",
        "still|picture|snapshot|photo to the? journal|log|archive|history",
        "at? most|max|maximum hourly",
        "> <d>",
        "-|–|! urgent|critical|emergency",
    ];
    let mut words = r.tokens.iter().filter(|t| t.kind != Kind::Mark);
    let first = words.next().map_or("", |t| t.text.as_str());
    (one_of("message|msg", first) && words.next().is_none()) || r.says(&NOTES)
}

pub(crate) fn skip_polite(r: &Reader<'_>, mut at: usize) -> usize {
    while one_of(POLITE, r.word(at)) {
        at += 1;
    }
    at
}

/// Whether a verb of these kinds stands at `at`.
pub(crate) fn leads(r: &Reader<'_>, at: usize, of: &[VerbKind]) -> bool {
    r.lexicon.verbs(of).any(|verb| r.fits(verb, at).is_some())
}
