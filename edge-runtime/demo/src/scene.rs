//! Plans which figure is where and when.
//!
//! People walk along both pavements and over the zebra crossing, some rest at the bench, and cars
//! drive in two lanes.
//!
//! - A candidate whose box would come closer than [`GAP`] to another one is discarded, so figures
//!   never overlap.
//! - The plan is made one hour at a time, so a scene of a day starts as fast as one of an hour.
//! - The plan does not depend on the order in which moments are asked for.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use watchkeeper_config::demo::DemoOptions;

use super::actor::{self, Actor, ActorPosition, Bounds, Kind, TICKS};
use super::random::Random;
use super::raster::Shape;

/// Minimum distance between two boxes, in design units.
const GAP: f64 = 6.0;

/// Seconds for which the street is empty at the start.
const EMPTY_START: f64 = 1.0;

/// Candidates tried for each figure.
const TRIES: u32 = 60;

/// Seconds that are planned at once.
const PART: f64 = 3600.0;

/// Makes a figure that enters at a time, in seconds.
type Cast = fn(&mut Random, f64) -> Actor;

/// Mean seconds between two figures of each kind, in the order of placing.
const EVERY: [(Cast, f64); 5] = [
    (actor::resting, 30.0),
    (actor::crossing, 8.0),
    (actor::near_walker, 6.5),
    (actor::far_walker, 9.0),
    (actor::driver, 4.5),
];

/// One figure at one moment.
#[derive(Debug)]
pub(super) struct Figure {
    /// Number of the figure, in order of entering.
    pub(super) object: usize,
    pub(super) kind: Kind,
    /// Shadow first, then the figure from back to front.
    pub(super) shapes: Vec<Shape>,
    /// Bounds without the shadow.
    pub(super) bounds: Bounds,
}

/// The plan of the scene up to [`Self::planned`].
#[derive(Debug)]
pub(super) struct Scene {
    seed: u64,
    /// Length of the whole scene.
    seconds: f64,
    /// The figures that enter before [`Self::planned`], in order of entering.
    actors: Vec<Actor>,
    /// Seconds that are planned so far.
    planned: f64,
    /// The longest stay of a figure, in whole seconds.
    longest: f64,
}

impl Scene {
    /// Plans the beginning of the scene.
    pub(super) fn new(options: &DemoOptions) -> Self {
        let mut scene = Self {
            seed: options.seed,
            seconds: f64::from(options.seconds),
            actors: Vec::new(),
            planned: 0.0,
            longest: 0.0,
        };
        scene.plan_part();
        scene
    }

    /// The kind of each figure that is planned so far.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.actors.iter().map(Actor::kind).collect()
    }

    /// The figures in the street at this moment, from back to front.
    pub(super) fn figures(&mut self, seconds: f64) -> Vec<Figure> {
        while self.planned <= seconds && self.planned < self.seconds {
            self.plan_part();
        }
        let first = self
            .actors
            .partition_point(|actor| actor.enters() < seconds - self.longest);
        let mut present: Vec<(f64, Figure)> = self
            .actors
            .iter()
            .enumerate()
            .skip(first)
            .take_while(|(_, actor)| actor.enters() <= seconds)
            .filter_map(|(object, actor)| {
                let place = actor.place(seconds)?;
                let (mut shapes, figure) = actor.draw(&place);
                let bounds = bounds(&figure);
                shapes.extend(figure);
                let kind = actor.kind();
                Some((
                    place.y,
                    Figure {
                        object,
                        kind,
                        shapes,
                        bounds,
                    },
                ))
            })
            .collect();
        present.sort_by(|a, b| a.0.total_cmp(&b.0));
        present.into_iter().map(|(_, figure)| figure).collect()
    }

    /// Plans the next part, around the figures of the last one that are still there.
    fn plan_part(&mut self) {
        let from = self.planned;
        let length = (self.seconds - from).min(PART);
        let until = from + length;
        let part = (from / PART) as u64;
        let mut random = Random(self.seed ^ 0x5eed_0f57_4ee7 ^ part.wrapping_mul(Random::STEP));
        let mut taken = Taken::default();
        let earlier = self.actors.len();
        for (index, actor) in self.actors.iter().enumerate() {
            if actor.leaves() > from {
                taken.add(actor, index);
            }
        }
        let earliest = from.max(EMPTY_START);
        for (make, each) in EVERY {
            let wanted = (length / each).ceil() as usize;
            for _ in 0..wanted {
                for _ in 0..TRIES {
                    let start = random.range(earliest, until.max(EMPTY_START + 1.0));
                    let actor = make(&mut random, start);
                    if taken.leaves_room_for(&actor, &self.actors) {
                        taken.add(&actor, self.actors.len());
                        self.actors.push(actor);
                        break;
                    }
                }
            }
        }
        if let Some(new) = self.actors.get_mut(earlier..) {
            // Figures are numbered in order of entering.
            new.sort_by(|a, b| a.enters().total_cmp(&b.enters()));
        }
        let stays = self.actors.iter().map(|a| a.leaves() - a.enters());
        self.longest = stays.fold(self.longest, f64::max).ceil();
        self.planned = until;
    }
}

/// The planned figures by tick.
#[derive(Debug, Default)]
struct Taken {
    by_tick: BTreeMap<i64, Vec<Presence>>,
}

/// An actor at one tick.
#[derive(Debug)]
struct Presence {
    actor: usize,
    place: ActorPosition,
    reach: Bounds,
    /// Computed when first needed.
    bounds: OnceCell<Bounds>,
}

