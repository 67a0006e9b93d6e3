//! Decides what a check finds, and which findings are news.
//!
//! Sans-IO: a [`CheckInput`] goes in, findings come out, and [`State`] is data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{EventSeq, PipelineId, SourceId};

use super::finding::Finding;
use super::input::{Budget, Camera, CameraState, CheckInput, Hour, RuntimeReport};
use super::rhythm::{Closed, Rhythm};
use watchkeeper_client::clock::age;

/// Shortest outage of a camera or pipeline that is reported.
const MIN_OUTAGE: Duration = Duration::from_secs(300);
/// Days that an hour must be known before events can pile up in it.
const MIN_DAYS_PILING_UP: u32 = 3;
/// Days that an hour must be known, with events on each, before it can be silent.
const MIN_DAYS_SILENCE: u32 = 5;
/// Multiple of the usual count from which events pile up.
const PILING_UP_FACTOR: f64 = 5.0;
/// Fewest events of an hour that can pile up.
const MIN_PILING_UP: u64 = 20;
/// Fewest usual events of an hour that can be silent.
const MIN_USUAL: f64 = 3.0;
/// Percentage from which a budget is nearly spent.
const NEARLY_SPENT_PERCENT: u64 = 80;
/// Fewest unanswered second opinions between two checks that are reported.
const MIN_GIVEN_UP: u64 = 3;
/// Limit of findings reported per check, the most severe first; later checks report the others.
pub const MAX_FINDINGS: usize = 32;

/// What earlier checks reported and learned.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// Last journal record whose events were counted; absent before the first check.
    pub cursor: Option<EventSeq>,
    rhythm: Rhythm,
    /// Findings that were reported and still hold: key and mark.
    #[serde(rename = "told")]
    reported: BTreeMap<String, String>,
    /// News beyond [`MAX_FINDINGS`] at the last check: key and mark.
    #[serde(default, rename = "left")]
    deferred: BTreeMap<String, String>,
    /// Reported only once the next check sees them too: `runtime`, `undelivered`, keys by
    /// [`camera_key`] and [`pipeline_key`].
    #[serde(default, rename = "doubted")]
    suspected: BTreeSet<String>,
    /// Unanswered second opinions at the last check. The agent counts them from its start, so the
    /// number is not stored.
    #[serde(skip)]
    given_up: u64,
}

impl State {
    /// Returns the news of `input` and updates the state as if they were reported.
    #[must_use]
    pub fn judge(&mut self, input: &CheckInput) -> Vec<Finding> {
        let given_up = self.given_up;
        let mut findings = self.find(input);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
        let mut before = std::mem::take(&mut self.reported);
        self.deferred.clear();
        let mut news = Vec::new();
        for finding in findings {
            let (key, mark) = (finding.key(), finding.mark());
            let reported = before.remove(&key);
            if reported.as_ref() == Some(&mark) {
                self.reported.insert(key, mark);
            } else if news.len() < MAX_FINDINGS {
                self.reported.insert(key, mark);
                news.push(finding);
            } else {
                if let Finding::OpinionsGivenUp { .. } = finding {
                    self.given_up = given_up;
                }
                // An earlier report of it still holds.
                self.reported
                    .extend(reported.map(|mark| (key.clone(), mark)));
                self.deferred.insert(key, mark);
            }
        }
        // While the runtime does not answer, findings of cameras stay as they were reported.
        if input.runtime.is_none() {
            let of_cameras = before.into_iter().filter(|(key, _)| {
                ["camera_out/", "pipeline_failed/", "piling_up/", "silence/"]
                    .iter()
                    .any(|kind| key.starts_with(kind))
            });
            self.reported.extend(of_cameras);
        }
        news
    }

