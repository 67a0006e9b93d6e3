//! Reasons for which nothing is known about a time.

use watchkeeper_contract::coverage::SpanEnd;

/// Why nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The records of that time are deleted.
    Deleted,
    /// No pipeline watched the camera.
    NotWatched,
    /// Watching was interrupted, but by no pause.
    Interrupted(SpanEnd),
    /// The pipeline was paused from then on, in milliseconds since 1970. Without an end it has not
    /// watched since.
    Paused { from_ms: i64, to_ms: Option<i64> },
    /// The clock of the box was wrong.
    ClockWrong,
    /// Events of that time wait for a disk that refuses them.
    Unstored,
    /// The rule was inactive by its schedule.
    Inactive,
    /// The rule made no further event for a time after one.
    CoolingDown,
    /// The detector knows no classes.
    NoClasses { model: String },
    /// A step renamed the classes, and the rule named none.
    RenamedClasses,
    /// Only these classes were reported.
    OtherClasses { told: Vec<String> },
    /// Only these events were reported.
    OtherEvents { told: Vec<String> },
    /// The pipeline had no rule.
    NoRule,
}

impl Why {
    /// Whether a pipeline watched the camera all the same.
    pub(super) fn is_watched(&self) -> bool {
        matches!(
            self,
            Self::CoolingDown
                | Self::Unstored
                | Self::NoClasses { .. }
                | Self::RenamedClasses
                | Self::OtherClasses { .. }
                | Self::OtherEvents { .. }
                | Self::NoRule
        )
    }
}
