//! Sets as files: restarts, killed runs, bounds.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use watchkeeper_contract::time::TimeQuality;

use super::*;

fn png(shade: u8) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let picture = RgbImage::from_pixel(8, 8, Rgb([shade; 3]));
    DynamicImage::ImageRgb8(picture)
        .write_to(&mut bytes, ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

fn new(file: &str, unix_ms: i64) -> ReferencePicture {
    ReferencePicture {
        file: file.to_owned(),
        sha256: String::new(),
        bytes: 0,
        added: Wall {
            unix_ms,
            quality: TimeQuality::Synced,
        },
        event: None,
        vector: None,
    }
}

/// An audit log that always has room.
fn recorded<T: ?Sized>(_: &T) -> io::Result<()> {
    Ok(())
}

fn vector(model: &str) -> StoredVector {
    StoredVector {
        model: model.to_owned(),
        digest: "d".to_owned(),
        vector: vec![0.6, 0.8],
    }
}

#[test]
fn sets_survive_a_restart_with_their_vectors() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(FOLDER);
    let store = ReferenceStore::open(folder.clone()).unwrap();
    let first = store
        .add("truck", &png(1), new("a.png", 2), recorded)
        .unwrap();
    let second = store
        .add("truck", &png(2), new("b.png", 1), recorded)
        .unwrap();
    let again = store
        .add("truck", &png(1), new("c.png", 3), recorded)
        .unwrap();
    assert_eq!(again, first, "the same picture is in the set once");
    store
        .save_vector("truck", &first.sha256, vector("m"))
        .unwrap();
    let store = ReferenceStore::open(folder.clone()).unwrap();
    let files = |store: &ReferenceStore| -> Vec<String> {
        let pictures = store.set("truck").unwrap();
        pictures
            .iter()
            .map(|picture| picture.file.clone())
            .collect()
    };
    assert_eq!(files(&store), ["b.png", "a.png"]);
    assert_eq!(store.set("truck").unwrap()[1].vector, Some(vector("m")));
    assert_eq!(store.content("truck", &first.sha256).unwrap(), png(1));
    assert_eq!(store.remove("truck", Some("a.png"), recorded).unwrap(), 1);
    assert_eq!(
        store
            .remove("truck", Some(&second.sha256[..8]), recorded)
            .unwrap(),
        1
    );
    let why = store.set("truck").unwrap_err().to_string();
    assert!(why.contains("watchkeeper reference add"), "{why}");
    assert!(!folder.join("truck").exists());
}

/// What a power cut or `kill -9` leaves at each moment of adding the first picture of a set.
#[test]
fn killed_addition_leaves_nothing_after_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("truck");
    let moments: [&[&str]; 4] = [
        &[],
        &[".00.img.tmp"],
        &["00.img"],
        &["00.img", ".00.json.tmp"],
    ];
    for left in moments {
        fs::create_dir_all(&folder).unwrap();
        for name in left {
            fs::write(folder.join(name), b"{").unwrap();
        }
        let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
        assert_eq!(store.sets(), Sets::new());
        assert!(!folder.exists(), "{left:?}");
    }
}

#[test]
fn opening_keeps_pictures_and_those_of_damaged_records() {
    let dir = tempfile::tempdir().unwrap();
    let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
    let added = store
        .add("truck", &png(1), new("a.png", 1), recorded)
        .unwrap();
    let folder = dir.path().join("truck");
    for (name, content) in [("00.img", "x"), ("11.img", "x"), ("11.json", "{")] {
        fs::write(folder.join(name), content).unwrap();
    }
    let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
    assert_eq!(store.set("truck").unwrap(), std::slice::from_ref(&added));
    assert_eq!(store.content("truck", &added.sha256).unwrap(), png(1));
    assert!(!folder.join("00.img").exists());
    assert!(folder.join("11.img").exists());
    store.remove("truck", None, recorded).unwrap();
    assert!(!folder.exists(), "a set that is removed leaves nothing");
}

#[test]
fn change_that_the_audit_log_lacks_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let refused = store.add("truck", &png(1), new("a.png", 1), |_| Err(full()));
    let why = refused.unwrap_err().to_string();
    assert!(why.starts_with("nothing was changed"), "{why}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    store
        .add("truck", &png(1), new("a.png", 1), recorded)
        .unwrap();
    let refused = store.remove("truck", None, |_| Err(full()));
    assert!(matches!(refused, Err(ReferenceError::Audit(_))));
    let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
    assert_eq!(store.set("truck").unwrap().len(), 1);
}

#[test]
fn embedding_that_is_too_long_is_refused_with_its_model() {
    let dir = tempfile::tempdir().unwrap();
    let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
    let added = store
        .add("truck", &png(1), new("a.png", 1), recorded)
        .unwrap();
    for numbers in [vec![], vec![0.5; MAX_NUMBERS + 1], vec![f32::NAN]] {
        let of = StoredVector {
            vector: numbers,
            ..vector("giant")
        };
        let why = store.save_vector("truck", &added.sha256, of).unwrap_err();
        assert!(why.to_string().contains("by giant has"), "{why}");
    }
    assert_eq!(store.set("truck").unwrap()[0].vector, None);
    store.save_vector("truck", "gone", vector("m")).unwrap();
}

#[test]
fn refusals_name_the_bound_and_the_picture() {
    let dir = tempfile::tempdir().unwrap();
    let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
    for (set, content, why) in [
        ("../up", png(1), "is not a valid name of a set"),
        ("truck", b"GIF89a".to_vec(), "neither JPEG, PNG nor WebP"),
        ("truck", Vec::new(), "is empty"),
    ] {
        let refused = store
            .add(set, &content, new("x", 1), recorded)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let added = store.add("truck", &png(1), new("x", 1), recorded).unwrap();
    let path = dir
        .path()
        .join("truck")
        .join(format!("{}.img", added.sha256));
    fs::write(&path, png(2)).unwrap();
    let damaged = store.content("truck", &added.sha256);
    assert!(
        matches!(damaged, Err(ReferenceError::Damaged(_))),
        "{damaged:?}"
    );
    for n in 2..=u8::try_from(MAX_PICTURES).unwrap() {
        store.add("truck", &png(n), new("x", 1), recorded).unwrap();
    }
    let full = store
        .add("truck", &png(255), new("x", 1), recorded)
        .unwrap_err();
    assert!(matches!(full, ReferenceError::TooManyPictures(_)), "{full}");
    let many = store.remove("truck", Some("x"), recorded).unwrap_err();
    assert!(matches!(many, ReferenceError::Ambiguous { .. }), "{many}");
}