    /// Finds everything in `input`, news or not.
    fn find(&mut self, input: &CheckInput) -> Vec<Finding> {
        let mut suspicions = Suspicions {
            before: std::mem::take(&mut self.suspected),
            now: BTreeSet::new(),
        };
        let mut findings = match &input.runtime {
            None => Vec::from_iter(
                suspicions
                    .confirm("runtime")
                    .then_some(Finding::RuntimeAway),
            ),
            Some(runtime) => find_failures(runtime, input, &mut suspicions),
        };
        if input.undelivered > 0 && suspicions.confirm("undelivered") {
            findings.push(Finding::NotDelivered {
                waiting: input.undelivered,
            });
        }
        self.suspected = suspicions.now;
        if let Some(runtime) = &input.runtime {
            self.cursor = Some(runtime.cursor);
            self.find_unusual_hours(input, runtime, &mut findings);
        }
        let silent = input.failing_channels.iter().cloned();
        findings.extend(silent.map(|channel| Finding::ChannelSilent { channel }));
        findings.extend(input.budget.iter().flat_map(of_budget));
        let given_up = input.opinions_without_answer.saturating_sub(self.given_up);
        self.given_up = input.opinions_without_answer;
        if given_up >= MIN_GIVEN_UP {
            findings.push(Finding::OpinionsGivenUp { number: given_up });
        }
        findings
    }

    /// Adds cameras with far more events than usual at this hour, or none.
    fn find_unusual_hours(
        &mut self,
        input: &CheckInput,
        runtime: &RuntimeReport,
        found: &mut Vec<Finding>,
    ) {
        // Without a set clock there are no hours.
        let Some(now) = input.local.map(Hour::of) else {
            return;
        };
        let is_live = |camera: &&Camera| camera.state == CameraState::Live;
        let live = runtime.cameras.iter().filter(is_live).map(|c| c.id.clone());
        let live: Vec<SourceId> = live.collect();
        let all: Vec<SourceId> = runtime.cameras.iter().map(|c| c.id.clone()).collect();
        self.rhythm.keep_only(&all);
        let events = runtime.events.iter().map(|e| (&e.camera, e.hour));
        let closed = self.rhythm.take(now, events, &live, runtime.is_cut);
        for camera in &live {
            let events = self.rhythm.so_far(camera);
            let usual = self.rhythm.usual(camera, now.hour);
            #[expect(clippy::cast_precision_loss, reason = "a count beside a mean")]
            let is_more = events as f64 >= PILING_UP_FACTOR * usual.mean;
            if usual.days >= MIN_DAYS_PILING_UP && events >= MIN_PILING_UP && is_more {
                found.push(Finding::PilingUp {
                    camera: camera.clone(),
                    events,
                    usual: usual.mean,
                });
            }
        }
        match closed {
            Some(closed) => found.extend(silences(closed, now)),
            // Within the hour, the silence of the hour before still holds.
            None => found.extend(self.still_silent(now, &live)),
        }
    }

    /// Silences of the hour before, which hold until this hour is over.
    fn still_silent(&self, now: Hour, live: &[SourceId]) -> Vec<Finding> {
        let before = (now.hour + 23) % 24;
        let silent = live.iter().filter_map(|camera| {
            let finding = Finding::Silence {
                camera: camera.clone(),
                hour: before,
                usual: self.rhythm.usual(camera, before).mean,
            };
            let (key, mark) = (finding.key(), finding.mark());
            let is_known = [&self.reported, &self.deferred]
                .iter()
                .any(|known| known.get(&key) == Some(&mark));
            (is_known && self.rhythm.so_far(camera) == 0).then_some(finding)
        });
        silent.collect()
    }
}

/// Problems that become a finding if two consecutive checks see them.
struct Suspicions {
    before: BTreeSet<String>,
    now: BTreeSet<String>,
}

impl Suspicions {
    /// Records `key`; returns whether the previous check recorded it too.
    fn confirm(&mut self, key: &str) -> bool {
        self.now.insert(key.to_owned());
        self.before.contains(key)
    }
}

