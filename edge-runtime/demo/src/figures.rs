//! The shapes of people and cars.
//!
//! - Units are design units; a figure stands on `(x, y)`, the middle of its ground line.

use super::raster::{Rgb, Shape, cosine, sine};

/// The colours of a person.
#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) skin: Rgb,
    pub(super) hair: Rgb,
    pub(super) top: Rgb,
    pub(super) trousers: Rgb,
    pub(super) shoes: Rgb,
    pub(super) bag: Option<Rgb>,
}

/// The paint and body of a car.
#[derive(Debug, Clone)]
pub(super) struct Car {
    pub(super) paint: Rgb,
    pub(super) van: bool,
}

/// Where and how a person stands or walks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pose {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Height of the person.
    pub(super) height: f64,
    /// −1 to the left, 1 to the right; between them seen from the front or the back.
    pub(super) facing: f64,
    /// Steps taken, in turns of two steps.
    pub(super) gait: f64,
    /// Width of the stride, from `0.0` standing to `1.0` walking.
    pub(super) stride: f64,
}

impl Pose {
    /// An ellipse with radii in fractions of the person's height.
    fn ellipse(&self, (x, y): (f64, f64), [rx, ry]: [f64; 2], color: Rgb) -> Shape {
        Shape::ellipse(x, y, rx * self.height, ry * self.height, color)
    }
}

const SHADOW: Rgb = [28, 32, 44];

fn shade(color: Rgb, factor: f64) -> Rgb {
    color.map(|c| (f64::from(c) * factor).clamp(0.0, 255.0) as u8)
}

/// Shadow of a person on the ground.
pub(super) fn person_shadow(pose: &Pose) -> Vec<Shape> {
    let h = pose.height;
    let lean = Shape::polygon(
        vec![
            (pose.x - 0.10 * h, pose.y),
            (pose.x + 0.10 * h, pose.y),
            (pose.x + 0.34 * h, pose.y - 0.085 * h),
            (pose.x + 0.20 * h, pose.y - 0.10 * h),
        ],
        SHADOW,
    );
    let ground = (pose.x + 0.02 * h, pose.y - 0.01 * h);
    let oval = pose.ellipse(ground, [0.17, 0.035], SHADOW);
    vec![oval.faded(0.33), lean.faded(0.20)]
}

pub(super) fn person(look: &Person, pose: &Pose) -> Vec<Shape> {
    let (x, y, h, facing) = (pose.x, pose.y, pose.height, pose.facing);
    // The body sinks a little when the legs are apart.
    let sink = 0.012 * h * pose.stride * sine(pose.gait).abs();
    let hip = (x, y - 0.48 * h + sink);
    let shoulder = (x + 0.02 * h * facing, y - 0.81 * h + sink);
    let mut shapes = Vec::with_capacity(16);

    let far = 0.5;
    leg(&mut shapes, look, pose, hip, far, 0.82);
    arm(&mut shapes, look, pose, shoulder, 0.0, 0.80);
    leg(&mut shapes, look, pose, hip, 0.0, 1.0);

    torso(&mut shapes, look, pose, hip, shoulder);
    if let Some(bag) = look.bag {
        backpack(&mut shapes, bag, pose, shoulder);
    }
    arm(&mut shapes, look, pose, shoulder, far, 1.0);
    let neck = (shoulder.0 + 0.012 * h * facing, shoulder.1 - 0.02 * h);
    let skin = shade(look.skin, 0.85);
    shapes.push(Shape::limb(shoulder, neck, 0.028 * h, skin));
    let face = (neck.0 + 0.012 * h * facing, y - 0.918 * h + sink);
    head(&mut shapes, look, pose, face);
    shapes
}

