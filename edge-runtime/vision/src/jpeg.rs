//! Conversion of full-size pictures to RGB, and of RGB to JPEG, for snapshots and annotated videos.
//!
//! - Matrix, range, strides and odd sizes are respected.
//! - A picture with short planes is refused and never read out of bounds.
//! - Network inputs are converted elsewhere, while scaling.

use image::{ExtendedColorType, RgbImage};

use crate::frame::{Colorimetry, Picture, PixelFormat, Plane};

/// Why a picture can't be converted.
#[derive(Debug, thiserror::Error)]
pub enum JpegError {
    /// A plane is shorter than the picture's size requires.
    #[error("plane {plane} of a {width}x{height} picture is too short")]
    ShortPlane {
        plane: usize,
        width: u32,
        height: u32,
    },
    /// The pixels are more or fewer than the size says.
    #[error("{bytes} bytes are no {width}x{height} picture in RGB")]
    Length {
        bytes: usize,
        width: u32,
        height: u32,
    },
    #[error("jpeg quality {quality} does not fit; allowed is 1 to 100")]
    Quality { quality: u8 },
    /// The encoder failed, for example for a picture of zero width.
    #[error("a {width}x{height} picture can't be written as jpeg")]
    Encode {
        width: u32,
        height: u32,
        #[source]
        source: image::ImageError,
    },
}

/// Fixed-point factors from YUV to RGB, in 1/65536.
struct Factors {
    luma: i32,
    luma_offset: i32,
    red_v: i32,
    green_u: i32,
    green_v: i32,
    blue_u: i32,
}

impl Factors {
    fn new(color: Colorimetry) -> Self {
        let [kr, kb] = color.matrix.red_and_blue();
        let kg = 1.0 - kr - kb;
        let (luma, chroma, luma_offset) = if color.full_range {
            (1.0, 1.0, 0)
        } else {
            (255.0 / 219.0, 255.0 / 224.0, 16)
        };
        let fixed = |x: f64| (x * 65536.0).round() as i32;
        Self {
            luma: fixed(luma),
            luma_offset,
            red_v: fixed(2.0 * (1.0 - kr) * chroma),
            green_u: fixed(-2.0 * (1.0 - kb) * kb / kg * chroma),
            green_v: fixed(-2.0 * (1.0 - kr) * kr / kg * chroma),
            blue_u: fixed(2.0 * (1.0 - kb) * chroma),
        }
    }

    fn rgb(&self, y: u8, u: u8, v: u8) -> [u8; 3] {
        let y = (i32::from(y) - self.luma_offset) * self.luma + 32768;
        let (u, v) = (i32::from(u) - 128, i32::from(v) - 128);
        let sample = |x: i32| (x >> 16).clamp(0, 255) as u8;
        [
            sample(y + self.red_v * v),
            sample(y + self.green_u * u + self.green_v * v),
            sample(y + self.blue_u * u),
        ]
    }
}

/// Converts to RGB without padding.
///
/// # Errors
/// [`JpegError::ShortPlane`].
pub fn to_rgb(picture: &Picture) -> Result<RgbImage, JpegError> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let (half_w, half_h) = (width.div_ceil(2), height.div_ceil(2));
    let plane = |index, bytes, rows| plane(picture, index, bytes, rows);
    let mut rgb = RgbImage::new(picture.width, picture.height);
    if width == 0 || height == 0 {
        return Ok(rgb);
    }
    let out: &mut [u8] = &mut rgb;
    let rows = out.chunks_exact_mut(width * 3).enumerate();
    let factors = Factors::new(picture.color);
    match picture.format {
        PixelFormat::Rgb => {
            let packed = plane(0, width * 3, height)?;
            for (y, out) in rows {
                out.copy_from_slice(row(packed, y, width * 3));
            }
        }
        PixelFormat::I420 => {
            let luma = plane(0, width, height)?;
            let (blue, red) = (plane(1, half_w, half_h)?, plane(2, half_w, half_h)?);
            for (y, out) in rows {
                let (blue, red) = (row(blue, y / 2, half_w), row(red, y / 2, half_w));
                let chroma = blue.iter().zip(red).map(|(u, v)| (*u, *v));
                convert(&factors, row(luma, y, width), chroma, out);
            }
        }
        PixelFormat::Nv12 => {
            let (luma, both) = (plane(0, width, height)?, plane(1, half_w * 2, half_h)?);
            for (y, out) in rows {
                let pairs = row(both, y / 2, half_w * 2).chunks_exact(2);
                convert(
                    &factors,
                    row(luma, y, width),
                    pairs.map(|p| (p[0], p[1])),
                    out,
                );
            }
        }
    }
    Ok(rgb)
}

