//! Checks the settings of a rule, independent of its condition.

use watchkeeper_contract::rule::{
    ClipSpec, Condition, MAX_IGNORED_AREAS, MAX_PER_HOUR, RuleSpec, Severity,
};

use super::{Compiler, MAX_CHANNELS, MAX_CLASSES};
use crate::rules::schedule::ActiveSchedule;

/// Maximum number of days in the schedule of one rule.
const MAX_DAYS: usize = 7;

impl Compiler<'_> {
    /// Checks everything but the condition.
    pub(super) fn check_settings(&mut self, spec: &RuleSpec) -> Option<ActiveSchedule> {
        self.seconds("cooldown_s", spec.cooldown_s);
        if let Some(band) = spec.confidence
            && !(0.0 <= band.min && band.min <= band.max && band.max <= 1.0)
        {
            let value = format!("{}..{}", band.min, band.max);
            self.error(
                "confidence",
                value,
                "must be a range within 0 to 1 with min not above max",
            );
        }
        let g = spec.gates;
        let falling = 1.0 >= g.act && g.act >= g.record && g.record >= g.review;
        if !(falling && g.review >= g.escalate && g.escalate >= 0.0) {
            let value = format!("{} {} {} {}", g.act, g.record, g.review, g.escalate);
            let message = "must satisfy 1 >= act >= record >= review >= escalate >= 0";
            self.error("gates", value, message);
        }
        if spec.second_opinion_may_lower && spec.severity == Severity::Critical {
            self.error(
                "second_opinion_may_lower",
                true,
                "is not allowed with severity critical; leave it out or lower the severity",
            );
        }
        self.check_lengths(spec);
        self.check_ignored_areas(spec);
        if let Some(most) = spec.max_per_hour
            && !(1..=MAX_PER_HOUR).contains(&most)
        {
            let message = format!("must be 1 to {MAX_PER_HOUR} events an hour");
            self.error("max_per_hour", most, message);
        }
        if let Some(clip) = spec.clip {
            self.clip(clip);
        }
        let schedule = spec.schedule.as_ref()?;
        match ActiveSchedule::new(schedule) {
            Ok(awake) => Some(awake),
            Err(field) => {
                let value = if field == "from" {
                    &schedule.from
                } else {
                    &schedule.to
                };
                self.error(
                    &format!("schedule.{field}"),
                    value,
                    "is not a time of day; write HH:MM, such as 07:30",
                );
                None
            }
        }
    }

    fn check_lengths(&mut self, spec: &RuleSpec) {
        let days = spec.schedule.as_ref().map_or(0, |s| s.days.len());
        for (field, what, found, most) in [
            ("notify", "channels", spec.notify.len(), MAX_CHANNELS),
            ("on_act", "channels", spec.on_act.len(), MAX_CHANNELS),
            ("classes", "classes", spec.classes.len(), MAX_CLASSES),
            ("schedule.days", "days", days, MAX_DAYS),
            ("ignore", "areas", spec.ignore.len(), MAX_IGNORED_AREAS),
        ] {
            if found > most {
                let message = format!("has too many {what}; use at most {most}");
                self.error(field, found, message);
            }
        }
    }

    fn check_ignored_areas(&mut self, spec: &RuleSpec) {
        if !spec.ignore.is_empty() && matches!(spec.when, Condition::Value { .. }) {
            let message = "is for rules about objects; a rule on a value has none";
            self.error("ignore", spec.ignore.len(), message);
        }
        for (i, area) in spec.ignore.iter().enumerate() {
            let [x_min, y_min, x_max, y_max] = *area;
            let is_span = |min: f64, max: f64| 0.0 <= min && min < max && max <= 1.0;
            if !(is_span(x_min, x_max) && is_span(y_min, y_max)) {
                self.error(
                    &format!("ignore[{i}]"),
                    format!("[{x_min}, {y_min}, {x_max}, {y_max}]"),
                    "must be [x_min, y_min, x_max, y_max] in shares of the picture, 0 to 1, each \
                     min below its max",
                );
            }
        }
    }

    fn clip(&mut self, clip: ClipSpec) {
        let most_before = ClipSpec::MAX_PRE_ROLL_S;
        let least = ClipSpec::MIN_CLIP_S;
        let most = ClipSpec::MAX_CLIP_S;
        let is_before = (0.0..=most_before).contains(&clip.before_s);
        if !is_before {
            let message =
                format!("must be 0 to {most_before} seconds, the length of the frame buffer");
            self.error("clip.before_s", clip.before_s, message);
        }
        self.seconds("clip.after_s", clip.after_s);
        let length = clip.length_s();
        if is_before
            && clip.after_s.is_finite()
            && clip.after_s >= 0.0
            && !(least..=most).contains(&length)
        {
            let message = format!(
                "before_s and after_s together must be {least} to {most} seconds; they are {length}"
            );
            self.error("clip.after_s", clip.after_s, message);
        }
    }
}
