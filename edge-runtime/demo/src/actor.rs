//! The figures of the street: their paths, speeds and looks, and where each is at a moment.
//!
//! - Shapes from [`Actor::draw`] lie within [`Actor::reach`], so figures out of each other's reach
//!   need not be drawn to be kept apart.

use std::ops::RangeInclusive;

use super::figures::{self, Car, Person, Pose};
use super::random::Random;
use super::raster::{DESIGN_WIDTH, Rgb, Shape};

/// Kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Person,
    /// A car or a van.
    Car,
}

/// Middle of the zebra crossing in the picture of the street.
const ZEBRA_X: f64 = 432.0;
/// Position of the bench where people rest, in that picture.
const BENCH_X: f64 = 168.0;

/// Moments per second at which figures are kept apart.
pub(super) const TICKS: f64 = 5.0;

/// Left, top, right and bottom in design units.
pub(super) type Bounds = [f64; 4];

#[derive(Debug, Clone)]
enum Look {
    Person(Person),
    Car(Car),
}

/// A corner of a path, with the time of arrival.
#[derive(Debug, Clone, Copy)]
struct Stop {
    at: f64,
    x: f64,
    y: f64,
}

/// A person or car that passes.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    look: Look,
    /// At least two stops, in the order of time.
    way: Vec<Stop>,
    /// Start of the gait, so that people do not walk in step.
    phase: f64,
}

/// Where an actor is at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActorPosition {
    x: f64,
    /// The ground line; a larger value is nearer to the camera.
    pub(super) y: f64,
    /// From the last corner of the path to the next.
    dx: f64,
    dy: f64,
    /// Seconds since the actor entered.
    passed: f64,
    /// Horizontal distance from the last corner.
    along: f64,
}

impl Actor {
    pub(super) fn kind(&self) -> Kind {
        match self.look {
            Look::Person(_) => Kind::Person,
            Look::Car(_) => Kind::Car,
        }
    }

    /// When the actor enters, in seconds.
    pub(super) fn enters(&self) -> f64 {
        self.way.first().map_or(0.0, |stop| stop.at)
    }

    /// When the actor has left, in seconds.
    pub(super) fn leaves(&self) -> f64 {
        self.way.last().map_or(0.0, |stop| stop.at)
    }

    /// The place at this moment; `None` before entering and after leaving.
    pub(super) fn place(&self, seconds: f64) -> Option<ActorPosition> {
        let leg = self
            .way
            .windows(2)
            .find(|leg| (leg[0].at..leg[1].at).contains(&seconds))?;
        let (from, to) = (leg[0], leg[1]);
        let part = (seconds - from.at) / (to.at - from.at);
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let (x, y) = (from.x + dx * part, from.y + dy * part);
        Some(ActorPosition {
            x,
            y,
            dx,
            dy,
            passed: seconds - self.enters(),
            along: (x - from.x).abs(),
        })
    }

    /// The shapes of the shadow and of the figure, each from back to front.
    pub(super) fn draw(&self, place: &ActorPosition) -> (Vec<Shape>, Vec<Shape>) {
        let ActorPosition { x, y, dx, dy, .. } = *place;
        match &self.look {
            Look::Person(look) => {
                let walks = dx != 0.0 || dy != 0.0;
                let facing = if dx.abs() > dy.abs() {
                    dx.signum()
                } else {
                    0.35
                };
                let pose = Pose {
                    x,
                    y,
                    height: person_height(y),
                    facing,
                    gait: self.phase + place.passed * if walks { 0.95 } else { 0.4 },
                    stride: f64::from(u8::from(walks)),
                };
                (figures::person_shadow(&pose), figures::person(look, &pose))
            }
            Look::Car(look) => {
                let length = car_length(y, look.van);
                let rolled = place.along / (0.49 * length);
                (
                    figures::car_shadow(x, y, length),
                    figures::car(look, x, y, length, dx.signum(), rolled),
                )
            }
        }
    }

    /// A bounding box that needs no drawing: the shapes of [`Self::draw`] lie inside.
    pub(super) fn reach(&self, place: &ActorPosition) -> Bounds {
        let (x, y) = (place.x, place.y);
        let (side, up, down) = match &self.look {
            Look::Person(_) => {
                let height = person_height(y);
                (0.4 * height, 1.05 * height, 0.05 * height)
            }
            Look::Car(look) => {
                let length = car_length(y, look.van);
                (0.52 * length, 0.45 * length, 0.05 * length)
            }
        };
        [x - side, y - up, x + side, y + down]
    }

    /// The ticks in which the actor may be in the street.
    pub(super) fn ticks(&self) -> RangeInclusive<i64> {
        let (from, to) = (self.enters() * TICKS, self.leaves() * TICKS);
        from.floor() as i64..=to.ceil() as i64
    }
}

/// Height of a person; people further up the picture are further away.
fn person_height(y: f64) -> f64 {
    46.0 + (y - 182.0) / (348.0 - 182.0) * 27.0
}

fn car_length(y: f64, van: bool) -> f64 {
    let length = 78.0 + (y - 214.0) / (250.0 - 214.0) * 18.0;
    if van { length * 1.05 } else { length }
}

