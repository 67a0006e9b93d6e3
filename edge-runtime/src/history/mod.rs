//! Detection history: what the detectors of each source reported in the last day.
//!
//! Owns the folder `<state>/detections`. A backtest replays it.
//!
//! - Boxes, scores and classes, and now and then a small picture.
//! - At most [`MAX_AGE`] and the bytes of the configuration, shared fairly by the sources; the
//!   oldest chunks are deleted first. Nothing is written below [`MIN_FREE_BYTES`] of free space.
//! - A frame thread never waits for the disk. Frames that the disk is too slow for are left out.
//! - A kill loses at most the last [`FLUSH_INTERVAL`]; a torn end of a chunk is ignored. Nothing is
//!   synced, because a day of statistics is not worth a write of the disk every few seconds.
//! - A disk that refuses stops nothing.
//! - Of several pipelines with one source and model, one writes: the one that looks most often.
//! - A source with another address or privacy mask has another history.
//!
//! Not here: replaying (`backtest`).

mod chunk;
mod files;
mod pictures;
mod recorder;

pub use self::chunk::{ChunkHead, Looks, SeenBox, SeenFrame, Thresholds};
pub use self::files::{FLUSH_INTERVAL, MAX_AGE, MIN_FREE_BYTES, StoredChunk};
pub use self::pictures::{SeenPicture, thumbnail};
pub use self::recorder::{DetectionHistory, HistoryWriter, Observed};

/// The reader of chunks, open to the fuzz targets.
pub(crate) mod fuzzing {
    use super::{chunk, pictures};

    pub(crate) fn read_chunk(mut bytes: &[u8]) -> Option<(Vec<u8>, Vec<chunk::SeenFrame>)> {
        let head = chunk::read_head(&mut bytes)?;
        let frames = chunk::read_frames(&mut bytes);
        let mut written = rmp_serde::to_vec(&head).ok()?;
        for frame in &frames {
            written.extend(rmp_serde::to_vec(frame).ok()?);
        }
        Some((written, frames))
    }

    pub(crate) fn read_pictures(mut bytes: &[u8]) -> Vec<pictures::SeenPicture> {
        pictures::read_pictures(&mut bytes)
    }
}
