//! What a request looks for: classes of one model.
//!
//! - The model knows every class.
//! - The classes are one list; a separate one stays unread, because a watch has one list.

use std::collections::BTreeSet;

use watchkeeper_english::several;

use super::parts::Parts;
use crate::answer::Missing;
use crate::lexicon::{Polarity, folded};
use crate::names::{self, Mention};
use crate::new_watch::Objects;
use crate::reader::{Reader, Slot, one_of};
use crate::refusal::{Notes, Refusal};
use crate::scene::{Model, Scene, quoted};

/// Reads the classes that a request names as one list, and those that it leaves out.
///
/// - `numbered`: a number of them was said, which is one of all of them: `3 cars or trucks`.
/// - `waits`: they are part of a condition, where `and` and `all` say more than a list.
pub(crate) fn one_list(r: &mut Reader<'_>, numbered: bool, waits: bool) -> Vec<Mention> {
    const LINKS: &str = "and|or|nor|,|/|&";
    const ARTICLES: &str = "a|an|any|the|some|no|not|other";
    let mut kept: Vec<Mention> = Vec::new();
    let mut last: Option<usize> = None;
    for mention in names::find_classes(r) {
        if matches!(mention.polarity, Polarity::Excluded | Polarity::Missing) {
            // `except cats and dogs`
            if let Some(before) = kept.last().filter(|m| m.polarity == mention.polarity) {
                let between = before.at.end..mention.at.start;
                if between.clone().all(|i| r.is(i, LINKS)) {
                    r.set_slot(between, Slot::Class);
                }
            }
            kept.push(mention);
            continue;
        }
        // No rule reports what all of them do together.
        if waits && one_of("everybody|everyone|everything", &mention.said) {
            continue;
        }
        let linked = |end: usize| {
            let between = end..mention.at.start;
            !between.is_empty()
                // `vehicles, cars only`
                && (r.word(mention.at.end) != "only" || r.before(mention.at.start) != ",")
                && between.clone().any(|i| r.is(i, LINKS))
                && between.clone().all(|i| {
                    let word = r.word(i);
                    // `horses too, not only people`
                    let is_read = r.slot_of(i) == Slot::Other;
                    is_read || one_of(LINKS, word) || (!numbered && one_of(ARTICLES, word))
                })
                // `a dog and no person` is not a list of what is not there.
                && kept.iter().any(Mention::is_none) >= mention.is_none()
                // No rule reports that both are there.
                && (!waits
                    || kept.iter().any(Mention::is_none)
                    || !between.clone().any(|i| r.word(i) == "and"))
        };
        match last {
            Some(end) if !linked(end) => continue,
            Some(end) => {
                let at = end..mention.at.start;
                r.set_slot(at, Slot::Class);
            }
            None => {}
        }
        last = Some(mention.at.end);
        kept.push(mention);
    }
    r.slot = Slot::Class;
    names::mark_classes(r, &kept);
    kept
}

/// The objects, and the model that knows them.
pub(super) fn objects(
    parts: &Parts,
    scene: &Scene,
    notes: &mut Notes,
) -> Result<(String, Objects), Refusal> {
    let Some(first) = scene.models.first() else {
        return Err(no_model());
    };
    let mentions = &parts.mentions;
    let is_person =
        |m: &Mention| m.polarity == Polarity::Wanted && m.labels.as_slice() == ["person"];
    if parts.acts.parks && mentions.iter().any(is_person) {
        let question = "What parks is a vehicle. Say which, such as \"a car\" or \"vehicles\".";
        return Err(Refusal::meaning(question));
    }
    notes.assumed.extend(names::substitutions(mentions));
    let (excluded, wanted): (Vec<&Mention>, Vec<&Mention>) = mentions
        .iter()
        .partition(|m| m.polarity == Polarity::Excluded);
    if wanted.is_empty() && excluded.is_empty() {
        return unnamed(parts, scene, notes);
    }
    if first.labels.is_empty() && scene.models.len() == 1 {
        notes.assume(tells_none_apart(first));
        return Ok((first.name.clone(), Objects::anything()));
    }
    let is_anything = excluded.is_empty() && wanted.iter().any(|m| m.labels.is_empty());
    let said = match is_anything {
        true => "anything".to_owned(),
        false => dedup(wanted.iter().map(|m| m.said.clone()).collect()).join(" or "),
    };
    let is_movement = |m: &&Mention| one_of("movement|motion", &m.said);
    let moves = is_anything && (parts.acts.motion || wanted.iter().any(is_movement));
    // A network sees what stands there too, and no movement of what it does not know.
    let mut models = scene.models.iter();
    let model = match models.find(|model| moves && model.labels.is_empty()) {
        Some(detector) => detector,
        None => model_for(mentions, scene)?,
    };
    if is_anything {
        notes.assume(match model.labels.is_empty() {
            true => tells_none_apart(model),
            false => format!(
                "Anything is what the model {} knows: what it has no class for is not seen.",
                model.name
            ),
        });
    }
    let objects = chosen(model, &wanted, &excluded, said)?;
    Ok((model.name.clone(), objects))
}

