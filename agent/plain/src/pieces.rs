//! A text → requests: sentences and clauses, each by what it asks for ([`Asks`]).
//!
//! Invariant: a request that acts holds a verb of acting. A clause without one only adds to
//! another.

use watchkeeper_contract::id::SourceId;

use crate::asks::{
    Asks, QUESTIONS, SETTINGS, WATCHING, asks, leads, says_state, skip_polite, without_name,
};
use crate::closed::unread_words;
use crate::deployed::OTHERS;
use crate::lexicon::VerbKind;
use crate::names::{self, Stand, WATCHES};
use crate::reader::{Reader, Slot, one_of};
use crate::settings::{channels, quietly};
use crate::token::Kind;

/// A request: its kind and its words.
#[derive(Debug, Clone)]
pub(crate) struct Request<'s> {
    pub(crate) asks: Asks,
    pub(crate) r: Reader<'s>,
}

/// Cuts a text into requests.
pub(crate) fn requests<'s>(text: &Reader<'s>) -> Vec<Request<'s>> {
    let mut found: Vec<Request<'s>> = Vec::new();
    // Clauses that ask for nothing and belong to the next request.
    let mut pending: Option<Reader<'s>> = None;
    let mut sentence = true;
    for piece in pieces(text) {
        let begins = std::mem::replace(&mut sentence, ends_sentence(&piece));
        let asks = asks_beside(&piece, found.is_empty());
        // `On the pool camera, tell me …`
        let names_place = begins && !sentence && names_only_camera(&piece);
        let heading = names_place || piece.last_word() == ":";
        let continues = found.last().is_some_and(|last| match asks {
            Asks::Nothing => !heading,
            Asks::Watch => {
                let changes = last.asks == Asks::Change && !begins;
                (changes && looks_for_too(&piece))
                    || (pending.is_none() && continues_watch(last, &piece))
            }
            _ => false,
        });
        match found.last_mut().filter(|_| continues) {
            Some(last) => last.r.join(piece),
            None if asks == Asks::Nothing => match &mut pending {
                Some(before) => before.join(piece),
                None => pending = Some(piece),
            },
            None => {
                let mut r = pending.take().unwrap_or_else(|| text.over(&[]));
                r.join(piece);
                found.push(Request { asks, r });
            }
        }
    }
    match (pending, found.last_mut()) {
        (Some(r), Some(last)) => last.r.join(r),
        (Some(r), None) => found.push(Request {
            asks: Asks::Nothing,
            r,
        }),
        (None, _) => {}
    }
    for request in &mut found {
        let changes = |r| sets_a_watch(r) || tells_of_a_watch(r);
        if request.asks == Asks::Watch && changes(&request.r) {
            request.asks = Asks::Change;
        }
    }
    found
}

/// Returns what a clause asks for beside the clauses before it.
fn asks_beside(piece: &Reader<'_>, is_first: bool) -> Asks {
    if of_a_pipeline(piece) {
        return Asks::Change;
    }
    // `I don't want to be told` limits a watch and is no request.
    if is_quietly(piece) || (!is_first && leaves_out(piece)) {
        return Asks::Nothing;
    }
    // `… but leave the others on`
    let others = piece.find(&OTHERS).filter(|found| found.at.start > 1);
    let end = others.map_or(piece.tokens.len(), |f| f.at.start);
    asks(&without_cameras(&piece.part(0..end)))
}

/// Whether a clause names a camera and no class: `On the pool camera`.
fn names_only_camera(piece: &Reader<'_>) -> bool {
    one_of("on|at|in|for|near", piece.any_word(0))
        && names::mentions_camera(piece)
        && !names::mentions_class(piece)
}

/// Whether a clause adds to the change before it: `… and look for cars as well`.
fn looks_for_too(piece: &Reader<'_>) -> bool {
    let start = skip_polite(piece, 0);
    piece.fits("look|watch out? for", start).is_some()
        && !names::mentions_camera(piece)
        && piece.find(&["when|if|whenever"]).is_none()
}

/// Whether a clause is the last of its sentence.
pub(crate) fn ends_sentence(piece: &Reader<'_>) -> bool {
    one_of(".|!|?|\n|;", piece.last_word())
}

/// Whether a clause only says what of the request before it does not count: `not lorries`.
fn leaves_out(piece: &Reader<'_>) -> bool {
    let mut piece = piece.clone();
    let classes = names::classes(&mut piece);
    !classes.is_empty()
        && classes.iter().all(|m| m.stand == Stand::Excluded)
        && unread_words(&piece, "and|or|but").is_empty()
}

/// A clause whose cameras are only cameras: one called `Watch tower` asks for nothing.
fn without_cameras<'s>(piece: &Reader<'s>) -> Reader<'s> {
    let mut r = piece.clone();
    if let names::Cameras::These(_) = names::cameras(&mut r) {
        for (token, used) in r.tokens.iter_mut().zip(&r.used) {
            // The little words before it are still those of the sentence.
            if *used != Slot::Free && !one_of("the|on|at|my|our|from|in", &token.text) {
                token.text = "camera".to_owned();
            }
        }
    }
    piece.over(&r.tokens)
}

/// Whether a clause says that nobody is to be told, and nothing else.
fn is_quietly(piece: &Reader<'_>) -> bool {
    let mut piece = piece.clone();
    quietly(&mut piece) && unread_words(&piece, "and|but").is_empty()
}

