//! Decodes picture files from outside: JPEG, PNG and WebP, within bounds.
//!
//! - Every bound is checked before memory is allocated for it; a small file can't fill the memory.
//! - At most [`MAX_DECODED_BYTES`] hold the decoded picture, in addition to one copy as RGB.
//! - Nothing is read from disk here; callers read at most [`MAX_FILE_BYTES`].

use std::io::Cursor;

use image::error::LimitErrorKind;
use image::{
    DynamicImage, GrayImage, ImageDecoder, ImageError, ImageFormat, ImageReader, ImageResult,
    Limits, RgbImage,
};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::imaging;

/// Maximum size of a picture file in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Maximum width and height of a picture.
pub const MAX_SIDE: u32 = 16_384;

/// Maximum number of pixels of one picture, and of all pictures of one request.
pub const MAX_PIXELS: u64 = 50_000_000;

/// Max bytes of metadata in a PNG: a larger colour profile is skipped, longer texts are refused.
pub const MAX_METADATA_BYTES: u64 = 8 << 20;

/// Maximum size in bytes of a decoded picture, in the file's own pixel format.
pub const MAX_DECODED_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PictureFileError {
    /// The file is damaged, or of another format.
    #[error("not a JPEG, PNG or WebP picture: {0}")]
    Unreadable(String),
    #[error("the picture file ends early; copy it again")]
    Incomplete,
    #[error(
        "a picture of {width}x{height} has a side of more than {MAX_SIDE} pixels; scale it down"
    )]
    TooLong { width: u32, height: u32 },
    #[error("a picture of {width}x{height} has more than {MAX_PIXELS} pixels; scale it down")]
    TooManyPixels { width: u32, height: u32 },
    #[error(
        "a picture of {width}x{height} takes {bytes} bytes, more than the {MAX_DECODED_BYTES} allowed; save it with 8 bits a channel or scale it down"
    )]
    TooManyBytes { width: u32, height: u32, bytes: u64 },
    #[error(
        "the texts in the picture take more than {MAX_METADATA_BYTES} bytes; save it without metadata"
    )]
    TooMuchMetadata,
}

/// A picture file whose header was read and is within the bounds.
pub struct PictureFile<'a> {
    decoder: Box<dyn ImageDecoder + 'a>,
    format: ImageFormat,
}

impl<'a> PictureFile<'a> {
    /// Reads the header of a JPEG, PNG or WebP file.
    ///
    /// # Errors
    /// If the bytes are no such picture, or it is beyond a bound.
    pub fn open(file: &'a [u8]) -> Result<Self, PictureFileError> {
        let format = match image::guess_format(file) {
            Ok(format @ (ImageFormat::Jpeg | ImageFormat::Png | ImageFormat::WebP)) => format,
            Ok(other) => {
                let why = format!("it is of the format {other:?}");
                return Err(PictureFileError::Unreadable(why));
            }
            Err(error) => return Err(PictureFileError::Unreadable(error.to_string())),
        };
        if format == ImageFormat::WebP && is_animated_webp(file) {
            let why = "it is an animated WebP; save one picture of it".to_owned();
            return Err(PictureFileError::Unreadable(why));
        }
        let decoder = open_decoder(file, format).map_err(|error| match error {
            ImageError::Limits(limit) if limit.kind() == LimitErrorKind::InsufficientMemory => {
                PictureFileError::TooMuchMetadata
            }
            other => PictureFileError::Unreadable(other.to_string()),
        })?;
        let (width, height) = decoder.dimensions();
        if width.max(height) > MAX_SIDE {
            return Err(PictureFileError::TooLong { width, height });
        }
        if u64::from(width) * u64::from(height) > MAX_PIXELS {
            return Err(PictureFileError::TooManyPixels { width, height });
        }
        let bytes = match format {
            // A lossless one is decoded with four bytes a pixel and copied.
            ImageFormat::WebP => decoder.total_bytes() + 4 * u64::from(width) * u64::from(height),
            _ => decoder.total_bytes(),
        };
        if bytes > MAX_DECODED_BYTES {
            return Err(PictureFileError::TooManyBytes {
                width,
                height,
                bytes,
            });
        }
        let is_complete = match format {
            ImageFormat::Jpeg => is_complete_jpeg(file),
            ImageFormat::Png => is_complete_png(file),
            _ => is_complete_webp(file),
        };
        match is_complete {
            true => Ok(Self { decoder, format }),
            false => Err(PictureFileError::Incomplete),
        }
    }

    /// Returns width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        self.decoder.dimensions()
    }

    pub const fn format(&self) -> ImageFormat {
        self.format
    }

    /// Decodes the pixels.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn decode(self) -> Result<RgbImage, PictureFileError> {
        DynamicImage::from_decoder(self.decoder)
            .map(DynamicImage::into_rgb8)
            .map_err(|error| PictureFileError::Unreadable(error.to_string()))
    }
}

