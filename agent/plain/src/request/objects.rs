//! What a request looks for: classes of one model.
//!
//! - The model knows every class.
//! - A word that may be a class and that no model knows is asked about, never left out.

use super::acts::Acts;
use crate::answer::Missing;
use crate::intent::Objects;
use crate::lexicon::{Lexicon, folded};
use crate::names::{self, Mention, Stand};
use crate::need::{Need, Notes};
use crate::reader::Reader;
use crate::scene::{Model, Scene, quoted};
use crate::token::number_word;
use crate::weighty;

/// The objects, the model that knows them, and whether there are to be none of them.
pub(super) fn objects(
    r: &mut Reader,
    mentions: &[Mention],
    place: Option<&str>,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
    acts: &Acts,
) -> Result<(String, Objects, bool), Need> {
    let Some(first) = scene.models.first() else {
        return Err(no_model());
    };
    let mentions = missing_equipment(r, mentions, scene)?;
    let mentions = narrowed(r, who_parks(mentions, acts, lexicon));
    let none = mentions
        .iter()
        .any(|m| m.stand == Stand::None || m.is_nobody());
    let (excluded, wanted): (Vec<&Mention>, Vec<&Mention>) =
        mentions.iter().partition(|m| m.stand == Stand::Excluded);
    refuse_vague(r, &mentions, scene, lexicon)?;
    if wanted.is_empty() && excluded.is_empty() {
        return unnamed(r, place, scene, lexicon, notes, acts)
            .map(|(model, objects)| (model, objects, none));
    }
    if both(r, &wanted) {
        notes
            .assumed
            .push("Either of them counts, not only both together.".to_owned());
    }
    let name = |m: &&Mention| match m.stand == Stand::None && m.labels.is_empty() {
        // None of anything.
        true => "anything".to_owned(),
        false => m.said.to_lowercase(),
    };
    let said = dedup(wanted.iter().map(name).collect()).join(" or ");
    if first.labels.is_empty() && scene.models.len() == 1 {
        notes.assumed.push(tells_none_apart(first));
        return Ok((
            first.name.clone(),
            Objects {
                labels: Vec::new(),
                said: "anything".to_owned(),
            },
            none,
        ));
    }
    let or_anything = excluded.is_empty() && anything_besides(r, &wanted);
    let said = match or_anything {
        true => "anything".to_owned(),
        false => said,
    };
    let model = model_for(&mentions, scene, lexicon)?;
    let objects = chosen(model, &wanted, &excluded, or_anything, said)?;
    Ok((model.name.clone(), objects, none))
}

/// Returns the labels of a model that are wanted, without those that are left out.
fn chosen(
    model: &Model,
    wanted: &[&Mention],
    excluded: &[&Mention],
    or_anything: bool,
    mut said: String,
) -> Result<Objects, Need> {
    let all = or_anything || wanted.iter().all(|m| m.labels.is_empty());
    let mut labels: Vec<String> = if all && excluded.is_empty() {
        Vec::new()
    } else if all {
        model.labels.clone()
    } else {
        wanted.iter().flat_map(|m| pick(model, m)).collect()
    };
    let left_out: Vec<String> = excluded.iter().flat_map(|m| pick(model, m)).collect();
    labels.retain(|l| !left_out.contains(l));
    if !left_out.is_empty() {
        if labels.is_empty() {
            return Err(Need::new(
                Missing::Class,
                "Nothing is left to watch for. What shall be watched for?",
            ));
        }
        said = format!(
            "{} but not {}",
            if all { "anything" } else { &said },
            left_out.join(" or ")
        );
    }
    Ok(Objects {
        labels: dedup(labels),
        said,
    })
}

fn no_model() -> Need {
    Need::new(
        Missing::Class,
        "There is no model to look with. Add one, then ask again.",
    )
}

