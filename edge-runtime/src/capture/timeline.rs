//! Presentation times that only grow.
//!
//! A session is one opening of a source. Its clock starts anywhere and may jump: cameras set
//! theirs, files are cut badly. A jump starts a new session, so a wild timestamp neither freezes
//! time nor moves it ahead.
//!
//! - Times start at zero and strictly increase over all sessions.
//! - Times of a live source stay within [`LIVE_TOLERANCE`] (plus one frame gap) of the time since
//!   its first frame arrived.

use std::time::{Duration, Instant};

/// Min step between two frames, for sources that repeat a time.
const MIN_STEP: Duration = Duration::from_micros(1);
/// Max distance between a live source's clock and the arrival of its frames. A longer network delay
/// already counts as a stall by default.
const LIVE_TOLERANCE: Duration = Duration::from_secs(5);
/// Fraction of the arrival gap by which a new, deviating live session is corrected per frame. A
/// clock that drifts by parts in a million is followed without a jump.
const DRIFT_DIVISOR: u32 = 10;
/// Max step back that is not a jump: some containers store frames and times out of order.
const MAX_REORDER: Duration = Duration::from_secs(1);
/// Max credible gap in a recording: recorders leave out quiet minutes, but hours are a damaged
/// timestamp.
pub(super) const MAX_GAP: Duration = Duration::from_secs(3600);

/// Converts the times of sessions to the time of a source.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    first: Option<Instant>,
    last: Option<Last>,
    session: Option<Session>,
    jumps: u64,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    pts: Duration,
    arrived: Instant,
    raw: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    /// Source's time of the first frame.
    raw: Duration,
    /// Presentation time of the first frame.
    start: Duration,
    arrived: Instant,
    /// Frames of this session so far.
    frames: u32,
}

impl Timeline {
    /// Ends the session; the next frame starts a new one.
    pub(super) fn reconnect(&mut self) {
        self.session = None;
    }

    /// Number of timestamps within a session that were not credible.
    pub(super) fn jumps(&self) -> u64 {
        self.jumps
    }

    /// Returns the presentation time of the next frame.
    ///
    /// `raw` is the source's time, `interval` its nominal frame interval. Without `raw`, a
    /// recording is spaced by `interval` and a camera by the arrival of its frames. The gap between
    /// sessions of a live source is real time; a recording that is played again follows directly.
    pub(super) fn next(
        &mut self,
        raw: Option<Duration>,
        interval: Option<Duration>,
        arrived: Instant,
        recorded: bool,
    ) -> Duration {
        let interval = interval.unwrap_or(Duration::from_millis(40));
        let first = *self.first.get_or_insert(arrived);
        let passed = arrived.saturating_duration_since(first);
        let mut pts = self.session_pts(raw, interval, arrived, recorded);
        if let Some(last) = self.last
            && self.session.is_some()
            && self.is_jump(last, raw, pts, passed, recorded)
        {
            self.jumps = self.jumps.saturating_add(1);
            self.session = None;
            pts = None;
        }
        let pts =
            pts.unwrap_or_else(|| self.start_session(raw, interval, arrived, recorded, passed));
        let pts = self.last.map_or(pts, |last| pts.max(last.pts + MIN_STEP));
        if let Some(session) = &mut self.session {
            session.frames = session.frames.saturating_add(1);
        }
        self.last = Some(Last { pts, arrived, raw });
        pts
    }

    /// Returns the time of a frame by the session's clock; `None` without a session.
    fn session_pts(
        &self,
        raw: Option<Duration>,
        interval: Duration,
        arrived: Instant,
        recorded: bool,
    ) -> Option<Duration> {
        let session = self.session.as_ref()?;
        let offset = match raw {
            Some(raw) => raw.saturating_sub(session.raw),
            None if recorded => interval.saturating_mul(session.frames),
            None => arrived.saturating_duration_since(session.arrived),
        };
        Some(session.start.saturating_add(offset))
    }

    /// Whether the session's clock cannot be right about this frame.
    fn is_jump(
        &self,
        last: Last,
        raw: Option<Duration>,
        pts: Option<Duration>,
        passed: Duration,
        recorded: bool,
    ) -> bool {
        let went_back = raw
            .zip(last.raw)
            .is_some_and(|(raw, last)| last.saturating_sub(raw) > MAX_REORDER);
        let Some(pts) = pts else { return false };
        went_back
            || if recorded {
                pts.saturating_sub(last.pts) > MAX_GAP
            } else {
                pts.abs_diff(passed) > LIVE_TOLERANCE
            }
    }

    /// Starts a session with this frame.
    fn start_session(
        &mut self,
        raw: Option<Duration>,
        interval: Duration,
        arrived: Instant,
        recorded: bool,
        passed: Duration,
    ) -> Duration {
        let start = self.last.map_or(Duration::ZERO, |last| {
            let gap = if recorded {
                interval
            } else {
                let gap = arrived.saturating_duration_since(last.arrived);
                let ahead = (last.pts + gap).saturating_sub(passed) > LIVE_TOLERANCE / 2;
                let behind = passed.saturating_sub(last.pts + gap) > LIVE_TOLERANCE / 2;
                match (ahead, behind) {
                    (true, _) => gap - gap / DRIFT_DIVISOR,
                    (_, true) => gap + gap / DRIFT_DIVISOR,
                    (false, false) => gap,
                }
            };
            last.pts + gap.max(MIN_STEP)
        });
        self.session = Some(Session {
            raw: raw.unwrap_or_default(),
            start,
            arrived,
            frames: 0,
        });
        start
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, proptest};

