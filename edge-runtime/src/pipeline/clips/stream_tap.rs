//! The camera's own stream as the frames of a clip, in the time of a pipeline.

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::time::Wall;
use watchkeeper_vision::frame::Frame;

use super::pre_roll::{ClipFrame, Content};
use crate::capture::packets::{Packet, PacketReader};

/// Packets of the source that a pipeline watches.
#[derive(Debug)]
pub(super) struct StreamTap {
    /// Without one, the reason.
    reader: Result<PacketReader, String>,
    last: Option<LastFrame>,
}

/// The last frame, in each of its times.
#[derive(Debug, Clone, Copy)]
struct LastFrame {
    source: Duration,
    pipeline: Duration,
    wall: Wall,
}

impl StreamTap {
    pub(super) fn new(reader: Result<PacketReader, String>) -> Self {
        Self { reader, last: None }
    }

    /// Learns the time `at` of the pipeline from a frame.
    pub(super) fn see(&mut self, frame: &Frame, at: Duration) {
        self.last = Some(LastFrame {
            source: frame.pts,
            pipeline: at,
            wall: frame.wall,
        });
    }

    /// Whether a clip could be cut now.
    pub(super) fn is_ready(&self) -> bool {
        self.last.is_some() && self.reader.as_ref().is_ok_and(PacketReader::is_ready)
    }

    /// Frames from the key frame at or before `from`, for an event at `at`.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn since(
        &self,
        from: Duration,
        at: Duration,
    ) -> Result<Vec<Arc<ClipFrame>>, String> {
        let reader = self.reader.as_ref().map_err(Clone::clone)?;
        let seen = self
            .last
            .ok_or_else(|| "no frame has come yet".to_owned())?;
        let back = seen.pipeline.saturating_sub(from);
        let packets = reader.since(seen.source.saturating_sub(back))?;
        let frames = convert(seen, packets);
        match frames.first().is_some_and(|first| first.at <= at) {
            true => Ok(frames),
            false => Err("no key frame of the stream came before the event".to_owned()),
        }
    }

    /// Frames after the packet with this number.
    pub(super) fn after(&self, number: u64) -> Vec<Arc<ClipFrame>> {
        let packets = self.reader.as_ref().map(|reader| reader.after(number));
        let packets = packets.unwrap_or_default();
        self.last
            .map_or_else(Vec::new, |seen| convert(seen, packets))
    }
}

fn convert(seen: LastFrame, packets: Vec<(Duration, Arc<Packet>)>) -> Vec<Arc<ClipFrame>> {
    let packets = packets.into_iter();
    let frames = packets.map(|(time, packet)| {
        let ahead = time.saturating_sub(seen.source);
        let behind = seen.source.saturating_sub(time);
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(0);
        Arc::new(ClipFrame {
            at: (seen.pipeline + ahead).saturating_sub(behind),
            wall: Wall {
                unix_ms: seen.wall.unix_ms + ms(ahead) - ms(behind),
                ..seen.wall
            },
            content: Content::Packet(packet),
        })
    });
    frames.collect()
}