/// Refuses a word that says too little, and one that stands beside a class as if it were one.
fn refuse_vague(
    r: &Reader,
    mentions: &[Mention],
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<(), Need> {
    if let Some(vague) = (0..r.tokens.len()).find(|i| lexicon.is_vague(r.word(*i))) {
        let text = format!(
            "\"{}\" says too little: say what to look for and what it does, such as \"a person enters at night\".",
            r.written(vague..vague + 1)
        );
        return Err(Need::new(Missing::Meaning, text));
    }
    if let Some(unknown) = coordinated(r, mentions, lexicon) {
        // With what was named beside it an answer would be another request.
        let need = unknown_class(&unknown, scene, lexicon);
        let text = format!(
            "{} Say the request again without it.",
            need.text.replace(WHAT_INSTEAD, "")
        );
        return Err(Need::new(Missing::Meaning, text));
    }
    Ok(())
}

/// The objects of a request that names none: those that a place usually holds, or people.
fn unnamed(
    r: &Reader,
    place: Option<&str>,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
    acts: &Acts,
) -> Result<(String, Objects), Need> {
    let usual = (0..r.tokens.len()).find_map(|i| lexicon.occupants(r.any_word(i)));
    let person = ["person".to_owned()];
    // Loitering and queueing is what people do; so is being in a place without usual occupants.
    let labels = match usual {
        Some(usual) if !acts.people => usual,
        _ => &person[..],
    };
    if acts.empty || acts.occupied || acts.people {
        return occupants(labels, scene, notes);
    }
    let in_place =
        |word: &str| place.is_some_and(|p| p.to_lowercase().split(' ').any(|w| w == word));
    // A number, a time or a negation is no class: `No model here knows "two"` would be no answer.
    let is_class = |word: &str| {
        !weighty::is_weighty(word) && !weighty::is_unit(word) && number_word(word).is_none()
    };
    let strange = (0..r.tokens.len()).find(|i| {
        let word = r.word(*i);
        !word.is_empty()
            && r.tokens.get(*i).is_some_and(|t| t.is_word())
            && !lexicon.is_filler(word)
            && !in_place(word)
            && is_class(word)
    });
    if strange.is_none() {
        weighty::refuse(r)?;
    }
    Err(match strange {
        Some(i) => unknown_class(&r.written(i..i + 1), scene, lexicon),
        None => Need::new(
            Missing::Class,
            "What shall be watched for? Say for example \"people\", \"vehicles\" or \"anything\".",
        ),
    })
}

/// Returns the first model that knows one of the usual occupants, and those that it knows.
fn occupants(
    labels: &[String],
    scene: &Scene,
    notes: &mut Notes,
) -> Result<(String, Objects), Need> {
    let known = |m: &&Model| labels.iter().any(|l| m.labels.contains(l));
    let model = scene.models.iter().find(known).or(scene.models.first());
    let model = model.ok_or_else(no_model)?;
    let labels: Vec<String> = labels
        .iter()
        .filter(|l| model.labels.contains(l))
        .cloned()
        .collect();
    let said = match labels.as_slice() {
        [] => "anything".to_owned(),
        labels => labels.join(" or "),
    };
    notes.assumed.push(match model.labels.is_empty() {
        true => tells_none_apart(model),
        false => format!("Who or what was not said: {said}."),
    });
    Ok((model.name.clone(), Objects { labels, said }))
}

/// The labels of a model that are meant.
fn pick(model: &Model, mention: &Mention) -> Vec<String> {
    let has = |label: &&String| mention.labels.iter().any(|l| folded(l) == folded(label));
    model.labels.iter().filter(has).cloned().collect()
}

/// The first model that knows all that is named.
fn model_for<'s>(
    mentions: &[Mention],
    scene: &'s Scene,
    lexicon: &Lexicon,
) -> Result<&'s Model, Need> {
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
        Some(mention) => unknown_class(&mention.said, scene, lexicon),
        None => Need::new(
            Missing::Class,
            "No single model knows all of these. Ask for them one at a time.",
        ),
    })
}

/// What is said of a model without classes.
fn tells_none_apart(model: &Model) -> String {
    format!(
        "The model {} tells no classes apart: everything that moves counts.",
        model.name
    )
}

fn dedup(words: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}

/// `without a helmet` and `needs a helmet` → the class that stands for its absence, where a model
/// has one.
fn missing_equipment(
    r: &mut Reader,
    mentions: &[Mention],
    scene: &Scene,
) -> Result<Vec<Mention>, Need> {
    const REQUIRED: [&str; 1] =
        ["needs|need|must|required|mandatory|compulsory|missing|without wear|wearing?"];
    let required =
        r.find(&REQUIRED).is_some() || mentions.iter().any(|m| m.stand == Stand::Missing);
    if !required {
        return Ok(mentions.to_vec());
    }
    let labels: Vec<&String> = scene.models.iter().flat_map(|m| &m.labels).collect();
    let absent = |mention: &Mention| -> Vec<String> {
        let is_absence = |label: &&&String| {
            let label = folded(label);
            let of = label
                .strip_prefix("no ")
                .or_else(|| label.strip_prefix("without "));
            of.is_some_and(|of| mention.labels.iter().any(|l| folded(l) == of))
        };
        labels
            .iter()
            .filter(is_absence)
            .map(|l| (*l).clone())
            .collect()
    };
    let turned: Vec<Mention> = mentions
        .iter()
        .filter_map(|mention| {
            let labels = absent(mention);
            let said = format!("no {}", mention.said);
            (!labels.is_empty()).then(|| Mention {
                said,
                labels,
                stand: Stand::Wanted,
                ..mention.clone()
            })
        })
        .collect();
    if let Some(lost) = mentions
        .iter()
        .find(|m| m.stand == Stand::Missing && absent(m).is_empty())
    {
        return Err(Need::new(
            Missing::KnownClass,
            format!(
                "No model here sees that something is missing on somebody (\"without {}\"). What shall be watched for instead?",
                lost.said
            ),
        ));
    }
    if turned.is_empty() {
        return Ok(mentions.to_vec());
    }
    r.take_all(&REQUIRED);
    Ok(turned)
}

