//! Root folders and readings of boards for tests.

use std::time::Duration;

use tempfile::TempDir;

use crate::reading::{Load, Power, Reading, Sensed, Temperature, Throttling};
use crate::units::{Celsius, Milliwatts, Percent};

/// A reading at `at` of a board. It is 40 °C warm and takes 5 W without load. At a load of 100
/// percent it is 50 °C warm and takes 15 W.
pub(crate) fn reading(at: Duration, load: f64) -> Reading {
    Reading {
        at,
        temperatures: vec![Temperature {
            name: "cpu-thermal".into(),
            sensed: Sensed::Value(Celsius(40.0 + load / 10.0)),
            throttles_at: None,
            critical_at: None,
        }],
        throttling: Throttling {
            thermal: Some(false),
            ..Throttling::default()
        },
        power: Power {
            total: Some(Milliwatts(5_000.0 + load * 100.0)),
            ..Power::default()
        },
        load: Load {
            cpu: Some(Percent(load)),
            ..Load::default()
        },
        ..Reading::default()
    }
}

/// A root folder with these files.
pub(crate) fn board(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (path, text) in files {
        write(&root, path, text);
    }
    root
}

/// Writes a file below the root folder of a board.
pub(crate) fn write(root: &TempDir, path: &str, text: &str) {
    let path = root.path().join(path);
    std::fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

/// Unpacks the tree of this name in `tests/trees`: a line `path=text` for each file, `#` for
/// comments; `\0` and `\n` are escapes.
pub(crate) fn tree(name: &str) -> TempDir {
    let path = format!("{}/tests/trees/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let tree = std::fs::read_to_string(path).expect("a tree of this name");
    let root = tempfile::tempdir().expect("a temporary folder");
    for line in tree.lines().filter(|line| !line.starts_with('#')) {
        if let Some((path, text)) = line.split_once('=') {
            write(&root, path, &text.replace("\\0", "\0").replace("\\n", "\n"));
        }
    }
    root
}
