//! Spans of one pipeline, from its frames.
//!
//! - Sans-IO: times come with the frames.
//! - Lengths are measured by the monotonic clock, so a clock that is set stretches no span.

use std::time::{Duration, Instant};

use watchkeeper_contract::coverage::{CoverageSpan, SpanEnd, Watched};
use watchkeeper_contract::source::Blindness;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_vision::track::Cadence;
use watchkeeper_vision::track::cadence::LATE;

use crate::clock::{MAX_DRIFT, drift};

/// Shortest absence of frames that ends a span: the default of `stall_s`, after which a camera
/// counts as lost.
const MIN_GAP: Duration = Duration::from_secs(5);

/// Longest span. A longer one is continued by the next, so that its rate says something.
const MAX_SPAN: Duration = Duration::from_secs(6 * 3600);

/// How a frame was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Clear,
    /// Not at all: it came between two looks of the detection mode.
    Skipped,
    /// The pictures show nothing useful since this moment.
    Blind {
        kind: Blindness,
        since: Instant,
    },
    /// A step on which a rule depends failed.
    StepFailed,
}

/// Extent of a span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Extent {
    pub(super) from: Wall,
    pub(super) to: Wall,
    pub(super) frames: u64,
}

impl Extent {
    /// An extent without a length.
    pub(super) fn at(at: Wall) -> Self {
        Self {
            from: at,
            to: at,
            frames: 0,
        }
    }

    pub(super) fn span(self, watch: &Watched, end: SpanEnd) -> CoverageSpan {
        CoverageSpan {
            from: self.from,
            to: self.to,
            frames: self.frames,
            end,
            watch: watch.clone(),
        }
    }
}

/// The span of a pipeline that has not ended.
#[derive(Debug, Clone, Copy)]
struct Current {
    extent: Extent,
    began: Instant,
    /// When the last frame of it arrived, and the last frame at all.
    last: Instant,
    arrived: Instant,
}

/// Spans of one pipeline.
#[derive(Debug, Default)]
pub(super) struct SpanTracker {
    current: Option<Current>,
    first: Option<Instant>,
    /// Of all frames that come, looked at or not.
    cadence: Cadence,
}

impl SpanTracker {
    /// Adds a frame that arrived at `at` by the wall clock, at `arrived` by the monotonic one.
    /// Returns the span that ended before it.
    pub(super) fn look(
        &mut self,
        at: Wall,
        arrived: Instant,
        sight: Sight,
    ) -> Option<(Extent, SpanEnd)> {
        let limit = self.limit();
        let first = *self.first.get_or_insert(arrived);
        let elapsed = arrived.saturating_duration_since(first);
        self.cadence.next(elapsed.as_secs_f64());
        let ended = match sight {
            Sight::Blind { kind, since } => {
                self.cut(since);
                self.close(SpanEnd::Blind { kind })
            }
            Sight::StepFailed => self.close(SpanEnd::StepFailed),
            Sight::Clear | Sight::Skipped => {
                let current = self.current.as_ref();
                let end = current.and_then(|c| interruption(c, at, arrived, limit));
                if end == Some(SpanEnd::ClockSet) {
                    self.redate(at, arrived);
                }
                end.and_then(|end| self.close(end))
            }
        };
        match (sight, &mut self.current) {
            (Sight::Clear, Some(current)) => {
                current.extent.to = at;
                current.extent.frames += 1;
                (current.last, current.arrived) = (arrived, arrived);
            }
            (Sight::Clear, None) => self.begin(at, arrived, ended),
            (Sight::Skipped, Some(current)) => current.arrived = arrived,
            _ => {}
        }
        ended
    }

    fn begin(&mut self, at: Wall, arrived: Instant, ended: Option<(Extent, SpanEnd)>) {
        let from = match ended {
            // Without a gap where the span continues another.
            Some((extent, SpanEnd::Continued)) => extent.to,
            Some(_) | None => at,
        };
        self.current = Some(Current {
            extent: Extent {
                from,
                to: at,
                frames: 1,
            },
            began: arrived,
            last: arrived,
            arrived,
        });
    }

    /// Ends the span at `since` if it is longer: later frames showed nothing.
    fn cut(&mut self, since: Instant) {
        if let Some(current) = &mut self.current {
            let beyond = current.last.saturating_duration_since(since).as_millis();
            let beyond = i64::try_from(beyond).unwrap_or(i64::MAX);
            let extent = &mut current.extent;
            let to_ms = extent.to.unix_ms.saturating_sub(beyond);
            extent.to.unix_ms = to_ms.max(extent.from.unix_ms);
        }
    }

