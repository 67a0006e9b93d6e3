//! Names in a request: cameras, places, pipelines and classes that the caller knows.
//!
//! - A name is looked for in the user's words and never read itself.
//! - A name that is also an everyday word counts only beside the word `camera`. So no name takes a
//!   verb or an article away from a request.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_english::{number_word, singulars};

use crate::lexicon::{LONGEST, Lexicon, Stand, folded};
use crate::reader::{Reader, one_of};
use crate::scene::{Camera, Deployed, Place, Shape, quoted};
use crate::token::Kind;

impl Reader<'_> {
    /// End of a folded name that begins here, if it does.
    pub(crate) fn name_at(&self, name: &str, at: usize) -> Option<usize> {
        let mut wanted = name.split(' ').filter(|p| !p.is_empty()).peekable();
        wanted.peek()?;
        let mut end = at;
        while wanted.peek().is_some() {
            if self.word(end).is_empty() {
                return None;
            }
            for part in self.tokens.get(end)?.parts() {
                if wanted.next() != Some(part) {
                    return None;
                }
            }
            end += 1;
        }
        Some(end)
    }

    /// The positions of a folded name.
    pub(crate) fn spots_of<'r>(&'r self, name: &'r str) -> impl Iterator<Item = Range<usize>> + 'r {
        (0..self.tokens.len()).filter_map(move |at| Some(at..self.name_at(name, at)?))
    }
}

/// The verbs of requests, by their lists.
pub(crate) const VERBS: [&str; 7] = [
    "@watch", "@count", "@delete", "@stop", "@pause", "@resume", "@change",
];

/// Words that mean a pipeline.
pub(crate) const WATCHES: &str = "watch|watches|alarm|alarms|pipeline|pipelines|rule|monitoring";

/// Whether a word means something by itself, so that a name made of it needs the word `camera` next
/// to it.
fn everyday(name: &str, lexicon: &Lexicon) -> bool {
    let is_common = |word: &str| {
        lexicon.is_everyday(word)
            || lexicon.words.anything.contains(word)
            || number_word(word).is_some()
            || word.parse::<f64>().is_ok()
    };
    let is_verb = |word: &str| {
        let mut verbs = VERBS.iter().flat_map(|list| lexicon.expand(list));
        verbs.any(|verb| verb.split(' ').next() == Some(word))
    };
    name.chars().count() < 2 || name.split(' ').all(is_common) || name.split(' ').any(is_verb)
}

/// The known camera whose name begins here, the longest name first.
fn camera_names(reader: &Reader<'_>, at: usize) -> Option<(Range<usize>, SourceId)> {
    let names = reader.scene.cameras.iter().flat_map(|camera| {
        let names = [camera.id.as_str(), &camera.name];
        names.map(|name| (folded(name), &camera.id))
    });
    let named = names.filter_map(|(name, id)| {
        let words = at..reader.name_at(&name, at)?;
        is_camera(reader, &name, &words).then_some((words, id))
    });
    let (words, id) = named.min_by_key(|(words, _)| Reverse(words.end))?;
    Some((words, id.clone()))
}

/// Whether these words, a camera's name, mean the camera.
fn is_camera(reader: &Reader<'_>, name: &str, words: &Range<usize>) -> bool {
    let beside = |word: &str| one_of("camera|cam", word);
    let named = beside(reader.before(words.start)) || beside(reader.any_word(words.end));
    // `the parking bay` is a separate place where a camera is called Parking.
    let next = reader.word(words.end);
    let of_place = || {
        reader.lexicon.words.places.contains(next)
            && !one_of("area|zone|region|side|corner|counter", next)
            && !name.contains(' ')
    };
    let is_class = || mention_at(reader, words.start).is_some_and(|class| class.at == *words);
    let is_usual = || everyday(name, reader.lexicon) || of_place() || is_class();
    (named || !is_usual()) && !begins_line(reader, words)
}

