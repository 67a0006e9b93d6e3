//! The intent of a clause, read from its verb.
//!
//! - A verb of control is at the start of its clause; a verb of watching may be anywhere in it.
//! - What is said of a watch that runs and is named is a change of it, and never a new watch.

use std::ops::Range;

use crate::lexicon::WATCHES;
use crate::names;
use crate::reader::{Reader, one_of};
use crate::settings::channels;

/// Purpose of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
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

impl Intent {
    /// Whether it ends, pauses or resumes an existing pipeline.
    pub(crate) fn is_control(self) -> bool {
        matches!(self, Self::Stop | Self::Pause | Self::Resume)
    }
}

/// Words before a verb that carry no meaning.
const POLITE: &str = "please|can|could|would|will|you|kindly|hey|hi|hello|ok|okay|now|just|i|i'd|want|to|need|like|we|go|ahead|and|then|also|let's|so|,|the|computer|watchkeeper|thanks|yes|no|well|-|–";
/// Words that begin a question.
const QUESTIONS: &str = "what|what's|which|who|who's|where|why|how|is|are|was|were|has|have|did|does|do|any|list|show|display|status|help|templates|events|describe|cameras|pipelines|watches|classes|models|whose|explain|compare";
/// Words for the state of a watch, or for what was done to it.
pub(crate) const STATES: &str = "stopped|paused|ended|failed|died|dead|down|broken|crashed|running|active|resumed|started|restarted|deleted|removed|changed|created|added|renamed|replaced";

/// Returns what a clause asks for. `watch`: the words of it that name a watch which runs.
pub(crate) fn intent_of(r: &Reader<'_>, watch: Option<&Range<usize>>) -> Intent {
    let start = skip_polite(r, 0);
    // A note, if no watch is named.
    if watch.is_none() && r.has_at(start, &["@no_order"]) {
        return Intent::Look;
    }
    if r.has_at(start, &["@stops_telling"]) {
        return Intent::Stop;
    }
    if forbids(r, start) {
        return Intent::Not;
    }
    if let Some(intent) = switches(r, start, watch.is_some()) {
        return intent;
    }
    let changes = watch.is_some_and(|watch| changes_watch(r, start, watch));
    if changes || r.has(&["@watch_should"]) {
        return Intent::Change;
    }
    if r.has_at(start, &["@asks_to_be_shown"]) {
        return Intent::Look;
    }
    // `end the pause` is not an end of a watch.
    let mut leading = [
        ("@resume", Intent::Resume),
        ("@delete", Intent::Stop),
        ("@stop", Intent::Stop),
        ("@pause", Intent::Pause),
        ("@change", Intent::Change),
    ]
    .into_iter();
    let of = leading.find(|(verbs, _)| r.has_at(start, &[verbs]));
    // `make me a sandwich`, `set an alarm when …`: nothing that there is.
    let makes = r.has_at(start, &["make|set me|us? a|an|some"]) && watch.is_none();
    if let Some((_, intent)) = of.filter(|_| !makes) {
        return intent;
    }
    // `count` and `watch` may be anywhere, but not in a question.
    if is_question(r, start) {
        return Intent::Look;
    }
    match verb_of_watching(r, watch) {
        Intent::Nothing if channels(&mut r.clone()).1 => Intent::Watch,
        intent => intent,
    }
}

/// Whether a clause forbids something, or asks the box to act: `make sure that …`.
fn forbids(r: &Reader<'_>, start: usize) -> bool {
    r.has_at(start, &["don't|dont|never|not|forget|nevermind", "do not", "@sees_to_it"])
        // `keep only the gate watch` names what stays, not what is to go.
        || (r.has_at(start, &["keep|leave only|just"]) && r.has(&[WATCHES]))
}

/// Whether a clause begins with a word for a question.
fn begins_question(r: &Reader<'_>, start: usize) -> bool {
    r.is_free(start, QUESTIONS) || r.has_at(start, &["until|till|since when"])
}

/// Whether a clause is a question.
fn is_question(r: &Reader<'_>, start: usize) -> bool {
    let compares =
        r.has_at(start, &["more|fewer|less"]) && r.has(&["than|or yesterday|today|this|last"]);
    // `when was` asks for a time; `when is` does with a mark.
    let begins = begins_question(r, start) || r.has_at(start, &["@begins_question"]);
    if begins || compares || r.has(&["busiest"]) {
        return true;
    }
    r.last_word() == "?"
        && (r.has(&["@asked_of"])
            || r.has_at(start, &["when is|are", "how many"])
            || (start == 0
                && (r.is_free(0, "anything|something|anyone|anybody|someone|somebody")
                    || r.tokens.len() < 3)))
}

/// Whether a clause asks for a picture of now, and begins the text: `take a picture of the gate`. A
/// clause that waits for something is a watch: `take a picture when …`, `of anyone who …`.
pub(crate) fn asks_for_picture(text: &Reader<'_>, clause: &Reader<'_>) -> bool {
    let takes = |r: &Reader<'_>| r.has_at(skip_polite(r, 0), &["@takes_picture"]);
    takes(text) && takes(clause) && !clause.has(&["@waits_for_something"])
}

