//! Pictures of a replay: some of its events, each on the nearest kept picture, in one JPEG.
//!
//! - The events are divided into up to [`MAX_EVENTS`] parts of about one size in the order of time.
//!   Of each the one nearest to a kept picture is shown, because pictures are seconds apart.
//! - Nothing more is decoded or drawn once the caller is gone.

use image::RgbImage;
use watchkeeper_contract::backtest::BacktestEvent;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_engine::workflow::codec;
use watchkeeper_vision::draw::palette::COLORS;
use watchkeeper_vision::draw::{Canvas, Labels};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::{jpeg, picture_file};

use crate::clock;
use crate::history::{SeenPicture, StoredChunk};
use crate::pipeline::pixels::arrange_in_columns;

/// Most events in the strip.
const MAX_EVENTS: usize = 6;
const COLUMNS: u32 = 3;
/// Longest distance of a picture from its event, in milliseconds.
const MAX_DISTANCE_MS: u64 = 10_000;
/// Longest distance at which the bounding box of the event is drawn, in milliseconds.
const MAX_BOX_DISTANCE_MS: u64 = 1_000;
/// JPEG quality, from 1 to 100.
const QUALITY: u8 = 80;
const LINE_WIDTH: f64 = 2.0;

/// Draws events of a replay on the pictures of its chunks; base64 of a JPEG. `None` if no event has
/// a picture, or the caller `is_gone`.
pub(super) fn draw(
    chunks: &[StoredChunk],
    events: &[BacktestEvent],
    is_gone: &dyn Fn() -> bool,
) -> Option<String> {
    let mut loaded = (None, Vec::new());
    let parts = parts(events).take_while(|_| !is_gone());
    let shown = parts.filter_map(|part| {
        let near = part.iter().filter_map(|event| {
            let mut before = chunks.iter().rev();
            let chunk = before.find(|chunk| chunk.head.start_ms <= event.at_ms)?;
            if loaded.0 != Some(chunk.head.start_ms) {
                loaded = (Some(chunk.head.start_ms), chunk.pictures());
            }
            nearest(&loaded.1, chunk.head.start_ms, event)
        });
        near.min_by_key(|shown| shown.distance_ms)
    });
    let drawn: Vec<RgbImage> = shown.filter_map(|shown| draw_event(&shown)).collect();
    let sheet = arrange_in_columns(&drawn, COLUMNS).filter(|_| !is_gone())?;
    match jpeg::encode(&sheet, QUALITY) {
        Ok(jpeg) => Some(codec::to_base64(&jpeg)),
        Err(error) => {
            tracing::debug!(%error, "no pictures of the backtest");
            None
        }
    }
}

/// Divides the events into as many parts as there are pictures to show.
fn parts(events: &[BacktestEvent]) -> impl Iterator<Item = &[BacktestEvent]> {
    let number = events.len().min(MAX_EVENTS);
    let start = move |nth: usize| nth * events.len() / number;
    (0..number).filter_map(move |nth| events.get(start(nth)..start(nth + 1)))
}

/// An event and the picture nearest to it.
struct ShownEvent<'e> {
    event: &'e BacktestEvent,
    jpeg: Vec<u8>,
    distance_ms: u64,
}

/// The event with the nearest of the pictures of a chunk, at most [`MAX_DISTANCE_MS`] away.
fn nearest<'e>(
    pictures: &[SeenPicture],
    start_ms: i64,
    event: &'e BacktestEvent,
) -> Option<ShownEvent<'e>> {
    let distance_ms =
        |seen: &SeenPicture| (start_ms + i64::from(seen.wall_ms)).abs_diff(event.at_ms);
    let seen = pictures.iter().min_by_key(|seen| distance_ms(seen))?;
    let shown = ShownEvent {
        event,
        jpeg: seen.jpeg.clone(),
        distance_ms: distance_ms(seen),
    };
    (shown.distance_ms <= MAX_DISTANCE_MS).then_some(shown)
}

