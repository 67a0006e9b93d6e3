//! QR codes and bar codes.
//!
//! No picture makes a function panic: a panic of the reader counts as no code.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::GrayImage;
use rxing::common::HybridBinarizer;
use rxing::multi::{GenericMultipleBarcodeReader, MultipleBarcodeReader};
use rxing::qrcode::QRCodeWriter;
use rxing::qrcode::cpp_port::QrReader;
use rxing::{
    BarcodeFormat, BinaryBitmap, DecodeHints, EncodeHints, Luma8LuminanceSource,
    MultiUseMultiFormatReader, RXingResult, Writer,
};

use crate::geometry::{BBox, Point};
use crate::outline;

/// Share of a row's pixels that may differ from the row in which a bar code was read.
const UNLIKE: f64 = 0.1;

/// A decoded code.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    pub text: String,
    /// Upright bounding box.
    pub bbox: BBox,
}

/// Reads the QR codes of a picture.
#[must_use]
pub fn qr_codes(grey: &GrayImage) -> Vec<Code> {
    let hints = DecodeHints {
        TryHarder: Some(true),
        PossibleFormats: Some(HashSet::from([BarcodeFormat::QR_CODE])),
        ..DecodeHints::default()
    };
    read(grey, &mut QrReader, &hints)
}

/// Reads the codes of all kinds.
#[must_use]
pub fn codes(grey: &GrayImage) -> Vec<Code> {
    let hints = DecodeHints {
        TryHarder: Some(true),
        ..DecodeHints::default()
    };
    let mut reader = GenericMultipleBarcodeReader::new(MultiUseMultiFormatReader::default());
    read(grey, &mut reader, &hints)
}

fn read(
    grey: &GrayImage,
    reader: &mut impl MultipleBarcodeReader,
    hints: &DecodeHints,
) -> Vec<Code> {
    let (width, height) = grey.dimensions();
    let Ok(source) = Luma8LuminanceSource::new(grey.as_raw().clone(), width, height) else {
        return Vec::new();
    };
    let mut bitmap = BinaryBitmap::new(HybridBinarizer::new(source));
    let found = catch_unwind(AssertUnwindSafe(|| {
        reader.decode_multiple_with_hints(&mut bitmap, hints)
    }));
    match found {
        Ok(Ok(found)) => found.iter().filter_map(|one| code(one, grey)).collect(),
        // No code, or the reader panicked.
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

fn code(found: &RXingResult, grey: &GrayImage) -> Option<Code> {
    let points = found.getPoints().iter();
    let corners: Vec<Point> = points.map(|p| Point::new(p.x.into(), p.y.into())).collect();
    if corners.is_empty() {
        return None;
    }
    let mut bbox = outline::around(&corners);
    // Bar codes are read along one line, which does not show their height.
    if corners.len() <= 2 {
        let [top, bottom] = rows_alike(grey, [bbox.x1, bbox.x2], bbox.center().y);
        (bbox.y1, bbox.y2) = (top.min(bbox.y1), bottom.max(bbox.y2));
    }
    Some(Code {
        text: found.getText().to_owned(),
        bbox,
    })
}

/// The first and last row in which a bar code has the bars of row `y`.
fn rows_alike(grey: &GrayImage, [x1, x2]: [f64; 2], y: f64) -> [f64; 2] {
    let (width, height) = grey.dimensions();
    if width == 0 || height == 0 {
        return [y, y];
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "cut to the picture"
    )]
    let [from, to, row] = [
        x1.clamp(0.0, f64::from(width - 1)) as u32,
        x2.clamp(0.0, f64::from(width - 1)) as u32,
        y.clamp(0.0, f64::from(height - 1)) as u32,
    ];
    // The threshold lies midway between the darkest and the lightest pixel of the row.
    let bars = |y: u32| {
        let line = || (from..=to).map(|x| grey.get_pixel(x, y).0[0]);
        let (dark, light) = (line().min().unwrap_or(0), line().max().unwrap_or(0));
        let between = dark.midpoint(light);
        line().map(|v| v > between).collect::<Vec<bool>>()
    };
    let model = bars(row);
    let is_alike = |y: &u32| {
        let unlike = bars(*y).iter().zip(&model).filter(|(a, b)| a != b).count();
        #[expect(clippy::cast_precision_loss, reason = "pixels of a row")]
        let share = unlike as f64 / model.len().max(1) as f64;
        share <= UNLIKE
    };
    let top = (0..row).rev().take_while(is_alike).last().unwrap_or(row);
    let bottom = (row + 1..height).take_while(is_alike).last().unwrap_or(row);
    [f64::from(top), f64::from(bottom)]
}

/// Error correction level of a QR code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spare {
    /// Restores about 7 %.
    Low,
    /// Restores about 15 %.
    Medium,
    /// Restores about 25 %.
    Quartile,
    /// Restores about 30 %.
    High,
}

