//! Pictures of a scene, forty requests about them, and the files that are right.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use exif::experimental::Writer;
use exif::{Field, In, Rational, Tag, Value};
use image::codecs::jpeg::JpegEncoder;
use image::imageops::blur;
use image::{Rgb, RgbImage};
use jiff::civil::DateTime;

/// A picture of the scene: name, time, camera, latitude, look, blur.
type Shot = (&'static str, &'static str, &'static str, f64, u32, f32);

/// `c2` is a softer picture of what `c` shows; `e` and `i` are blurred.
const SHOTS: [Shot; 10] = [
    ("a", "2026:03:01 08:00:00", "gate", 50.0, 1, 0.0),
    ("b", "2026:03:01 08:01:00", "gate", 50.0, 2, 0.6),
    ("c", "2026:03:01 09:30:00", "yard", 50.1, 3, 0.0),
    ("c2", "2026:03:01 09:30:02", "yard", 50.1, 3, 0.7),
    ("e", "2026:03:02 10:00:00", "gate", 50.0, 4, 5.0),
    ("f", "2026:03:02 10:05:00", "gate", 50.0, 5, 0.0),
    ("g", "2026:03:02 18:00:00", "yard", 50.1, 6, 0.6),
    ("h", "2026:04:03 07:00:00", "yard", 50.1, 7, 0.0),
    ("i", "2026:04:03 07:40:00", "yard", 50.1, 8, 5.0),
    ("n", "", "", 0.0, 9, 0.6),
];

/// Requests and the files of the album that they make, as `folder/name` or, without groups, `name`.
pub(crate) const REQUESTS: [(&str, &str); 40] = [
    (
        "organise FOLDER by day",
        "2026-03-01/a 2026-03-01/b 2026-03-01/c 2026-03-01/c2 2026-03-02/e 2026-03-02/f 2026-03-02/g 2026-04-03/h 2026-04-03/i no day/n",
    ),
    (
        "organise FOLDER by month",
        "2026-03/a 2026-03/b 2026-03/c 2026-03/c2 2026-03/e 2026-03/f 2026-03/g 2026-04/h 2026-04/i no month/n",
    ),
    (
        "sort the photos in FOLDER by camera",
        "gate/a gate/b gate/e gate/f yard/c yard/c2 yard/g yard/h yard/i no camera/n",
    ),
    (
        "group FOLDER by place",
        "50.0000, 8.0000/a 50.0000, 8.0000/b 50.0000, 8.0000/e 50.0000, 8.0000/f 50.1000, 8.0000/c 50.1000, 8.0000/c2 50.1000, 8.0000/g 50.1000, 8.0000/h 50.1000, 8.0000/i no place/n",
    ),
    (
        "organise FOLDER by moment",
        "2026-03-01 08-00-00/a 2026-03-01 08-00-00/b 2026-03-01 09-30-00/c 2026-03-01 09-30-00/c2 2026-03-02 10-00-00/e 2026-03-02 10-00-00/f 2026-03-02 18-00-00/g 2026-04-03 07-00-00/h 2026-04-03 07-00-00/i no time/n",
    ),
    (
        "organise FOLDER by hour and keep only the first of each",
        "2026-03-01 08 h/a 2026-03-01 09 h/c 2026-03-02 10 h/e 2026-03-02 18 h/g 2026-04-03 07 h/h no hour/n",
    ),
    (
        "organise FOLDER by day and keep the best picture of each",
        "2026-03-01/* 2026-03-02/f 2026-04-03/h no day/n",
    ),
    (
        "keep the two sharpest of each camera in FOLDER",
        "gate/a gate/f yard/c yard/h no camera/n",
    ),
    (
        "pick the 1 newest of each day from FOLDER",
        "2026-03-01/c2 2026-03-02/g 2026-04-03/i no day/n",
    ),
    (
        "the oldest picture of each camera in FOLDER",
        "gate/a yard/c no camera/n",
    ),
    ("find the 3 newest photos in FOLDER", "i h g"),
    ("find the 2 oldest photos in FOLDER", "a b"),
    ("show me the latest picture in FOLDER", "i"),
    ("the sharpest 4 in FOLDER", "a c f h"),
    ("find my best 4 photos in FOLDER", "a c f h"),
    ("find my four best photos in FOLDER", "a c f h"),
    ("remove duplicates from FOLDER", "a b c e f g h i n"),
    ("FOLDER without duplicates", "a b c e f g h i n"),
    (
        "FOLDER without near duplicates by camera",
        "gate/a gate/b gate/e gate/f yard/c yard/g yard/h yard/i no camera/n",
    ),
    ("FOLDER without blurred pictures", "a b c c2 f g h n"),
    ("remove blurry photos from FOLDER", "a b c c2 f g h n"),
    (
        "FOLDER without duplicates and without blurred pictures",
        "a b c f g h n",
    ),
    (
        "organise FOLDER by day without blurred ones",
        "2026-03-01/a 2026-03-01/b 2026-03-01/c 2026-03-01/c2 2026-03-02/f 2026-03-02/g 2026-04-03/h no day/n",
    ),
    (
        "the newest 2 of each camera in FOLDER without blurred ones",
        "gate/b gate/f yard/g yard/h no camera/n",
    ),
    (
        "organise FOLDER of camera gate by day",
        "2026-03-01/a 2026-03-01/b 2026-03-02/e 2026-03-02/f",
    ),
    ("the 2 sharpest pictures of camera yard in FOLDER", "c h"),
    (
        "pictures from camera yard in FOLDER without duplicates",
        "c g h i",
    ),
    (
        "organise FOLDER since 2026-03-02 by camera",
        "gate/e gate/f yard/g yard/h yard/i",
    ),
    ("the 2 newest in FOLDER before 2026-04-01", "g f"),
    (
        "organise FOLDER on 2026-03-01 by camera",
        "gate/a gate/b yard/c yard/c2",
    ),
    ("the sharpest picture on 2026-03-02 in FOLDER", "f"),
    ("an album of FOLDER after 2026-03-02", "h i"),
    (
        "organise FOLDER since 2026-03-01 until 2026-03-02 without duplicates",
        "a b c e f g",
    ),
    ("organise FOLDER last month by camera", "yard/h yard/i"),
    ("an album of FOLDER this month without blurred ones", ""),
    ("make an album of FOLDER", "a b c c2 e f g h i n"),
    (
        "organise FOLDER by folder",
        "photos/a photos/b photos/c photos/c2 photos/e photos/f photos/g photos/h photos/i photos/n",
    ),
    (
        "please organize my photos in FOLDER per day, and choose the two oldest of them",
        "2026-03-01/a 2026-03-01/b 2026-03-02/e 2026-03-02/f 2026-04-03/h 2026-04-03/i no day/n",
    ),
    (
        "make an album and a contact sheet of the 2 oldest in FOLDER",
        "a b",
    ),
    (
        "organise FOLDER by class",
        "no class/a no class/b no class/c no class/c2 no class/e no class/f no class/g no class/h no class/i no class/n",
    ),
];

/// Squares of a size and place of each look, in colours that never clip.
pub(crate) fn draw(look: u32, sigma: f32) -> RgbImage {
    let mut state = look;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut picture = RgbImage::from_pixel(640, 480, Rgb([128, 128, 128]));
    for n in 0..40 {
        let (left, top) = (random(600), random(440));
        let (width, height) = (20 + random(120), 20 + random(120));
        let level = if n % 2 == 0 { 60 } else { 190 };
        for y in top..(top + height).min(480) {
            for x in left..(left + width).min(640) {
                picture.put_pixel(x, y, Rgb([level; 3]));
            }
        }
    }
    match sigma > 0.0 {
        true => blur(&picture, sigma),
        false => picture,
    }
}

fn text(tag: Tag, text: &str) -> Field {
    let value = Value::Ascii(vec![text.as_bytes().to_vec()]);
    Field {
        tag,
        ifd_num: In::PRIMARY,
        value,
    }
}

/// The EXIF block of a shot as a JPEG segment.
pub(crate) fn metadata(taken: &str, camera: &str, latitude: Option<f64>) -> Vec<u8> {
    let degrees = |angle: f64| {
        let rational = |num: u32, denom: u32| Rational { num, denom };
        let value = vec![
            rational((angle * 1e4) as u32, 10_000),
            rational(0, 1),
            rational(0, 1),
        ];
        Value::Rational(value)
    };
    let place = |tag: Tag, angle: f64| Field {
        tag,
        ifd_num: In::PRIMARY,
        value: degrees(angle),
    };
    let of_camera = [text(Tag::Model, camera), text(Tag::DateTimeOriginal, taken)];
    let of_place = latitude.map(|latitude| {
        [
            text(Tag::GPSLatitudeRef, "N"),
            place(Tag::GPSLatitude, latitude),
            text(Tag::GPSLongitudeRef, "E"),
            place(Tag::GPSLongitude, 8.0),
        ]
    });
    let fields: Vec<Field> = of_camera
        .into_iter()
        .chain(of_place.into_iter().flatten())
        .collect();
    let mut writer = Writer::new();
    fields.iter().for_each(|field| writer.push_field(field));
    let mut block = std::io::Cursor::new(Vec::new());
    writer.write(&mut block, false).unwrap();
    let block = block.into_inner();
    let length = u16::try_from(block.len() + 8).unwrap().to_be_bytes();
    [&[0xff, 0xe1][..], &length, b"Exif\0\0", &block].concat()
}

/// A JPEG file with an EXIF block.
pub(crate) fn jpeg(picture: &RgbImage, block: Option<Vec<u8>>) -> Vec<u8> {
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, 92)
        .encode_image(picture)
        .unwrap();
    // After the marker of the start.
    jpeg.splice(2..2, block.into_iter().flatten());
    jpeg
}