/// Whether these words are only the begin of a line's name: `the street line` of a street.
fn begins_line(reader: &Reader<'_>, words: &Range<usize>) -> bool {
    let places = reader.scene.cameras.iter().flat_map(|c| &c.places);
    let mut lines = places.filter(|place| matches!(place.shape, Shape::Line(..)));
    lines.any(|line| {
        let end = reader.name_at(&folded(&line.name), words.start);
        end.is_some_and(|end| end > words.end)
    })
}

/// Whether a camera's name begins here, perhaps after an article.
pub(crate) fn camera_at(reader: &Reader<'_>, at: usize) -> bool {
    let skip = at + usize::from(one_of("the|my|our|camera", reader.word(at)));
    [at, skip]
        .iter()
        .any(|i| camera_names(reader, *i).is_some())
}

/// The cameras that are named, in the order in which they are, and where.
pub(crate) fn camera_spots(reader: &Reader<'_>) -> Vec<(Range<usize>, SourceId)> {
    in_order(reader, |at| {
        let (words, camera) = camera_names(reader, at)?;
        Some((words.end, (words, camera)))
    })
}

/// What `read` finds from the first word on, each behind the end of the one before.
fn in_order<T>(reader: &Reader<'_>, read: impl Fn(usize) -> Option<(usize, T)>) -> Vec<T> {
    let mut next = 0;
    let found = (0..reader.tokens.len()).filter_map(|at| {
        let (end, found) = (at >= next).then(|| read(at))??;
        next = end;
        Some(found)
    });
    found.collect()
}

/// Whether a camera is named anywhere.
pub(crate) fn mentions_camera(reader: &Reader<'_>) -> bool {
    !camera_spots(reader).is_empty()
}

/// Reads the cameras that a request names, or all, and uses their words and those around them.
pub(crate) fn cameras(reader: &mut Reader<'_>) -> Vec<SourceId> {
    let all = reader.scene.cameras.iter().map(|camera| &camera.id);
    let found = reader.find(&["@all_of_them", "@all_cameras"]);
    // Which two of several "both" means is not known, so it stays unread.
    let is_meant =
        |at: &Range<usize>| all.len() == 2 || !{ at.clone() }.any(|i| reader.any_word(i) == "both");
    match found.map(|found| found.at).filter(is_meant) {
        Some(at) => {
            let all = all.cloned().collect();
            reader.mark(at);
            all
        }
        None => take_named_cameras(reader),
    }
}

/// Words between two cameras that are one list of them.
const LIST: &str = "and|or|&|+|,|/|(|)|the|my|our|at|on|in|near|by|for|from|camera|cam|cameras|both|either|also|as|well|plus|watch|alarm";

/// Takes the names of known cameras as one list, in their order in the text. A separate camera
/// stays unread, because other things may be wanted of it.
fn take_named_cameras(reader: &mut Reader<'_>) -> Vec<SourceId> {
    const BEHIND: &str = "camera|cam|cameras|video|recording|footage|feed|stream";
    const BEFORE: &str = "camera|cam|the|on|at|my|our|from|in";
    let mut found: Vec<SourceId> = Vec::new();
    let (mut last, mut is_apart) = (None, false);
    for (Range { mut start, mut end }, camera) in camera_spots(reader) {
        let between = last.unwrap_or(start)..start;
        is_apart |= !{ between.clone() }.all(|i| one_of(LIST, reader.any_word(i)));
        let name = start;
        last = Some(end);
        while one_of(BEHIND, reader.word(end)) {
            end += 1;
        }
        while start > 0 && one_of(BEFORE, reader.word(start - 1)) {
            start -= 1;
        }
        if is_apart {
            reader.mark(start..name);
            continue;
        }
        reader.mark(start..end);
        for i in between {
            if !reader.word(i).is_empty() {
                reader.mark(i..i + 1);
            }
        }
        if !found.contains(&camera) {
            found.push(camera);
        }
    }
    found
}

