//! Detects pictures that show nothing: frozen and black ones.
//!
//! Sans-IO, by presentation time. A grid of luma samples is compared twice a second.
//! - *Frozen*: the grid is identical for [`FROZEN_AFTER`]. Sensor noise changes some sample of a
//!   real camera in that time, even at night, so no threshold is needed. A codec that repeats a
//!   noiseless still scene is distinguished only by this time.
//! - *Black*: the grid is without contrast (spread of the 5th to 95th percentile) for
//!   [`BLACK_AFTER`]. A covered lens or dead sensor is flat; a night scene with one lamp is not.

use std::time::Duration;

use watchkeeper_contract::source::Blindness;
use watchkeeper_vision::frame::{Picture, PixelFormat};

/// Time without any change after which a picture is frozen.
pub const FROZEN_AFTER: Duration = Duration::from_secs(30);

/// Time without contrast after which a picture is black.
pub const BLACK_AFTER: Duration = Duration::from_secs(3);

/// Interval between two comparisons.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Samples along each side of the grid.
const GRID_SIZE: usize = 32;

/// Max spread of a flat picture, of 255.
const MAX_FLAT_SPREAD: u8 = 6;

/// Blindness detector of one source.
#[derive(Debug, Default)]
pub struct BlindWatch {
    last_check: Option<Duration>,
    grid: Vec<u8>,
    /// Time of the last change of the grid.
    changed: Duration,
    /// Time since which the grid has no contrast.
    flat_since: Option<Duration>,
    blind: Option<(Blindness, Duration)>,
}

/// A change of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlindChange {
    /// The picture shows nothing.
    Blind(Blindness),
    /// The picture is useful again.
    Seeing {
        /// Time since the first useless picture.
        lasted: Duration,
    },
}

impl BlindWatch {
    /// Checks a picture; skips it within [`CHECK_INTERVAL`] of the last check.
    pub fn observe(&mut self, pts: Duration, picture: &Picture) -> Option<BlindChange> {
        if self
            .last_check
            .is_some_and(|last| pts < last + CHECK_INTERVAL)
        {
            return None;
        }
        self.last_check = Some(pts);
        let grid = sample(picture);
        if grid != self.grid {
            self.changed = pts;
        }
        self.flat_since = is_flat(&grid).then(|| self.flat_since.unwrap_or(pts));
        self.grid = grid;
        let black = self.flat_since.filter(|since| pts >= *since + BLACK_AFTER);
        let frozen = Some(self.changed).filter(|since| pts >= *since + FROZEN_AFTER);
        let now = black
            .map(|since| (Blindness::Black, since))
            .or(frozen.map(|since| (Blindness::Frozen, since)));
        match (self.blind, now) {
            (None, Some((kind, since))) => {
                self.blind = Some((kind, since));
                Some(BlindChange::Blind(kind))
            }
            (Some((_, since)), None) => {
                self.blind = None;
                Some(BlindChange::Seeing {
                    lasted: pts.saturating_sub(since),
                })
            }
            _ => None,
        }
    }
}

fn is_flat(grid: &[u8]) -> bool {
    let mut sorted = grid.to_vec();
    sorted.sort_unstable();
    let at = |percent: usize| sorted.get(sorted.len() * percent / 100).copied();
    match (at(5), at(95)) {
        (Some(low), Some(high)) => high - low <= MAX_FLAT_SPREAD,
        _ => false,
    }
}

/// Samples luma at the grid's points; in RGB, green stands for luma.
fn sample(picture: &Picture) -> Vec<u8> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let plane = picture.planes.plane(0);
    let (step, offset) = match picture.format {
        PixelFormat::I420 | PixelFormat::Nv12 => (1, 0),
        PixelFormat::Rgb => (3, 1),
    };
    let mut grid = Vec::with_capacity(GRID_SIZE * GRID_SIZE);
    for row in 0..GRID_SIZE {
        let y = (2 * row + 1) * height / (2 * GRID_SIZE);
        for column in 0..GRID_SIZE {
            let x = (2 * column + 1) * width / (2 * GRID_SIZE);
            grid.extend(plane.data.get(y * plane.stride + x * step + offset));
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::feed::testing::grey;

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
                let change = watch.observe(Duration::from_millis(n * 200), &picture(n));
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
                (30, BlindChange::Blind(Blindness::Frozen)),
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
        assert_eq!(seen, [(3, BlindChange::Blind(Blindness::Black))]);
    }

    #[test]
    fn empty_picture_is_not_black() {
        let mut watch = BlindWatch::default();
        for n in 0..100 {
            assert_eq!(
                watch
                    .observe(Duration::from_secs(n), &grey(0, 0, 0))
                    .filter(|c| *c == BlindChange::Blind(Blindness::Black)),
                None
            );
        }
    }
}
