//! Presentation times that only grow.
//!
//! Every session (one opening of a source) brings its own clock that starts anywhere and may jump: cameras set theirs,
//! files are cut badly. A jump begins a new session, so that one wild timestamp neither freezes time nor throws it ahead.
//!
//! Invariants: the times given out start at zero and are strictly increasing over all sessions, whatever the source
//! says; those of a live source stay within [`LIVE_TOLERANCE`] (and one gap between frames) of the time that has passed
//! since its first frame arrived.

use std::time::{Duration, Instant};

/// Smallest step between two frames, for sources that repeat a time.
const TICK: Duration = Duration::from_micros(1);
/// How far a live source's own clock may be from the arrival of its frames: more than a network holds frames back before
/// the source counts as stalled, where nothing else is said of it.
const LIVE_TOLERANCE: Duration = Duration::from_secs(5);
/// Part of the arrival's gap by which a new session of a live source that is far off is brought nearer, one frame at a time, so that a
/// clock that drifts by parts in a million is followed without a jump.
const PULL: u32 = 10;
/// How far a time may go back without being a jump: containers that store frames in another order than they show them,
/// with times to match.
const DISORDER: Duration = Duration::from_secs(1);
/// Longest gap between two frames of a recording that is believed: recorders leave out quiet minutes, but hours are a
/// damaged timestamp.
pub(super) const LONGEST_GAP: Duration = Duration::from_secs(3600);

/// Turns the times of sessions into the time of a source.
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
    /// What the source said for the session's first frame.
    raw: Duration,
    /// What we made of it.
    start: Duration,
    /// When it arrived.
    arrived: Instant,
    /// Frames of this session so far.
    frames: u32,
}

impl Timeline {
    /// A new session begins: the next frame is its first.
    pub(super) fn reconnect(&mut self) {
        self.session = None;
    }

    /// How often a timestamp within a session was not believed.
    pub(super) fn jumps(&self) -> u64 {
        self.jumps
    }

    /// Presentation time of the next frame. `raw` is what the source said, `interval` its nominal frame interval. Where
    /// the source says nothing, a recording is spaced by that interval and a camera by the arrival of its frames.
    ///
    /// Between sessions of a live source the gap is as long as it took; a recording that is played again follows
    /// directly.
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
        let mut pts = self.believed(raw, interval, arrived, recorded);
        if let Some(last) = self.last
            && self.session.is_some()
            && self.is_wild(last, raw, pts, passed, recorded)
        {
            self.jumps = self.jumps.saturating_add(1);
            self.session = None;
            pts = None;
        }
        let pts = pts.unwrap_or_else(|| self.begin(raw, interval, arrived, recorded, passed));
        let pts = self.last.map_or(pts, |last| pts.max(last.pts + TICK));
        if let Some(session) = &mut self.session {
            session.frames = session.frames.saturating_add(1);
        }
        self.last = Some(Last { pts, arrived, raw });
        pts
    }

    /// The time of a frame by the session's clock; nothing when there is no session.
    fn believed(
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

    /// Whether the session's clock can't be right about this frame.
    fn is_wild(
        &self,
        last: Last,
        raw: Option<Duration>,
        pts: Option<Duration>,
        passed: Duration,
        recorded: bool,
    ) -> bool {
        let went_back = raw
            .zip(last.raw)
            .is_some_and(|(raw, last)| last.saturating_sub(raw) > DISORDER);
        let Some(pts) = pts else { return false };
        went_back
            || if recorded {
                pts.saturating_sub(last.pts) > LONGEST_GAP
            } else {
                pts.abs_diff(passed) > LIVE_TOLERANCE
            }
    }

    /// Begins a session with this frame.
    fn begin(
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
                    (true, _) => gap - gap / PULL,
                    (_, true) => gap + gap / PULL,
                    (false, false) => gap,
                }
            };
            last.pts + gap.max(TICK)
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
    fn the_first_frame_is_at_zero_wherever_the_source_starts() {
        let mut line = Timeline::default();
        let now = Instant::now();
        assert_eq!(line.next(Some(ms(5000)), FRAME, now, true), ms(0));
        assert_eq!(line.next(Some(ms(5100)), FRAME, now, true), ms(100));
    }

    #[test]
    fn an_outage_of_a_camera_shows_as_a_gap_as_long_as_it_took() {
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
    fn a_recording_played_again_follows_directly() {
        let mut line = Timeline::default();
        let now = Instant::now();
        line.next(Some(ms(0)), FRAME, now, true);
        line.reconnect();
        assert_eq!(line.next(Some(ms(0)), FRAME, now + ms(9000), true), ms(100));
    }

    #[test]
    fn frames_of_a_camera_without_times_are_spaced_as_they_arrive() {
        let mut line = Timeline::default();
        let now = Instant::now();
        let times: Vec<_> = [0, 130, 190]
            .map(|n| line.next(None, FRAME, now + ms(n), false))
            .to_vec();
        assert_eq!(times, [ms(0), ms(130), ms(190)]);
    }

    #[test]
    fn frames_of_a_recording_without_times_are_spaced_by_the_nominal_rate() {
        let mut line = Timeline::default();
        let now = Instant::now();
        let times: Vec<_> = (0..3).map(|_| line.next(None, FRAME, now, true)).collect();
        assert_eq!(times, [ms(0), ms(100), ms(200)]);
    }

    #[test]
    fn one_wild_timestamp_of_a_camera_neither_freezes_time_nor_throws_it_ahead() {
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
    fn a_camera_whose_clock_drifts_is_followed_without_a_jump() {
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
    fn a_recording_that_jumps_goes_on_at_its_pace_and_is_counted() {
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
        fn a_live_source_is_never_far_from_its_arrival_whatever_it_says(
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