/// The named place that a sentence is about, the longest name first. One with the name of a class
/// is meant only where `is_meant` holds.
pub(crate) fn known_place<'s>(
    reader: &mut Reader<'_>,
    cameras: &[&'s Camera],
    is_meant: fn(&Reader<'_>, usize) -> bool,
) -> Option<(&'s Camera, &'s Place)> {
    let places = cameras
        .iter()
        .flat_map(|c| c.places.iter().map(move |p| (*c, p)));
    let found = places.filter_map(|(camera, place)| {
        let name = folded(&place.name);
        let is_class = reader.labels.iter().any(|(label, _)| *label == name);
        let mut spots = reader.spots_of(&name);
        let at = spots.find(|at| !is_class || is_meant(reader, at.start))?;
        Some((at, camera, place))
    });
    let (at, camera, place) = found.max_by_key(|(at, ..)| at.len())?;
    let start = at.start - usize::from(at.start > 0 && one_of("the", reader.word(at.start - 1)));
    // `the pool area`
    let end = at.end + usize::from(one_of("area|zone|region", reader.word(at.end)));
    reader.mark(start..end);
    Some((camera, place))
}

/// Whether a word for a known one is before `at`: `was the bench empty`.
pub(crate) fn is_known(reader: &Reader<'_>, at: usize) -> bool {
    one_of("the|my|our", reader.before(at))
}

/// Whether a preposition and such a word are before `at`: `on the bench`.
pub(crate) fn is_where(reader: &Reader<'_>, at: usize) -> bool {
    let where_words = "at|in|inside|into|on|onto|around|enters|leaves";
    is_known(reader, at) && one_of(where_words, reader.before(at - 1))
}

/// The place of this name on a camera.
pub(crate) fn place_on<'s>(camera: &'s Camera, name: &str) -> Option<&'s Place> {
    let name = folded(name);
    camera.places.iter().find(|p| folded(&p.name) == name)
}

/// The pipelines that a request names by id or by name, the longest name first. `nouns`: only those
/// with a word for a watch beside, or by a name of several words that no camera and place has.
pub(crate) fn pipelines(reader: &mut Reader<'_>, nouns: bool) -> Vec<PipelineId> {
    let scene = reader.scene;
    let names = scene.pipelines.iter().flat_map(|deployed| {
        let id = &deployed.spec.id;
        [id.as_str(), &deployed.name].map(|name| (folded(name), id))
    });
    let mut names: Vec<(String, &PipelineId)> = names.collect();
    names.retain(|(name, _)| name.chars().count() > 1);
    names.sort_by_key(|(name, _)| Reverse(name.chars().count()));
    let mut found = Vec::new();
    for (name, id) in names {
        let is_other = scene.cameras.iter().any(|camera| {
            let places = camera.places.iter().map(|place| &place.name);
            let mut others = places.chain([&camera.name]).map(|other| folded(other));
            folded(camera.id.as_str()) == name || others.any(|other| other == name)
        });
        let is_clear = !nouns || name.contains(' ') && !is_other;
        let at = reader.spots_of(&name).find_map(|at| {
            let noun = nouns && one_of(WATCHES, reader.word(at.end));
            let is_it = noun || is_clear || one_of(WATCHES, reader.before(at.start));
            is_it.then_some(at.start..at.end + usize::from(noun))
        });
        if let Some(at) = at {
            reader.mark(at);
            found.push(id);
        }
    }
    let ids = scene.pipelines.iter().map(|deployed| &deployed.spec.id);
    ids.filter(|id| found.contains(id)).cloned().collect()
}