fn someone(random: &mut Random) -> Look {
    const SKIN: [Rgb; 5] = [
        [236, 190, 160],
        [214, 162, 128],
        [176, 124, 92],
        [128, 86, 62],
        [244, 206, 180],
    ];
    const HAIR: [Rgb; 5] = [
        [38, 28, 24],
        [84, 56, 34],
        [150, 112, 62],
        [70, 70, 74],
        [24, 22, 22],
    ];
    const TOP: [Rgb; 8] = [
        [186, 48, 48],
        [36, 84, 150],
        [230, 178, 52],
        [40, 116, 84],
        [120, 62, 130],
        [214, 108, 44],
        [28, 40, 62],
        [170, 52, 96],
    ];
    const TROUSERS: [Rgb; 5] = [
        [38, 44, 60],
        [58, 66, 86],
        [40, 38, 38],
        [84, 72, 58],
        [30, 52, 78],
    ];
    const SHOES: [Rgb; 3] = [[34, 30, 28], [232, 232, 228], [104, 66, 40]];
    const BAG: [Rgb; 3] = [[70, 56, 44], [44, 52, 66], [132, 44, 40]];
    Look::Person(Person {
        skin: random.pick(&SKIN),
        hair: random.pick(&HAIR),
        top: random.pick(&TOP),
        trousers: random.pick(&TROUSERS),
        shoes: random.pick(&SHOES),
        bag: random.next().is_multiple_of(3).then(|| random.pick(&BAG)),
    })
}

/// A person on a path of corners, at a speed in design units per second at the front of the
/// picture.
fn walker(
    random: &mut Random,
    start: f64,
    speed: f64,
    corners: &[(f64, f64)],
    pause: Option<(usize, f64)>,
) -> Actor {
    let mut at = start;
    let mut way: Vec<Stop> = Vec::with_capacity(corners.len() + 1);
    for (i, (x, y)) in corners.iter().copied().enumerate() {
        if let Some(last) = way.last() {
            let (dx, dy) = (x - last.x, y - last.y);
            // Walking away looks slower than walking across; both look slower further back.
            let distance = (dx * dx + dy * dy * 2.5).sqrt();
            at += distance / (speed * person_height((y + last.y) / 2.0) / 73.0);
        }
        way.push(Stop { at, x, y });
        if let Some((_, seconds)) = pause.filter(|(corner, _)| *corner == i) {
            at += seconds;
            way.push(Stop { at, x, y });
        }
    }
    Actor {
        look: someone(random),
        way,
        phase: random.range(0.0, 1.0),
    }
}

const LEFT: f64 = -40.0;
const RIGHT: f64 = DESIGN_WIDTH + 40.0;

fn ends(random: &mut Random) -> (f64, f64) {
    if random.coin() {
        (LEFT, RIGHT)
    } else {
        (RIGHT, LEFT)
    }
}

pub(super) fn near_walker(random: &mut Random, start: f64) -> Actor {
    let (from, to) = ends(random);
    let y = random.range(334.0, 352.0);
    let speed = random.range(58.0, 80.0);
    walker(random, start, speed, &[(from, y), (to, y)], None)
}

pub(super) fn far_walker(random: &mut Random, start: f64) -> Actor {
    let (from, to) = ends(random);
    let y = random.range(179.0, 183.0);
    let speed = random.range(58.0, 80.0);
    walker(random, start, speed, &[(from, y), (to, y)], None)
}

pub(super) fn crossing(random: &mut Random, start: f64) -> Actor {
    let x = ZEBRA_X + random.range(-24.0, 24.0);
    let leave = if random.coin() { LEFT } else { RIGHT };
    let speed = random.range(60.0, 78.0);
    let mut way = [(x, 440.0), (x, 182.0), (leave, 182.0)];
    if random.coin() {
        way.reverse();
    }
    walker(random, start, speed, &way, None)
}

pub(super) fn resting(random: &mut Random, start: f64) -> Actor {
    let (from, to) = ends(random);
    let y = random.range(300.0, 306.0) + 24.0;
    let speed = random.range(60.0, 74.0);
    let x = BENCH_X + random.range(-14.0, 14.0);
    let seconds = random.range(5.0, 9.0);
    walker(
        random,
        start,
        speed,
        &[(from, y), (x, y), (to, y)],
        Some((1, seconds)),
    )
}

pub(super) fn driver(random: &mut Random, start: f64) -> Actor {
    const PAINT: [Rgb; 7] = [
        [188, 40, 38],
        [40, 82, 148],
        [226, 228, 230],
        [46, 48, 54],
        [150, 156, 162],
        [220, 172, 50],
        [38, 104, 92],
    ];
    let far = random.coin();
    let (from, to, y) = if far {
        (DESIGN_WIDTH + 70.0, -70.0, 216.0)
    } else {
        (-70.0, DESIGN_WIDTH + 70.0, 249.0)
    };
    let speed = random.range(112.0, 150.0) * if far { 0.85 } else { 1.0 };
    let look = Car {
        paint: random.pick(&PAINT),
        van: random.next().is_multiple_of(4),
    };
    let until = start + (to - from).abs() / speed;
    Actor {
        look: Look::Car(look),
        way: vec![
            Stop {
                at: start,
                x: from,
                y,
            },
            Stop {
                at: until,
                x: to,
                y,
            },
        ],
        phase: 0.0,
    }
}
