//! Problems that do not stop a run.
//!
//! - Warnings about the picture follow its size: a camera may come back with another one.

use watchkeeper_contract::pipeline::{PipelineWarning, WarningKind};
use watchkeeper_engine::deploy;

use super::Run;

/// Kinds of warnings about lines and zones.
const OF_SIZE: [WarningKind; 2] = [
    WarningKind::OutsidePicture,
    WarningKind::PartlyOutsidePicture,
];

impl Run {
    /// Settings that have no effect; those that depend on the picture are known from the first
    /// frame on.
    pub fn warnings(&self) -> &[PipelineWarning] {
        &self.warnings
    }

    /// Replaces the warnings of these kinds.
    pub(super) fn replace_warnings(
        &mut self,
        kinds: &[WarningKind],
        by: impl IntoIterator<Item = PipelineWarning>,
    ) {
        self.warnings
            .retain(|warning| !kinds.contains(&warning.kind));
        self.warnings.extend(by);
    }

    /// Compares lines and zones with the size of a picture, unless the one before had it.
    pub(super) fn check_size(&mut self, size: [u32; 2]) {
        if self.size.replace(size) != Some(size) {
            let outside = deploy::outside(&self.overlays, size);
            self.replace_warnings(&OF_SIZE, outside);
        }
    }
}
