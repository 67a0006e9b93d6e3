//! Detects pictures that do not show what they should: frozen, black and unusual ones.
//!
//! Sans-IO, by presentation time. The mean luma of [`GRID_SIZE`]² cells is compared twice a second.
//! - *Frozen*: the cells are identical for [`FROZEN_AFTER`]. Sensor noise changes some cell of a
//!   real camera in that time, even at night. An encoder may change cells of a frozen picture by 4
//!   levels, and leave those of a live dark scene within 1. So no threshold tells them apart.
//! - *Black*: the cells have no contrast beyond their noise for [`BLACK_AFTER`]. They have none
//!   over the picture (5th to 95th percentile), nor in a single lit cell, such as a lamp. Text that
//!   a camera writes into the upper and lower [`TEXT_ROWS`] is not a lamp.
//! - A picture in which a pipeline follows objects does not become black, however dark it is.
//! - *Moved*, *covered*, *blurred*, *black* beside the usual light: see [`view`](super::view).
//!   Checked for cameras with a fixed view, while the picture is neither frozen nor flat.

use std::time::Duration;

use watchkeeper_contract::source::Blindness;
use watchkeeper_vision::cells::{GRID_SIZE, TEXT_ROWS, cell_means};
use watchkeeper_vision::frame::Picture;

use super::view::{UsualView, ViewWatch};

/// Time without any change after which a picture is frozen.
pub const FROZEN_AFTER: Duration = Duration::from_secs(30);

/// Time without contrast after which a picture is black.
pub const BLACK_AFTER: Duration = Duration::from_secs(3);

/// Interval between two comparisons.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Max spread of the cells of a flat picture, of 255. Streets darkened to a mean of 8 have 6 to 15.
const MAX_FLAT_SPREAD: f32 = 2.0;

/// Min difference of a lit cell from the median of all, of 255.
const MIN_LIT: f32 = 8.0;

/// Spread of pure noise from the 5th to the 95th percentile of 1024 cells, and the difference of
/// the brightest of them. Both are in medians of the change from one check to the next, rounded up.
const NOISE_SPREAD: f32 = 4.0;
const NOISE_PEAK: f32 = 5.0;

/// Max noise that is allowed for; a camera that pans changes more, and is not flat for it.
const MAX_NOISE: f32 = 1.5;

/// Blindness detector of one source.
#[derive(Debug, Default)]
pub struct BlindWatch {
    last_check: Option<Duration>,
    /// Mean luma of each cell.
    grid: Vec<f32>,
    /// Time of the last change of the grid.
    changed: Duration,
    /// Time since which the grid has no contrast, and nothing was followed.
    flat_since: Option<Duration>,
    blind: Option<(Blindness, Duration)>,
    /// Absent for a camera without a fixed view.
    view: Option<ViewWatch>,
    /// Time since which the view is unusual.
    unusual_since: Option<Duration>,
}

/// A change of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlindChange {
    /// The picture does not show what it should.
    Blind {
        kind: Blindness,
        /// Time since the first such picture.
        lasted: Duration,
    },
    /// The picture shows what it should again.
    Seeing {
        /// Time since the first such picture.
        lasted: Duration,
    },
}

impl BlindWatch {
    /// Watches a camera that always shows the same view, if it `has_fixed_view`; `known` is what an
    /// earlier process knew of it.
    pub fn new(has_fixed_view: bool, known: Option<UsualView>) -> Self {
        let view = || known.map_or_else(ViewWatch::default, ViewWatch::resume);
        Self {
            view: has_fixed_view.then(view),
            ..Self::default()
        }
    }

    /// The usual view of the camera, for the next process.
    pub fn known_view(&self) -> Option<UsualView> {
        self.view.as_ref()?.known()
    }

    /// Begins with a new connection to the camera, whose usual view stays known.
    pub fn restart(&mut self) {
        if let Some(view) = &mut self.view {
            view.restart();
        }
        *self = Self {
            view: self.view.take(),
            ..Self::default()
        };
    }