/// Finds cameras that are out and pipelines that failed.
fn find_failures(
    runtime: &RuntimeReport,
    input: &CheckInput,
    suspicions: &mut Suspicions,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for camera in &runtime.cameras {
        let is_out = matches!(
            camera.state,
            CameraState::Out { .. } | CameraState::Blind { .. }
        );
        // Without a reliable clock, two checks in a row prove it.
        if is_out
            && (suspicions.confirm(&camera_key(&camera.id))
                || age(camera.since, input.at) >= MIN_OUTAGE)
        {
            findings.push(Finding::CameraOut {
                camera: camera.id.clone(),
                state: camera.state,
            });
        }
    }
    for pipeline in &runtime.failed {
        // The finding of a camera that is out covers its pipelines.
        let has_camera = !runtime.cameras.iter().any(|camera| {
            camera.id == pipeline.camera && matches!(camera.state, CameraState::Out { .. })
        });
        let lasts = age(pipeline.since, input.at) >= MIN_OUTAGE;
        if has_camera && (suspicions.confirm(&pipeline_key(&pipeline.id)) || lasts) {
            findings.push(Finding::PipelineFailed {
                pipeline: pipeline.id.clone(),
                camera: pipeline.camera.clone(),
            });
        }
    }
    findings
}

/// Key of a suspicion. The prefix keeps cameras and pipelines of one name apart.
fn camera_key(camera: &SourceId) -> String {
    format!("camera/{camera}")
}

fn pipeline_key(pipeline: &PipelineId) -> String {
    format!("pipeline/{pipeline}")
}

