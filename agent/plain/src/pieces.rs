//! A text → requests: sentences and clauses, each by what it asks for.
//!
//! Invariant: a request that acts holds a verb of acting: one that controls stands at the beginning of its clause, one that watches anywhere in it. A
//! clause without one only adds to another.

use crate::audience;
use crate::lexicon::Lexicon;
use crate::names;
use crate::reader::{Reader, left_over};
use crate::request::{end_of_watch, one_way, quietly};
use crate::scene::Scene;
use crate::states;
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
    /// Not to do something: never a request of its own.
    Not,
    /// Nothing by itself.
    Nothing,
}

/// A request: its kind and its words.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) asks: Asks,
    pub(crate) tokens: Vec<Token>,
}

/// Words before a verb that change nothing.
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
const QUESTIONS: [&str; 33] = [
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
];

/// Words for a pipeline.
pub(crate) const WATCHES: &str = "watch|watches|alarm|alarms|pipeline|pipelines|rule|monitoring";
/// That a pause ends, in the words by which something is stopped: `cancel the pause`.
pub(crate) const ENDS_A_PAUSE: &str = "cancel|end|stop|undo|lift|remove|abort|delete|drop|finish|terminate the|my|our|its|their|this|that|all|any? pause|pauses|pausing|snooze|snoozing";
/// What a pipeline has that can be higher or lower.
const SETTINGS: &str = "confidence|threshold|cooldown|cool-down|score|duration";

/// What a clause asks of a watch that there is, in words that mean something else by themselves.
fn of_a_watch(reader: &Reader, start: usize) -> Option<Asks> {
    let setting = reader.find(&[SETTINGS]).is_some();
    if reader
        .fits(
            "raise|lower|increase|decrease|reduce|shorten|lengthen|extend",
            start,
        )
        .is_some()
        && setting
    {
        return Some(Asks::Change);
    }
    let to_a_watch = || {
        let found = reader.find(&["to|for|of|on|with the|my|our|this"])?;
        (found.at.end..reader.tokens.len()).find(|i| reader.fits(WATCHES, *i).is_some())
    };
    let adds = reader.fits("add", start).is_some()
        || reader
            .fits(
                "keep|save|record|store|include a|an|the? <d>? clip|clips|video|recording",
                start,
            )
            .is_some();
    if adds && to_a_watch().is_some() {
        return Some(Asks::Change);
    }
    let should = reader.find(&[&format!("{WATCHES} should|shall|must|has|needs to?")]);
    let asked = QUESTIONS.contains(&reader.word(start));
    if should.is_some_and(|found| found.at.start < 6) && !asked {
        return Some(Asks::Change);
    }
    // `too jumpy, make it 45 seconds`
    let makes = reader.find(&["make|set|change it|that"]);
    let said = reader.find(&[WATCHES]);
    if let (Some(makes), Some(said)) = (makes, said)
        && said.at.start < makes.at.start
        && said.at.start <= start + 3
        && !asked
    {
        return Some(Asks::Change);
    }
    let set = [
        "watch|alarm|pipeline without|except|excluding|ignoring|minus".to_owned(),
        format!("{WATCHES} {SETTINGS}"),
        "send|post|forward|route the|all? alerts|alarms|events|notifications|warnings to"
            .to_owned(),
    ];
    let set = set.iter().any(|pattern| {
        reader
            .find(&[pattern])
            .is_some_and(|found| found.at.start <= start + 3)
    });
    let sends = reader.fits("send|post|forward|route", start).is_some()
        && reader
            .find(&["alerts|alarms|events|notifications|warnings to"])
            .is_some();
    if (set || sends) && !asked {
        return Some(Asks::Change);
    }
    if reader.fits("put", start).is_some() && reader.find(&["on hold"]).is_some() {
        return Some(Asks::Pause);
    }
    let turns = reader.fits("turn|switch|shut|put|set", start).is_some();
    let on_again = reader.find(&["back on", "on again"]).is_some();
    let ends_on = (reader.tokens.iter().rev())
        .find(|t| t.is_word() && !POLITE.contains(&t.text.as_str()))
        .is_some_and(|t| t.text == "on");
    if (turns && (on_again || ends_on))
        || reader
            .find(&[
                &format!("{WATCHES}|camera|cam back on"),
                &format!("{WATCHES}|camera|cam on again"),
            ])
            .is_some()
    {
        return Some(Asks::Resume);
    }
    if reader.fits("shut", start).is_some() && reader.find(&["up"]).is_some() {
        return Some(Asks::Pause);
    }
    if (turns && reader.find(&["off"]).is_some())
        || reader
            .find(&[&format!("{WATCHES}|camera|cam off")])
            .is_some()
    {
        return Some(match reader.find(&["off for|until"]) {
            Some(_) => Asks::Pause,
            None => Asks::Stop,
        });
    }
    None
}

