//! Which cameras a request is about.
//!
//! - A camera that is not named is the one of a named place, the one of the request before, or the
//!   only one; which of these it was is noted or asked.

use watchkeeper_contract::id::SourceId;

use super::parts::Parts;
use crate::answer::Missing;
use crate::names::{self, Cameras};
use crate::refusal::{Notes, Refusal};
use crate::scene::{Camera, Scene, quoted};

/// The cameras that are meant: those that are named, the one of the place that is named, the one
/// of the request `before`, or the only one.
pub(super) fn cameras_of<'s>(
    parts: &Parts,
    scene: &'s Scene,
    before: Option<&SourceId>,
    notes: &mut Notes,
) -> Result<Vec<&'s Camera>, Refusal> {
    if scene.cameras.is_empty() {
        return Err(Refusal::new(
            Missing::Camera,
            "There is no camera yet. Add one, then ask again.",
        ));
    }
    match &parts.cameras {
        Cameras::These(_) | Cameras::All => return Ok(parts.cameras.known(scene)),
        Cameras::None => {}
    }
    // A place with a name is on one camera, which is meant then.
    let drawn = parts.place.as_ref().filter(|place| place.drawn);
    let drawn = drawn.and_then(|place| place.name.as_ref());
    let is_there = |c: &&Camera| drawn.is_none_or(|place| names::place_on(c, place).is_some());
    let may_be: Vec<&Camera> = scene.cameras.iter().filter(is_there).collect();
    let same = may_be.iter().find(|c| before == Some(&c.id));
    match (may_be.as_slice(), same) {
        ([only], _) => {
            if drawn.is_none() && before.is_none() {
                let only_one = format!("The camera is {}, the only one.", names::shown(only));
                notes.assume(only_one);
            }
            Ok(may_be)
        }
        (_, Some(same)) => Ok(vec![*same]),
        (several, None) => {
            let listed = names::listed(several.iter().copied());
            let place = drawn.map_or_else(String::new, |p| format!("a place {} on ", quoted(p)));
            let text = format!("On which camera? There are {place}{listed}.");
            let choices = several.iter().map(|c| c.id.to_string()).collect();
            Err(Refusal::new(Missing::Camera, text).with(choices))
        }
    }
}
