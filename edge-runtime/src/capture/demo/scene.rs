//! Who is where and when.
//!
//! People walk along both pavements and over the zebra crossing, some rest at the bench, cars drive in two lanes.
//! Invariant: figures are placed one after the other and a candidate whose box would come closer than [`GAP`] to
//! another one at any time is thrown away, so nobody hides anybody and nobody is run over.

use super::figures::{self, Car, Person, Pose};
use super::options::DemoOptions;
use super::raster::{DESIGN_WIDTH, Rgb, Shape};
use super::truth::Kind;

/// Smallest distance between two boxes, design units.
const GAP: f64 = 6.0;

/// Nobody enters before the street was seen empty for this long, seconds.
const EMPTY_START: f64 = 1.0;

/// Candidates tried for each figure.
const TRIES: u32 = 60;

/// Middle of the zebra crossing.
pub(super) const ZEBRA_X: f64 = 432.0;
/// Where the bench stands that people rest at.
pub(super) const BENCH_X: f64 = 168.0;

/// Random numbers: splitmix64 (Steele, Lea and Flood 2014), the same everywhere and for ever.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between `low` and `high`.
    pub(super) fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (self.next() >> 11) as f64 / (1u64 << 53) as f64 * (high - low)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize].clone()
    }

    fn coin(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }
}

/// One figure at one moment.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) object: usize,
    pub(super) kind: Kind,
    /// Shadow first, then the figure from back to front.
    pub(super) shapes: Vec<Shape>,
    /// Bounds without the shadow, design units: left, top, right, bottom.
    pub(super) bounds: [f64; 4],
}

#[derive(Debug, Clone)]
enum Look {
    Person(Person),
    Car(Car),
}

/// A corner of a way: when somebody is where.
#[derive(Debug, Clone, Copy)]
struct Stop {
    at: f64,
    x: f64,
    y: f64,
}

#[derive(Debug, Clone)]
struct Actor {
    look: Look,
    /// At least two stops, in the order of time.
    way: Vec<Stop>,
    /// Start of the gait, so that not everybody walks in step.
    phase: f64,
}

/// The plan of the whole scene.
#[derive(Debug)]
pub(super) struct Scene {
    actors: Vec<Actor>,
}

/// Makes a figure that comes at a time, in seconds.
type Cast = fn(&mut Random, f64) -> Actor;

impl Scene {
    pub(super) fn new(options: &DemoOptions) -> Self {
        let mut random = Random(options.seed ^ 0x5eed_0f57_4ee7);
        let seconds = f64::from(options.seconds);
        let mut scene = Self { actors: Vec::new() };
        let mut boxes: Vec<Vec<(i64, [f64; 4])>> = Vec::new();
        // One figure of each kind for so many seconds.
        let every: [(Cast, f64); 5] = [
            (resting, 30.0),
            (crossing, 8.0),
            (near_walker, 6.5),
            (far_walker, 9.0),
            (driver, 4.5),
        ];
        for (make, each) in every {
            let wanted = (seconds / each).ceil() as usize;
            for _ in 0..wanted {
                for _ in 0..TRIES {
                    let start = random.range(EMPTY_START, seconds.max(EMPTY_START + 1.0));
                    let actor = make(&mut random, start);
                    let swept = actor.swept();
                    if boxes.iter().all(|other| apart(&swept, other)) {
                        boxes.push(swept);
                        scene.actors.push(actor);
                        break;
                    }
                }
            }
        }
        // Numbered in the order in which they enter.
        scene
            .actors
            .sort_by(|a, b| a.way[0].at.total_cmp(&b.way[0].at));
        scene
    }

    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.actors.iter().map(Actor::kind).collect()
    }

    /// Everybody in the street at this moment, from back to front.
    pub(super) fn figures(&self, seconds: f64) -> Vec<Figure> {
        let mut present: Vec<(f64, Figure)> = self
            .actors
            .iter()
            .enumerate()
            .filter_map(|(object, actor)| {
                let (depth, shapes, shadows) = actor.draw(seconds)?;
                let bounds = bounds(&shapes[shadows..]);
                Some((
                    depth,
                    Figure {
                        object,
                        kind: actor.kind(),
                        shapes,
                        bounds,
                    },
                ))
            })
            .collect();
        present.sort_by(|a, b| a.0.total_cmp(&b.0));
        present.into_iter().map(|(_, figure)| figure).collect()
    }
}