/// The words of a class that stands for pipelines, and these: `the car watch`. `told`: the class is
/// what is no longer to be told, so they are those that report it, if none reports more.
pub(crate) fn pipelines_of_class(
    reader: &Reader<'_>,
    told: bool,
    cameras: &[SourceId],
) -> Option<(Range<usize>, Vec<PipelineId>)> {
    let is_meant = |m: &Mention| match told {
        true => m.narrower.is_none(),
        false => reader.fits(WATCHES, m.at.end).is_some(),
    };
    let mut classes = find_classes(reader).into_iter();
    let class = classes.find(|m| !m.labels.is_empty() && is_meant(m))?;
    let is_seen = |label: &String| class.labels.contains(label);
    let is_watched = |p: &&Deployed| {
        let is_there = cameras.is_empty() || cameras.contains(&p.spec.source);
        let reports_all = told && p.classes().is_empty();
        is_there && (p.makes_events() || !told) && (reports_all || p.classes().iter().any(is_seen))
    };
    let watches = reader.scene.pipelines.iter().filter(is_watched);
    let watches: Vec<&Deployed> = watches.collect();
    let is_only = |p: &&Deployed| !p.classes().is_empty() && p.classes().iter().all(is_seen);
    let ids = watches.iter().map(|p| p.spec.id.clone()).collect();
    (!told || watches.iter().all(is_only)).then_some((class.at, ids))
}

/// A class in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) at: Range<usize>,
    /// Its words, in lower case.
    pub(crate) said: String,
    /// Names that a model may have for it; empty: whatever is seen.
    pub(crate) labels: Vec<String>,
    /// As it was written, where the labels are of more than that: `burglar`, `my car`.
    pub(crate) narrower: Option<String>,
    pub(crate) stand: Stand,
}

impl Mention {
    /// Whether the word itself means absence: `nobody`, `nothing`.
    pub(crate) fn is_nobody(&self) -> bool {
        one_of("nobody|no one|noone|no-one|nothing", &self.said)
    }

    /// Whether there is to be none of it.
    pub(crate) fn is_none(&self) -> bool {
        self.stand == Stand::None || self.is_nobody()
    }
}

/// Word for an empty list.
const NOTHING: &str = "nothing";

/// Words that make a place of the class before them.
const PLACES: &str = "area|zone|lane|path|walkway|entrance|exit|door|park|lot|bay|bays|room|rack|station|shelter|shed|stable|wash|corridor|ramp";

fn mention_at(reader: &Reader<'_>, at: usize) -> Option<Mention> {
    (1..=LONGEST)
        .rev()
        .find_map(|len| mention_of(reader, at..at + len))
}

/// The class that these words name.
fn mention_of(reader: &Reader<'_>, at: Range<usize>) -> Option<Mention> {
    let words: Vec<&str> = at.clone().map(|i| reader.word(i)).collect();
    // A mark is not a part of a name, though names are compared without.
    let is_mark = |i: usize| reader.tokens.get(i).is_some_and(|t| t.kind == Kind::Mark);
    if words.contains(&"") || is_mark(at.start) || is_mark(at.end - 1) {
        return None;
    }
    let text = folded(&words.join(" "));
    let next = reader.any_word(at.end);
    // `nothing but cars` is not that nothing is there.
    let is_but = text == NOTHING && one_of("but|except|besides|other|apart|else|more", next);
    // The pedestrian area is a place.
    if is_but || one_of(PLACES, reader.word(at.end)) {
        return None;
    }
    let forms: Vec<String> = singulars(&text).collect();
    let labels = reader
        .labels
        .iter()
        .filter(|(label, _)| forms.contains(label));
    let mut labels: Vec<String> = labels.map(|(_, label)| (*label).clone()).collect();
    let (of_word, is_narrower) = reader.lexicon.class(&text).unwrap_or_default();
    let is_owned = at.start > 0 && one_of(OWNERS, reader.before(at.start));
    let is_narrower = is_owned || labels.is_empty() && is_narrower;
    labels.extend_from_slice(of_word);
    let mut seen = BTreeSet::new();
    labels.retain(|label| seen.insert(label.clone()));
    let is_anything = reader.lexicon.words.anything.contains(&text);
    if labels.is_empty() && !is_anything {
        return None;
    }
    let written = || reader.written(at.start - usize::from(is_owned)..at.end);
    Some(Mention {
        said: words.join(" "),
        narrower: (is_narrower && !is_anything).then(written),
        labels: if is_anything { Vec::new() } else { labels },
        stand: stand(reader, at.clone()).0,
        at,
    })
}

/// Words that make a class one object of somebody's.
const OWNERS: &str = "my|our|your|his|her|their";

