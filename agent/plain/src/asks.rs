//! The kind of a clause: what it asks for, read from its verb.
//!
//! Invariant: a verb that controls begins its clause; one that watches stands anywhere in it.

use crate::lexicon::Lexicon;
use crate::reader::Reader;
use crate::token::{Kind, Token};

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
pub(crate) const POLITE: [&str; 38] = [
    "please",
    "can",
    "could",
    "would",
    "will",
    "you",
    "kindly",
    "hey",
    "hi",
    "hello",
    "ok",
    "okay",
    "now",
    "just",
    "i",
    "i'd",
    "want",
    "to",
    "need",
    "like",
    "we",
    "go",
    "ahead",
    "and",
    "then",
    "also",
    "let's",
    "so",
    ",",
    "the",
    "computer",
    "watchkeeper",
    "thanks",
    "yes",
    "no",
    "well",
    "-",
    "–",
];

/// Words that begin a question.
pub(crate) const QUESTIONS: [&str; 34] = [
    "what",
    "what's",
    "which",
    "who",
    "who's",
    "where",
    "why",
    "how",
    "is",
    "are",
    "was",
    "were",
    "has",
    "have",
    "did",
    "does",
    "do",
    "any",
    "list",
    "show",
    "display",
    "status",
    "help",
    "templates",
    "events",
    "describe",
    "cameras",
    "pipelines",
    "watches",
    "classes",
    "models",
    "whose",
    "explain",
    "compare",
];

/// Words that mean a pipeline.
pub(crate) const WATCHES: &str = "watch|watches|alarm|alarms|pipeline|pipelines|rule|monitoring";
/// Ends a pause with a verb that stops something elsewhere: `cancel the pause`.
pub(crate) const ENDS_A_PAUSE: &str = "cancel|end|stop|undo|lift|remove|abort|delete|drop|finish|terminate the|my|our|its|their|this|that|all|any? pause|pauses|pausing|snooze|snoozing";
/// Settings of a pipeline that can be higher or lower.
pub(crate) const SETTINGS: &str = "confidence|threshold|cooldown|cool-down|score|duration";

/// Returns what a clause asks for.
pub(crate) fn asks(piece: &[Token], lexicon: &Lexicon) -> Asks {
    let reader = Reader::new(piece.to_vec());
    let start = skip_polite(&reader, 0);
    if forbids(&reader, start) {
        return Asks::Not;
    }
    if reader.fits(ENDS_A_PAUSE, start).is_some() {
        return Asks::Resume;
    }
    if let Some(asks) = of_existing_watch(&reader, start) {
        return asks;
    }
    if asks_to_be_shown(&reader, start) {
        return Asks::Look;
    }
    if let Some(asks) = leading_verb(&reader, start, lexicon) {
        return asks;
    }
    // `count` and `watch` may stand anywhere, but not in a question.
    if is_question(&reader, start) {
        return Asks::Look;
    }
    if is_note(&reader) {
        return Asks::Watch;
    }
    verb_of_watching(&reader, lexicon)
}

/// Whether a clause forbids something.
fn forbids(reader: &Reader, start: usize) -> bool {
    matches!(
        reader.word(start),
        "don't" | "dont" | "never" | "not" | "forget" | "nevermind"
    ) || reader.fits("do not", start).is_some()
        // `keep only the gate watch` names what stays, not what is to go.
        || (reader.fits("keep|leave only|just", start).is_some()
            && reader.find(&[WATCHES]).is_some())
}

/// Whether a clause begins like `tell me which` or `let us know how`.
fn asks_to_be_shown(reader: &Reader, start: usize) -> bool {
    let questions = "what|which|how|who|whether|where|why|what's|whose";
    let show = format!("tell|show|give me|us {questions}");
    let let_know = format!("let me|us know {questions}");
    reader.fits(&show, start).is_some() || reader.fits(&let_know, start).is_some()
}

/// Reads a verb of controlling or changing at the beginning of a clause.
fn leading_verb(reader: &Reader, start: usize, lexicon: &Lexicon) -> Option<Asks> {
    let verbs = &lexicon.verbs;
    [
        (&verbs.stop, Asks::Stop),
        (&verbs.pause, Asks::Pause),
        (&verbs.resume, Asks::Resume),
        (&verbs.change, Asks::Change),
    ]
    .into_iter()
    .find_map(|(list, asks)| leads(reader, start, list).then_some(asks))
}

