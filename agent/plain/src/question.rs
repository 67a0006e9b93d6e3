//! Slots of a question: cameras, watches, places, spans of time, pictures and numbers.
//!
//! Invariant: a slot that is found uses its words, and what no slot used is refused by
//! [`crate::look`].

use std::ops::Range as Words;

use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::answer::EventsWanted;
use crate::lexicon::folded;
use crate::moments::{self, Range};
use crate::names::{self, Cameras, WATCHES};
use crate::reader::{Reader, Slot, one_of};
use crate::scene::{Camera, quoted};
use crate::span;

/// What a question says, whatever it asks for.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// The events that it may be about, but for their kinds, classes, cameras and times.
    pub(crate) wanted: EventsWanted,
    pub(crate) cameras: Vec<SourceId>,
    /// Whether it is about all cameras.
    pub(crate) all: bool,
    pub(crate) range: Option<Range>,
    /// Whether a number is asked for.
    pub(crate) many: bool,
}

impl Slots {
    /// Reads the slots of a question and uses their words.
    ///
    /// # Errors
    /// The sentence that refuses a camera which isn't there.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, String> {
        let (pictures, newest) = pictures(r);
        let pipelines = pipelines(r);
        let (cameras, all) = cameras(r)?;
        let newest = latest(r).or(newest);
        let (range, compared_with) = match moments::compared(r) {
            Some((first, second)) => (Some(first), Some(second)),
            None => (moments::past(r), None),
        };
        let mut moved = |range| span::move_to_past(r, range);
        let (range, compared_with) = (range.map(&mut moved), compared_with.map(&mut moved));
        let by_hour = r.take_all(&[
            "at|in|during? what|which hour|hours|time was|were|is|are? it? the? busiest",
            "at|in|during? what|which|the? busiest|peak hour|hours|time|times?",
            "per|each|every hour",
            "hour by hour",
            "by the? hour",
            "hourly",
        ]);
        // `cars an hour`, and not `for an hour`
        let is_rate = |r: &Reader<'_>, at: usize| {
            let before = at.checked_sub(2).map_or("", |i| r.any_word(i));
            r.word(at) == "hour" && r.before(at) == "an" && !one_of(BEFORE_DURATIONS, before)
        };
        let by_hour = r.mark_where(is_rate) || by_hour;
        let many = r.take(&["how many", "how often", "number of"]).is_some();
        let only_number = many || by_hour || compared_with.is_some();
        // A number of the last is none.
        let most = match only_number {
            true => newest,
            false => last(r).or(newest),
        };
        let wanted = EventsWanted {
            pipelines,
            only_number,
            pictures,
            most,
            by_hour,
            compared_with,
            ..EventsWanted::default()
        };
        Ok(Self {
            wanted,
            cameras,
            all,
            range,
            many,
        })
    }
}

/// Words before a duration.
const BEFORE_DURATIONS: &str = "for|over|than|within|half|in|after|under|about|around|least|most|of|nearly|almost|exactly|only";
/// Words before the name of a place, and for one.
const BEFORE_PLACES: &str =
    "in|at|on|inside|into|onto|within|through|across|over|near|around|from|to";
const PLACES: &str = "zone|area|line|region|place";
const CAMERAS: &str = "camera|cam";

/// Reads names while `others` are out of reach, and with a name the word of `nouns` behind it.
fn read_names<'s, T>(
    r: &mut Reader<'s>,
    others: impl IntoIterator<Item = Words<usize>>,
    nouns: &str,
    read: impl FnOnce(&mut Reader<'s>) -> T,
) -> T {
    let before = r.used.clone();
    let others: Vec<usize> = others.into_iter().flatten().collect();
    others.iter().for_each(|at| r.mark(*at..at + 1));
    let found = read(r);
    for at in others {
        r.set(at..at + 1, before.get(at).copied().unwrap_or_default());
    }
    let is_new = |r: &Reader<'_>, at| before.get(at) == Some(&Slot::Free) && r.word(at).is_empty();
    for at in 1..r.tokens.len() {
        if is_new(r, at - 1) && one_of(nouns, r.word(at)) {
            r.mark(at..at + 1);
        }
    }
    found
}

