//! The last packets of a camera's own encoded stream, from which clips are cut without encoding.
//!
//! - Nothing is kept without a reader. Then at most [`MAX_BYTES`], and the longest time that a
//!   reader asks for, with a key frame before it; the oldest are dropped first.
//! - A packet holds one access unit, as it goes into the decoder. Times become those of the source
//!   with the first decoded picture ([`PacketRing::align`]).
//! - A new opening of the source drops everything: its clock starts again. So does another format.
//!   A jump in the numbers shows a reader that packets are missing.
//! - A time that steps back drops everything until a key frame. The same in the next group of
//!   pictures shows reordered frames; then nothing is kept until the next opening.
//! - Sources with a privacy mask have no ring: nothing shows what a mask covers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Most bytes of one source.
pub const MAX_BYTES: usize = 32 << 20;

/// Longest time between key frames that the ring bridges.
const MAX_KEY_INTERVAL: Duration = Duration::from_secs(12);

/// Packets without decoding time among which a reordered stream shows itself.
const MIN_PACKETS: usize = 3;

/// One access unit of an encoded stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// Rises by one; by more where packets are missing.
    pub number: u64,
    /// When it is shown, on the clock of the stream.
    pub pts: Duration,
    /// When it is decoded, on the same clock; rises.
    pub dts: Duration,
    /// Whether decoding can begin with it.
    pub is_key: bool,
    /// Format of the stream, as capabilities of GStreamer.
    pub format: Arc<str>,
    pub data: Vec<u8>,
}

/// A packet as an element delivers it.
#[derive(Debug)]
pub(crate) struct NewPacket {
    pub(crate) pts: Duration,
    pub(crate) dts: Option<Duration>,
    pub(crate) is_key: bool,
    pub(crate) format: Arc<str>,
    pub(crate) data: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    packets: VecDeque<Arc<Packet>>,
    bytes: usize,
    next: u64,
    /// The readers by number, and how long each asks packets to be kept.
    spans: Vec<(u64, Duration)>,
    next_reader: u64,
    /// Nanoseconds from the clock of the stream to source time.
    offset: Option<i128>,
    /// Whether the time has stepped back, with no whole group of pictures since.
    has_stepped_back: bool,
    /// Whether frames are reordered and no decoding times are known.
    is_reordered: bool,
}

/// Packets of one source. Shared by its streaming thread, its own thread and pipelines.
#[derive(Debug, Default)]
pub struct PacketRing(Mutex<State>);

impl PacketRing {
    /// Drops everything when the source is opened again.
    pub(crate) fn begin_session(&self) {
        let mut state = self.0.lock();
        state.clear();
        (state.offset, state.has_stepped_back, state.is_reordered) = (None, false, false);
    }

    /// Whether packets are kept.
    pub(super) fn is_read(&self) -> bool {
        !self.0.lock().spans.is_empty()
    }

    /// Adds a packet, in decoding order.
    pub(crate) fn push(&self, new: NewPacket) {
        let mut state = self.0.lock();
        let mut last = state.packets.back().map(|packet| packet.dts);
        if new.is_key && last.is_some_and(|dts| new.dts.unwrap_or(new.pts) <= dts) {
            // A clock was set back.
            state.clear();
            last = None;
        }
        // A camera without reordered frames has no decoding times, or times of arrival.
        let dts = match (last, new.dts) {
            (None, Some(dts)) if dts <= new.pts => dts,
            (None, _) => new.pts,
            (Some(dts), Some(new_dts)) if new_dts > dts && new_dts <= new.pts => new_dts,
            (Some(dts), _) if new.pts > dts => new.pts,
            (Some(_), _) => {
                // What is kept may be in the wrong order too.
                state.is_reordered = state.has_stepped_back;
                state.has_stepped_back = true;
                state.clear();
                return;
            }
        };
        if state.spans.is_empty() || state.is_reordered {
            return;
        }
        // One file can't hold both.
        let last = state.packets.back();
        if last.is_some_and(|last| last.format != new.format) {
            state.clear();
        }
        // Decoding begins with a key frame, so others before the first are of no use.
        if state.packets.is_empty() && !new.is_key {
            return;
        }
        state.has_stepped_back &= state.packets.is_empty() || !new.is_key;
        let packet = Packet {
            number: state.next,
            pts: new.pts,
            dts,
            is_key: new.is_key,
            format: new.format,
            data: new.data,
        };
        state.next += 1;
        state.bytes += packet.data.len();
        state.packets.push_back(Arc::new(packet));
        state.evict(dts);
    }

    /// Learns that the picture shown at `pts` on the clock of the stream has this source time.
    pub(crate) fn align(&self, pts: Duration, source_time: Duration) {
        let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        self.0.lock().offset = Some(nanos(source_time) - nanos(pts));
    }
}

impl State {
    fn clear(&mut self) {
        self.next += u64::from(!self.packets.is_empty());
        self.packets.clear();
        self.bytes = 0;
    }