/// The words that name a deployed watch: its id, or its name or its camera's before a word for a
/// watch, as in `gate watch`. In `at the gate watch the left half` it is a verb.
pub(crate) fn named_watch(r: &Reader<'_>) -> Option<Range<usize>> {
    let mut named = r.clone();
    names::pipelines(&mut named, false);
    let mut cameras = names::camera_positions(r);
    cameras.retain(|(_, camera)| r.scene.on(camera).next().is_some());
    // `also on the gate watch` ends with a noun.
    let ends = |at: usize| r.is(at, "|.|!|;|\n");
    let is_last = |at: usize| ends(at) || r.is(at, "too|please") && ends(at + 1);
    let is_camera = |at: usize, is_last: bool| {
        let mut before = (0..at).rev().map(|i| r.word(i));
        let first = before.find(|word| !one_of("camera|the|my|our", word));
        !first.is_some_and(|word| one_of(if is_last { "at" } else { "on|at|in" }, word))
    };
    let is_name = |at: usize| match cameras.iter().find(|(name, _)| name.contains(&at)) {
        Some((name, _)) => is_camera(at, is_last(name.end + 1)),
        None => named.is_taken(at),
    };
    let is_id = |at: usize| named.is_taken(at) && r.word(at).contains(['-', '_']);
    r.positions().find_map(|at| {
        let is_whole = named.is_taken(at);
        let noun = at > 0 && r.match_at(WATCHES, at).is_some() && (is_whole || is_name(at - 1));
        let last = if noun { at - 1 } else { at };
        let start = (0..last).rev().take_while(|i| is_name(*i)).last();
        (noun || is_id(at)).then(|| start.unwrap_or(last)..at + 1)
    })
}

/// Reads a verb of watching anywhere in a clause, and a negation before it. What is said of a watch
/// that runs, such as `rename the gate watch`, is a change of it.
fn verb_of_watching(r: &Reader<'_>, watch: Option<&Range<usize>>) -> Intent {
    let named = |at: &usize| watch.is_some_and(|watch| watch.contains(at));
    let is_verb = |at: &usize| r.has_at(*at, &["@watch", "@count"]) && !named(at);
    match r.positions().find(is_verb) {
        None if watch.is_none() => Intent::Nothing,
        None => Intent::Change,
        Some(at) => {
            let mut before = (at.saturating_sub(2)..at).map(|i| r.free_word(i));
            match before.any(|word| one_of("don't|dont|never|not|without", word)) {
                true => Intent::Not,
                false => Intent::Watch,
            }
        }
    }
}

/// Whether a clause states a setting of the watch that it names: `add cars to the gate watch`,
/// `tell #all about the gate watch`.
fn changes_watch(r: &Reader<'_>, start: usize, watch: &Range<usize>) -> bool {
    if begins_question(r, start) {
        return false;
    }
    let should = r.has_at(watch.end, &["should|shall|must|has|needs to?"]);
    let is_order = !r.has_at(start, &["@change"])
        && r.has_at(start, &["@delete", "@stop", "@pause", "@resume"]);
    let begins = watch.start <= start;
    let classes = names::find_classes(r);
    let names_class = classes.iter().any(|m| !watch.contains(&m.at.start));
    let sends = || channels(&mut r.clone()).1 && !names_class;
    should
        || !is_order
            && !r.has(&["when|if|whenever"])
            && (begins || r.has_at(start, &["@changes_watch"]) || sends() || r.has(&["@adds"]))
}

/// Reads `turn off`, `back on`, `put on hold` and their like; `is the camera off` is a question.
fn switches(r: &Reader<'_>, start: usize, names_watch: bool) -> Option<Intent> {
    if r.is_free(start, "is|are|was|were|has|have|had|did|does|do") {
        return None;
    }
    if r.has_at(start, &["put"]) && r.has(&["on hold"]) {
        return Some(Intent::Pause);
    }
    let turns = r.has_at(start, &["turn|switch|shut|put|set"]);
    let starts =
        r.has_at(start, &["start|begin"]) && (names_watch || r.has(&["again please|now? <e>"]));
    let ends_on = "on please|now|then|thanks? <e>";
    let is_on = turns && r.has(&[ends_on, "back on", "on again"]);
    if starts || is_on || r.has(&["@watch_on"]) {
        return Some(Intent::Resume);
    }
    let is_off = (turns && r.has(&["off"])) || r.has(&["@watch_off"]);
    is_off.then(|| match r.has(&["off for|until"]) {
        true => Intent::Pause,
        false => Intent::Stop,
    })
}

pub(crate) fn skip_polite(r: &Reader<'_>, mut at: usize) -> usize {
    while r.is_free(at, POLITE) {
        at += 1;
    }
    at
}
