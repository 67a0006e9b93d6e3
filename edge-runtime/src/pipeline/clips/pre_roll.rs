//! The last frames of a pipeline; a clip starts with them.
//!
//! - Frames are small JPEGs, at most [`RATE`] per second of source time on average.
//! - At most [`MAX_BYTES`] are kept. The oldest frames are dropped first, so a clip starts later
//!   rather than with holes.
//! - No clock is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::time::Wall;
use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::{jpeg, shrink};

use crate::capture::packets::Packet;

/// Frames per second.
pub(super) const RATE: u32 = 10;

/// Time between two frames.
pub(super) const INTERVAL: Duration = Duration::from_millis(1000 / RATE as u64);

/// Maximum bytes of frames of one pipeline.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// How far the first and the last frame of a clip may lie outside the requested span, for slow
/// cameras.
pub(super) const MARGIN: Duration = Duration::from_secs(1);

/// Longest side of a frame in pixels; the snapshots of an event are larger.
const MAX_SIDE: u32 = 640;

/// JPEG quality of frames, from 1 to 100.
const FRAME_QUALITY: u8 = 85;

/// How much too early a frame is accepted: cameras are not exact.
const EARLY: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClipFrame {
    pub(super) at: Duration,
    /// When the frame arrived.
    pub(super) wall: Wall,
    pub(super) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// A small picture.
    Jpeg(Vec<u8>),
    /// A part of the camera's own stream; `at` is when it is decoded.
    Packet(Arc<Packet>),
}

impl ClipFrame {
    /// Size in bytes.
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            Content::Jpeg(jpeg) => jpeg.len(),
            Content::Packet(packet) => packet.data.len(),
        }
    }

    pub(super) fn is_packet(&self) -> bool {
        matches!(self.content, Content::Packet(_))
    }

    /// Whether it can't be shown without those before it.
    pub(super) fn needs_earlier(&self) -> bool {
        matches!(&self.content, Content::Packet(packet) if !packet.is_key)
    }
}

/// The last frames of one pipeline.
#[derive(Debug)]
pub(crate) struct PreRoll {
    span: Duration,
    frames: VecDeque<Arc<ClipFrame>>,
    bytes: usize,
    /// When the next frame is taken.
    due: Duration,
}

impl PreRoll {
    /// A pre-roll of `span`.
    pub(crate) fn new(span: Duration) -> Self {
        Self {
            span,
            frames: VecDeque::new(),
            bytes: 0,
            due: Duration::ZERO,
        }
    }

    /// Whether a frame of this time is taken.
    fn is_due(&self, at: Duration) -> bool {
        at + EARLY >= self.due
    }

    /// Adds the small picture of a frame newer than all others, if one is due.
    pub(crate) fn take(
        &mut self,
        wall: Wall,
        picture: &Picture,
        at: Duration,
    ) -> Option<Arc<ClipFrame>> {
        if !self.is_due(at) {
            return None;
        }
        let small = shrink::within(picture, MAX_SIDE);
        let jpeg = small.and_then(|rgb| jpeg::encode(&rgb, FRAME_QUALITY));
        let jpeg = jpeg.inspect_err(|error| tracing::debug!(%error, "no frame for clips"));
        let frame = Arc::new(ClipFrame {
            at,
            wall,
            content: Content::Jpeg(jpeg.ok()?),
        });
        self.push(Arc::clone(&frame));
        Some(frame)
    }

    /// Adds a frame newer than all others.
    pub(super) fn push(&mut self, frame: Arc<ClipFrame>) {
        let at = frame.at;
        // Paced by the interval, not by the last frame, so that 25 frames per second become ten and
        // not eight. After a gap the pace restarts.
        self.due = (self.due + INTERVAL).max(at + INTERVAL / 2);
        self.bytes += frame.bytes();
        self.frames.push_back(frame);
        let edge = at.saturating_sub(self.span);
        while self.bytes > MAX_BYTES && self.frames.len() > 1 || self.is_past(edge) {
            let gone = self.frames.pop_front();
            self.bytes -= gone.map_or(0, |frame| frame.bytes());
        }
    }

    /// Whether the oldest frame is older than a clip from `edge` on needs.
    fn is_past(&self, edge: Duration) -> bool {
        let is_old = |frame: &Arc<ClipFrame>| frame.at + MARGIN < edge;
        let is_followed = self.frames.get(1).is_some_and(|next| next.at <= edge);
        self.frames.len() > 1 && (is_followed || self.frames.front().is_some_and(is_old))
    }

    /// The frames from `from` on, oldest first, and the one before unless it is much older.
    pub(super) fn since(&self, from: Duration) -> Vec<Arc<ClipFrame>> {
        let later = self.frames.partition_point(|frame| frame.at < from);
        let before = later.checked_sub(1).and_then(|n| self.frames.get(n));
        let is_exact = self.frames.get(later).is_some_and(|frame| frame.at == from);
        let before = before.filter(|frame| !is_exact && frame.at + MARGIN >= from);
        let later = self.frames.iter().skip(later);
        before.into_iter().chain(later).cloned().collect()
    }

    /// Drops all frames, when none are taken for a while.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
        self.due = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_contract::time::TimeQuality;

    use super::*;

    fn frame(at_ms: u64, bytes: usize) -> Arc<ClipFrame> {
        Arc::new(ClipFrame {
            at: Duration::from_millis(at_ms),
            wall: Wall {
                unix_ms: at_ms as i64,
                quality: TimeQuality::Synced,
            },
            content: Content::Jpeg(vec![0; bytes]),
        })
    }

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// Keeps what is due of frames at these times.
    fn seen(span_s: u64, times_ms: impl IntoIterator<Item = u64>) -> PreRoll {
        let mut pre = PreRoll::new(seconds(span_s));
        for ms in times_ms {
            if pre.is_due(Duration::from_millis(ms)) {
                pre.push(frame(ms, 10));
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
    fn slow_camera_keeps_all_frames_after_a_gap() {
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
    fn full_pre_roll_drops_its_oldest_frames() {
        let mut pre = PreRoll::new(seconds(30));
        for n in 0..20 {
            pre.push(frame(n * 100, MAX_BYTES / 4));
        }
        let kept = pre.since(Duration::ZERO);
        assert_eq!(kept.len(), 4);
        assert_eq!(kept[3].at, Duration::from_millis(1900));
    }

    proptest! {
        #[test]
        fn frames_stay_within_bounds_and_in_order(
            steps in prop::collection::vec((0_u64..3000, 0_usize..MAX_BYTES / 3), 1..120),
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
                pre.push(frame(now, bytes));
                let held: usize = pre.frames.iter().map(|s| s.bytes()).sum();
                prop_assert_eq!(held, pre.bytes);
                prop_assert!(held <= MAX_BYTES);
                let kept = pre.since(at.saturating_sub(seconds(span)));
                prop_assert!(kept.is_sorted_by_key(|s| s.at));
                prop_assert_eq!(kept.last().map(|s| s.at), Some(at));
                let oldest = at.saturating_sub(seconds(span)).saturating_sub(MARGIN);
                prop_assert!(kept[0].at >= oldest);
            }
        }
    }
}
