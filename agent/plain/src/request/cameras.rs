//! Which cameras a request is about.
//!
//! - A camera that is not named is the one of a named place, the one of the request before, or the
//!   only one; which of these it was is noted or asked.

use watchkeeper_contract::id::SourceId;

use crate::answer::Missing;
use crate::names::{self, Cameras};
use crate::need::Need;
use crate::reader::{Reader, Slot, one_of};
use crate::scene::{Scene, quoted};

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

/// The cameras that are meant: those that are named, the one of the `place` that is named, the one
/// of the request before, or the only one.
pub(super) fn cameras_of(
    r: &mut Reader<'_>,
    named: &Cameras,
    place: Option<&str>,
    before: Option<&SourceId>,
) -> Result<Vec<SourceId>, Need> {
    if r.scene.cameras.is_empty() {
        return Err(Need::new(
            Missing::Camera,
            "There is no camera yet. Add one, then ask again.",
        ));
    }
    match named {
        Cameras::These(cameras) => Ok(cameras.clone()),
        Cameras::All => Ok(r.scene.cameras.iter().map(|c| c.id.clone()).collect()),
        Cameras::Unknown(written) => Err(names::no_such_camera(written, r.scene)),
        Cameras::None => camera_not_named(r, place, before),
    }
}

/// The camera of a request that names none.
fn camera_not_named(
    r: &mut Reader<'_>,
    place: Option<&str>,
    before: Option<&SourceId>,
) -> Result<Vec<SourceId>, Need> {
    // A place with a name is on one camera, which is meant then.
    let with_place = match place {
        Some(place) => place_of_one(place, r.scene, before)?,
        None => None,
    };
    if let Some(camera) = with_place.as_ref().or(before) {
        return Ok(vec![camera.clone()]);
    }
    if let [only] = r.scene.cameras.as_slice() {
        r.assume(format!(
            "The camera is {}, the only one.",
            names::shown(only)
        ));
        return Ok(vec![only.id.clone()]);
    }
    let text = format!("On which camera? There are {}.", names::listed(r.scene));
    Err(Need::new(Missing::Camera, text).with(names::choices(r.scene)))
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
