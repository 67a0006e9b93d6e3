//! Measures the sharpness of pictures.

use watchkeeper_vision::draw::TextBox;
use watchkeeper_vision::imaging::focus;
use watchkeeper_vision::numbers::average;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/camera_focus@v1",
        summary: "Measures the sharpness of a picture (Brenner), and shows where it is sharp.",
        properties: &[IMAGE],
        outputs: &[
            Output::new("image", &[Kind::Image]),
            Output::new("focus_measure", &[Kind::Float]),
        ],
        build: |_| Ok(Box::new(brenner)),
        ..Manifest::of("classical_computer_vision")
    },
    Manifest {
        name: "roboflow_core/camera_focus@v2",
        summary: "Measures the sharpness of a picture and its detections (Tenengrad), and shows \
                  sharpness and exposure.",
        properties: &[
            IMAGE,
            Property::literal("underexposed_threshold_percent", Shape::Number(0.0, 100.0))
                .about("brightness in percent below which a pixel is too dark")
                .or(Or::Float(3.0)),
            Property::literal("overexposed_threshold_percent", Shape::Number(0.0, 100.0))
                .about("brightness in percent above which a pixel is too bright")
                .or(Or::Float(97.0)),
            Property::switch("show_zebra_warnings", true)
                .about("whether pixels that are too dark or too bright are hatched"),
            Property::literal_choice("grid_overlay", &["None", "2x2", "3x3", "4x4", "5x5"], "3x3")
                .about("grid lines over the picture"),
            Property::switch("show_hud", true).about("whether numbers are shown"),
            Property::switch("show_focus_peaking", true).about("whether sharp edges are coloured"),
            Property::switch("show_center_marker", true).about("whether the middle is marked"),
            Property::optional_data("detections", BOXES)
                .about("detections whose sharpness to measure too"),
        ],
        outputs: &[
            Output::new("image", &[Kind::Image]),
            Output::new("focus_measure", &[Kind::Float]),
            Output::new("bbox_focus_measures", &[Kind::ListOfValues]),
        ],
        build: |_| Ok(Box::new(tenengrad)),
        ..Manifest::of("classical_computer_vision")
    },
];

fn brenner(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let (measure, mean) = focus::brenner(&Plane::from(&imaging::grey(&image.pixels.rgb())));
    call.put(1, mean);
    let [width, height] = image.size();
    let shown = lazy([width, height], move || {
        let most = measure.iter().copied().fold(0.0, f64::max);
        let light = |m: &f64| {
            if most > 0.0 {
                (m / most * 255.0) as u8
            } else {
                0
            }
        };
        let mut out = RgbPixels {
            width,
            height,
            data: measure.iter().flat_map(|m| [light(m); 3]).collect(),
        };
        let mut canvas = Canvas::new(&mut out.data, width, height);
        draw_text(&mut canvas, &format!("Focus value: {mean:.2}"));
        out
    });
    call.finish(image.with_pixels(shown))
}

/// Writes a line into the upper left corner.
fn draw_text(canvas: &mut Canvas<'_>, line: &str) {
    let text = TextBox {
        color: Color::WHITE,
        background: Color::INK,
        opacity: 0.7,
        scale: canvas.scale(),
        padding: 6.0,
        radius: 0.0,
    };
    text.draw(canvas, Point::new(8.0, 8.0), &[line], 0.0);
}

#[derive(Debug, Clone, Copy)]
struct Overlays {
    dark: u8,
    light: u8,
    zebra: bool,
    peaking: bool,
    marker: bool,
    parts: u32,
    numbers: bool,
}

fn tenengrad(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let overlays = Overlays::read(call)?;
    let grey = Plane::from(&imaging::grey(&image.pixels.rgb()));
    let measure = focus::tenengrad(&grey);
    let mean = average(measure.iter().copied());
    call.put(1, mean);
    if let Value::Detections(all) = call.arg(arg!("detections")) {
        let of = |b: &BBox| sharpness_in(b, &grey, &measure);
        call.put(2, all.boxes.iter().map(|d| of(&d.bbox)).collect::<Vec<_>>());
    } else {
        call.put(2, Vec::new());
    }
    call.finish(image.changed(image.size(), move |pixels| {
        overlays.draw(pixels, &grey, &measure, mean)
    }))
}

