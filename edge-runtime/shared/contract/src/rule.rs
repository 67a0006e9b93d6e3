//! Rules: the conditions on a workflow's outputs that make events.
//!
//! A rule never repeats geometry. It names a step of the workflow (a line counter, a time-in-zone)
//! or one of its outputs. So a count on the screen, a number in a result and an event can't
//! disagree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::ChannelId;

/// Most areas in [`RuleSpec::ignore`].
pub const MAX_IGNORED_AREAS: usize = 16;
/// Highest number of events an hour that a rule may allow.
pub const MAX_PER_HOUR: u32 = 3600;

/// A condition on workflow outputs that makes events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// Name of the rule, unique in its pipeline.
    pub name: String,
    /// Condition that starts an event.
    pub when: Condition,
    /// Only objects of these classes; empty: every class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Only objects whose score lies in this band, both ends included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Band>,
    /// Areas of the picture in which objects are ignored, at most 16 and normalised
    /// `[x_min, y_min, x_max, y_max]`. An object is where the middle of the lower edge of its
    /// bounding box is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<[f64; 4]>,
    /// Only at these times; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Seconds after the start of an event in which the rule starts no other one (per track, where
    /// the condition is about tracks). The next event counts what was suppressed. A start of the
    /// pipeline ends it.
    #[serde(default)]
    pub cooldown_s: f64,
    /// Whether all tracks share the cool-down: at most one event in `cooldown_s`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_cooldown: bool,
    /// Most events that the rule starts within an hour of source time since the last start of the
    /// pipeline, 1 to 3600; absent: any number. The next event counts what was suppressed. Without
    /// effect for the severity `critical`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_hour: Option<u32>,
    /// How much it matters.
    #[serde(default)]
    pub severity: Severity,
    /// Confidence gates of the decision; absent fields keep the defaults.
    #[serde(default)]
    pub gates: Gates,
    /// Whether a second opinion may also lower the verdict of this rule's events. By default it may
    /// only raise it. Without effect for the severity `critical`, which is never lowered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second_opinion_may_lower: bool,
    /// Channels (`[channels.NAME]` of the configuration) that are notified of its events, whatever
    /// their severity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<ChannelId>,
    /// Channels that are notified only of certain events: at once with the verdict `act`, otherwise
    /// when a person approves the event. For what must not happen by mistake, such as a siren. Such
    /// a channel should have no `min_severity`, by which it is notified of other events too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_act: Vec<ChannelId>,
    /// What happens to an event whose confidence is below the last gate.
    #[serde(default, skip_serializing_if = "BelowGates::is_default")]
    pub below_gates: BelowGates,
    /// Whether answers of people calibrate the confidence of its events. Default true. With the
    /// severity `critical` they may raise a verdict, but never lower it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub calibrate: bool,
    /// Clip that its events keep in addition to their pictures; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<ClipSpec>,
    /// Sources that decide about its events, instead of the box alone and a second opinion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decide: Option<Box<DecideSpec>>,
}

impl RuleSpec {
    /// A rule with the default of every other field.
    pub fn new(name: String, when: Condition) -> Self {
        Self {
            name,
            when,
            classes: Vec::new(),
            confidence: None,
            ignore: Vec::new(),
            schedule: None,
            cooldown_s: 0.0,
            shared_cooldown: false,
            max_per_hour: None,
            severity: Severity::default(),
            gates: Gates::default(),
            second_opinion_may_lower: false,
            on_act: Vec::new(),
            below_gates: BelowGates::default(),
            decide: None,
            calibrate: true,
            notify: Vec::new(),
            clip: None,
        }
    }
}

/// Most sources in [`DecideSpec::chain`].
pub const MAX_CHAIN: usize = 12;
/// Longest name of a source in characters.
pub const MAX_SOURCE_NAME: usize = 120;
/// Most sets of reference pictures in one source.
pub const MAX_REFERENCE_SETS: usize = 8;

/// The sets of reference pictures that a source of a chain names: `reference NAME` or
/// `reference NAME,NAME`. `None` for any other source.
pub fn reference_sets(source: &str) -> Option<Vec<&str>> {
    let names = source.strip_prefix("reference ")?;
    Some(names.split(',').map(str::trim).collect())
}

