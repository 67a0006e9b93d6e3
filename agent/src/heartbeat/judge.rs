//! Which findings a look has, and which of them are news.
//!
//! Sans-IO: a look goes in, findings come out, and the state is data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{EventSeq, PipelineId, SourceId};

use super::finding::Finding;
use super::look::{Budget, Camera, CameraState, Hour, House, Look};
use super::rhythm::{Closed, Rhythm};
use watchkeeper_client::clock::age;

/// How long a camera may be out before it is worth a word: one that comes back is no news.
const OUT_FOR: Duration = Duration::from_secs(300);
/// Days of which an hour has to be known before more than usual is seen in it.
const DAYS_FOR_MORE: u32 = 3;
/// The same for nothing where there was always something.
const DAYS_FOR_NONE: u32 = 5;
/// Times of what is usual from which events pile up.
const TIMES: f64 = 5.0;
/// Events of an hour below which nothing piles up.
const LEAST: u64 = 20;
/// Events that an hour has to have usually, so that none is a silence.
const USUALLY: f64 = 3.0;
/// Percent of the money from which it is nearly spent.
const NEARLY: u64 = 80;
/// Second opinions without an answer between two looks, from which that is worth a word.
const GIVEN_UP: u64 = 3;
/// Most findings that are told of one look, the gravest first; the others are told of the looks after it.
pub const MAX_FINDINGS: usize = 32;

/// What is known from the looks before.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// Up to which record of the journal events were counted; none before the first look.
    pub cursor: Option<EventSeq>,
    rhythm: Rhythm,
    /// What was told and still is so: its key, and how it stood.
    told: BTreeMap<String, String>,
    /// News for which there was no room at the last look: its key, and how it stood.
    #[serde(default)]
    left: BTreeMap<String, String>,
    /// What was so at the last look but is not worth a word before it is so at the next: `runtime`, `undelivered`, cameras by [`of_camera`], and pipelines
    /// by [`of_pipeline`].
    #[serde(default)]
    doubted: BTreeSet<String>,
    /// Second opinions without an answer at the last look; counted from the agent's start, so it is not kept.
    #[serde(skip)]
    given_up: u64,
}

impl State {
    /// Takes a look: what it finds that is news. The state is what it is when all of that was told.
    #[must_use]
    pub fn judge(&mut self, look: &Look) -> Vec<Finding> {
        let given_up = self.given_up;
        let mut all = self.all(look);
        all.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
        let mut before = std::mem::take(&mut self.told);
        self.left.clear();
        let mut news = Vec::new();
        for finding in all {
            let (key, mark) = (finding.key(), finding.mark());
            let told = before.remove(&key);
            if told.as_ref() == Some(&mark) {
                self.told.insert(key, mark);
            } else if news.len() < MAX_FINDINGS {
                self.told.insert(key, mark);
                news.push(finding);
            } else {
                if let Finding::OpinionsGivenUp { .. } = finding {
                    self.given_up = given_up;
                }
                // What was told of it still stands, and is not told again where it comes back.
                self.told.extend(told.map(|told| (key.clone(), told)));
                self.left.insert(key, mark);
            }
        }
        // Of cameras nothing is known while nobody answers: what was told of them is not news when it still is so afterwards.
        if look.house.is_none() {
            let of_cameras = before.into_iter().filter(|(key, _)| {
                ["camera_out/", "pipeline_failed/", "piling_up/", "silence/"]
                    .iter()
                    .any(|kind| key.starts_with(kind))
            });
            self.told.extend(of_cameras);
        }
        news
    }