/// The upper body, narrower from the side and lit from the upper left.
fn torso(
    shapes: &mut Vec<Shape>,
    look: &Person,
    pose: &Pose,
    hip: (f64, f64),
    shoulder: (f64, f64),
) {
    let (x, h) = (pose.x, pose.height);
    let side = pose.facing.abs();
    let (chest, waist) = (
        (0.085 + 0.03 * (1.0 - side)) * h,
        (0.068 + 0.018 * (1.0 - side)) * h,
    );
    let top = shoulder.1 - 0.01 * h;
    shapes.push(Shape::polygon(
        vec![
            (shoulder.0 - chest * 0.72, top),
            (shoulder.0 + chest * 0.72, top),
            (shoulder.0 + chest, top + 0.06 * h),
            (x + waist, hip.1 + 0.03 * h),
            (x - waist, hip.1 + 0.03 * h),
            (shoulder.0 - chest, top + 0.06 * h),
        ],
        look.top,
    ));
    shapes.push(
        Shape::polygon(
            vec![
                (shoulder.0 + chest * 0.25, top),
                (shoulder.0 + chest * 0.72, top),
                (shoulder.0 + chest, top + 0.06 * h),
                (x + waist, hip.1 + 0.03 * h),
                (x + waist * 0.3, hip.1 + 0.03 * h),
            ],
            shade(look.top, 0.72),
        )
        .faded(0.8),
    );
}

fn backpack(shapes: &mut Vec<Shape>, color: Rgb, pose: &Pose, shoulder: (f64, f64)) {
    let (h, facing) = (pose.height, pose.facing);
    let back = pose.x - 0.085 * h * if facing == 0.0 { 0.0 } else { facing.signum() };
    let (middle, pocket) = (shoulder.1 + 0.13 * h, shoulder.1 + 0.17 * h);
    shapes.push(pose.ellipse((back, middle), [0.055, 0.105], color));
    shapes.push(pose.ellipse((back, pocket), [0.035, 0.045], shade(color, 0.8)));
}

fn head(shapes: &mut Vec<Shape>, look: &Person, pose: &Pose, (x, y): (f64, f64)) {
    let (h, facing) = (pose.height, pose.facing);
    for (along, down, size, color) in [
        (-0.012, -0.012, [0.058, 0.068], look.hair),
        (0.016, 0.014, [0.044, 0.054], look.skin),
        (-0.006, -0.038, [0.052, 0.034], look.hair),
    ] {
        let middle = (x + along * h * facing, y + down * h);
        shapes.push(pose.ellipse(middle, size, color));
    }
}

fn leg(shapes: &mut Vec<Shape>, look: &Person, pose: &Pose, hip: (f64, f64), lag: f64, lit: f64) {
    let h = pose.height;
    let turn = pose.gait + lag;
    let side = pose.facing.abs();
    let swing = 0.075 * pose.stride * sine(turn);
    // The knee bends while the leg comes forward.
    let bend = (0.055 * pose.stride * cosine(turn)).max(0.0);
    let forward = pose.facing * h;
    let apart = if lag == 0.0 { 0.032 } else { -0.032 } * (1.0 - side) * h;
    let hip = (hip.0 + apart, hip.1);
    let knee = (
        hip.0 + (swing + bend * 0.9) * forward * 1.5,
        hip.1 + 0.235 * h - swing.abs() * 0.12 * h,
    );
    let foot = (
        hip.0 + (swing * 2.3 - bend * 0.6) * forward,
        pose.y - 0.022 * h - bend * 0.75 * h,
    );
    let cloth = shade(look.trousers, lit);
    shapes.push(Shape::limb(hip, knee, 0.050 * h, cloth));
    shapes.push(Shape::limb(knee, foot, 0.038 * h, cloth));
    let toe = (foot.0 + 0.055 * forward, foot.1 + 0.002 * h);
    shapes.push(Shape::limb(foot, toe, 0.022 * h, shade(look.shoes, lit)));
}