    /// Dates the span by the clock that was set to `at`, where that is more reliable. Its events
    /// keep their times, so the span stays one of a wrong clock, but of the right time.
    fn redate(&mut self, at: Wall, arrived: Instant) {
        let Some(Current {
            extent,
            began,
            last,
            ..
        }) = &mut self.current
        else {
            return;
        };
        let is_better = match at.quality {
            TimeQuality::Synced => extent.from.quality != TimeQuality::Synced,
            TimeQuality::Estimated => !is_right(extent.from),
            TimeQuality::Unsynced => false,
        };
        if is_better {
            let dated = |then: Instant| {
                let ago = arrived.saturating_duration_since(then).as_millis();
                Wall {
                    unix_ms: at
                        .unix_ms
                        .saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX)),
                    quality: TimeQuality::Estimated,
                }
            };
            (extent.from, extent.to) = (dated(*began), dated(*last));
        }
    }

    /// Ends the span, if there is one.
    pub(super) fn close(&mut self, end: SpanEnd) -> Option<(Extent, SpanEnd)> {
        self.current.take().map(|current| (current.extent, end))
    }

    /// The span that has not ended, and when a frame last arrived.
    pub(super) fn open(&self) -> Option<(Extent, Instant)> {
        self.current
            .map(|current| (current.extent, current.arrived))
    }

    /// Longest time between two frames of a span, looked at or not.
    pub(super) fn limit(&self) -> Duration {
        let usual = self.cadence.usual_s().unwrap_or_default();
        Duration::from_secs_f64(LATE * usual).max(MIN_GAP)
    }
}

