//! Which cameras a request is about.
//!
//! - A camera that is not named is the one of a named place, the one of the request before, or the
//!   only one; which of these it was is noted or asked.

use watchkeeper_contract::id::SourceId;

use super::parts::Parts;
use crate::answer::Missing;
use crate::names::{self, Cameras};
use crate::need::{Need, Notes};
use crate::reader::{Reader, Slot, one_of};
use crate::scene::{Camera, Scene, quoted};

/// Words between two cameras that are one list of them.
const LIST: &str = "and|or|&|+|,|/|(|)|the|my|our|at|on|in|near|by|for|from|camera|cam|cameras|both|either|also|as|well|plus";

/// Reads the cameras that a request names as one list. A camera that stands apart stays unread,
/// because other things may be wanted of it.
pub(super) fn one_list(r: &mut Reader<'_>) -> Cameras {
    let spots = names::camera_spots(r);
    let apart = spots.windows(2).position(|pair| match pair {
        [(a, _), (b, _)] => !(a.end..b.start).all(|i| one_of(LIST, r.any_word(i))),
        _ => false,
    });
    let named = names::cameras(r);
    let Some(nth) = apart else {
        let (Some((first, _)), Some((last, _))) = (spots.first(), spots.last()) else {
            return named;
        };
        for i in first.end..last.start {
            if one_of(LIST, r.word(i)) {
                r.mark(i..i + 1);
            }
        }
        return named;
    };
    for (at, _) in spots.iter().skip(nth + 1) {
        r.set(at.clone(), Slot::Free);
    }
    match named {
        Cameras::These(_) => {
            let mut these: Vec<SourceId> = Vec::new();
            for (_, camera) in spots.into_iter().take(nth + 1) {
                if !these.contains(&camera) {
                    these.push(camera);
                }
            }
            Cameras::These(these)
        }
        other => other,
    }
}

/// The cameras that are meant: those that are named, the one of the place that is named, the one
/// of the request `before`, or the only one.
pub(super) fn cameras_of<'s>(
    parts: &Parts,
    scene: &'s Scene,
    before: Option<&SourceId>,
    notes: &mut Notes,
) -> Result<Vec<&'s Camera>, Need> {
    if scene.cameras.is_empty() {
        return Err(Need::new(
            Missing::Camera,
            "There is no camera yet. Add one, then ask again.",
        ));
    }
    match &parts.cameras {
        Cameras::These(_) | Cameras::All => return Ok(parts.cameras.known(scene)),
        Cameras::Unknown(written) => return Err(names::no_such_camera(written, scene)),
        Cameras::None => {}
    }
    // A place with a name is on one camera, which is meant then.
    let drawn = parts.place.as_ref().filter(|place| place.drawn);
    let with_place = match drawn.and_then(|place| place.name.as_ref()) {
        Some(place) => place_of_one(place, scene, before)?,
        None => None,
    };
    if let Some(camera) = with_place.as_ref().or(before) {
        return Ok(scene.camera(camera).into_iter().collect());
    }
    if let [only] = scene.cameras.as_slice() {
        let only_one = format!("The camera is {}, the only one.", names::shown(only));
        notes.assumed.push(only_one);
        return Ok(vec![only]);
    }
    let text = format!("On which camera? There are {}.", names::listed(scene));
    Err(Need::new(Missing::Camera, text).with(names::choices(scene)))
}

/// The camera of the place that is named. One of that name on several cameras is asked about,
/// unless the request before it was about one of these.
fn place_of_one(
    place: &str,
    scene: &Scene,
    before: Option<&SourceId>,
) -> Result<Option<SourceId>, Need> {
    let cameras = scene.cameras.iter();
    let on = cameras.filter(|c| names::place_on(c, place).is_some());
    let on: Vec<&SourceId> = on.map(|c| &c.id).collect();
    match (on.as_slice(), before) {
        ([one], _) => Ok(Some((*one).clone())),
        (several, Some(before)) if several.contains(&before) => Ok(Some(before.clone())),
        (several, _) => {
            let choices: Vec<String> = several.iter().map(ToString::to_string).collect();
            let text = format!(
                "On which camera? There is a place {} on {}.",
                quoted(place),
                choices.join(" and ")
            );
            Err(Need::new(Missing::Camera, text).with(choices))
        }
    }
}
