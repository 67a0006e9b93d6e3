//! Draws labels beside boxes.

use watchkeeper_vision::draw::palette::color_of;
use watchkeeper_vision::draw::{ColorBy, Labels, LastSides, distinct};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing::{self, Paint};
use crate::workflow::blocks::common::per_video::PerVideo;

/// A property that is accepted for compatibility without effect.
const fn look(name: &'static str, shape: Shape, default: Or) -> Property {
    Property::value(name, shape)
        .without_effect("kept for compatibility: labels are scaled to the picture")
        .or(default)
}

const TEXT: Property =
    Property::choice("text", &names_of(&LABEL_TEXTS), "Class").about("content of a label");
const POSITION: Property = look("text_position", ANCHORS, Or::Text("TOP_LEFT"));
const COLOR: Property = look("text_color", Shape::Text, Or::Text("WHITE"));
const SIZE_MODE: Property = look(
    "text_size_mode",
    Shape::Choice(&["Manual", "Automatic"]),
    Or::Text("Manual"),
);
const SCALE: Property = look("text_scale", NUMBER, Or::Float(1.0));
const THICKNESS: Property = look("text_thickness", INTEGER, Or::Int(1));
const PADDING: Property = look("text_padding", INTEGER, Or::Int(10));
const RADIUS: Property = look("border_radius", INTEGER, Or::Int(0));

const V1: Manifest = Manifest {
    name: "roboflow_core/label_visualization@v1",
    summary: "Draws a label beside each detection: class, score, track or time in zone.",
    properties: drawing::palette_properties![
        TEXT, POSITION, COLOR, SCALE, THICKNESS, PADDING, RADIUS,
    ],
    build: |_| Ok(Box::new(Draw::default())),
    ..drawing::BASE
};
pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/label_visualization@v2",
        properties: drawing::palette_properties![
            TEXT, POSITION, COLOR, SIZE_MODE, SCALE, THICKNESS, PADDING, RADIUS,
        ],
        ..V1
    },
    Manifest {
        name: "roboflow_core/rich_label_visualization@v1",
        summary: "Draws a label beside each detection; the font is fixed.",
        properties: drawing::palette_properties![
            TEXT,
            POSITION,
            COLOR,
            look("font_family", FONTS, Or::Text("Geist Mono")),
            SIZE_MODE,
            look("font_size", COUNT, Or::Int(14)),
            PADDING,
            RADIUS,
            look("max_line_length", COUNT, Or::Null),
        ],
        ..V1
    },
];

const FONTS: Shape = Shape::Choice(&[
    "Anonymous Pro",
    "Courier Prime",
    "Fira Code",
    "Geist",
    "Geist Mono",
    "IBM Plex Mono",
    "Inconsolata",
    "Inter",
    "JetBrains Mono",
    "Lato",
    "Montserrat",
    "Noto Sans",
    "Nunito Sans",
    "Open Sans",
    "PT Mono",
    "Roboto",
    "Roboto Mono",
    "Source Code Pro",
    "Space Mono",
    "Work Sans",
]);

type LabelText = fn(usize, &Detection) -> String;

const LABEL_TEXTS: [(&str, LabelText); 11] = [
    ("Class", |_, d| d.class.to_string()),
    ("Confidence", |_, d| format!("{:.2}", d.confidence)),
    ("Class and Confidence", class_and_confidence),
    ("Index", |index, _| index.to_string()),
    ("Dimensions", |_, d| {
        format!("{:.0} x {:.0} px", d.bbox.width(), d.bbox.height())
    }),
    ("Area", area),
    ("Area (mask)", area),
    ("Area (converted)", area),
    ("Tracker Id", |_, d| {
        d.track
            .map_or_else(|| "no track".to_owned(), |t| t.to_string())
    }),
    ("Time In Zone", |_, d| {
        d.time_in_zone
            .map_or_else(|| "not in zone".to_owned(), |t| format!("{t:.2}s"))
    }),
    // Our own variant.
    ("Class, Tracker Id and Confidence", |index, d| {
        match d.track {
            Some(track) => format!("{} #{track} {:.2}", d.class, d.confidence),
            None => class_and_confidence(index, d),
        }
    }),
];

fn class_and_confidence(_: usize, d: &Detection) -> String {
    format!("{} {:.2}", d.class, d.confidence)
}

/// The area of the box, also where there is a mask.
fn area(_: usize, d: &Detection) -> String {
    format!("{:.0}", d.bbox.area())
}

/// Labels that are drawn after all other ink.
struct LabelInk {
    detections: Arc<Detections>,
    by: ColorBy,
    text: LabelText,
    last: LastSides,
}

impl Paint for LabelInk {
    fn paint(&self, _: &mut Canvas<'_>) {}

    fn labels(&self, labels: &mut Labels) {
        labels.remember(&self.last);
        for (i, d) in distinct(&self.detections) {
            labels.add_box(&d.bbox, d.track, (self.text)(i, d), color_of(d, i, self.by));
        }
    }
}

/// Remembers the positions of labels; not saved, because the next picture places them well enough.
#[derive(Default)]
struct Draw {
    videos: PerVideo<LastSides>,
}

impl Instance for Draw {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        let video = &call.image(arg!("image"))?.meta.video_identifier;
        let last = self.videos.get(video, || Ok(LastSides::default()))?;
        last.next_picture();
        let ink = LabelInk {
            detections: Arc::clone(call.detections(arg!("predictions"))?),
            by: drawing::color_by(call)?,
            text: call.choice(arg!("text"), &LABEL_TEXTS)?,
            last: last.clone(),
        };
        drawing::put(call, ink)
    }
}
