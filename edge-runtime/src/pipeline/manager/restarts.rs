//! Pipelines that have failed: told as events, and begun anew a few times.
//!
//! A pipeline that a fault of ours ended, or that can't run (its model is gone), would watch nothing until somebody looks. Here it is told, and tried again
//! with growing pauses; the guard against crash loops ([`crate::guard`]) goes on seeing what such a try does to the process. A pipeline whose source has
//! failed is none of them: the outage of its source is told, and it is begun anew with it.
//!
//! Owns which pipelines have failed. Sans-IO: how they are goes in, records and what to try come out. Invariants: each pipeline has at most one open event,
//! and each that began ends; of one fault there are at most [`MOST_TRIES`] tries, and as many again only when it lived for [`FORGIVEN`] or a person began it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, PipelineId, SourceId};

use crate::guard::EARLY;
use crate::pipeline::box_event::BoxRecord;

/// How often a pipeline is begun anew.
const MOST_TRIES: u32 = 5;
/// Pause before the first try; each further one is three times as long.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// How long it has to run until its failure is over: as long as the guard against crash loops takes to trust it.
const WELL: Duration = EARLY;
/// How long it has to run until its tries are forgotten. So one that fails again and again is told a few times and not for ever.
const FORGIVEN: Duration = Duration::from_secs(3600);

/// How a pipeline is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// It takes frames.
    Well,
    /// It should and can't.
    Failed {
        /// Why, a sentence without its end.
        why: String,
        /// Whether it may be begun anew by itself.
        again: bool,
    },
    /// It shall not, it has come to its end, or something else tells why it does not.
    Resting,
}

/// A pipeline as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// What it watches.
    pub source: SourceId,
    /// How it is.
    pub health: Health,
}

/// What to tell of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Word {
    pub pipeline: PipelineId,
    /// What it watches.
    pub source: SourceId,
    pub record: BoxRecord,
}

/// What came of a look.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Actions {
    /// To be told, in this order.
    pub words: Vec<Word>,
    /// To be begun anew, before the next look.
    pub due: Vec<PipelineId>,
}

/// The pipelines that have failed, or did not long ago.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    cases: BTreeMap<PipelineId, Case>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestartState {
    /// It is begun anew then.
    Backoff { until: Instant },
    /// It was begun anew at the last look.
    Restarting,
    /// It runs again.
    Running { since: Instant },
    /// It is not begun anew by itself.
    GaveUp,
}

#[derive(Debug)]
struct Case {
    source: SourceId,
    state: RestartState,
    tries: u32,
    message: String,
    /// The event that is open, and when it began.
    told: Option<(EventId, Instant)>,
}

impl Restarts {
    /// Takes how all pipelines are `now`.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        all: BTreeMap<PipelineId, Observed>,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Actions {
        let mut actions = Actions::default();
        // Of one that is not there any more nothing is known, and nothing wanted.
        let gone = self.cases.extract_if(.., |id, _| !all.contains_key(id));
        let ends = gone.filter_map(|(id, mut case)| case.end(&id, None));
        actions.words.extend(ends);
        for (id, Observed { source, health }) in all {
            let case = match health {
                Health::Failed { .. } => Some(self.cases.entry(id.clone()).or_insert(Case {
                    source,
                    state: RestartState::Restarting,
                    tries: 0,
                    message: String::new(),
                    told: None,
                })),
                Health::Well | Health::Resting => self.cases.get_mut(&id),
            };
            let Some(case) = case else {
                continue;
            };
            match health {
                Health::Failed { why, again } => match case.state {
                    RestartState::Restarting | RestartState::Running { .. } => {
                        actions.words.push(case.fail(&id, now, &why, again, new_id));
                    }
                    RestartState::Backoff { until } if again && now >= until => {
                        case.tries += 1;
                        case.state = RestartState::Restarting;
                        actions.due.push(id);
                    }
                    RestartState::Backoff { .. } | RestartState::GaveUp => {}
                },
                Health::Well => match case.state {
                    RestartState::Restarting => case.state = RestartState::Running { since: now },
                    // Not by us: a person looks after it.
                    RestartState::Backoff { .. } | RestartState::GaveUp => {
                        case.tries = 0;
                        case.state = RestartState::Running { since: now };
                    }
                    RestartState::Running { since } => {
                        let lives = now.saturating_duration_since(since);
                        if lives >= WELL {
                            actions.words.extend(case.end(&id, Some(since)));
                        }
                        if lives >= FORGIVEN {
                            self.cases.remove(&id);
                        }
                    }
                },
                Health::Resting => {
                    actions.words.extend(case.end(&id, None));
                    self.cases.remove(&id);
                }
            }
        }
        actions
    }

    /// Nobody looks any more: what is open ends.
    pub(crate) fn end(&mut self) -> Vec<Word> {
        let cases = std::mem::take(&mut self.cases).into_iter();
        cases
            .filter_map(|(id, mut case)| case.end(&id, None))
            .collect()
    }
}

