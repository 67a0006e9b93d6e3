//! Pictures that come but show nothing: frozen ones and black ones.
//!
//! Sans-IO, by presentation time. A sparse grid of luma samples is compared twice a second. *Frozen* is a grid that is
//! exactly the same for [`FROZEN_AFTER`]: sensor noise alone changes some sample of a real camera within that time,
//! also at night, so no threshold has to tell stillness from death; a codec that repeats skipped blocks of a still,
//! noiseless scene for that long is told apart by nothing but this length. *Black* is a grid without contrast
//! (the spread between its 5th and 95th percentile) for [`BLACK_AFTER`]: a covered lens or a dead sensor is flat,
//! a night scene with a single lamp is not.

use std::time::Duration;

use watchkeeper_contract::source::Blindness;
use watchkeeper_vision::frame::{Picture, PixelFormat};

/// Time without any change after which a picture counts as frozen.
pub const FROZEN_AFTER: Duration = Duration::from_secs(30);

/// Time without contrast after which a picture counts as black.
pub const BLACK_AFTER: Duration = Duration::from_secs(3);

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Samples along each side of the grid.
const GRID: usize = 32;

/// Largest spread of a flat picture, of 255.
const FLAT: u8 = 6;

/// The watch over one source.
#[derive(Debug, Default)]
pub struct BlindWatch {
    last_look: Option<Duration>,
    grid: Vec<u8>,
    /// When the grid last changed.
    changed: Duration,
    /// Since when it has no contrast.
    flat_since: Option<Duration>,
    blind: Option<(Blindness, Duration)>,
}

/// A change of mind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlindChange {
    /// The picture shows nothing.
    Blind(Blindness),
    /// It is useful again.
    Seeing {
        /// How long it was not, from the first useless picture.
        lasted: Duration,
    },
}

impl BlindWatch {
    /// Looks at a picture; pictures within half a second of the last look are passed over.
    pub fn observe(&mut self, pts: Duration, picture: &Picture) -> Option<BlindChange> {
        if self.last_look.is_some_and(|last| pts < last + LOOK_EVERY) {
            return None;
        }
        self.last_look = Some(pts);
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
        (Some(low), Some(high)) => high - low <= FLAT,
        _ => false,
    }
}

/// Luma at the grid's points; green stands for luma in RGB.
fn sample(picture: &Picture) -> Vec<u8> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let plane = picture.planes.plane(0);
    let (step, offset) = match picture.format {
        PixelFormat::I420 | PixelFormat::Nv12 => (1, 0),
        PixelFormat::Rgb => (3, 1),
    };
    let mut grid = Vec::with_capacity(GRID * GRID);
    for row in 0..GRID {
        let y = (2 * row + 1) * height / (2 * GRID);
        for column in 0..GRID {
            let x = (2 * column + 1) * width / (2 * GRID);
            grid.extend(plane.data.get(y * plane.stride + x * step + offset));
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::feed::testing::grey;

    /// A scene with `contrast` between its halves and noise of ±`noise`, different for every seed.
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
    fn a_noisy_night_scene_with_a_lamp_is_neither_frozen_nor_black() {
        assert_eq!(changes(90, |n| scene(4, 30, 3, n)), []);
    }

    #[test]
    fn a_picture_that_never_changes_is_frozen_after_half_a_minute_and_seeing_when_it_moves() {
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
    fn a_covered_lens_is_black_after_seconds_although_it_is_noisy() {
        let seen = changes(20, |n| scene(9, 0, 4, n));
        assert_eq!(seen, [(3, BlindChange::Blind(Blindness::Black))]);
    }

    #[test]
    fn an_empty_picture_is_not_judged() {
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
