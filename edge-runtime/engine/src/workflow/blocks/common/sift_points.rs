//! SIFT keypoints as values in the peer's form, and drawn on a picture; see [`imaging::sift`].

use watchkeeper_vision::draw::palette;
use watchkeeper_vision::imaging::sift::{self, Descriptor, Keypoint, MAX_PIXELS};

use crate::workflow::block_api::prelude::*;

/// Radius of a drawn keypoint and width of its line, in pixels.
const RADIUS: f64 = 3.0;
const LINE: f64 = 1.0;

pub(crate) type Found = Vec<(Keypoint, Descriptor)>;

/// Finds the keypoints of a picture. Fails if the picture is too large.
pub(crate) fn find(image: &ImageValue) -> Result<Found, String> {
    let [width, height] = image.size();
    if width as usize * height as usize > MAX_PIXELS {
        return Err(format!(
            "a picture of {width}x{height} has more than {MAX_PIXELS} pixels; make it smaller with \
             image_preprocessing"
        ));
    }
    let grey = Plane::from(&imaging::grey(&image.pixels.rgb()));
    Ok(sift::features(&grey))
}

/// The keypoints as a list of dictionaries.
pub(crate) fn list(found: &[(Keypoint, Descriptor)]) -> Value {
    let number = |n: f32| Value::Float(f64::from(n));
    let one = |(k, _): &(Keypoint, Descriptor)| {
        Value::dict([
            ("pt", Value::list(k.place.map(number).to_vec())),
            ("size", number(k.size)),
            ("angle", number(k.angle)),
            ("response", number(k.response)),
            ("octave", Value::Int(k.octave.into())),
            // Keypoints have no class.
            ("class_id", Value::Int(-1)),
        ])
    };
    Value::list(found.iter().map(one).collect())
}

/// The descriptors as rows of an array; null without keypoints.
pub(crate) fn descriptors(found: &[(Keypoint, Descriptor)]) -> Value {
    let numbers = found
        .iter()
        .flat_map(|(_, d)| d.iter().copied().map(f32::from));
    let width = found.first().map_or(0, |(_, d)| d.len());
    let array = Array::new(vec![found.len(), width], numbers.collect());
    array.filter(|_| width > 0).map_or(Value::Null, Value::from)
}

/// The picture in grey, with a circle around each keypoint.
pub(crate) fn drawn(image: &ImageValue, found: &[(Keypoint, Descriptor)]) -> ImageValue {
    let places: Arc<[Point]> = found.iter().map(|(k, _)| k.point()).collect();
    image.changed(image.size(), move |pixels| {
        let mut out = imaging::coloured(&imaging::grey(pixels));
        let mut canvas = Canvas::on(&mut out);
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
