//! Decides what a check finds, and which findings are news.
//!
//! Sans-IO: a [`CheckInput`] goes in, findings come out, and [`State`] is data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Zoned;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::SourceId;

use super::finding::Finding;
use super::input::{Budget, CameraState, CheckInput, RuntimeReport};
use watchkeeper_client::clock::age;

/// Shortest outage of a camera or pipeline that is reported.
const MIN_OUTAGE: Duration = Duration::from_secs(300);
/// Percentage from which a budget is nearly spent.
const NEARLY_SPENT_PERCENT: u64 = 80;
/// Fewest unanswered second opinions between two checks that are reported.
const MIN_GIVEN_UP: u64 = 3;
/// Limit of findings reported per check, the most severe first; later checks report the others.
pub(crate) const MAX_FINDINGS: usize = 32;

/// What earlier checks reported.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// Findings that were reported and still hold: key and mark.
    reported: BTreeMap<String, String>,
    /// News beyond [`MAX_FINDINGS`] at the last check: key and mark.
    deferred: BTreeMap<String, String>,
    /// Reported only once the next check sees them too: `runtime`, `undelivered`, `camera/ID` and
    /// `pipeline/ID`.
    suspected: BTreeSet<String>,
    /// Camera whose frame was looked at last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<SourceId>,
    /// Unanswered second opinions at the last check. The agent counts them from its start, so the
    /// number is not stored.
    #[serde(skip)]
    given_up: u64,
}

impl State {
    /// Returns the news of `input` and updates the state as if they were reported.
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
        // A rule whose share falls and rises again within the day is not reported twice.
        if let Some(local) = &input.local {
            let today = local.date().to_string();
            let of_today = before.extract_if(.., |key, mark| {
                key.starts_with("too_many_reviews/") && *mark == today
            });
            self.reported.extend(of_today);
        }
        // While the runtime does not answer, findings of cameras stay as they were reported.
        if input.runtime.is_none() {
            let of_cameras = before.into_iter().filter(|(key, _)| {
                ["camera_out/", "pipeline_failed/"]
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
            findings.extend(too_many_reviews(input, runtime));
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
            && (suspicions.confirm(&format!("camera/{}", camera.id))
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
        if has_camera && (suspicions.confirm(&format!("pipeline/{}", pipeline.id)) || lasts) {
            findings.push(Finding::PipelineFailed {
                pipeline: pipeline.id.clone(),
                camera: pipeline.camera.clone(),
            });
        }
    }
    findings
}

/// Finds rules whose events need a person too often. Without a set clock there is no day.
fn too_many_reviews<'r>(
    input: &CheckInput,
    runtime: &'r RuntimeReport,
) -> impl Iterator<Item = Finding> + use<'r> {
    let today = input.local.as_ref().map(Zoned::date);
    runtime.review_shares.iter().filter_map(move |share| {
        Some(Finding::TooManyReviews {
            pipeline: share.pipeline.clone(),
            rule: share.rule.clone(),
            doubtful: share.doubtful,
            events: share.events,
            day: today?,
        })
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
mod tests;