    /// Drops what no reader needs any more, and the oldest beyond the bound. The rest begins with a
    /// key frame.
    fn evict(&mut self, now: Duration) {
        let span = self.spans.iter().map(|(_, span)| *span).max();
        let edge = now.saturating_sub(span.unwrap_or_default());
        loop {
            let mut keys = self.packets.iter().enumerate().skip(1);
            let Some((next_key, key)) = keys.find(|(_, packet)| packet.is_key) else {
                break;
            };
            let first = self.packets.front().map_or(now, |packet| packet.dts);
            let is_old = key.dts <= edge || first + MAX_KEY_INTERVAL < edge;
            if !is_old && self.bytes <= MAX_BYTES {
                break;
            }
            let gone: usize = self.packets.drain(..next_key).map(|p| p.data.len()).sum();
            self.bytes -= gone;
        }
        // One group of pictures that is larger than the ring.
        if self.bytes > MAX_BYTES {
            self.clear();
        }
    }

    fn source_time(&self, time: Duration) -> Option<Duration> {
        let nanos = i128::try_from(time.as_nanos()).ok()? + self.offset?;
        Some(Duration::from_nanos(u64::try_from(nanos.max(0)).ok()?))
    }

    fn with_times<'a>(
        &self,
        packets: impl Iterator<Item = &'a Arc<Packet>>,
    ) -> Vec<(Duration, Arc<Packet>)> {
        let timed = packets.filter_map(|p| Some((self.source_time(p.dts)?, Arc::clone(p))));
        timed.collect()
    }
}

/// A reader of the packets of one source; the ring keeps them while it lives.
#[derive(Debug)]
pub struct PacketReader {
    ring: Arc<PacketRing>,
    id: u64,
}

impl PacketReader {
    /// A reader that wants the last `span` of source time.
    pub(crate) fn new(ring: Arc<PacketRing>, span: Duration) -> Self {
        let mut state = ring.0.lock();
        let id = state.next_reader;
        state.next_reader += 1;
        state.spans.push((id, span));
        drop(state);
        Self { ring, id }
    }

    /// Whether a clip could begin now: [`Self::since`] would return packets.
    pub fn is_ready(&self) -> bool {
        let state = self.ring.0.lock();
        let is_filled = state.packets.len() >= MIN_PACKETS;
        state.offset.is_some() && is_filled && !state.is_reordered
    }

    /// Packets from the key frame at or before source time `from`, or the first one, each with its
    /// decoding time as source time.
    ///
    /// # Errors
    /// Why there are none, a sentence.
    pub fn since(&self, from: Duration) -> Result<Vec<(Duration, Arc<Packet>)>, String> {
        let state = self.ring.0.lock();
        if state.is_reordered {
            let why = "the stream reorders frames and has no decoding times";
            return Err(why.to_owned());
        }
        if state.packets.len() < MIN_PACKETS || state.offset.is_none() {
            return Err("no key frame of the stream has come yet".to_owned());
        }
        let is_before =
            |packet: &Arc<Packet>| state.source_time(packet.pts).is_some_and(|at| at <= from);
        let key = state
            .packets
            .iter()
            .rposition(|packet| packet.is_key && is_before(packet));
        Ok(state.with_times(state.packets.iter().skip(key.unwrap_or(0))))
    }

    /// Packets after the one with this number, with their decoding times as source time.
    pub fn after(&self, number: u64) -> Vec<(Duration, Arc<Packet>)> {
        let state = self.ring.0.lock();
        let first = state
            .packets
            .partition_point(|packet| packet.number <= number);
        state.with_times(state.packets.iter().skip(first))
    }
}

