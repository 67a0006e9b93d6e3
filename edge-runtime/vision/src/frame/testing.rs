//! Frames for tests, also of other crates.
#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::{ColorMatrix, Colorimetry, Frame, FrameId, OwnedPlanes, Picture, PixelFormat};

pub fn frame(picture: Picture) -> Frame {
    Frame {
        id: FrameId {
            source: "test".parse::<SourceId>().unwrap(),
            seq: 1,
        },
        pts: Duration::ZERO,
        arrived: Instant::now(),
        wall: Wall {
            unix_ms: 0,
            quality: TimeQuality::Unsynced,
        },
        fps: None,
        recorded: true,
        is_damaged: false,
        picture,
    }
}

pub fn picture(
    width: u32,
    height: u32,
    format: PixelFormat,
    planes: Vec<(Vec<u8>, usize)>,
) -> Picture {
    Picture {
        width,
        height,
        format,
        color: Colorimetry {
            matrix: ColorMatrix::Bt601,
            full_range: true,
        },
        planes: Arc::new(OwnedPlanes { planes }),
    }
}

pub fn rgb_frame(width: u32, height: u32, colour: [u8; 3]) -> Frame {
    let data = colour.repeat((width * height) as usize);
    let stride = width as usize * 3;
    frame(picture(
        width,
        height,
        PixelFormat::Rgb,
        vec![(data, stride)],
    ))
}
