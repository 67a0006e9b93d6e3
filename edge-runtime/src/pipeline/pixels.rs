//! A frame's pixels as the workflow sees them: converted to RGB only when a step asks, and then once.
//!
//! Invariant: a workflow that draws nothing costs no colour conversion.

use std::sync::{Arc, OnceLock};

use image::RgbImage;
use watchkeeper_engine::workflow::{Pixels, RgbPixels};

use crate::frame::Picture;
use crate::media::jpeg;

/// A picture that becomes RGB on demand.
#[derive(Debug)]
pub struct FramePixels {
    picture: Picture,
    rgb: OnceLock<Arc<RgbPixels>>,
}

impl FramePixels {
    /// Wraps a picture without touching its pixels.
    #[must_use]
    pub fn new(picture: Picture) -> Self {
        Self {
            picture,
            rgb: OnceLock::new(),
        }
    }
}

impl Pixels for FramePixels {
    fn size(&self) -> [u32; 2] {
        [self.picture.width, self.picture.height]
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        Arc::clone(self.rgb.get_or_init(|| {
            let (width, height) = (self.picture.width, self.picture.height);
            let data = match jpeg::to_rgb(&self.picture) {
                Ok(rgb) => rgb.into_raw(),
                Err(error) => {
                    tracing::warn!(%error, "a frame is shown black");
                    vec![0; width as usize * height as usize * 3]
                }
            };
            Arc::new(RgbPixels {
                width,
                height,
                data,
            })
        }))
    }
}

/// The picture as the encoders take it.
#[must_use]
pub fn to_image(rgb: &RgbPixels) -> RgbImage {
    RgbImage::from_raw(rgb.width, rgb.height, rgb.data.clone())
        .unwrap_or_else(|| RgbImage::new(rgb.width, rgb.height))
}