/// Plane `index` of a picture, with `rows` of `bytes`.
pub(crate) fn plane(
    picture: &Picture,
    index: usize,
    bytes: usize,
    rows: usize,
) -> Result<Plane<'_>, JpegError> {
    let plane = picture.plane(index, bytes, rows);
    plane.ok_or(JpegError::ShortPlane {
        plane: index,
        width: picture.width,
        height: picture.height,
    })
}

pub(crate) fn row(plane: Plane<'_>, y: usize, bytes: usize) -> &[u8] {
    &plane.data[y * plane.stride..][..bytes]
}

fn convert(factors: &Factors, luma: &[u8], chroma: impl Iterator<Item = (u8, u8)>, out: &mut [u8]) {
    let pixels = luma.chunks(2).zip(out.chunks_mut(6));
    for ((luma, out), (u, v)) in pixels.zip(chroma) {
        for (y, out) in luma.iter().zip(out.chunks_exact_mut(3)) {
            out.copy_from_slice(&factors.rgb(*y, u, v));
        }
    }
}

/// Encodes RGB as JPEG with `quality` 1 to 100.
///
/// # Errors
/// [`JpegError::Quality`] and [`JpegError::Encode`].
pub fn encode(rgb: &RgbImage, quality: u8) -> Result<Vec<u8>, JpegError> {
    let (width, height) = rgb.dimensions();
    encode_bytes(rgb, width, height, quality)
}