fn silences(closed: Closed, now: Hour) -> impl Iterator<Item = Finding> {
    let silent = closed.cameras.into_iter().filter(|(_, events, usual)| {
        let always = usual.days >= MIN_DAYS_SILENCE && usual.lively >= MIN_DAYS_SILENCE;
        *events == 0 && always && usual.mean >= MIN_USUAL
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
        (limit.0 > 0 && percent >= NEARLY_SPENT_PERCENT)
            .then_some(Finding::BudgetNearlySpent { period, percent })
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

    use super::super::input::{CameraEvent, FailedPipeline};
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

    /// Input of a check without a finding.
    fn calm(minutes: i64) -> CheckInput {
        CheckInput {
            at: wall(minutes),
            local: None,
            runtime: Some(RuntimeReport {
                cameras: vec![camera(CameraState::Live, 0)],
                ..RuntimeReport::default()
            }),
            undelivered: 0,
            failing_channels: Vec::new(),
            budget: None,
            opinions_without_answer: 0,
        }
    }

    fn with(minutes: i64, change: impl FnOnce(&mut CheckInput)) -> CheckInput {
        let mut input = calm(minutes);
        change(&mut input);
        input
    }

    fn kinds(found: &[Finding]) -> Vec<&'static str> {
        found.iter().map(Finding::kind).collect()
    }

    const OUT: CameraState = CameraState::Out {
        cause: LossCause::Refused,
    };

    fn out(minutes: i64, since: i64, state: CameraState) -> CheckInput {
        with(minutes, |input| {
            input.runtime = Some(RuntimeReport {
                cameras: vec![camera(state, since)],
                ..RuntimeReport::default()
            });
        })
    }

    #[test]
    fn healthy_box_reports_nothing() {
        let mut state = State::default();
        for minutes in 0..100 {
            assert_eq!(state.judge(&calm(minutes)), []);
        }
    }

    #[test]
    fn camera_out_is_reported_once_and_after_each_change() {
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

    fn failed(minutes: i64, since: i64, camera_state: CameraState) -> CheckInput {
        with(minutes, |input| {
            input.runtime = Some(RuntimeReport {
                cameras: vec![camera(camera_state, since)],
                failed: vec![FailedPipeline {
                    id: PipelineId::new("watch").unwrap(),
                    camera: gate(),
                    since: wall(since),
                }],
                ..RuntimeReport::default()
            });
        })
    }

    #[test]
    fn failed_pipeline_is_reported_once_until_it_ran() {
        let mut state = State::default();
        let live = CameraState::Live;
        assert_eq!(state.judge(&failed(1, 0, live)), [], "it restarts");
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
        let away = with(91, |input| input.runtime = None);
        assert_eq!(state.judge(&away), []);
        assert_eq!(state.judge(&failed(121, 0, live)), [], "reported before");
        assert_eq!(state.judge(&calm(151)), []);
        assert_eq!(
            kinds(&state.judge(&failed(181, 160, live))),
            ["pipeline_failed"]
        );
    }

    #[test]
    fn camera_out_covers_its_pipelines() {
        let mut state = State::default();
        assert_eq!(kinds(&state.judge(&failed(31, 0, OUT))), ["camera_out"]);
    }

    #[test]
    fn state_holds_over_a_restart() {
        let mut state = State::default();
        assert_eq!(state.judge(&out(31, 0, OUT)).len(), 1);
        let kept = serde_json::to_string(&state).unwrap();
        let mut again: State = serde_json::from_str(&kept).unwrap();
        assert_eq!(again.judge(&out(61, 0, OUT)), []);
    }

    #[test]
    fn absent_runtime_is_reported_second_and_keeps_camera_reports() {
        let away = |minutes| with(minutes, |input| input.runtime = None);
        let mut state = State::default();
        assert_eq!(state.judge(&out(31, 0, OUT)).len(), 1);
        assert_eq!(state.judge(&away(61)), [], "it may be starting");
        assert_eq!(kinds(&state.judge(&away(91))), ["runtime_away"]);
        assert_eq!(state.judge(&away(121)), []);
        assert_eq!(state.judge(&out(151, 0, OUT)), [], "reported before");
    }

    #[test]
    fn camera_named_like_a_suspicion_is_no_suspicion() {
        for name in ["runtime", "undelivered"] {
            let named = |input: &mut CheckInput, since| {
                let id = SourceId::new(name).unwrap();
                input.runtime = Some(RuntimeReport {
                    cameras: vec![Camera {
                        id,
                        ..camera(OUT, since)
                    }],
                    ..RuntimeReport::default()
                });
            };
            let mut state = State::default();
            assert_eq!(state.judge(&with(1, |input| named(input, 0))), []);
            let next = with(2, |input| match name {
                "runtime" => input.runtime = None,
                _ => {
                    input.undelivered = 7;
                    named(input, 2);
                }
            });
            let found = state.judge(&next);
            let wanted: &[&str] = match name {
                "runtime" => &[],
                _ => &["camera_out"],
            };
            assert_eq!(kinds(&found), wanted, "{name}: {found:?}");
        }
    }

    #[test]
    fn undelivered_messages_are_reported_at_second_check() {
        let waits = |minutes| with(minutes, |input| input.undelivered = 7);
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
    fn findings_beyond_limit_are_reported_next_time() {
        let many = |minutes| {
            with(minutes, |input| {
                let camera = |n| Camera {
                    id: SourceId::new(format!("c{n:02}")).unwrap(),
                    ..camera(OUT, 0)
                };
                input.runtime = Some(RuntimeReport {
                    cameras: (0..40).map(camera).collect(),
                    ..RuntimeReport::default()
                });
                input.undelivered = 7;
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
        assert_eq!(keys.len(), 41, "each is reported once");
        assert_eq!(state.judge(&many(91)), []);
    }

    #[test]
    fn opinions_beyond_limit_are_reported_next_time() {
        let input = |minutes, given_up| {
            with(minutes, |input| {
                let channel = |n| ChannelId::new(format!("c{n:02}")).unwrap();
                input.failing_channels = (0..MAX_FINDINGS).map(channel).collect();
                input.opinions_without_answer = given_up;
            })
        };
        let mut state = State::default();
        assert_eq!(kinds(&state.judge(&input(0, 5))), ["channel_silent"; 32]);
        assert_eq!(
            state.judge(&input(30, 6)),
            [Finding::OpinionsGivenUp { number: 6 }]
        );
    }

    #[test]
    fn budget_is_reported_nearly_spent_and_spent() {
        let spent = |minutes, cents: u64| {
            with(minutes, |input| {
                input.budget = Some(Budget {
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
    fn failing_opinions_and_channels_are_reported() {
        let mut state = State::default();
        let input =
            |minutes, given_up| with(minutes, |input| input.opinions_without_answer = given_up);
        assert_eq!(state.judge(&input(0, 2)), []);
        assert_eq!(
            state.judge(&input(30, 5)),
            [Finding::OpinionsGivenUp { number: 3 }]
        );
        assert_eq!(state.judge(&input(60, 9)), [], "it still holds");
        assert_eq!(state.judge(&input(90, 9)), []);
        let channel = ChannelId::new("security").unwrap();
        let silent = |minutes| {
            with(minutes, |input| {
                input.failing_channels = vec![channel.clone()]
            })
        };
        assert_eq!(kinds(&state.judge(&silent(120))), ["channel_silent"]);
        assert_eq!(state.judge(&silent(150)), []);
    }

    /// Input of a check with `events` new events of the gate.
    fn busy(at: DateTime, events: usize) -> CheckInput {
        let camera_event = CameraEvent {
            camera: gate(),
            hour: Hour::of(at),
        };
        with(0, |input| {
            input.local = Some(at);
            input.runtime = Some(RuntimeReport {
                cameras: vec![camera(CameraState::Live, 0)],
                events: vec![camera_event; events],
                ..RuntimeReport::default()
            });
        })
    }

    /// Six days of checks every half hour: the gate has ten events from 8 to 9, otherwise none.
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
    fn piling_up_is_reported_once_and_at_each_doubling() {
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
        // Thirty are not five times the usual ten.
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
    fn silence_is_reported_when_the_hour_is_over() {
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
        // A finding beyond the limit is reported next time.
        let mut state = lived();
        for half in 0..18_i8 {
            assert_eq!(
                state.judge(&busy(seventh(half / 2, (half % 2) * 30), 0)),
                []
            );
        }
        let mut full = busy(seventh(9, 0), 0);
        full.runtime.as_mut().unwrap().cameras.splice(
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
        // A quiet hour is no silence where some days had no event.
        let mut state = lived();
        assert_eq!(state.judge(&busy(seventh(0, 0), 0)), []);
        assert_eq!(state.judge(&busy(seventh(1, 0), 0)), []);
    }

    #[test]
    fn unset_clock_learns_no_hours_and_reports_the_rest() {
        let mut state = lived();
        let before = state.rhythm.clone();
        let unset = |minutes| {
            with(minutes, |input| {
                input.at.quality = TimeQuality::Unsynced;
                input.runtime = Some(RuntimeReport {
                    cameras: vec![camera(OUT, 0)],
                    ..RuntimeReport::default()
                });
            })
        };
        assert_eq!(state.judge(&unset(1)), []);
        assert_eq!(kinds(&state.judge(&unset(2))), ["camera_out"]);
        assert_eq!(state.rhythm, before);
    }

    proptest! {
        /// A repeated check finds no news.
        #[test]
        fn same_finding_is_never_reported_twice_in_a_row(inputs in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..200, 0_u64..3, any::<bool>()), 1..20)) {
            let mut state = State::default();
            for (n, (is_out, is_away, spent, undelivered, silent)) in inputs.into_iter().enumerate() {
                let minutes = 30 * i64::try_from(n).unwrap();
                let mut input = if is_out { out(minutes, 0, OUT) } else { calm(minutes) };
                if is_away {
                    input.runtime = None;
                }
                input.undelivered = undelivered;
                input.budget = Some(Budget { day: Money(spent), day_limit: Money(100), month: Money(0), month_limit: Money(0) });
                if silent {
                    input.failing_channels = vec![ChannelId::new("a").unwrap()];
                }
                let _first = state.judge(&input);
                // A suspicion may be confirmed by the repetition; after that nothing is left.
                let _second = state.judge(&input);
                prop_assert_eq!(state.judge(&input), []);
            }
        }
    }
}
