//! Privacy masks in words.

use watchkeeper_assistant::wording::counted;
use watchkeeper_contract::privacy::{MaskFill, PrivacyStatus};

/// Describes the mask of a camera: what is masked, and how.
pub(super) fn describe(mask: &PrivacyStatus) -> String {
    let fill = match mask.fill {
        MaskFill::Black => "black",
        MaskFill::Pixelate => "pixelated",
    };
    let covered = (mask.covered * 100.0).ceil();
    let regions = (mask.regions > 0).then(|| {
        let regions = counted(mask.regions, "region");
        format!("{regions}, {covered} % of the picture")
    });
    let classes = (!mask.classes.is_empty()).then(|| format!("each {}", mask.classes.join(", ")));
    let parts: Vec<String> = regions.into_iter().chain(classes).collect();
    format!("privacy mask: {}; {fill}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_is_described_by_regions_part_and_classes() {
        let mut mask = PrivacyStatus {
            regions: 2,
            covered: 0.231,
            fill: MaskFill::Black,
            classes: Vec::new(),
        };
        let told = "privacy mask: 2 regions, 24 % of the picture; black";
        assert_eq!(describe(&mask), told);
        mask.fill = MaskFill::Pixelate;
        mask.classes = vec!["person".to_owned(), "car".to_owned()];
        mask.regions = 0;
        let told = "privacy mask: each person, car; pixelated";
        assert_eq!(describe(&mask), told);
    }
}
