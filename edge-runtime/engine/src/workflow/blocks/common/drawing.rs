//! Visualizations: pictures with something drawn on them, rendered on demand.
//!
//! - Running a workflow touches no pixel.
//! - A [`Drawing`] is immutable and rendered at most once, with one copy of the frame for a whole
//!   chain of visualizations.
//! - Labels of a chain are placed together and drawn last, whichever step adds them.

use std::fmt;
use std::sync::OnceLock;

use watchkeeper_vision::draw::palette::color_of;
use watchkeeper_vision::draw::{ColorBy, Labels};

use crate::workflow::block_api::prelude::*;
use crate::workflow::block_api::property;
use crate::workflow::values::image::Pixels;

/// A picture with something drawn on it.
pub(crate) struct Drawing {
    base: Arc<dyn Pixels>,
    ink: Arc<dyn Paint>,
    /// Whether the ink holds pixels of a picture.
    holds_pixels: bool,
    /// With its labels.
    rendered: OnceLock<Arc<RgbPixels>>,
}

impl fmt::Debug for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Drawing on {:?}", self.base)
    }
}

pub(crate) trait Paint: Send + Sync {
    fn paint(&self, canvas: &mut Canvas<'_>);

    /// Adds the labels to draw when all steps have painted.
    fn labels(&self, _labels: &mut Labels) {}
}

impl<F: Fn(&mut Canvas<'_>) + Send + Sync> Paint for F {
    fn paint(&self, canvas: &mut Canvas<'_>) {
        self(canvas);
    }
}

impl Pixels for Drawing {
    fn size(&self) -> [u32; 2] {
        self.base.size()
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        Arc::clone(self.rendered.get_or_init(|| Arc::new(self.render())))
    }

    fn copy(&self) -> RgbPixels {
        match self.rendered.get() {
            Some(done) => RgbPixels::clone(done),
            None => self.render(),
        }
    }

    fn copy_without_labels(&self) -> RgbPixels {
        match self.rendered.get() {
            Some(done) if self.collect_labels().is_empty() => RgbPixels::clone(done),
            Some(_) | None => self.render_shapes(),
        }
    }

    fn labels(&self, labels: &mut Labels) {
        self.base.labels(labels);
        self.ink.labels(labels);
    }

    fn redrawn(&self, from: &Arc<dyn Pixels>, to: &Arc<dyn Pixels>) -> Option<Arc<dyn Pixels>> {
        if self.holds_pixels {
            return None;
        }
        let base = if Arc::ptr_eq(&self.base, from) {
            Arc::clone(to)
        } else {
            self.base.redrawn(from, to)?
        };
        Some(Arc::new(Self {
            base,
            ink: Arc::clone(&self.ink),
            holds_pixels: false,
            rendered: OnceLock::new(),
        }))
    }
}

impl Drawing {
    fn render(&self) -> RgbPixels {
        let mut picture = self.render_shapes();
        self.collect_labels().draw(&mut Canvas::on(&mut picture));
        picture
    }

    fn render_shapes(&self) -> RgbPixels {
        let mut picture = self.base.copy_without_labels();
        self.ink.paint(&mut Canvas::on(&mut picture));
        picture
    }