    use super::*;

    const FRAME: Option<Duration> = Some(Duration::from_millis(100));

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn first_frame_is_at_zero() {
        let mut line = Timeline::default();
        let now = Instant::now();
        assert_eq!(line.next(Some(ms(5000)), FRAME, now, true), ms(0));
        assert_eq!(line.next(Some(ms(5100)), FRAME, now, true), ms(100));
    }

    #[test]
    fn camera_outage_is_a_gap_of_its_real_length() {
        let mut line = Timeline::default();
        let now = Instant::now();
        line.next(Some(ms(0)), FRAME, now, false);
        line.reconnect();
        assert_eq!(
            line.next(Some(ms(77)), FRAME, now + ms(9000), false),
            ms(9000)
        );
    }

    #[test]
    fn replayed_recording_follows_directly() {
        let mut line = Timeline::default();
        let now = Instant::now();
        line.next(Some(ms(0)), FRAME, now, true);
        line.reconnect();
        assert_eq!(line.next(Some(ms(0)), FRAME, now + ms(9000), true), ms(100));
    }

    #[test]
    fn camera_frames_without_times_are_spaced_by_arrival() {
        let mut line = Timeline::default();
        let now = Instant::now();
        let times: Vec<_> = [0, 130, 190]
            .map(|n| line.next(None, FRAME, now + ms(n), false))
            .to_vec();
        assert_eq!(times, [ms(0), ms(130), ms(190)]);
    }

    #[test]
    fn recorded_frames_without_times_have_the_nominal_rate() {
        let mut line = Timeline::default();
        let now = Instant::now();
        let times: Vec<_> = (0..3).map(|_| line.next(None, FRAME, now, true)).collect();
        assert_eq!(times, [ms(0), ms(100), ms(200)]);
    }

    #[test]
    fn wild_camera_timestamp_does_not_move_time() {
        let mut line = Timeline::default();
        let now = Instant::now();
        for n in 0..200u64 {
            let raw = if n == 100 { 3_600_000 } else { n * 40 };
            let pts = line.next(Some(ms(raw)), FRAME, now + ms(n * 40), false);
            assert!(pts.abs_diff(ms(n * 40)) <= ms(1), "frame {n}: {pts:?}");
        }
        assert_eq!(line.jumps(), 2);
    }

    #[test]
    fn drifting_camera_clock_is_followed_without_a_jump() {
        let mut line = Timeline::default();
        let now = Instant::now();
        // One part in a thousand for three hours.
        let mut last = ms(0);
        for n in 1..10_800u64 {
            let pts = line.next(Some(ms(n * 1001)), FRAME, now + ms(n * 1000), false);
            assert!(
                n == 1 || (ms(850)..ms(1150)).contains(&(pts - last)),
                "second {n}"
            );
            last = pts;
        }
    }

    #[test]
    fn jump_in_a_recording_is_bridged_and_counted() {
        let mut line = Timeline::default();
        let now = Instant::now();
        let times: Vec<_> = [5000, 5100, 900, 1000, 90_000_000, 90_000_100, 90_060_100]
            .map(|raw| line.next(Some(ms(raw)), FRAME, now, true))
            .to_vec();
        let expected = [0, 100, 200, 300, 400, 500, 60_500].map(ms);
        assert_eq!((times, line.jumps()), (expected.to_vec(), 2));
    }

    proptest! {
        #[test]
        fn live_times_stay_near_arrival(
            script in prop::collection::vec((any::<bool>(), 0u64..20_000, 0u64..400, 0u32..40), 1..300),
        ) {
            let (mut line, start) = (Timeline::default(), Instant::now());
            let (mut now, mut raw, mut longest) = (start, 0u64, 0);
            for (wild, jump, passed, reconnect) in script {
                now += ms(passed);
                longest = longest.max(passed);
                raw = if wild { jump } else { raw + passed };
                if reconnect == 0 {
                    line.reconnect();
                }
                let pts = line.next(Some(ms(raw)), FRAME, now, false);
                let off = pts.abs_diff(now - start);
                prop_assert!(off <= LIVE_TOLERANCE + ms(longest) + ms(1), "{off:?}");
            }
        }

        #[test]
        fn times_only_grow(
            script in prop::collection::vec(
                (prop::option::of(0u64..100_000), any::<bool>(), 0u64..5000, any::<bool>()), 1..60),
        ) {
            let mut line = Timeline::default();
            let mut now = Instant::now();
            let mut last = None;
            for (raw, reconnect, passed, recorded) in script {
                now += ms(passed);
                if reconnect {
                    line.reconnect();
                }
                let pts = line.next(raw.map(ms), FRAME, now, recorded);
                prop_assert!(last.is_none_or(|last| pts > last));
                last = Some(pts);
            }
        }
    }
}