/// A sentence for each mention that no label distinguishes from others of its class.
pub(crate) fn substitutions(mentions: &[Mention]) -> impl Iterator<Item = String> {
    mentions.iter().filter_map(|mention| {
        let class = mention.labels.join(" or ");
        let said = quoted(mention.narrower.as_ref()?);
        Some(format!(
            "I can't tell {said} from any other {class}: every {class} counts."
        ))
    })
}

/// Words between the preposition and the class.
const ARTICLES: &str = "a|an|any|the|for|his|their";

/// Form of a class, and the words for it.
fn stand(reader: &Reader<'_>, class: Range<usize>) -> (Stand, Range<usize>) {
    if let Some(words) = reader.fits("@left_out_behind", class.end) {
        return (Stand::Excluded, words.at);
    }
    let first = reader.any_word(class.start);
    if class.len() == 1 && first == NOTHING {
        return (Stand::None, 0..0);
    }
    let left_out = reader.lexicon.meanings.left_out.iter();
    let left_out = left_out.flat_map(|of| of.words.iter().map(|p| (p.as_str(), of.is)));
    let before = left_out.chain([("no", Stand::None)]);
    let found = { before }.find_map(|(words, stand)| {
        let pattern = format!("{words} {ARTICLES}? {ARTICLES}?");
        Some((stand, reader.ending(&pattern, class.start)?.at))
    });
    let Some((stand, words)) = found else {
        return (Stand::Wanted, 0..0);
    };
    // `there is not anybody`
    let is_any = first.starts_with("any") || reader.before(class.start) == "any";
    let is_not = reader.any_word(words.start) == "not";
    match is_not && is_any && !one_of("but|and|,", reader.before(words.start)) {
        true => (Stand::None, words),
        false => (stand, words),
    }
}

/// Whether a class is named here.
pub(crate) fn class_begins(reader: &Reader<'_>, at: usize) -> bool {
    mention_at(reader, at).is_some()
}

/// Whether a class is named anywhere.
pub(crate) fn mentions_class(reader: &Reader<'_>) -> bool {
    (0..reader.tokens.len()).any(|i| mention_at(reader, i).is_some())
}

/// The classes that a text names, in their order.
pub(crate) fn find_classes(reader: &Reader<'_>) -> Vec<Mention> {
    let mut found = in_order(reader, |at| {
        let mention = mention_at(reader, at)?;
        Some((mention.at.end, mention))
    });
    // `except cats and dogs`: a class next to one that is left out is left out too.
    for nth in 1..found.len() {
        let ([.., left_out], [mention, ..]) = found.split_at_mut(nth) else {
            continue;
        };
        if left_out.stand != Stand::Excluded {
            continue;
        }
        let mut between = left_out.at.end..mention.at.start;
        let but = reader.any_word(between.start) == "but" && between.len() == 1;
        if but && reader.before(left_out.at.start) == "not" {
            // `not cars but trucks`
            mention.stand = Stand::Wanted;
        } else if mention.stand == Stand::Wanted
            && between.all(|i| one_of("and|or|,|the|any", reader.any_word(i)))
        {
            mention.stand = Stand::Excluded;
        }
    }
    found
}

/// Marks the words of classes, and those that leave them out.
pub(crate) fn mark_classes(reader: &mut Reader<'_>, found: &[Mention]) {
    for mention in found {
        let (_, words) = stand(reader, mention.at.clone());
        reader.mark(words);
        reader.mark(mention.at.clone());
    }
}

/// The cameras as a sentence shows them.
pub(crate) fn listed<'s>(cameras: impl IntoIterator<Item = &'s Camera>) -> String {
    let names: Vec<String> = cameras.into_iter().map(shown).collect();
    names.join(", ")
}

/// A camera as a sentence shows it.
pub(crate) fn shown(camera: &Camera) -> String {
    match camera.name == camera.id.as_str() {
        true => camera.id.to_string(),
        false => format!("{} ({})", camera.id, quoted(&camera.name)),
    }
}
