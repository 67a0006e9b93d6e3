//! Near duplicates: pictures of one moment, or copies of one picture.
//!
//! - Pictures whose times are known and far apart are not duplicates: a camera that stands still
//!   shows one background all day. Nor are pictures of two known cameras.
//! - A picture joins a set if its hash, sketch and time are near those of the set's first picture,
//!   so that sets do not chain. It is verified against the first or the last picture of the set: an
//!   object may move far within a burst.
//! - Candidates come from difference hashes, then from sketches; each is verified by
//!   [`near_duplicate`](watchkeeper_vision::imaging::near_duplicate). So of 10,000 pictures without
//!   times few pairs are verified.

use std::sync::Arc;

use jiff::Timestamp;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use watchkeeper_vision::imaging::near_duplicate::{ALIKE, SIMILAR, Views};

use crate::difference_hash::DifferenceHash;
use crate::measure::Measured;

/// Largest distance of two hashes that is verified, in bits of 64.
const MAX_DISTANCE: u32 = 26;

/// Most sets whose views are kept, 41 KB each; those of older ones are made again when needed.
const MAX_VIEWS: usize = 512;

/// Data of a picture that is compared.
#[derive(Debug, Clone)]
pub struct Look {
    pub measured: Arc<Measured>,
    /// Instant of the exposure, if it is known.
    pub taken: Option<Timestamp>,
    pub camera: Option<String>,
}

/// A set of near duplicates while it grows.
struct Set<'l> {
    /// Places of its first and its last picture.
    first: usize,
    last: usize,
    hash: DifferenceHash,
    /// Time of its first picture that has one.
    taken: Option<Timestamp>,
    /// Camera of its first picture that has one.
    camera: Option<&'l str>,
    /// Views of its first picture; `None` until they are needed.
    views: Option<Views>,
}

impl Set<'_> {
    /// Returns whether a picture may be one of the set. The cheapest question comes first: most
    /// pairs of many pictures end here.
    fn may_hold(&self, look: &Look, looks: &[Look], within_s: f64) -> bool {
        let camera = look.camera.as_deref();
        let is_near = self.hash.distance(look.measured.hash) <= MAX_DISTANCE
            && near_in_time(self.taken, look.taken, within_s)
            && self
                .camera
                .is_none_or(|own| camera.is_none_or(|other| own == other));
        let first = looks.get(self.first).filter(|_| is_near);
        first.is_some_and(|first| first.measured.sketch.similarity(&look.measured.sketch) >= ALIKE)
    }

    /// Returns whether a picture is near the first or the last one of the set, by its views.
    fn holds(&mut self, views: &Views, looks: &[Look]) -> bool {
        let is_same = |own: &Views| own.similarity(views) >= SIMILAR;
        let views_of = |place: usize| Some(looks.get(place)?.measured.thumbnail.views());
        if self.views.is_none() {
            self.views = views_of(self.first);
        }
        self.views.as_ref().is_some_and(is_same)
            || self.last != self.first && views_of(self.last).as_ref().is_some_and(is_same)
    }
}

/// Finds the set of each picture: the place of the set's first picture, in the order of time. A
/// picture without duplicate is its own set. `continues` is called once a picture.
///
/// # Errors
/// That of `continues`.
pub fn sets<E>(
    looks: &[Look],
    within_s: f64,
    continues: impl Fn() -> Result<(), E>,
) -> Result<Vec<usize>, E> {
    let mut order: Vec<usize> = (0..looks.len()).collect();
    let taken = |place: usize| looks.get(place).and_then(|look| look.taken);
    // Stable: pictures without time come first, in their own order.
    order.sort_by_key(|place| taken(*place));
    let mut found: Vec<usize> = (0..looks.len()).collect();
    let mut sets: Vec<Set<'_>> = Vec::new();
    for place in order {
        continues()?;
        let Some(look) = looks.get(place) else {
            continue;
        };
        let camera = look.camera.as_deref();
        let may_hold = |set: &&mut Set<'_>| set.may_hold(look, looks, within_s);
        let candidates: Vec<&mut Set<'_>> = sets.iter_mut().rev().filter(may_hold).collect();
        let views = (!candidates.is_empty()).then(|| look.measured.thumbnail.views());
        // On all cores: pictures of few scenes have many candidates each.
        let matching = views.as_ref().and_then(|views| {
            let candidates = candidates.into_par_iter();
            candidates.find_map_first(|set| set.holds(views, looks).then_some(set))
        });
        match matching {
            Some(set) => {
                set.taken = set.taken.or(look.taken);
                set.camera = set.camera.or(camera);
                set.last = place;
                if let Some(slot) = found.get_mut(place) {
                    *slot = set.first;
                }
            }
            None => {
                sets.push(Set {
                    first: place,
                    last: place,
                    hash: look.measured.hash,
                    taken: look.taken,
                    camera,
                    views,
                });
                if let Some(old) = sets.len().checked_sub(MAX_VIEWS + 1) {
                    sets.iter_mut()
                        .take(old + 1)
                        .for_each(|set| set.views = None);
                }
            }
        }
    }
    Ok(found)
}

