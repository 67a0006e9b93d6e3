//! Metadata of picture files by EXIF: orientation, time, place, camera.
//!
//! Invariant: damaged or missing metadata makes a value unknown and is not an error.

use std::io::Cursor;

use exif::{Exif, In, Reader, Tag, Value};
use image::metadata::Orientation;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::place::Place;

/// Longest name of a camera, in characters.
const MAX_CAMERA_CHARS: usize = 80;

/// Times of the exposure with their offsets from UTC, best first.
const TIMES: [(Tag, Tag); 3] = [
    (Tag::DateTimeOriginal, Tag::OffsetTimeOriginal),
    (Tag::DateTimeDigitized, Tag::OffsetTimeDigitized),
    (Tag::DateTime, Tag::OffsetTime),
];

/// Metadata of a file about its exposure.
#[derive(Debug, PartialEq)]
pub struct Metadata {
    pub orientation: Orientation,
    pub taken: Option<DateTime>,
    pub at: Option<Timestamp>,
    pub place: Option<Place>,
    pub camera: Option<String>,
}

/// Reads the EXIF block of a JPEG, PNG or WebP file; of the first two, the beginning is enough.
pub fn read(file: &[u8]) -> Metadata {
    let mut reader = Reader::new();
    reader.continue_on_error(true);
    let exif = reader.read_from_container(&mut Cursor::new(file));
    let exif = exif.or_else(|error| error.distill_partial_result(|_| {}));
    let Ok(exif) = exif else {
        return Metadata {
            orientation: Orientation::NoTransforms,
            taken: None,
            at: None,
            place: None,
            camera: None,
        };
    };
    let timed = |(time_tag, offset_tag)| Some((time(&exif, time_tag)?, offset_tag));
    let timed = TIMES.into_iter().find_map(timed);
    let at = match timed {
        Some((taken, tag)) => offset(&exif, tag).and_then(|offset| offset.to_timestamp(taken).ok()),
        None => gps_time(&exif),
    };
    // The time of GPS is in UTC.
    let local = || Some(at?.to_zoned(TimeZone::system()).datetime());
    Metadata {
        orientation: orientation(&exif),
        taken: timed.map_or_else(local, |(taken, _)| Some(taken)),
        at,
        place: place(&exif),
        camera: camera(text(&exif, Tag::Make), text(&exif, Tag::Model)),
    }
}

fn value(exif: &Exif, tag: Tag) -> Option<&Value> {
    exif.get_field(tag, In::PRIMARY).map(|field| &field.value)
}

fn orientation(exif: &Exif) -> Orientation {
    let number = value(exif, Tag::Orientation).and_then(|value| value.get_uint(0));
    let number = number.and_then(|number| u8::try_from(number).ok());
    let known = number.and_then(Orientation::from_exif);
    known.unwrap_or(Orientation::NoTransforms)
}

fn text(exif: &Exif, tag: Tag) -> Option<String> {
    let Value::Ascii(lines) = value(exif, tag)? else {
        return None;
    };
    let line = String::from_utf8_lossy(lines.first()?);
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!line.is_empty()).then(|| line.chars().take(MAX_CAMERA_CHARS).collect())
}

fn time(exif: &Exif, tag: Tag) -> Option<DateTime> {
    civil(&text(exif, tag)?)
}

/// The time of the satellites, which pictures without a time of the camera may have.
fn gps_time(exif: &Exif) -> Option<Timestamp> {
    let midnight = civil(&format!("{} 00:00:00", text(exif, Tag::GPSDateStamp)?))?;
    let Value::Rational(parts) = value(exif, Tag::GPSTimeStamp)? else {
        return None;
    };
    let parts = parts.iter().zip([3600.0, 60.0, 1.0]);
    let seconds: f64 = parts.map(|(part, unit)| part.to_f64() * unit).sum();
    let is_of_day = (0.0..86_400.0).contains(&seconds);
    let after = is_of_day.then(|| SignedDuration::from_secs(seconds as i64))?;
    Offset::UTC
        .to_timestamp(midnight.checked_add(after).ok()?)
        .ok()
}

/// Reads `YYYY:MM:DD HH:MM:SS`.
fn civil(text: &str) -> Option<DateTime> {
    let time = exif::DateTime::from_ascii(text.as_bytes()).ok()?;
    let small = |number: u8| i8::try_from(number).ok();
    DateTime::new(
        i16::try_from(time.year).ok()?,
        small(time.month)?,
        small(time.day)?,
        small(time.hour)?,
        small(time.minute)?,
        // A leap second.
        small(time.second)?.min(59),
        0,
    )
    .ok()
}

fn offset(exif: &Exif, tag: Tag) -> Option<Offset> {
    let mut time = exif::DateTime::from_ascii(b"2000:01:01 00:00:00").ok()?;
    time.parse_offset(text(exif, tag)?.as_bytes()).ok()?;
    Offset::from_seconds(i32::from(time.offset?) * 60).ok()
}

