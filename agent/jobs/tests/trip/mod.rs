//! Pictures of a trip, requests of photographers about them, and the files that are right.

pub(crate) mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use image::{DynamicImage, RgbImage};

use crate::scene::{draw, jpeg, metadata};

/// A picture of the trip.
pub(crate) struct Shot {
    pub(crate) name: &'static str,
    /// As EXIF writes it; empty without EXIF, in a PNG file.
    taken: &'static str,
    camera: &'static str,
    has_place: bool,
    size: (u32, u32),
    /// Objects that the detector finds, each named once.
    pub(crate) objects: &'static str,
}

const fn shot(
    name: &'static str,
    taken: &'static str,
    camera: &'static str,
    has_place: bool,
    size: (u32, u32),
    objects: &'static str,
) -> Shot {
    Shot {
        name,
        taken,
        camera,
        has_place,
        size,
        objects,
    }
}

/// Pictures of the days before Friday, 15 May 2026, noon, the present of the tests. `y` is blurred.
pub(crate) const SHOTS: [Shot; 10] = [
    shot(
        "p",
        "2026:05:14 07:30:00",
        "gate",
        true,
        (640, 480),
        "person",
    ),
    shot(
        "q",
        "2026:05:14 14:10:00",
        "gate",
        true,
        (480, 640),
        "person person",
    ),
    shot("r", "2026:05:14 19:05:00", "yard", false, (640, 480), "dog"),
    shot(
        "s",
        "2026:05:14 20:30:00",
        "yard",
        true,
        (480, 480),
        "dog person",
    ),
    shot(
        "t",
        "2026:05:14 23:15:00",
        "gate",
        false,
        (640, 480),
        "car car car",
    ),
    shot(
        "u",
        "2026:05:10 10:00:00",
        "Canon EOS R5",
        true,
        (1600, 1200),
        "person person person person",
    ),
    shot(
        "v",
        "2026:05:09 16:20:00",
        "Canon EOS R5",
        false,
        (1200, 1600),
        "",
    ),
    shot("w", "2026:04:20 02:40:00", "gate", true, (640, 480), "car"),
    shot("x", "", "", false, (640, 480), "person car"),
    shot(
        "y",
        "2026:05:15 08:45:00",
        "yard",
        true,
        (640, 480),
        "dog dog",
    ),
];