/// Encodes `width * height` RGB pixels of three bytes as JPEG with `quality` 1 to 100.
///
/// # Errors
/// [`JpegError::Quality`], [`JpegError::Length`] and [`JpegError::Encode`].
pub fn encode_bytes(
    rgb: &[u8],
    width: u32,
    height: u32,
    quality: u8,
) -> Result<Vec<u8>, JpegError> {
    if !(1..=100).contains(&quality) {
        return Err(JpegError::Quality { quality });
    }
    // The encoder panics on another length.
    if u64::from(width) * u64::from(height) * 3 != rgb.len() as u64 {
        return Err(JpegError::Length {
            bytes: rgb.len(),
            width,
            height,
        });
    }
    let mut out = Vec::with_capacity(rgb.len() / 8);
    image::codecs::jpeg::JpegEncoder::new_with_quality(&mut out, quality)
        .encode(rgb, width, height, ExtendedColorType::Rgb8)
        .map_err(|source| JpegError::Encode {
            width,
            height,
            source,
        })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::frame::{ColorMatrix, OwnedPlanes};

    fn picture(
        size: [u32; 2],
        format: PixelFormat,
        color: Colorimetry,
        planes: Vec<(Vec<u8>, usize)>,
    ) -> Picture {
        Picture {
            width: size[0],
            height: size[1],
            format,
            color,
            planes: Arc::new(OwnedPlanes { planes }),
        }
    }

    fn color(matrix: ColorMatrix, full_range: bool) -> Colorimetry {
        Colorimetry { matrix, full_range }
    }

    fn one_pixel(matrix: ColorMatrix, full_range: bool, yuv: [u8; 3]) -> [u8; 3] {
        let planes = yuv.map(|v| (vec![v], 1)).to_vec();
        let p = picture([1, 1], PixelFormat::I420, color(matrix, full_range), planes);
        to_rgb(&p).unwrap().get_pixel(0, 0).0
    }

    #[test]
    fn pure_colours_come_out_pure_in_each_matrix_and_range() {
        use ColorMatrix::{Bt601, Bt709};
        // From the equations of the standards, rounded to 8 bits.
        for (matrix, full, yuv, rgb) in [
            (Bt601, false, [81, 90, 240], [255, 0, 0]),
            (Bt601, false, [145, 54, 34], [0, 255, 0]),
            (Bt709, false, [63, 102, 240], [255, 0, 0]),
            (Bt709, false, [173, 42, 26], [0, 255, 0]),
            (Bt601, true, [76, 85, 255], [255, 0, 0]),
            (Bt601, false, [235, 128, 128], [255, 255, 255]),
            (Bt601, false, [16, 128, 128], [0, 0, 0]),
            (Bt709, true, [128, 128, 128], [128, 128, 128]),
        ] {
            let got = one_pixel(matrix, full, yuv);
            let near = got.iter().zip(rgb).all(|(a, b)| a.abs_diff(b) <= 2);
            assert!(near, "{matrix:?} full {full} {yuv:?}: {got:?}, not {rgb:?}");
        }
    }

    #[test]
    fn odd_sizes_and_padded_rows_are_read_right_in_both_layouts() {
        // 3 × 3 with rows of 5; every second chroma sample is padding.
        let luma = (0..3u8).flat_map(|y| [y * 30, y * 30 + 10, y * 30 + 20, 255, 255]);
        let luma: Vec<u8> = luma.collect();
        let full = color(ColorMatrix::Bt601, true);
        let grey = vec![128, 128, 9, 128, 128];
        let planar = vec![(luma.clone(), 5), (grey.clone(), 3), (grey, 3)];
        let both = vec![128, 128, 128, 128, 9, 128, 128, 128, 128];
        let packed = vec![(luma, 5), (both, 5)];
        for (format, planes) in [(PixelFormat::I420, planar), (PixelFormat::Nv12, packed)] {
            let rgb = to_rgb(&picture([3, 3], format, full, planes)).unwrap();
            let seen: Vec<u8> = rgb.pixels().map(|p| p.0[1]).collect();
            assert_eq!(seen, [0, 10, 20, 30, 40, 50, 60, 70, 80], "{format:?}");
        }
    }

    #[test]
    fn a_plane_that_is_too_short_is_refused() {
        let full = color(ColorMatrix::Bt601, true);
        for planes in [vec![], vec![(vec![0; 15], 4)], vec![(vec![0; 16], 3)]] {
            let p = picture([4, 4], PixelFormat::I420, full, planes);
            assert!(matches!(to_rgb(&p), Err(JpegError::ShortPlane { .. })));
        }
    }

    #[test]
    fn a_jpeg_of_a_picture_reads_back_as_that_picture() {
        let rgb = RgbImage::from_fn(33, 17, |x, y| image::Rgb([x as u8 * 7, y as u8 * 14, 90]));
        let bytes = encode(&rgb, 95).unwrap();
        let back = image::load_from_memory(&bytes).unwrap().into_rgb8();
        assert_eq!(back.dimensions(), (33, 17));
        let worst = rgb.iter().zip(back.iter()).map(|(a, b)| a.abs_diff(*b));
        assert!(worst.max().unwrap() < 40);
    }

    #[test]
    fn empty_picture_wrong_length_and_quality_are_refused() {
        assert!(matches!(
            encode(&RgbImage::new(0, 0), 80),
            Err(JpegError::Encode { .. })
        ));
        assert!(matches!(
            encode(&RgbImage::new(1, 1), 0),
            Err(JpegError::Quality { quality: 0 })
        ));
        assert!(matches!(
            encode_bytes(&[0; 11], 2, 2, 80),
            Err(JpegError::Length { bytes: 11, .. })
        ));
    }
}
