//! Presentation times that only grow.
//!
//! Every session (one opening of a source) brings its own clock that starts anywhere. Invariant: the times given out
//! start at zero and are strictly increasing over all sessions, whatever the source says.

use std::time::{Duration, Instant};

/// Smallest step between two frames, for sources that repeat a time.
const TICK: Duration = Duration::from_micros(1);

/// Turns the times of sessions into the time of a source.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    last: Option<Last>,
    session: Option<Session>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    pts: Duration,
    arrived: Instant,
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
        let session = self.session.get_or_insert_with(|| Session {
            raw: raw.unwrap_or_default(),
            start: self.last.map_or(Duration::ZERO, |last| {
                let gap = if recorded {
                    interval
                } else {
                    arrived.saturating_duration_since(last.arrived)
                };
                last.pts + gap.max(TICK)
            }),
            arrived,
            frames: 0,
        });
        let offset = match raw {
            Some(raw) => raw.saturating_sub(session.raw),
            None if recorded => interval.saturating_mul(session.frames),
            None => arrived.saturating_duration_since(session.arrived),
        };
        session.frames = session.frames.saturating_add(1);
        let mut pts = session.start + offset;
        if let Some(last) = self.last {
            pts = pts.max(last.pts + TICK);
        }
        self.last = Some(Last { pts, arrived });
        pts
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

    proptest! {
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
