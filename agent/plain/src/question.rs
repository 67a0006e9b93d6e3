//! Parts of a question: cameras, watches, places, spans of time and pictures.
//!
//! Invariant: a part that is found uses its words, and what no part used is refused by
//! [`crate::look`].

use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::asks::WATCHES;
use crate::lexicon::folded;
use crate::moments::{self, Range};
use crate::names::{self, Cameras, Mention};
use crate::reader::{Reader, Slot, one_of};
use crate::scene::{Camera, Place, quoted};
use crate::span;

/// Whether one of `words`, separated by `|`, is free.
pub(crate) fn has(r: &Reader<'_>, words: &str) -> bool {
    r.find(&[words]).is_some()
}

/// The span that a question is about, and the one that it is compared with.
pub(crate) fn its_spans(r: &mut Reader<'_>) -> (Option<Range>, Option<Range>) {
    let (first, second) = match moments::compared(r) {
        Some((first, second)) => (Some(first), Some(second)),
        None => (moments::past(r), None),
    };
    let mut been = |range| span::been(r, range);
    (first.map(&mut been), second.map(&mut been))
}

/// Whether a number is asked for each hour, or for the hour with most events.
pub(crate) fn wants_hours(r: &mut Reader<'_>) -> bool {
    r.take_all(&[
        "at|in|during? what|which hour|hours|time was|were|is|are? it? the? busiest",
        "at|in|during? what|which|the? busiest|peak hour|hours|time|times?",
        "per|each|every|an hour",
        "hour by hour",
        "by the? hour",
        "hourly",
    ])
}

/// The cameras that a question names, and whether it means all of them.
pub(crate) fn its_cameras(r: &mut Reader<'_>) -> Result<(Vec<SourceId>, bool), String> {
    let mut view = without_counted_names(r);
    let before = view.clone();
    let cameras = names::cameras(&mut view);
    take_as_in(r, &before, &view);
    match cameras {
        Cameras::Unknown(written) if stands_before_camera(r, &written) => {
            Err(names::no_such_camera(&written, r.scene).text)
        }
        Cameras::These(cameras) => Ok((cameras, false)),
        Cameras::All => Ok((Vec::new(), true)),
        Cameras::None | Cameras::Unknown(_) => Ok((Vec::new(), false)),
    }
}

/// Takes the words that `after` took and `before` had not.
fn take_as_in(r: &mut Reader<'_>, before: &Reader<'_>, after: &Reader<'_>) {
    for at in 0..r.tokens.len() {
        if before.slot_of(at) == Slot::Free && after.slot_of(at) != Slot::Free {
            r.mark(at..at + 1);
        }
    }
}

/// Words before the name of a place, and behind it.
const BEFORE_PLACES: &str =
    "in|at|on|inside|into|onto|within|through|across|over|near|around|from|to";
const PLACES: &str = "zone|area|line|region|place";

/// The word before a class and its article.
fn before_class<'r>(r: &'r Reader<'_>, mention: &Mention) -> &'r str {
    let start = mention.at.start;
    r.before(start - usize::from(one_of("the|my|our", r.before(start))))
}

/// Hides the names of cameras that stand as classes: `how many cars today`, where a camera is
/// called `cars`. Returns the reader without them.
fn without_counted_names<'s>(r: &Reader<'s>) -> Reader<'s> {
    let mut view = r.clone();
    if !r.says(&["how many", "number of", WAS, HAPPENED, "any|more|fewer"]) {
        return view;
    }
    for mention in names::find_classes(r) {
        let written = folded(&r.written(mention.at.clone()));
        let is_called = |c: &Camera| [c.id.as_str(), &c.name].map(folded).contains(&written);
        let before = before_class(r, &mention);
        let is_place = one_of(BEFORE_PLACES, before)
            || one_of("camera|cam", before)
            || one_of("camera|cam", r.any_word(mention.at.end));
        if !is_place && r.scene.cameras.iter().any(is_called) {
            view.mark(mention.at);
        }
    }
    view
}

/// Hides the names of places that stand as classes, such as the first `car` of `was a car in the
/// car zone`. Returns the reader without them.
fn without_class_names<'s>(r: &Reader<'s>) -> Reader<'s> {
    let mut view = r.clone();
    for mention in names::find_classes(r) {
        let is_place = one_of(BEFORE_PLACES, before_class(r, &mention))
            || one_of(PLACES, r.any_word(mention.at.end));
        if !is_place {
            view.mark(mention.at);
        }
    }
    view
}

/// The named place that a question is about, with its camera. Several places are refused, and one
/// that is drawn on several cameras.
pub(crate) fn its_place(
    r: &mut Reader<'_>,
    camera: Option<&SourceId>,
) -> Result<Option<(SourceId, String)>, String> {
    let Some((cameras, place)) = take_place(r, camera) else {
        return Ok(None);
    };
    let shown = quoted(&place.name);
    if let Some((_, other)) = take_place(&mut r.clone(), None) {
        return Err(format!(
            "Ask about one place at a time: {shown} or {}.",
            quoted(&other.name)
        ));
    }
    match cameras.as_slice() {
        [one] => Ok(Some((one.id.clone(), place.name.clone()))),
        several => {
            let several: Vec<&str> = several.iter().map(|c| c.id.as_str()).collect();
            Err(format!(
                "The place {shown} is drawn on {}. Say for which camera.",
                several.join(" and ")
            ))
        }
    }
}

