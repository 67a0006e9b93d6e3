//! Tools on files that are drawn here, also on those that can't be read.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::picture_tools;
use crate::tool::{Context, Gauge, ToolError, ToolOutput};

/// A sharp picture, a blurred one, and one whose file ends early, each with a camera.
fn pictures(folder: &Path) -> Vec<Value> {
    let save = |name: &str, step: u32| {
        let cell = |x: u32, y: u32| {
            if (x / step + y / step).is_multiple_of(2) {
                60
            } else {
                190
            }
        };
        let picture = image::GrayImage::from_fn(128, 128, |x, y| image::Luma([cell(x, y)]));
        picture.save(folder.join(name)).unwrap();
    };
    save("sharp.png", 2);
    save("flat.png", 200);
    save("torn.png", 2);
    let torn = folder.join("torn.png");
    let whole = fs::read(&torn).unwrap();
    fs::write(&torn, &whole[..whole.len() / 2]).unwrap();
    ["torn", "flat", "sharp"]
        .map(|name| {
            let file = folder.join(name).with_extension("png");
            let camera = if name == "torn" { "gate" } else { "yard" };
            json!({"file": file, "width": 128, "height": 128, "camera": camera})
        })
        .to_vec()
}

fn run(tool: &str, params: Value) -> Result<ToolOutput, ToolError> {
    let folder = tempfile::tempdir().unwrap();
    run_in(&folder.path().join("seen.jsonl"), tool, params)
}

/// Runs a tool in a job whose answers are in the file `seen`.
fn run_in(seen: &Path, tool: &str, params: Value) -> Result<ToolOutput, ToolError> {
    let gauge = Gauge::default();
    let context = Context {
        step: "test",
        output: Path::new(""),
        seen,
        claim: &|_| Ok(()),
        deadline: Instant::now() + Duration::from_secs(60),
        is_cancelled: &|| false,
        gauge: &gauge,
        is_revisable: false,
    };
    let params: Map<String, Value> = serde_json::from_value(params).unwrap();
    picture_tools().get(tool).unwrap().run(params, &context)
}

/// The stems of the pictures' files.
fn names(pictures: &Value) -> Vec<String> {
    let files = pictures.as_array().unwrap().iter();
    let files = files.map(|picture| PathBuf::from(picture["file"].as_str().unwrap()));
    files
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn listing_reads_webp_and_counts_files_of_other_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let picture = image::GrayImage::new(8, 8);
    picture.save(folder.path().join("a.webp")).unwrap();
    for name in ["b.tiff", "notes"] {
        std::fs::write(folder.path().join(name), b"").unwrap();
    }
    let listed = run("list_pictures", json!({"folder": folder.path()})).unwrap();
    assert_eq!(names(&listed.values["pictures"]), ["a"]);
    let said = listed.summary;
    assert!(
        said.contains("; 2 files of another kind left out, such as "),
        "{said}"
    );
}

#[test]
fn unreadable_picture_stays_last_in_an_order() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = pictures(folder.path());
    for (tool, params) in [
        ("rank", json!({"pictures": pictures, "by": "sharpness"})),
        (
            "select_best",
            json!({"from": pictures, "count": 3, "by": "sharpness"}),
        ),
    ] {
        let ranked = run(tool, params).unwrap();
        assert_eq!(names(&ranked.values["pictures"]), ["sharp", "flat", "torn"]);
        assert!(ranked.summary.contains("1 can't be read"), "{ranked:?}");
    }
}

#[test]
fn resumed_job_measures_no_picture_again() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen.jsonl");
    let pictures = json!({"pictures": pictures(folder.path())});
    let measured = run_in(&seen, "measure_quality", pictures.clone()).unwrap();
    assert_eq!(measured.values["count"], 2);
    let file = folder.path().join("sharp.png");
    let about = fs::metadata(&file).unwrap();
    // Another content of the same length and time: a tool that reads the file fails.
    let length = usize::try_from(about.len()).unwrap();
    fs::write(&file, vec![0; length]).unwrap();
    let opened = fs::File::options().write(true).open(&file).unwrap();
    opened.set_modified(about.modified().unwrap()).unwrap();
    let resumed = run_in(&seen, "measure_quality", pictures.clone()).unwrap();
    assert_eq!(resumed.values, measured.values);
    let new = run("measure_quality", pictures).unwrap();
    assert_eq!(new.values["count"], 1);
}

#[test]
fn unreadable_picture_is_in_the_group_without_a_sharpness() {
    let folder = tempfile::tempdir().unwrap();
    let grouped = json!({"pictures": pictures(folder.path()), "by": "sharpness"});
    let grouped = run("group", grouped).unwrap();
    let last = grouped.values["groups"].as_array().unwrap().last().unwrap();
    assert_eq!(last["name"], "no sharpness");
    assert_eq!(names(&last["pictures"]), ["torn"]);
}

