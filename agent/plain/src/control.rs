//! Stop, pause and resume: which pipelines, and until when.
//!
//! - A request with an unread word, such as `stop telling me about cats`, is asked about and not
//!   done in part.
//! - One that picks some of several (`the first yard watch`) or names a part of a watch
//!   (`the zone in the hall`) ends nothing that it does not name.

use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::answer::Missing;
use crate::asks::{Asks, ENDS_A_PAUSE, POLITE, WATCHES};
use crate::deployed::{OTHERS, THINGS, ids, ids_of, its_camera, listed, listed_of};
use crate::instead::instead;
use crate::intent::Intent;
use crate::lexicon::Lexicon;
use crate::moments;
use crate::names::{self, Cameras};
use crate::need::{Need, Notes};
use crate::reader::{Found, Reader};
use crate::scene::{Deployed, Scene, quoted};
use crate::token::Kind;

/// Little words that say nothing of which pipelines are meant. Any other that no phrase used does:
/// what carries no meaning where something is to be watched for (`the zone`, `the first`,
/// `all but one`) turns what is ended into something else.
const SAYS_NOTHING: [&str; 56] = [
    "ones",
    "the",
    "my",
    "our",
    "your",
    "this",
    "that",
    "these",
    "those",
    "them",
    "they",
    "it",
    "please",
    "kindly",
    "hey",
    "hi",
    "hello",
    "ok",
    "okay",
    "thanks",
    "thank",
    "you",
    "can",
    "could",
    "would",
    "will",
    "i",
    "i'd",
    "we",
    "us",
    "me",
    "to",
    "do",
    "now",
    "immediately",
    "instantly",
    "asap",
    "so",
    "also",
    "too",
    "then",
    "and",
    "again",
    "for",
    "of",
    "on",
    "in",
    "at",
    "from",
    "about",
    "off",
    "camera",
    "cam",
    "is",
    "are",
    "only",
];
/// The same, where it stands before or behind `all`.
const OF_ALL: [&str; 6] = ["all", "every", "each", "both", "just", "anyway"];
/// Words that pick one where there are several, and say nothing where there is one.
const ANY_ONE: [&str; 7] = ["a", "an", "one", "any", "old", "new", "either"];
/// Words that pick some of several by their place among them, by their age or by how many they are.
const PICKS: [&str; 40] = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "last",
    "next",
    "previous",
    "final",
    "other",
    "others",
    "another",
    "same",
    "newest",
    "latest",
    "oldest",
    "newer",
    "older",
    "earliest",
    "recent",
    "some",
    "few",
    "several",
    "many",
    "most",
    "more",
    "half",
    "part",
    "rest",
    "remaining",
    "single",
    "certain",
    "random",
    "various",
    "two",
    "three",
    "four",
    "1st",
    "2nd",
    "3rd",
];
/// Words for what only counts, and for what tells.
const COUNTS: &str = "counting|counter|counters";
/// Verbs by which a thing is taken away for good, and no longer there.
const TAKES_AWAY: [&str; 6] = ["remove", "delete", "drop", "scrap", "bin", "rid"];
/// What is said where quiet is asked for.
const PAUSED_INSTEAD: &str =
    "It is paused, so that it can be resumed; say \"delete\" to remove it.";
const TELLS: &str = "alerts|alert|alerting|alarm|alarms";

/// The verb of a request.
struct Verb {
    /// What ends a pause without a verb for it: `end the pause of …`.
    ends_a_pause: Option<Found>,
    at: usize,
    words: Vec<String>,
    /// As it was written, or the usual one.
    written: String,
}

impl Verb {
    fn takes_away(&self) -> bool {
        let takes_away = |w: &String| TAKES_AWAY.contains(&w.as_str());
        self.words.iter().any(takes_away)
    }
}

/// What a request says of which pipelines it means, beside their names and cameras.
struct Scope {
    counting: bool,
    /// Those that only count (`true`), or those that tell.
    kind: Option<bool>,
    /// Whether rules are named, and whether it is one.
    of_rules: Option<bool>,
    both: bool,
    all: bool,
}

