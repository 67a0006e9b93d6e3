//! Spans of one pipeline, from its frames.
//!
//! - Sans-IO: times come with the frames.
//! - Lengths are measured by the monotonic clock, so a clock that is set stretches no span.

use std::time::Duration;

use watchkeeper_contract::coverage::SpanEnd;
use watchkeeper_contract::source::Blindness;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_vision::track::Cadence;
use watchkeeper_vision::track::cadence::LATE;

/// Shortest absence of frames that ends a span: the default of `stall_s`, after which a camera
/// counts as lost.
const MIN_GAP: Duration = Duration::from_secs(5);

/// Longest span. A longer one is continued by the next, so that its rate says something.
const MAX_SPAN: Duration = Duration::from_secs(6 * 3600);

/// Largest difference of the two clocks over one interval that is no setting of the clock.
const MAX_DRIFT: Duration = Duration::from_secs(2);

/// How a frame was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Clear,
    Blind(Blindness),
    /// A step on which a rule depends failed.
    StepFailed,
}

impl Sight {
    fn end(self) -> Option<SpanEnd> {
        match self {
            Self::Clear => None,
            Self::Blind(kind) => Some(SpanEnd::Blind { kind }),
            Self::StepFailed => Some(SpanEnd::StepFailed),
        }
    }
}

/// Extent of a span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Extent {
    pub(super) from: Wall,
    pub(super) to: Wall,
    pub(super) frames: u64,
}

/// The span of a pipeline that has not ended.
#[derive(Debug, Clone, Copy)]
struct Current {
    extent: Extent,
    /// Monotonic times of its first and last frame.
    began: Duration,
    last: Duration,
}

/// Spans of one pipeline.
#[derive(Debug, Default)]
pub(super) struct SpanTracker {
    current: Option<Current>,
    cadence: Cadence,
}

impl SpanTracker {
    /// Adds a frame that arrived at `at`, at `elapsed` by the monotonic clock. Returns the span
    /// that ended before it.
    pub(super) fn look(
        &mut self,
        at: Wall,
        elapsed: Duration,
        sight: Sight,
    ) -> Option<(Extent, SpanEnd)> {
        let limit = self.limit();
        self.cadence.next(elapsed.as_secs_f64());
        let end = sight.end().or_else(|| {
            let current = self.current.as_ref()?;
            interruption(current, at, elapsed, limit)
        });
        let ended = end.and_then(|end| self.close(end));
        if sight != Sight::Clear {
            return ended;
        }
        let current = self.current.get_or_insert(Current {
            extent: Extent {
                // Without a gap where the span continues another.
                from: match ended {
                    Some((extent, SpanEnd::Continued)) => extent.to,
                    Some(_) | None => at,
                },
                to: at,
                frames: 0,
            },
            began: elapsed,
            last: elapsed,
        });
        current.extent.to = at;
        current.extent.frames += 1;
        current.last = elapsed;
        ended
    }

    /// Ends the span, if there is one.
    pub(super) fn close(&mut self, end: SpanEnd) -> Option<(Extent, SpanEnd)> {
        self.current.take().map(|current| (current.extent, end))
    }

    /// The span that has not ended.
    pub(super) fn open(&self) -> Option<Extent> {
        self.current.map(|current| current.extent)
    }

    /// Longest time between two frames of a span.
    pub(super) fn limit(&self) -> Duration {
        let usual = self.cadence.usual_s().unwrap_or_default();
        Duration::from_secs_f64(LATE * usual).max(MIN_GAP)
    }
}

/// Why a clear frame does not belong to the span.
fn interruption(
    current: &Current,
    at: Wall,
    elapsed: Duration,
    limit: Duration,
) -> Option<SpanEnd> {
    let passed = elapsed.saturating_sub(current.last);
    let by_wall = at.unix_ms - current.extent.to.unix_ms;
    let drift = by_wall.abs_diff(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX));
    let was_set = is_right(at) != is_right(current.extent.to);
    if was_set || u128::from(drift) > MAX_DRIFT.as_millis() {
        Some(SpanEnd::ClockSet)
    } else if passed > limit {
        Some(SpanEnd::NoFrames)
    } else if elapsed.saturating_sub(current.began) >= MAX_SPAN {
        Some(SpanEnd::Continued)
    } else {
        None
    }
}