    fn all(&mut self, look: &Look) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut doubted = BTreeSet::new();
        let mut again = |key: &str| {
            doubted.insert(key.to_owned());
            self.doubted.contains(key)
        };
        match &look.house {
            None => {
                if again("runtime") {
                    found.push(Finding::RuntimeAway);
                }
            }
            Some(house) => {
                for camera in &house.cameras {
                    let is_out = matches!(
                        camera.state,
                        CameraState::Out { .. } | CameraState::Blind { .. }
                    );
                    // Where no clock can be believed, two looks in a row prove it.
                    if is_out
                        && (again(&of_camera(&camera.id)) || age(camera.since, look.at) >= OUT_FOR)
                    {
                        found.push(Finding::CameraOut {
                            camera: camera.id.clone(),
                            state: camera.state,
                        });
                    }
                }
                for pipeline in &house.failed {
                    // Of one whose camera is out that is told.
                    let has_camera = !house.cameras.iter().any(|camera| {
                        camera.id == pipeline.camera
                            && matches!(camera.state, CameraState::Out { .. })
                    });
                    let lasts = age(pipeline.since, look.at) >= OUT_FOR;
                    if has_camera && (again(&of_pipeline(&pipeline.id)) || lasts) {
                        found.push(Finding::PipelineFailed {
                            pipeline: pipeline.id.clone(),
                            camera: pipeline.camera.clone(),
                        });
                    }
                }
            }
        }
        if look.undelivered > 0 && again("undelivered") {
            found.push(Finding::NotDelivered {
                waiting: look.undelivered,
            });
        }
        self.doubted = doubted;
        if let Some(house) = &look.house {
            self.cursor = Some(house.cursor);
            self.of_events(look, house, &mut found);
        }
        let silent = look.silent_channels.iter().cloned();
        found.extend(silent.map(|channel| Finding::ChannelSilent { channel }));
        found.extend(look.budget.iter().flat_map(of_budget));
        let given_up = look.given_up.saturating_sub(self.given_up);
        self.given_up = look.given_up;
        if given_up >= GIVEN_UP {
            found.push(Finding::OpinionsGivenUp { number: given_up });
        }
        found
    }

    /// What the events of the cameras say.
    fn of_events(&mut self, look: &Look, house: &House, found: &mut Vec<Finding>) {
        // A box that does not know its time knows no hours.
        let Some(now) = look.local.map(Hour::of) else {
            return;
        };
        let is_live = |camera: &&Camera| camera.state == CameraState::Live;
        let live = house.cameras.iter().filter(is_live).map(|c| c.id.clone());
        let live: Vec<SourceId> = live.collect();
        let all: Vec<SourceId> = house.cameras.iter().map(|c| c.id.clone()).collect();
        self.rhythm.keep_only(&all);
        let events = house.events.iter().map(|e| (&e.camera, e.hour));
        let closed = self.rhythm.take(now, events, &live, house.is_cut);
        for camera in &live {
            let events = self.rhythm.so_far(camera);
            let usual = self.rhythm.usual(camera, now.hour);
            #[expect(clippy::cast_precision_loss, reason = "a count beside a mean")]
            let is_more = events as f64 >= TIMES * usual.mean;
            if usual.days >= DAYS_FOR_MORE && events >= LEAST && is_more {
                found.push(Finding::PilingUp {
                    camera: camera.clone(),
                    events,
                    usual: usual.mean,
                });
            }
        }
        match closed {
            Some(closed) => found.extend(silences(closed, now)),
            // The hour goes on: what was silent before it is still so.
            None => found.extend(self.still_silent(now, &live)),
        }
    }

    /// Silences of the hour before, which hold until the next hour is over.
    fn still_silent(&self, now: Hour, live: &[SourceId]) -> Vec<Finding> {
        let before = (now.hour + 23) % 24;
        let silent = live.iter().filter_map(|camera| {
            let finding = Finding::Silence {
                camera: camera.clone(),
                hour: before,
                usual: self.rhythm.usual(camera, before).mean,
            };
            let (key, mark) = (finding.key(), finding.mark());
            let is_known = [&self.told, &self.left]
                .iter()
                .any(|known| known.get(&key) == Some(&mark));
            (is_known && self.rhythm.so_far(camera) == 0).then_some(finding)
        });
        silent.collect()
    }
}

/// What is doubted of a camera. Its name alone could be that of something else.
fn of_camera(camera: &SourceId) -> String {
    format!("camera/{camera}")
}

/// The same of a pipeline.
fn of_pipeline(pipeline: &PipelineId) -> String {
    format!("pipeline/{pipeline}")
}

fn silences(closed: Closed, now: Hour) -> impl Iterator<Item = Finding> {
    let silent = closed.cameras.into_iter().filter(|(_, events, usual)| {
        let always = usual.days >= DAYS_FOR_NONE && usual.lively >= DAYS_FOR_NONE;
        *events == 0 && always && usual.mean >= USUALLY
    });
    silent.map(move |(camera, _, usual)| Finding::Silence {
        camera,
        hour: (now.hour + 23) % 24,
        usual: usual.mean,
    })
}

