//! Requests in plain English, planned, run and checked on the files that result.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod scene;

use watchkeeper_jobs::KnownNames;
use watchkeeper_jobs::plan::repair;
use watchkeeper_jobs::planner;
use watchkeeper_jobs::run::{Ended, Jobs, Runner};
use watchkeeper_jobs::tools::picture_tools;

use scene::{REQUESTS, agrees, album, expected, now, write_scene};

/// Requests of owners who had not seen the forty.
const OTHERS: [(&str, &str); 10] = [
    (
        "remove all the near duplicates from FOLDER",
        "a b c e f g h i n",
    ),
    (
        "pick the best photo of each burst in FOLDER and put them into an album",
        "a b c e f g h i n",
    ),
    (
        "group FOLDER by day and make an album of the best one of each day",
        "2026-03-01/* 2026-03-02/f 2026-04-03/h no day/n",
    ),
    (
        "the 4 best photos in FOLDER by month",
        "2026-03/a 2026-03/c 2026-03/f 2026-04/h",
    ),
    (
        "the 2 newest photos in FOLDER per month",
        "2026-03/f 2026-03/g 2026-04/h 2026-04/i no month/n",
    ),
    (
        "FOLDER by year, the best photo of each year",
        "2026/* no year/n",
    ),
    ("the last 3 pictures in FOLDER", "i h g"),
    (
        "pictures in FOLDER between 2 March 2026 and 2 April 2026, grouped by camera",
        "gate/e gate/f yard/g",
    ),
    (
        "keep one photo per burst of FOLDER in a folder called album",
        "a b c e f g h i n",
    ),
    (
        "the sharpest picture of camera yard in FOLDER before 2026-04-01",
        "c",
    ),
];

/// Requests that must be refused whole: a part of them is not understood.
const REFUSED: [&str; 12] = [
    "delete the blurred pictures in FOLDER",
    "upload FOLDER to the cloud",
    "organise FOLDER by mood",
    "the best picture",
    "organise FOLDER and FOLDER2 by day",
    "find all dogs in FOLDER",
    "rename the photos in FOLDER",
    "move FOLDER by day",
    "delete yesterday's events by camera",
    "stop the cameras of today by day",
    "copy yesterday's photos to FOLDER",
    "put the 10 best pictures of yesterday into FOLDER",
];

#[test]
fn requests_make_the_right_files() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    write_scene(&photos);
    let tools = picture_tools();
    let jobs = Jobs::new(dir.path().join("jobs"));
    let runner = Runner::new(tools.clone(), jobs.clone());
    let mut wrong = Vec::new();
    for (n, (request, names)) in REQUESTS.into_iter().chain(OTHERS).enumerate() {
        let words = request.replace("FOLDER", &photos.display().to_string());
        let plan = match planner::plan(&words, now(), &KnownNames::default()) {
            Ok(plan) => repair(plan, &tools).unwrap(),
            Err(error) => {
                wrong.push(format!("{request}: {error}"));
                continue;
            }
        };
        assert_eq!(plan.changes, Vec::new(), "{request}");
        let output = dir.path().join(n.to_string());
        let job = jobs.create(&plan.plan, request, Some(&output)).unwrap();
        let ended = runner.run(&job, &mut |_| {}, &|| false).unwrap();
        if names.is_empty() {
            // Nothing to show is no failure, and no empty page.
            assert_eq!(ended, Ended::Done, "{request}");
            assert!(!output.join("album").exists(), "{request}");
            continue;
        }
        assert_eq!(ended, Ended::Done, "{request}: {:?}", job.log());
        let found = album(&output.join("album"));
        if !agrees(&found, &expected(names)) {
            wrong.push(format!("{request}: {found:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn request_that_is_not_understood_whole_is_refused() {
    for request in REFUSED {
        let words = request.replace("FOLDER", "/srv/photos");
        assert!(
            planner::plan(&words, now(), &KnownNames::default()).is_err(),
            "{request}"
        );
    }
}
