//! Decoding times of frames that carry presentation times only, as from RTSP.
//!
//! - A decoding time never exceeds the presentation time of its frame, and never decreases but at
//!   a restart.
//! - No frame is delayed: a decoding time is known when its frame arrives.
//! - A presentation time that jumps back behind all others restarts the computation.

/// Max frames by which H.264 and H.265 reorder (H.264, A.3.1: `max_dec_frame_buffering`).
const MAX_REORDER: usize = 16;

/// Distance of the first decoding times from the first presentation time, in nanoseconds. Leading
/// pictures of an open group have earlier presentation times than the key frame.
const HEADROOM_NS: u64 = 1_000_000_000;

/// Computes decoding times, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct DecodingTimes {
    /// Presentation times of the last frames, ascending; at most [`MAX_REORDER`].
    window: Vec<u64>,
    last: Option<u64>,
}

impl DecodingTimes {
    /// Returns the decoding time of the next frame in decoding order.
    pub(super) fn next(&mut self, pts: u64) -> u64 {
        if self.last.is_some_and(|last| pts < last) {
            *self = Self::default();
        }
        let last = self.last.unwrap_or(pts.saturating_sub(HEADROOM_NS));
        let at = self.window.partition_point(|known| *known <= pts);
        self.window.insert(at, pts);
        let smallest = match self.window.len() > MAX_REORDER {
            true => self.window.remove(0),
            false => last,
        };
        let dts = smallest.max(last);
        self.last = Some(dts);
        dts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME_NS: u64 = 40_000_000;

    /// Presentation times in decoding order: each group of `b + 1` frames has its last one first.
    fn with_b_frames(start: u64, frames: u64, b: u64) -> Vec<u64> {
        let group = b + 1;
        let position = |i: u64| match i {
            0 => 0,
            i => {
                let (of, at) = ((i - 1) / group, (i - 1) % group);
                of * group + if at == 0 { group } else { at }
            }
        };
        (0..frames)
            .map(|i| start + position(i) * FRAME_NS)
            .collect()
    }

    proptest! {
        #[test]
        fn times_never_decrease_or_exceed_presentation(
            start in 0..10_000_000_000_u64,
            b in 0..16_u64,
        ) {
            let mut times = DecodingTimes::default();
            let mut last = 0;
            for pts in with_b_frames(start, 200, b) {
                let dts = times.next(pts);
                prop_assert!(last <= dts && dts <= pts, "{last} {dts} {pts}");
                last = dts;
            }
        }

        #[test]
        fn any_presentation_times_are_accepted(all in prop::collection::vec(any::<u64>(), 0..99)) {
            let mut times = DecodingTimes::default();
            for pts in all {
                prop_assert!(times.next(pts) <= pts);
                prop_assert!(times.window.len() <= MAX_REORDER);
            }
        }
    }

    #[test]
    fn jump_back_restarts_the_times() {
        let mut times = DecodingTimes::default();
        for pts in with_b_frames(90_000_000_000, 60, 2) {
            times.next(pts);
        }
        assert!(times.next(5_000_000_000) <= 5_000_000_000);
    }
}