    /// Checks a picture; skips it within [`CHECK_INTERVAL`] of the last check. `objects_at` is the
    /// presentation time of the latest picture in which a pipeline followed an object.
    pub fn observe(
        &mut self,
        pts: Duration,
        picture: &Picture,
        objects_at: Option<Duration>,
    ) -> Option<BlindChange> {
        if self
            .last_check
            .is_some_and(|last| pts < last + CHECK_INTERVAL)
        {
            return None;
        }
        self.last_check = Some(pts);
        let grid = cell_means(picture);
        if grid != self.grid {
            self.changed = pts;
        }
        let has_objects = objects_at.is_some_and(|at| pts < at + BLACK_AFTER);
        let is_flat = is_flat(&grid, noise(&self.grid, &grid));
        let flat_since = self
            .flat_since
            .unwrap_or(pts)
            .max(objects_at.unwrap_or_default());
        self.flat_since = is_flat.then_some(flat_since);
        let unusual = match &mut self.view {
            Some(view) if (!is_flat || has_objects) && self.changed == pts => {
                view.observe(picture, &grid)
            }
            // A repeated picture says nothing new.
            Some(view) => view.unusual(),
            None => None,
        };
        // Objects that come and go in the dark end nothing: only light does.
        let is_dark = self.blind.is_some_and(|(kind, _)| kind == Blindness::Black);
        let unusual = unusual.filter(|how| *how != Blindness::Black || !has_objects || is_dark);
        self.unusual_since = unusual.and(self.unusual_since.or(Some(pts)));
        self.grid = grid;
        let black = self.flat_since.filter(|since| pts >= *since + BLACK_AFTER);
        let frozen = Some(self.changed).filter(|since| pts >= *since + FROZEN_AFTER);
        let now = black
            .map(|since| (Blindness::Black, since))
            .or(frozen.map(|since| (Blindness::Frozen, since)))
            .or(unusual.zip(self.unusual_since));
        match (self.blind, now) {
            (None, Some((kind, since))) => {
                self.blind = Some((kind, since));
                Some(BlindChange::Blind {
                    kind,
                    lasted: pts.saturating_sub(since),
                })
            }
            // Another kind begins at the next check.
            (Some((kind, since)), now) if now.is_none_or(|(now, _)| now != kind) => {
                self.blind = None;
                Some(BlindChange::Seeing {
                    lasted: pts.saturating_sub(since),
                })
            }
            _ => None,
        }
    }
}

/// Returns the value at `percent` of sorted values.
fn percentile(sorted: &[f32], percent: usize) -> Option<f32> {
    sorted.get(sorted.len() * percent / 100).copied()
}

fn sorted(values: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut values: Vec<f32> = values.collect();
    values.sort_unstable_by(f32::total_cmp);
    values
}

/// Returns the median change of the cells beyond that of all of them, at most [`MAX_NOISE`].
fn noise(before: &[f32], now: &[f32]) -> f32 {
    let changes = || before.iter().zip(now).map(|(before, now)| now - before);
    let shift = percentile(&sorted(changes()), 50).unwrap_or(0.0);
    let rest = sorted(changes().map(|change| (change - shift).abs()));
    percentile(&rest, 50).unwrap_or(0.0).min(MAX_NOISE)
}

