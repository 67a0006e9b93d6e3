//! Slots of a question: cameras, watches, places, spans of time, pictures and numbers.
//!
//! Invariant: a slot that is found uses its words, and what no slot used is refused by
//! [`crate::look`].

use watchkeeper_contract::id::SourceId;

use crate::answer::EventsWanted;
use crate::moments::{self, Range};
use crate::names;
use crate::reader::{Reader, one_of};
use crate::scene::{Camera, joined, quoted};

/// Slots of a question, whatever its kind.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// The events that it may be about, apart from their kinds, classes, cameras and times.
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
    pub(crate) fn read(r: &mut Reader<'_>) -> Self {
        let (pictures, of_pictures) = pictures(r);
        let mut pipelines = names::pipelines(r, true);
        // `car alarms` are events about cars.
        if pipelines.is_empty()
            && r.has(&["watch|watches|pipeline|rule|monitoring"])
            && let Some((at, of_class)) = names::pipelines_of_class(r, false, &[])
            && of_class.len() == 1
        {
            r.mark(at);
            pipelines = of_class;
        }
        let (cameras, all) = cameras(r);
        let (range, compared_with) = match moments::compared(r) {
            Some((first, second)) => (Some(first), Some(second)),
            None => (moments::past(r), None),
        };
        let (from, to) = range.unwrap_or_default();
        let by_hour = r.take_all(&["@by_hour"]);
        let many = r.take(&["how many", "how often", "number of"]).is_some();
        let only_number = many || by_hour || compared_with.is_some();
        // A question for a number has no "the last".
        let last = (!only_number).then(|| last(r)).flatten();
        let most = last.or(of_pictures);
        Self {
            wanted: EventsWanted {
                camera: cameras.first().cloned(),
                pipelines,
                from,
                to,
                only_number,
                pictures,
                most,
                by_hour,
                compared_with,
                ..EventsWanted::default()
            },
            cameras,
            all,
            range,
            many,
        }
    }
}

/// The cameras that a question names, and whether it means all of them.
fn cameras(r: &mut Reader<'_>) -> (Vec<SourceId>, bool) {
    let all = ["per|by each? camera", "@all_of_them", "@all_cameras"];
    if r.take(&all).is_some() {
        return (Vec::new(), true);
    }
    // `in` and `from` of `going in at the gate` and `came from the yard` say which way.
    let ways = r.find_all("@ways_to_camera");
    (r.with_hidden(ways, names::cameras), false)
}

/// The named place that a question is about, with its camera. Refuses one that is drawn on several
/// cameras.
pub(crate) fn read_place(
    r: &mut Reader<'_>,
    camera: Option<&SourceId>,
) -> Result<Option<(SourceId, String)>, String> {
    let cameras = r.scene.cameras.iter();
    let cameras: Vec<&Camera> = cameras
        .filter(|known| camera.is_none_or(|camera| known.id == *camera))
        .collect();
    let Some((_, place)) = names::known_place(r, &cameras, names::is_known) else {
        return Ok(None);
    };
    let place = &place.name;
    let has_it = |camera: &&&Camera| names::place_on(camera, place).is_some();
    let drawn: Vec<&SourceId> = cameras.iter().filter(has_it).map(|c| &c.id).collect();
    match drawn.as_slice() {
        [one] => Ok(Some(((*one).clone(), place.clone()))),
        several => Err(format!(
            "The place {} is drawn on {}. Say for which camera.",
            quoted(place),
            joined(several, " and ")
        )),
    }
}

/// Whether pictures of events are asked for, and how many of the newest: `show me the picture of
/// the last visitor`.
fn pictures(r: &mut Reader<'_>) -> (bool, Option<usize>) {
    let Some(found) = r.take(&["@pictures"]) else {
        return (false, None);
    };
    let mut words = found.at.map(|at| r.word(at));
    let is_one = words.any(|word| one_of("picture|photo|image|snapshot", word));
    let number = found.held.first().copied();
    (true, number.or(is_one.then_some(1.0)).and_then(newest))
}

/// How many of the newest a number asks for; one that no list has asks for the whole list.
fn newest(number: f64) -> Option<usize> {
    (number >= 1.0).then_some(number as usize)
}

/// How many of the newest events are asked for, if no span has read `last`:
/// `when did somebody last enter`, `the last 3 cars`.
fn last(r: &mut Reader<'_>) -> Option<usize> {
    if !is_past(r) && !names::mentions_class(r) {
        return None;
    }
    let last = "most? last|latest|newest|recent";
    let found = r.take(&[&format!("{last} <n>"), last])?;
    let next = r.free_word(found.at.end);
    match found.held.first() {
        // `the last events` are as many as are shown.
        None if one_of("events|alerts|alarms|warnings|incidents", next) => None,
        number => newest(number.copied().unwrap_or(1.0)),
    }
}

/// Whether a question is about something past.
pub(crate) fn is_past(r: &Reader<'_>) -> bool {
    r.has(&["@is_past"])
}