/// Encodes a QR code: square, row by row, true for dark, without a border.
///
/// # Errors
/// A sentence, when the text is empty or too long.
pub fn qr_code(text: &str, spare: Spare) -> Result<Vec<Vec<bool>>, String> {
    let level = match spare {
        Spare::Low => "L",
        Spare::Medium => "M",
        Spare::Quartile => "Q",
        Spare::High => "H",
    };
    let hints = EncodeHints {
        ErrorCorrection: Some(level.to_owned()),
        Margin: Some("0".to_owned()),
        CharacterSet: (!text.is_ascii()).then(|| "UTF-8".to_owned()),
        ..EncodeHints::default()
    };
    let made = QRCodeWriter.encode_with_hints(text, &BarcodeFormat::QR_CODE, 0, 0, &hints);
    let matrix = made.map_err(|e| format!("there is no QR code of this text: {e}"))?;
    let (width, height) = (matrix.getWidth(), matrix.getHeight());
    let row = |y: u32| (0..width).map(|x| matrix.get(x, y)).collect();
    Ok((0..height).map(row).collect())
}

#[cfg(test)]
mod tests {
    use image::{GrayImage, Luma};
    use rxing::{BarcodeFormat, MultiFormatWriter, Writer};

    use super::{Spare, codes, qr_code, qr_codes};

    /// Draws a code with `[across, down]` pixels per module and a light border.
    fn picture(rows: &[Vec<bool>], [across, down]: [u32; 2], border: u32) -> GrayImage {
        let count = |n: usize| u32::try_from(n).unwrap_or(0);
        let width = count(rows.first().map_or(0, Vec::len)) * across + 2 * border;
        let height = count(rows.len()) * down + 2 * border;
        GrayImage::from_fn(width, height, |x, y| {
            let place = |n: u32, size: u32| n.checked_sub(border).map(|n| (n / size) as usize);
            let cell = place(y, down).and_then(|y| rows.get(y));
            let is_dark = cell.zip(place(x, across)).and_then(|(row, x)| row.get(x));
            Luma([if is_dark.is_some_and(|d| *d) { 10 } else { 240 }])
        })
    }

    #[test]
    fn a_qr_code_that_was_made_is_read_where_it_stands() {
        let text = "Tür 7, Halle 2 – offen";
        let rows = qr_code(text, Spare::High).unwrap_or_default();
        let found = qr_codes(&picture(&rows, [5, 5], 40));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, text);
        let side = 5.0 * f64::from(u32::try_from(rows.len()).unwrap_or(0));
        let bbox = found[0].bbox;
        for (is, wanted) in [
            (bbox.x1, 40.0),
            (bbox.y1, 40.0),
            (bbox.x2, 40.0 + side),
            (bbox.y2, 40.0 + side),
        ] {
            assert!((is - wanted).abs() <= 3.0, "{bbox:?}");
        }
    }

    #[test]
    fn a_bar_code_is_read_and_is_as_high_as_its_bars() {
        let made = MultiFormatWriter.encode("4006381333931", &BarcodeFormat::EAN_13, 0, 1);
        let Ok(matrix) = made else {
            panic!("no bar code")
        };
        let row: Vec<bool> = (0..matrix.getWidth()).map(|x| matrix.get(x, 0)).collect();
        let found = codes(&picture(&[row], [3, 80], 60));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].text, "4006381333931");
        assert!((found[0].bbox.y1 - 60.0).abs() <= 1.0, "{found:?}");
        assert!((found[0].bbox.y2 - 139.0).abs() <= 1.0, "{found:?}");
    }

    #[test]
    fn nothing_is_read_where_nothing_is() {
        assert!(codes(&GrayImage::new(64, 64)).is_empty());
        assert!(qr_codes(&GrayImage::new(0, 0)).is_empty());
        assert!(codes(&GrayImage::new(1, 1)).is_empty());
    }

    #[test]
    fn a_text_that_no_code_holds_is_refused() {
        assert!(qr_code("", Spare::Low).is_err());
        assert!(qr_code(&"x".repeat(5000), Spare::Low).is_err());
    }
}
