//! The one way of a picture out of a feed: through the privacy mask of its source.
//!
//! - Feeds yield [`Unmasked`] pictures. Only [`Masker::mask`] gets the pixels out of one, so
//!   nothing after capture can hold an unmasked frame.
//! - A source without regions pays nothing: its pictures pass unchanged.
//! - A mask is rasterised once for each picture size.

use std::sync::Arc;

use watchkeeper_contract::privacy::{PrivacyMask, PrivacyStatus};
use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::privacy::Cover;

/// Picture size for which the status states the covered part, whatever the camera sends.
const STATUS_SIZE: [u32; 2] = [1920, 1080];

/// A picture as its origin made it. Its pixels are out of reach.
#[derive(Debug, Clone)]
pub(super) struct Unmasked(Picture);

impl From<Picture> for Unmasked {
    fn from(picture: Picture) -> Self {
        Self(picture)
    }
}

#[cfg(test)]
impl Unmasked {
    /// Gives the pixels to a test of a feed.
    pub(super) fn picture(&self) -> &Picture {
        &self.0
    }
}

/// Applies the mask of one source.
#[derive(Debug)]
pub(super) struct Masker {
    mask: Option<Arc<PrivacyMask>>,
    /// The regions at the size of the last picture.
    cover: Option<Cover>,
}

impl Masker {
    /// Masks nothing if there is no mask, or none with regions.
    pub(super) fn new(mask: Option<Arc<PrivacyMask>>) -> Self {
        let mask = mask.filter(|mask| !mask.regions.is_empty());
        Self { mask, cover: None }
    }

    /// Masks the regions of a picture.
    pub(super) fn mask(&mut self, Unmasked(picture): Unmasked) -> Picture {
        let Some(mask) = &self.mask else {
            return picture;
        };
        let size = [picture.width, picture.height];
        if self.cover.as_ref().is_none_or(|cover| cover.size() != size) {
            self.cover = None;
        }
        let cover = self
            .cover
            .get_or_insert_with(|| Cover::new(&mask.regions, size));
        cover.mask(&picture, mask.fill)
    }
}

/// Describes a mask for the status of its source.
pub(super) fn describe(mask: &PrivacyMask) -> PrivacyStatus {
    PrivacyStatus {
        regions: mask.regions.len(),
        covered: (Cover::new(&mask.regions, STATUS_SIZE).share() * 1e3).round() / 1e3,
        fill: mask.fill,
        classes: mask.classes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::id::SourceId;
    use watchkeeper_contract::privacy::MaskFill;

    use super::*;
    use crate::capture::feed::testing::grey;

    fn upper_half() -> Arc<PrivacyMask> {
        Arc::new(PrivacyMask {
            source: SourceId::new("gate").expect("a name"),
            uri: "rtsp://camera".to_owned(),
            regions: vec![vec![[0.0, 0.0], [1.0, 0.0], [1.0, 0.5], [0.0, 0.5]]],
            fill: MaskFill::Black,
            classes: Vec::new(),
        })
    }

    #[test]
    fn mask_follows_a_change_of_the_picture_size() {
        let mut masker = Masker::new(Some(upper_half()));
        for side in [40, 80, 40] {
            let masked = masker.mask(grey(side, side, 200).into());
            let pixels = masked.planes.plane(0).data.to_vec();
            let (above, below) = pixels.split_at(pixels.len() / 2);
            assert!(above.iter().all(|value| *value == 0));
            assert!(below.ends_with(&[200; 3]));
        }
    }

    #[test]
    fn source_without_regions_shares_the_decoders_picture() {
        let none = PrivacyMask {
            regions: Vec::new(),
            ..(*upper_half()).clone()
        };
        for mask in [None, Some(Arc::new(none))] {
            let picture = grey(8, 8, 9);
            let planes = Arc::clone(&picture.planes);
            let passed = Masker::new(mask).mask(picture.into());
            assert!(Arc::ptr_eq(&planes, &passed.planes));
        }
    }

    #[test]
    fn status_states_the_covered_part() {
        let status = describe(&upper_half());
        assert_eq!(status.regions, 1);
        assert!((status.covered - 0.5).abs() < 0.01, "{}", status.covered);
    }
}