/// Whether a clause is the end of a note, which says what is to be done: `: message`, `-> message`.
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

/// Cuts a text into requests.
pub(crate) fn requests(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> Vec<Request> {
    let mut found: Vec<Request> = Vec::new();
    let mut pending: Vec<Token> = Vec::new();
    let mut kept: Vec<Token> = Vec::new();
    let mut sentence = true;
    for piece in pieces(tokens, scene, lexicon) {
        let begins = std::mem::replace(&mut sentence, ends_sentence(&piece));
        if states::is_kept(&piece, scene) {
            // Only what ends or goes on could be another thing by it.
            match found.last_mut() {
                Some(last) if is_control(last.asks) => last.tokens.extend(piece),
                _ => kept.extend(piece),
            }
            continue;
        }
        let asks = match of_a_pipeline(&piece, scene) {
            true => Asks::Change,
            false if found.is_empty() && is_no_alerts(&piece) => Asks::Not,
            // `I don't want to be told` is how it is to be watched for, and no request.
            false if is_quietly(&piece, lexicon) => Asks::Nothing,
            false if !found.is_empty() && leaves_out(&piece, scene, lexicon) => Asks::Nothing,
            false => {
                let said = states::without_kept(&piece).unwrap_or(&piece);
                asks(&without_cameras(said, scene, lexicon), lexicon)
            }
        };
        // `On the pool camera, tell me …`
        let leads = begins && !sentence && {
            let reader = Reader::new(piece.clone());
            matches!(reader.any_word(0), "on" | "at" | "in" | "for" | "near")
                && names::mentions_camera(&reader, scene, lexicon)
                && !names::mentions_class(&reader, scene, lexicon)
        };
        let heading = leads || piece.last().is_some_and(|t| t.text == ":");
        match (asks, found.last_mut()) {
            (Asks::Nothing, None) => pending.extend(piece),
            (Asks::Nothing, Some(_)) if heading => pending.extend(piece),
            (Asks::Nothing, Some(last)) => last.tokens.extend(piece),
            (Asks::Stop, Some(last))
                if last.asks == Asks::Watch && (ends_itself(&piece) || they_stop(&piece, last)) =>
            {
                last.tokens.extend(piece);
            }
            (Asks::Watch, Some(last))
                if last.asks == Asks::Change
                    && !begins
                    && looks_for_too(&piece, scene, lexicon) =>
            {
                last.tokens.extend(piece);
            }
            (Asks::Watch, Some(last))
                if pending.is_empty() && goes_on(last, &piece, scene, lexicon) =>
            {
                last.tokens.extend(piece);
            }
            _ => {
                let mut tokens = std::mem::take(&mut pending);
                let acts_on_one =
                    matches!(asks, Asks::Change | Asks::Stop | Asks::Pause | Asks::Resume);
                // `Till alarm: change the time to 45 s`
                if acts_on_one
                    && found.last().is_some_and(|l| is_heading(l, scene, lexicon))
                    && let Some(heading) = found.pop()
                {
                    tokens.extend(heading.tokens);
                }
                tokens.extend(piece);
                if is_control(asks) {
                    tokens.append(&mut kept);
                }
                found.push(Request { asks, tokens });
            }
        }
    }
    if !pending.is_empty() {
        match found.last_mut() {
            Some(last) => last.tokens.extend(pending),
            None => found.push(Request {
                asks: Asks::Nothing,
                tokens: pending,
            }),
        }
    }
    for request in &mut found {
        let tells = || audience::tells_others_too(&request.tokens, scene, lexicon);
        let changes = match request.asks {
            Asks::Watch => sets_a_watch(&request.tokens, scene, lexicon) || tells(),
            // `post the bench watch to #all`
            Asks::Nothing => audience::sends(&request.tokens) && tells(),
            _ => false,
        };
        if changes {
            request.asks = Asks::Change;
        }
    }
    found
}

/// Whether a clause goes on with how a watch is to be changed: `… and look for cars as well`.
fn looks_for_too(piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let reader = Reader::new(piece.to_vec());
    let start = skip_polite(&reader, 0);
    reader.fits("look|watch out? for", start).is_some()
        && !names::mentions_camera(&reader, scene, lexicon)
        && reader.find(&["when|if|whenever"]).is_none()
}

/// Whether a clause says only that the watch before it ends: `and stop after 10 minutes`.
pub(crate) fn ends_itself(piece: &[Token]) -> bool {
    let reader = Reader::new(piece.to_vec());
    let start = (0..=skip_polite(&reader, 0)).find_map(|at| end_of_watch(&reader, at));
    let is_said = |i: usize| {
        let is_mark = reader.tokens.get(i).is_none_or(|t| t.kind == Kind::Mark);
        !is_mark && !matches!(reader.any_word(i), "please" | "thanks")
    };
    start.is_some_and(|found| !(found.at.end..piece.len()).any(is_said))
}

/// Whether it is what is watched for that stops: `tell me when cars come and stop at the kerb`.
fn they_stop(piece: &[Token], last: &Request) -> bool {
    let reader = Reader::new(piece.to_vec());
    let waits = Reader::new(last.tokens.clone())
        .find(&["when|if|whenever"])
        .is_some();
    let ended = last
        .tokens
        .last()
        .is_some_and(|t| matches!(t.text.as_str(), "." | "!" | "?" | ";" | "\n"));
    let at = usize::from(matches!(reader.any_word(0), "and" | "then" | ","));
    waits
        && !ended
        && reader
            .fits(
                "stop at|in|on|near|by|for|there|here|before|behind|beside|inside|outside",
                at,
            )
            .is_some()
}

/// Whether a clause is the last of its sentence.
pub(crate) fn ends_sentence(piece: &[Token]) -> bool {
    let last = piece.last().map_or("", |t| t.text.as_str());
    matches!(last, "." | "!" | "?" | "\n" | ";")
}

/// Whether a request ends, pauses or starts what there is.
pub(crate) fn is_control(asks: Asks) -> bool {
    matches!(asks, Asks::Stop | Asks::Pause | Asks::Resume)
}

/// Whether a text begins with what is not to be told: `no alerts from the gate`.
fn is_no_alerts(piece: &[Token]) -> bool {
    let reader = Reader::new(piece.to_vec());
    let start = usize::from(matches!(reader.any_word(0), "please" | "and"));
    let no = "no more? alerts|alert|alarms|alarm|messages|message|notifications|notification|warnings|events";
    reader
        .fits(no, start)
        .is_some_and(|found| !matches!(reader.any_word(found.at.end), "" | "." | "," | "!" | ";"))
}

/// Whether a clause only says what of the request before it does not count: `not lorries`, `I don't care about those coming in`.
fn leaves_out(piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let mut reader = Reader::new(piece.to_vec());
    let way = one_way(&mut reader);
    let classes = names::classes(&mut reader, scene, lexicon);
    let only_left_out = classes.iter().all(|m| m.stand == names::Stand::Excluded);
    let none = reader.find(&["not|don't|dont"]).is_none();
    (way || !classes.is_empty()) && only_left_out && none && left_over(&reader, lexicon).is_empty()
}

/// A clause whose cameras are only cameras: one called `Watch tower` asks for nothing.
fn without_cameras(piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> Vec<Token> {
    let mut reader = Reader::new(piece.to_vec());
    if let names::Cameras::These(_) = names::cameras(&mut reader, scene, lexicon) {
        let named = reader.tokens.iter_mut().zip(&reader.used);
        // The little words before it are still those of the sentence.
        let little = ["the", "on", "at", "my", "our", "from", "in"];
        let names = named.filter(|(t, used)| **used && !little.contains(&t.text.as_str()));
        names.for_each(|(token, _)| token.text = "camera".to_owned());
    }
    reader.tokens
}

/// Whether a request is the heading of a note about a watch, and no more.
fn is_heading(request: &Request, scene: &Scene, lexicon: &Lexicon) -> bool {
    let reader = Reader::new(request.tokens.clone());
    request.asks == Asks::Watch
        && request.tokens.last().is_some_and(|t| t.text == ":")
        && reader.find(&[WATCHES]).is_some()
        && !names::mentions_class(&reader, scene, lexicon)
}

/// Whether a clause says that nobody is to be told, and nothing else.
fn is_quietly(piece: &[Token], lexicon: &Lexicon) -> bool {
    let mut reader = Reader::new(piece.to_vec());
    quietly(&mut reader) && left_over(&reader, lexicon).is_empty()
}

/// Whether a clause says how a pipeline that it names should be: `yard-people should tell #security`.
fn of_a_pipeline(piece: &[Token], scene: &Scene) -> bool {
    let mut reader = Reader::new(piece.to_vec());
    let asked = QUESTIONS.contains(&reader.word(0));
    let should = reader.find(&["should|shall|must|has|needs to?"]);
    should.is_some_and(|found| {
        reader.mark(found.at.start..piece.len());
        !asked && !names::pipelines(&mut reader, scene).is_empty()
    })
}

/// Whether a note sets a watch that there is: `Yard watch: confidence 0.7`, `Yard watch: only dogs`.
fn sets_a_watch(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    if limits_what_runs(tokens, scene, lexicon) {
        return true;
    }
    let ends = |t: &Token| matches!(t.text.as_str(), ":" | "-" | "–");
    let Some(colon) = tokens.iter().position(ends) else {
        return false;
    };
    let (head, rest) = tokens.split_at(colon);
    let (mut head, rest) = (Reader::new(head.to_vec()), Reader::new(rest.to_vec()));
    let is_watch =
        head.find(&[WATCHES]).is_some() || !names::pipelines(&mut head, scene).is_empty();
    let runs = match names::cameras(&mut head, scene, lexicon) {
        names::Cameras::These(on) => scene.pipelines.iter().any(|p| on.contains(&p.spec.source)),
        _ => scene.pipelines.len() == 1 || head.used.contains(&true),
    };
    let setting = rest
        .find(&["confidence|threshold|cooldown|cool-down|score"])
        .is_some();
    let sets = setting && !names::mentions_class(&rest, scene, lexicon);
    // With a verb of its own, or where it happens, it is a watch: `Yard watch: tell me about dogs`.
    let verbs = lexicon.verbs.watch.iter().chain(&lexicon.verbs.count);
    let mut verbs = verbs.filter(|verb| rest.find(&[verb]).is_some());
    let only = rest.find(&["only|just|also|add"]).is_some();
    let leaves_out = rest.find(&["no|not|without|except"]).is_some()
        && names::mentions_class(&rest, scene, lexicon);
    let limits = (only || leaves_out)
        && verbs.next().is_none()
        && rest.find(&["when|if|whenever|=|>"]).is_none();
    is_watch && runs && (sets || limits)
}

/// Whether a note begins with a watch that runs and says how it should be, without a verb: `gate watch only cars`, `Gate watch: 30 seconds for cars`.
fn limits_what_runs(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let reader = Reader::new(tokens.to_vec());
    let start = skip_polite(&reader, 0);
    let mut named = reader.clone();
    let is_named = !names::pipelines(&mut named, scene).is_empty();
    let on = names::camera_spots(&reader, scene, lexicon).into_iter();
    let on = on.filter(|(at, _)| at.start == start).find(|(_, camera)| {
        let mut pipelines = scene.pipelines.iter();
        pipelines.any(|p| p.spec.source == *camera)
    });
    let end = match (is_named && named.word(start).is_empty(), on) {
        (true, _) => (start..tokens.len())
            .find(|i| !named.word(*i).is_empty())
            .unwrap_or(tokens.len()),
        (false, Some((at, _))) => at.end,
        (false, None) => return false,
    };
    // The name may hold the word: `gate watch`.
    let is_watch = (start..=end).any(|i| reader.fits(WATCHES, i).is_some());
    let end = end + usize::from(reader.fits(WATCHES, end).is_some());
    let colon = matches!(reader.any_word(end), ":" | "-" | "–");
    let mark = colon || reader.any_word(end) == ",";
    let limits = matches!(
        reader.any_word(end + usize::from(mark)),
        "only"
            | "just"
            | "also"
            | "no"
            | "not"
            | "without"
            | "except"
            | "excluding"
            | "minus"
            | "ignore"
            | "off"
    );
    let rest = Reader::new(tokens.get(end..).unwrap_or_default().to_vec());
    let verbs = lexicon.verbs.watch.iter().chain(&lexicon.verbs.count);
    let is_verb =
        |verb: &String| !WATCHES.split('|').any(|w| w == verb) && rest.find(&[verb]).is_some();
    let has_verb = verbs.into_iter().any(is_verb);
    let sets = limits
        || (colon
            && rest
                .find(&["<d> for", "too|only", "as well", SETTINGS])
                .is_some());
    is_watch && sets && !has_verb && rest.find(&["when|if|whenever|=|>|#"]).is_none()
}

/// Whether a clause that asks to watch only adds to the watch before it.
fn goes_on(last: &Request, piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    if last.asks != Asks::Watch {
        return false;
    }
    let says = |tokens: &[Token]| {
        let reader = Reader::new(tokens.to_vec());
        let class = names::mentions_class(&reader, scene, lexicon);
        let camera = names::mentions_camera(&reader, scene, lexicon);
        (class, camera)
    };
    let ((before, _), (class, camera)) = (says(&last.tokens), says(piece));
    !(before && (class || camera))
}

/// Sentences, and clauses that begin with a verb or a camera of their own. The mark at the end belongs to a piece.
pub(crate) fn pieces(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> Vec<Vec<Token>> {
    let whole = Reader::new(tokens.to_vec());
    let is_number = |i: Option<usize>| {
        let token = i.and_then(|i| tokens.get(i));
        token.is_some_and(|t| matches!(t.kind, Kind::Number(_)))
    };
    let mut pieces: Vec<Vec<Token>> = vec![Vec::new()];
    for (i, token) in tokens.iter().enumerate() {
        let opens = matches!(token.text.as_str(), "and" | "then" | ",")
            && begins_clause(&whole, i + 1, scene, lexicon);
        if opens {
            pieces.push(Vec::new());
        }
        if let Some(last) = pieces.last_mut() {
            last.push(token.clone());
        }
        let between = is_number(i.checked_sub(1)) && is_number(Some(i + 1));
        let ends = match token.text.as_str() {
            "." | "!" | "?" | "\n" => true,
            ";" => !between,
            ":" => !is_number(Some(i + 1)),
            _ => false,
        };
        if ends {
            pieces.push(Vec::new());
        }
    }
    pieces.retain(|piece| piece.iter().any(|t| t.kind != Kind::Mark));
    pieces
}

fn begins_clause(whole: &Reader, at: usize, scene: &Scene, lexicon: &Lexicon) -> bool {
    let start = skip_polite(whole, at);
    let verbs = &lexicon.verbs;
    let lists = [
        &verbs.watch,
        &verbs.count,
        &verbs.stop,
        &verbs.pause,
        &verbs.resume,
    ];
    if lists.iter().any(|list| leads(whole, start, list)) {
        return true;
    }
    matches!(whole.word(at), "on" | "at" | "in") && names::camera_at(whole, at + 1, scene, lexicon)
}

pub(crate) fn skip_polite(reader: &Reader, mut at: usize) -> usize {
    while POLITE.contains(&reader.word(at)) {
        at += 1;
    }
    at
}

fn leads(reader: &Reader, at: usize, verbs: &[String]) -> bool {
    verbs.iter().any(|verb| reader.fits(verb, at).is_some())
}

/// Whether `when` asks, and does not say on what condition.
fn asked_when(reader: &Reader, start: usize) -> bool {
    let last = reader.tokens.last().is_some_and(|t| t.text == "?");
    last || reader.fits("when was|were|did|has", start).is_some()
}

/// What a clause asks for.
pub(crate) fn asks(piece: &[Token], lexicon: &Lexicon) -> Asks {
    let reader = Reader::new(piece.to_vec());
    let start = skip_polite(&reader, 0);
    let verbs = &lexicon.verbs;
    if matches!(
        reader.word(start),
        "don't" | "dont" | "never" | "not" | "forget" | "nevermind"
    ) || reader.fits("do not", start).is_some()
    {
        return Asks::Not;
    }
    // `keep only the gate watch` says what is to go, and not its name.
    if reader.fits("keep|leave only|just", start).is_some() && reader.find(&[WATCHES]).is_some() {
        return Asks::Not;
    }
    if reader.fits(ENDS_A_PAUSE, start).is_some() {
        return Asks::Resume;
    }
    if let Some(asks) = of_a_watch(&reader, start) {
        return asks;
    }
    let questions = "what|which|how|who|whether|where|why|what's|whose";
    let told = format!("tell|show|give me|us {questions}");
    let let_know = format!("let me|us know {questions}");
    if reader.fits(&told, start).is_some() || reader.fits(&let_know, start).is_some() {
        return Asks::Look;
    }
    for (list, asks) in [
        (&verbs.stop, Asks::Stop),
        (&verbs.pause, Asks::Pause),
        (&verbs.resume, Asks::Resume),
        (&verbs.change, Asks::Change),
    ] {
        if leads(&reader, start, list) {
            return asks;
        }
    }
    // `count` and `watch` may stand anywhere, but not in a question.
    let lead = reader.word(start);
    let when = reader.fits("when was|were|did|has|is|are", start).is_some();
    let many = reader.fits("how many", start).is_some();
    if reader
        .fits("number of alerts|alarms|events|warnings|incidents", start)
        .is_some()
    {
        return Asks::Look;
    }
    let asked = piece.last().is_some_and(|t| t.text == "?");
    let who = matches!(
        lead,
        "anything" | "something" | "anyone" | "anybody" | "someone" | "somebody"
    );
    if asked && reader.find(&["number of"]).is_some() {
        return Asks::Look;
    }
    let past = [
        "yesterday|ago|earlier",
        "last|past night|hour|week|minutes|hours",
    ];
    let state = ["camera|cam ok|okay|working|online|alive|up"];
    if asked
        && ((who && start == 0) || reader.find(&past).is_some() || reader.find(&state).is_some())
    {
        return Asks::Look;
    }
    if QUESTIONS.contains(&lead)
        || (when && asked_when(&reader, start))
        || (many && asked)
        || (asked && start == 0 && piece.len() < 3)
    {
        return Asks::Look;
    }
    if is_note(&reader) {
        return Asks::Watch;
    }
    let watches = verbs.watch.iter().chain(&verbs.count);
    let found = watches
        .filter_map(|verb| reader.find(&[verb]))
        .map(|f| f.at.start)
        .min();
    let Some(at) = found else {
        return Asks::Nothing;
    };
    let before = (at.saturating_sub(2)..at).map(|i| reader.word(i));
    if before
        .into_iter()
        .any(|w| matches!(w, "don't" | "dont" | "never" | "not" | "without"))
    {
        return Asks::Not;
    }
    Asks::Watch
}