/// Whether `name` may name a set of reference pictures: 1 to 40 of `a-z`, `0-9`, `-`, `_`.
pub fn is_set_name(name: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
    (1..=40).contains(&name.len()) && name.bytes().all(is_word)
}

/// Chain of sources that decides about the events of a rule. The event is recorded at once with the
/// verdict `escalate`; the agent asks the sources one after another and adds one assessment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideSpec {
    /// Sources in the order in which they are asked; at most 12. One is `box`, `code`, `text`,
    /// `model`, `person` or the name of a look-up (`[agent.lookups.NAME]` of the configuration).
    /// `reference NAME,NAME` names sets of reference pictures.
    pub chain: Vec<String>,
    /// Gate at which later sources are not asked. Default `record`.
    #[serde(default, skip_serializing_if = "StopAt::is_default")]
    pub stop_at: StopAt,
    /// Selector of codes for the source `code`: detections that hold them, or a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Selector of text for the source `text`: a text, or detections whose class is their text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Weights of sources, more than 0 and at most 10, where they differ from the defaults.
    /// Defaults: 0.45 for a code and the first look-up, 0.25 for later look-ups, 0.20 for all
    /// others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, f64>,
}

/// Gate at which a chain stops early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopAt {
    Act,
    #[default]
    Record,
    Review,
}

impl StopAt {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The confidence of this gate.
    #[must_use]
    pub fn of(self, gates: &Gates) -> f64 {
        match self {
            Self::Act => gates.act,
            Self::Record => gates.record,
            Self::Review => gates.review,
        }
    }
}

/// Extent of a clip around the start of its event, in source time. Both together are 1 to 120
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClipSpec {
    /// Seconds before the event, 0 to 30. Default 5.
    pub before_s: f64,
    /// Seconds after its start, whether it continues or not. Default 10.
    pub after_s: f64,
    /// What it is made of. Default `pictures`.
    #[serde(skip_serializing_if = "ClipMaterial::is_default")]
    pub made_of: ClipMaterial,
}

/// Material of a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClipMaterial {
    /// Small pictures of the frames that the pipeline takes, encoded again.
    #[default]
    Pictures,
    /// The camera's own H.264 or H.265, as it came. It begins with a key frame, so it may begin
    /// earlier than asked for. A source without such a stream, or with a privacy mask, has
    /// pictures instead, and the record says why.
    Stream,
}

impl ClipMaterial {
    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl ClipSpec {
    /// Longest [`ClipSpec::before_s`] in seconds.
    pub const MAX_PRE_ROLL_S: f64 = 30.0;
    /// Shortest clip in seconds.
    pub const MIN_CLIP_S: f64 = 1.0;
    /// Longest clip in seconds.
    pub const MAX_CLIP_S: f64 = 120.0;

    /// Returns the length in seconds.
    pub fn length_s(&self) -> f64 {
        self.before_s + self.after_s
    }
}

impl Default for ClipSpec {
    fn default() -> Self {
        Self {
            before_s: 5.0,
            after_s: 10.0,
            made_of: ClipMaterial::default(),
        }
    }
}

/// Condition that starts an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// An object is seen for the first time. The event ends when it is gone.
    Appears {
        /// Selector of tracked detections, such as `$steps.tracker.tracked_detections`.
        detections: String,
    },
    /// An object enters a zone. The event ends at once.
    Enters {
        /// Name of a time-in-zone step.
        zone: String,
    },
    /// An object leaves a zone that it had entered. The event ends at once and carries the dwell
    /// time.
    Leaves {
        /// Name of a time-in-zone step.
        zone: String,
    },
    /// An object has been in a zone for `for_s` seconds. The event ends when it leaves.
    Stays {
        /// Name of a time-in-zone step.
        zone: String,
        /// Seconds in the zone.
        for_s: f64,
    },
    /// A track crosses a line. The event ends at once.
    Crosses {
        /// Name of a line-counter step.
        line: String,
        /// Direction that counts.
        #[serde(default)]
        direction: CrossDirection,
    },
    /// More (or fewer) objects than a bound for some time. The event ends when that is over.
    Count {
        /// Selector of detections to count: tracked detections, or those of a zone.
        detections: String,
        bound: CountBound,
        /// Seconds for which it must hold without a break.
        #[serde(default)]
        for_s: f64,
    },
    /// A workflow output is true, or a number passes a bound, for some time. The event ends when
    /// that is over.
    Value {
        /// Selector of a boolean or a number.
        value: String,
        /// Test that it must pass.
        test: ValueTest,
        /// Seconds for which it must hold without a break.
        #[serde(default)]
        for_s: f64,
    },
}

