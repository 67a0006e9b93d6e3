//! The privacy mask of classes, on the pictures that leave a pipeline.
//!
//! - Models see the whole frame. Everything else gets the picture made here.
//! - A frame in which some class was not looked for leaves black.

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::pipeline::{PipelineWarning, WarningKind};
use watchkeeper_contract::privacy::{MaskFill, PrivacyMask};
use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::privacy::Cover;
use watchkeeper_vision::privacy::objects::{ObjectBoxes, whole_picture};

/// The masked classes of one pipeline, and their last boxes.
#[derive(Debug)]
pub(super) struct ClassMask {
    mask: Arc<PrivacyMask>,
    boxes: ObjectBoxes,
}

impl ClassMask {
    pub(super) fn new(mask: Arc<PrivacyMask>) -> Self {
        Self {
            mask,
            boxes: ObjectBoxes::default(),
        }
    }

    /// Masks the objects of a picture at source time `at`; `None` stands for boxes that are not
    /// known.
    pub(super) fn apply(
        &mut self,
        picture: &Picture,
        found: Option<&[BBox]>,
        at: Duration,
    ) -> Picture {
        let size = [picture.width, picture.height];
        match found {
            Some(found) => {
                let regions = self.boxes.regions(at, found, size);
                Cover::new(&regions, size).mask(picture, self.mask.fill)
            }
            None => Cover::new(&[whole_picture()], size).mask(picture, MaskFill::Black),
        }
    }

    /// The warning while frames leave black.
    pub(super) fn warning(&self) -> PipelineWarning {
        PipelineWarning {
            kind: WarningKind::PrivacyMask,
            message: format!(
                "its pictures are black: the privacy mask of camera {} hides {}, and not every \
                 class is looked for in the whole frame; use a model that knows them",
                self.mask.source,
                self.mask.classes.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests;