/// Returns whether two times may be of one burst; an unknown time may.
fn near_in_time(a: Option<Timestamp>, b: Option<Timestamp>, within_s: f64) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return true;
    };
    a.duration_until(b).as_secs_f64().abs() <= within_s
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::convert::Infallible;

    use image::{GrayImage, Luma};

    use super::*;

    /// A camera that stands still: one background, and an object at a place.
    fn scene(background: u32, object: u32) -> GrayImage {
        GrayImage::from_fn(320, 240, |x, y| {
            let is_object = x / 32 == object && (80..160).contains(&y);
            let level = (x * background / 7 + y * background / 11) % 160;
            Luma([if is_object {
                250
            } else {
                u8::try_from(40 + level).unwrap()
            }])
        })
    }

    fn look(picture: &GrayImage, taken: Option<&str>) -> Look {
        Look {
            measured: Arc::new(Measured::of(picture)),
            taken: taken.map(|text| format!("{text}Z").parse().unwrap()),
            camera: None,
        }
    }

    fn found(looks: &[Look]) -> Vec<usize> {
        sets(looks, 10.0, || Ok::<(), Infallible>(())).unwrap()
    }

    #[test]
    fn burst_is_one_set_and_another_scene_is_not() {
        let burst = [0, 1].map(|object| look(&scene(3, object), None));
        let other = look(&scene(17, 0), None);
        let [first, second] = burst;
        assert_eq!(found(&[first, other, second]), [0, 1, 0]);
    }

    #[test]
    fn visits_at_a_camera_that_stands_still_are_no_duplicates() {
        let at = |minute: u32| format!("2026-03-01T10:{minute:02}:00");
        let visits = (0..6).map(|n| look(&scene(3, n), Some(&at(n))));
        assert_eq!(found(&visits.collect::<Vec<_>>()), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn pictures_near_the_first_are_one_burst_in_any_order() {
        let at = |second: u32| format!("2026-03-01T10:00:{second:02}");
        let looks = [9, 0, 4, 10].map(|second| look(&scene(3, 1), Some(&at(second))));
        assert_eq!(found(&looks), [1, 1, 1, 1]);
    }

    #[test]
    fn pictures_every_few_seconds_do_not_chain() {
        let at = |n: u32| format!("2026-03-01T10:{:02}:{:02}", n * 8 / 60, n * 8 % 60);
        let looks: Vec<Look> = (0..6).map(|n| look(&scene(3, 1), Some(&at(n)))).collect();
        assert_eq!(found(&looks), [0, 0, 2, 2, 4, 4]);
        // A copy that has lost its time joins the set of the first that looks like it.
        let copy = look(&scene(3, 1), None);
        let looks: Vec<Look> = std::iter::once(copy).chain(looks).collect();
        assert_eq!(found(&looks), [0, 0, 0, 3, 3, 5, 5]);
    }

    #[test]
    fn pictures_of_two_cameras_are_no_duplicates() {
        let of = |camera: Option<&str>| Look {
            camera: camera.map(str::to_owned),
            ..look(&scene(3, 1), Some("2026-03-01T10:00:00"))
        };
        let looks = [Some("gate"), Some("yard"), None, Some("gate")].map(of);
        // The one of an unknown camera joins the latest set that it resembles.
        assert_eq!(found(&looks), [0, 1, 1, 0]);
    }
}
