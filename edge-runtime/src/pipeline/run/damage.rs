//! What a run counts while its pictures are damaged.
//!
//! - A picture is in doubt for [`IN_DOUBT`] after a damaged one: tracks that damage has moved or
//!   begun outlive it.

use std::time::Duration;

use watchkeeper_contract::pipeline::{DamagedCounts, PipelineResults};

const IN_DOUBT: Duration = Duration::from_secs(2);

/// Follows the damage of the frames of a run, and counts what falls into it.
#[derive(Debug, Default)]
pub(super) struct DamageWatch {
    until: Option<Duration>,
    /// Crossings and visits before the latest frame.
    before: [u64; 2],
    pub(super) counts: DamagedCounts,
}

impl DamageWatch {
    /// Takes a frame at this source time, also one that the run does not process.
    pub(super) fn observe(&mut self, now: Duration, is_damaged: bool) {
        if is_damaged {
            self.until = Some(now.saturating_add(IN_DOUBT));
        }
    }

    /// Whether a frame at this source time is in doubt.
    pub(super) fn is_in_doubt(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now <= until)
    }

    /// Counts what a processed frame, or the end, added to the results and to the number of visits.
    pub(super) fn count(&mut self, is_in_doubt: bool, results: &PipelineResults, visits: u64) {
        let lines = results.lines.values();
        let now = [lines.map(|line| line.r#in + line.out).sum(), visits];
        let before = std::mem::replace(&mut self.before, now);
        if is_in_doubt {
            self.counts.crossings += now[0].saturating_sub(before[0]);
            self.counts.visits += now[1].saturating_sub(before[1]);
        }
    }

    /// Continues the counts of an earlier process, with what it counted in all.
    pub(super) fn resume(&mut self, counts: DamagedCounts, results: &PipelineResults, visits: u64) {
        self.count(false, results, visits);
        self.counts = counts;
    }
}
