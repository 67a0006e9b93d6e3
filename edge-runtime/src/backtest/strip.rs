//! Pictures of a replay: some of its events, each on the nearest kept picture, in one JPEG.

use image::RgbImage;
use image::imageops::replace;
use watchkeeper_contract::backtest::BacktestEvent;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_engine::workflow::codec;
use watchkeeper_vision::draw::palette::COLORS;
use watchkeeper_vision::draw::{Canvas, Labels};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::{jpeg, picture_file};

use crate::clock;
use crate::history::{SeenPicture, StoredChunk};

/// Most events in the strip.
const MAX_EVENTS: usize = 6;
const COLUMNS: usize = 3;
/// Longest distance of a picture from its event, in milliseconds.
const MAX_DISTANCE_MS: u64 = 10_000;
/// JPEG quality, from 1 to 100.
const QUALITY: u8 = 80;
const LINE_WIDTH: f64 = 2.0;

/// Draws events of a replay on the pictures of its chunks; base64 of a JPEG. `None` where no event
/// has a picture.
pub(super) fn draw(chunks: &[StoredChunk], events: &[BacktestEvent]) -> Option<String> {
    let drawn = spread(events.len()).filter_map(|place| draw_event(chunks, events.get(place)?));
    let drawn: Vec<RgbImage> = drawn.collect();
    let sheet = arrange(&drawn)?;
    match jpeg::encode(&sheet, QUALITY) {
        Ok(jpeg) => Some(codec::to_base64(&jpeg)),
        Err(error) => {
            tracing::debug!(%error, "no pictures of the backtest");
            None
        }
    }
}

/// Places of at most [`MAX_EVENTS`] of `number` events, evenly spread, with the first and the last.
fn spread(number: usize) -> impl Iterator<Item = usize> {
    let taken = number.min(MAX_EVENTS);
    let steps = taken.saturating_sub(1).max(1);
    (0..taken).map(move |n| n * number.saturating_sub(1) / steps)
}

/// The picture nearest to an event, with its time, class and bounding box.
fn draw_event(chunks: &[StoredChunk], event: &BacktestEvent) -> Option<RgbImage> {
    let before = chunks.iter().rev();
    let mut before = before.skip_while(|chunk| chunk.head.start_ms > event.at_ms);
    let chunk = before.next()?;
    let at_ms = |seen: &SeenPicture| chunk.head.start_ms + i64::from(seen.wall_ms);
    let pictures = chunk.pictures();
    let nearest = pictures.iter();
    let nearest = nearest.min_by_key(|seen| at_ms(seen).abs_diff(event.at_ms))?;
    if at_ms(nearest).abs_diff(event.at_ms) > MAX_DISTANCE_MS {
        return None;
    }
    let mut picture = picture_file::decode(&nearest.jpeg).ok()?;
    let (width, height) = picture.dimensions();
    let [x1, y1, x2, y2] = event.event.bbox.unwrap_or([0.0, 0.0, 1.0, 1.0]);
    let (w, h) = (f64::from(width), f64::from(height));
    let bbox = BBox::new(x1 * w, y1 * h, x2 * w, y2 * h);
    let mut canvas = Canvas::new(&mut picture, width, height);
    let [color, ..] = COLORS;
    canvas.outline_box(&bbox, color, LINE_WIDTH);
    let mut labels = Labels::new();
    labels.add_box(&bbox, None, caption(event), color);
    labels.draw(&mut canvas);
    Some(picture)
}

/// Local time and class of an event.
fn caption(event: &BacktestEvent) -> String {
    let wall = Wall {
        unix_ms: event.at_ms,
        quality: TimeQuality::Synced,
    };
    let minute = clock::local(wall).minute_of_day;
    let what = event.event.label.as_ref().unwrap_or(&event.event.rule);
    format!("{:02}:{:02} {what}", minute / 60, minute % 60)
}

/// Puts pictures side by side in rows of [`COLUMNS`]; `None` without any.
fn arrange(pictures: &[RgbImage]) -> Option<RgbImage> {
    let width = pictures.iter().map(RgbImage::width).max()?;
    let height = pictures.iter().map(RgbImage::height).max()?;
    let columns = pictures.len().min(COLUMNS);
    let rows = pictures.len().div_ceil(COLUMNS);
    let mut sheet = RgbImage::new(width * columns as u32, height * rows as u32);
    for (n, picture) in pictures.iter().enumerate() {
        let (column, row) = (n % COLUMNS, n / COLUMNS);
        let x = column as i64 * i64::from(width);
        replace(&mut sheet, picture, x, row as i64 * i64::from(height));
    }
    Some(sheet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_spread_with_the_first_and_the_last() {
        let places = |number| spread(number).collect::<Vec<_>>();
        assert_eq!(places(0), [0; 0]);
        assert_eq!(places(1), [0]);
        assert_eq!(places(4), [0, 1, 2, 3]);
        assert_eq!(places(200), [0, 39, 79, 119, 159, 199]);
    }

    #[test]
    fn pictures_stand_in_rows_of_three() {
        let of = |number: usize| arrange(&vec![RgbImage::new(320, 180); number]);
        assert_eq!(of(0), None);
        for (number, size) in [(1, (320, 180)), (3, (960, 180)), (5, (960, 360))] {
            assert_eq!(of(number).map(|sheet| sheet.dimensions()), Some(size));
        }
    }
}