/// The words for classes that stand as such, and not as a name: neither behind a word of `before`
/// nor beside one of `nouns`.
fn classes<'r>(
    r: &'r Reader<'_>,
    before: &'r str,
    nouns: &'r str,
) -> impl Iterator<Item = Words<usize>> + use<'r> {
    let is_class = move |at: &Words<usize>| {
        let article = usize::from(one_of("the|my|our", r.before(at.start)));
        let word = r.before(at.start - article);
        !one_of(before, word) && !one_of(nouns, word) && !one_of(nouns, r.any_word(at.end))
    };
    let found = names::find_classes(r).into_iter();
    found.map(|mention| mention.at).filter(is_class)
}

/// The cameras that a question names, and whether it means all of them.
fn cameras(r: &mut Reader<'_>) -> Result<(Vec<SourceId>, bool), String> {
    if r.take(&["per|by each? camera"]).is_some() {
        return Ok((Vec::new(), true));
    }
    // `how many cars today`, where a camera is called `cars`
    let is_called = |at: &Words<usize>| {
        let written = folded(&r.written(at.clone()));
        let is_it = |c: &Camera| [c.id.as_str(), &c.name].map(folded).contains(&written);
        r.scene.cameras.iter().any(is_it)
    };
    let counted = classes(r, BEFORE_PLACES, CAMERAS).filter(is_called);
    // `in` and `from` of `going in at the gate` and `came from the yard` say which way.
    const WAYS: [&str; 2] = [
        "came|come|went|go|going|walked|drove|ran|gone|coming from",
        "came|come|went|go|going|walked|drove|ran|gone|coming in at|on|by|near|through",
    ];
    let ways = (0..r.tokens.len()).filter(|at| r.begins(*at, &WAYS));
    let others: Vec<Words<usize>> = counted.chain(ways.map(|at| at + 1..at + 2)).collect();
    let before = r.clone();
    match read_names(r, others, CAMERAS, names::cameras) {
        Cameras::Unknown(written) if stands_before_camera(r, &written) => {
            Err(names::no_such_camera(&written, r.scene).text)
        }
        Cameras::These(cameras) => Ok((cameras, false)),
        Cameras::All => Ok((Vec::new(), true)),
        Cameras::None => Ok((Vec::new(), false)),
        // Its words stay unread.
        Cameras::Unknown(_) => {
            *r = before;
            Ok((Vec::new(), false))
        }
    }
}

/// Whether this is what a camera is called, and no verb behind it: `the stockroom camera`.
fn stands_before_camera(r: &Reader<'_>, written: &str) -> bool {
    let count = written.split(' ').count();
    (1..r.tokens.len()).any(|i| {
        r.written(i..i + count) == written
            && one_of("the|my|our|on|in|at", r.any_word(i - 1))
            && one_of(CAMERAS, r.any_word(i + count))
    })
}

/// The named place that a question is about, with its camera. Several places are refused, and one
/// that is drawn on several cameras.
pub(crate) fn read_place(
    r: &mut Reader<'_>,
    camera: Option<&SourceId>,
) -> Result<Option<(SourceId, String)>, String> {
    let cameras = r.scene.cameras.iter();
    let cameras: Vec<&Camera> = cameras
        .filter(|known| camera.is_none_or(|camera| known.id == *camera))
        .collect();
    let others: Vec<Words<usize>> = classes(r, BEFORE_PLACES, PLACES).collect();
    let named = read_names(r, others, PLACES, |r| {
        let named = std::iter::from_fn(|| Some(names::known_place(r, &cameras)?.1));
        named.map(|place| &place.name).collect::<Vec<_>>()
    });
    let Some(place) = named.first() else {
        return Ok(None);
    };
    if let Some(other) = named.get(1) {
        return Err(format!(
            "Ask about one place at a time: {} or {}.",
            quoted(place),
            quoted(other)
        ));
    }
    let has_it = |camera: &&&Camera| names::place_on(camera, place).is_some();
    let drawn: Vec<&SourceId> = cameras.iter().filter(has_it).map(|c| &c.id).collect();
    match drawn.as_slice() {
        [one] => Ok(Some(((*one).clone(), (*place).clone()))),
        several => {
            let several: Vec<&str> = several.iter().map(|id| id.as_str()).collect();
            Err(format!(
                "The place {} is drawn on {}. Say for which camera.",
                quoted(place),
                several.join(" and ")
            ))
        }
    }
}