impl Drop for PacketReader {
    fn drop(&mut self) {
        let mut state = self.ring.0.lock();
        state.spans.retain(|(id, _)| *id != self.id);
        if state.spans.is_empty() {
            state.clear();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn packet(pts: u64, dts: Option<u64>, is_key: bool, bytes: usize) -> NewPacket {
        NewPacket {
            pts: ms(pts),
            dts: dts.map(ms),
            is_key,
            format: "video/x-h264".into(),
            data: vec![0; bytes],
        }
    }

    /// A ring with a key frame each second, 25 packets a second, from 100 s on the stream's clock,
    /// which is source time zero.
    fn watched(seconds: u64, span: Duration) -> (Arc<PacketRing>, PacketReader) {
        let ring = Arc::new(PacketRing::default());
        let reader = PacketReader::new(Arc::clone(&ring), span);
        ring.align(ms(100_000), Duration::ZERO);
        for n in 0..seconds * 25 {
            ring.push(packet(100_000 + n * 40, None, n % 25 == 0, 1000));
        }
        (ring, reader)
    }

    #[test]
    fn clip_begins_with_the_key_frame_at_or_before_its_start() {
        let (_ring, reader) = watched(20, ms(10_000));
        for (from, expected) in [(14_000, 14_000), (14_500, 14_000), (14_999, 14_000)] {
            let packets = reader.since(ms(from)).unwrap();
            assert_eq!(packets[0].0, ms(expected));
            assert!(packets[0].1.is_key);
            assert_eq!(packets.last().unwrap().0, ms(19_960));
        }
        let kept = reader.since(Duration::ZERO).unwrap();
        assert!(
            kept[0].1.is_key && kept[0].0 >= ms(8_000),
            "{:?}",
            kept[0].0
        );
    }

    #[test]
    fn nothing_is_kept_without_a_reader() {
        let (ring, reader) = watched(2, ms(1_000));
        assert!(ring.is_read());
        drop(reader);
        assert!(!ring.is_read());
        ring.push(packet(200_000, None, true, 1000));
        assert_eq!(ring.0.lock().bytes, 0);
    }

    #[test]
    fn clock_that_steps_back_costs_one_group_of_pictures() {
        let (ring, reader) = watched(3, ms(10_000));
        ring.align(ms(90_000), Duration::ZERO);
        for round in 1..4_u64 {
            // Once within a group of pictures, once with its key frame.
            let begin = 100_000 - round * 1_000;
            for n in 0..75 {
                ring.push(packet(begin + n * 40, None, n % 25 == 0, 1000));
            }
            ring.push(packet(begin, None, false, 1000));
            for n in 0..50 {
                ring.push(packet(begin + n * 40, None, n % 25 == 0, 1000));
            }
            assert_eq!(reader.since(Duration::ZERO).map(|kept| kept.len()), Ok(50));
        }
    }

    #[test]
    fn reordered_frames_need_decoding_times() {
        let ring = Arc::new(PacketRing::default());
        let reader = PacketReader::new(Arc::clone(&ring), ms(10_000));
        ring.align(Duration::ZERO, Duration::ZERO);
        for (n, pts) in [80, 200, 120, 160].into_iter().enumerate() {
            ring.push(packet(pts, Some(n as u64 * 40), n == 0, 9));
        }
        assert_eq!(reader.since(ms(100)).unwrap().len(), 4);
        assert!(reader.is_ready());
        ring.push(packet(90, None, false, 9));
        assert!(!reader.is_ready());
        for pts in [400, 480, 440] {
            ring.push(packet(pts, None, pts == 400, 9));
        }
        let why = reader.since(ms(100)).unwrap_err();
        assert!(why.contains("no decoding times"), "{why}");
        assert!(!reader.is_ready());
        assert_eq!(ring.0.lock().bytes, 0);
        ring.push(packet(600, None, true, 9));
        assert!(reader.after(0).is_empty(), "nothing is kept");
        ring.begin_session();
        ring.align(Duration::ZERO, Duration::ZERO);
        for n in 0..3 {
            assert!(!reader.is_ready());
            ring.push(packet(n * 40, None, n == 0, 9));
        }
        assert!(reader.is_ready());
        assert!(reader.after(0)[0].1.number > 4, "a gap");
    }

    #[test]
    fn another_format_drops_what_was_kept_and_leaves_a_gap() {
        let (ring, reader) = watched(2, ms(10_000));
        let other = |pts, is_key| NewPacket {
            format: "video/x-h265".into(),
            ..packet(pts, None, is_key, 9)
        };
        let last = reader.since(ms(1_000)).unwrap().last().unwrap().1.number;
        ring.push(other(102_000, false));
        assert!(reader.after(last).is_empty(), "not before a key frame");
        for n in 1..4 {
            ring.push(other(102_000 + n * 40, n == 1));
        }
        let packets = reader.since(Duration::ZERO).unwrap();
        assert_eq!(packets.len(), 3);
        assert_eq!(packets[0].1.number, last + 2);
    }

    proptest! {
        #[test]
        fn ring_is_bounded_and_begins_with_a_key_frame(
            sizes in prop::collection::vec((0usize..4 << 20, any::<bool>()), 0..80), span in 0u64..40
        ) {
            let ring = Arc::new(PacketRing::default());
            let reader = PacketReader::new(Arc::clone(&ring), Duration::from_secs(span));
            ring.align(Duration::ZERO, Duration::ZERO);
            for (n, (bytes, is_key)) in sizes.into_iter().enumerate() {
                ring.push(packet(n as u64 * 500, None, is_key, bytes));
                let state = ring.0.lock();
                let kept: usize = state.packets.iter().map(|p| p.data.len()).sum();
                prop_assert_eq!(kept, state.bytes);
                prop_assert!(kept <= MAX_BYTES);
                prop_assert!(state.packets.front().is_none_or(|p| p.is_key));
                prop_assert!(state.packets.iter().zip(state.packets.iter().skip(1))
                    .all(|(a, b)| a.number + 1 == b.number && a.dts < b.dts));
            }
            drop(reader);
        }
    }
}