impl Case {
    fn fail(
        &mut self,
        id: &PipelineId,
        now: Instant,
        why: &str,
        again: bool,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Word {
        let what_next = if again && self.tries < MOST_TRIES {
            let pause = FIRST_PAUSE * 3_u32.pow(self.tries);
            self.state = RestartState::Backoff { until: now + pause };
            format!(
                "it is begun anew in {} s, try {} of {MOST_TRIES}",
                pause.as_secs(),
                self.tries + 1
            )
        } else {
            self.state = RestartState::GaveUp;
            format!("it is not begun anew by itself; `watchkeeper pipelines resume {id}` begins it")
        };
        self.message = format!("it watches nothing: {why}; {what_next}");
        let phase = match self.told {
            Some(_) => Phase::Update,
            None => Phase::New,
        };
        let (event, _) = *self.told.get_or_insert_with(|| (new_id(), now));
        self.word(id, event, phase, None)
    }

    /// The end of what was told, if it was; `lives` where it runs since then.
    fn end(&mut self, id: &PipelineId, lives: Option<Instant>) -> Option<Word> {
        let (event, since) = self.told.take()?;
        let lasted = lives.map(|lives| lives.saturating_duration_since(since));
        Some(self.word(id, event, Phase::End, lasted))
    }

    fn word(
        &self,
        id: &PipelineId,
        event: EventId,
        phase: Phase,
        lasted: Option<Duration>,
    ) -> Word {
        Word {
            pipeline: id.clone(),
            source: self.source.clone(),
            record: BoxRecord {
                id: event,
                phase,
                body: EventBody::PipelineFailed {
                    message: self.message.clone(),
                    tries: self.tries,
                    lasted_s: lasted.map(|d| (d.as_secs_f64() * 1e3).round() / 1e3),
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

    /// Between two looks.
    const LOOK: Duration = Duration::from_secs(10);

    struct Bench {
        restarts: Restarts,
        now: Instant,
        ids: u128,
        /// Phase, tries and seconds of what was told.
        told: Vec<(Phase, u32, Option<f64>)>,
        /// How often it was begun anew.
        begun: u32,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                restarts: Restarts::default(),
                now: Instant::now(),
                ids: 0,
                told: Vec::new(),
                begun: 0,
            }
        }

        /// So many looks at the one pipeline; nothing where it is not there.
        fn looks(&mut self, number: u32, health: Option<&Health>) -> &mut Self {
            for _ in 0..number {
                self.now += LOOK;
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
                self.begun += u32::try_from(actions.due.len()).unwrap();
                self.note(actions.words);
            }
            self
        }

        fn note(&mut self, words: Vec<Word>) {
            for word in words {
                let EventBody::PipelineFailed {
                    tries, lasted_s, ..
                } = word.record.body
                else {
                    panic!("{word:?}");
                };
                self.told.push((word.record.phase, tries, lasted_s));
            }
        }
    }

    const WELL: Option<&Health> = Some(&Health::Well);
    const RESTING: Option<&Health> = Some(&Health::Resting);

    fn failed(again: bool) -> Health {
        Health::Failed {
            why: "a fault of ours ended it".to_owned(),
            again,
        }
    }

    #[test]
    fn a_failure_is_told_at_once_tried_after_a_pause_and_over_when_it_has_run_for_a_minute() {
        let mut bench = Bench::new();
        bench.looks(5, WELL).looks(1, Some(&failed(true)));
        assert_eq!(
            (&bench.told[..], bench.begun),
            (&[(Phase::New, 0, None)][..], 0)
        );
        bench.looks(1, Some(&failed(true)));
        assert_eq!(bench.begun, 1);
        bench.looks(6, WELL);
        assert_eq!(bench.told.len(), 1, "it may fail again");
        bench.looks(1, WELL);
        assert_eq!(bench.told[1..], [(Phase::End, 1, Some(20.0))]);
        bench.looks(1000, WELL);
        assert_eq!((bench.told.len(), bench.begun), (2, 1));
    }

    #[test]
    fn what_goes_on_failing_is_one_event_and_tried_a_few_times_with_growing_pauses() {
        let mut bench = Bench::new();
        let mut looks_until_try = Vec::new();
        for _ in 0..5 {
            let (begun, mut looks) = (bench.begun, 0);
            while bench.begun == begun {
                bench.looks(1, Some(&failed(true)));
                looks += 1;
            }
            looks_until_try.push(looks);
        }
        assert_eq!(looks_until_try, [2, 4, 10, 28, 82]);
        bench.looks(10_000, Some(&failed(true)));
        assert_eq!(bench.begun, MOST_TRIES);
        let phases: Vec<Phase> = bench.told.iter().map(|told| told.0).collect();
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
    fn one_that_dies_every_few_minutes_is_begun_no_more_often() {
        let mut bench = Bench::new();
        for _ in 0..50 {
            let begun = bench.begun;
            for _ in 0..200 {
                bench.looks(1, Some(&failed(true)));
                if bench.begun > begun {
                    break;
                }
            }
            if bench.begun > begun {
                bench.looks(30, WELL);
            }
        }
        assert_eq!(bench.begun, MOST_TRIES);
    }

    #[test]
    fn whoever_lived_for_an_hour_or_was_begun_by_a_person_has_all_its_tries_again() {
        for begins in [400, 1] {
            let mut bench = Bench::new();
            bench.looks(10_000, Some(&failed(true)));
            bench.looks(begins, WELL).looks(10_000, Some(&failed(true)));
            assert_eq!(bench.begun, 2 * MOST_TRIES, "{begins}");
        }
        let mut bench = Bench::new();
        bench.looks(2, Some(&failed(true)));
        bench.looks(361, WELL).looks(10_000, Some(&failed(true)));
        assert_eq!(bench.begun, 1 + MOST_TRIES);
    }

    #[test]
    fn a_recording_is_not_begun_anew_and_is_told_until_nobody_wants_it() {
        for rest in [RESTING, None] {
            let mut bench = Bench::new();
            bench.looks(100, Some(&failed(false)));
            assert_eq!((bench.told.len(), bench.begun), (1, 0));
            bench.looks(2, rest);
            assert_eq!(bench.told[1..], [(Phase::End, 0, None)]);
        }
    }

    #[test]
    fn one_that_never_failed_is_never_told() {
        let mut bench = Bench::new();
        bench.looks(10, WELL).looks(10, RESTING).looks(10, None);
        assert_eq!(bench.told, []);
        assert_eq!(bench.restarts.end(), []);
    }

    proptest! {
        #[test]
        fn whatever_happens_what_begins_ends_and_tries_are_bounded(
            runs in prop::collection::vec((0_usize..5, 1_u32..100), 0..40)
        ) {
            let mut bench = Bench::new();
            let healths = [Some(Health::Well), Some(failed(true)), Some(failed(false)), Some(Health::Resting), None];
            for (health, looks) in runs {
                let begun = bench.begun;
                bench.looks(looks, healths[health].as_ref());
                prop_assert!(bench.begun - begun <= MOST_TRIES);
            }
            let words = bench.restarts.end();
            bench.note(words);
            let mut open = false;
            for (phase, ..) in bench.told {
                prop_assert_eq!(phase == Phase::New, !open);
                open = phase != Phase::End;
            }
            prop_assert!(!open);
        }
    }
}