/// Whether classes are said to be the only ones: `only cars`, `cars only`.
pub(crate) fn are_only_these(r: &Reader<'_>, mentions: &[Mention]) -> bool {
    mentions.iter().any(|m| {
        let mut before = (0..m.at.start).rev();
        let before = before.find(|i| {
            !r.is(
                *i,
                "the|a|an|for|about|of|look|watch|tell|notify|alert|me|us",
            )
        });
        m.polarity == Polarity::Wanted
            && (before.is_some_and(|i| r.is_free(i, "only|just")) || r.word(m.at.end) == "only")
    })
}

/// Returns the objects of a model that are wanted, without those that are left out.
fn chosen(
    model: &Model,
    wanted: &[&Mention],
    excluded: &[&Mention],
    mut said: String,
) -> Result<Objects, Refusal> {
    let all = wanted.is_empty() || wanted.iter().any(|m| m.labels.is_empty());
    let base = model.labels.iter().filter(|_| all && !excluded.is_empty());
    let wanted = if all { &[] } else { wanted };
    let (labels, left_out) = labels(model, base.cloned().collect(), wanted, excluded)?;
    if !left_out.is_empty() {
        let left_out = several(&left_out.join(" or "));
        said = format!(
            "{} but not {left_out}",
            if all { "anything" } else { &said }
        );
    }
    Ok(Objects { labels, said })
}

/// Returns labels of a model, `base` and those that are wanted, without those that are left out,
/// and these.
pub(crate) fn labels(
    model: &Model,
    base: Vec<String>,
    wanted: &[&Mention],
    excluded: &[&Mention],
) -> Result<(Vec<String>, Vec<String>), Refusal> {
    let wanted = wanted.iter().flat_map(|m| pick(model, m));
    let mut labels = dedup(base.into_iter().chain(wanted).collect());
    let left_out: Vec<String> = excluded.iter().flat_map(|m| pick(model, m)).collect();
    labels.retain(|label| !left_out.contains(label));
    match labels.is_empty() && !left_out.is_empty() {
        true => Err(Refusal::new(
            Missing::Class,
            "Nothing is left to watch for: all that was named is left out too. What shall be watched for?",
        )),
        false => Ok((labels, left_out)),
    }
}

fn no_model() -> Refusal {
    Refusal::new(
        Missing::Class,
        "There is no model to look with. Add one, then ask again.",
    )
}

/// Refuses a word that says too little.
pub(super) fn refuse_vague(r: &Reader<'_>) -> Result<(), Refusal> {
    // `fewer than 3` and `fewer people than 3` are numbers.
    let is_number = |i: usize| r.is(i + 1, "than") || r.is(i + 2, "than");
    let is_vague = |i: &usize| r.lexicon.words.vague.contains(r.free_word(*i)) && !is_number(*i);
    let Some(vague) = r.positions().find(is_vague) else {
        return Ok(());
    };
    let more = r.remedy("vague").unwrap_or(
        "what shall be looked for, and what does it do? Say for example \"a person enters at night\".",
    );
    let said = quoted(&r.written(vague..vague + 1));
    Err(Refusal::meaning(format!("{said} says too little: {more}")))
}

const WHAT_TO_WATCH_FOR: &str =
    "What shall be watched for? Say for example \"people\", \"vehicles\" or \"anything\".";
const WHO_IS_THERE: &str = "Who or what shall be there, or not? Say it in the whole request, such as \"tell me when no people are in the canteen for 10 minutes\".";

