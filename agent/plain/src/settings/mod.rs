//! Settings of a watch: read, merged, described and set in one way, whether the watch is new, waits
//! for a yes or runs.
//!
//! - What is absent or empty was not said, and leaves what there is.
//! - A value out of its range is refused where it is read.

mod amounts;
mod channels;
mod kept;

use std::collections::BTreeMap;

use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::{ClipSpec, RuleSpec, Severity};

use crate::hours::{self, ActiveTimes};
use crate::reader::{Reader, Slot};
use crate::refusal::{Notes, Refusal};
pub(crate) use amounts::seconds;
use amounts::{confidence, cooldown, hold, hourly_cap};
pub(crate) use channels::channels;
use channels::names_of;
pub(crate) use kept::CRITICAL;
use kept::clip;

const QUIET_AND_URGENT: &str = "You want no notifications, but an urgent event always notifies. Say the whole request without one of the two.";
const QUIET_AND_SENT: &str = "You want no notifications, but a channel is named. Say the whole request without one of the two.";

/// Topic of a note: a correction of that topic removes the note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum About {
    Channels,
    Clip,
    Confidence,
    Hours,
    Place,
}

/// Settings that a sentence makes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Settings {
    /// Lowest score of a detection.
    pub(crate) confidence: Option<f64>,
    /// Seconds for which it has to be so.
    pub(crate) hold_s: Option<f64>,
    /// Seconds of quiet after an event; 0: each one is an event.
    pub(crate) cooldown_s: Option<f64>,
    /// Most events within an hour.
    pub(crate) max_per_hour: Option<u32>,
    /// Ends after this many seconds.
    pub(crate) stop_after_s: Option<f64>,
    /// When it is active; absent: always.
    pub(crate) times: Option<ActiveTimes>,
    /// Channels that notify people.
    pub(crate) notify: Vec<ChannelId>,
    /// The clip that each event keeps.
    pub(crate) clip: Option<ClipSpec>,
    pub(crate) severity: Option<Severity>,
    /// Whether no channel notifies.
    pub(crate) quiet: bool,
    /// Notes on what is set, and on the place beside it.
    pub(crate) notes: BTreeMap<About, Notes>,
}

impl Settings {
    /// Reads what is wanted of the events, and says whether that asks for a watch, be it only for
    /// the picture that is kept anyway.
    pub(crate) fn read_wishes(&mut self, r: &mut Reader<'_>) -> Result<bool, Refusal> {
        r.slot = Slot::Wish;
        self.severity = kept::is_critical(r).then_some(Severity::Critical);
        self.clip = self.keep(About::Clip, r, clip)?;
        // The picture is kept anyway.
        let is_kept = r.take_all(&["@picture_kept"]);
        self.quiet = r.take_all(&["@no_notification"]);
        let is_sent;
        (self.notify, is_sent) = self.keep(About::Channels, r, |r| Ok(channels(r)))?;
        self.max_per_hour = hourly_cap(r);
        self.cooldown_s = cooldown(r);
        self.refuse_contradiction(is_sent)?;
        Ok(self.clip.is_some() || is_kept || is_sent)
    }

    /// Refuses notifications together with none. `is_sent`: whether a channel is wanted, known or
    /// not.
    fn refuse_contradiction(&self, is_sent: bool) -> Result<(), Refusal> {
        let is_urgent = self.severity == Some(Severity::Critical);
        Refusal::first(&[
            (self.quiet && is_urgent, QUIET_AND_URGENT),
            (self.quiet && is_sent, QUIET_AND_SENT),
        ])
    }

    /// Reads durations, hours and the confidence. Returns the position of the duration.
    pub(crate) fn read_times(&mut self, r: &mut Reader<'_>) -> Result<Option<usize>, Refusal> {
        r.slot = Slot::Time;
        self.stop_after_s = r.take(&["@only_for"]).map(|found| found.value(0));
        let hold = hold(r);
        self.hold_s = hold.as_ref().map(|found| found.value(0));
        r.slot = Slot::Wish;
        self.confidence = self.keep(About::Confidence, r, |r| confidence(r, true))?;
        r.slot = Slot::Time;
        self.times = self.keep(About::Hours, r, |r| Ok(hours::active_times(r)))?;
        Ok(hold.map(|found| found.at.start))
    }

    /// Reads a part of a request, and keeps the notes on it if it was said.
    pub(crate) fn keep<T: Default + PartialEq>(
        &mut self,
        about: About,
        r: &mut Reader<'_>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let before = std::mem::take(&mut r.notes);
        let part = read(r);
        let notes = std::mem::replace(&mut r.notes, before);
        if part.as_ref().is_ok_and(|part| *part != T::default()) {
            self.notes.insert(about, notes);
        }
        part
    }