pub(crate) fn write_scene(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, taken, camera, latitude, look, sigma) in SHOTS {
        let block = (!taken.is_empty()).then(|| metadata(taken, camera, Some(latitude)));
        let jpeg = jpeg(&draw(look, sigma), block);
        fs::write(folder.join(format!("{name}.jpg")), jpeg).unwrap();
    }
}

/// The time at which the requests are made.
pub(crate) fn now() -> DateTime {
    "2026-05-15T12:00:00".parse().unwrap()
}

/// The pictures of an album, as in [`REQUESTS`].
pub(crate) fn album(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for group in fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if !group.is_dir() {
            continue;
        }
        let name = group.file_name().unwrap().to_str().unwrap().to_owned();
        for file in fs::read_dir(&group)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let file = file.file_stem().unwrap().to_str().unwrap().to_owned();
            found.insert(match name.as_str() {
                "pictures" | "best" => file,
                _ => format!("{name}/{file}"),
            });
        }
    }
    found
}

/// Splits the expected names, of which a folder's may have spaces.
pub(crate) fn expected(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut part = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        part.push_str(word);
        let is_name = |name: &str| name == "*" || SHOTS.iter().any(|shot| shot.0 == name);
        if part.rsplit('/').next().is_some_and(is_name) && (part.contains('/') || is_name(&part)) {
            names.insert(std::mem::take(&mut part));
        } else {
            part.push(' ');
        }
    }
    names
}

/// Whether the names are the expected ones; `folder/*` is any one picture of that folder.
pub(crate) fn agrees(found: &BTreeSet<String>, expected: &BTreeSet<String>) -> bool {
    let any: Vec<&str> = expected
        .iter()
        .filter_map(|name| name.strip_suffix('*'))
        .collect();
    let (free, named): (Vec<_>, Vec<_>) = found
        .iter()
        .partition(|name| any.iter().any(|folder| name.starts_with(folder)));
    let wanted: Vec<_> = expected
        .iter()
        .filter(|name| !name.ends_with('*'))
        .collect();
    free.len() == any.len() && named == wanted
}