/// Whether one thing and another are named as if it took both: `a person and a dog`.
fn both(r: &Reader, wanted: &[&Mention]) -> bool {
    let one = |i: usize| matches!(r.any_word(i), "a" | "an");
    wanted.windows(2).any(|pair| match pair {
        [a, b] => {
            a.at.start.checked_sub(1).is_some_and(one)
                && r.any_word(a.at.end) == "and"
                && one(a.at.end + 1)
                && b.at.start == a.at.end + 2
        }
        _ => false,
    })
}

/// Whether anything counts besides a class that is named: `a person or something`,
/// `nobody and nothing`.
fn anything_besides(r: &Reader, wanted: &[&Mention]) -> bool {
    wanted.windows(2).any(|pair| match pair {
        [a, b] => {
            let joined = |word: &str| (a.at.end..b.at.start).any(|i| r.any_word(i) == word);
            let none = |m: &Mention| m.stand == Stand::None || m.is_nobody();
            (a.labels.is_empty() != b.labels.is_empty())
                && (joined("or") || joined("nor") || (none(a) && none(b) && joined("and")))
        }
        _ => false,
    })
}

/// Who parks is a vehicle: `somebody parks in the bay`. Where one is named it is that one.
fn who_parks(mut mentions: Vec<Mention>, acts: &Acts, lexicon: &Lexicon) -> Vec<Mention> {
    let vehicles = lexicon.class("vehicle").unwrap_or_default();
    if !acts.parks {
        return mentions;
    }
    let drives = |m: &Mention| m.labels.iter().any(|l| vehicles.contains(l));
    let is_person = |m: &Mention| m.stand == Stand::Wanted && m.labels.as_slice() == ["person"];
    if mentions.iter().any(drives) {
        mentions.retain(|m| !is_person(m));
    } else {
        for mention in mentions.iter_mut().filter(|m| is_person(m)) {
            mention.labels = vehicles.to_vec();
            mention.said = "vehicle".to_owned();
        }
    }
    mentions
}

/// `vehicles, cars only`: what is said to be the only one narrows what has it among others.
fn narrowed(r: &Reader, mentions: Vec<Mention>) -> Vec<Mention> {
    let only = |m: &&Mention| m.stand == Stand::Wanted && r.any_word(m.at.end) == "only";
    let all: Vec<Mention> = mentions.iter().filter(only).cloned().collect();
    let has_it = |m: &Mention| {
        m.stand == Stand::Wanted
            && all.iter().any(|o| {
                o.labels.len() < m.labels.len() && o.labels.iter().all(|l| m.labels.contains(l))
            })
    };
    mentions.iter().filter(|m| !has_it(m)).cloned().collect()
}

/// A word that stands beside a class as if it were one: `a dog or a forklift`.
fn coordinated(r: &Reader, mentions: &[Mention], lexicon: &Lexicon) -> Option<String> {
    let strange = |at: usize| {
        let word = r.word(at);
        let is_word = r.tokens.get(at).is_some_and(|t| t.is_word());
        is_word && !word.is_empty() && !lexicon.is_filler(word)
    };
    let article = |at: usize| matches!(r.any_word(at), "a" | "an");
    let joins = |at: usize| matches!(r.any_word(at), "or" | "and");
    mentions.iter().find_map(|mention| {
        let at = mention.at.end;
        let next = at + 1 + usize::from(article(at + 1));
        if joins(at) && strange(next) {
            return Some(r.written(next..next + 1));
        }
        // `a forklift or a dog`
        let start = mention.at.start;
        let or = start.checked_sub(1 + usize::from(start > 0 && article(start - 1)))?;
        let before = or.checked_sub(1)?;
        let first = before.checked_sub(1)?;
        (joins(or) && strange(before) && article(first)).then(|| r.written(before..or))
    })
}

/// What is asked where a class is not known.
const WHAT_INSTEAD: &str = " What shall be watched for?";

fn unknown_class(written: &str, scene: &Scene, lexicon: &Lexicon) -> Need {
    let near = names::nearest_class(&written.to_lowercase(), scene, lexicon);
    let hint = near
        .as_ref()
        .map(|n| format!(" Did you mean \"{n}\"?"))
        .unwrap_or_default();
    let models: Vec<&str> = scene.models.iter().map(|m| m.name.as_str()).collect();
    let text = format!(
        "No model here ({}) knows {}.{hint}{WHAT_INSTEAD} Ask \"what objects can you detect\" for all classes.",
        models.join(", "),
        quoted(written)
    );
    // The user corrects a misspelt word.
    let about = match near {
        Some(_) => Missing::Class,
        None => Missing::KnownClass,
    };
    Need::new(about, text).with(near.into_iter().collect())
}
