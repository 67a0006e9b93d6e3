//! Restarts failed pipelines a few times with growing pauses, and reports them as events.
//!
//! A pipeline fails by an internal error or because it can't run (its model is gone). A failed
//! source is not counted here: its outage is reported, and the pipeline restarts with it. The
//! crash-loop guard ([`crate::guard`]) watches what restarts do to the process.
//!
//! - Sans-IO: the health of pipelines goes in, events and restarts come out.
//! - Each pipeline has at most one open event, and every event ends.
//! - At most [`MAX_TRIES`] restarts, and as many again only after [`FORGET_AFTER`] of running or
//!   after a user's restart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, PipelineId, SourceId};

use crate::guard::EARLY;
use crate::pipeline::box_event::{BoxRecord, round_to_ms};

/// Maximum number of restarts.
const MAX_TRIES: u32 = 5;
/// Pause before the first restart; each further one is three times as long.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Running time after which the event ends: as long as the crash-loop guard needs to trust a
/// pipeline.
const RECOVERY_TIME: Duration = EARLY;
/// Running time after which the number of tries is reset, so that a flapping pipeline stops
/// restarting.
const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// The health of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// The pipeline takes frames.
    Running,
    /// The pipeline should run and can't.
    Failed {
        /// The reason, a sentence without its end.
        why: String,
        /// Whether it may be restarted automatically.
        may_restart: bool,
    },
    /// The pipeline should not run, has ended, or its failure is reported elsewhere.
    Resting,
}

/// A pipeline and its current health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    pub source: SourceId,
    pub health: Health,
}

/// An event about a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RestartEvent {
    pub pipeline: PipelineId,
    pub source: SourceId,
    pub record: BoxRecord,
}

/// The result of one observation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Actions {
    /// Events to report, in order.
    pub events: Vec<RestartEvent>,
    /// Pipelines to restart before the next observation.
    pub due: Vec<PipelineId>,
}

/// Pipelines that have failed, now or recently.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    cases: BTreeMap<PipelineId, RestartCase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestartState {
    /// Waits for its next restart.
    Backoff {
        until: Instant,
    },
    /// Was restarted after the last observation.
    Restarting,
    Running {
        since: Instant,
    },
    /// Is not restarted automatically.
    GaveUp,
}

#[derive(Debug)]
struct RestartCase {
    source: SourceId,
    state: RestartState,
    tries: u32,
    message: String,
    /// The open event and when it began.
    reported: Option<(EventId, Instant)>,
}

impl Restarts {
    /// Processes the health of all pipelines at `now`.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        all: BTreeMap<PipelineId, Observed>,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Actions {
        let mut actions = Actions::default();
        // A pipeline that was deleted.
        let gone = self.cases.extract_if(.., |id, _| !all.contains_key(id));
        let ends = gone.filter_map(|(id, mut case)| case.end(&id, None));
        actions.events.extend(ends);
        for (id, observed) in all {
            self.observe_one(now, id, observed, &mut actions, new_id);
        }
        actions
    }

    fn observe_one(
        &mut self,
        now: Instant,
        id: PipelineId,
        Observed { source, health }: Observed,
        actions: &mut Actions,
        new_id: &mut dyn FnMut() -> EventId,
    ) {
        let case = match health {
            Health::Failed { .. } => Some(self.cases.entry(id.clone()).or_insert(RestartCase {
                source,
                state: RestartState::Restarting,
                tries: 0,
                message: String::new(),
                reported: None,
            })),
            Health::Running | Health::Resting => self.cases.get_mut(&id),
        };
        let Some(case) = case else {
            return;
        };
        match health {
            Health::Failed { why, may_restart } => match case.state {
                RestartState::Restarting | RestartState::Running { .. } => {
                    let event = case.fail(&id, now, &why, may_restart, new_id);
                    actions.events.push(event);
                }
                RestartState::Backoff { until } if may_restart && now >= until => {
                    case.tries += 1;
                    case.state = RestartState::Restarting;
                    actions.due.push(id);
                }
                RestartState::Backoff { .. } | RestartState::GaveUp => {}
            },
            Health::Running => match case.state {
                RestartState::Restarting => case.state = RestartState::Running { since: now },
                // Restarted by a user.
                RestartState::Backoff { .. } | RestartState::GaveUp => {
                    case.tries = 0;
                    case.state = RestartState::Running { since: now };
                }
                RestartState::Running { since } => {
                    let running_for = now.saturating_duration_since(since);
                    if running_for >= RECOVERY_TIME {
                        actions.events.extend(case.end(&id, Some(since)));
                    }
                    if running_for >= FORGET_AFTER {
                        self.cases.remove(&id);
                    }
                }
            },
            Health::Resting => {
                actions.events.extend(case.end(&id, None));
                self.cases.remove(&id);
            }
        }
    }

    /// Ends all open events.
    pub(crate) fn end(&mut self) -> Vec<RestartEvent> {
        let cases = std::mem::take(&mut self.cases).into_iter();
        cases
            .filter_map(|(id, mut case)| case.end(&id, None))
            .collect()
    }
}

