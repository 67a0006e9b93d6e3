//! Choice of a device's mode: the one that needs the least work and still serves.
//!
//! The order is: colour, at most full HD, enough frames per second, more pixels, the cheapest pixel
//! format, the lowest rate that is enough.
//!
//! - The size never depends on a deployed model: lines and zones are in pixels of the picture.
//! - Pure: GStreamer's types stay in `device`.

/// Min rate for tracking; a mode below it is chosen only if none up to full HD reaches it.
const MIN_FPS: f64 = 15.0;

/// Max rate that is chosen if there is a choice.
const MAX_FPS: f64 = 30.0;

/// Max pixels that are chosen if there is a choice.
const MAX_PIXELS: u64 = 1920 * 1080;

/// Frames per second as a fraction; both parts are positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) numer: i32,
    pub(super) denom: i32,
}

impl Rate {
    pub(super) fn new(numer: i32, denom: i32) -> Option<Self> {
        (numer > 0 && denom > 0).then_some(Self { numer, denom })
    }

    fn fps(self) -> f64 {
        f64::from(self.numer) / f64::from(self.denom)
    }
}

/// Work until a picture is I420 or NV12, the cheapest first.
///
/// Processor time for 1280×720 in ms: `None` 0, `Packed` 0.1 to 0.4, `Rgb` 1.9 to 2.4, `Jpeg` 2.0
/// (docs/ref/benchmarks.md). `Rgb` comes first of two equals: it is without loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    None,
    /// Another order of luma and chroma.
    Packed,
    /// A matrix for each pixel, or a depth to reduce.
    Rgb,
    Jpeg,
    /// A picture without colour; chosen only if there is no other.
    Gray,
}

impl Work {
    /// Returns the work for a raw format, by GStreamer's name.
    pub(super) fn of_raw(format: &str) -> Self {
        match format {
            "I420" | "NV12" => Self::None,
            "YUY2" | "UYVY" | "YVYU" | "VYUY" | "YV12" | "NV21" | "NV16" | "NV61" | "NV24"
            | "Y42B" | "Y41B" | "YUV9" | "YVU9" => Self::Packed,
            _ if format.starts_with("GRAY") => Self::Gray,
            _ => Self::Rgb,
        }
    }
}

/// A mode of a device, with one of its rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) work: Work,
    /// GStreamer's name of the raw format; absent for JPEG.
    pub(super) format: Option<String>,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) rate: Rate,
}

/// Pictures that the source must deliver.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Need {
    /// The size in pixels that the address asks for.
    pub(super) size: Option<[u32; 2]>,
    /// The rate that the address asks for.
    pub(super) fps: Option<u32>,
    /// The rate above which the source drops pictures.
    pub(super) max_fps: Option<f64>,
}

impl Need {
    fn is_met_by(&self, mode: &Mode) -> bool {
        let asked = self.fps.map(f64::from);
        self.size
            .is_none_or(|size| size == [mode.width, mode.height])
            && asked.is_none_or(|fps| (fps - mode.rate.fps()).abs() < 0.001)
    }

    /// Returns the rate that is enough; more is no gain before resolution.
    fn min_fps(&self) -> f64 {
        self.max_fps.unwrap_or(MIN_FPS).min(MIN_FPS)
    }

    /// Returns the whole rate to ask of a device that has a range.
    pub(super) fn useful_fps(&self) -> i32 {
        let wished = self.fps.map(f64::from).or(self.max_fps);
        wished.unwrap_or(MAX_FPS).clamp(1.0, 1000.0).ceil() as i32
    }

    /// Returns the frames per second that a mode with this rate delivers beyond what is used.
    fn surplus(&self, rate: Rate) -> f64 {
        let used = self.max_fps.unwrap_or(MAX_FPS).min(MAX_FPS);
        rate.fps() - used
    }
}

/// Chooses the best mode, `None` if none meets the need.
pub(super) fn choose(modes: impl IntoIterator<Item = Mode>, need: &Need) -> Option<Mode> {
    let fitting = modes.into_iter().filter(|mode| need.is_met_by(mode));
    fitting.max_by(|a, b| {
        rank(a, need)
            .partial_cmp(&rank(b, need))
            .unwrap_or(std::cmp::Ordering::Equal)
    })
}

