//! Geotags detections of a camera that looks straight down.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/geotag_detection@v1",
    summary: "Computes latitude and longitude of detections, for a camera that looks straight down \
              from a known position, such as a drone.",
    properties: &[
        Property::data("image", &[Kind::Image]).about("the picture"),
        Property::data("predictions", BOXES).about("the detections"),
        Property::value("latitude", NUMBER).about("latitude of the camera in degrees"),
        Property::value("longitude", NUMBER).about("longitude of the camera in degrees"),
        Property::value("altitude", NUMBER).about("height of the camera above ground in metres"),
        Property::number("horizontal_fov", 73.7).about("horizontal angle of view in degrees"),
        Property::number("heading", 0.0)
            .about("direction of the top of the picture, in degrees clockwise from north"),
    ],
    outputs: &[
        Output::new("geo_detections", &[Kind::ListOfValues]),
        Output::new("geojson", &[Kind::Dictionary]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

/// Metres per degree of latitude.
const METRES_PER_DEGREE: f64 = 111_320.0;

/// A camera that looks straight down.
struct Camera {
    latitude: f64,
    longitude: f64,
    /// Width and height of the visible ground in metres.
    ground: [f64; 2],
    picture: [f64; 2],
    /// Clockwise from north, in radians.
    heading: f64,
}

impl Camera {
    /// Returns latitude and longitude of a point of the picture.
    fn locate(&self, x: f64, y: f64) -> [f64; 2] {
        let [width, height] = self.picture;
        let right = (x - width / 2.0) / width * self.ground[0];
        let up = -(y - height / 2.0) / height * self.ground[1];
        let (sin, cos) = self.heading.sin_cos();
        let (east, north) = (right * cos + up * sin, -right * sin + up * cos);
        let per_degree_east = METRES_PER_DEGREE * self.latitude.to_radians().cos();
        [
            self.latitude + north / METRES_PER_DEGREE,
            self.longitude + east / per_degree_east,
        ]
    }
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let picture = call.image(arg!("image"))?.size().map(f64::from);
    let altitude = call.number(arg!("altitude"))?.max(0.0);
    let width = 2.0 * altitude * (call.number(arg!("horizontal_fov"))?.to_radians() / 2.0).tan();
    let camera = Camera {
        latitude: call.number(arg!("latitude"))?,
        longitude: call.number(arg!("longitude"))?,
        ground: [width, width * picture[1] / picture[0]],
        picture,
        heading: call.number(arg!("heading"))?.to_radians(),
    };
    let round = |n: f64, digits: i32| {
        let scale = 10_f64.powi(digits);
        Value::Float((n * scale).round_ties_even() / scale)
    };
    let (mut rows, mut features) = (Vec::new(), Vec::new());
    for d in &call.detections(arg!("predictions"))?.boxes {
        let c = d.bbox.center();
        let [latitude, longitude] = camera.locate(c.x, c.y);
        let (latitude, longitude) = (round(latitude, 7), round(longitude, 7));
        let class = || ("class", Value::Text(d.class.clone()));
        let confidence = || ("confidence", round(d.confidence, 4));
        let place = vec![longitude.clone(), latitude.clone()];
        rows.push(Value::dict([
            class(),
            confidence(),
            ("lat", latitude),
            ("lon", longitude),
            ("pixel_x", round(c.x, 1)),
            ("pixel_y", round(c.y, 1)),
            ("width", round(d.bbox.width(), 1)),
            ("height", round(d.bbox.height(), 1)),
        ]));
        features.push(Value::dict([
            ("type", Value::from("Feature")),
            (
                "geometry",
                Value::dict([
                    ("type", Value::from("Point")),
                    ("coordinates", Value::list(place)),
                ]),
            ),
            ("properties", Value::dict([class(), confidence()])),
        ]));
    }
    call.finish_all((
        rows,
        Value::dict([
            ("type", Value::from("FeatureCollection")),
            ("features", Value::list(features)),
        ]),
    ))
}
