//! Contact sheets: small pictures in rows, with captions, as one JPEG.

use std::path::Path;

use image::imageops::replace;
use image::{Rgb, RgbImage};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use watchkeeper_vision::draw::palette::Color;
use watchkeeper_vision::draw::{Canvas, TextBox};
use watchkeeper_vision::geometry::Point;
use watchkeeper_vision::jpeg;
use watchkeeper_vision::shrink;

use crate::measure::upright;
use crate::picture::{Picture, PictureError};

/// Most pictures on one sheet.
pub const MAX_PICTURES: usize = 400;

/// Side in pixels of the square that a small picture fits into.
const CELL: u32 = 240;
/// Height in pixels of the caption below it.
const CAPTION: u32 = 24;
const COLUMNS: u32 = 5;
/// Pictures that are made small together, on all cores.
const CHUNK: usize = 32;
const MARGIN: u32 = 8;
/// JPEG quality, from 1 to 100.
const QUALITY: u8 = 85;
const PAPER: Color = Color::INK;

/// A contact sheet.
#[derive(Debug)]
pub struct Sheet {
    pub jpeg: Vec<u8>,
    /// Number of pictures on it.
    pub pictures: usize,
    /// Why each of the others is left out.
    pub unreadable: Vec<String>,
}

/// Why a sheet can't be made.
#[derive(Debug, thiserror::Error)]
pub enum SheetError {
    #[error("a sheet of {0} pictures is too large; take at most {MAX_PICTURES}")]
    TooMany(usize),
    #[error("a sheet needs at least one picture")]
    Empty,
    #[error("interrupted")]
    Interrupted,
    #[error("no picture can be read: {}", .0.join("; "))]
    Unreadable(Vec<String>),
    #[error("the sheet can't be encoded: {0}")]
    Encode(String),
}

/// Scales a picture down to fit a square of `side` pixels.
///
/// # Errors
/// If the file can't be read or decoded.
pub fn small(file: &Path, side: u32) -> Result<RgbImage, PictureError> {
    Ok(shrink::image_within(&upright(file)?, side).into_owned())
}

/// Draws a sheet of captioned pictures. One that can't be read is left out. `continues` is asked
/// before each [`CHUNK`].
///
/// # Errors
/// If there is no picture or there are too many, none can be read, encoding fails, or `continues`
/// returned false.
pub fn draw(
    pictures: &[(&Picture, String)],
    continues: &dyn Fn() -> bool,
) -> Result<Sheet, SheetError> {
    if pictures.len() > MAX_PICTURES {
        return Err(SheetError::TooMany(pictures.len()));
    }
    if pictures.is_empty() {
        return Err(SheetError::Empty);
    }
    let (mut cells, mut unreadable) = (Vec::new(), Vec::new());
    for chunk in pictures.chunks(CHUNK) {
        if !continues() {
            return Err(SheetError::Interrupted);
        }
        let made = chunk
            .par_iter()
            .map(|(picture, _)| small(Path::new(&picture.file), CELL));
        let made: Vec<Result<RgbImage, PictureError>> = made.collect();
        for ((_, caption), made) in chunk.iter().zip(made) {
            match made {
                Ok(small) => cells.push((small, caption)),
                Err(error) => unreadable.push(error.to_string()),
            }
        }
    }
    let number = u32::try_from(cells.len()).unwrap_or(u32::MAX);
    let columns = number.min(COLUMNS);
    if columns == 0 {
        return Err(SheetError::Unreadable(unreadable));
    }
    let (across, down) = (CELL + MARGIN, CELL + CAPTION + MARGIN);
    let size = [columns * across, number.div_ceil(columns) * down];
    let [width, height] = size.map(|side| side + MARGIN);
    let mut sheet = RgbImage::from_pixel(width, height, Rgb([PAPER.r, PAPER.g, PAPER.b]));
    for (n, (small, caption)) in (0_u32..).zip(&cells) {
        let left = MARGIN + n % columns * across;
        let top = MARGIN + n / columns * down;
        let x = left + (CELL - small.width()) / 2;
        let y = top + (CELL - small.height()) / 2;
        replace(&mut sheet, small, i64::from(x), i64::from(y));
        write(&mut sheet, left, top + CELL, caption);
    }
    let jpeg = jpeg::encode(&sheet, QUALITY);
    Ok(Sheet {
        jpeg: jpeg.map_err(|error| SheetError::Encode(error.to_string()))?,
        pictures: cells.len(),
        unreadable,
    })
}

fn write(sheet: &mut RgbImage, left: u32, top: u32, caption: &str) {
    let style = TextBox {
        color: Color::WHITE,
        background: PAPER,
        opacity: 1.0,
        scale: 0.6,
        padding: 2.0,
        radius: 0.0,
    };
    let fits = |text: &str| style.measure(&[text])[0] <= f64::from(CELL);
    let mut text = caption.to_owned();
    let mut end = caption.len();
    while !fits(&text) {
        let Some((before, _)) = caption
            .get(..end)
            .and_then(|kept| kept.char_indices().next_back())
        else {
            break;
        };
        end = before;
        text = format!("{}…", caption.get(..end).unwrap_or_default().trim_end());
    }
    let (width, height) = sheet.dimensions();
    let mut canvas = Canvas::new(sheet, width, height);
    let at = Point::new(f64::from(left), f64::from(top));
    style.draw(&mut canvas, at, &[&text], 0.0);
}
