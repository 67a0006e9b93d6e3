//! Requests in plain English, planned, run and checked on the files that result.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod scene;
mod trip;

use std::collections::BTreeSet;
use std::path::Path;

use watchkeeper_jobs::plan::repair;
use watchkeeper_jobs::planner;
use watchkeeper_jobs::run::{Ended, Jobs, Runner};
use watchkeeper_jobs::tools::picture_tools;
use watchkeeper_jobs::{KnownNames, Toolbox};

use scene::{REQUESTS, agrees, album, expected, now, write_scene};
use trip::tools::tools_of_trip;

/// Requests of owners who had not seen the forty.
const OTHERS: [(&str, &str); 18] = [
    ("find the duplicates in FOLDER", "c.jpg/c c.jpg/c2"),
    (
        "the first and the last photo of each day in FOLDER",
        "2026-03-01/a 2026-03-01/c2 2026-03-02/e 2026-03-02/g 2026-04-03/h 2026-04-03/i no day/n",
    ),
    ("the newest 20 % of FOLDER", "h i"),
    ("photos in FOLDER whose name starts with c or g", "c c2 g"),
    ("blurred or too dark photos of FOLDER", "e i"),
    ("everything in FOLDER between 7 and 9 o'clock", "a b h i"),
    ("which pictures in FOLDER are blurred", "e i"),
    (
        "the blurred ones of FOLDER apart, without duplicates",
        "blurred/e blurred/i sharp/a sharp/b sharp/c sharp/f sharp/g sharp/h sharp/n",
    ),
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
const REFUSED: [&str; 11] = [
    "delete the blurred pictures in FOLDER",
    "upload FOLDER to the cloud",
    "organise FOLDER by mood",
    "the best picture",
    "find all dogs in FOLDER",
    "rename the photos in FOLDER",
    "move FOLDER by day",
    "delete yesterday's events by camera",
    "stop the cameras of today by day",
    "copy yesterday's photos to FOLDER",
    "put the 10 best pictures of yesterday into FOLDER",
];

/// Plans, runs and checks requests; returns those whose files are wrong, and why.
fn wrong<'r>(
    requests: impl IntoIterator<Item = (&'r str, BTreeSet<String>)>,
    photos: &Path,
    tools: &Toolbox,
) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let jobs = Jobs::new(dir.path().join("jobs"));
    let runner = Runner::new(tools.clone(), jobs.clone());
    let mut wrong = Vec::new();
    for (n, (request, names)) in requests.into_iter().enumerate() {
        let words = request.replace("FOLDER", &photos.display().to_string());
        let plan = match planner::plan(&words, now(), &tools.names().unwrap_or_default()) {
            Ok(plan) => repair(plan, tools).unwrap(),
            Err(error) => {
                wrong.push(format!("{request}: {error}"));
                continue;
            }
        };
        assert_eq!(plan.changes, Vec::new(), "{request}");
        let output = dir.path().join(n.to_string());
        let job = jobs.create(&plan.plan, request, Some(&output)).unwrap();
        let ended = runner.run(&job, &mut |_| {}, &|| false).unwrap();
        assert_eq!(ended, Ended::Done, "{request}: {:?}", job.log());
        if names.is_empty() {
            // An empty result is not a failure and makes no empty page.
            assert!(!output.join("album").exists(), "{request}");
            continue;
        }
        let found = album(&output.join("album"));
        if !agrees(&found, &names) {
            wrong.push(format!("{request}: {found:?}"));
        }
    }
    wrong
}

#[test]
fn requests_make_the_right_files() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    write_scene(&photos);
    let requests = REQUESTS.into_iter().chain(OTHERS);
    let requests = requests.map(|(request, names)| (request, expected(names)));
    assert_eq!(wrong(requests, &photos, &picture_tools()), [""; 0]);
}

#[test]
fn folders_of_a_folder_are_groups_and_conditions() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    write_scene(&photos.join("bay-1"));
    write_scene(&photos.join("bay-2"));
    let requests = [
        ("the newest photo of each bay in FOLDER", "bay-1/i bay-2/i"),
        (
            "photos of folder bay-1 in FOLDER taken before 2 March 2026",
            "a b c c2",
        ),
        (
            "FOLDER except folder bay-2, the last photo per camera",
            "gate/f yard/i no camera/n",
        ),
    ];
    let requests = requests.map(|(request, names)| (request, expected(names)));
    assert_eq!(wrong(requests, &photos, &picture_tools()), [""; 0]);
}

#[test]
fn conditions_of_photographers_keep_the_right_files() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("trip");
    trip::write_trip(&photos);
    let requests = trip::REQUESTS.into_iter();
    let requests = requests.map(|(request, names)| (request, trip::expected(names)));
    let tools = tools_of_trip(photos.clone());
    assert_eq!(wrong(requests, &photos, &tools), [""; 0]);
}

#[test]
fn request_that_is_not_understood_whole_is_refused() {
    let of_trip = tools_of_trip("/srv/trip".into()).names().unwrap();
    let refused = REFUSED.map(|request| (request, KnownNames::default()));
    let of_trip = trip::REFUSED.map(|request| (request, of_trip.clone()));
    for (request, names) in refused.into_iter().chain(of_trip) {
        let words = request.replace("FOLDER", "/srv/photos");
        let planned = planner::plan(&words, now(), &names);
        assert!(planned.is_err(), "{request}: {planned:?}");
    }
}