/// Whether a JPEG has the mark of its end after its pixels; one in a thumbnail does not count.
/// Decoders fill what is missing with grey.
fn is_complete_jpeg(file: &[u8]) -> bool {
    const END: u8 = 0xd9;
    // Marks without a length: stuffed bytes, TEM, restarts, the begin.
    let is_bare = |mark: u8| matches!(mark, 0x00 | 0x01 | 0xd0..=0xd8);
    // The usual end, without a look at the rest: pixels don't hold this mark.
    if file.ends_with(&[0xff, END]) {
        return true;
    }
    let mut rest = file;
    let is_mark = |two: &[u8]| matches!(two, [0xff, mark] if *mark != 0xff);
    while let Some(at) = rest.windows(2).position(is_mark) {
        let mark = rest.get(at + 1).copied();
        rest = rest.get(at + 2..).unwrap_or_default();
        match mark {
            Some(END) => return true,
            Some(mark) if is_bare(mark) => {}
            _ => {
                let Some(&[high, low]) = rest.first_chunk::<2>() else {
                    return false;
                };
                let length = usize::from(u16::from_be_bytes([high, low]));
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
    false
}

fn is_complete_png(file: &[u8]) -> bool {
    const SIGNATURE: usize = 8;
    let mut rest = file.get(SIGNATURE..).unwrap_or_default();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        // Type and checksum are not included in the data.
        let length = u32::from_be_bytes(*length) as usize + 8;
        if after.starts_with(b"IEND") {
            return after.len() >= length;
        }
        rest = after.get(length..).unwrap_or_default();
    }
    false
}

/// Whether the extended header of a WebP has the flag of an animation.
fn is_animated_webp(file: &[u8]) -> bool {
    const ANIMATION: u8 = 0x02;
    file.get(12..16) == Some(b"VP8X") && file.get(20).is_some_and(|flags| flags & ANIMATION != 0)
}

/// Whether a WebP has the length that its header says.
fn is_complete_webp(file: &[u8]) -> bool {
    let length = file.get(4..).and_then(<[u8]>::first_chunk::<4>);
    let length = length.map(|length| u32::from_le_bytes(*length) as usize);
    // The first eight bytes are not included.
    length.is_some_and(|length| file.len() - 8 >= length)
}

/// Opens the decoder with a limit on its allocations other than the pixels.
fn open_decoder(file: &[u8], format: ImageFormat) -> ImageResult<Box<dyn ImageDecoder + '_>> {
    let mut reader = ImageReader::with_format(Cursor::new(file), format);
    // The PNG decoder counts profile, texts and rows here, but not the pixels. Those of a WebP are
    // not read.
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_METADATA_BYTES);
    reader.limits(limits);
    Ok(Box::new(reader.into_decoder()?))
}

/// Decodes a JPEG, PNG or WebP file.
///
/// # Errors
/// If the bytes are no such picture, or it is beyond a bound.
pub fn decode(file: &[u8]) -> Result<RgbImage, PictureFileError> {
    PictureFile::open(file)?.decode()
}

/// Decodes the luma of a JPEG, PNG or WebP file. Of a JPEG with YCbCr colours nothing else is
/// computed, which takes half the time.
///
/// # Errors
/// As [`decode`].
pub fn decode_grey(file: &[u8]) -> Result<GrayImage, PictureFileError> {
    let opened = PictureFile::open(file)?;
    let (width, height) = opened.size();
    if opened.format() == ImageFormat::Jpeg
        && let Some(luma) = jpeg_luma(file)
        && let Some(grey) = GrayImage::from_raw(width, height, luma)
    {
        return Ok(grey);
    }
    Ok(imaging::grey(&imaging::pixels(opened.decode()?)))
}

