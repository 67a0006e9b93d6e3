//! Names in a request: cameras, places, pipelines and classes that the caller knows.
//!
//! - A name is looked for in the user's words and never read itself.
//! - A name that is also an everyday word counts only beside the word `camera`. So no name takes a
//!   verb or an article away from a request.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_english::{is_several, number_word, several, singulars};

use crate::lexicon::{LONGEST, Lexicon, Polarity, WATCHES, folded};
use crate::reader::{Reader, one_of};
use crate::scene::{Camera, Deployed, Place, Shape, joined, quoted};
use crate::token::Kind;

impl Reader<'_> {
    /// End of a folded name that begins here, if it does.
    pub(crate) fn name_at(&self, name: &str, at: usize) -> Option<usize> {
        let mut wanted = name.split(' ').filter(|p| !p.is_empty()).peekable();
        wanted.peek()?;
        let mut end = at;
        while wanted.peek().is_some() {
            if self.is_taken(end) {
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
    pub(crate) fn positions_of(&self, name: &str) -> impl Iterator<Item = Range<usize>> {
        self.positions()
            .filter_map(move |at| Some(at..self.name_at(name, at)?))
    }
}

/// The verbs of requests, by their lists.
pub(crate) const VERBS: [&str; 7] = [
    "@watch", "@count", "@delete", "@stop", "@pause", "@resume", "@change",
];

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
fn camera_names(r: &Reader<'_>, at: usize) -> Option<(Range<usize>, SourceId)> {
    let names = r.scene.cameras.iter().flat_map(|camera| {
        let names = [camera.id.as_str(), &camera.name];
        names.map(|name| (folded(name), &camera.id))
    });
    let named = names.filter_map(|(name, id)| {
        let words = at..r.name_at(&name, at)?;
        is_camera(r, &name, &words).then_some((words, id))
    });
    let (words, id) = named.min_by_key(|(words, _)| Reverse(words.end))?;
    Some((words, id.clone()))
}

/// Whether these words, a camera's name, mean the camera.
fn is_camera(r: &Reader<'_>, name: &str, words: &Range<usize>) -> bool {
    let beside = |word: &str| one_of("camera|cam", word);
    let says_camera = words.len() > 1 && beside(r.word(words.start));
    let named = says_camera || beside(r.before(words.start)) || beside(r.word(words.end));
    // `the parking bay` is a separate place where a camera is called Parking.
    let next = r.free_word(words.end);
    let of_place = || {
        r.lexicon.words.places.contains(next)
            && !one_of("area|zone|region|side|corner|counter", next)
            && !name.contains(' ')
    };
    let is_class = || mention_at(r, words.start).is_some_and(|class| class.at == *words);
    // `at the bus stop`, but not `watch the bus stop`.
    let lead = || r.match_before("at|in|on|to|from|of|near|by the|my|our", words.start);
    let is_led = || words.len() > 1 && lead().is_some();
    let is_usual = || everyday(name, r.lexicon) && !is_led() || of_place() || is_class();
    (named || !is_usual()) && !begins_line(r, words)
}

/// Whether these words are only the begin of a line's name: `the street line` of a street.
fn begins_line(r: &Reader<'_>, words: &Range<usize>) -> bool {
    let places = r.scene.cameras.iter().flat_map(|c| &c.places);
    let mut lines = places.filter(|place| matches!(place.shape, Shape::Line(..)));
    lines.any(|line| {
        let end = r.name_at(&folded(&line.name), words.start);
        end.is_some_and(|end| end > words.end)
    })
}

/// Whether a camera's name begins here, perhaps after an article.
pub(crate) fn camera_at(r: &Reader<'_>, at: usize) -> bool {
    let skip = at + usize::from(r.is_free(at, "the|my|our|camera"));
    [at, skip].iter().any(|i| camera_names(r, *i).is_some())
}

/// The cameras that are named, in the order in which they are, and where.
pub(crate) fn camera_positions(r: &Reader<'_>) -> Vec<(Range<usize>, SourceId)> {
    in_order(r, |at| {
        let (words, camera) = camera_names(r, at)?;
        Some((words.end, (words, camera)))
    })
}

/// What `read` finds from the first word on, each behind the end of the one before.
fn in_order<T>(r: &Reader<'_>, read: impl Fn(usize) -> Option<(usize, T)>) -> Vec<T> {
    let mut next = 0;
    let found = r.positions().filter_map(|at| {
        let (end, found) = (at >= next).then(|| read(at))??;
        next = end;
        Some(found)
    });
    found.collect()
}

/// Whether a camera is named anywhere.
pub(crate) fn mentions_camera(r: &Reader<'_>) -> bool {
    !camera_positions(r).is_empty()
}

/// Reads the cameras that a request names, or all, and uses their words and those around them.
pub(crate) fn cameras(r: &mut Reader<'_>) -> Vec<SourceId> {
    let all = r.scene.cameras.iter().map(|camera| &camera.id);
    let found = r.find(&["@all_of_them", "@all_cameras"]);
    // Which two of several "both" means is not known, so it stays unread.
    let is_meant =
        |at: &Range<usize>| all.len() == 2 || !{ at.clone() }.any(|i| r.word(i) == "both");
    match found.map(|found| found.at).filter(is_meant) {
        Some(at) => {
            let all = all.cloned().collect();
            r.mark(at);
            all
        }
        None => take_named_cameras(r),
    }
}

/// Words between two cameras that are one list of them.
const LIST: &str = "and|or|&|+|,|/|(|)|the|my|our|at|on|in|near|by|for|from|camera|cam|cameras|both|either|also|as|well|plus|watch|alarm";

/// Takes the names of known cameras as one list, in their order in the text. A separate camera
/// stays unread, because other things may be wanted of it.
fn take_named_cameras(r: &mut Reader<'_>) -> Vec<SourceId> {
    let mut found: Vec<SourceId> = Vec::new();
    let (mut last, mut is_apart) = (None, false);
    for (Range { mut start, mut end }, camera) in camera_positions(r) {
        let between = last.unwrap_or(start)..start;
        is_apart |= !{ between.clone() }.all(|i| r.is(i, LIST));
        let name = start;
        last = Some(end);
        while r.is_free(
            end,
            "camera|cam|cameras|video|recording|footage|feed|stream",
        ) {
            end += 1;
        }
        while start > 0 && r.is_free(start - 1, "camera|cam|the|on|at|my|our|from|in") {
            start -= 1;
        }
        if is_apart {
            r.mark(start..name);
            continue;
        }
        r.mark(start..end);
        r.mark_where(|r, i| between.contains(&i) && !r.is_taken(i));
        if !found.contains(&camera) {
            found.push(camera);
        }
    }
    found
}

/// The named place that a sentence is about, the longest name first. One with the name of a class
/// is meant only where `is_meant` holds.
pub(crate) fn known_place<'s>(
    r: &mut Reader<'_>,
    cameras: &[&'s Camera],
    is_meant: fn(&Reader<'_>, usize) -> bool,
) -> Option<(&'s Camera, &'s Place)> {
    let places = cameras
        .iter()
        .flat_map(|c| c.places.iter().map(move |p| (*c, p)));
    let found = places.filter_map(|(camera, place)| {
        let name = folded(&place.name);
        let is_class = r.labels.iter().any(|(label, _)| *label == name);
        let mut positions = r.positions_of(&name);
        let at = positions.find(|at| !is_class || is_meant(r, at.start))?;
        Some((at, camera, place))
    });
    let (at, camera, place) = found.max_by_key(|(at, ..)| at.len())?;
    let start = at.start - usize::from(at.start > 0 && r.is_free(at.start - 1, "the"));
    // `the pool area`
    let end = at.end + usize::from(r.is_free(at.end, "area|zone|region"));
    r.mark(start..end);
    Some((camera, place))
}

/// Whether a definite article or a possessive is before `at`: `was the bench empty`.
pub(crate) fn is_known(r: &Reader<'_>, at: usize) -> bool {
    r.is_behind(at, "the|my|our")
}

/// Whether a preposition and an article or possessive are before `at`: `on the bench`.
pub(crate) fn is_where(r: &Reader<'_>, at: usize) -> bool {
    is_known(r, at) && r.is_behind(at - 1, "at|in|inside|into|on|onto|around|enters|leaves")
}

/// The place of this name on a camera.
pub(crate) fn place_on<'s>(camera: &'s Camera, name: &str) -> Option<&'s Place> {
    let name = folded(name);
    camera.places.iter().find(|p| folded(&p.name) == name)
}

/// The pipelines that a request names by id or by name, the longest name first. `nouns`: only those
/// with a word for a watch beside, or by a name of several words that no camera and place has.
pub(crate) fn pipelines(r: &mut Reader<'_>, nouns: bool) -> Vec<PipelineId> {
    let scene = r.scene;
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
        let at = r.positions_of(&name).find_map(|at| {
            let noun = nouns && r.is_free(at.end, WATCHES);
            let is_it = noun || is_clear || r.is_behind(at.start, WATCHES);
            is_it.then_some(at.start..at.end + usize::from(noun))
        });
        if let Some(at) = at {
            r.mark(at);
            found.push(id);
        }
    }
    let ids = scene.pipelines.iter().map(|deployed| &deployed.spec.id);
    ids.filter(|id| found.contains(id)).cloned().collect()
}