/// The objects of a request that names none: those that its place usually holds, or people where
/// only they do what is said.
fn unnamed(parts: &Parts, scene: &Scene, notes: &mut Notes) -> Result<(String, Objects), Refusal> {
    let person = ["person".to_owned()];
    let labels = match &parts.usual {
        // Loitering and queueing is what people do.
        _ if parts.acts.people => &person[..],
        Some(usual) if parts.acts.tell_who() => usual.as_slice(),
        _ if parts.acts.tell_who() => return Err(Refusal::meaning(WHO_IS_THERE)),
        _ => return Err(Refusal::new(Missing::Class, WHAT_TO_WATCH_FOR)),
    };
    // The first model that knows one of them, and those that it knows.
    let known = |m: &&Model| labels.iter().any(|l| m.labels.contains(l));
    let model = scene.models.iter().find(known).or(scene.models.first());
    let model = model.ok_or_else(no_model)?;
    let mut labels = labels.to_vec();
    labels.retain(|l| model.labels.contains(l));
    let mut objects = Objects::anything();
    if !labels.is_empty() {
        (objects.said, objects.labels) = (labels.join(" or "), labels);
    }
    notes.assume(match model.labels.is_empty() {
        true => tells_none_apart(model),
        false => format!("Who or what was not said: {}.", objects.said),
    });
    Ok((model.name.clone(), objects))
}

/// The labels of a model that are meant.
pub(crate) fn pick(model: &Model, mention: &Mention) -> Vec<String> {
    let has = |label: &&String| mention.labels.iter().any(|l| folded(l) == folded(label));
    model.labels.iter().filter(has).cloned().collect()
}

/// The first model that knows all that is named.
fn model_for<'s>(mentions: &[Mention], scene: &'s Scene) -> Result<&'s Model, Refusal> {
    let knows = |model: &&Model| {
        let mut named = mentions.iter().filter(|m| !m.labels.is_empty());
        named.all(|m| !pick(model, m).is_empty())
    };
    if let Some(model) = scene.models.iter().find(knows) {
        return Ok(model);
    }
    let missing = mentions.iter().find(|m| {
        !m.labels.is_empty() && scene.models.iter().all(|model| pick(model, m).is_empty())
    });
    Err(match missing {
        Some(unknown) => {
            let text = format!(
                "{} can't be watched for: no model here ({}) knows it. Ask \"what objects can you detect\" for what can.",
                quoted(unknown.written()),
                scene.model_names(),
            );
            Refusal {
                about: Missing::KnownClass,
                choices: unknown.labels.clone(),
                ..Refusal::not_read(text, vec![unknown.written().to_owned()])
            }
        }
        None => Refusal::new(
            Missing::Class,
            "No single model knows all of these. Ask for them one at a time.",
        ),
    })
}

/// Remark about a model without classes.
fn tells_none_apart(model: &Model) -> String {
    format!(
        "The model {} has no classes: anything that moves counts.",
        model.name
    )
}

pub(crate) fn dedup(mut words: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words
}

/// Takes the words that say what everybody has to wear, and whether they stand there:
/// `everybody needs helmet and vest … somebody is missing one`.
pub(super) fn take_required(r: &mut Reader<'_>) -> bool {
    r.slot = Slot::Act;
    let required = r.take_all(&["@everybody_needs"]);
    if required {
        r.take_all(&["@somebody_lacks"]);
    }
    required
}

/// `without a helmet` and `helmet and vest mandatory` → the classes that stand for their absence.
/// Uses the words where a model has such classes.
pub(super) fn equipment(
    r: &mut Reader<'_>,
    mentions: Vec<Mention>,
    required: bool,
) -> Vec<Mention> {
    let missing = |m: &Mention| m.polarity == Polarity::Missing;
    if !required && !r.has(&["@required"]) && !mentions.iter().any(missing) {
        return mentions;
    }
    let labels: Vec<&String> = r.scene.models.iter().flat_map(|m| &m.labels).collect();
    let absence = |mention: &Mention| {
        let is_of = |label: &&&String| {
            let label = folded(label);
            let of = label.strip_prefix("no ").or(label.strip_prefix("without "));
            of.is_some_and(|of| mention.labels.iter().any(|l| folded(l) == of))
        };
        let absent = labels.iter().filter(is_of);
        let absent: Vec<String> = absent.map(|label| (*label).clone()).collect();
        (!absent.is_empty()).then(|| Mention {
            said: format!("no {}", mention.said),
            labels: absent,
            polarity: Polarity::Wanted,
            ..mention.clone()
        })
    };
    let turned: Vec<Mention> = mentions.iter().filter_map(absence).collect();
    if turned.is_empty() {
        // What no model sees missing stays unread.
        for mention in mentions.iter().filter(|m| required || missing(m)) {
            r.set_slot(mention.at.clone(), Slot::Free);
        }
        return mentions;
    }
    r.slot = Slot::Act;
    r.take_all(&["@required"]);
    turned
}