/// The luma of a JPEG whose colours are YCbCr or grey; `None` for others and damaged ones.
fn jpeg_luma(file: &[u8]) -> Option<Vec<u8>> {
    let side = usize::try_from(MAX_SIDE).ok()?;
    let options = DecoderOptions::default()
        .set_max_width(side)
        .set_max_height(side)
        .jpeg_set_out_colorspace(ColorSpace::Luma);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers().ok()?;
    let is_luma = matches!(
        decoder.input_colorspace()?,
        ColorSpace::YCbCr | ColorSpace::Luma
    );
    is_luma.then(|| decoder.decode().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use image::codecs::png::PngEncoder;
    use image::{ExtendedColorType, ImageEncoder as _};

    use super::*;

    /// A PNG of one grey pixel with a colour profile of this many zeros.
    fn with_profile(bytes: u64) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = PngEncoder::new(&mut file);
        let profile = vec![0; usize::try_from(bytes).unwrap()];
        encoder.set_icc_profile(profile).unwrap();
        encoder
            .write_image(&[9, 9, 9], 1, 1, ExtendedColorType::Rgb8)
            .unwrap();
        file
    }

    /// A PNG with empty pixel data whose header claims this size and colour type.
    fn claiming(width: u32, height: u32, depth: u8, color: u8) -> Vec<u8> {
        let mut header = b"IHDR".to_vec();
        header.extend(width.to_be_bytes());
        header.extend(height.to_be_bytes());
        header.extend([depth, color, 0, 0, 0]);
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        append(&mut file, &header);
        append(&mut file, b"IDAT");
        append(&mut file, b"IEND");
        file
    }

    fn append(file: &mut Vec<u8>, chunk: &[u8]) {
        file.extend(u32::try_from(chunk.len() - 4).unwrap().to_be_bytes());
        file.extend(chunk);
        file.extend(crc(chunk).to_be_bytes());
    }

    fn crc(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
            })
        })
    }

    #[test]
    fn large_colour_profile_is_skipped() {
        for (bytes, is_read) in [(1 << 20, true), (MAX_METADATA_BYTES + 1, false)] {
            let file = with_profile(bytes);
            assert!(file.len() < 1 << 20, "{} bytes", file.len());
            let mut opened = PictureFile::open(&file).unwrap();
            assert_eq!(opened.decoder.icc_profile().unwrap().is_some(), is_read);
            assert_eq!(opened.decode().unwrap().as_raw(), &[9; 3]);
        }
    }

    #[test]
    fn large_texts_are_refused() {
        let mut file = claiming(1, 1, 8, 2);
        let rest = file.split_off(file.len() - 24);
        let mut text = b"tEXtComment\0".to_vec();
        text.resize(usize::try_from(MAX_METADATA_BYTES).unwrap() + 5, b'x');
        append(&mut file, &text);
        file.extend(rest);
        assert_eq!(decode(&file), Err(PictureFileError::TooMuchMetadata));
    }

    #[test]
    fn size_is_refused_before_pixels_are_allocated() {
        const RGB: u8 = 2;
        const RGBA: u8 = 6;
        let open = |file: &[u8]| PictureFile::open(file).map(|p| p.size());
        for (file, reason) in [
            (claiming(16_385, 1, 8, RGB), "16385x1 has a side"),
            (claiming(1, 16_385, 8, RGB), "1x16385 has a side"),
            (
                claiming(8_000, 6_251, 8, RGB),
                "8000x6251 has more than 50000000 pixels",
            ),
            (claiming(7_000, 7_000, 16, RGBA), "takes 392000000 bytes"),
        ] {
            let refused = open(&file).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
            assert!(refused.contains("scale it down"), "{refused}");
        }
        assert_eq!(open(&claiming(8_000, 6_250, 8, RGB)), Ok((8_000, 6_250)));
    }

    #[test]
    fn file_that_ends_early_is_refused_wherever_it_is_cut() {
        let picture = RgbImage::from_fn(64, 48, |x, y| {
            let shade = |n: u32| u8::try_from(n % 256).unwrap_or_default();
            image::Rgb([shade(x * y), shade(x * 5), shade(y * 7)])
        });
        let jpeg = crate::jpeg::encode(&picture, 90).unwrap();
        let mut png = Cursor::new(Vec::new());
        picture.write_to(&mut png, ImageFormat::Png).unwrap();
        let mut webp = Cursor::new(Vec::new());
        picture.write_to(&mut webp, ImageFormat::WebP).unwrap();
        for whole in [jpeg.clone(), png.into_inner(), webp.into_inner()] {
            decode(&whole).unwrap();
            for cut in [1, 2, 3, 13, 50, whole.len() / 2] {
                assert!(decode(&whole[..whole.len() - cut]).is_err(), "{cut}");
                assert!(decode_grey(&whole[..whole.len() - cut]).is_err(), "{cut}");
            }
            let half = PictureFile::open(&whole[..whole.len() / 2]).err().unwrap();
            assert_eq!(half, PictureFileError::Incomplete);
            // What follows the end, such as a film, does not count.
            decode(&[&whole[..], b"film"].concat()).unwrap();
        }
        // An end within a segment does not count either.
        let thumbnail = [0xff, 0xec, 0, 6, 0xff, 0xd9, 0, 0];
        let with_thumbnail = [&jpeg[..2], &thumbnail, &jpeg[2..]].concat();
        decode(&with_thumbnail).unwrap();
        decode(&with_thumbnail[..with_thumbnail.len() - 2]).unwrap_err();
    }

    #[test]
    fn animated_webp_is_refused() {
        let mut file = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0".to_vec();
        file.extend([0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let refused = decode(&file).unwrap_err().to_string();
        assert!(refused.contains("save one picture of it"), "{refused}");
    }

    #[test]
    fn other_and_damaged_files_are_refused() {
        for file in [
            &b""[..],
            b"hello",
            b"GIF89a\x01\0\x01\0",
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff",
        ] {
            let refused = decode(file).unwrap_err();
            assert!(
                matches!(refused, PictureFileError::Unreadable(_)),
                "{refused:?}"
            );
        }
    }
}