#[test]
fn unreadable_picture_matches_condition_of_unknown_score() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = pictures(folder.path());
    let torn = &pictures[..1];
    for (pictures, condition, expected) in [
        (&pictures[..], "sharpness is unknown", vec!["torn"]),
        (torn, "sharpness is unknown", vec!["torn"]),
        (&pictures[..], "sharpness is known", vec!["flat", "sharp"]),
    ] {
        let kept = run(
            "filter",
            json!({"pictures": pictures, "where": [condition]}),
        )
        .unwrap();
        assert_eq!(names(&kept.values["pictures"]), expected);
        assert!(kept.summary.contains("1 can't be read"), "{kept:?}");
    }
}

#[test]
fn picture_that_another_condition_leaves_out_is_not_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let filter = json!({"pictures": pictures(folder.path()), "camera": "yard",
        "where": ["sharpness is known"]});
    let kept = run("filter", filter).unwrap();
    assert_eq!(names(&kept.values["pictures"]), ["flat", "sharp"]);
    assert!(!kept.summary.contains("can't be read"), "{kept:?}");
}

#[test]
fn step_fails_if_no_picture_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = pictures(folder.path());
    let torn = &pictures[..1];
    for (tool, params) in [
        ("rank", json!({"pictures": torn})),
        ("group", json!({"pictures": torn, "by": "sharpness"})),
        ("filter", json!({"pictures": torn, "min_sharpness": 0.1})),
    ] {
        let failed = run(tool, params).unwrap_err();
        assert!(
            failed.to_string().contains("no picture can be read"),
            "{tool}"
        );
    }
}

#[test]
fn known_scores_are_kept_beside_measured_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut pictures = pictures(folder.path());
    let scores = json!({"sharpness": 1.0, "exposure": 1.0, "contrast": 1.0, "noise": 1.0,
        "overall": 1.0});
    pictures[0]["scores"] = scores.clone();
    let ranked = run("rank", json!({"pictures": pictures})).unwrap();
    assert_eq!(names(&ranked.values["pictures"])[0], "torn");
    assert_eq!(ranked.values["pictures"][0]["scores"], scores);
}

#[test]
fn link_in_a_listed_folder_is_named_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path());
    let elsewhere = tempfile::tempdir().unwrap();
    pictures(elsewhere.path());
    let target = elsewhere.path().join("flat.png");
    std::os::unix::fs::symlink(target, dir.path().join("link.png")).unwrap();
    let done = run("list_pictures", json!({"folder": dir.path()})).unwrap();
    assert!(!names(&done.values["pictures"]).contains(&"link".to_owned()));
    let summary = &done.summary;
    assert!(
        summary.contains("link.png: it is a symbolic link"),
        "{summary}"
    );
}

#[test]
fn bar_code_divides_and_names_a_group() {
    let dir = tempfile::tempdir().unwrap();
    let all = pictures(dir.path());
    // EAN-13.
    let bars = b"10100010110100111011001100100110111101001110101010\
                 110011011011001000010101110010011101000100101";
    let coded = dir.path().join("coded.png");
    let picture = image::GrayImage::from_fn(460, 160, |x, _| {
        let bar = x.checked_sub(40).and_then(|x| bars.get(x as usize / 4));
        image::Luma([if bar == Some(&b'1') { 0 } else { 255 }])
    });
    picture.save(&coded).unwrap();
    let of_code = json!({"file": coded, "width": 460, "height": 160});
    let read = run("read_codes", json!({"pictures": [all[1], of_code]})).unwrap();
    assert_eq!(names(&read.values["pictures"]), ["coded"]);
    assert_eq!(names(&read.values["others"]), ["flat"]);
    let grouped = run(
        "group",
        json!({"pictures": read.values["all"], "by": "code"}),
    )
    .unwrap();
    let groups = grouped.values["groups"].as_array().unwrap();
    assert_eq!(groups[0]["name"], "5901234123457");
    assert_eq!(groups[1]["name"], "no code");
}

#[test]
fn exact_duplicates_have_equal_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = pictures(dir.path());
    fs::copy(dir.path().join("flat.png"), dir.path().join("flat2.png")).unwrap();
    all.push(json!({"file": dir.path().join("flat2.png"), "width": 128, "height": 128}));
    let found = run("find_duplicates", json!({"pictures": all, "exact": true})).unwrap();
    assert_eq!(names(&found.values["pictures"]), ["torn", "flat", "sharp"]);
    assert_eq!(
        names(&found.values["groups"][0]["pictures"]),
        ["flat", "flat2"]
    );
}

#[test]
fn total_keeps_the_first_of_all_groups_in_their_groups() {
    let dir = tempfile::tempdir().unwrap();
    let [_, flat, sharp] = pictures(dir.path()).try_into().unwrap();
    let group = |name: &str, of: &[Value]| json!({"name": name, "why": "", "pictures": of});
    let groups = [group("a", &[flat]), group("b", &[sharp])];
    let best = json!({"from": groups, "count": 1, "total": 1, "by": "blurriest"});
    let kept = run("select_best", best).unwrap();
    assert_eq!(kept.values["groups"].as_array().unwrap().len(), 1);
    assert_eq!(names(&kept.values["pictures"]), ["flat"]);
}

#[test]
fn listing_of_a_picture_has_that_picture() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path());
    let flat = dir.path().join("flat.png");
    let one = run("list_pictures", json!({"folder": flat})).unwrap();
    assert_eq!(names(&one.values["pictures"]), ["flat"]);
}
