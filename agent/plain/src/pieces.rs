//! A text → requests: sentences and clauses, each by what it asks for ([`Asks`]).
//!
//! Invariant: a request that acts holds a verb of acting. A clause without one only adds to
//! another.

use crate::asks::{Asks, QUESTIONS, SETTINGS, WATCHES, asks, leads, skip_polite};
use crate::closed::unread_words;
use crate::deployed::OTHERS;
use crate::lexicon::Lexicon;
use crate::names;
use crate::reader::{Reader, Slot, one_of};
use crate::request::quietly;
use crate::scene::Scene;
use crate::token::{Kind, Token};

/// A request: its kind and its words.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) asks: Asks,
    pub(crate) tokens: Vec<Token>,
}

/// Cuts a text into requests.
pub(crate) fn requests(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> Vec<Request> {
    let mut collected = Collected::default();
    let mut sentence = true;
    for piece in pieces(tokens, scene, lexicon) {
        let begins = std::mem::replace(&mut sentence, ends_sentence(&piece));
        let last = collected.found.last();
        let asks = asks_beside(&piece, last.is_none(), scene, lexicon);
        // `On the pool camera, tell me …`
        let names_place = begins && !sentence && names_only_camera(&piece, scene, lexicon);
        let heading = names_place || piece.last().is_some_and(|t| t.text == ":");
        let continues = last.is_some_and(|last| match asks {
            Asks::Nothing => !heading,
            Asks::Watch => {
                let changes = last.asks == Asks::Change && !begins;
                (changes && looks_for_too(&piece, scene, lexicon))
                    || (collected.pending.is_empty()
                        && continues_watch(last, &piece, scene, lexicon))
            }
            _ => false,
        });
        match collected.found.last_mut().filter(|_| continues) {
            Some(last) => last.tokens.extend(piece),
            None if asks == Asks::Nothing => collected.pending.extend(piece),
            None => collected.begin(asks, piece, scene, lexicon),
        }
    }
    let mut found = collected.finish();
    for request in &mut found {
        if changes_existing(request, scene, lexicon) {
            request.asks = Asks::Change;
        }
    }
    found
}

/// Requests found so far, and clauses that wait for theirs.
#[derive(Debug, Default)]
struct Collected {
    found: Vec<Request>,
    /// Clauses that ask for nothing and belong to the next request.
    pending: Vec<Token>,
}

impl Collected {
    /// Begins a request with the clauses that waited for it.
    fn begin(&mut self, asks: Asks, piece: Vec<Token>, scene: &Scene, lexicon: &Lexicon) {
        let mut tokens = std::mem::take(&mut self.pending);
        // `Till alarm: change the time to 45 s`
        if (asks == Asks::Change || asks.is_control())
            && let Some(last) = self.found.last()
            && is_heading(last, scene, lexicon)
            && let Some(heading) = self.found.pop()
        {
            tokens.extend(heading.tokens);
        }
        tokens.extend(piece);
        self.found.push(Request { asks, tokens });
    }

    /// Returns the requests; clauses that still wait belong to the last one.
    fn finish(mut self) -> Vec<Request> {
        if !self.pending.is_empty() {
            match self.found.last_mut() {
                Some(last) => last.tokens.extend(self.pending),
                None => self.found.push(Request {
                    asks: Asks::Nothing,
                    tokens: self.pending,
                }),
            }
        }
        self.found
    }
}

/// Returns what a clause asks for beside the clauses before it.
fn asks_beside(piece: &[Token], is_first: bool, scene: &Scene, lexicon: &Lexicon) -> Asks {
    if of_a_pipeline(piece, scene) {
        return Asks::Change;
    }
    // `I don't want to be told` limits a watch and is no request.
    if is_quietly(piece, lexicon) || (!is_first && leaves_out(piece, scene, lexicon)) {
        return Asks::Nothing;
    }
    // `… but leave the others on`
    let others = Reader::new(piece.to_vec()).find(&OTHERS);
    let end = others
        .filter(|found| found.at.start > 1)
        .map_or(piece.len(), |f| f.at.start);
    let piece = piece.get(..end).unwrap_or_default();
    asks(&without_cameras(piece, scene, lexicon), lexicon)
}

/// Whether a clause names a camera and no class: `On the pool camera`.
fn names_only_camera(piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let reader = Reader::new(piece.to_vec());
    matches!(reader.any_word(0), "on" | "at" | "in" | "for" | "near")
        && names::mentions_camera(&reader, scene, lexicon)
        && !names::mentions_class(&reader, scene, lexicon)
}

/// Whether a request that asks for a watch, or for nothing, changes an existing watch.
fn changes_existing(request: &Request, scene: &Scene, lexicon: &Lexicon) -> bool {
    let tells = || tells_others_too(&request.tokens, scene, lexicon);
    match request.asks {
        Asks::Watch => sets_a_watch(&request.tokens, scene, lexicon) || tells(),
        // `post the bench watch to #all`
        Asks::Nothing => sends(&request.tokens) && tells(),
        _ => false,
    }
}

/// Whether a clause adds to the change before it: `… and look for cars as well`.
fn looks_for_too(piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let reader = Reader::new(piece.to_vec());
    let start = skip_polite(&reader, 0);
    reader.fits("look|watch out? for", start).is_some()
        && !names::mentions_camera(&reader, scene, lexicon)
        && reader.find(&["when|if|whenever"]).is_none()
}

/// Whether a clause is the last of its sentence.
pub(crate) fn ends_sentence(piece: &[Token]) -> bool {
    let last = piece.last().map_or("", |t| t.text.as_str());
    matches!(last, "." | "!" | "?" | "\n" | ";")
}

/// Whether a clause only says what of the request before it does not count: `not lorries`.
fn leaves_out(piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let mut reader = Reader::new(piece.to_vec());
    let classes = names::classes(&mut reader, scene, lexicon);
    !classes.is_empty()
        && classes.iter().all(|m| m.stand == names::Stand::Excluded)
        && unread_words(&reader, "and|or|but", lexicon).is_empty()
}

/// A clause whose cameras are only cameras: one called `Watch tower` asks for nothing.
fn without_cameras(piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> Vec<Token> {
    let mut reader = Reader::new(piece.to_vec());
    if let names::Cameras::These(_) = names::cameras(&mut reader, scene, lexicon) {
        let named = reader.tokens.iter_mut().zip(&reader.used);
        // The little words before it are still those of the sentence.
        let little = ["the", "on", "at", "my", "our", "from", "in"];
        let names =
            named.filter(|(t, used)| **used != Slot::Free && !little.contains(&t.text.as_str()));
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
    quietly(&mut reader) && unread_words(&reader, "and|but", lexicon).is_empty()
}

/// Whether a clause says how a pipeline that it names should be:
/// `yard-people should tell #security`.
fn of_a_pipeline(piece: &[Token], scene: &Scene) -> bool {
    let mut reader = Reader::new(piece.to_vec());
    let asked = QUESTIONS.contains(&reader.word(0));
    let should = reader.find(&["should|shall|must|has|needs to?"]);
    should.is_some_and(|found| {
        reader.mark(found.at.start..piece.len());
        !asked && !names::pipelines(&mut reader, scene).is_empty()
    })
}

/// Whether a note begins with a watch that runs and says how it should be, without a verb:
/// `gate watch only cars`, `Gate watch: 30 seconds for cars`.
fn sets_a_watch(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
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
    let limits = one_of(
        "only|just|also|no|not|without|except|excluding|minus|ignore",
        reader.any_word(end + usize::from(mark)),
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

/// Whether a clause begins with a verb of sending.
fn sends(tokens: &[Token]) -> bool {
    let reader = Reader::new(tokens.to_vec());
    let start = skip_polite(&reader, 0);
    one_of("send|post|forward|route|push|report", reader.word(start))
}

/// Whether it is said of a watch that there is whom it tells: `send the bench watch to #all too`,
/// `let #all know about the bench watch`.
fn tells_others_too(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let mut reader = Reader::new(tokens.to_vec());
    let when = reader.find(&["when|if|whenever|as soon as"]).is_some();
    if when || reader.find(&["#"]).is_none() {
        return false;
    }
    // `watch` is a verb too: it is a thing with an article before it.
    let article = |i: usize| {
        one_of(
            "the|my|our|this|that|all|every|each|both",
            reader.any_word(i),
        )
    };
    let is_thing =
        |at: usize| reader.fits(WATCHES, at).is_some() && (at.saturating_sub(4)..at).any(article);
    let names_watch = (0..tokens.len()).any(is_thing) && !scene.pipelines.is_empty();
    // A place or a camera of that name is no watch.
    let is_place = |name: &str| {
        let mut cameras = scene.cameras.iter();
        cameras
            .any(|c| c.id.as_str() == name || c.name == name || names::place_on(c, name).is_some())
    };
    let named = names::pipelines(&mut reader, scene);
    // With a class of its own it is what is watched for: a watch may be called like one.
    if names::mentions_class(&reader, scene, lexicon) {
        return false;
    }
    names_watch || named.iter().any(|id| !is_place(id.as_str()))
}

/// Whether a clause that asks to watch only adds to the watch before it.
fn continues_watch(last: &Request, piece: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
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

/// Sentences, and clauses that begin with a verb or a camera of their own. The mark at the end
/// belongs to a piece.
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
