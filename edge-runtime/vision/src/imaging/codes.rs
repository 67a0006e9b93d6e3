//! QR codes and other matrix codes, and bar codes.
//!
//! - No picture makes a function panic: a panic of the library counts as no code.
//! - The work for one picture has a bound: `scan` limits lines and samples, `parts` parts.

use image::GrayImage;
use rxing::qrcode::QRCodeWriter;
use rxing::{BarcodeFormat, EncodeHints, Writer};

mod aztec;
mod bars;
mod extent;
mod matrix;
mod parts;
mod reading;
mod scan;
#[cfg(test)]
mod tests;

pub use reading::Code;

pub fn qr_codes(grey: &GrayImage) -> Vec<Code> {
    matrix::qr_codes(grey)
}

/// Reads the codes of all kinds.
pub fn codes(grey: &GrayImage) -> Vec<Code> {
    let mut rest = grey.clone();
    let mut found = matrix::take_codes(&mut rest);
    found.extend(bars::codes(&rest));
    found
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