/// Requests and the files of the album that they make, as `folder/name` or, without groups, `name`.
pub(crate) const REQUESTS: [(&str, &str); 73] = [
    ("landscape photos in FOLDER with people", "p, u, x"),
    ("photos in FOLDER taken in April", "w"),
    ("undated photos in FOLDER", "x"),
    ("the blurriest photo in FOLDER", "y"),
    (
        "the newest of each camera in FOLDER, 2 in total",
        "gate/t, yard/y",
    ),
    ("photos in FOLDER not from 2026", "x"),
    ("remove photos with cars from FOLDER", "p, q, r, s, u, v, y"),
    (
        "photos in FOLDER not by the Canon EOS R5",
        "p, q, r, s, t, w, x, y",
    ),
    (
        "photos in FOLDER except those taken with the canon, without GPS",
        "r, t, x",
    ),
    ("photos in FOLDER taken with the canon", "u, v"),
    ("list the photos in FOLDER without GPS", "r, t, v, x"),
    ("photos in FOLDER that have no location", "r, t, v, x"),
    (
        "FOLDER, only pictures with GPS data, by month",
        "2026-04/w, 2026-05/p, 2026-05/q, 2026-05/s, 2026-05/u, 2026-05/y",
    ),
    ("photos in FOLDER without a date", "x"),
    ("photos in FOLDER with at least two people", "q, u"),
    ("photos in FOLDER with exactly one person", "p, s, x"),
    ("photos in FOLDER with two or more dogs", "y"),
    ("photos in FOLDER with more than 2 cars", "t"),
    (
        "photos with at most one person in FOLDER",
        "p, r, s, t, v, w, x, y",
    ),
    (
        "photos with no more than one person in FOLDER",
        "p, r, s, t, v, w, x, y",
    ),
    ("photos with several people in FOLDER", "q, u"),
    ("photos in FOLDER with a dog but no people", "r, y"),
    ("photos in FOLDER with dogs but without people", "r, y"),
    ("photos in FOLDER with people and a car", "x"),
    ("photos in FOLDER without people or cars", "r, v, y"),
    (
        "photos in FOLDER with no people, by camera",
        "gate/t, gate/w, yard/r, yard/y, Canon EOS R5/v",
    ),
    ("photos in FOLDER that show a car", "t, w, x"),
    ("photos in FOLDER that don't show people", "r, t, v, w, y"),
    ("find all dogs in FOLDER", "r, s, y"),
    ("photos of dogs in FOLDER, newest first", "r, s, y"),
    ("sharp photos of dogs in FOLDER", "r, s"),
    (
        "people in FOLDER by day, one photo per day",
        "2026-05-10/u, 2026-05-14/*, no day/x",
    ),
    (
        "keep one photo per day of FOLDER with dogs",
        "2026-05-14/*, 2026-05-15/y",
    ),
    ("the 2 newest photos without people in FOLDER", "t, y"),
    ("yesterday evening's photos in FOLDER", "r, s, t"),
    ("photos in FOLDER from yesterday morning", "p"),
    ("this morning's photos in FOLDER", "y"),
    ("photos in FOLDER taken in the morning", "p, u, y"),
    ("photos in FOLDER taken at night", "t, w"),
    (
        "photos in FOLDER not taken at night",
        "p, q, r, s, u, v, x, y",
    ),
    ("photos in FOLDER between 8 and 11 am", "u, y"),
    ("photos in FOLDER from 2 to 8 pm", "q, r, v"),
    ("photos in FOLDER after 19:00 yesterday", "r, s, t"),
    ("photos in FOLDER before noon, without dogs", "p, u, w"),
    ("photos in FOLDER taken on weekends", "u, v"),
    ("photos in FOLDER taken on Sundays", "u"),
    ("last weekend's photos in FOLDER", "u, v"),
    (
        "photos in FOLDER of the past 2 months by weekday",
        "Thursday/p, Thursday/q, Thursday/r, Thursday/s, Thursday/t, Sunday/u, Saturday/v, Monday/w, Friday/y",
    ),
    ("photos in FOLDER from last Thursday", "p, q, r, s, t"),
    ("photos in FOLDER in portrait format", "q, v"),
    ("vertical pictures in FOLDER with people", "q"),
    ("square photos in FOLDER", "s"),
    (
        "sort FOLDER by orientation",
        "landscape/p, landscape/r, landscape/t, landscape/u, landscape/w, landscape/x, landscape/y, portrait/q, portrait/v, square/s",
    ),
    ("photos in FOLDER of at least 1.5 megapixels", "u, v"),
    ("photos in FOLDER wider than 1300 pixels", "u"),
    ("PNG files in FOLDER", "x"),
    (
        "photos in FOLDER except those of camera gate",
        "r, s, u, v, x, y",
    ),
    ("photos in FOLDER not from the gate, without GPS", "r, v, x"),
    ("the blurred photos in FOLDER", "y"),
    (
        "remove duplicates and blurred ones from FOLDER",
        "p, q, r, s, t, u, v, w, x",
    ),
    ("one picture per event of yesterday", "p, q, r, s, t"),
    ("yesterday evening's pictures of the yard", "r, s"),
    ("yesterday's people by camera", "gate/p, gate/q"),
    ("yesterday's pictures with a dog but no people", "r"),
    (
        "organise the pictures of collection trip by camera",
        "gate/p, gate/q, gate/t, gate/w, yard/r, yard/s, yard/y, Canon EOS R5/u, Canon EOS R5/v, no camera/x",
    ),
    (
        "best photo of each day in the collection trip",
        "2026-04-20/w, 2026-05-09/v, 2026-05-10/u, 2026-05-14/*, 2026-05-15/y, no day/x",
    ),
    ("yesterday's photos in the collection trip", "p, q, r, s, t"),
    ("square photos in the collection trip", "s"),
    (
        "the blurred photos in the collection trip by camera",
        "yard/y",
    ),
    (
        "photos with cars in the collection trip, not by the Canon EOS R5",
        "t, w, x",
    ),
    (
        "the newest picture of each camera of yesterday",
        "gate/t, yard/s",
    ),
    (
        "yesterday's pictures without cars, oldest first",
        "p, q, r, s",
    ),
    ("the 2 newest pictures of the gate", "q, t"),
];

/// Requests of which a part has no clear meaning.
pub(crate) const REFUSED: [&str; 16] = [
    "photos in FOLDER with people or dogs",
    "photos in FOLDER with a unicorn",
    "photos in FOLDER with two unicorns",
    "photos in FOLDER between 8 and 10",
    "photos in FOLDER after 8",
    "10 random photos in FOLDER",
    "photos of Anna in FOLDER",
    "every 10th photo in FOLDER",
    "photos in FOLDER from last week in May",
    "the photos in FOLDER that Anna took",
    "photos in FOLDER without people by mood",
    "photos in FOLDER with people left of a car",
    "photos in FOLDER that were not shared",
    "organise yesterday's thoughts by hour",
    "the two best pictures of each event of yesterday",
    "the clips of today by hour",
];

pub(crate) fn write_trip(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (look, shot) in (20..).zip(&SHOTS) {
        let sigma = if shot.name == "y" { 5.0 } else { 0.0 };
        let tile = draw(look, sigma);
        let (width, height) = shot.size;
        let picture = RgbImage::from_fn(width, height, |x, y| *tile.get_pixel(x % 640, y % 480));
        if shot.taken.is_empty() {
            let file = folder.join(format!("{}.png", shot.name));
            DynamicImage::from(picture).save(file).unwrap();
            continue;
        }
        let latitude = shot.has_place.then_some(50.0);
        let block = metadata(shot.taken, shot.camera, latitude);
        let file = folder.join(format!("{}.jpg", shot.name));
        fs::write(file, jpeg(&picture, Some(block))).unwrap();
    }
}

/// The files of an entry of [`REQUESTS`].
pub(crate) fn expected(text: &str) -> BTreeSet<String> {
    text.split(", ").map(str::to_owned).collect()
}