fn is_flat(grid: &[f32], noise: f32) -> bool {
    let values = sorted(grid.iter().copied());
    let at = |percent| percentile(&values, percent);
    let (Some(low), Some(middle), Some(high)) = (at(5), at(50), at(95)) else {
        return false;
    };
    let without_text = grid
        .get(TEXT_ROWS * GRID_SIZE..grid.len().saturating_sub(TEXT_ROWS * GRID_SIZE))
        .unwrap_or_default();
    let brightest = without_text.iter().copied().fold(middle, f32::max);
    high - low <= MAX_FLAT_SPREAD + NOISE_SPREAD * noise
        && brightest - middle < MIN_LIT + NOISE_PEAK * noise
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::feed::testing::grey;

    fn blind(kind: Blindness, lasted: Duration) -> BlindChange {
        BlindChange::Blind { kind, lasted }
    }

    /// A scene with `contrast` between its halves and seeded noise of up to `noise`.
    fn scene(low: u8, contrast: u8, noise: u8, seed: u64) -> Picture {
        let mut random = fastrand::Rng::with_seed(seed);
        let data = (0..64 * 64 * 3)
            .map(|i| {
                let base = if (i / 3) % 64 < 32 {
                    low
                } else {
                    low + contrast
                };
                base.saturating_add(random.u8(0..=noise))
            })
            .collect();
        Picture::rgb(64, 64, data)
    }

    fn changes(seconds: u64, picture: impl Fn(u64) -> Picture) -> Vec<(u64, BlindChange)> {
        let mut watch = BlindWatch::default();
        (0..seconds * 5)
            .filter_map(|n| {
                let change = watch.observe(Duration::from_millis(n * 200), &picture(n), None);
                change.map(|c| (n / 5, c))
            })
            .collect()
    }

    #[test]
    fn noisy_night_scene_with_a_lamp_is_not_blind() {
        assert_eq!(changes(90, |n| scene(4, 30, 3, n)), []);
    }

    #[test]
    fn unchanged_picture_is_frozen_until_it_moves() {
        let seen = changes(60, |n| scene(80, 60, 3, if n < 225 { 1 } else { n }));
        assert_eq!(
            seen,
            [
                (30, blind(Blindness::Frozen, FROZEN_AFTER)),
                (
                    45,
                    BlindChange::Seeing {
                        lasted: Duration::from_millis(45_000)
                    }
                ),
            ]
        );
    }

    #[test]
    fn noisy_picture_of_a_covered_lens_is_black() {
        let seen = changes(20, |n| scene(9, 0, 4, n));
        assert_eq!(seen, [(3, blind(Blindness::Black, BLACK_AFTER))]);
    }

    const BLACK: BlindChange = BlindChange::Blind {
        kind: Blindness::Black,
        lasted: BLACK_AFTER,
    };

    /// A picture of 320 by 180 pixels with nearly normal noise, made by `light` of each place.
    fn night(seed: u64, deviation: f64, light: impl Fn(f64, f64) -> f64) -> Picture {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut data = Vec::with_capacity(320 * 180 * 3);
        for y in 0..180 {
            for x in 0..320 {
                // The sum of three even numbers has a deviation of one half.
                let noise = 2.0 * (random.f64() + random.f64() + random.f64() - 1.5);
                let light = light(f64::from(x), f64::from(y)) + deviation * noise;
                data.extend([light.clamp(0.0, 255.0) as u8; 3]);
            }
        }
        Picture::rgb(320, 180, data)
    }

    /// Light of a lamp with this radius around a place, in pixels.
    fn lamp(x: f64, y: f64, at: [f64; 2], radius: f64) -> f64 {
        let distance = (x - at[0]).hypot(y - at[1]);
        if distance <= radius { 240.0 } else { 0.0 }
    }

    #[test]
    fn night_scene_with_one_small_lamp_is_not_black() {
        for (level, deviation, radius) in [(2.0, 0.5, 3.0), (4.0, 2.0, 3.0), (8.0, 4.0, 4.0)] {
            let seen = changes(12, |n| {
                night(n, deviation, |x, y| {
                    level + lamp(x, y, [235.0, 60.0], radius)
                })
            });
            assert_eq!(seen, [], "level {level}, deviation {deviation}");
        }
    }

    #[test]
    fn covered_lens_with_any_noise_is_black() {
        for (level, deviation) in [(0.0, 0.0), (2.0, 1.0), (8.0, 4.0), (16.0, 10.0)] {
            let seen = changes(5, |n| night(n, deviation, |_, _| level));
            assert_eq!(seen, [(3, BLACK)], "level {level}, deviation {deviation}");
        }
    }

    #[test]
    fn covered_lens_with_a_timestamp_and_hot_pixels_is_black() {
        let seen = changes(5, |n| {
            night(n, 2.0, |x, y| {
                let is_text = (6.0..15.0).contains(&y) && x < 130.0 && x as u32 % 4 < 2;
                let is_hot = x % 97.0 == 5.0 && y % 89.0 == 7.0;
                if is_text || is_hot { 250.0 } else { 6.0 }
            })
        });
        assert_eq!(seen, [(3, BLACK)]);
    }

    #[test]
    fn picture_with_objects_is_not_black_until_they_are_gone() {
        let mut watch = BlindWatch::default();
        let mut seen = Vec::new();
        for half_second in 0..60 {
            let pts = Duration::from_millis(half_second * 500);
            let objects_at = match half_second {
                0..20 => Some(pts),
                20..40 => Some(Duration::from_secs(10)),
                _ => Some(pts),
            };
            let change = watch.observe(pts, &scene(4, 0, 3, half_second), objects_at);
            seen.extend(change.map(|change| (pts.as_secs(), change)));
        }
        let lasted = Duration::from_secs(10);
        assert_eq!(seen, [(13, BLACK), (20, BlindChange::Seeing { lasted })]);
    }

    #[test]
    fn dark_picture_with_objects_is_not_black_if_it_repeats() {
        let mut watch = BlindWatch::new(true, None);
        let mut seen = (0..120).filter_map(|half_second| {
            let pts = Duration::from_millis(half_second * 500);
            let is_dark = half_second >= 60;
            let picture = match is_dark {
                true => scene(2, 1, 2, half_second / 2),
                false => scene(80, 60, 3, half_second),
            };
            watch.observe(pts, &picture, is_dark.then_some(pts))
        });
        assert_eq!(seen.next(), None);
    }

    #[test]
    fn objects_in_the_dark_do_not_end_the_lack_of_light() {
        let mut watch = BlindWatch::new(true, None);
        let mut seen = Vec::new();
        for half_second in 0..160 {
            let pts = Duration::from_millis(half_second * 500);
            let picture = match half_second {
                60..140 => scene(3, 6, 3, half_second),
                _ => scene(80, 60, 3, half_second),
            };
            let has_objects = half_second >= 100 && half_second % 20 < 5;
            let change = watch.observe(pts, &picture, has_objects.then_some(pts));
            seen.extend(change.map(|change| (pts.as_secs(), change)));
        }
        let [
            (began, BlindChange::Blind { kind, .. }),
            (ended, BlindChange::Seeing { .. }),
        ] = seen[..]
        else {
            panic!("not one time without light: {seen:?}");
        };
        assert_eq!(
            (kind, began < 35, ended >= 70),
            (Blindness::Black, true, true)
        );
    }

    #[test]
    fn empty_picture_is_not_black() {
        let mut watch = BlindWatch::default();
        for n in 0..100 {
            assert_eq!(
                watch
                    .observe(Duration::from_secs(n), &grey(0, 0, 0), None)
                    .filter(|c| matches!(
                        c,
                        BlindChange::Blind {
                            kind: Blindness::Black,
                            ..
                        }
                    )),
                None
            );
        }
    }
}