/// The words of a class that stands for pipelines, and these: `the car watch`. `stops_telling`: the
/// class is no longer to be reported, so they are those that report it, if none reports more.
pub(crate) fn pipelines_of_class(
    r: &Reader<'_>,
    stops_telling: bool,
    cameras: &[SourceId],
) -> Option<(Range<usize>, Vec<PipelineId>)> {
    let is_meant = |m: &Mention| match stops_telling {
        true => m.narrower.is_none(),
        false => r.match_at(WATCHES, m.at.end).is_some(),
    };
    let mut classes = find_classes(r).into_iter();
    let class = classes.find(|m| !m.labels.is_empty() && is_meant(m))?;
    let is_seen = |label: &String| class.labels.contains(label);
    let is_watched = |p: &&Deployed| {
        let is_there = cameras.is_empty() || cameras.contains(&p.spec.source);
        let reports_all = stops_telling && p.classes().is_empty() && !r.scene.tells_none_apart(p);
        is_there
            && (p.makes_events() || !stops_telling)
            && (reports_all || p.classes().iter().any(is_seen))
    };
    let watches = r.scene.pipelines.iter().filter(is_watched);
    let watches: Vec<&Deployed> = watches.collect();
    let is_only = |p: &&Deployed| !p.classes().is_empty() && p.classes().iter().all(is_seen);
    let ids = watches.iter().map(|p| p.spec.id.clone()).collect();
    (!stops_telling || watches.iter().all(is_only)).then_some((class.at, ids))
}

