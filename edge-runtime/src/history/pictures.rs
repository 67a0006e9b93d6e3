//! Small pictures beside a chunk: `<chunk>.pictures`, one MessagePack value each.
//!
//! - A picture is taken of a frame that a detector looked at: with a detection every
//!   [`PICTURE_EVERY_MS`], without one every [`QUIET_PICTURE_EVERY_MS`].
//! - Regions of a privacy mask are hidden before, at capture. A source with a mask of classes has
//!   no history.
//! - Reading ends at the first value that is not whole.

use std::io::Read;

use serde::{Deserialize, Serialize};
use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::jpeg::{self, JpegError};
use watchkeeper_vision::shrink;

/// Shortest distance of two pictures with a detection, in milliseconds.
const PICTURE_EVERY_MS: i64 = 5_000;
/// Shortest distance of two pictures without one, in milliseconds.
const QUIET_PICTURE_EVERY_MS: i64 = 60_000;
/// Longest side in pixels.
const MAX_SIDE: u32 = 320;
/// JPEG quality, from 1 to 100.
const QUALITY: u8 = 60;
/// Longest stored picture in bytes.
const MAX_BYTES: usize = 64 << 10;

/// A picture of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPicture {
    /// Milliseconds of the wall clock since the start of the chunk.
    pub wall_ms: u32,
    #[serde(with = "serde_bytes")]
    pub jpeg: Vec<u8>,
}

/// Whether a picture is due at `now_ms` after the last one of the source and model. A clock that
/// went back makes one due.
pub(super) fn is_due(last_ms: Option<i64>, now_ms: i64, has_boxes: bool) -> bool {
    let every_ms = match has_boxes {
        true => PICTURE_EVERY_MS,
        false => QUIET_PICTURE_EVERY_MS,
    };
    last_ms.is_none_or(|last| !(last..last + every_ms).contains(&now_ms))
}

/// Makes the small picture of a frame.
///
/// # Errors
/// When its pixels cannot be read.
pub fn thumbnail(picture: &Picture) -> Result<Vec<u8>, JpegError> {
    jpeg::encode(&shrink::within(picture, MAX_SIDE)?, QUALITY)
}

/// The bytes of a picture in the file; empty for one that is too large.
pub(super) fn encode(wall_ms: u32, jpeg: Vec<u8>) -> Vec<u8> {
    if jpeg.len() > MAX_BYTES {
        return Vec::new();
    }
    // Plain data, which always has this form.
    rmp_serde::to_vec(&SeenPicture { wall_ms, jpeg }).unwrap_or_default()
}

/// Reads pictures up to the first one that is not whole.
pub(super) fn read_pictures(from: &mut impl Read) -> Vec<SeenPicture> {
    let mut values = rmp_serde::Deserializer::new(from);
    let one = || SeenPicture::deserialize(&mut values).ok();
    let whole = std::iter::from_fn(one);
    whole
        .take_while(|seen| seen.jpeg.len() <= MAX_BYTES)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn picture_of_a_camera_is_small() {
        let (width, height) = (1920, 1080);
        let noise =
            (0..width * height * 3).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
        let jpeg = thumbnail(&Picture::rgb(width, height, noise.collect()));
        let jpeg = jpeg.map_or(Vec::new(), |jpeg| encode(7, jpeg));
        assert!((1_000..MAX_BYTES).contains(&jpeg.len()), "{}", jpeg.len());
    }

    #[test]
    fn detection_makes_pictures_due_more_often() {
        assert!(is_due(None, 0, false) && is_due(Some(60_000), 59_999, false));
        assert!(is_due(Some(0), 5_000, true) && !is_due(Some(0), 4_999, true));
        assert!(is_due(Some(0), 60_000, false) && !is_due(Some(0), 59_999, false));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            drop(read_pictures(&mut bytes.as_slice()));
        }

        #[test]
        fn pictures_survive_a_cut_anywhere(
            sizes in proptest::collection::vec(0usize..300, 0..6), cut in 0usize..2_000,
        ) {
            let mut bytes = Vec::new();
            let mut ends = Vec::new();
            for (n, size) in sizes.iter().enumerate() {
                bytes.extend(encode(n as u32, vec![n as u8; *size]));
                ends.push(bytes.len());
            }
            let cut = cut.min(bytes.len());
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let read = read_pictures(&mut &bytes[..cut]);
            prop_assert_eq!(read.len(), whole);
        }
    }
}
