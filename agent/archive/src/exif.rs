//! What picture files say of themselves, as metadata.

use jiff::civil::DateTime;
use jiff::{Timestamp, Zoned};

use crate::blobs::Sealed;
use crate::entry::{Exif, Metadata, TimeSource};

/// Bytes of a picture that are searched for its metadata.
const EXIF_BYTES: u64 = 1 << 20;

/// Adds what a picture file says of itself, where the caller did not; `now` is the time of the box.
pub(crate) fn add_exif(metadata: &mut Metadata, sealed: &Sealed, now: &Zoned) {
    if metadata.exif.is_none() {
        metadata.exif = read(sealed);
    }
    let taken = metadata.exif.as_ref().and_then(|exif| exif.taken.as_ref());
    if metadata.time.is_none()
        && let Some(time) = taken.and_then(|text| time_of(text, now))
    {
        metadata.time = Some(time);
        metadata.time_from = Some(TimeSource::Exif);
    }
}

fn read(sealed: &Sealed) -> Option<Exif> {
    let head = sealed.first_bytes(EXIF_BYTES);
    let is_picture = head.starts_with(b"\xff\xd8") || head.starts_with(b"\x89PNG");
    let found = is_picture.then(|| watchkeeper_pictures::metadata::read(&head))?;
    let exif = Exif {
        taken: found.taken.map(|at| at.to_string()),
        camera: found.camera,
        latitude: found.place.map(|place| place.latitude),
        longitude: found.place.map(|place| place.longitude),
    };
    (exif != Exif::default()).then_some(exif)
}

/// The moment of a local time; `None` for one that is still to come, as of a camera without a
/// clock.
fn time_of(taken: &str, now: &Zoned) -> Option<Timestamp> {
    let local: DateTime = taken.parse().ok()?;
    let time = local.to_zoned(now.time_zone().clone()).ok()?.timestamp();
    (time <= now.timestamp()).then_some(time)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn exif_time_is_local_and_never_still_to_come() {
        let noon: DateTime = "2026-11-25T12:00".parse().unwrap();
        let now = noon.to_zoned(TimeZone::fixed(jiff::tz::offset(1))).unwrap();
        let read = |taken: &str| time_of(taken, &now).map(|at| at.to_string());
        let past = read("2026-11-25T11:30:00");
        assert_eq!(past.as_deref(), Some("2026-11-25T10:30:00Z"));
        assert_eq!(read("2026-11-25T12:30:00"), None);
        assert_eq!(read("yesterday"), None);
    }
}