impl Taken {
    fn add(&mut self, actor: &Actor, index: usize) {
        for tick in actor.ticks() {
            if let Some(place) = actor.place(tick as f64 / TICKS) {
                self.by_tick.entry(tick).or_default().push(Presence {
                    actor: index,
                    reach: actor.reach(&place),
                    place,
                    bounds: OnceCell::new(),
                });
            }
        }
    }

    /// Whether `actor` never comes too close to one of `actors`. Figures are drawn only where their
    /// reaches meet, because drawing is expensive.
    fn leaves_room_for(&self, actor: &Actor, actors: &[Actor]) -> bool {
        self.by_tick.range(actor.ticks()).all(|(tick, others)| {
            let Some(place) = actor.place(*tick as f64 / TICKS) else {
                return true;
            };
            let reach = actor.reach(&place);
            let own = OnceCell::new();
            others
                .iter()
                .filter(|other| !apart(&reach, &other.reach))
                .all(|other| {
                    let drawn = |actor: &Actor, place| bounds(&actor.draw(place).1);
                    let theirs = other
                        .bounds
                        .get_or_init(|| drawn(&actors[other.actor], &other.place));
                    apart(own.get_or_init(|| drawn(actor, &place)), theirs)
                })
        })
    }
}

/// Whether there is a [`GAP`] between two boxes; half of it is enough between top and bottom.
fn apart(p: &Bounds, q: &Bounds) -> bool {
    p[2] + GAP < q[0] || q[2] + GAP < p[0] || p[3] + GAP / 2.0 < q[1] || q[3] + GAP / 2.0 < p[1]
}

fn bounds(shapes: &[Shape]) -> Bounds {
    let mut b = [f64::MAX, f64::MAX, f64::MIN, f64::MIN];
    for (x, y) in shapes.iter().flat_map(|s| s.points.iter().copied()) {
        b = [b[0].min(x), b[1].min(y), b[2].max(x), b[3].max(y)];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(text: &str) -> Scene {
        Scene::new(&DemoOptions::parse(text).expect("valid options"))
    }

    /// FNV-1a over all figures and their bounds, every ten seconds.
    fn checksum(scene: &mut Scene, seconds: u32) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for at in (0..seconds).step_by(10) {
            for figure in scene.figures(f64::from(at)) {
                let words = figure.bounds.map(f64::to_bits);
                for word in words.into_iter().chain([figure.object as u64]) {
                    hash = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        hash
    }

    #[test]
    fn plan_of_an_hour_matches_its_golden_checksum() {
        assert_eq!(checksum(&mut scene("?seconds=3600"), 3600), HOUR);
        assert_eq!(
            checksum(&mut scene("?seconds=600&seed=9"), 600),
            TEN_MINUTES
        );
    }

    #[test]
    fn drawn_figures_lie_within_their_reach() {
        for seed in 1..4 {
            let scene = scene(&format!("?seconds=300&seed={seed}"));
            for actor in &scene.actors {
                for tick in actor.ticks() {
                    let Some(place) = actor.place(tick as f64 / TICKS) else {
                        continue;
                    };
                    let (reach, drawn) = (actor.reach(&place), bounds(&actor.draw(&place).1));
                    assert!(
                        reach[0] <= drawn[0]
                            && reach[1] <= drawn[1]
                            && reach[2] >= drawn[2]
                            && reach[3] >= drawn[3],
                        "{actor:?} at {tick}: {drawn:?} in {reach:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn scene_of_a_day_plans_only_its_first_hour() {
        let mut day = scene("?seconds=86400");
        assert_eq!(day.planned, PART);
        assert_eq!(checksum(&mut day, 3600), HOUR);
        assert_eq!(day.planned, PART);
    }

    #[test]
    fn figures_keep_apart_where_two_parts_meet() {
        let mut scene = scene("?seconds=3700");
        let mut over_the_seam = 0;
        for tick in (3570..3630).map(|second| second * 5).flat_map(|t| t..t + 5) {
            let seconds = f64::from(tick) / TICKS;
            let figures = scene.figures(seconds);
            for (i, a) in figures.iter().enumerate() {
                let is_from_before = scene.actors[a.object].enters() < PART;
                over_the_seam += usize::from(is_from_before && seconds > PART);
                for b in &figures[i + 1..] {
                    assert!(apart(&a.bounds, &b.bounds), "{seconds}: {a:?} {b:?}");
                }
            }
        }
        assert!(over_the_seam > 0, "no figure was there over the seam");
        let later = scene.kinds().len() - scene.actors.partition_point(|a| a.enters() < PART);
        assert!(later > 20, "{later} came in the last hundred seconds");
    }

    #[test]
    fn plan_does_not_depend_on_order_of_queries() {
        let (mut ahead, mut stepping) = (scene("?seconds=3700"), scene("?seconds=3700"));
        let jumped = checksum_at(&mut ahead, 3650.0);
        for second in 0..3650 {
            stepping.figures(f64::from(second));
        }
        assert_eq!(jumped, checksum_at(&mut stepping, 3650.0));
        assert_eq!(checksum(&mut ahead, 3600), checksum(&mut stepping, 3600));
    }

    fn checksum_at(scene: &mut Scene, seconds: f64) -> Vec<(usize, Bounds)> {
        let figures = scene.figures(seconds);
        figures.iter().map(|f| (f.object, f.bounds)).collect()
    }

    const HOUR: u64 = 0xa067_1c9c_19a7_5ca5;
    const TEN_MINUTES: u64 = 0xe6ad_c02d_e62f_b8a1;
}