fn of_budget(budget: &Budget) -> Vec<Finding> {
    let parts = [
        ("day", budget.day, budget.day_limit),
        ("month", budget.month, budget.month_limit),
    ];
    let near = parts.into_iter().filter_map(|(period, spent, limit)| {
        let percent = u128::from(spent.0) * 100 / u128::from(limit.0).max(1);
        let percent = u64::try_from(percent).unwrap_or(u64::MAX);
        (limit.0 > 0 && percent >= NEARLY).then_some(Finding::BudgetNearlySpent { period, percent })
    });
    near.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use jiff::civil::{DateTime, date};
    use proptest::prelude::*;
    use watchkeeper_contract::id::{ChannelId, PipelineId};
    use watchkeeper_contract::rule::Severity;
    use watchkeeper_contract::source::LossCause;
    use watchkeeper_contract::time::{TimeQuality, Wall};
    use watchkeeper_llm::money::Money;

    use super::super::look::{FailedPipeline, Moment};
    use super::*;

    fn gate() -> SourceId {
        SourceId::new("gate").unwrap()
    }

    fn wall(minutes: i64) -> Wall {
        Wall {
            unix_ms: 1_793_000_000_000 + minutes * 60_000,
            quality: TimeQuality::Synced,
        }
    }

    fn camera(state: CameraState, since: i64) -> Camera {
        Camera {
            id: gate(),
            state,
            since: wall(since),
        }
    }

    /// A look at which nothing is wrong.
    fn calm(minutes: i64) -> Look {
        Look {
            at: wall(minutes),
            local: None,
            house: Some(House {
                cameras: vec![camera(CameraState::Live, 0)],
                ..House::default()
            }),
            undelivered: 0,
            silent_channels: Vec::new(),
            budget: None,
            given_up: 0,
        }
    }

    fn with(minutes: i64, change: impl FnOnce(&mut Look)) -> Look {
        let mut look = calm(minutes);
        change(&mut look);
        look
    }

    fn kinds(found: &[Finding]) -> Vec<&'static str> {
        found.iter().map(Finding::kind).collect()
    }

    const OUT: CameraState = CameraState::Out {
        cause: LossCause::Refused,
    };

    fn out(minutes: i64, since: i64, state: CameraState) -> Look {
        with(minutes, |look| {
            look.house = Some(House {
                cameras: vec![camera(state, since)],
                ..House::default()
            });
        })
    }

    #[test]
    fn where_all_is_well_nothing_is_said() {
        let mut state = State::default();
        for minutes in 0..100 {
            assert_eq!(state.judge(&calm(minutes)), []);
        }
    }

    #[test]
    fn a_camera_that_is_out_is_told_once_and_again_when_it_changes_or_comes_back_out() {
        let mut state = State::default();
        assert_eq!(state.judge(&out(1, 0, OUT)), [], "it may come back");
        assert_eq!(kinds(&state.judge(&out(31, 0, OUT))), ["camera_out"]);
        assert_eq!(state.judge(&out(61, 0, OUT)), []);
        let other = CameraState::Out {
            cause: LossCause::Authentication,
        };
        let found = state.judge(&out(91, 0, other));
        assert!(
            found[0].sentence().contains("gate is out (authentication)"),
            "{found:?}"
        );
        assert_eq!(state.judge(&calm(121)), []);
        assert_eq!(kinds(&state.judge(&out(151, 140, OUT))), ["camera_out"]);
    }

    fn failed(minutes: i64, since: i64, camera_state: CameraState) -> Look {
        with(minutes, |look| {
            look.house = Some(House {
                cameras: vec![camera(camera_state, since)],
                failed: vec![FailedPipeline {
                    id: PipelineId::new("watch").unwrap(),
                    camera: gate(),
                    since: wall(since),
                }],
                ..House::default()
            });
        })
    }

    #[test]
    fn a_pipeline_that_does_not_run_is_told_once_and_again_when_it_ran_in_between() {
        let mut state = State::default();
        let live = CameraState::Live;
        assert_eq!(state.judge(&failed(1, 0, live)), [], "it is begun anew");
        let found = state.judge(&failed(31, 0, live));
        assert_eq!(kinds(&found), ["pipeline_failed"]);
        assert_eq!(found[0].severity(), Severity::Critical);
        assert!(
            found[0]
                .sentence()
                .contains("watchkeeper pipelines resume watch"),
            "{found:?}"
        );
        assert_eq!(state.judge(&failed(61, 0, live)), []);
        let away = with(91, |look| look.house = None);
        assert_eq!(state.judge(&away), []);
        assert_eq!(state.judge(&failed(121, 0, live)), [], "that was told");
        assert_eq!(state.judge(&calm(151)), []);
        assert_eq!(
            kinds(&state.judge(&failed(181, 160, live))),
            ["pipeline_failed"]
        );
    }

    #[test]
    fn of_a_pipeline_whose_camera_is_out_the_camera_is_told() {
        let mut state = State::default();
        assert_eq!(kinds(&state.judge(&failed(31, 0, OUT))), ["camera_out"]);
    }

    #[test]
    fn the_state_holds_over_a_restart() {
        let mut state = State::default();
        assert_eq!(state.judge(&out(31, 0, OUT)).len(), 1);
        let kept = serde_json::to_string(&state).unwrap();
        let mut again: State = serde_json::from_str(&kept).unwrap();
        assert_eq!(again.judge(&out(61, 0, OUT)), []);
    }

    #[test]
    fn a_runtime_that_is_away_is_told_at_the_second_look_and_takes_back_nothing_of_the_cameras() {
        let away = |minutes| with(minutes, |look| look.house = None);
        let mut state = State::default();
        assert_eq!(state.judge(&out(31, 0, OUT)).len(), 1);
        assert_eq!(state.judge(&away(61)), [], "it may be starting");
        assert_eq!(kinds(&state.judge(&away(91))), ["runtime_away"]);
        assert_eq!(state.judge(&away(121)), []);
        assert_eq!(state.judge(&out(151, 0, OUT)), [], "that was told");
    }

    #[test]
    fn a_camera_is_not_taken_for_what_it_is_named_after() {
        for name in ["runtime", "undelivered"] {
            let named = |look: &mut Look, since| {
                let id = SourceId::new(name).unwrap();
                look.house = Some(House {
                    cameras: vec![Camera {
                        id,
                        ..camera(OUT, since)
                    }],
                    ..House::default()
                });
            };
            let mut state = State::default();
            assert_eq!(state.judge(&with(1, |look| named(look, 0))), []);
            let next = with(2, |look| match name {
                "runtime" => look.house = None,
                _ => {
                    look.undelivered = 7;
                    named(look, 2);
                }
            });
            let told = state.judge(&next);
            let wanted: &[&str] = match name {
                "runtime" => &[],
                _ => &["camera_out"],
            };
            assert_eq!(kinds(&told), wanted, "{name}: {told:?}");
        }
    }

    #[test]
    fn what_waits_for_a_broker_is_told_when_it_still_does_at_the_next_look() {
        let waits = |minutes| with(minutes, |look| look.undelivered = 7);
        let mut state = State::default();
        assert_eq!(state.judge(&waits(0)), []);
        let found = state.judge(&waits(30));
        assert!(
            found[0].sentence().starts_with("7 messages wait"),
            "{found:?}"
        );
        assert_eq!(state.judge(&waits(60)), []);
        assert_eq!(state.judge(&calm(90)), []);
        assert_eq!(state.judge(&waits(120)), []);
        assert_eq!(state.judge(&waits(150)).len(), 1);
    }

    #[test]
    fn of_more_than_is_told_of_one_look_the_rest_is_told_of_the_next() {
        let many = |minutes| {
            with(minutes, |look| {
                let camera = |n| Camera {
                    id: SourceId::new(format!("c{n:02}")).unwrap(),
                    ..camera(OUT, 0)
                };
                look.house = Some(House {
                    cameras: (0..40).map(camera).collect(),
                    ..House::default()
                });
                look.undelivered = 7;
            })
        };
        let mut state = State::default();
        let first = state.judge(&many(31));
        assert_eq!(first.len(), MAX_FINDINGS);
        let kept = serde_json::to_string(&state).unwrap();
        let mut state: State = serde_json::from_str(&kept).unwrap();
        let second = state.judge(&many(61));
        assert_eq!(second.len(), 40 - MAX_FINDINGS + 1, "{second:?}");
        assert!(kinds(&second).contains(&"not_delivered"), "{second:?}");
        let keys: BTreeSet<String> = first.iter().chain(&second).map(Finding::key).collect();
        assert_eq!(keys.len(), 41, "each is told once");
        assert_eq!(state.judge(&many(91)), []);
    }

    #[test]
    fn opinions_for_which_there_was_no_room_are_told_of_the_next_look() {
        let look = |minutes, given_up| {
            with(minutes, |look| {
                let channel = |n| ChannelId::new(format!("c{n:02}")).unwrap();
                look.silent_channels = (0..MAX_FINDINGS).map(channel).collect();
                look.given_up = given_up;
            })
        };
        let mut state = State::default();
        assert_eq!(kinds(&state.judge(&look(0, 5))), ["channel_silent"; 32]);
        assert_eq!(
            state.judge(&look(30, 6)),
            [Finding::OpinionsGivenUp { number: 6 }]
        );
    }

    #[test]
    fn money_is_told_when_it_is_nearly_gone_and_when_it_is() {
        let spent = |minutes, cents: u64| {
            with(minutes, |look| {
                look.budget = Some(Budget {
                    day: Money(cents),
                    day_limit: Money(100),
                    month: Money(cents),
                    month_limit: Money(10_000),
                });
            })
        };
        let mut state = State::default();
        assert_eq!(state.judge(&spent(0, 79)), []);
        assert_eq!(kinds(&state.judge(&spent(30, 80))), ["budget_nearly_spent"]);
        assert_eq!(state.judge(&spent(60, 95)), []);
        assert_eq!(state.judge(&spent(90, 100)).len(), 1);
        assert_eq!(state.judge(&spent(120, 120)), []);
        assert_eq!(state.judge(&spent(150, 0)), [], "a new day");
        assert_eq!(state.judge(&spent(180, 85)).len(), 1);
    }

    #[test]
    fn opinions_and_channels_that_fail_are_told() {
        let mut state = State::default();
        let look = |minutes, given_up| with(minutes, |look| look.given_up = given_up);
        assert_eq!(state.judge(&look(0, 2)), []);
        assert_eq!(
            state.judge(&look(30, 5)),
            [Finding::OpinionsGivenUp { number: 3 }]
        );
        assert_eq!(state.judge(&look(60, 9)), [], "it still goes on");
        assert_eq!(state.judge(&look(90, 9)), []);
        let channel = ChannelId::new("security").unwrap();
        let silent = |minutes| with(minutes, |look| look.silent_channels = vec![channel.clone()]);
        assert_eq!(kinds(&state.judge(&silent(120))), ["channel_silent"]);
        assert_eq!(state.judge(&silent(150)), []);
    }

    /// A look at this time with so many new events of the gate.
    fn busy(at: DateTime, events: usize) -> Look {
        let moment = Moment {
            camera: gate(),
            hour: Hour::of(at),
        };
        with(0, |look| {
            look.local = Some(at);
            look.house = Some(House {
                cameras: vec![camera(CameraState::Live, 0)],
                events: vec![moment; events],
                ..House::default()
            });
        })
    }

    /// A box that looked every half hour for six days: from 8 to 9 the gate has ten events, otherwise none.
    fn lived() -> State {
        let mut state = State::default();
        for day in 1..=6 {
            for half in 0..48_i8 {
                let at = date(2026, 11, day).at(half / 2, (half % 2) * 30, 0, 0);
                let events = if half / 2 == 8 { 5 } else { 0 };
                assert_eq!(state.judge(&busy(at, events)), [], "{at}");
            }
        }
        state
    }

    fn seventh(hour: i8, minute: i8) -> DateTime {
        date(2026, 11, 7).at(hour, minute, 0, 0)
    }

    #[test]
    fn far_more_events_than_usual_are_told_once_and_again_when_they_double() {
        let mut state = lived();
        assert_eq!(state.judge(&busy(seventh(0, 0), 0)), []);
        assert_eq!(state.judge(&busy(seventh(0, 30), 19)), [], "not yet many");
        let found = state.judge(&busy(seventh(0, 40), 11));
        let Finding::PilingUp { events: 30, .. } = found[0] else {
            panic!("{found:?}");
        };
        assert_eq!(state.judge(&busy(seventh(0, 45), 1)), []);
        assert_eq!(
            kinds(&state.judge(&busy(seventh(0, 50), 33))),
            ["piling_up"]
        );
        // Where ten are usual, thirty are not five times as many.
        let mut state = lived();
        assert_eq!(state.judge(&busy(seventh(0, 0), 0)), []);
        let mut usual = lived();
        for half in 0..16_i8 {
            assert_eq!(
                usual.judge(&busy(seventh(half / 2, (half % 2) * 30), 0)),
                []
            );
        }
        assert_eq!(usual.judge(&busy(seventh(8, 0), 30)), []);
        assert_eq!(
            kinds(&usual.judge(&busy(seventh(8, 30), 30))),
            ["piling_up"]
        );
    }

    #[test]
    fn silence_where_there_was_always_something_is_told_when_the_hour_is_over() {
        let mut state = lived();
        for half in 0..18_i8 {
            let at = seventh(half / 2, (half % 2) * 30);
            assert_eq!(state.judge(&busy(at, 0)), [], "{at}");
        }
        let found = state.judge(&busy(seventh(9, 0), 0));
        assert_eq!(kinds(&found), ["silence"]);
        let said = found[0].sentence();
        assert!(
            said.contains("from 8:00 to 9:00") && said.contains("usually has 10"),
            "{said}"
        );
        assert_eq!(state.judge(&busy(seventh(9, 30), 0)), []);
        assert_eq!(state.judge(&busy(seventh(10, 0), 0)), []);
        // One for which there was no room is told of the next look.
        let mut state = lived();
        for half in 0..18_i8 {
            assert_eq!(
                state.judge(&busy(seventh(half / 2, (half % 2) * 30), 0)),
                []
            );
        }
        let mut full = busy(seventh(9, 0), 0);
        full.house.as_mut().unwrap().cameras.splice(
            0..0,
            (0..MAX_FINDINGS).map(|n| Camera {
                id: SourceId::new(format!("c{n:02}")).unwrap(),
                ..camera(OUT, -60)
            }),
        );
        assert_eq!(kinds(&state.judge(&full)), ["camera_out"; 32]);
        full.local = Some(seventh(9, 30));
        assert_eq!(kinds(&state.judge(&full)), ["silence"]);
        assert_eq!(state.judge(&full), []);
        // A quiet hour is no silence where some days had none.
        let mut state = lived();
        assert_eq!(state.judge(&busy(seventh(0, 0), 0)), []);
        assert_eq!(state.judge(&busy(seventh(1, 0), 0)), []);
    }

    #[test]
    fn a_box_that_does_not_know_its_time_learns_no_hours_and_tells_the_rest() {
        let mut state = lived();
        let before = state.rhythm.clone();
        let unset = |minutes| {
            with(minutes, |look| {
                look.at.quality = TimeQuality::Unsynced;
                look.house = Some(House {
                    cameras: vec![camera(OUT, 0)],
                    ..House::default()
                });
            })
        };
        assert_eq!(state.judge(&unset(1)), []);
        assert_eq!(kinds(&state.judge(&unset(2))), ["camera_out"]);
        assert_eq!(state.rhythm, before);
    }

    proptest! {
        /// Whatever is found, the same look right after it finds no news.
        #[test]
        fn the_same_is_never_told_twice_in_a_row(looks in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..200, 0_u64..3, any::<bool>()), 1..20)) {
            let mut state = State::default();
            for (n, (is_out, is_away, spent, undelivered, silent)) in looks.into_iter().enumerate() {
                let minutes = 30 * i64::try_from(n).unwrap();
                let mut look = if is_out { out(minutes, 0, OUT) } else { calm(minutes) };
                if is_away {
                    look.house = None;
                }
                look.undelivered = undelivered;
                look.budget = Some(Budget { day: Money(spent), day_limit: Money(100), month: Money(0), month_limit: Money(0) });
                if silent {
                    look.silent_channels = vec![ChannelId::new("a").unwrap()];
                }
                let _first = state.judge(&look);
                // What was only doubted before may be told now; then nothing is left.
                let _second = state.judge(&look);
                prop_assert_eq!(state.judge(&look), []);
            }
        }
    }
}