impl RestartCase {
    fn fail(
        &mut self,
        id: &PipelineId,
        now: Instant,
        why: &str,
        may_restart: bool,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> RestartEvent {
        let what_next = if may_restart && self.tries < MAX_TRIES {
            let pause = FIRST_PAUSE * 3_u32.pow(self.tries);
            self.state = RestartState::Backoff { until: now + pause };
            format!(
                "restarting in {} s (try {} of {MAX_TRIES})",
                pause.as_secs(),
                self.tries + 1
            )
        } else {
            self.state = RestartState::GaveUp;
            format!("not restarted automatically; run `watchkeeper pipelines resume {id}`")
        };
        self.message = format!("pipeline {id} does not run: {why}; {what_next}");
        let phase = match self.reported {
            Some(_) => Phase::Update,
            None => Phase::New,
        };
        let (event, _) = *self.reported.get_or_insert_with(|| (new_id(), now));
        self.event_record(id, event, phase, None)
    }

    /// Ends the open event, if there is one; the pipeline runs again since `running_since`.
    fn end(&mut self, id: &PipelineId, running_since: Option<Instant>) -> Option<RestartEvent> {
        let (event, since) = self.reported.take()?;
        let lasted = running_since.map(|running| running.saturating_duration_since(since));
        Some(self.event_record(id, event, Phase::End, lasted))
    }

    fn event_record(
        &self,
        id: &PipelineId,
        event: EventId,
        phase: Phase,
        lasted: Option<Duration>,
    ) -> RestartEvent {
        RestartEvent {
            pipeline: id.clone(),
            source: self.source.clone(),
            record: BoxRecord {
                id: event,
                phase,
                body: EventBody::PipelineFailed {
                    message: self.message.clone(),
                    tries: self.tries,
                    lasted_s: lasted.map(round_to_ms),
                },
            },
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Interval of observations.
    const INTERVAL: Duration = Duration::from_secs(10);

    struct Bench {
        restarts: Restarts,
        now: Instant,
        ids: u128,
        /// Phase, tries and duration of the events.
        reported: Vec<(Phase, u32, Option<f64>)>,
        /// Number of restarts.
        restarted: u32,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                restarts: Restarts::default(),
                now: Instant::now(),
                ids: 0,
                reported: Vec::new(),
                restarted: 0,
            }
        }

        /// Observes one pipeline `number` times; `None` means that it does not exist.
        fn observe_times(&mut self, number: u32, health: Option<&Health>) -> &mut Self {
            for _ in 0..number {
                self.now += INTERVAL;
                let all = health.map(|health| {
                    let observed = Observed {
                        source: SourceId::new("gate").unwrap(),
                        health: health.clone(),
                    };
                    (PipelineId::new("watch").unwrap(), observed)
                });
                let ids = &mut self.ids;
                let mut new_id = || {
                    *ids += 1;
                    EventId(ulid::Ulid(*ids))
                };
                let all = all.into_iter().collect();
                let actions = self.restarts.observe(self.now, all, &mut new_id);
                self.restarted += u32::try_from(actions.due.len()).unwrap();
                self.note(actions.events);
            }
            self
        }

        fn note(&mut self, events: Vec<RestartEvent>) {
            for event_record in events {
                let EventBody::PipelineFailed {
                    tries, lasted_s, ..
                } = event_record.record.body
                else {
                    panic!("{event_record:?}");
                };
                self.reported
                    .push((event_record.record.phase, tries, lasted_s));
            }
        }
    }

    const RECOVERY_TIME: Option<&Health> = Some(&Health::Running);
    const RESTING: Option<&Health> = Some(&Health::Resting);

    fn failed(may_restart: bool) -> Health {
        Health::Failed {
            why: "an internal error ended it".to_owned(),
            may_restart,
        }
    }

    #[test]
    fn failure_is_reported_restarted_and_over_after_a_minute() {
        let mut bench = Bench::new();
        bench
            .observe_times(5, RECOVERY_TIME)
            .observe_times(1, Some(&failed(true)));
        assert_eq!(
            (&bench.reported[..], bench.restarted),
            (&[(Phase::New, 0, None)][..], 0)
        );
        bench.observe_times(1, Some(&failed(true)));
        assert_eq!(bench.restarted, 1);
        bench.observe_times(6, RECOVERY_TIME);
        assert_eq!(bench.reported.len(), 1, "it may fail again");
        bench.observe_times(1, RECOVERY_TIME);
        assert_eq!(bench.reported[1..], [(Phase::End, 1, Some(20.0))]);
        bench.observe_times(1000, RECOVERY_TIME);
        assert_eq!((bench.reported.len(), bench.restarted), (2, 1));
    }

    #[test]
    fn lasting_failure_is_one_event_with_growing_pauses() {
        let mut bench = Bench::new();
        let mut looks_until_try = Vec::new();
        for _ in 0..5 {
            let (restarted, mut observe_times) = (bench.restarted, 0);
            while bench.restarted == restarted {
                bench.observe_times(1, Some(&failed(true)));
                observe_times += 1;
            }
            looks_until_try.push(observe_times);
        }
        assert_eq!(looks_until_try, [2, 4, 10, 28, 82]);
        bench.observe_times(10_000, Some(&failed(true)));
        assert_eq!(bench.restarted, MAX_TRIES);
        let phases: Vec<Phase> = bench.reported.iter().map(|reported| reported.0).collect();
        assert_eq!(phases[0], Phase::New);
        assert_eq!(phases[1..], [Phase::Update; 5]);
        let case = bench.restarts.cases.values().next().unwrap();
        assert!(
            case.message.contains("watchkeeper pipelines resume watch"),
            "{}",
            case.message
        );
    }

    #[test]
    fn flapping_pipeline_has_no_more_tries() {
        let mut bench = Bench::new();
        for _ in 0..50 {
            let restarted = bench.restarted;
            for _ in 0..200 {
                bench.observe_times(1, Some(&failed(true)));
                if bench.restarted > restarted {
                    break;
                }
            }
            if bench.restarted > restarted {
                bench.observe_times(30, RECOVERY_TIME);
            }
        }
        assert_eq!(bench.restarted, MAX_TRIES);
    }

    #[test]
    fn hour_of_running_or_user_restart_resets_the_tries() {
        for runs_for in [400, 1] {
            let mut bench = Bench::new();
            bench.observe_times(10_000, Some(&failed(true)));
            bench
                .observe_times(runs_for, RECOVERY_TIME)
                .observe_times(10_000, Some(&failed(true)));
            assert_eq!(bench.restarted, 2 * MAX_TRIES, "{runs_for}");
        }
        let mut bench = Bench::new();
        bench.observe_times(2, Some(&failed(true)));
        bench
            .observe_times(361, RECOVERY_TIME)
            .observe_times(10_000, Some(&failed(true)));
        assert_eq!(bench.restarted, 1 + MAX_TRIES);
    }

    #[test]
    fn recording_is_reported_but_not_restarted() {
        for rest in [RESTING, None] {
            let mut bench = Bench::new();
            bench.observe_times(100, Some(&failed(false)));
            assert_eq!((bench.reported.len(), bench.restarted), (1, 0));
            bench.observe_times(2, rest);
            assert_eq!(bench.reported[1..], [(Phase::End, 0, None)]);
        }
    }

    #[test]
    fn healthy_pipeline_makes_no_event() {
        let mut bench = Bench::new();
        bench
            .observe_times(10, RECOVERY_TIME)
            .observe_times(10, RESTING)
            .observe_times(10, None);
        assert_eq!(bench.reported, []);
        assert_eq!(bench.restarts.end(), []);
    }

    proptest! {
        #[test]
        fn every_event_ends_and_tries_are_bounded(
            runs in prop::collection::vec((0_usize..5, 1_u32..100), 0..40)
        ) {
            let mut bench = Bench::new();
            let healths = [Some(Health::Running), Some(failed(true)), Some(failed(false)), Some(Health::Resting), None];
            for (health, observe_times) in runs {
                let restarted = bench.restarted;
                bench.observe_times(observe_times, healths[health].as_ref());
                prop_assert!(bench.restarted - restarted <= MAX_TRIES);
            }
            let events = bench.restarts.end();
            bench.note(events);
            let mut open = false;
            for (phase, ..) in bench.reported {
                prop_assert_eq!(phase == Phase::New, !open);
                open = phase != Phase::End;
            }
            prop_assert!(!open);
        }
    }
}