/// Understands a request to stop, pause or resume.
pub(crate) fn control(
    mut r: Reader,
    asks: Asks,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<Intent, Need> {
    let verb = take_verb(&mut r, asks, lexicon);
    let is_paused_instead = asks == Asks::Stop && is_for_quiet(&r, &verb);
    let asks = if is_paused_instead { Asks::Pause } else { asks };
    let spared = spared(&mut r, scene, lexicon);
    let (named, names) = take_names(&mut r, scene, lexicon);
    refuse_for_now(&r, asks, &verb)?;
    let until = match asks {
        Asks::Pause => moments::until(&mut r, &scene.now, &mut notes.assumed),
        _ => None,
    };
    refuse_a_camera_itself(&r, &verb, &named)?;
    refuse_a_part(&r, asks, &verb, &names)?;
    let scope = take_scope(&mut r, &verb);
    let cameras = match named.is_empty() && spared.is_empty() {
        true => names::cameras(&mut r, scene, lexicon),
        false => Cameras::None,
    };
    take_filling(&mut r);
    let picks = picks(&r, &names);
    refuse_unread(&r, asks, &verb, &picks, &named, scene)?;
    let (is_named, has_spared) = (named.len() == 1, !spared.is_empty());
    let targets = if has_spared {
        all_but(&spared, scene)
    } else {
        targets(scope.all, named, cameras, &verb, scene, notes)?
    };
    let targets = match verb.ends_a_pause {
        Some(_) => paused_of(targets, scene)?,
        None => targets,
    };
    let word = verb.written.as_str();
    if targets.is_empty() {
        return Err(Need::new(
            Missing::Pipeline,
            format!("Nothing runs, so there is nothing to {word}."),
        ));
    }
    let is_meant = is_named || (scope.kind == Some(true) && !scope.counting);
    let targets = of_a_kind(targets, scope.kind, is_meant, word, scene)?;
    refuse_a_rule(&targets, &scope, is_named, word, scene)?;
    if !is_clear(&targets, &picks, &scope, is_named) {
        return Err(ask_which(&targets, has_spared, word, scene));
    }
    if is_paused_instead && until.is_none() {
        notes.assumed.push(PAUSED_INSTEAD.to_owned());
    }
    Ok(match asks {
        Asks::Stop => Intent::Stop(targets),
        Asks::Pause => Intent::Pause {
            pipelines: targets,
            until,
        },
        _ => Intent::Resume(targets),
    })
}

/// Whether quiet is asked for, and no end of what runs: `stop the alerts`, `turn off the camera`.
fn is_for_quiet(r: &Reader, verb: &Verb) -> bool {
    let switches = (0..r.tokens.len()).any(|i| matches!(r.any_word(i), "off" | "disable"));
    let tells = (0..r.tokens.len()).any(|i| {
        let word = r.any_word(i);
        TELLS
            .split('|')
            .chain(["camera", "cam"])
            .any(|told| told == word)
    });
    !verb.takes_away() && (switches || tells)
}

/// Takes the pipelines that are named, and where their names stand.
///
/// They are read before the times, because a name may have one in it: `the night patrol`.
fn take_names(r: &mut Reader, scene: &Scene, lexicon: &Lexicon) -> (Vec<PipelineId>, Vec<usize>) {
    let before = r.used.clone();
    let mut named = names::pipelines(r, scene);
    if named.is_empty() {
        named.extend(names::pipeline_of_class(r, scene, lexicon));
    }
    let names = (0..r.tokens.len())
        .filter(|i| before.get(*i) != r.used.get(*i))
        .collect();
    if !named.is_empty() {
        its_camera(r, &named, scene, lexicon);
    }
    (named, names)
}

fn all_but(spared: &[PipelineId], scene: &Scene) -> Vec<PipelineId> {
    let mut targets = ids_of(scene);
    targets.retain(|id| !spared.contains(id));
    targets
}

/// Whether a request leaves no choice between its targets.
fn is_clear(targets: &[PipelineId], picks: &Picks, scope: &Scope, is_named: bool) -> bool {
    match targets {
        // A name answers the question which one is meant.
        [_] => !picks.of_one || (is_named && !picks.of_its_own),
        [_, _] => !picks.any(),
        _ => !picks.any() && !scope.both,
    }
}

/// Takes the verb, and the words that go with it and say no more.
fn take_verb(r: &mut Reader, asks: Asks, lexicon: &Lexicon) -> Verb {
    let ends_a_pause = match asks {
        Asks::Resume => r.take(&[&format!("{ENDS_A_PAUSE} of|on|for|in|at?")]),
        _ => None,
    };
    let (verbs, usual) = match asks {
        Asks::Stop => (&lexicon.verbs.stop, "stop"),
        Asks::Pause => (&lexicon.verbs.pause, "pause"),
        _ => (&lexicon.verbs.resume, "resume"),
    };
    let verb = verbs.iter().find_map(|v| r.take(&[v.as_str()]));
    let at = verb.as_ref().map_or(0, |v| v.at.start);
    let words = verb
        .iter()
        .flat_map(|v| v.at.clone())
        .map(|i| r.any_word(i).to_owned())
        .collect();
    let written = verb.map_or_else(|| usual.to_owned(), |v| r.written(v.at).to_lowercase());
    r.take_all(&[
        "turn|switch|shut|put",
        "back on|off",
        "on hold",
        "on|off again",
        "right|straight away|now",
        OTHERS[0],
        OTHERS[1],
    ]);
    if asks == Asks::Pause {
        r.take_all(&["up"]);
    }
    r.take_all(&["current|existing"]);
    Verb {
        ends_a_pause,
        at,
        words,
        written,
    }
}

/// Takes words for a pipeline that pick none.
fn take_filling(r: &mut Reader) {
    r.take_all(&[THINGS]);
    for i in 0..r.tokens.len() {
        if r.word(i) == "one" && stands_for_its_name(r, i) {
            r.mark(i..i + 1);
        }
    }
}

/// Takes the words that say which of the pipelines are meant.
fn take_scope(r: &mut Reader, verb: &Verb) -> Scope {
    const ALL: [&str; 4] = [
        "all|every of? the|my|our? cameras|pipelines|watches|streams|alerts|camera|pipeline|watch|monitoring?",
        "all|both of them",
        "everything",
        "the lot",
    ];
    let counting = r.find(&["counting"]).is_some();
    let kind = match (r.find(&[COUNTS]), r.find(&[TELLS])) {
        (Some(_), None) => Some(true),
        (None, Some(_)) => Some(false),
        _ => None,
    };
    let of_rules = r
        .find(&["rule|rules"])
        .map(|found| r.any_word(found.at.start) == "rule");
    let both = r.find(&["both"]).is_some();
    let all_pauses = verb
        .ends_a_pause
        .as_ref()
        .is_some_and(|found| (found.at.clone()).any(|i| matches!(r.any_word(i), "all" | "pauses")));
    let all = r.take(&ALL).is_some() || all_pauses;
    Scope {
        counting,
        kind,
        of_rules,
        both,
        all,
    }
}

/// Refuses a stop that is to be for a time.
fn refuse_for_now(r: &Reader, asks: Asks, verb: &Verb) -> Result<(), Need> {
    let word = &verb.written;
    if asks == Asks::Stop && r.find(&["for now", "for the moment"]).is_some() {
        return Err(Need::new(
            Missing::Meaning,
            format!(
                "What is stopped is gone, and does not come back by itself. For a time say \"pause\", with its end where there is one (\"pause the gate watch until 8\"); for good say \"{word}\" without \"for now\"."
            ),
        ));
    }
    Ok(())
}

/// Refuses to remove the camera itself, and not what runs on it.
fn refuse_a_camera_itself(r: &Reader, verb: &Verb, named: &[PipelineId]) -> Result<(), Need> {
    if verb.takes_away() && named.is_empty() && r.find(&["camera|cam|cameras"]).is_some() {
        let runs = format!("everything|it|monitoring|{WATCHES}");
        if r.find(&[&runs]).is_none() {
            return Err(Need::new(
                Missing::Meaning,
                "A camera itself is taken away with `watchkeeper sources remove NAME`. I can end what runs on it: say for example \"stop everything on the gate camera\".",
            ));
        }
    }
    Ok(())
}

/// Refuses to take something out of a watch. `names`: where pipelines are named.
fn refuse_a_part(r: &Reader, asks: Asks, verb: &Verb, names: &[usize]) -> Result<(), Need> {
    let word = &verb.written;
    if asks == Asks::Stop
        && verb.takes_away()
        && let Some(part) = out_of_a_watch(r, verb.at + verb.words.len(), names)
    {
        return Err(Need::new(
            Missing::Meaning,
            format!(
                "I can {word} whole pipelines or cameras, and take nothing out of one ({}). Its classes can be changed (\"only cars\", \"ignore bicycles\"); for another place or camera ask \
                 for a new watch and stop this one.",
                quoted(&part)
            ),
        ));
    }
    Ok(())
}

/// Refuses a request with words that no phrase has read.
fn refuse_unread(
    r: &Reader,
    asks: Asks,
    verb: &Verb,
    picks: &Picks,
    named: &[PipelineId],
    scene: &Scene,
) -> Result<(), Need> {
    let word = &verb.written;
    let rest = unread(r, verb.at, &picks.words);
    if rest.is_empty() {
        return Ok(());
    }
    let words: Vec<String> = rest.iter().map(|w| quoted(w)).collect();
    let text = format!(
        "I can {word} whole pipelines or cameras; I did not understand {}. {}",
        words.join(", "),
        instead(r, &rest, asks, (word, named), scene)
    );
    Err(Need::new(Missing::Meaning, text))
}

/// The pipelines that are meant, by their names or by their cameras.
fn targets(
    all: bool,
    named: Vec<PipelineId>,
    cameras: Cameras,
    verb: &Verb,
    scene: &Scene,
    notes: &mut Notes,
) -> Result<Vec<PipelineId>, Need> {
    match (all, named, cameras) {
        (true, named, Cameras::None | Cameras::All | Cameras::Unknown(_)) if named.is_empty() => {
            Ok(ids_of(scene))
        }
        (_, _, Cameras::All) => Ok(ids_of(scene)),
        (_, named, _) if !named.is_empty() => Ok(named),
        (_, _, Cameras::These(cameras)) => on_cameras(&cameras, verb, scene),
        (_, _, Cameras::Unknown(written)) => Err(names::no_such_camera(&written, scene)),
        _ => the_only_one(verb, scene, notes),
    }
}

fn on_cameras(cameras: &[SourceId], verb: &Verb, scene: &Scene) -> Result<Vec<PipelineId>, Need> {
    let on = |id: &SourceId| -> Vec<PipelineId> {
        let on = scene.pipelines.iter().filter(|p| p.spec.source == *id);
        on.map(|p| p.spec.id.clone()).collect()
    };
    let targets: Vec<PipelineId> = cameras.iter().flat_map(on).collect();
    if targets.is_empty() {
        let names: Vec<&str> = cameras.iter().map(|c| c.as_str()).collect();
        let text = format!(
            "Nothing runs on {}. Which pipeline shall I {}? {}",
            names.join(", "),
            verb.written,
            listed(scene)
        );
        return Err(Need::new(Missing::Pipeline, text).with(ids(scene)));
    }
    Ok(targets)
}

/// The only pipeline that may be meant where none is named.
fn the_only_one(verb: &Verb, scene: &Scene, notes: &mut Notes) -> Result<Vec<PipelineId>, Need> {
    let has_it = |p: &&Deployed| verb.ends_a_pause.is_none() || p.paused;
    let may_be: Vec<&Deployed> = scene.pipelines.iter().filter(has_it).collect();
    match may_be.as_slice() {
        [] => Ok(Vec::new()),
        [only] => {
            let paused = match verb.ends_a_pause.is_some() {
                true => " that is paused",
                false => "",
            };
            notes.assumed.push(format!(
                "The pipeline is {}, the only one{paused}.",
                only.spec.id
            ));
            Ok(vec![only.spec.id.clone()])
        }
        several => {
            let text = format!("Which one shall I {}? {}", verb.written, listed_of(several));
            let choices = several.iter().map(|p| p.spec.id.to_string()).collect();
            Err(Need::new(Missing::Pipeline, text).with(choices))
        }
    }
}

/// Refuses to end one rule of a pipeline.
fn refuse_a_rule(
    targets: &[PipelineId],
    scope: &Scope,
    is_named: bool,
    word: &str,
    scene: &Scene,
) -> Result<(), Need> {
    let has_several = |p: &Deployed| p.spec.rules.as_ref().is_some_and(|rules| rules.len() > 1);
    let a_rule = match scope.of_rules {
        Some(is_one) => {
            let mut pipelines = scene.pipelines.iter();
            is_named
                || (is_one && pipelines.any(|p| targets.contains(&p.spec.id) && has_several(p)))
        }
        None => false,
    };
    if a_rule {
        return Err(Need::new(
            Missing::Meaning,
            format!(
                "I can {word} whole pipelines, and no rule of one by itself. Name the pipeline without \"rule\" for all of it, or change its workflow and rules. {}",
                listed(scene)
            ),
        ));
    }
    Ok(())
}

/// The question which one is meant. Where some are left out, those may be meant too.
fn ask_which(targets: &[PipelineId], has_spared: bool, word: &str, scene: &Scene) -> Need {
    let meant = |p: &&Deployed| has_spared || targets.contains(&p.spec.id);
    let some: Vec<&Deployed> = scene.pipelines.iter().filter(meant).collect();
    let choices = some.iter().map(|p| p.spec.id.to_string()).collect();
    let text = format!(
        "I go by names, not by order, age or number. Which one shall I {word}? {}",
        listed_of(&some)
    );
    Need::new(Missing::Pipeline, text).with(choices)
}

/// Those of them that are paused: where none is there is no pause to end.
fn paused_of(targets: Vec<PipelineId>, scene: &Scene) -> Result<Vec<PipelineId>, Need> {
    let is_paused = |id: &&PipelineId| {
        let found = scene.pipelines.iter().find(|p| p.spec.id == **id);
        found.is_some_and(|p| p.paused)
    };
    let paused: Vec<PipelineId> = targets.iter().filter(is_paused).cloned().collect();
    if !paused.is_empty() {
        return Ok(paused);
    }
    let text = match targets.as_slice() {
        [one] => format!("{one} is not paused. Say \"stop {one}\" to end the watch itself."),
        _ => "Nothing is paused there, so there is no pause to end.".to_owned(),
    };
    Err(Need::new(Missing::Meaning, text))
}

/// What is to be taken out of a watch, where that is said: `remove the yard from the gate watch`.
/// `names`: where pipelines are named.
fn out_of_a_watch(r: &Reader, start: usize, names: &[usize]) -> Option<String> {
    let from = (start..r.tokens.len()).find(|i| r.any_word(*i) == "from")?;
    let is_watch = |i: usize| {
        let things = format!("{THINGS}|{WATCHES}");
        names.contains(&i) || things.split('|').any(|word| word == r.any_word(i))
    };
    let of_a_watch = (from + 1..r.tokens.len()).any(is_watch);
    let is_part = !(start..from).any(is_watch) && start < from;
    (of_a_watch && is_part).then(|| r.written(start..from))
}

/// What a request says of which of several it means.
#[derive(Debug, Default)]
struct Picks {
    /// Where these words stand.
    words: Vec<usize>,
    /// Whether one of them means more than any one that there is.
    of_one: bool,
    /// Whether they pick something of a pipeline that is named, such as `the first alert of` it.
    of_its_own: bool,
}

impl Picks {
    fn any(&self) -> bool {
        !self.words.is_empty()
    }
}

/// The words that pick some of several. `names`: where pipelines are named.
fn picks(r: &Reader, names: &[usize]) -> Picks {
    let mut found = Picks::default();
    for i in 0..r.tokens.len() {
        let word = r.word(i);
        let of_one = PICKS.contains(&word);
        if !of_one && !ANY_ONE.contains(&word) {
            continue;
        }
        found.words.push(i);
        found.of_one |= of_one;
        let little = |i: &usize| matches!(r.any_word(*i), "of" | "the" | "my" | "our" | "its");
        let next = (i + 1..r.tokens.len()).find(|i| !little(i));
        found.of_its_own |= of_one
            && next.is_some_and(|next| {
                names.contains(&next)
                    || TELLS.split('|').any(|tells| r.any_word(next) == tells)
                    || matches!(r.any_word(next), "rule" | "rules")
            });
    }
    found
}

/// Whether a `one` stands for the watch that is named before it: `all but the safe one`.
fn stands_for_its_name(r: &Reader, at: usize) -> bool {
    let is_name = |i: &usize| r.word(*i).is_empty() && r.any_word(*i) != "the";
    let name = (0..at).rev().take_while(is_name).last();
    let before = name.and_then(|first| first.checked_sub(1));
    before.is_some_and(|before| r.any_word(before) == "the")
}

/// The words that nothing here reads, together where they stand together.
fn unread(r: &Reader, verb_at: usize, picks: &[usize]) -> Vec<String> {
    let is_read = |i: usize| {
        let word = r.word(i);
        let is_mark = r.tokens.get(i).is_some_and(|t| t.kind == Kind::Mark);
        word.is_empty()
            || is_mark
            || picks.contains(&i)
            || SAYS_NOTHING.contains(&word)
            || OF_ALL.contains(&word)
            || (i < verb_at && word != "no" && POLITE.contains(&word))
    };
    let mut rest: Vec<String> = Vec::new();
    let mut at = 0;
    while at < r.tokens.len() {
        let end = (at..r.tokens.len())
            .find(|i| is_read(*i))
            .unwrap_or(r.tokens.len());
        if end > at {
            rest.push(r.written(at..end));
        }
        at = end + 1;
    }
    rest
}

/// Of what is meant, only what counts or only what tells, where that was said: a watch that tells
/// is not ended with the counting.
fn of_a_kind(
    targets: Vec<PipelineId>,
    counts: Option<bool>,
    is_clear: bool,
    word: &str,
    scene: &Scene,
) -> Result<Vec<PipelineId>, Need> {
    let Some(counts) = counts else {
        return Ok(targets);
    };
    let only_counts = |id: &PipelineId| {
        let found = scene.pipelines.iter().find(|p| p.spec.id == *id);
        found.is_some_and(|p| p.spec.rules.as_ref().is_some_and(Vec::is_empty))
    };
    let of_it: Vec<PipelineId> = targets
        .iter()
        .filter(|id| only_counts(id) == counts)
        .cloned()
        .collect();
    if !of_it.is_empty() {
        return Ok(of_it);
    }
    // `the gate counter`, and the name of a pipeline, mean a watch.
    if is_clear && targets.len() == 1 {
        return Ok(targets);
    }
    let some: Vec<&Deployed> = scene
        .pipelines
        .iter()
        .filter(|p| targets.contains(&p.spec.id))
        .collect();
    let what = match counts {
        true => "only counts: each of these tells of events too, and would end with it",
        false => "tells of events: each of these only counts",
    };
    let choices = targets.iter().map(ToString::to_string).collect();
    Err(Need::new(
        Missing::Pipeline,
        format!(
            "There is none that {what}. Which one shall I {word} as a whole? {}",
            listed_of(&some)
        ),
    )
    .with(choices))
}

/// The pipelines that are not meant by `all but the yard`; their words are used then.
fn spared(r: &mut Reader, scene: &Scene, lexicon: &Lexicon) -> Vec<PipelineId> {
    let Some(found) = r.find(&[
        "all|everything|every of? the? pipelines|pipeline|watches|watch|cameras|camera|alerts? off|down? but|except|excluding for|not?",
    ]) else {
        return Vec::new();
    };
    let mut later = r.clone();
    later.mark(0..found.at.end);
    let mut spared = names::pipelines(&mut later, scene);
    if spared.is_empty()
        && let Cameras::These(on) = names::cameras(&mut later, scene, lexicon)
    {
        let there = scene
            .pipelines
            .iter()
            .filter(|p| on.contains(&p.spec.source));
        spared = there.map(|p| p.spec.id.clone()).collect();
    }
    if !spared.is_empty() {
        r.mark(found.at.clone());
        for i in found.at.end..r.tokens.len() {
            if later.word(i).is_empty() {
                r.mark(i..i + 1);
            }
        }
    }
    spared
}