/// Whether pictures of events are asked for, and how many of the newest: `show me the picture of
/// the last visitor`.
fn pictures(r: &mut Reader<'_>) -> (bool, Option<usize>) {
    const ONE: &str = "show|see|display|give|send me|us? the|its|their last|latest|newest? picture|photo|image|snapshot of|from|for?";
    const SEVERAL: [&str; 3] = [
        "last|latest|newest|recent <n>? pictures|photos|images|snapshots of|from|for?",
        "pictures|photos|images|snapshots of|from|for",
        "show|see|display|give|send me|us? the|its|their? pictures|photos|images|snapshots",
    ];
    if r.take(&[ONE]).is_some() {
        return (true, Some(1));
    }
    let several = r.take(&SEVERAL);
    let number = several.as_ref().and_then(|found| found.held.first());
    (several.is_some(), number.and_then(newest))
}

/// How many of the newest a number asks for; one that no list has asks for the whole list.
fn newest(number: &f64) -> Option<usize> {
    (*number >= 1.0).then_some(*number as usize)
}

/// How many of the newest events are asked for: `the last 3 events`, `the latest alarm`.
fn latest(r: &mut Reader<'_>) -> Option<usize> {
    const LAST: &str = "most? last|latest|newest|recent";
    const EVENTS: &str = "events|alerts|alarms|warnings|incidents";
    // `the last events` are as many as are shown.
    if let Some(found) = r.find(&[&format!("{LAST} {EVENTS}")]) {
        r.mark(found.at.start..found.at.end - 1);
        return None;
    }
    let several = format!("{LAST} <n> {EVENTS}");
    let one = format!("{LAST} event|alert|alarm|warning|incident");
    let found = r.take(&[&several, &one])?;
    found.held.first().map_or(Some(1), newest)
}

/// How many of the newest are asked for without the word event, where no span has read `last`:
/// `when did somebody last enter`, `the last 3 cars`.
fn last(r: &mut Reader<'_>) -> Option<usize> {
    if !is_past(r) && !names::mentions_class(r) {
        return None;
    }
    let found = r.take(&[
        "most? last|latest|newest|recent <n>",
        "most? last|latest|newest|recent",
    ])?;
    found.held.first().map_or(Some(1), newest)
}

/// The pipelines whose events are asked about. One that is called like a camera is that camera, and
/// one like a class or a place is it where no word for a watch stands beside.
fn pipelines(r: &mut Reader<'_>) -> Vec<PipelineId> {
    if !is_past(r) && !r.says(&[WATCHES]) {
        return Vec::new();
    }
    let places = r.scene.cameras.iter().flat_map(|camera| &camera.places);
    let places = places.filter_map(|place| {
        let name = folded(&place.name);
        (0..r.tokens.len()).find_map(|at| Some(at..r.name_at(&name, at)?))
    });
    let is_place = |at: &Words<usize>| {
        !one_of(WATCHES, r.any_word(at.end)) && !one_of(WATCHES, r.before(at.start))
    };
    let others: Vec<Words<usize>> = classes(r, WATCHES, WATCHES)
        .chain(places.filter(is_place))
        .collect();
    let before = r.clone();
    let named = read_names(r, others, "watch|pipeline", names::pipelines);
    let is_camera = |id: &PipelineId| {
        let called = r.scene.pipeline(id).map_or("", |p| p.name.as_str());
        let is_called = |c: &Camera| [c.id.as_str(), &c.name].contains(&called);
        let mut cameras = r.scene.cameras.iter();
        cameras.any(|c| is_called(c) || c.id.as_str() == id.as_str())
    };
    if named.iter().any(is_camera) {
        *r = before;
        return Vec::new();
    }
    named
}

/// Whether a question is about something past.
pub(crate) fn is_past(r: &Reader<'_>) -> bool {
    const HAPPENED: &str = "happened|happen|events|event|alerts|alarms|warnings|incidents|came|entered|crossed|left|seen|saw|stayed|waited|passed|appeared|arrived|loitered|been";
    // Words that say only that something is past.
    const WAS: &str = "was|were|did|had";
    r.says(&[HAPPENED, WAS])
}