/// A class in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) at: Range<usize>,
    /// Its words, in lower case; of a narrower word the class that counts.
    pub(crate) said: String,
    /// Names that a model may have for it; empty: whatever is seen.
    pub(crate) labels: Vec<String>,
    /// As it was written, where the labels are of more than that: `burglar`, `my car`.
    pub(crate) narrower: Option<String>,
    pub(crate) polarity: Polarity,
}

impl Mention {
    /// Its words as a refusal quotes them.
    pub(crate) fn written(&self) -> &str {
        self.narrower.as_ref().unwrap_or(&self.said)
    }

    /// Whether the word itself means absence: `nobody`, `nothing`.
    pub(crate) fn is_nobody(&self) -> bool {
        one_of("nobody|no one|noone|no-one|nothing", &self.said)
    }

    /// Whether there is to be none of it.
    pub(crate) fn is_none(&self) -> bool {
        self.polarity == Polarity::None || self.is_nobody()
    }
}

/// Words that make a place of the class before them.
const PLACES: &str = "area|zone|lane|path|walkway|entrance|exit|door|park|lot|bay|bays|room|rack|station|shelter|shed|stable|wash|corridor|ramp";

fn mention_at(r: &Reader<'_>, at: usize) -> Option<Mention> {
    (1..=LONGEST).rev().find_map(|n| mention_of(r, at..at + n))
}

