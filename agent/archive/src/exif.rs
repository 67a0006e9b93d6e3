//! What picture files say of themselves, as metadata.

use crate::blobs::Sealed;
use crate::entry::{Exif, Metadata};

/// Bytes of a picture that are searched for its metadata.
const EXIF_BYTES: u64 = 1 << 20;

/// Adds what a picture file says of itself, where the caller did not.
pub(crate) fn add_exif(metadata: &mut Metadata, sealed: &Sealed) {
    if metadata.exif.is_some() {
        return;
    }
    let head = sealed.first_bytes(EXIF_BYTES);
    let is_picture = head.starts_with(b"\xff\xd8") || head.starts_with(b"\x89PNG");
    let found = is_picture.then(|| watchkeeper_pictures::metadata::read(&head));
    let Some(found) = found else { return };
    let exif = Exif {
        taken: found.taken.map(|at| at.to_string()),
        camera: found.camera,
        latitude: found.place.map(|place| place.latitude),
        longitude: found.place.map(|place| place.longitude),
    };
    if exif != Exif::default() {
        metadata.exif = Some(exif);
    }
}