fn arm(
    shapes: &mut Vec<Shape>,
    look: &Person,
    pose: &Pose,
    shoulder: (f64, f64),
    lag: f64,
    lit: f64,
) {
    let h = pose.height;
    let side = pose.facing.abs();
    let swing = 0.060 * pose.stride * sine(pose.gait + lag);
    // A standing person shifts the arms a little now and then.
    let idle = 0.012 * (1.0 - pose.stride) * sine(pose.gait * 0.31 + lag);
    let apart = if lag == 0.0 { 0.095 } else { -0.095 } * (1.0 - side) * h;
    let shoulder = (shoulder.0 + apart, shoulder.1 + 0.035 * h);
    let reach = swing + idle;
    let elbow = (
        shoulder.0 + reach * h * pose.facing * 1.2 + apart * 0.15,
        shoulder.1 + 0.16 * h,
    );
    let hand = (
        elbow.0 + (reach * 1.6 + 0.02) * h * pose.facing,
        elbow.1 + 0.135 * h - reach.abs() * 0.35 * h,
    );
    let [upper, lower] = [0.9, 0.86].map(|dim| shade(look.top, lit * dim));
    shapes.push(Shape::limb(shoulder, elbow, 0.033 * h, upper));
    shapes.push(Shape::limb(elbow, hand, 0.026 * h, lower));
    shapes.push(pose.ellipse(hand, [0.024, 0.026], shade(look.skin, lit)));
}

/// Shadow of a car on the road.
pub(super) fn car_shadow(x: f64, y: f64, length: f64) -> Vec<Shape> {
    let (x, y) = (x + 0.02 * length, y - 0.005 * length);
    let oval = Shape::ellipse(x, y, 0.52 * length, 0.045 * length, [22, 24, 30]);
    vec![oval.faded(0.45)]
}

/// Corners of a closed shape in fractions of a car's length: forward from the middle, and up from
/// the ground.
type Outline = &'static [(f64, f64)];

/// The side view of a car's body and its windows.
struct CarOutline {
    body: Outline,
    windows: [Outline; 2],
}

const VAN: CarOutline = CarOutline {
    body: &[
        (-0.49, 0.07),
        (-0.50, 0.40),
        (-0.47, 0.435),
        (0.20, 0.435),
        (0.27, 0.42),
        (0.40, 0.255),
        (0.485, 0.215),
        (0.50, 0.17),
        (0.495, 0.07),
    ],
    windows: [
        &[(0.13, 0.255), (0.13, 0.395), (0.245, 0.395), (0.36, 0.255)],
        &[(-0.10, 0.255), (-0.10, 0.395), (0.10, 0.395), (0.10, 0.255)],
    ],
};

const SALOON: CarOutline = CarOutline {
    body: &[
        (-0.49, 0.065),
        (-0.50, 0.17),
        (-0.485, 0.215),
        (-0.36, 0.235),
        (-0.25, 0.325),
        (-0.19, 0.345),
        (0.06, 0.345),
        (0.11, 0.335),
        (0.24, 0.228),
        (0.44, 0.192),
        (0.49, 0.155),
        (0.50, 0.065),
    ],
    windows: [
        &[
            (-0.325, 0.237),
            (-0.235, 0.313),
            (-0.185, 0.325),
            (-0.06, 0.325),
            (-0.06, 0.237),
        ],
        &[
            (-0.04, 0.237),
            (-0.04, 0.325),
            (0.055, 0.325),
            (0.095, 0.315),
            (0.195, 0.237),
        ],
    ],
};

/// Where a car stands and in which direction it drives.
#[derive(Debug, Clone, Copy)]
struct Stance {
    x: f64,
    y: f64,
    length: f64,
    /// −1 to the left, 1 to the right.
    facing: f64,
}

impl Stance {
    /// A polygon with corners as in an [`Outline`].
    fn polygon(&self, corners: &[(f64, f64)], color: Rgb) -> Shape {
        let place = |(along, up): &(f64, f64)| {
            let x = self.x + along * self.facing * self.length;
            (x, self.y - up * self.length)
        };
        Shape::polygon(corners.iter().map(place).collect(), color)
    }

    fn rectangle(&self, [rear, front]: [f64; 2], [low, high]: [f64; 2], color: Rgb) -> Shape {
        self.polygon(
            &[(rear, low), (rear, high), (front, high), (front, low)],
            color,
        )
    }
}