fn is_right(at: Wall) -> bool {
    at.quality != TimeQuality::Unsynced
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START_MS: i64 = 1_800_000_000_000;

    fn wall(ms: i64) -> Wall {
        Wall {
            unix_ms: START_MS + ms,
            quality: TimeQuality::Synced,
        }
    }

    /// Shows a clear frame at each of these milliseconds.
    fn look_all(
        tracker: &mut SpanTracker,
        times: impl IntoIterator<Item = u64>,
    ) -> Vec<(Extent, SpanEnd)> {
        let look = |ms: u64| tracker.look(wall(ms as i64), Duration::from_millis(ms), Sight::Clear);
        times.into_iter().filter_map(look).collect()
    }

    fn spans_ms(spans: &[(Extent, SpanEnd)]) -> Vec<(i64, i64, SpanEnd)> {
        let ms = |at: Wall| at.unix_ms - START_MS;
        spans
            .iter()
            .map(|(e, end)| (ms(e.from), ms(e.to), *end))
            .collect()
    }

    #[test]
    fn frames_of_a_steady_camera_are_one_span() {
        let mut tracker = SpanTracker::default();
        let ended = look_all(&mut tracker, (0..600).map(|n| n * 200));
        assert_eq!(ended, []);
        let open = tracker.open().unwrap();
        assert_eq!(
            (open.from, open.to, open.frames),
            (wall(0), wall(119_800), 600)
        );
    }

    #[test]
    fn missing_frames_end_the_span_at_the_last_frame() {
        let mut tracker = SpanTracker::default();
        let times = (0..50).map(|n| n * 200).chain((100..150).map(|n| n * 200));
        let ended = look_all(&mut tracker, times);
        assert_eq!(spans_ms(&ended), [(0, 9_800, SpanEnd::NoFrames)]);
        assert_eq!(tracker.open().unwrap().from, wall(20_000));
    }

    #[test]
    fn pipeline_that_looks_once_a_minute_has_one_span() {
        let mut tracker = SpanTracker::default();
        // The usual interval is not known before the second look.
        let ended = look_all(&mut tracker, (0..60).map(|n| n * 60_000));
        assert_eq!(spans_ms(&ended), [(0, 0, SpanEnd::NoFrames)]);
        assert_eq!(tracker.open().unwrap().to, wall(59 * 60_000));
    }

    #[test]
    fn blind_and_failed_frames_are_not_covered() {
        for (sight, end) in [
            (
                Sight::Blind(Blindness::Black),
                SpanEnd::Blind {
                    kind: Blindness::Black,
                },
            ),
            (Sight::StepFailed, SpanEnd::StepFailed),
        ] {
            let mut tracker = SpanTracker::default();
            look_all(&mut tracker, [0, 200, 400]);
            let ended = tracker.look(wall(600), Duration::from_millis(600), sight);
            assert_eq!(ended.map(|(e, end)| (e.to, end)), Some((wall(400), end)));
            assert_eq!(tracker.open(), None);
            assert_eq!(
                tracker.look(wall(800), Duration::from_millis(800), sight),
                None
            );
            look_all(&mut tracker, [1000]);
            assert_eq!(tracker.open().unwrap().from, wall(1000));
        }
    }

    #[test]
    fn clock_that_is_set_stretches_no_span() {
        let mut tracker = SpanTracker::default();
        let set = Wall {
            unix_ms: 0,
            quality: TimeQuality::Unsynced,
        };
        tracker.look(set, Duration::ZERO, Sight::Clear);
        let ended = tracker.look(wall(0), Duration::from_millis(200), Sight::Clear);
        assert_eq!(
            ended.map(|(e, end)| (e.from, e.to, end)),
            Some((set, set, SpanEnd::ClockSet))
        );
    }

    #[test]
    fn long_span_is_continued_without_a_gap() {
        let mut tracker = SpanTracker::default();
        let ended = look_all(&mut tracker, (0..=8 * 3600).map(|n| n * 1000));
        let [(first, SpanEnd::Continued)] = ended.as_slice() else {
            panic!("{ended:?}");
        };
        assert_eq!(tracker.open().unwrap().from, first.to);
    }

    proptest! {
        /// No moment is claimed that is farther than the limit from a clear frame, and each clear
        /// frame of a steady clock is claimed.
        #[test]
        fn spans_hold_each_clear_frame_and_no_gap(
            steps in proptest::collection::vec((1_u64..20_000, 0_u8..10), 1..200),
        ) {
            let mut tracker = SpanTracker::default();
            let (mut now, mut clear, mut spans) = (0, Vec::new(), Vec::new());
            let mut longest = Duration::ZERO;
            for (step, kind) in steps {
                now += step;
                let sight = match kind {
                    0 => Sight::StepFailed,
                    1 => Sight::Blind(Blindness::Frozen),
                    _ => Sight::Clear,
                };
                longest = longest.max(tracker.limit());
                spans.extend(tracker.look(wall(now as i64), Duration::from_millis(now), sight));
                if sight == Sight::Clear {
                    clear.push(now as i64);
                }
            }
            spans.extend(tracker.close(SpanEnd::Stopped));
            let spans = spans_ms(&spans);
            let frames: u64 = spans.len() as u64;
            prop_assert!(frames <= clear.len() as u64);
            for at in &clear {
                let holding = spans.iter().filter(|(from, to, _)| (*from..=*to).contains(at));
                prop_assert_eq!(holding.count(), 1, "{}", at);
            }
            for (from, to, _) in &spans {
                prop_assert!(clear.contains(from) && clear.contains(to));
                let inside: Vec<i64> = clear.iter().copied().filter(|at| (*from..=*to).contains(at)).collect();
                for pair in inside.windows(2) {
                    prop_assert!(pair[1] - pair[0] <= longest.as_millis() as i64);
                }
            }
        }
    }
}