/// Direction of a crossing, as Roboflow's line counter defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrossDirection {
    /// From the right of the line to its left, looking from its start to its end: `count_in`.
    In,
    /// From left to right: `count_out`.
    Out,
    #[default]
    Any,
}

/// Bound on a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountBound {
    /// Strictly more than this.
    Over(u32),
    /// Strictly fewer than this.
    Under(u32),
}

/// Test of a workflow output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueTest {
    /// A boolean with this value.
    Is(bool),
    /// A number strictly over this.
    Over(f64),
    /// A number strictly under this.
    Under(f64),
}

/// Inclusive band of scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Lower end, `0.0..=1.0`.
    #[serde(default)]
    pub min: f64,
    /// Upper end, `0.0..=1.0`.
    #[serde(default = "one")]
    pub max: f64,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

fn one() -> f64 {
    1.0
}

/// When a rule is active, in the box's local time.
///
/// A track that is already there when the hours begin has neither appeared nor entered: use `stays`
/// or `count` for it. While the clock of the box is known to be wrong, the rule is active at all
/// hours; its events are marked `unsynced`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Days on which a span begins; empty: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Weekday>,
    /// Start as `HH:MM`, included. Default `00:00`.
    #[serde(default = "day_start")]
    pub from: String,
    /// End as `HH:MM`, excluded; at or before `from` it means the next day. Default `24:00`, the
    /// end of the day.
    #[serde(default = "day_end")]
    pub to: String,
}

fn day_start() -> String {
    "00:00".to_owned()
}

fn day_end() -> String {
    "24:00".to_owned()
}

/// Minutes since midnight of `HH:MM`, from 00:00 to 23:59.
pub fn minute_of_day(text: &str) -> Option<u16> {
    let below = |part: &str, bound: u16| {
        let is_two_digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let number: u16 = is_two_digits.then(|| part.parse().ok())??;
        (number < bound).then_some(number)
    };
    let (hour, minute) = text.split_once(':')?;
    Some(below(hour, 24)? * 60 + below(minute, 60)?)
}

/// Minutes since midnight of the end of a schedule: as [`minute_of_day`], or `24:00`.
pub fn end_minute(text: &str) -> Option<u16> {
    match text {
        "24:00" => Some(24 * 60),
        _ => minute_of_day(text),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Weekday {
    /// All days, from Monday.
    pub const ALL: [Self; 7] = [
        Self::Mon,
        Self::Tue,
        Self::Wed,
        Self::Thu,
        Self::Fri,
        Self::Sat,
        Self::Sun,
    ];
}

/// How much an event matters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth a record.
    #[default]
    Info,
    /// Worth a look.
    Warning,
    /// Never silenced, never dropped before lesser ones.
    Critical,
}

/// What happens to an event whose confidence is below the last gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BelowGates {
    /// It is counted and discarded.
    #[default]
    Discard,
    /// A person decides: it gets the verdict `review`. Every candidate then becomes an event.
    Review,
}

impl BelowGates {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Confidence gates. The highest gate that a confidence reaches decides; below the last one the
/// event is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gates {
    /// Act without asking. Default 0.90.
    pub act: f64,
    /// Record it, without review. Default 0.85.
    pub record: f64,
    /// Put it up for review. Default 0.70.
    pub review: f64,
    /// Ask for a second opinion. Default 0.50.
    pub escalate: f64,
}

impl Default for Gates {
    /// Returns the default gates.
    fn default() -> Self {
        Self {
            act: 0.90,
            record: 0.85,
            review: 0.70,
            escalate: 0.50,
        }
    }
}
