//! Photos whose bursts, blur and orientation are known (`photos/groups.tsv` of `WATCHKEEPER_DATA`).

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use watchkeeper_pictures::duplicates::{Look, sets};
use watchkeeper_pictures::scores::SHARP;
use watchkeeper_pictures::{Measurer, Picture};

/// A photo: its path below the folder, and its group and kind.
type Photo = (String, String, String);

/// The folder of photos, and what is known of each; `None` if it is not there.
fn photos() -> Option<(PathBuf, Vec<Photo>)> {
    let root = std::env::var_os("WATCHKEEPER_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let root = root.join("photos");
    let Ok(table) = std::fs::read_to_string(root.join("groups.tsv")) else {
        eprintln!(
            "SKIPPED: photos (none at {}; set WATCHKEEPER_DATA)",
            root.display()
        );
        return None;
    };
    let photo = |line: &str| {
        let mut columns = line.split('\t').map(str::to_owned);
        Some((columns.next()?, columns.next()?, columns.next()?))
    };
    let photos = table.lines().skip(1).filter_map(photo).collect();
    Some((root, photos))
}

/// Whether two photos of one group are of one moment, or copies.
fn are_duplicates((_, group, kind): &Photo, (_, other, other_kind): &Photo) -> bool {
    let is_copy = |kind: &str| kind == "original" || kind.starts_with("derived");
    let is_burst = kind == "burst" && other_kind == "burst";
    group == other && (is_burst || is_copy(kind) && is_copy(other_kind))
}

#[test]
fn bursts_and_copies_are_sets_and_other_photos_are_not() {
    let Some((root, photos)) = photos() else {
        return;
    };
    let measurer = Measurer::default();
    let look = |photo: &Photo| Look {
        measured: measurer.measure(&root.join(&photo.0)).unwrap(),
        taken: None,
        camera: None,
    };
    let looks: Vec<Look> = photos.iter().map(look).collect();
    let sets = sets(&looks, 10.0, || Ok::<(), Infallible>(())).unwrap();
    let (mut found, mut missed, mut wrong) = (0, Vec::new(), Vec::new());
    for (n, a) in photos.iter().enumerate() {
        for (m, b) in photos.iter().enumerate().skip(n + 1) {
            match (are_duplicates(a, b), sets[n] == sets[m]) {
                (true, true) => found += 1,
                (true, false) => missed.push((&a.0, &b.0)),
                // A blurred shot and a sharp one of one scene may be either.
                (false, true) if a.1 != b.1 => wrong.push((&a.0, &b.0)),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(missed.len() * 20 <= found, "{found} found, not {missed:?}");
    let is_of_burst = |pair: &&(&String, &String)| pair.0.starts_with("bursts");
    assert!(missed.iter().filter(is_of_burst).count() <= 1, "{missed:?}");
}

#[test]
fn one_bound_parts_blurred_photos_from_sharp_ones() {
    let Some((root, photos)) = photos() else {
        return;
    };
    let measurer = Measurer::default();
    let mut numbers = [0, 0];
    for (file, _, kind) in &photos {
        let is_sharp = match kind.as_str() {
            "blur-triplet" => file.contains("/sharp/"),
            "burst" | "same-scene" => true,
            _ => continue,
        };
        let sharpness = measurer.measure(&root.join(file)).unwrap().scores.sharpness;
        assert_eq!(sharpness >= SHARP, is_sharp, "{file}: {sharpness}");
        numbers[usize::from(is_sharp)] += 1;
    }
    assert!(numbers[0] >= 8 && numbers[1] >= 28, "{numbers:?}");
}

#[test]
fn orientations_0_to_8_are_one_picture() {
    let Some((root, _)) = photos() else { return };
    let files = (0..9).map(|n| root.join(format!("orientation/Landscape_{n}.jpg")));
    let files: Vec<PathBuf> = files.collect();
    let size = |file: &PathBuf| {
        let picture = Picture::read(file).unwrap();
        (picture.width, picture.height)
    };
    assert!(files.iter().all(|file| size(file) == (1800, 1200)));
    let measurer = Measurer::default();
    let look = |file: &PathBuf| Look {
        measured: measurer.measure(file).unwrap(),
        taken: None,
        camera: None,
    };
    let looks: Vec<Look> = files.iter().map(look).collect();
    assert_eq!(
        sets(&looks, 10.0, || Ok::<(), Infallible>(())),
        Ok(vec![0; 9])
    );
}
