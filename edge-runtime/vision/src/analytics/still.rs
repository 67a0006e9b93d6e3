//! Tracks that have neither moved nor changed since their first sight: posts, shadows, parked cars.
//!
//! - A track is still until its centre is [`FARTHEST`] sizes from its first box, or a share of the
//!   pixels of that box has changed. It is never still again.
//! - Pixels count only while the track is seen, because other objects pass in front of it.
//! - Light is no change: samples are relative to their mean, and slow changes are followed.
//! - A box without contrast can't show change: its track is not still.
//! - At most [`MAX_TRACKS`] tracks are known, with [`SIDE`]² samples of each still one.

use watchkeeper_contract::id::TrackId;

use super::recent::Recent;
use crate::cells::Luma;
use crate::detections::Detection;
use crate::frame::Picture;
use crate::geometry::BBox;

const MAX_TRACKS: usize = 4096;
/// Frames after which an unseen track is forgotten: longer than trackers remember one by default.
const MAX_FRAMES_UNSEEN: u64 = 512;
/// Samples along each side of a box.
const SIDE: usize = 12;
/// Grey levels by which a sample must change; above the noise of coding.
const LEVELS: f32 = 20.0;
/// Share of changed samples above which an object is not still.
const CHANGED: f32 = 0.2;
/// Sizes by which the centre of a still object's box moves at most, because boxes jitter.
const FARTHEST: f64 = 0.75;
/// Grey levels between the darkest and the lightest sample that a change needs to be visible.
const LEAST_CONTRAST: f32 = 40.0;
/// Seconds in which slow changes of light become the normal state.
const SLOW_S: f64 = 10.0;

/// Samples of the luma of a box, relative to their mean.
type Samples = [f32; SIDE * SIDE];

#[derive(Debug, Clone)]
pub struct StillTracks {
    /// `None` for a track that is not still.
    tracks: Recent<Option<Box<FirstSight>>>,
    last_s: f64,
}

#[derive(Debug, Clone)]
struct FirstSight {
    bbox: BBox,
    samples: Samples,
}

impl Default for StillTracks {
    fn default() -> Self {
        Self {
            tracks: Recent::new(MAX_TRACKS),
            last_s: 0.0,
        }
    }
}

impl StillTracks {
    /// Processes a frame at `time_s` seconds of source time, with boxes in pixels of its picture.
    pub fn observe<'a>(
        &mut self,
        picture: &Picture,
        tracked: impl Iterator<Item = &'a Detection>,
        time_s: f64,
    ) {
        let follow = ((time_s - self.last_s) / SLOW_S).clamp(0.0, 1.0) as f32;
        self.last_s = time_s;
        self.tracks.next_round(MAX_FRAMES_UNSEEN);
        for d in tracked {
            let Some(track) = d.track else {
                continue;
            };
            if let Some(known) = self.tracks.touch(track) {
                let has_changed = known
                    .as_mut()
                    .is_some_and(|first| !d.held && first.has_changed(picture, &d.bbox, follow));
                if has_changed {
                    *known = None;
                }
            } else {
                let first = FirstSight::new(picture, &d.bbox).map(Box::new);
                self.tracks.touch_or_insert(track, first);
            }
        }
    }

    pub fn is_still(&self, track: TrackId) -> bool {
        self.tracks.get(track).is_some_and(Option::is_some)
    }
}

impl FirstSight {
    /// `None` for a box without contrast.
    fn new(picture: &Picture, bbox: &BBox) -> Option<Self> {
        let samples = samples(picture, bbox)?;
        let darkest = samples.iter().copied().fold(f32::INFINITY, f32::min);
        let lightest = samples.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        (lightest - darkest >= LEAST_CONTRAST).then_some(Self {
            bbox: *bbox,
            samples,
        })
    }

