//! Where and when a request looks: its cameras, its place in their pictures, its numbers and hours.

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::Schedule;

use super::amounts::{Spans, confidence, spans};
use super::cameras::one_list;
use super::conditions::Facts;
use super::spot::geometry;
use crate::hours;
use crate::names::{self, Cameras};
use crate::need::Need;
use crate::place::{self, Said, Way};
use crate::reader::{Reader, Slot, one_of};
use crate::scene::{Camera, Scene, Shape, quoted};

/// Where and when a request looks.
pub(super) struct Ground<'s> {
    pub(super) cameras: Cameras,
    /// The cameras that are meant, once that is known.
    pub(super) known: Vec<&'s Camera>,
    /// The shape of a place with a name, on each camera that has it.
    pub(super) drawn_on: Vec<(SourceId, Shape)>,
    pub(super) place: Option<Said>,
    /// Name of the drawn place that is named.
    pub(super) named: Option<String>,
    pub(super) ways: Vec<Way>,
    pub(super) spans: Spans,
    pub(super) confidence: Option<f64>,
    pub(super) schedules: Vec<Schedule>,
}

/// Reads where and when, after the purpose and before what happens.
pub(super) fn ground<'s>(r: &mut Reader<'s>, counts: bool) -> Result<Ground<'s>, Need> {
    r.slot = Slot::Camera;
    // `in the video of the gate`: what is looked at, and no clip.
    r.take_all(&["in|on|from the video|recording|footage|stream|feed of|from|at?"]);
    let cameras = one_list(r);
    let known: Vec<&Camera> = match &cameras {
        Cameras::These(ids) => ids.iter().filter_map(|id| r.scene.camera(id)).collect(),
        _ => r.scene.cameras.iter().collect(),
    };
    r.slot = Slot::Place;
    let named = names::known_place(r, &known).map(|(_, place)| place.clone());
    if near_used(r) {
        r.assume("Near a place is taken as in it.");
    }
    r.slot = Slot::Way;
    let ways = place::ways(r);
    r.slot = Slot::Time;
    let spans = spans(r, counts);
    r.slot = Slot::Wish;
    let confidence = confidence(r)?;
    r.slot = Slot::Time;
    let schedules = hours::schedules(r);
    r.slot = Slot::Place;
    let place = match &named {
        Some(known) => Some(Said {
            text: format!("the place {}", quoted(&known.name)),
            name: Some(known.name.clone()),
            shape: known.shape.clone(),
        }),
        None => match geometry(r, &known) {
            // Pixels need to know whose picture they are of, which is asked first.
            Err(_) if cameras == Cameras::None && known.len() > 1 => None,
            place => place?,
        },
    };
    Ok(Ground {
        cameras,
        known,
        drawn_on: Vec::new(),
        place,
        named: named.map(|place| place.name),
        ways,
        spans,
        confidence,
        schedules,
    })
}

impl<'s> Ground<'s> {
    pub(super) fn has_line(&self) -> bool {
        matches!(&self.place, Some(p) if matches!(p.shape, Shape::Line(..)))
    }

    /// The camera that is named, where it is one.
    pub(super) fn named_camera(&self) -> Option<String> {
        match &self.cameras {
            Cameras::These(ids) => ids.first().map(ToString::to_string),
            _ => None,
        }
    }

    /// Looks at these cameras, on each of which a place with a name has its own shape.
    pub(super) fn on(
        &mut self,
        cameras: &[SourceId],
        scene: &'s Scene,
        facts: &mut Facts,
    ) -> Result<(), Need> {
        self.known = cameras.iter().filter_map(|id| scene.camera(id)).collect();
        let Some(name) = &self.named else {
            return Ok(());
        };
        self.drawn_on = names::place_on_each(name, &self.known)?;
        if let (Some(place), Some((_, shape))) = (&mut facts.place, self.drawn_on.first()) {
            place.shape = shape.clone();
        }
        Ok(())
    }
}

/// Marks `near` and its like where they stand before a place or camera, and says whether there was
/// one.
fn near_used(r: &mut Reader<'_>) -> bool {
    let stands = |i: usize| {
        let next = i + 1 + usize::from(one_of("the|my|our|to", r.word(i + 1)));
        one_of("near|beside|around|by", r.word(i))
            && matches!(r.slot_of(next), Slot::Camera | Slot::Place)
    };
    let found: Vec<usize> = (0..r.tokens.len()).filter(|i| stands(*i)).collect();
    for i in &found {
        r.mark(*i..*i + 1);
    }
    !found.is_empty()
}