/// Mean sharpness in a box; null if it is empty.
fn sharpness_in(b: &BBox, grey: &Plane, measure: &[f64]) -> Value {
    let range = |from: f64, to: f64, most: usize| {
        (from.max(0.0) as usize)..(to.max(0.0) as usize).min(most)
    };
    let columns = range(b.x1, b.x2, grey.width);
    let rows = range(b.y1, b.y2, grey.height);
    if columns.is_empty() || rows.is_empty() {
        return Value::Null;
    }
    let each = rows.flat_map(|y| columns.clone().map(move |x| y * grey.width + x));
    Value::Float(average(each.filter_map(|i| measure.get(i).copied())))
}

impl Overlays {
    fn read(call: &Call<'_>) -> Result<Self, String> {
        let level = |arg: Arg| {
            let percent = call.number(arg)?.clamp(0.0, 100.0);
            let level = (percent * 255.0 / 100.0) as u8;
            Ok::<u8, String>(level)
        };
        Ok(Self {
            dark: level(arg!("underexposed_threshold_percent"))?,
            light: level(arg!("overexposed_threshold_percent"))?,
            zebra: call.boolean(arg!("show_zebra_warnings"))?,
            peaking: call.boolean(arg!("show_focus_peaking"))?,
            marker: call.boolean(arg!("show_center_marker"))?,
            parts: call
                .text(arg!("grid_overlay"))?
                .chars()
                .next()
                .and_then(|c| c.to_digit(10))
                .unwrap_or(1),
            numbers: call.boolean(arg!("show_hud"))?,
        })
    }

    /// Marks pixels that are too dark, too bright, or sharp.
    fn draw_pixels(self, canvas: &mut Canvas<'_>, grey: &Plane, measure: &[f64]) {
        let most = measure.iter().copied().fold(0.0, f64::max);
        for (i, (light, sharp)) in grey.data.iter().zip(measure).enumerate() {
            let (x, y) = (i % grey.width, i / grey.width);
            let mut mark = |color: Color, alpha: f64| {
                let at = |n: usize| i64::try_from(n).unwrap_or(0);
                canvas.blend(at(x), at(y), color, alpha);
            };
            if self.zebra && ((x + y) / 8).is_multiple_of(2) {
                if *light < self.dark {
                    mark(Color::new(0, 0, 255), 0.5);
                } else if *light > self.light {
                    mark(Color::new(255, 0, 0), 0.5);
                }
            }
            if self.peaking && *sharp > most * 0.3 {
                mark(Color::new(0, 255, 0), 0.6);
            }
        }
    }

    /// Draws the marker of the centre and the grid.
    fn draw_lines(self, canvas: &mut Canvas<'_>) {
        let (w, h) = (canvas.width(), canvas.height());
        if self.marker {
            let (x, y, arm) = (w / 2.0, h / 2.0, 20.0 * canvas.scale());
            canvas.segment(
                Point::new(x - arm, y),
                Point::new(x + arm, y),
                Color::WHITE,
                1.5,
                1.0,
            );
            canvas.segment(
                Point::new(x, y - arm),
                Point::new(x, y + arm),
                Color::WHITE,
                1.5,
                1.0,
            );
        }
        for i in 1..self.parts {
            let share = f64::from(i) / f64::from(self.parts);
            let line = Color::new(128, 128, 128);
            canvas.segment(
                Point::new(w * share, 0.0),
                Point::new(w * share, h),
                line,
                1.0,
                1.0,
            );
            canvas.segment(
                Point::new(0.0, h * share),
                Point::new(w, h * share),
                line,
                1.0,
                1.0,
            );
        }
    }

    fn draw(self, pixels: &RgbPixels, grey: &Plane, measure: &[f64], mean: f64) -> RgbPixels {
        let mut out = pixels.clone();
        let mut canvas = Canvas::on(&mut out);
        self.draw_pixels(&mut canvas, grey, measure);
        self.draw_lines(&mut canvas);
        if self.numbers {
            draw_text(&mut canvas, &format!("Focus {mean:.1}"));
        }
        out
    }
}
