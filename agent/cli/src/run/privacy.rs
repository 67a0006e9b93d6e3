//! The privacy mask of a run: regions of the flags, and the mask that the box's configuration has
//! for the same camera.

use watchkeeper_assistant::wording::counted;
use watchkeeper_config::{Config, PrivacyMasks};
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::privacy::{MAX_REGIONS, MaskFill, PrivacyMask, Region};

use crate::exit::Failure;

pub(super) const SOURCE: &str = "source";

/// Returns the mask for the source at `uri`. Regions of the flags are black, and so are then those
/// of the configuration.
///
/// # Errors
/// More than [`MAX_REGIONS`] regions.
pub(super) fn mask(
    regions: &[Region],
    config: &Config,
    uri: &str,
) -> Result<Option<PrivacyMask>, Failure> {
    let masks = PrivacyMasks::new(config);
    let configured = masks.at(uri);
    if regions.is_empty() && configured.is_none() {
        return Ok(None);
    }
    let mut all = configured.map_or_else(Vec::new, |mask| mask.regions.clone());
    all.extend_from_slice(regions);
    if all.len() > MAX_REGIONS {
        let sentence = format!("a mask has at most {MAX_REGIONS} regions; leave out some --mask");
        return Err(Failure::input(sentence));
    }
    Ok(Some(PrivacyMask {
        source: SourceId::new(SOURCE).map_err(|e| Failure::failed(e.to_string()))?,
        uri: uri.to_owned(),
        regions: all,
        fill: configured
            .filter(|_| regions.is_empty())
            .map_or(MaskFill::Black, |mask| mask.fill),
        classes: configured.map_or_else(Vec::new, |mask| mask.classes.clone()),
    }))
}

pub(super) fn describe(mask: &PrivacyMask) -> String {
    let mut parts = Vec::new();
    if !mask.regions.is_empty() {
        let regions = counted(mask.regions.len(), "region");
        parts.push(format!(
            "{regions} masked before anything else sees a frame"
        ));
    }
    if !mask.classes.is_empty() {
        let classes = mask.classes.join(", ");
        parts.push(format!("{classes} masked in each picture that leaves"));
    }
    format!("privacy mask: {}", parts.join("; "))
}