    fn collect_labels(&self) -> Labels {
        let mut labels = Labels::new();
        Pixels::labels(self, &mut labels);
        labels
    }
}

/// Sets output 0 to the picture of [`IMAGE`] with `ink` drawn on it. The ink holds no pixels of a
/// picture.
pub(crate) fn put(call: &mut Call<'_>, ink: impl Paint + 'static) -> Result<(), String> {
    put_ink(call, Arc::new(ink), false)
}

/// Like [`put`], for ink that holds pixels of a picture.
pub(crate) fn put_pixels(call: &mut Call<'_>, ink: impl Paint + 'static) -> Result<(), String> {
    put_ink(call, Arc::new(ink), true)
}

fn put_ink(call: &mut Call<'_>, ink: Arc<dyn Paint>, holds_pixels: bool) -> Result<(), String> {
    let image = call.image(arg!(PROPERTIES, "image"))?;
    let drawing = Drawing {
        base: Arc::clone(&image.pixels),
        ink,
        holds_pixels,
        rendered: OnceLock::new(),
    };
    call.finish(Value::Image(Arc::new(image.with_pixels(Arc::new(drawing)))))
}

/// Draws each detection of [`PREDICTIONS`] in its colour, scaled to the picture in
/// which it was found.
pub(crate) fn each(
    call: &mut Call<'_>,
    draw: impl Fn(&mut Canvas<'_>, &Detection, [u32; 2], Color) + Send + Sync + 'static,
) -> Result<(), String> {
    let ink = each_ink(call, draw)?;
    put(call, ink)
}

/// Like [`each`], for ink that holds pixels of a picture.
pub(crate) fn each_with_pixels(
    call: &mut Call<'_>,
    draw: impl Fn(&mut Canvas<'_>, &Detection, [u32; 2], Color) + Send + Sync + 'static,
) -> Result<(), String> {
    let ink = each_ink(call, draw)?;
    put_pixels(call, ink)
}

fn each_ink(
    call: &mut Call<'_>,
    draw: impl Fn(&mut Canvas<'_>, &Detection, [u32; 2], Color) + Send + Sync + 'static,
) -> Result<impl Paint + 'static, String> {
    let detections = Arc::clone(call.detections(arg!(PROPERTIES, "predictions"))?);
    let by = color_by(call)?;
    Ok(move |canvas: &mut Canvas<'_>| {
        for (i, d) in detections.boxes.iter().enumerate() {
            draw(canvas, d, detections.size, color_of(d, i, by));
        }
    })
}

/// Pixels covered by a detection: its mask, or its box.
pub(crate) fn covered(d: &Detection, size: [u32; 2]) -> Bitmap {
    match d.mask() {
        Some(mask) => mask.bitmap(size),
        None => Bitmap::fill(&d.bbox.corners(), size),
    }
}

/// First properties of every visualization. Palettes are accepted but not used: our own colours can
/// be distinguished with any colour vision.
pub(crate) const IMAGE: Property = property::IMAGE.about("the picture to draw on");
pub(crate) const COPY: Property = Property::boolean("copy_image", true)
    .without_effect("kept for compatibility: a picture is never drawn on in place");
pub(crate) const PREDICTIONS: Property =
    Property::data("predictions", ANY_DETECTIONS).about("what to draw");
/// [`PREDICTIONS`] for blocks that draw outlines of masks.
pub(crate) const MASKS: Property = Property::data(
    "predictions",
    &[Kind::InstanceSegmentation, Kind::RleInstanceSegmentation],
)
.about("what to draw");
pub(crate) const OPACITY: Property =
    Property::share("opacity", 0.5).about("how opaque the colour is, 0 to 1");
pub(crate) const THICKNESS: Property =
    Property::integer("thickness", 2).about("width of the line in pixels");
pub(crate) const PALETTE: Property = Property::choice(
    "color_palette",
    &[
        "DEFAULT",
        "CUSTOM",
        "ROBOFLOW",
        "Matplotlib Viridis",
        "Matplotlib Plasma",
        "Matplotlib Inferno",
        "Matplotlib Magma",
        "Matplotlib Cividis",
        "Matplotlib Pastel1",
        "Matplotlib Pastel2",
        "Matplotlib Paired",
        "Matplotlib Accent",
        "Matplotlib Dark2",
        "Matplotlib Set1",
        "Matplotlib Set2",
        "Matplotlib Set3",
        "Matplotlib Tab10",
        "Matplotlib Tab20",
        "Matplotlib Tab20b",
        "Matplotlib Tab20c",
    ],
    "DEFAULT",
)
.without_effect("kept for compatibility: the colours are our own");
pub(crate) const PALETTE_SIZE: Property = Property::integer("palette_size", 10)
    .without_effect("kept for compatibility: the colours are our own");
pub(crate) const CUSTOM_COLORS: Property =
    Property::value_or("custom_colors", Shape::Texts(0), Or::EmptyList)
        .without_effect("kept for compatibility: the colours are our own");
pub(crate) const COLOR_AXIS: Property =
    Property::choice("color_axis", &names_of(&COLOR_AXES), "CLASS")
        .about("what decides the colour: index in the list, class or track");
const COLOR_AXES: [(&str, ColorBy); 3] = [
    ("INDEX", ColorBy::Index),
    ("CLASS", ColorBy::Class),
    ("TRACK", ColorBy::Track),
];
/// Text beside a line or zone, of our own blocks.
pub(crate) const LABEL: Property =
    Property::text("label", "").about("name written beside it, before its counts; empty for none");
pub(crate) const OUTPUTS: &[Output] = &[Output::new("image", &[Kind::Image])];
/// The properties of a visualization with colours of a palette, before `more` of its own; `of` is
/// what it draws.
macro_rules! palette_properties {
    (of $predictions:expr; $($more:expr),* $(,)?) => {
        &[
            $crate::workflow::blocks::common::drawing::IMAGE,
            $crate::workflow::blocks::common::drawing::COPY,
            $predictions,
            $crate::workflow::blocks::common::drawing::PALETTE,
            $crate::workflow::blocks::common::drawing::PALETTE_SIZE,
            $crate::workflow::blocks::common::drawing::CUSTOM_COLORS,
            $crate::workflow::blocks::common::drawing::COLOR_AXIS,
            $($more),*
        ]
    };
    ($($more:expr),* $(,)?) => {
        $crate::workflow::blocks::common::drawing::palette_properties![
            of $crate::workflow::blocks::common::drawing::PREDICTIONS; $($more),*
        ]
    };
}
pub(crate) use palette_properties;

/// First properties of a visualization that colours detections.
const PROPERTIES: &[Property] = palette_properties![];

/// Returns what decides the colour of a box.
pub(crate) fn color_by(call: &Call<'_>) -> Result<ColorBy, String> {
    call.choice(arg!(PROPERTIES, "color_axis"), &COLOR_AXES)
}

/// Parses a colour: `#5bb573`, `#5b7`, `rgb(91, 181, 115)` or one of a few names.
pub(crate) fn color(text: &str) -> Result<Color, String> {
    let wrong = || format!("{text:?} is not a colour; write #rrggbb, rgb(r, g, b) or a name");
    let hex = |digits: &str| u8::from_str_radix(digits, 16).map_err(|_| wrong());
    let lower = text.trim().to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix('#') {
        // `from_str_radix` would accept a sign.
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        return match digits.len() {
            6 => Ok(Color::new(
                hex(&digits[0..2])?,
                hex(&digits[2..4])?,
                hex(&digits[4..6])?,
            )),
            3 => Ok(Color::new(
                hex(&digits[0..1])? * 17,
                hex(&digits[1..2])? * 17,
                hex(&digits[2..3])? * 17,
            )),
            _ => Err(wrong()),
        };
    }
    if let Some(inner) = lower.strip_prefix("rgb(").and_then(|t| t.strip_suffix(')')) {
        let parts: Vec<u8> = inner
            .split(',')
            .map(|p| p.trim().parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?;
        return match parts.as_slice() {
            [r, g, b] => Ok(Color::new(*r, *g, *b)),
            _ => Err(wrong()),
        };
    }
    Ok(match lower.as_str() {
        "white" => Color::WHITE,
        "black" => Color::new(0, 0, 0),
        "grey" | "gray" => Color::new(128, 128, 128),
        "red" => Color::new(255, 0, 0),
        "green" => Color::new(0, 255, 0),
        "blue" => Color::new(0, 0, 255),
        "yellow" => Color::new(255, 255, 0),
        "roboflow" => Color::new(163, 81, 251),
        _ => return Err(wrong()),
    })
}

/// Parses a colour from text or from a list of red, green and blue.
pub(crate) fn color_of_value(value: &Value) -> Result<Color, String> {
    if let Some(text) = value.as_str() {
        return color(text);
    }
    let byte = |v: &Value| u8::try_from(v.as_i64()?).ok();
    match value.as_list() {
        Some([r, g, b]) => Some((byte(r), byte(g), byte(b))),
        _ => None,
    }
    .and_then(|(r, g, b)| Some(Color::new(r?, g?, b?)))
    .ok_or_else(|| "a colour is [red, green, blue], each from 0 to 255, or text".to_owned())
}

/// Defaults of all visualizations.
pub(crate) const BASE: Manifest = Manifest {
    role: Role::Visualization,
    outputs: OUTPUTS,
    ..Manifest::of("visualization")
};

#[cfg(test)]
mod tests {
    use super::{Color, color};

    #[test]
    fn colours_parse_in_every_notation() {
        let green = Ok(Color::new(0x5b, 0xb5, 0x73));
        assert_eq!(color("#5bb573"), green);
        assert_eq!(color("rgb(91, 181, 115)"), green);
        assert_eq!(color("#fff"), Ok(Color::WHITE));
        assert_eq!(color("WHITE"), Ok(Color::WHITE));
    }

    #[test]
    fn invalid_colour_is_refused() {
        for text in [
            "",
            "#12",
            "#gggggg",
            "rgb(1,2)",
            "rgb(1,2,999)",
            "#é1234",
            "sky",
        ] {
            assert!(color(text).is_err(), "{text}");
        }
    }
}
