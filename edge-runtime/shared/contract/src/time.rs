//! Wall-clock stamps with their quality.
//!
//! Logic runs on monotonic time; a [`Wall`] is for people and for records that leave the box.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far a wall-clock stamp can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeQuality {
    /// The kernel reports that a time source disciplines the clock.
    Synced,
    /// The clock was set once, by a person or a battery-backed clock, and runs free.
    Estimated,
    /// The clock is known to be wrong, such as 1970 after a cold boot without a battery.
    Unsynced,
}

/// A wall-clock instant in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Wall {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub unix_ms: i64,
    /// How far to trust it.
    pub quality: TimeQuality,
}