/// Ranks a mode; the greatest is the best. Tenths and milliseconds keep rates comparable.
fn rank(mode: &Mode, need: &Need) -> (bool, bool, i64, i64, std::cmp::Reverse<Work>, i64) {
    let pixels = u64::from(mode.width) * u64::from(mode.height);
    let fits = pixels <= MAX_PIXELS;
    let pixels = i64::try_from(pixels).unwrap_or(i64::MAX);
    let tenths = (mode.rate.fps().min(need.min_fps()) * 10.0) as i64;
    let surplus = (need.surplus(mode.rate) * 1000.0) as i64;
    // Below the wished rate the nearest is the fastest, above it the slowest. A rate above is
    // chosen over one below only where a lower one would lose frames that the source delivers.
    let nearness = match (surplus, need.max_fps) {
        (0.., Some(_)) => i64::MAX / 2 - surplus,
        (0, None) => i64::MAX / 2,
        (1.., None) => i64::MIN / 2 - surplus,
        (..0, _) => surplus,
    };
    (
        mode.work != Work::Gray,
        fits,
        tenths,
        if fits { pixels } else { -pixels },
        std::cmp::Reverse(mode.work),
        nearness,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mode(format: &str, width: u32, height: u32, fps: i32) -> Mode {
        let is_jpeg = format == "JPEG";
        Mode {
            work: if is_jpeg {
                Work::Jpeg
            } else {
                Work::of_raw(format)
            },
            format: (!is_jpeg).then(|| format.to_owned()),
            width,
            height,
            rate: Rate::new(fps, 1).expect("a rate"),
        }
    }

    fn chosen(modes: &[Mode], need: Need) -> Option<Mode> {
        let first = choose(modes.iter().cloned(), &need);
        let backwards = choose(modes.iter().rev().cloned(), &need);
        assert_eq!(first, backwards, "the order of the modes does not matter");
        first
    }

    #[test]
    fn format_without_conversion_is_preferred() {
        let modes = ["BGR", "JPEG", "YUY2", "NV12", "GRAY8"].map(|f| mode(f, 640, 480, 30));
        assert_eq!(chosen(&modes, Need::default()), Some(modes[3].clone()));
        let modes = ["GRAY8", "JPEG", "BGR"].map(|f| mode(f, 640, 480, 30));
        assert_eq!(chosen(&modes, Need::default()), Some(modes[2].clone()));
    }

    #[test]
    fn colour_is_preferred_to_gray() {
        let modes = [mode("GRAY8", 640, 480, 30), mode("JPEG", 640, 480, 30)];
        assert_eq!(chosen(&modes, Need::default()), Some(modes[1].clone()));
    }

    #[test]
    fn small_colour_picture_is_preferred_to_a_large_gray_one() {
        let modes = [mode("GRAY8", 1280, 720, 30), mode("YUY2", 640, 480, 30)];
        assert_eq!(chosen(&modes, Need::default()), Some(modes[1].clone()));
    }

    #[test]
    fn full_hd_is_not_exceeded_for_a_higher_rate() {
        let modes = [mode("JPEG", 3840, 2160, 30), mode("YUY2", 640, 480, 5)];
        assert_eq!(chosen(&modes, Need::default()), Some(modes[1].clone()));
    }

    #[test]
    fn lowest_rate_above_the_limit_is_enough() {
        let modes = [30, 15, 10, 5].map(|fps| mode("YUY2", 1280, 720, fps));
        let need = |max_fps| Need {
            max_fps: Some(max_fps),
            ..Need::default()
        };
        assert_eq!(chosen(&modes, need(8.0)), Some(modes[2].clone()));
        assert_eq!(chosen(&modes, need(12.0)), Some(modes[1].clone()));
        assert_eq!(chosen(&modes, need(60.0)), Some(modes[0].clone()));
    }

    #[test]
    fn slow_source_gets_more_pixels() {
        let modes = [mode("YUY2", 1920, 1080, 5), mode("YUY2", 640, 480, 30)];
        let slow = Need {
            max_fps: Some(2.0),
            ..Need::default()
        };
        assert_eq!(chosen(&modes, slow), Some(modes[0].clone()));
        assert_eq!(chosen(&modes, Need::default()), Some(modes[1].clone()));
    }

    #[test]
    fn requested_size_and_rate_are_exact() {
        let modes = [mode("YUY2", 1920, 1080, 30), mode("JPEG", 640, 480, 30)];
        let need = |size, fps| Need {
            size: Some(size),
            fps,
            max_fps: None,
        };
        assert_eq!(
            chosen(&modes, need([640, 480], Some(30))),
            Some(modes[1].clone())
        );
        assert_eq!(chosen(&modes, need([640, 480], Some(25))), None);
        assert_eq!(chosen(&modes, need([800, 600], None)), None);
    }

    proptest! {
        #[test]
        fn some_mode_is_chosen_and_none_has_more_at_less_work(
            modes in prop::collection::vec(
                (0usize..5, 1u32..4000, 1u32..3000, 1i32..121), 1..20),
            max_fps in prop::option::of(0.1f64..100.0),
        ) {
            let formats = ["NV12", "YUY2", "BGR", "JPEG", "GRAY8"];
            let modes: Vec<Mode> = modes.into_iter()
                .map(|(f, w, h, fps)| mode(formats[f], w, h, fps))
                .collect();
            let need = Need { max_fps, ..Need::default() };
            let best = choose(modes.iter().cloned(), &need).expect("a mode");
            let is_better = |m: &Mode| {
                [m.width, m.height] == [best.width, best.height]
                    && m.rate == best.rate
                    && m.work < best.work
            };
            prop_assert!(!modes.iter().any(is_better));
        }
    }
}
