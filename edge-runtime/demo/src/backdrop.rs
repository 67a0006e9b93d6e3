//! The empty street: a picture, scaled to the size of the scene.
//!
//! - At 640 × 360 pixels, the default, the picture is taken unchanged. A smaller scene averages its
//!   pixels, a larger one interpolates between them.
//! - The picture shows pavements, road, zebra crossing and bench where `actor` sends the figures.

use watchkeeper_config::demo::DemoOptions;
use watchkeeper_vision::{picture_file, shrink};

use super::random::Random;
use super::raster::Canvas;

const STREET: &[u8] = include_bytes!("../assets/street.png");

/// Paints the street, alike for every seed so that users recognise it.
pub(super) fn paint(options: &DemoOptions) -> Canvas {
    let mut canvas = Canvas::new(options.width, options.height);
    let street = picture_file::decode(STREET).expect("a test decodes the picture");
    let street = shrink::image_within(&street, options.width.max(options.height));
    let (last_x, last_y) = (street.width() - 1, street.height() - 1);
    for (i, pixel) in canvas.data.chunks_exact_mut(3).enumerate() {
        let (left, x_part) = between(i % canvas.width, canvas.width, last_x);
        let (top, y_part) = between(i / canvas.width, canvas.height, last_y);
        let (right, bottom) = ((left + 1).min(last_x), (top + 1).min(last_y));
        for (channel, sample) in pixel.iter_mut().enumerate() {
            let at = |x, y| f64::from(street.get_pixel(x, y).0[channel]);
            let mix = |a: f64, b: f64, part: f64| a + (b - a) * part;
            let upper = mix(at(left, top), at(right, top), x_part);
            let lower = mix(at(left, bottom), at(right, bottom), x_part);
            *sample = (mix(upper, lower, y_part) + 0.5) as u8;
        }
    }
    grain(&mut canvas);
    canvas
}

/// Position of the middle of pixel `n` of `count` among the street's pixels `0..=last`. Returns the
/// pixel before it, and the part of the way to the next one.
fn between(n: usize, count: usize, last: u32) -> (u32, f64) {
    let at = (n as f64 + 0.5) * f64::from(last + 1) / count as f64 - 0.5;
    let at = at.clamp(0.0, f64::from(last));
    (at as u32, at.fract())
}

/// Adds a fine texture, so that no surface is perfectly flat.
fn grain(canvas: &mut Canvas) {
    let mut random = Random(0x0067_7261_696e);
    let sky = canvas.height * 40 / 100 * canvas.width * 3;
    for (i, pixel) in canvas.data.chunks_exact_mut(3).enumerate() {
        let strength = if i * 3 < sky { 5 } else { 13 };
        let step = (random.next() % strength) as i16 - (strength / 2) as i16;
        for sample in pixel {
            *sample = (i16::from(*sample) + step).clamp(0, 255) as u8;
        }
    }
}