impl Actor {
    fn kind(&self) -> Kind {
        match self.look {
            Look::Person(_) => Kind::Person,
            Look::Car(_) => Kind::Car,
        }
    }

    /// Shapes at this moment, how many of them are shadow, and the ground line; nothing before and after its time.
    fn draw(&self, seconds: f64) -> Option<(f64, Vec<Shape>, usize)> {
        let leg = self
            .way
            .windows(2)
            .find(|leg| (leg[0].at..leg[1].at).contains(&seconds))?;
        let (from, to) = (leg[0], leg[1]);
        let part = (seconds - from.at) / (to.at - from.at);
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let (x, y) = (from.x + dx * part, from.y + dy * part);
        let passed = seconds - self.way[0].at;
        let (mut shapes, figure) = match &self.look {
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
                    gait: self.phase + passed * if walks { 0.95 } else { 0.4 },
                    stride: f64::from(u8::from(walks)),
                };
                (figures::person_shadow(&pose), figures::person(look, &pose))
            }
            Look::Car(look) => {
                let length = car_length(y, look.van);
                let rolled = (x - from.x).abs() / (0.49 * length);
                (
                    figures::car_shadow(x, y, length),
                    figures::car(look, x, y, length, dx.signum(), rolled),
                )
            }
        };
        let shadows = shapes.len();
        shapes.extend(figure);
        Some((y, shapes, shadows))
    }

    /// Its boxes over time, five a second, by the number of the fifth.
    fn swept(&self) -> Vec<(i64, [f64; 4])> {
        let from = (self.way[0].at * 5.0).floor() as i64;
        let to = self.way.last().map_or(from, |s| (s.at * 5.0).ceil() as i64);
        (from..=to)
            .filter_map(|tick| {
                let (_, shapes, shadows) = self.draw(tick as f64 / 5.0)?;
                Some((tick, bounds(&shapes[shadows..])))
            })
            .collect()
    }
}

/// Both are in the order of time.
fn apart(a: &[(i64, [f64; 4])], b: &[(i64, [f64; 4])]) -> bool {
    let (Some(first), Some(last)) = (b.first(), b.last()) else {
        return true;
    };
    a.iter()
        .filter(|(tick, _)| (first.0..=last.0).contains(tick))
        .all(|(tick, p)| {
            let other = b.binary_search_by_key(tick, |(t, _)| *t).ok();
            other.and_then(|i| b.get(i)).is_none_or(|(_, q)| {
                p[2] + GAP < q[0]
                    || q[2] + GAP < p[0]
                    || p[3] + GAP / 2.0 < q[1]
                    || q[3] + GAP / 2.0 < p[1]
            })
        })
}

fn bounds(shapes: &[Shape]) -> [f64; 4] {
    let mut b = [f64::MAX, f64::MAX, f64::MIN, f64::MIN];
    for (x, y) in shapes.iter().flat_map(|s| s.points.iter().copied()) {
        b = [b[0].min(x), b[1].min(y), b[2].max(x), b[3].max(y)];
    }
    b
}

/// People further up the picture are further away.
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

/// Somebody on a way of corners, at a speed in design units a second at the front of the picture.
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
            // Going away looks slower than going along; both are slower further back.
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

fn near_walker(random: &mut Random, start: f64) -> Actor {
    let (from, to) = ends(random);
    let y = random.range(334.0, 352.0);
    let speed = random.range(58.0, 80.0);
    walker(random, start, speed, &[(from, y), (to, y)], None)
}

fn far_walker(random: &mut Random, start: f64) -> Actor {
    let (from, to) = ends(random);
    let y = random.range(179.0, 183.0);
    let speed = random.range(58.0, 80.0);
    walker(random, start, speed, &[(from, y), (to, y)], None)
}

fn crossing(random: &mut Random, start: f64) -> Actor {
    let x = ZEBRA_X + random.range(-24.0, 24.0);
    let leave = if random.coin() { LEFT } else { RIGHT };
    let speed = random.range(60.0, 78.0);
    let mut way = [(x, 440.0), (x, 182.0), (leave, 182.0)];
    if random.coin() {
        way.reverse();
    }
    walker(random, start, speed, &way, None)
}

fn resting(random: &mut Random, start: f64) -> Actor {
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

fn driver(random: &mut Random, start: f64) -> Actor {
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
