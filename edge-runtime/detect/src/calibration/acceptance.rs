//! Whether a network of int8 may replace the one of fp16.
//!
//! - Its changes are counted ([`ChangeCount`]), as a change of the back end counts them.
//! - Times are medians of runs in turns, so that other load affects both alike.

use std::time::Duration;

use crate::change::{ChangeCount, GoldenFrame};
use crate::network::Network;

/// Least gain of speed.
const MIN_GAIN: f64 = 1.3;

/// Figures of the golden frames so far.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) count: ChangeCount,
    former: Vec<Duration>,
    candidate: Vec<Duration>,
}

impl Figures {
    pub(super) const fn new(count: ChangeCount) -> Self {
        Self {
            count,
            former: Vec::new(),
            candidate: Vec::new(),
        }
    }

    /// Runs both networks on a frame, compares the candidate's outputs with the golden ones, and
    /// measures both by `clock`.
    ///
    /// # Errors
    /// One clause: a network fails, or the outputs can't be compared.
    pub(super) fn examine(
        &mut self,
        frame: &GoldenFrame,
        former: &dyn Network,
        candidate: &dyn Network,
        clock: &dyn Fn() -> Duration,
    ) -> Result<(), String> {
        let (feeds, golden) = (frame.feeds(), frame.outputs());
        let mut counted = Err("it returned nothing".to_owned());
        candidate.infer(&feeds, &mut |outputs| {
            counted = self.count.add(&feeds, &golden, outputs);
        })?;
        counted?;
        let time = |network: &dyn Network| {
            let (before, mut after) = (clock(), Duration::ZERO);
            network.infer(&feeds, &mut |_| after = clock())?;
            Ok::<_, String>(after.saturating_sub(before))
        };
        self.former.push(time(former)?);
        self.candidate.push(time(candidate)?);
        Ok(())
    }

    /// Median time of one run, in milliseconds: of the former network, and of the candidate.
    pub(super) fn times_ms(&self) -> [f64; 2] {
        [&self.former, &self.candidate].map(|times| {
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let median = sorted.get(sorted.len() / 2);
            median.map_or(0.0, |time| time.as_secs_f64() * 1e3)
        })
    }

    /// Why the candidate is not kept, in one clause with the figures; `None` if it is.
    pub(super) fn refusal(&self) -> Option<String> {
        let counted = self.count.so_far();
        if let Some(missing) = counted.missing() {
            return Some(missing);
        }
        let [former, candidate] = self.times_ms();
        let gain = former / candidate.max(f64::MIN_POSITIVE);
        let mut reasons: Vec<String> = counted.refusal().into_iter().collect();
        if gain < MIN_GAIN {
            reasons.push(format!(
                "int8 takes {candidate:.2} ms instead of {former:.2} ms, {MIN_GAIN} times as fast \
                 is needed"
            ));
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::change::Comparison;
    use crate::network::{Feed, Numbers, Tensor};
    use crate::testing::manifest;

    /// A network with the layout of the tests' manifest that takes a stated time.
    struct Stub {
        score: f32,
        cost: Duration,
        now: Clock,
    }

    /// Shared by a test and its networks.
    #[derive(Clone, Default)]
    struct Clock(Arc<Mutex<Duration>>);

    impl Clock {
        fn read(&self) -> Duration {
            *self.0.lock()
        }
    }

    const SHAPE: [usize; 3] = [1, 11, 6];

    /// Ten boxes in a row at this height, and an empty one.
    fn rows(score: f32, y: f32) -> Vec<f32> {
        let row = |i: usize| [4.0 + 6.0 * i as f32, y, 4.0, 4.0, 0.0, score];
        let empty = [0.0; 6];
        (0..10).flat_map(row).chain(empty).collect()
    }

    impl Network for Stub {
        fn backend(&self) -> &'static str {
            "stub"
        }

        fn infer(
            &self,
            feeds: &[Feed<'_>],
            read: &mut dyn FnMut(&[Tensor<'_>]),
        ) -> Result<(), String> {
            *self.now.0.lock() += self.cost;
            let Some(Numbers::Floats([y])) = feeds.first().map(|feed| feed.numbers) else {
                return Err("no height".to_owned());
            };
            let data = rows(self.score, *y);
            let name = "out";
            read(&[Tensor {
                name,
                shape: &SHAPE,
                data: &data,
            }]);
            Ok(())
        }
    }

    /// Examines frames of ten boxes with a candidate of this score and cost; the former network
    /// takes 20 ms.
    fn refusal(frames: usize, score: f32, cost_ms: u64) -> Option<String> {
        let now = Clock::default();
        let stub = |score, cost_ms| Stub {
            score,
            cost: Duration::from_millis(cost_ms),
            now: now.clone(),
        };
        let (former, candidate) = (stub(0.8, 20), stub(score, cost_ms));
        let mut figures = Figures::new(ChangeCount::new(Comparison::of(&manifest())));
        let clock = || now.read();
        for frame in 0..frames {
            // All boxes move.
            let y = [if frame.is_multiple_of(2) { 20.0 } else { 40.0 }];
            let data = rows(0.8, y[0]);
            let golden = [Tensor {
                name: "out",
                shape: &SHAPE,
                data: &data,
            }];
            let frame = GoldenFrame::copy(&[Feed::floats(&[1], &y)], &golden).expect("small");
            let done = figures.examine(&frame, &former, &candidate, &clock);
            done.expect("examined");
        }
        figures.refusal()
    }

    #[test]
    fn fast_network_with_the_same_boxes_is_kept() {
        assert_eq!(refusal(10, 0.79, 10), None);
    }

    #[test]
    fn refusal_has_every_figure() {
        let why = refusal(10, 0.7, 18).unwrap_or_default();
        for part in [
            "100.0 % of 100 boxes",
            "18.00 ms instead of 20.00 ms",
            "1.3 times as fast is needed",
        ] {
            assert!(why.contains(part), "{why}");
        }
        let slow = refusal(10, 0.8, 16).unwrap_or_default();
        assert!(slow.starts_with("int8 takes 16.00 ms"), "{slow}");
    }

    #[test]
    fn few_objects_prove_nothing() {
        let why = refusal(9, 0.8, 10).unwrap_or_default();
        assert!(
            why.contains("90 certain objects that move, 100 are needed"),
            "{why}"
        );
    }
}