    /// Compares a later frame, in which the track has the box `bbox`; `follow` is the share by
    /// which slow changes are followed.
    fn has_changed(&mut self, picture: &Picture, bbox: &BBox, follow: f32) -> bool {
        let Some(now) = samples(picture, &self.bbox) else {
            return true;
        };
        let mut changed = 0;
        for (before, now) in self.samples.iter_mut().zip(now) {
            changed += usize::from((now - *before).abs() > LEVELS);
            *before += (now - *before) * follow;
        }
        has_moved(&self.bbox, bbox) || changed as f32 > CHANGED * now.len() as f32
    }
}

/// Whether the centre of a box is further from that of the first one than boxes jitter.
pub fn has_moved(first: &BBox, now: &BBox) -> bool {
    let (from, to) = (first.center(), now.center());
    (to.x - from.x).hypot(to.y - from.y) / first.area().sqrt() > FARTHEST
}

/// `None` for an empty picture.
fn samples(picture: &Picture, bbox: &BBox) -> Option<Samples> {
    let luma = Luma::of(picture);
    let place = |from: f64, size: f64, n: usize, pixels: u32| {
        let at = from + (n as f64 + 0.5) / SIDE as f64 * size;
        at.clamp(0.0, f64::from(pixels.saturating_sub(1))) as usize
    };
    let mut samples = [0.0; SIDE * SIDE];
    for (n, sample) in samples.iter_mut().enumerate() {
        let x = place(bbox.x1, bbox.width(), n % SIDE, picture.width);
        let y = place(bbox.y1, bbox.height(), n / SIDE, picture.height);
        *sample = f32::from(luma.at(x, y)?);
    }
    let mean = samples.iter().sum::<f32>() / samples.len() as f32;
    for sample in &mut samples {
        *sample -= mean;
    }
    Some(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::testing::tracked;

    const TRACK: TrackId = TrackId(1);

    /// Stripes, with those between columns `dark` blackened, in a light of `light`.
    fn picture(dark: std::ops::Range<u32>, light: u8) -> Picture {
        let pixels = (0..100 * 100).flat_map(|n| {
            let x = n % 100;
            let stripe = if x / 8 % 2 == 0 { 40 } else { 120 };
            [if dark.contains(&x) { 0 } else { stripe + light }; 3]
        });
        Picture::rgb(100, 100, pixels.collect())
    }

    /// Whether a track is still after these pictures and left edges of its box, ten a second.
    fn is_still<'a>(frames: impl IntoIterator<Item = (&'a Picture, f64)>) -> bool {
        let mut still = StillTracks::default();
        for (n, (picture, x)) in frames.into_iter().enumerate() {
            let frame = tracked(&[(TRACK.0, BBox::new(x, 20.0, x + 40.0, 80.0))]);
            still.observe(picture, frame.boxes.iter(), n as f64 / 10.0);
        }
        still.is_still(TRACK)
    }

    #[test]
    fn object_that_neither_moves_nor_changes_is_still() {
        let (plain, passer) = (picture(0..0, 0), picture(0..12, 0));
        assert!(is_still([(&plain, 10.0), (&plain, 14.0), (&plain, 8.0)]));
        assert!(
            is_still([(&plain, 20.0), (&passer, 20.0)]),
            "beside its box"
        );
    }

    #[test]
    fn object_that_moves_or_changes_is_not_still_again() {
        let (plain, changed) = (picture(0..0, 0), picture(30..44, 0));
        assert!(!is_still([(&plain, 0.0), (&plain, 50.0), (&plain, 0.0)]));
        assert!(!is_still([
            (&plain, 20.0),
            (&changed, 20.0),
            (&plain, 20.0)
        ]));
    }

    #[test]
    fn change_of_the_light_is_no_change_of_an_object() {
        let (plain, light) = (picture(0..0, 0), picture(0..0, 100));
        assert!(is_still([(&plain, 20.0), (&light, 20.0)]));
    }

    #[test]
    fn box_without_contrast_is_not_still() {
        let black = picture(0..100, 0);
        assert!(!is_still([(&black, 20.0), (&black, 20.0)]));
    }
}