/// Why a frame does not belong to the span.
fn interruption(current: &Current, at: Wall, arrived: Instant, limit: Duration) -> Option<SpanEnd> {
    let since_last = arrived.saturating_duration_since(current.last);
    let by_wall_ms = at.unix_ms - current.extent.to.unix_ms;
    let was_set = is_right(at) != is_right(current.extent.to);
    if was_set || drift(by_wall_ms, since_last) > MAX_DRIFT {
        Some(SpanEnd::ClockSet)
    } else if arrived.saturating_duration_since(current.arrived) > limit {
        Some(SpanEnd::NoFrames)
    } else if arrived.saturating_duration_since(current.began) >= MAX_SPAN {
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
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    const START_MS: i64 = 1_800_000_000_000;

    fn wall(ms: i64) -> Wall {
        Wall {
            unix_ms: START_MS + ms,
            quality: TimeQuality::Synced,
        }
    }

    fn mono(ms: u64) -> Instant {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        *START + Duration::from_millis(ms)
    }

    fn look(tracker: &mut SpanTracker, ms: u64, sight: Sight) -> Option<(Extent, SpanEnd)> {
        tracker.look(wall(ms as i64), mono(ms), sight)
    }

    fn open(tracker: &SpanTracker) -> Extent {
        tracker.open().unwrap().0
    }

    /// Shows a clear frame at each of these milliseconds.
    fn look_all(
        tracker: &mut SpanTracker,
        times: impl IntoIterator<Item = u64>,
    ) -> Vec<(Extent, SpanEnd)> {
        let times = times.into_iter();
        times
            .filter_map(|ms| look(tracker, ms, Sight::Clear))
            .collect()
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
        let open = open(&tracker);
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
        assert_eq!(open(&tracker).from, wall(20_000));
    }

    #[test]
    fn pipeline_that_looks_once_a_minute_has_one_span() {
        let mut tracker = SpanTracker::default();
        for second in 0..600 {
            let sight = if second % 60 == 0 {
                Sight::Clear
            } else {
                Sight::Skipped
            };
            assert_eq!(look(&mut tracker, second * 1000, sight), None);
        }
        let open = open(&tracker);
        assert_eq!((open.to, open.frames), (wall(540_000), 10));
    }

    #[test]
    fn camera_that_is_lost_between_two_looks_ends_the_span() {
        let mut tracker = SpanTracker::default();
        for second in (0..10).chain(50..60) {
            let sight = if second == 0 {
                Sight::Clear
            } else {
                Sight::Skipped
            };
            let ended = look(&mut tracker, second * 1000, sight);
            let wanted = (second == 50).then_some(SpanEnd::NoFrames);
            assert_eq!(ended.map(|(_, end)| end), wanted, "{second}");
        }
    }

    #[test]
    fn failed_frames_are_not_covered() {
        let mut tracker = SpanTracker::default();
        look_all(&mut tracker, [0, 200, 400]);
        let ended = look(&mut tracker, 600, Sight::StepFailed);
        assert_eq!(
            ended.map(|(e, end)| (e.to, end)),
            Some((wall(400), SpanEnd::StepFailed))
        );
        assert_eq!(tracker.open(), None);
        assert_eq!(look(&mut tracker, 800, Sight::StepFailed), None);
        look_all(&mut tracker, [1000]);
        assert_eq!(open(&tracker).from, wall(1000));
    }

    #[test]
    fn blindness_ends_the_span_at_its_onset() {
        let kind = Blindness::Frozen;
        for (since, to) in [(30_000, 30_000), (0, 10_000), (61_000, 60_000)] {
            let mut tracker = SpanTracker::default();
            look_all(&mut tracker, (10..=60).map(|n| n * 1000));
            let sight = Sight::Blind {
                kind,
                since: mono(since),
            };
            let ended = look(&mut tracker, 61_000, sight);
            let end = SpanEnd::Blind { kind };
            assert_eq!(ended.map(|(e, end)| (e.to, end)), Some((wall(to), end)));
            assert_eq!(tracker.open(), None);
        }
    }

    #[test]
    fn clock_that_is_set_stretches_no_span() {
        let mut tracker = SpanTracker::default();
        let set = Wall {
            unix_ms: 0,
            quality: TimeQuality::Unsynced,
        };
        tracker.look(set, mono(0), Sight::Clear);
        let ended = tracker.look(wall(0), mono(200), Sight::Clear);
        let moved = Wall {
            unix_ms: START_MS - 200,
            quality: TimeQuality::Estimated,
        };
        assert_eq!(
            ended.map(|(e, end)| (e.from, e.to, end)),
            Some((moved, moved, SpanEnd::ClockSet))
        );
    }

    #[test]
    fn span_of_wrong_clock_gets_times_of_right_clock() {
        let tracked = |before: TimeQuality, after: TimeQuality| {
            let at = |unix_ms, quality| Wall { unix_ms, quality };
            let mut tracker = SpanTracker::default();
            tracker.look(at(1_000, before), mono(0), Sight::Clear);
            tracker.look(at(4_000, before), mono(3_000), Sight::Clear);
            let set = at(START_MS, after);
            let ended = tracker.look(set, mono(5_000), Sight::Clear);
            ended.map(|(extent, _)| [extent.from, extent.to].map(|at| at.unix_ms))
        };
        let (moved, kept) = (
            Some([START_MS - 5_000, START_MS - 2_000]),
            Some([1_000, 4_000]),
        );
        use TimeQuality::{Estimated, Synced, Unsynced};
        assert_eq!(tracked(Unsynced, Estimated), moved);
        assert_eq!(tracked(Estimated, Synced), moved);
        assert_eq!(
            tracked(Estimated, Estimated),
            kept,
            "which one is right is unknown"
        );
        assert_eq!(tracked(Synced, Unsynced), kept);
    }

    #[test]
    fn long_span_is_continued_without_a_gap() {
        let mut tracker = SpanTracker::default();
        let ended = look_all(&mut tracker, (0..=8 * 3600).map(|n| n * 1000));
        let [(first, SpanEnd::Continued)] = ended.as_slice() else {
            panic!("{ended:?}");
        };
        assert_eq!(open(&tracker).from, first.to);
    }

    proptest! {
        /// Each clear frame of a steady clock is in one span. No span continues over a frame that
        /// failed, or over a gap of more than four usual intervals and five seconds.
        #[test]
        fn spans_hold_each_clear_frame_and_no_gap(
            steps in proptest::collection::vec((1_u64..20_000, 0_u8..10), 1..200),
        ) {
            let mut tracker = SpanTracker::default();
            let (mut now, mut seen, mut spans) = (0, Vec::new(), Vec::new());
            for (step, kind) in steps {
                now += step;
                let sight = match kind {
                    0 => Sight::StepFailed,
                    1..3 => Sight::Skipped,
                    _ => Sight::Clear,
                };
                let limit = tracker.limit().as_millis() as i64;
                spans.extend(look(&mut tracker, now, sight));
                seen.push((now as i64, sight, limit));
            }
            spans.extend(tracker.close(SpanEnd::Stopped));
            let spans = spans_ms(&spans);
            for (at, sight, _) in &seen {
                let mut holding = spans.iter().filter(|(from, to, _)| (*from..=*to).contains(at));
                match sight {
                    Sight::Clear => prop_assert_eq!(holding.count(), 1, "{}", at),
                    Sight::StepFailed => prop_assert!(holding.next().is_none(), "{}", at),
                    _ => {}
                }
            }
            for (from, to, _) in &spans {
                let inside = seen.iter().filter(|(at, ..)| (*from..=*to).contains(at));
                let inside: Vec<_> = inside.collect();
                for pair in inside.windows(2) {
                    prop_assert!(pair[1].0 - pair[0].0 <= pair[1].2);
                }
            }
        }
    }
}
