//! Shapes and labels that several blocks draw.

use std::sync::Arc;

use watchkeeper_vision::detections::{Detection, Detections};
use watchkeeper_vision::draw::palette::color_of;
use watchkeeper_vision::draw::{self, Canvas, Color, ColorBy, Labels, LastSides, Traces};
use watchkeeper_vision::geometry::{Anchor, Point};

use super::drawing::Paint;

/// Shapes that several blocks draw.
#[derive(Debug)]
pub(crate) enum Ink {
    Boxes {
        detections: Arc<Detections>,
        by: ColorBy,
        thickness: f64,
    },
    Labels {
        detections: Arc<Detections>,
        by: ColorBy,
        text: LabelText,
        last: LastSides,
    },
    Dots {
        detections: Arc<Detections>,
        by: ColorBy,
        anchor: Anchor,
        radius: f64,
    },
    Traces {
        traces: Traces,
        by: ColorBy,
    },
    Tints {
        detections: Arc<Detections>,
        by: ColorBy,
        opacity: f64,
    },
    Zones {
        polygons: Vec<Vec<Point>>,
        color: Color,
        opacity: f64,
        /// Text at the first polygon; empty for none.
        label: String,
    },
    Line {
        start: Point,
        end: Point,
        label: String,
    },
}

/// Content of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelText {
    Class,
    Confidence,
    ClassAndConfidence,
    Index,
    Dimensions,
    Area,
    Track,
    TimeInZone,
    /// Class, track and confidence; our own variant.
    ClassTrackAndConfidence,
}

/// Names of label texts in definitions. Without a mask, the area is that of the box.
pub(crate) const LABEL_TEXTS: [(&str, LabelText); 11] = [
    ("Class", LabelText::Class),
    ("Confidence", LabelText::Confidence),
    ("Class and Confidence", LabelText::ClassAndConfidence),
    ("Index", LabelText::Index),
    ("Dimensions", LabelText::Dimensions),
    ("Area", LabelText::Area),
    ("Area (mask)", LabelText::Area),
    ("Area (converted)", LabelText::Area),
    ("Tracker Id", LabelText::Track),
    ("Time In Zone", LabelText::TimeInZone),
    (
        "Class, Tracker Id and Confidence",
        LabelText::ClassTrackAndConfidence,
    ),
];

impl LabelText {
    fn of(self, index: usize, d: &Detection) -> String {
        let b = &d.bbox;
        match self {
            Self::Class => d.class.to_string(),
            Self::Confidence => format!("{:.2}", d.confidence),
            Self::ClassAndConfidence => format!("{} {:.2}", d.class, d.confidence),
            Self::Index => index.to_string(),
            Self::Dimensions => format!("{:.0} x {:.0} px", b.width(), b.height()),
            Self::Area => format!("{:.0}", b.area()),
            Self::Track => d
                .track
                .map_or_else(|| "no track".to_owned(), |t| t.to_string()),
            Self::ClassTrackAndConfidence => match d.track {
                Some(track) => format!("{} #{track} {:.2}", d.class, d.confidence),
                None => Self::ClassAndConfidence.of(index, d),
            },
            Self::TimeInZone => d
                .time_in_zone
                .map_or_else(|| "not in zone".to_owned(), |t| format!("{t:.2}s")),
        }
    }
}

impl Paint for Ink {
    fn paint(&self, canvas: &mut Canvas<'_>) {
        match self {
            Self::Boxes {
                detections,
                by,
                thickness,
            } => draw::boxes(canvas, detections, *by, Some(*thickness)),
            Self::Labels { .. } => {}
            Self::Dots {
                detections,
                by,
                anchor,
                radius,
            } => {
                for (i, d) in detections.boxes.iter().enumerate() {
                    canvas.disc(d.bbox.anchor(*anchor), *radius, color_of(d, i, *by));
                }
            }
            Self::Traces { traces, by } => draw::traces(canvas, traces, *by),
            Self::Tints {
                detections,
                by,
                opacity,
            } => draw::tints(canvas, detections, *by, *opacity),
            Self::Zones {
                polygons,
                color,
                opacity,
                ..
            } => {
                for polygon in polygons {
                    draw::zone(canvas, polygon, *color, *opacity);
                }
            }
            Self::Line { start, end, .. } => draw::line(canvas, *start, *end),
        }
    }

    fn labels(&self, labels: &mut Labels) {
        match self {
            Self::Labels {
                detections,
                by,
                text,
                last,
            } => {
                labels.remember(last);
                for (i, d) in draw::distinct(detections) {
                    labels.add_box(&d.bbox, d.track, text.of(i, d), color_of(d, i, *by));
                }
            }
            Self::Zones {
                polygons,
                color,
                label,
                ..
            } => {
                if let Some(polygon) = polygons.first() {
                    labels.add_zone(polygon, label.clone(), *color);
                }
            }
            Self::Line { start, end, label } => {
                labels.add_line(*start, *end, label.clone(), Color::WHITE);
            }
            Self::Boxes { .. } | Self::Dots { .. } | Self::Traces { .. } | Self::Tints { .. } => {}
        }
    }
}
