//! Reads matrix codes: QR, Data Matrix, Aztec and PDF417.
//!
//! MaxiCode is not read: its detector in rxing 0.9.3 hangs on pictures of vertical stripes.

use std::collections::HashSet;

use image::{GrayImage, Luma, imageops};
use rxing::aztec::AztecReader;
use rxing::common::HybridBinarizer;
use rxing::datamatrix::DataMatrixReader;
use rxing::multi::{GenericMultipleBarcodeReader, MultipleBarcodeReader};
use rxing::pdf417::PDF417Reader;
use rxing::qrcode::cpp_port::QrReader;
use rxing::{BarcodeFormat, BinaryBitmap, DecodeHints, Luma8LuminanceSource, RXingResult};

use super::aztec;
use super::reading::{Code, guarded};
use crate::geometry::{BBox, Point};
use crate::outline;

type Bitmap = BinaryBitmap<HybridBinarizer<Luma8LuminanceSource>>;

pub(super) fn qr_codes(grey: &GrayImage) -> Vec<Code> {
    read(
        bitmap(grey).as_mut(),
        &mut QrReader,
        &[BarcodeFormat::QR_CODE],
    )
}

/// Reads matrix codes of all kinds, and paints the places of those found white.
///
/// Without the paint, the reader of Data Matrix spends 30 ms on the corners of a QR code.
pub(super) fn take_codes(grey: &mut GrayImage) -> Vec<Code> {
    const QR: [BarcodeFormat; 3] = [
        BarcodeFormat::QR_CODE,
        BarcodeFormat::MICRO_QR_CODE,
        BarcodeFormat::RECTANGULAR_MICRO_QR_CODE,
    ];
    let mut rest = Rest {
        bitmap: bitmap(grey),
        grey,
        codes: Vec::new(),
    };
    rest.take(&mut QrReader, &QR);
    let mut data_matrix = GenericMultipleBarcodeReader::new(DataMatrixReader);
    rest.take(&mut data_matrix, &[BarcodeFormat::DATA_MATRIX]);
    let mut aztec = GenericMultipleBarcodeReader::new(AztecReader);
    rest.take(&mut aztec, &[BarcodeFormat::AZTEC]);
    rest.take_aztec_anywhere();
    let mut pdf417 = GenericMultipleBarcodeReader::new(PDF417Reader);
    rest.take(&mut pdf417, &[BarcodeFormat::PDF_417]);
    rest.codes
}

/// The rest of a picture, after the codes that were found are painted white.
struct Rest<'a> {
    grey: &'a mut GrayImage,
    /// Made from `grey`; it keeps the picture as black and white for all readers.
    bitmap: Option<Bitmap>,
    codes: Vec<Code>,
}

impl Rest<'_> {
    fn take(&mut self, reader: &mut impl MultipleBarcodeReader, formats: &[BarcodeFormat]) {
        let found = read(self.bitmap.as_mut(), reader, formats);
        self.keep(found);
    }

    /// Takes Aztec codes that are not in the middle of the picture.
    fn take_aztec_anywhere(&mut self) {
        let squares = guarded(|| {
            let bitmap = self.bitmap.as_ref()?;
            Some(aztec::squares(bitmap.get_black_matrix()))
        });
        for [x, y, side] in squares.unwrap_or_default() {
            let part = imageops::crop_imm(&*self.grey, x, y, side, side).to_image();
            let mut reader = GenericMultipleBarcodeReader::new(AztecReader);
            let mut part = bitmap(&part);
            let mut found = read(part.as_mut(), &mut reader, &[BarcodeFormat::AZTEC]);
            for code in &mut found {
                code.bbox = code.bbox.moved(x.into(), y.into());
            }
            self.keep(found);
        }
    }

    fn keep(&mut self, found: Vec<Code>) {
        if found.is_empty() {
            return;
        }
        for code in &found {
            paint_white(self.grey, code.bbox);
        }
        self.codes.extend(found);
        self.bitmap = bitmap(self.grey);
    }
}

fn read(
    bitmap: Option<&mut Bitmap>,
    reader: &mut impl MultipleBarcodeReader,
    formats: &[BarcodeFormat],
) -> Vec<Code> {
    let hints = DecodeHints {
        TryHarder: Some(true),
        PossibleFormats: Some(formats.iter().copied().collect::<HashSet<_>>()),
        ..DecodeHints::default()
    };
    let found = guarded(|| reader.decode_multiple_with_hints(bitmap?, &hints).ok());
    found.iter().flatten().filter_map(code).collect()
}

fn bitmap(grey: &GrayImage) -> Option<Bitmap> {
    let (width, height) = grey.dimensions();
    let source = Luma8LuminanceSource::new(grey.as_raw().clone(), width, height).ok()?;
    Some(BinaryBitmap::new(HybridBinarizer::new(source)))
}

fn code(found: &RXingResult) -> Option<Code> {
    let points = found.getPoints().iter();
    let corners: Vec<Point> = points.map(|p| Point::new(p.x.into(), p.y.into())).collect();
    (!corners.is_empty()).then(|| Code {
        text: found.getText().to_owned(),
        is_qr: *found.getBarcodeFormat() == BarcodeFormat::QR_CODE,
        bbox: outline::around(&corners),
    })
}

fn paint_white(grey: &mut GrayImage, bbox: BBox) {
    let [left, top, right, bottom] =
        [bbox.x1, bbox.y1, bbox.x2.ceil(), bbox.y2.ceil()].map(|side| side.max(0.0) as u32);
    for y in top..bottom.min(grey.height()) {
        for x in left..right.min(grey.width()) {
            grey.put_pixel(x, y, Luma([u8::MAX]));
        }
    }
}
