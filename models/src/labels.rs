//! Lists of names that several models share, of classes or of keypoints: one name a line in the
//! order of ids.
//!
//! A line `-` is an unused id; its label is empty.

use std::sync::Arc;

/// Names of class lists.
pub(crate) const CLASSES: [&str; 2] = ["coco-80", "coco-91"];
/// Names of keypoint lists.
pub(crate) const KEYPOINTS: [&str; 1] = ["coco-17"];

const LISTS: [(&str, &str); 3] = [
    // The 80 classes of COCO's detection task, without gaps.
    ("coco-80", include_str!("../labels/coco-80.txt")),
    // The same classes by COCO's own category ids, 0 to 90 with gaps.
    ("coco-91", include_str!("../labels/coco-91.txt")),
    // The 17 points of a person of COCO's keypoint task.
    ("coco-17", include_str!("../labels/coco-17.txt")),
];

/// COCO's classes of things that move by themselves: its supercategories person, vehicle and animal
/// (Lin et al., "Microsoft COCO: Common Objects in Context", 2014). The other 61 are furniture,
/// food and carried things.
pub const MOVING: [&str; 19] = [
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
];

/// Returns the shared list of this name.
pub fn list(name: &str) -> Option<Arc<[Arc<str>]>> {
    LISTS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| {
            text.lines()
                .map(|line| Arc::from(if line == "-" { "" } else { line }))
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_coco_lists_name_the_same_eighty_classes() {
        let dense = list("coco-80").expect("a shared list");
        let sparse = list("coco-91").expect("a shared list");
        assert_eq!((dense.len(), sparse.len()), (80, 91));
        let used: Vec<_> = sparse.iter().filter(|l| !l.is_empty()).collect();
        assert!(used.into_iter().eq(dense.iter()));
        assert_eq!(&*dense[0], "person");
        assert_eq!(&*sparse[90], "toothbrush");
    }

    #[test]
    fn every_list_that_is_named_is_there() {
        for name in CLASSES.iter().chain(&KEYPOINTS) {
            assert!(list(name).is_some(), "{name}");
        }
        assert_eq!(list("coco-17").expect("a shared list").len(), 17);
    }

    #[test]
    fn what_moves_is_among_the_classes_of_coco() {
        let dense = list("coco-80").expect("a shared list");
        for class in MOVING {
            assert!(dense.iter().any(|label| **label == *class), "{class}");
        }
    }
}
