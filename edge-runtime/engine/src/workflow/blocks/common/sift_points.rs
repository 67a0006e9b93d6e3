//! Points of pictures as values, for the blocks that find and compare them; how they are found is
//! [`imaging::sift`].
//!
//! Owns their form as values, which is the peer's, and the picture that shows them.

use std::sync::Arc;

use watchkeeper_vision::draw::{Canvas, palette};
use watchkeeper_vision::geometry::Point;
use watchkeeper_vision::imaging::sift::{self, Descriptor, Keypoint, MOST_PIXELS};
use watchkeeper_vision::imaging::{self, Plane};

use crate::workflow::values::image::ImageValue;
use crate::workflow::values::value::{Array, Value};

/// Radius of a drawn point in pixels, and width of its line.
const RADIUS: f64 = 3.0;
const LINE: f64 = 1.0;

/// Points, each with what is around it.
pub(crate) type Found = Vec<(Keypoint, Descriptor)>;

/// The points of a picture.
///
/// # Errors
/// Where the picture is too large to look for them.
pub(crate) fn of(image: &ImageValue) -> Result<Found, String> {
    let [width, height] = image.size();
    if width as usize * height as usize > MOST_PIXELS {
        return Err(format!(
            "a picture of {width}x{height} has more than {MOST_PIXELS} pixels; make it smaller with image_preprocessing"
        ));
    }
    let grey = Plane::from(&imaging::grey(&image.pixels.rgb()));
    Ok(sift::features(&grey))
}

/// The points as a list of dictionaries.
pub(crate) fn list(found: &[(Keypoint, Descriptor)]) -> Value {
    let number = |n: f32| Value::Float(f64::from(n));
    let one = |(k, _): &(Keypoint, Descriptor)| {
        Value::dict([
            ("pt", Value::list(k.place.map(number).to_vec())),
            ("size", number(k.size)),
            ("angle", number(k.angle)),
            ("response", number(k.response)),
            ("octave", Value::Int(k.octave.into())),
            // Points have no classes here.
            ("class_id", Value::Int(-1)),
        ])
    };
    Value::list(found.iter().map(one).collect())
}

/// A row of numbers for each point; nothing where there are no points.
pub(crate) fn descriptors(found: &[(Keypoint, Descriptor)]) -> Value {
    let numbers = found
        .iter()
        .flat_map(|(_, d)| d.iter().copied().map(f32::from));
    let width = found.first().map_or(0, |(_, d)| d.len());
    let array = Array::new(vec![found.len(), width], numbers.collect());
    array.filter(|_| width > 0).map_or(Value::Null, Value::from)
}

/// The picture without its colours, with a circle around each point.
pub(crate) fn drawn(image: &ImageValue, found: &[(Keypoint, Descriptor)]) -> ImageValue {
    let places: Arc<[Point]> = found.iter().map(|(k, _)| k.point()).collect();
    image.changed(image.size(), move |pixels| {
        let mut out = imaging::coloured(&imaging::grey(pixels));
        let (width, height) = (out.width, out.height);
        let mut canvas = Canvas::new(&mut out.data, width, height);
        for (number, place) in (0..).zip(&*places) {
            canvas.arc(
                *place,
                [RADIUS, RADIUS],
                [0.0, 360.0],
                palette::color(number),
                LINE,
            );
        }
        out
    })
}
