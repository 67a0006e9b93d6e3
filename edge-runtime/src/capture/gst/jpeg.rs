//! Whether an encoded JPEG picture is whole, by its markers (ITU-T T.81, B.1).
//!
//! The decoder of GStreamer adds a missing end and reports no damage. Bytes before the start marker
//! and after the end marker are ignored: devices pad their pictures.

const START: u8 = 0xD8;
const END: u8 = 0xD9;
const SCAN: u8 = 0xDA;

/// Whether the markers of a picture are valid from its start to its end.
pub(super) fn is_whole(jpeg: &[u8]) -> bool {
    let start = jpeg.windows(2).position(|pair| pair == [0xFF, START]);
    let Some(mut rest) = start.and_then(|at| jpeg.get(at + 2..)) else {
        return false;
    };
    loop {
        rest = match rest {
            [0xFF, END, ..] => return true,
            // Any number of fill bytes may precede a marker.
            [0xFF, fill @ ..] if fill.starts_with(&[0xFF]) => fill,
            [0xFF, marker, high, low, ..] if has_segment(*marker) => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                let after = rest.get(2 + length..).unwrap_or_default();
                if *marker == SCAN {
                    after_scan(after)
                } else {
                    after
                }
            }
            _ => return false,
        };
    }
}

/// Whether a marker begins a segment with a length: frames, tables, scans, applications, comments.
fn has_segment(marker: u8) -> bool {
    matches!(marker, 0xC0..=0xCF | SCAN..=0xDF | 0xE0..=0xEF | 0xFE)
}

/// What follows the coded data of a scan; empty if nothing does.
fn after_scan(data: &[u8]) -> &[u8] {
    // Within the data, 0xFF is followed by zero, or begins a restart marker or a fill byte.
    let ends = |pair: &[u8]| pair[0] == 0xFF && !matches!(pair[1], 0 | 0xD0..=0xD7 | 0xFF);
    let end = data.windows(2).position(ends);
    end.and_then(|at| data.get(at..)).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn cut_and_garbled_pictures_are_told_from_whole_ones() {
        let picture = image::GrayImage::from_fn(64, 48, |x, y| image::Luma([(x * y) as u8]));
        let mut whole = Vec::new();
        let mut encoder = image::codecs::jpeg::JpegEncoder::new(&mut whole);
        encoder.encode_image(&picture).unwrap();
        assert!(is_whole(&whole));
        let padded = [b"\r\n", &whole[..], &[0; 64]].concat();
        assert!(is_whole(&padded));
        for length in 3..whole.len() {
            assert!(!is_whole(&whole[..length]), "{length}");
        }
        let mut garbled = whole.clone();
        let at = whole.len() - 40;
        garbled[at..at + 2].copy_from_slice(&[0xFF, 0x42]);
        assert!(!is_whole(&garbled));
        for unknown in [&[][..], b"GIF89a", &[0xFF]] {
            assert!(!is_whole(unknown));
        }
    }
}