/// Whether a clause says how a pipeline that it names should be:
/// `yard-people should tell #security`.
fn of_a_pipeline(piece: &Reader<'_>) -> bool {
    let should = piece.find(&["should|shall|must|has|needs to?"]);
    should.is_some_and(|found| {
        let mut before = piece.part(0..found.at.start);
        !says_state(piece)
            && !one_of(QUESTIONS, piece.word(0))
            && !names::pipelines(&mut before).is_empty()
    })
}

/// Whether a note begins with a watch that runs and says how it should be, without a verb:
/// `gate watch only cars`, `Gate watch: 30 seconds for cars`.
fn sets_a_watch(r: &Reader<'_>) -> bool {
    const LIMITS: &str = "only|just|also|no|not|without|except|excluding|minus|ignore";
    let start = skip_polite(r, 0);
    let named = without_name(r);
    let runs_on = |camera: &SourceId| r.scene.on(camera).next().is_some();
    let mut cameras = names::camera_spots(r).into_iter();
    let camera = cameras.find(|(at, camera)| at.start == start && runs_on(camera));
    let end = match (named.word(start).is_empty(), camera) {
        (true, _) => (start..r.tokens.len()).find(|i| !named.word(*i).is_empty()),
        (false, camera) => camera.map(|(at, _)| at.end),
    };
    // The name may hold the word: `gate watch`.
    let end = end.unwrap_or(r.tokens.len());
    let is_watch = (start..=end).any(|i| r.fits(WATCHES, i).is_some());
    let end = end + usize::from(r.fits(WATCHES, end).is_some());
    let mark = r.any_word(end);
    let colon = one_of(":|-|–", mark);
    let limits = one_of(LIMITS, r.any_word(end + usize::from(colon || mark == ",")));
    let rest = r.part(end..r.tokens.len());
    let mut verbs = r.lexicon.verbs(&WATCHING);
    let has_verb = verbs.any(|verb| !one_of(WATCHES, verb) && rest.says(&[verb]));
    let sets = || rest.says(&["<d> for", "too|only", "as well", SETTINGS]);
    is_watch && (limits || colon && sets()) && !has_verb && !rest.says(&["when|if|whenever|=|>|#"])
}

/// Whether a clause says whom a watch that runs tells: `send the bench watch to #all`,
/// `let #all know about the gate watch`.
fn tells_of_a_watch(r: &Reader<'_>) -> bool {
    let mut view = r.clone();
    if !channels(&mut view).1 || r.says(&["when|if|whenever"]) {
        return false;
    }
    let is_named = !names::pipelines(&mut view).is_empty();
    let verb = skip_polite(r, 0);
    let first = verb + 1 + usize::from(one_of("the|my|our", r.word(verb + 1)));
    let sends = r.begins(verb, &["send|post|forward|route"]) && view.slot_of(first) != Slot::Free;
    names::cameras(&mut view);
    names::classes(&mut view);
    // What is watched for would stand behind a verb.
    let is_watch = |i: usize| {
        let is_called = view.slot_of(i - 1) != Slot::Free || one_of("all|both", r.any_word(i - 1));
        let ends = "|to|in|into|on|over|via|by|too|also|as|and|please|.|!|,|:";
        is_called && r.fits(WATCHES, i).is_some() && one_of(ends, r.any_word(i + 1))
    };
    is_named && sends || (1..r.tokens.len()).any(is_watch)
}

/// Whether a clause that asks to watch only adds to the watch before it.
fn continues_watch(last: &Request<'_>, piece: &Reader<'_>) -> bool {
    let says_more = || names::mentions_class(piece) || names::mentions_camera(piece);
    last.asks == Asks::Watch && !(names::mentions_class(&last.r) && says_more())
}

/// Sentences, and clauses that begin with a verb or a camera of their own. The mark at the end
/// belongs to a piece.
pub(crate) fn pieces<'s>(text: &Reader<'s>) -> Vec<Reader<'s>> {
    let is_number = |i: usize| {
        let token = text.tokens.get(i);
        token.is_some_and(|t| matches!(t.kind, Kind::Number(_)))
    };
    let mut pieces = Vec::new();
    let mut start = 0;
    for (i, token) in text.tokens.iter().enumerate() {
        if one_of("and|then|,", &token.text) && begins_clause(text, i + 1) {
            pieces.push(text.part(start..i));
            start = i;
        }
        let between = i > 0 && is_number(i - 1) && is_number(i + 1);
        let ends = match token.text.as_str() {
            "." | "!" | "?" | "\n" => true,
            ";" => !between,
            ":" => !is_number(i + 1),
            _ => false,
        };
        if ends {
            pieces.push(text.part(start..i + 1));
            start = i + 1;
        }
    }
    pieces.push(text.part(start..text.tokens.len()));
    pieces.retain(|piece| piece.tokens.iter().any(|t| t.kind != Kind::Mark));
    pieces
}

fn begins_clause(whole: &Reader<'_>, at: usize) -> bool {
    let start = skip_polite(whole, at);
    const ACTS: [VerbKind; 6] = [
        VerbKind::Watch,
        VerbKind::Count,
        VerbKind::Delete,
        VerbKind::Stop,
        VerbKind::Pause,
        VerbKind::Resume,
    ];
    leads(whole, start, &ACTS)
        || (one_of("on|at|in", whole.word(at)) && names::camera_at(whole, at + 1))
}