/// A car seen from its side; `facing` is −1 to the left or 1 to the right, `rolled` the turns of
/// its wheels.
pub(super) fn car(look: &Car, x: f64, y: f64, length: f64, facing: f64, rolled: f64) -> Vec<Shape> {
    let stance = Stance {
        x,
        y,
        length,
        facing,
    };
    let outline = if look.van { &VAN } else { &SALOON };
    let mut shapes = Vec::with_capacity(24);
    car_body(&mut shapes, look.paint, outline.body, stance);
    for window in outline.windows {
        car_window(&mut shapes, window, stance);
    }
    for door in [-0.05, 0.16] {
        car_door(&mut shapes, look.paint, door, stance);
    }
    car_lights(&mut shapes, stance);
    for along in [-0.30, 0.30] {
        wheel(&mut shapes, look.paint, along, rolled, stance);
    }
    shapes
}

/// The body with its lower half in shade and a light edge under the windows.
fn car_body(shapes: &mut Vec<Shape>, paint: Rgb, body: Outline, stance: Stance) {
    shapes.push(stance.polygon(body, paint));
    let lower = [
        (-0.492, 0.065),
        (-0.498, 0.135),
        (0.497, 0.125),
        (0.498, 0.065),
    ];
    let lower = stance.polygon(&lower, shade(paint, 0.62));
    shapes.push(lower.faded(0.85));
    let edge = [(-0.47, 0.208), (-0.47, 0.216), (0.40, 0.206), (0.40, 0.198)];
    let edge = stance.polygon(&edge, shade(paint, 1.35));
    shapes.push(edge.faded(0.7));
}

/// A pane with a reflection in its upper part.
fn car_window(shapes: &mut Vec<Shape>, pane: Outline, stance: Stance) {
    shapes.push(stance.polygon(pane, [46, 58, 72]));
    let top: Vec<(f64, f64)> = pane
        .iter()
        .map(|(along, up)| (*along, if *up < 0.26 { 0.29 } else { *up }))
        .collect();
    shapes.push(stance.polygon(&top, [150, 178, 200]).faded(0.35));
}

/// The gap and the handle of a door.
fn car_door(shapes: &mut Vec<Shape>, paint: Rgb, door: f64, stance: Stance) {
    let gap = stance.rectangle([door, door + 0.006], [0.08, 0.235], shade(paint, 0.5));
    let (handle, dark) = ([door - 0.055, door - 0.015], shade(paint, 0.45));
    shapes.push(gap.faded(0.7));
    shapes.push(stance.rectangle(handle, [0.196, 0.206], dark));
}

fn car_lights(shapes: &mut Vec<Shape>, stance: Stance) {
    let front = [
        (0.44, 0.155),
        (0.455, 0.182),
        (0.488, 0.165),
        (0.493, 0.148),
    ];
    let rear = [
        (-0.497, 0.155),
        (-0.492, 0.198),
        (-0.462, 0.200),
        (-0.468, 0.155),
    ];
    shapes.push(stance.polygon(&front, [255, 246, 214]));
    shapes.push(stance.polygon(&rear, [196, 38, 34]));
}

fn wheel(shapes: &mut Vec<Shape>, paint: Rgb, along: f64, rolled: f64, stance: Stance) {
    let (cx, cy, r) = (
        stance.x + along * stance.facing * stance.length,
        stance.y - 0.078 * stance.length,
        0.078 * stance.length,
    );
    let arch = shade(paint, 0.35);
    shapes.push(Shape::ellipse(cx, cy, r * 1.16, r * 1.12, arch));
    shapes.push(Shape::ellipse(cx, cy, r, r, [26, 27, 30]));
    shapes.push(Shape::ellipse(cx, cy, r * 0.62, r * 0.62, [172, 176, 182]));
    for spoke in 0..5 {
        let turn = rolled * stance.facing + f64::from(spoke) / 5.0;
        let tip = (cx + r * 0.56 * cosine(turn), cy + r * 0.56 * sine(turn));
        shapes.push(Shape::limb((cx, cy), tip, r * 0.09, [82, 86, 92]));
    }
    shapes.push(Shape::ellipse(cx, cy, r * 0.16, r * 0.16, [60, 62, 66]));
}
