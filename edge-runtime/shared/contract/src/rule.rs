//! Rules: what a person wants to be told about, in terms of a workflow's steps.
//!
//! A rule never repeats geometry. It names a step of the workflow (a line counter, a time-in-zone) or one of
//! its outputs, so that a count on the screen, a number in a result and an event can't disagree.

use serde::{Deserialize, Serialize};

use crate::id::ChannelId;

/// One rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuleSpec {
    /// Name of the rule, unique in its pipeline.
    pub name: String,
    /// What has to happen.
    pub when: Condition,
    /// Only objects of these classes; empty means every class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Only objects whose score lies in this band, both ends included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Band>,
    /// Only at these times; absent means always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Seconds after an event began during which this rule begins no other one (for the same track where the
    /// condition is about tracks). What was held back is counted in the next event.
    #[serde(default)]
    pub cooldown_s: f64,
    /// Whether the cool-down is one for all of them, also where the condition is about tracks: at most one event in `cooldown_s`,
    /// whoever comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_cooldown: bool,
    /// How much it matters.
    #[serde(default)]
    pub severity: Severity,
    /// Confidence gates of the decision; absent fields keep the defaults.
    #[serde(default)]
    pub gates: Gates,
    /// Whether a second opinion may also lower what an event of this rule is taken for. Without it it may
    /// only raise it. Not for the severity `critical`, which is never silenced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second_opinion_may_lower: bool,
    /// Channels of the configuration (`[channels.NAME]`) by which people are told of its events, whatever their severity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<ChannelId>,
    /// The clip that its events keep beside their pictures; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<ClipSpec>,
}

/// From when to when a clip goes, around the moment at which an event begins, by the source's time. Both together are 1 to 120 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClipSpec {
    /// Seconds before the event, 0 to 30. Default 5.
    pub before_s: f64,
    /// Seconds after it began, whether it goes on or not. Default 10.
    pub after_s: f64,
}

impl ClipSpec {
    /// Most seconds before the event.
    pub const MOST_BEFORE_S: f64 = 30.0;
    /// Least seconds of a clip.
    pub const LEAST_S: f64 = 1.0;
    /// Most seconds of a clip.
    pub const MOST_S: f64 = 120.0;

    /// Its length in seconds.
    #[must_use]
    pub fn length_s(&self) -> f64 {
        self.before_s + self.after_s
    }
}

impl Default for ClipSpec {
    fn default() -> Self {
        Self {
            before_s: 5.0,
            after_s: 10.0,
        }
    }
}

/// What has to happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Condition {
    /// A confirmed track is seen for the first time. The event ends when the track ends.
    Appears {
        /// Selector of tracked detections, such as `$steps.tracker.tracked_detections`.
        detections: String,
    },
    /// A track enters a zone. One event, which begins and ends at once.
    Enters {
        /// Name of a time-in-zone step.
        zone: String,
    },
    /// A track leaves a zone it had entered. One event, which begins and ends at once and carries the dwell time.
    Leaves {
        /// Name of a time-in-zone step.
        zone: String,
    },
    /// A track has been in a zone for `for_s` seconds. The event ends when it leaves.
    Stays {
        /// Name of a time-in-zone step.
        zone: String,
        /// Seconds.
        for_s: f64,
    },
    /// A track crosses a line. One event, which begins and ends at once.
    Crosses {
        /// Name of a line-counter step.
        line: String,
        /// Which way counts.
        #[serde(default)]
        direction: CrossDirection,
    },
    /// More (or fewer) objects than a bound for some time. The event ends when that is over.
    Count {
        /// Selector of detections to count: tracked detections, or those of a zone.
        detections: String,
        /// The bound.
        bound: CountBound,
        /// Seconds for which it must hold without a break.
        #[serde(default)]
        for_s: f64,
    },
    /// A workflow output becomes true (or a number passes a bound) for some time. The event ends when that is over.
    Value {
        /// Selector of a boolean or a number.
        value: String,
        /// What is expected of it.
        test: ValueTest,
        /// Seconds for which it must hold without a break.
        #[serde(default)]
        for_s: f64,
    },
}

/// Direction of a crossing, as Roboflow's line counter defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CrossDirection {
    /// From the right of the line to its left hand, looking from its start to its end: `count_in`.
    In,
    /// The other way: `count_out`.
    Out,
    /// Both.
    #[default]
    Any,
}

/// Bound on a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CountBound {
    /// Strictly more than this.
    Over(u32),
    /// Strictly fewer than this.
    Under(u32),
}

/// Test of a workflow output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ValueTest {
    /// A boolean with this value.
    Is(bool),
    /// A number strictly over this.
    Over(f64),
    /// A number strictly under this.
    Under(f64),
}

/// Inclusive band of scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Band {
    /// Lower end, `0.0..=1.0`.
    #[serde(default)]
    pub min: f64,
    /// Upper end, `0.0..=1.0`.
    #[serde(default = "one")]
    pub max: f64,
}

fn one() -> f64 {
    1.0
}

/// When a rule is awake, in the box's local time. A track that is there when its hours begin has neither appeared nor entered then: `stays` and `count` tell of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedule {
    /// Days on which a span begins; empty means every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Weekday>,
    /// `HH:MM`, included.
    pub from: String,
    /// `HH:MM`, excluded; at or before `from` it means the next day.
    pub to: String,
}

/// Day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[allow(missing_docs, reason = "the names say it")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Severity {
    /// Worth a record.
    #[default]
    Info,
    /// Worth a look.
    Warning,
    /// Never silenced, never dropped before lesser ones.
    Critical,
}

/// Confidence gates: at or above a gate its decision holds, the highest first; below the last one the event is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Gates {
    /// Act without asking. Default 0.90.
    pub act: f64,
    /// Record it and let it stand, flagged. Default 0.85.
    pub record: f64,
    /// Put it up for review. Default 0.70.
    pub review: f64,
    /// Ask for a second opinion. Default 0.50.
    pub escalate: f64,
}

impl Default for Gates {
    /// The gates of the weighted evidence chain.
    fn default() -> Self {
        Self {
            act: 0.90,
            record: 0.85,
            review: 0.70,
            escalate: 0.50,
        }
    }
}