    /// Moves the notes on what is set to those of the answer.
    pub(crate) fn move_notes(&mut self, notes: &mut Notes) {
        let of = std::mem::take(&mut self.notes);
        of.into_values().for_each(|of| notes.extend(of));
    }

    /// Reads the settings that a change names. `bare`: a share without a name is a confidence.
    pub(crate) fn read_change(r: &mut Reader<'_>, bare: bool) -> Result<Self, Refusal> {
        let mut settings = Self::default();
        settings.read_wishes(r)?;
        settings.read_times(r)?;
        r.slot = Slot::Other;
        if bare && settings.confidence.is_none() {
            settings.confidence = settings.keep(About::Confidence, r, |r| confidence(r, false))?;
        }
        Ok(settings)
    }

    /// Whether it limits when there are events.
    pub(crate) fn limits_events(&self) -> bool {
        let is_rare = self.cooldown_s.is_some() || self.max_per_hour.is_some();
        self.hold_s.is_some() || is_rare || self.times.is_some()
    }

    /// Sets what `new` says, and refuses what contradicts the rest. For how long it has to be so
    /// depends on the condition, and is left to the caller.
    pub(crate) fn merge(&mut self, new: &Self) -> Result<(), Refusal> {
        self.notes.extend(new.notes.clone());
        self.confidence = new.confidence.or(self.confidence);
        self.cooldown_s = new.cooldown_s.or(self.cooldown_s);
        self.max_per_hour = new.max_per_hour.or(self.max_per_hour);
        self.stop_after_s = new.stop_after_s.or(self.stop_after_s);
        self.clip = new.clip.or(self.clip);
        self.severity = new.severity.or(self.severity);
        if let Some(new) = &new.times {
            let now = self.times.get_or_insert_default();
            now.merge(new);
        }
        if !new.notify.is_empty() {
            self.notify.clone_from(&new.notify);
        }
        self.quiet |= new.quiet;
        if new.quiet && self.severity == Some(Severity::Warning) {
            self.severity = Some(Severity::Info);
        }
        self.refuse_contradiction(!self.notify.is_empty())
    }

    /// Describes what is set.
    pub(crate) fn describe(&self) -> Vec<String> {
        let is_urgent = self.severity == Some(Severity::Critical);
        const IGNORED: &str = ", which urgent events ignore";
        let ignored = if is_urgent { IGNORED } else { "" };
        let quiet = |s| match s {
            0.0 => "without a cool-down".to_owned(),
            s => format!("with a cool-down of {}{ignored}", seconds(s)),
        };
        let clip = |clip: ClipSpec| {
            let (before, after) = (seconds(clip.before_s), seconds(clip.after_s));
            format!("with a clip from {before} before to {after} after it began")
        };
        let severity = match self.severity {
            None | Some(Severity::Info) => None,
            Some(Severity::Critical) => Some("with severity critical".to_owned()),
            Some(_) => Some("with severity warning".to_owned()),
        };
        let told = names_of(&self.notify).join(" and ");
        let parts = [
            self.confidence.map(|c| format!("from a confidence of {c}")),
            self.hold_s.map(|s| format!("for {}", seconds(s))),
            self.times.as_ref().map(ActiveTimes::describe),
            self.cooldown_s.map(quiet),
            self.max_per_hour
                .map(|most| format!("with at most {most} events an hour{ignored}")),
            self.clip.map(clip),
            (!told.is_empty()).then(|| format!("notifies {told}")),
            self.stop_after_s
                .map(|s| format!("for the next {}", seconds(s))),
            severity,
        ];
        parts.into_iter().flatten().collect()
    }

    /// Sets a rule. A channel is added to those that it has; days or hours that were not said stay.
    pub(crate) fn set_on(&self, rule: &mut RuleSpec) {
        for channel in &self.notify {
            if !rule.notify.contains(channel) {
                rule.notify.push(channel.clone());
            }
        }
        if let Some(cooldown_s) = self.cooldown_s {
            rule.cooldown_s = cooldown_s;
            // `at most once an hour` is about messages, not about each one that comes.
            rule.shared_cooldown = cooldown_s > 0.0;
        }
        rule.max_per_hour = self.max_per_hour.or(rule.max_per_hour);
        rule.clip = self.clip.or(rule.clip);
        rule.severity = self.severity.unwrap_or(rule.severity);
        // What is critical is never lowered.
        rule.second_opinion_may_lower &= rule.severity != Severity::Critical;
        if let Some(times) = &self.times {
            rule.schedule = times.schedule(rule.schedule.take());
        }
    }
}
