//! What picture files say of themselves, as metadata.

use jiff::civil::DateTime;
use jiff::{Timestamp, Zoned};

use crate::blobs::Sealed;
use crate::entry::{Exif, MAX_FIELD, Metadata, TimeSource, is_line};

/// Bytes of a picture that are searched for its metadata.
const EXIF_BYTES: u64 = 1 << 20;
/// Bytes of a WebP that are searched for its metadata, which stand behind the pixels.
const WEBP_BYTES: u64 = 64 << 20;

/// Adds the EXIF data of a picture file, where the caller gave none; `now` is the time of the box.
pub(crate) fn add_exif(metadata: &mut Metadata, sealed: &Sealed, now: &Zoned) {
    let mut at = None;
    if metadata.exif.is_none() {
        let (exif, instant) = read(sealed).unzip();
        metadata.exif = exif;
        at = instant.flatten();
    }
    let taken = metadata.exif.as_ref().and_then(|exif| exif.taken.as_ref());
    let time = at.or_else(|| time_of(taken?, now));
    // One still to come is of a camera without a clock.
    let time = time.filter(|time| *time <= now.timestamp());
    if metadata.time.is_none() && time.is_some() {
        metadata.time = time;
        metadata.time_from = Some(TimeSource::Exif);
    }
}

/// Reads the EXIF data of a picture, and the instant of its time where it names its offset.
fn read(sealed: &Sealed) -> Option<(Exif, Option<Timestamp>)> {
    let mut head = sealed.first_bytes(EXIF_BYTES);
    let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    if is_webp {
        head = sealed.first_bytes(WEBP_BYTES);
    }
    let is_picture = is_webp || head.starts_with(b"\xff\xd8") || head.starts_with(b"\x89PNG");
    let found = is_picture.then(|| watchkeeper_pictures::metadata::read(&head))?;
    let at = found.at;
    let exif = Exif {
        taken: found.taken.map(|at| at.to_string()),
        camera: found.camera.filter(|camera| is_line(camera, MAX_FIELD)),
        latitude: found.place.map(|place| place.latitude),
        longitude: found.place.map(|place| place.longitude),
    };
    (exif != Exif::default()).then_some((exif, at))
}

/// The instant of a local time in the time zone of the box.
fn time_of(taken: &str, now: &Zoned) -> Option<Timestamp> {
    let local: DateTime = taken.parse().ok()?;
    Some(local.to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use jiff::tz::{TimeZone, offset};

    use super::*;
    use crate::blobs::BlobFolder;

    /// A JPEG file with nothing but the time of its exposure, and the offset of that.
    fn picture(taken: &str, offset: &str) -> Vec<u8> {
        let (taken, offset) = (format!("{taken}\0"), format!("{offset}\0"));
        let mut tiff = b"II*\0\x08\0\0\0".to_vec();
        let field = |tag: u16, kind: u16, count: usize, value: usize| {
            let (count, value) = (count as u32, value as u32);
            let field = [tag.to_le_bytes(), kind.to_le_bytes()].concat();
            [
                field,
                count.to_le_bytes().to_vec(),
                value.to_le_bytes().to_vec(),
            ]
            .concat()
        };
        // One folder that names the other at 26; that one has two texts from 56 on.
        tiff.extend([&[1, 0][..], &field(0x8769, 4, 1, 26), &[0; 4]].concat());
        let original = field(0x9003, 2, taken.len(), 56);
        let offset_field = field(0x9011, 2, offset.len(), 56 + taken.len());
        tiff.extend([&[2, 0][..], &original, &offset_field, &[0; 4]].concat());
        tiff.extend([taken.as_bytes(), offset.as_bytes()].concat());
        let bytes = u16::try_from(tiff.len() + 8).unwrap().to_be_bytes();
        [
            b"\xff\xd8\xff\xe1",
            &bytes[..],
            b"Exif\0\0",
            &tiff,
            b"\xff\xd9",
        ]
        .concat()
    }

    #[test]
    fn exif_time_has_an_offset_and_is_never_in_the_future() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobFolder::open(folder.path()).unwrap();
        let noon: DateTime = "2026-11-25T12:00".parse().unwrap();
        let now = noon.to_zoned(TimeZone::fixed(offset(1))).unwrap();
        let read = |picture: &[u8], given: Metadata| {
            let mut staged = blobs.stage((1 << 20, "none")).unwrap();
            staged.append(picture).unwrap();
            let mut metadata = given;
            add_exif(&mut metadata, &staged.seal().unwrap(), &now);
            metadata.time.map(|at| at.to_string())
        };
        for (taken, of, expected) in [
            ("2026:11:25 11:30:00", "local", Some("2026-11-25T10:30:00Z")),
            (
                "2026:11:25 11:30:00",
                "+02:00",
                Some("2026-11-25T09:30:00Z"),
            ),
            (
                "2026:11:25 12:30:00",
                "+09:00",
                Some("2026-11-25T03:30:00Z"),
            ),
            ("2026:11:25 12:30:00", "local", None),
            ("2026:11:25 08:00:00", "-05:00", None),
            ("yesterday", "+02:00", None),
        ] {
            let found = read(&picture(taken, of), Metadata::default());
            assert_eq!(found.as_deref(), expected, "{taken} {of}");
        }
        // What the caller says counts, not the file.
        let exif = Exif {
            taken: Some("2026-11-24T12:00:00".to_owned()),
            ..Exif::default()
        };
        let given = Metadata {
            exif: Some(exif),
            ..Metadata::default()
        };
        let found = read(&picture("2026:11:25 11:30:00", "+02:00"), given);
        assert_eq!(found.as_deref(), Some("2026-11-24T11:00:00Z"));
    }
}
