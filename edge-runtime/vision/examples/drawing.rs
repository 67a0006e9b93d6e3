//! Draws everything the engine can draw: `cargo run --example drawing -- OUT.png [PICTURE]`.

use anyhow::Context as _;
use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::draw::{self, Canvas, ColorBy, Look, Traces, palette};
use watchkeeper_vision::geometry::{Anchor, BBox, Point};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let out = args.next().context("usage: drawing OUT.png [PICTURE]")?;
    let mut picture = match args.next() {
        Some(path) => image::open(&path)
            .with_context(|| format!("reading {path}"))?
            .to_rgb8(),
        None => image::RgbImage::from_fn(1280, 720, |x, y| {
            let v = (60 + y / 8 + (x / 40 + y / 40) % 2 * 6) as u8;
            image::Rgb([v, v, v.saturating_add(8)])
        }),
    };
    let (w, h) = picture.dimensions();
    let at = |x: f64, y: f64| Point::new(x * f64::from(w), y * f64::from(h));

    let mut traces = Traces::new(Anchor::BottomCenter, 40);
    let mut frame = Detections::default();
    for step in 0..40 {
        frame = frame_at(f64::from(step) / 40.0, w, h);
        traces.update(&frame);
    }

    let mut pixels = picture.as_flat_samples_mut();
    let mut canvas = Canvas::new(pixels.as_mut_slice(), w, h);
    let dock = [at(0.08, 0.35), at(0.38, 0.3), at(0.42, 0.85), at(0.05, 0.9)];
    draw::zone(&mut canvas, &dock, "dock: 1", palette::COLORS[2]);
    draw::traces(&mut canvas, &traces, ColorBy::Class);
    draw::line_counter(&mut canvas, at(0.5, 0.95), at(0.75, 0.45), "gate", (3, 12));
    draw::line_counter(&mut canvas, at(0.55, 0.1), at(0.8, 0.1), "", (0, 1));
    draw::detections(&mut canvas, &frame, &Look::default());
    picture
        .save(&out)
        .with_context(|| format!("writing {out}"))?;
    Ok(())
}

/// Four objects at time `t`, `0.0..1.0`, in a picture of this size.
fn frame_at(t: f64, width: u32, height: u32) -> Detections {
    let (w, h) = (f64::from(width), f64::from(height));
    let object = |i: u8, class: &str, x: f64, y: f64, half: f64, tall: f64| Detection {
        track: Some(TrackId(i64::from(i) + 1)),
        time_in_zone: (i == 0).then_some(4.0 + t),
        ..Detection::new(
            BBox::new(
                (x - half) * w,
                (y - tall) * h,
                (x + half) * w,
                (y + tall) * h,
            ),
            0.62 + 0.08 * f64::from(i),
            i64::from(i),
            class,
            DetectionId::Local {
                stream: 0,
                number: u64::from(i),
            },
        )
    };
    let person = (0.15 + 0.12 * t, 0.55 + 0.08 * (t * 5.0).sin());
    Detections {
        boxes: vec![
            object(0, "person", person.0, person.1, 0.03, 0.12),
            object(1, "car", 0.85 - 0.25 * t, 0.75, 0.09, 0.09),
            object(2, "bicycle", 0.45, 0.2 + 0.1 * t, 0.04, 0.07),
            object(3, "truck", 0.93, 0.12, 0.09, 0.13),
        ],
        size: [width, height],
    }
}