/// The class that these words name.
fn mention_of(r: &Reader<'_>, at: Range<usize>) -> Option<Mention> {
    let words: Vec<&str> = at.clone().map(|i| r.free_word(i)).collect();
    // A mark is not a part of a name, though names are compared without.
    let is_mark = |i: usize| r.tokens.get(i).is_some_and(|t| t.kind == Kind::Mark);
    if words.contains(&"") || is_mark(at.start) || is_mark(at.end - 1) {
        return None;
    }
    let text = folded(&words.join(" "));
    let next = r.word(at.end);
    // `nothing but cars` is not that nothing is there.
    let is_but = text == "nothing" && one_of("but|except|besides|other|apart|else|more", next);
    // The pedestrian area is a place.
    if is_but || r.is_free(at.end, PLACES) {
        return None;
    }
    let forms: Vec<String> = singulars(&text).collect();
    let labels = r.labels.iter().filter(|(label, _)| forms.contains(label));
    let mut labels: Vec<String> = labels.map(|(_, label)| (*label).clone()).collect();
    let (of_word, is_narrower) = r.lexicon.class(&text).unwrap_or_default();
    let is_owned = r.is_behind(at.start, "my|our|your|his|her|their");
    let counted = of_word.first().filter(|_| labels.is_empty() && is_narrower);
    let said = match (counted, words.join(" ")) {
        (None, said) => said,
        (Some(label), said) if is_several(&said) => several(label),
        (Some(label), _) => label.clone(),
    };
    let is_narrower = is_owned || counted.is_some();
    labels.extend_from_slice(of_word);
    let mut seen = BTreeSet::new();
    labels.retain(|label| seen.insert(label.clone()));
    let is_anything = r.lexicon.words.anything.contains(&text);
    if labels.is_empty() && !is_anything {
        return None;
    }
    let written = || r.written(at.start - usize::from(is_owned)..at.end);
    Some(Mention {
        said,
        narrower: (is_narrower && !is_anything).then(written),
        labels: if is_anything { Vec::new() } else { labels },
        polarity: polarity(r, at.clone()).0,
        at,
    })
}

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
fn polarity(r: &Reader<'_>, class: Range<usize>) -> (Polarity, Range<usize>) {
    if let Some(words) = r.match_at("@left_out_behind", class.end) {
        return (Polarity::Excluded, words.at);
    }
    let first = r.word(class.start);
    if class.len() == 1 && first == "nothing" {
        return (Polarity::None, 0..0);
    }
    let left_out = r.lexicon.meanings.left_out.iter();
    let left_out = left_out.flat_map(|of| of.words.iter().map(|p| (p.as_str(), of.is)));
    let before = left_out.chain([("no", Polarity::None)]);
    let found = { before }.find_map(|(words, polarity)| {
        let pattern = format!("{words} {ARTICLES}? {ARTICLES}?");
        Some((polarity, r.match_before(&pattern, class.start)?.at))
    });
    let Some((polarity, words)) = found else {
        return (Polarity::Wanted, 0..0);
    };
    // `there is not anybody`
    let is_any = first.starts_with("any") || r.before(class.start) == "any";
    let is_not = r.word(words.start) == "not";
    match is_not && is_any && !r.is_behind(words.start, "but|and|,") {
        true => (Polarity::None, words),
        false => (polarity, words),
    }
}

/// Whether a class is named here.
pub(crate) fn class_begins(r: &Reader<'_>, at: usize) -> bool {
    mention_at(r, at).is_some()
}

/// Whether a class is named anywhere.
pub(crate) fn mentions_class(r: &Reader<'_>) -> bool {
    r.positions().any(|i| mention_at(r, i).is_some())
}

/// The classes that a text names, in their order.
pub(crate) fn find_classes(r: &Reader<'_>) -> Vec<Mention> {
    let mut found = in_order(r, |at| {
        let mention = mention_at(r, at)?;
        Some((mention.at.end, mention))
    });
    // `except cats and dogs`: a class next to one that is left out is left out too.
    for nth in 1..found.len() {
        let ([.., left_out], [mention, ..]) = found.split_at_mut(nth) else {
            continue;
        };
        if left_out.polarity != Polarity::Excluded {
            continue;
        }
        let mut between = left_out.at.end..mention.at.start;
        let but = r.word(between.start) == "but" && between.len() == 1;
        if but && r.before(left_out.at.start) == "not" {
            // `not cars but trucks`
            mention.polarity = Polarity::Wanted;
        } else if mention.polarity == Polarity::Wanted
            && between.all(|i| r.is(i, "and|or|,|the|any"))
        {
            mention.polarity = Polarity::Excluded;
        }
    }
    found
}

/// Marks the words of classes, and those that leave them out.
pub(crate) fn mark_classes(r: &mut Reader<'_>, found: &[Mention]) {
    for mention in found {
        let (_, words) = polarity(r, mention.at.clone());
        r.mark(words);
        r.mark(mention.at.clone());
    }
}

/// The cameras as a sentence shows them.
pub(crate) fn listed<'s>(cameras: impl IntoIterator<Item = &'s Camera>) -> String {
    joined(cameras.into_iter().map(shown), ", ")
}

/// A camera as a sentence shows it.
pub(crate) fn shown(camera: &Camera) -> String {
    match camera.name == camera.id.as_str() {
        true => camera.id.to_string(),
        false => format!("{} ({})", camera.id, quoted(&camera.name)),
    }
}