fn place(exif: &Exif) -> Option<Place> {
    let latitude = angle(exif, Tag::GPSLatitude, Tag::GPSLatitudeRef, "S")?;
    let longitude = angle(exif, Tag::GPSLongitude, Tag::GPSLongitudeRef, "W")?;
    // Cameras without a fix write zeros.
    let is_fix = latitude != 0.0 || longitude != 0.0;
    let is_place = latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
    (is_fix && is_place).then_some(Place {
        latitude,
        longitude,
    })
}

/// Degrees, minutes and seconds as degrees, negative if the reference is `negative`.
fn angle(exif: &Exif, tag: Tag, reference: Tag, negative: &str) -> Option<f64> {
    let Value::Rational(parts) = value(exif, tag)? else {
        return None;
    };
    let parts = parts.iter().zip([1.0, 60.0, 3600.0]);
    let degrees: f64 = parts.map(|(part, unit)| part.to_f64() / unit).sum();
    let sign = match text(exif, reference)?.eq_ignore_ascii_case(negative) {
        true => -1.0,
        false => 1.0,
    };
    degrees.is_finite().then_some(sign * degrees)
}

/// Maker and model; a model that names its maker stands alone, as does a maker without a model.
fn camera(make: Option<String>, model: Option<String>) -> Option<String> {
    match (make, model) {
        (Some(make), Some(model)) if !names_maker(&model, &make) => Some(format!("{make} {model}")),
        (make, model) => model.or(make),
    }
}

/// Whether a model begins with its maker, such as `NIKON D850` by `NIKON CORPORATION`.
fn names_maker(model: &str, make: &str) -> bool {
    let first = |text: &str| text.split(' ').next().map(str::to_lowercase);
    first(model) == first(make)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use exif::experimental::Writer;
    use exif::{Field, Rational};

    use super::*;

    #[test]
    fn time_of_gps_counts_where_the_camera_has_none() {
        let field = |tag, value| Field {
            tag,
            ifd_num: In::PRIMARY,
            value,
        };
        let whole = |num| Rational { num, denom: 1 };
        let day = Value::Ascii(vec![b"2026:03:29".to_vec()]);
        let hours = Value::Rational(vec![whole(10), whole(30), whole(5)]);
        let fields = [
            field(Tag::GPSDateStamp, day),
            field(Tag::GPSTimeStamp, hours),
        ];
        let mut writer = Writer::new();
        fields.iter().for_each(|field| writer.push_field(field));
        let mut file = Cursor::new(Vec::new());
        writer.write(&mut file, false).unwrap();
        let found = read(file.get_ref());
        let at: Timestamp = "2026-03-29T10:30:05Z".parse().unwrap();
        assert_eq!(found.at, Some(at));
        let local = at.to_zoned(TimeZone::system()).datetime();
        assert_eq!(found.taken, Some(local));
    }

    #[test]
    fn time_with_an_offset_has_an_instant_and_one_without_has_none() {
        for (offset, expected) in [
            (Some("+02:00"), Some("2026-03-29T10:00:00Z")),
            (Some("-03:30"), Some("2026-03-29T15:30:00Z")),
            (Some("local"), None),
            (None, None),
        ] {
            let times = [(Tag::DateTimeOriginal, Some("2026:03:29 12:00:00"))];
            let fields = times.into_iter().chain([(Tag::OffsetTimeOriginal, offset)]);
            let fields: Vec<Field> = fields
                .filter_map(|(tag, text)| {
                    Some(Field {
                        tag,
                        ifd_num: In::PRIMARY,
                        value: Value::Ascii(vec![text?.as_bytes().to_vec()]),
                    })
                })
                .collect();
            let mut writer = Writer::new();
            fields.iter().for_each(|field| writer.push_field(field));
            let mut file = Cursor::new(Vec::new());
            writer.write(&mut file, false).unwrap();
            let found = read(file.get_ref());
            assert_eq!(found.taken, "2026-03-29T12:00:00".parse().ok());
            let expected = expected.map(|at| at.parse().unwrap());
            assert_eq!(found.at, expected, "{offset:?}");
        }
    }

    #[test]
    fn camera_has_its_maker_once() {
        for (make, model, expected) in [
            ("NIKON CORPORATION", "NIKON D850", "NIKON D850"),
            ("Canon", "Canon EOS R5", "Canon EOS R5"),
            ("Apple", "iPhone 12", "Apple iPhone 12"),
            ("", "X100V", "X100V"),
            ("Leica", "", "Leica"),
            ("", "", ""),
        ] {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            assert_eq!(camera(given(make), given(model)), given(expected));
        }
    }
}
