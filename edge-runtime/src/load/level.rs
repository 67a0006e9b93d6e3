//! The order in which load is shed, and what a level grants to one pipeline.
//!
//! | level | shed in addition to lower levels |
//! |---|---|
//! | 1, 2, 3 | detectors run at 3/4, 1/2, 1/4 of their rate |
//! | 4 | detectors run once a second |
//! | 5 | pipelines of low priority pause |
//! | 6 | no new clips |
//!
//! A smaller input size would come after level 4. No model has a second one, so that step is left
//! out (docs/design/0048-load-shedding.md).

use std::fmt;

use watchkeeper_contract::pipeline::Priority;

/// Looks a second that heat leaves to every pipeline that is not paused.
pub const MIN_FPS: f64 = 1.0;

/// How much load is shed, from 0 (none) to [`Level::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Level(u8);

/// Work that a pipeline may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grant {
    /// Looks a second; absent: no limit by heat.
    pub max_fps: Option<f64>,
    pub is_paused: bool,
    pub may_clip: bool,
}

impl Default for Grant {
    fn default() -> Self {
        Self {
            max_fps: None,
            is_paused: false,
            may_clip: true,
        }
    }
}

impl Level {
    /// Nothing is shed.
    pub const NONE: Self = Self(0);

    /// Everything that may be shed is.
    pub const MAX: Self = Self(6);

    const LOW_PRIORITY_PAUSED: Self = Self(5);

    const NO_CLIPS: Self = Self(6);

    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    #[must_use]
    pub fn higher(self) -> Self {
        Self(self.0 + 1).min(Self::MAX)
    }

    #[must_use]
    pub const fn lower(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Share of the usual rate that detectors keep.
    fn rate_share(self) -> Option<f64> {
        match self.0 {
            0 => None,
            1 => Some(0.75),
            2 => Some(0.5),
            3 => Some(0.25),
            _ => Some(0.0),
        }
    }

    /// Grant of a pipeline that looked `usual_fps` times a second before load was shed.
    #[must_use]
    pub fn grant(self, priority: Priority, usual_fps: f64) -> Grant {
        let share = self.rate_share();
        Grant {
            max_fps: share.map(|share| (usual_fps * share).max(MIN_FPS)),
            is_paused: priority == Priority::Low && self >= Self::LOW_PRIORITY_PAUSED,
            may_clip: self < Self::NO_CLIPS,
        }
    }

    /// Work that this level sheds, as the object of a sentence.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self.0 {
            0 => "nothing is shed",
            1 => "detectors run at three quarters of their rate",
            2 => "detectors run at half of their rate",
            3 => "detectors run at a quarter of their rate",
            4 => "detectors run once a second",
            5 => "detectors run once a second, and pipelines of low priority pause",
            _ => "detectors run once a second, pipelines of low priority pause, and no clips begin",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.0, Self::MAX.0)
    }
}
