//! Which event starts a job of a schedule; without clock and file.
//!
//! - Two jobs of a schedule begin at least its shortest interval apart.
//! - Of the events in between the latest waits; the others start none.
//! - A clock that goes back makes no interval shorter, and delays a job by one interval at most.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use watchkeeper_config::EventFilter;
use watchkeeper_contract::event::{Event, EventBody, Phase};

/// Values of an event that a job may use as inputs of its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerEvent {
    /// Number of its record in the journal.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    pub camera: Option<String>,
    pub class: Option<String>,
    pub zone: Option<String>,
    pub rule: String,
}

/// Returns what a job may use of an event, if the filter takes it.
pub fn matching(filter: &EventFilter, event: &Event) -> Option<TriggerEvent> {
    let EventBody::Rule(rule) = &event.body else {
        return None;
    };
    let fits = |wanted: &Option<String>, found: Option<&str>| {
        let same = |wanted: &String| found.is_some_and(|found| found.eq_ignore_ascii_case(wanted));
        wanted.as_ref().is_none_or(same)
    };
    let is_taken = event.phase == Phase::New
        && (filter.camera.is_none() || filter.camera == event.source)
        && fits(&filter.class, rule.label.as_deref())
        && fits(&filter.rule, Some(&rule.rule))
        && filter
            .verdict
            .is_none_or(|verdict| verdict == event.decision.verdict);
    is_taken.then(|| TriggerEvent {
        seq: event.seq.0,
        at_ms: event.at.unix_ms,
        camera: event.source.as_ref().map(ToString::to_string),
        class: rule.label.clone(),
        zone: rule.zone.clone().or_else(|| rule.line.clone()),
        rule: rule.rule.clone(),
    })
}

/// State of a schedule of events that survives restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TriggerState {
    /// Latest event that has started no job yet.
    waiting: Option<TriggerEvent>,
    /// When the last job began.
    last: Option<Timestamp>,
}

impl TriggerState {
    /// Takes an event in place of one that waits.
    pub(crate) fn push(&mut self, event: TriggerEvent) {
        self.waiting = Some(event);
    }

    /// Returns the event that starts a job at `now`.
    pub(crate) fn poll(
        &mut self,
        now: Timestamp,
        min_interval: SignedDuration,
    ) -> Option<TriggerEvent> {
        // A clock that went back says nothing about the time since: the interval begins there.
        self.last = self.last.map(|last| last.min(now));
        let since = self.last.map(|last| now.duration_since(last));
        if since.is_some_and(|since| since < min_interval) {
            return None;
        }
        let event = self.waiting.take()?;
        self.last = Some(now);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(seq: u64) -> TriggerEvent {
        TriggerEvent {
            seq,
            at_ms: 0,
            camera: None,
            class: None,
            zone: None,
            rule: "r".to_owned(),
        }
    }

    #[test]
    fn clock_that_goes_back_starts_no_job_early_and_stops_none() {
        let interval = SignedDuration::from_secs(60);
        let at = |seconds| Timestamp::from_second(seconds).expect("a time");
        let mut state = TriggerState::default();
        state.push(event(1));
        assert!(state.poll(at(1_000_000), interval).is_some());
        state.push(event(2));
        for (seconds, starts) in [(999_999, false), (1000, false), (1059, false), (1060, true)] {
            assert_eq!(
                state.poll(at(seconds), interval).is_some(),
                starts,
                "{seconds}"
            );
        }
    }

    proptest! {
        #[test]
        fn jobs_keep_their_distance_and_the_latest_event_starts_one(
            steps in prop::collection::vec((0..30_i64, any::<bool>()), 1..100),
        ) {
            let interval = SignedDuration::from_secs(60);
            let mut state = TriggerState::default();
            let (mut now, mut last, mut pushed, mut started) = (Timestamp::UNIX_EPOCH, None, 0, 0);
            for (seconds, has_event) in steps {
                now += SignedDuration::from_secs(seconds);
                if has_event {
                    pushed += 1;
                    state.push(event(pushed));
                }
                if let Some(event) = state.poll(now, interval) {
                    prop_assert_eq!(event.seq, pushed);
                    prop_assert!(event.seq > started);
                    prop_assert!(last.is_none_or(|last| now.duration_since(last) >= interval));
                    (last, started) = (Some(now), event.seq);
                }
            }
            now += interval;
            state.poll(now, interval);
            prop_assert!(state.waiting.is_none());
        }
    }
}