/// Whether a clause is a question.
fn is_question(reader: &Reader, start: usize) -> bool {
    let lead = reader.word(start);
    let alerts = "number of alerts|alarms|events|warnings|incidents";
    if reader.fits(alerts, start).is_some() || reader.find(&["busiest"]).is_some() {
        return true;
    }
    let asked = reader.tokens.last().is_some_and(|t| t.text == "?");
    if asked && reader.find(&["number of"]).is_some() {
        return true;
    }
    let who = matches!(
        lead,
        "anything" | "something" | "anyone" | "anybody" | "someone" | "somebody"
    );
    let past = [
        "yesterday|ago|earlier",
        "last|past night|hour|week|minutes|hours",
    ];
    let compares = reader.fits("more|fewer|less", start).is_some();
    if compares
        && reader
            .find(&["than|or yesterday|today|this|last"])
            .is_some()
    {
        return true;
    }
    let state = ["camera|cam ok|okay|working|online|alive|up"];
    if asked
        && ((who && start == 0) || reader.find(&past).is_some() || reader.find(&state).is_some())
    {
        return true;
    }
    let when = reader.fits("when was|were|did|has|is|are", start).is_some();
    let many = reader.fits("how many", start).is_some();
    QUESTIONS.contains(&lead)
        || (when && asks_when(reader, start))
        || (many && asked)
        || (asked && start == 0 && reader.tokens.len() < 3)
}

/// Whether `when` asks for a time, and does not begin a condition.
fn asks_when(reader: &Reader, start: usize) -> bool {
    let last = reader.tokens.last().is_some_and(|t| t.text == "?");
    last || reader.fits("when was|were|did|has", start).is_some()
}

/// Reads a verb of watching anywhere in a clause, and a negation before it.
fn verb_of_watching(reader: &Reader, lexicon: &Lexicon) -> Asks {
    let verbs = lexicon.verbs.watch.iter().chain(&lexicon.verbs.count);
    let found = verbs
        .filter_map(|verb| reader.find(&[verb]))
        .map(|f| f.at.start)
        .min();
    let Some(at) = found else {
        return Asks::Nothing;
    };
    let mut before = (at.saturating_sub(2)..at).map(|i| reader.word(i));
    let negates = |w: &str| matches!(w, "don't" | "dont" | "never" | "not" | "without");
    if before.any(negates) {
        return Asks::Not;
    }
    Asks::Watch
}

/// Reads what a clause asks of an existing watch, in words that mean something else elsewhere.
fn of_existing_watch(reader: &Reader, start: usize) -> Option<Asks> {
    let asked = QUESTIONS.contains(&reader.word(start));
    let changes = moves_setting(reader, start)
        || adds_to_watch(reader, start)
        || (!asked
            && (says_watch_should(reader)
                || makes_watch(reader, start)
                || sets_part(reader, start)
                || sends_alerts(reader, start)));
    if changes {
        return Some(Asks::Change);
    }
    switches(reader, start)
}

/// `raise the confidence`
fn moves_setting(reader: &Reader, start: usize) -> bool {
    let moves = "raise|lower|increase|decrease|reduce|shorten|lengthen|extend";
    reader.fits(moves, start).is_some() && reader.find(&[SETTINGS]).is_some()
}

/// `add cars to the gate watch`, `keep a clip for the gate watch`
fn adds_to_watch(reader: &Reader, start: usize) -> bool {
    let keeps = "keep|save|record|store|include a|an|the? <d>? clip|clips|video|recording";
    let adds = reader.fits("add", start).is_some() || reader.fits(keeps, start).is_some();
    adds && reader
        .find(&["to|for|of|on|with the|my|our|this"])
        .is_some_and(|found| {
            (found.at.end..reader.tokens.len()).any(|i| reader.fits(WATCHES, i).is_some())
        })
}

/// `the gate watch should …`
fn says_watch_should(reader: &Reader) -> bool {
    let should = reader.find(&[&format!("{WATCHES} should|shall|must|has|needs to?")]);
    should.is_some_and(|found| found.at.start < 6)
}

