//! What the camera showed a moment ago: the pictures that a clip begins with.
//!
//! Invariants: pictures are kept as small JPEGs, at most [`RATE`] a second of the source's time on average, and no more than [`MOST_BYTES`] of
//! them; where they would be more the oldest go, so a clip begins later rather than with holes. Nothing in here reads a clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::time::Wall;

use super::MARGIN;

/// Pictures a second.
pub(super) const RATE: u32 = 10;

/// Time between two pictures.
pub(super) const INTERVAL: Duration = Duration::from_millis(1000 / RATE as u64);

/// Most bytes of pictures of one pipeline.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// A picture is let through so much before its time: cameras are not exact.
const EARLY: Duration = Duration::from_millis(5);

/// One small picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shot {
    /// Source time.
    pub(super) at: Duration,
    /// When it arrived.
    pub(super) wall: Wall,
    pub(super) jpeg: Vec<u8>,
}

/// The last pictures of one pipeline.
#[derive(Debug)]
pub(super) struct PreRoll {
    span: Duration,
    shots: VecDeque<Arc<Shot>>,
    bytes: usize,
    /// The next picture is taken at this time.
    due: Duration,
}

impl PreRoll {
    /// One that goes back for `span`.
    pub(super) fn new(span: Duration) -> Self {
        Self {
            span,
            shots: VecDeque::new(),
            bytes: 0,
            due: Duration::ZERO,
        }
    }

    /// Whether a picture of this time is wanted.
    pub(super) fn is_due(&self, at: Duration) -> bool {
        at + EARLY >= self.due
    }

    /// Takes a picture, which is newer than all before it.
    pub(super) fn push(&mut self, shot: Arc<Shot>) {
        let at = shot.at;
        // By the rhythm and not by the last picture, so that 25 frames a second make ten and not eight; behind a gap it begins anew.
        self.due = (self.due + INTERVAL).max(at + INTERVAL / 2);
        self.bytes += shot.jpeg.len();
        self.shots.push_back(shot);
        let edge = at.saturating_sub(self.span);
        while self.bytes > MOST_BYTES && self.shots.len() > 1 || self.is_past(edge) {
            let gone = self.shots.pop_front();
            self.bytes -= gone.map_or(0, |shot| shot.jpeg.len());
        }
    }

    /// Whether the oldest picture is not needed to see what was at `edge`.
    fn is_past(&self, edge: Duration) -> bool {
        let is_old = |shot: &Arc<Shot>| shot.at + MARGIN < edge;
        let is_followed = self.shots.get(1).is_some_and(|next| next.at <= edge);
        self.shots.len() > 1 && (is_followed || self.shots.front().is_some_and(is_old))
    }

    /// The pictures from `from` on, oldest first; with the one before it, where that is not much older.
    pub(super) fn since(&self, from: Duration) -> Vec<Arc<Shot>> {
        let later = self.shots.partition_point(|shot| shot.at < from);
        let before = later.checked_sub(1).and_then(|n| self.shots.get(n));
        let is_exact = self.shots.get(later).is_some_and(|shot| shot.at == from);
        let before = before.filter(|shot| !is_exact && shot.at + MARGIN >= from);
        let later = self.shots.iter().skip(later);
        before.into_iter().chain(later).cloned().collect()
    }

    /// Nobody watches for a while: what was before that is no part of any clip.
    pub(super) fn clear(&mut self) {
        self.shots.clear();
        self.bytes = 0;
        self.due = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_contract::time::TimeQuality;

    use super::*;

    fn shot(at_ms: u64, bytes: usize) -> Arc<Shot> {
        Arc::new(Shot {
            at: Duration::from_millis(at_ms),
            wall: Wall {
                unix_ms: at_ms as i64,
                quality: TimeQuality::Synced,
            },
            jpeg: vec![0; bytes],
        })
    }

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// What is kept of pictures at these times.
    fn seen(span_s: u64, times_ms: impl IntoIterator<Item = u64>) -> PreRoll {
        let mut pre = PreRoll::new(seconds(span_s));
        for ms in times_ms {
            if pre.is_due(Duration::from_millis(ms)) {
                pre.push(shot(ms, 10));
            }
        }
        pre
    }

    #[test]
    fn twenty_five_frames_a_second_become_ten() {
        let pre = seen(4, (0..=250).map(|n| n * 40));
        let kept = pre.since(Duration::ZERO);
        assert!((40..=42).contains(&kept.len()), "{}", kept.len());
        assert!(kept[0].at <= seconds(6), "{:?}", kept[0].at);
    }

    #[test]
    fn a_slow_camera_keeps_all_it_has_and_what_is_before_a_gap_is_no_beginning() {
        let pre = seen(5, [0, 700, 1400, 2100, 60_000, 60_700]);
        let kept: Vec<Duration> = pre.since(seconds(56)).iter().map(|s| s.at).collect();
        assert_eq!(kept, [60_000, 60_700].map(Duration::from_millis));
        let pre = seen(5, [0, 700, 1400, 2100, 6900]);
        let kept: Vec<Duration> = pre
            .since(Duration::from_millis(1900))
            .iter()
            .map(|s| s.at)
            .collect();
        assert_eq!(kept, [1400, 2100, 6900].map(Duration::from_millis));
    }

    #[test]
    fn more_than_there_is_room_for_makes_the_beginning_later() {
        let mut pre = PreRoll::new(seconds(30));
        for n in 0..20 {
            pre.push(shot(n * 100, MOST_BYTES / 4));
        }
        let kept = pre.since(Duration::ZERO);
        assert_eq!(kept.len(), 4);
        assert_eq!(kept[3].at, Duration::from_millis(1900));
    }

    proptest! {
        #[test]
        fn the_bounds_hold_and_the_pictures_are_in_order_whatever_comes(
            steps in prop::collection::vec((0_u64..3000, 0_usize..MOST_BYTES / 3), 1..120),
            span in 0_u64..31,
        ) {
            let mut pre = PreRoll::new(seconds(span));
            let mut now = 0;
            for (step, bytes) in steps {
                now += step;
                let at = Duration::from_millis(now);
                if !pre.is_due(at) {
                    continue;
                }
                pre.push(shot(now, bytes));
                let held: usize = pre.shots.iter().map(|s| s.jpeg.len()).sum();
                prop_assert_eq!(held, pre.bytes);
                prop_assert!(held <= MOST_BYTES);
                let kept = pre.since(at.saturating_sub(seconds(span)));
                prop_assert!(kept.is_sorted_by_key(|s| s.at));
                prop_assert_eq!(kept.last().map(|s| s.at), Some(at));
                let oldest = at.saturating_sub(seconds(span)).saturating_sub(MARGIN);
                prop_assert!(kept[0].at >= oldest);
            }
        }
    }
}