/// The picture of an event with its time and class, and its bounding box where the object is still
/// about there.
fn draw_event(shown: &ShownEvent<'_>) -> Option<RgbImage> {
    let event = shown.event;
    let mut picture = picture_file::decode(&shown.jpeg).ok()?;
    let (width, height) = picture.dimensions();
    let bbox = event.event.bbox;
    let bbox = bbox.filter(|_| shown.distance_ms <= MAX_BOX_DISTANCE_MS);
    let [x1, y1, x2, y2] = bbox.unwrap_or([0.0, 0.0, 1.0, 1.0]);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(at_ms: i64) -> BacktestEvent {
        let event = json!({
            "at_ms": at_ms, "severity": "info",
            "decision": {"verdict": "act", "confidence": 0.9, "reason": "r"},
            "event": {"rule": "r", "condition": "enters", "reason": "r", "tracks": [],
                "frame": 1, "pts_s": 0.0},
        });
        serde_json::from_value(event).expect("an event")
    }

    #[test]
    fn events_are_divided_into_six_parts_or_one_each() {
        for number in 0..40 {
            let events: Vec<BacktestEvent> = (0..number).map(event).collect();
            let sizes: Vec<usize> = parts(&events).map(<[_]>::len).collect();
            assert_eq!(sizes.len(), events.len().min(MAX_EVENTS), "{number}");
            assert_eq!(sizes.iter().sum::<usize>(), events.len());
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            assert!(
                most.is_none_or(|most| most - least.unwrap_or(most) <= 1),
                "{sizes:?}"
            );
        }
    }

    #[test]
    fn no_picture_is_drawn_for_a_caller_that_is_gone() {
        let thresholds = json!({"confidence": 0.5, "iou": null, "class_agnostic": false});
        let head = json!({
            "format": 1, "source": "yard", "address": "", "model": "m", "labels": [],
            "knows_classes": true, "follows_one_picture": false, "size": [64, 48],
            "asked": thresholds, "own": thresholds, "fps": null, "recorded": false,
            "looks": {"every_s": 0.0, "on_motion": false}, "start_ms": 0,
        });
        let head = serde_json::from_value(head).expect("a head");
        let jpeg = jpeg::encode(&RgbImage::new(64, 48), QUALITY).expect("a JPEG");
        let folder = tempfile::tempdir().expect("a folder");
        let chunks = [StoredChunk::with_picture(folder.path(), head, jpeg)];
        let events = [event(0), event(1), event(2)];
        assert!(draw(&chunks, &events, &|| false).is_some());
        assert_eq!(draw(&chunks, &events, &|| true), None);
        let asked = std::cell::Cell::new(0);
        let leaves = || asked.replace(asked.get() + 1) > 0;
        assert_eq!(draw(&chunks, &events, &leaves), None, "after one part");
    }

    #[test]
    fn event_is_shown_on_the_nearest_picture_within_ten_seconds() {
        let picture = |wall_ms: u32| SeenPicture {
            wall_ms,
            jpeg: wall_ms.to_le_bytes().to_vec(),
        };
        let pictures = [picture(0), picture(5_000), picture(9_000)];
        let found = |at_ms: i64| {
            let event = event(at_ms);
            let shown = nearest(&pictures, 1_000_000, &event)?;
            Some((shown.jpeg, shown.distance_ms))
        };
        assert_eq!(found(1_005_900), Some((picture(5_000).jpeg, 900)));
        assert_eq!(found(1_019_000), Some((picture(9_000).jpeg, 10_000)));
        assert_eq!(found(1_019_001), None);
    }

    #[test]
    fn pictures_stand_in_rows_of_three() {
        let of =
            |number: usize| arrange_in_columns(&vec![RgbImage::new(320, 180); number], COLUMNS);
        assert_eq!(of(0), None);
        assert_eq!(arrange_in_columns(&[RgbImage::new(320, 180)], 0), None);
        for (number, size) in [(1, (320, 180)), (3, (960, 180)), (5, (960, 360))] {
            assert_eq!(of(number).map(|sheet| sheet.dimensions()), Some(size));
        }
    }
}