/// `the gate watch is too jumpy, make it 45 seconds`
fn makes_watch(reader: &Reader, start: usize) -> bool {
    let makes = reader.find(&["make|set|change it|that"]);
    let watch = reader.find(&[WATCHES]);
    matches!(
        (makes, watch),
        (Some(makes), Some(watch))
            if watch.at.start < makes.at.start && watch.at.start <= start + 3
    )
}

/// `gate watch without bicycles`, `gate watch confidence 0.7`, `send the alerts to …`
fn sets_part(reader: &Reader, start: usize) -> bool {
    let set = [
        "watch|alarm|pipeline without|except|excluding|ignoring|minus".to_owned(),
        format!("{WATCHES} {SETTINGS}"),
        "send|post|forward|route the|all? alerts|alarms|events|notifications|warnings to"
            .to_owned(),
    ];
    set.iter().any(|pattern| {
        reader
            .find(&[pattern])
            .is_some_and(|found| found.at.start <= start + 3)
    })
}

/// `send … alerts to …`
fn sends_alerts(reader: &Reader, start: usize) -> bool {
    reader.fits("send|post|forward|route", start).is_some()
        && reader
            .find(&["alerts|alarms|events|notifications|warnings to"])
            .is_some()
}

/// Reads `turn off`, `back on`, `put on hold` and their like.
fn switches(reader: &Reader, start: usize) -> Option<Asks> {
    if reader.fits("put", start).is_some() && reader.find(&["on hold"]).is_some() {
        return Some(Asks::Pause);
    }
    let turns = reader.fits("turn|switch|shut|put|set", start).is_some();
    let on_again = reader.find(&["back on", "on again"]).is_some();
    let ends_on = (reader.tokens.iter().rev())
        .find(|t| t.is_word() && !POLITE.contains(&t.text.as_str()))
        .is_some_and(|t| t.text == "on");
    let is_on = reader.find(&[
        &format!("{WATCHES}|camera|cam back on"),
        &format!("{WATCHES}|camera|cam on again"),
    ]);
    if (turns && (on_again || ends_on)) || is_on.is_some() {
        return Some(Asks::Resume);
    }
    if reader.fits("shut", start).is_some() && reader.find(&["up"]).is_some() {
        return Some(Asks::Pause);
    }
    let is_off = reader.find(&[&format!("{WATCHES}|camera|cam off")]);
    if (turns && reader.find(&["off"]).is_some()) || is_off.is_some() {
        return Some(match reader.find(&["off for|until"]) {
            Some(_) => Asks::Pause,
            None => Asks::Stop,
        });
    }
    None
}

/// Whether a clause ends a note with what is to be done: `: message`, `-> message`.
fn is_note(reader: &Reader) -> bool {
    let mut words = reader.tokens.iter().filter(|t| t.kind != Kind::Mark);
    let alone = words
        .next()
        .is_some_and(|t| matches!(t.text.as_str(), "message" | "msg"))
        && words.next().is_none();
    alone
        || reader
            .find(&[
                "- > message|msg|still|clip|picture|snapshot",
                "= message|msg",
                "at? most|max|maximum one|1 message|alert per|every|each <u>",
                "save|record|keep|store a|an|the? <d>? long? clip|video|recording",
                "only|just keep|save|store|take a|the? still|picture|snapshot|photo|stills|pictures|snapshots",
                "arrival|arrivals|departure|departures :",
                "- > #",
                "clip|clips|still|stills|snapshot|snapshots|picture|pictures|photo|photos to #",
                ",|> message|msg|ping .|!?",
                "still|picture|snapshot|photo only",
                "still|picture|snapshot|photo to the? journal|log|archive|history",
                "at? most|max|maximum hourly",
                "> <d>",
                "-|–|! urgent|critical|emergency",
            ])
            .is_some()
}

pub(crate) fn skip_polite(reader: &Reader, mut at: usize) -> usize {
    while POLITE.contains(&reader.word(at)) {
        at += 1;
    }
    at
}

/// Whether one of the verbs stands at `at`.
pub(crate) fn leads(reader: &Reader, at: usize, verbs: &[String]) -> bool {
    verbs.iter().any(|verb| reader.fits(verb, at).is_some())
}