/// Takes the longest name of a place, and returns the place with the cameras that have it.
fn take_place<'s>(
    r: &mut Reader<'s>,
    camera: Option<&SourceId>,
) -> Option<(Vec<&'s Camera>, &'s Place)> {
    let cameras = r.scene.cameras.iter();
    let cameras: Vec<&Camera> = cameras
        .filter(|known| camera.is_none_or(|camera| known.id == *camera))
        .collect();
    let mut view = without_class_names(r);
    let before = view.clone();
    let (_, place) = names::known_place(&mut view, &cameras)?;
    let named = |at: usize| before.slot_of(at) == Slot::Free && view.slot_of(at) != Slot::Free;
    take_as_in(r, &before, &view);
    if let Some(at) = (1..r.tokens.len()).find(|at| named(at - 1) && one_of(PLACES, r.word(*at))) {
        r.mark(at..at + 1);
    }
    let has_it = |camera: &&Camera| names::place_on(camera, &place.name).is_some();
    Some((cameras.into_iter().filter(has_it).collect(), place))
}

/// Whether pictures of events are asked for, and only one: `show me the picture of the last
/// visitor`.
pub(crate) fn its_pictures(r: &mut Reader<'_>) -> Option<bool> {
    const ONE: &str = "picture|photo|image|snapshot";
    const SEVERAL: &str = "pictures|photos|images|snapshots";
    let events = "event|events|alert|alerts|alarm|alarms|warning|warnings";
    if has(r, events) {
        let any = format!("{ONE}|{SEVERAL} of|from|for");
        return r.take(&[&any]).map(|_| false);
    }
    let shows = "show|see|display|give|send me|us? the|its|their last|latest|newest?";
    let of = "of|from|for?";
    let is_one = r.take(&[&format!("{shows} {ONE} {of}")]).is_some();
    (is_one || r.take(&[&format!("{shows} {SEVERAL} {of}")]).is_some()).then_some(is_one)
}

/// How many of the newest events are asked for: `the last 3 events`, `the latest alarm`.
pub(crate) fn latest(r: &mut Reader<'_>) -> Option<usize> {
    let several = "last|latest|newest|recent <n> events|alerts|alarms|warnings|incidents";
    let one = "last|latest|newest event|alert|alarm|warning|incident";
    let found = r.take(&[several, one])?;
    // A number that no list has is that of the whole list.
    found
        .held
        .first()
        .map_or(Some(1), |n| (*n >= 1.0).then_some(*n as usize))
}

/// Hides the names of watches that are words for a class or the name of a place, such as `people`
/// or `bench`, where no word for a watch stands beside them. Returns the reader without them.
fn without_other_names<'s>(r: &Reader<'s>) -> Reader<'s> {
    let mut view = r.clone();
    let pipelines = r.scene.pipelines.iter();
    for name in pipelines.flat_map(|p| [p.spec.id.as_str(), &p.name].map(folded)) {
        let is_place = |c: &Camera| c.places.iter().any(|place| folded(&place.name) == name);
        let is_place = r.scene.cameras.iter().any(is_place);
        for at in 0..r.tokens.len() {
            let Some(end) = view.name_at(&name, at) else {
                continue;
            };
            let is_watch = one_of(WATCHES, r.any_word(end)) || one_of(WATCHES, r.before(at));
            let classes = names::find_classes(&r.part(at..end));
            let is_class = classes.iter().any(|mention| mention.at == (0..end - at));
            if !is_watch && (is_place || is_class) {
                view.mark(at..end);
            }
        }
    }
    view
}

/// The pipelines whose events are asked about; their names are used then. One that is called like a
/// camera is that camera.
pub(crate) fn its_pipelines(r: &mut Reader<'_>) -> Vec<PipelineId> {
    if r.find(&[HAPPENED, WAS]).is_none() {
        return Vec::new();
    }
    let before = without_other_names(r);
    let mut with = before.clone();
    let named = names::pipelines(&mut with);
    let is_camera = |id: &PipelineId| {
        let called = r.scene.pipeline(id).map_or("", |p| p.name.as_str());
        let is_called = |c: &Camera| [c.id.as_str(), &c.name].contains(&called);
        let mut cameras = r.scene.cameras.iter();
        cameras.any(|c| is_called(c) || c.id.as_str() == id.as_str())
    };
    if named.is_empty() || named.iter().any(is_camera) {
        return Vec::new();
    }
    take_as_in(r, &before, &with);
    let is_named = |at: usize| before.slot_of(at) == Slot::Free && r.slot_of(at) != Slot::Free;
    let is_word = |at: &usize| is_named(at - 1) && one_of("watch|pipeline", r.word(*at));
    if let Some(at) = (1..r.tokens.len()).find(is_word) {
        r.mark(at..at + 1);
    }
    named
}

/// Whether this is what a camera is called, and no verb behind it: `the stockroom camera`.
fn stands_before_camera(r: &Reader<'_>, written: &str) -> bool {
    let count = written.split(' ').count();
    (1..r.tokens.len()).any(|i| {
        r.written(i..i + count) == written
            && one_of("the|my|our|on|in|at", r.any_word(i - 1))
            && one_of("camera|cam", r.any_word(i + count))
    })
}

/// Words for events, and for what is one.
pub(crate) const HAPPENED: &str = "happened|happen|events|event|alerts|alarms|warnings|incidents|came|entered|crossed|left|seen|stayed|waited|passed|appeared|arrived|loitered";
/// Words that say only that something is past.
pub(crate) const WAS: &str = "was|were|did|has|have|had";
