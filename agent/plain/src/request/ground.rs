//! Where and when a request looks: its cameras, its place in their pictures, its numbers and hours.

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::Schedule;

use super::amounts::{Spans, confidence, spans};
use super::cameras::{cameras_of, from_one_to_another};
use super::spot::{geometry, whole_picture};
use crate::answer::Missing;
use crate::hours;
use crate::lexicon::Lexicon;
use crate::names;
use crate::need::{Need, Notes};
use crate::place::{self, Said, Way};
use crate::reader::Reader;
use crate::scene::{Camera, Scene, Shape, quoted};

/// Where and when a request looks.
pub(super) struct Ground<'s> {
    pub(super) cameras: Vec<SourceId>,
    /// Those of the cameras that the scene knows.
    pub(super) known: Vec<&'s Camera>,
    /// The shape of a place with a name, on each camera that has it.
    pub(super) drawn_on: Vec<(SourceId, Shape)>,
    pub(super) place: Option<Said>,
    pub(super) ways: Vec<Way>,
    pub(super) spans: Spans,
    pub(super) confidence: Option<f64>,
    pub(super) schedules: Vec<Schedule>,
}

/// Reads where and when, after the purpose and before what happens.
pub(super) fn ground<'s>(
    r: &mut Reader,
    scene: &'s Scene,
    lexicon: &Lexicon,
    before: Option<&SourceId>,
    notes: &mut Notes,
) -> Result<Ground<'s>, Need> {
    from_one_to_another(r, scene, lexicon)?;
    let cameras = cameras_of(r, scene, lexicon, before, notes)?;
    const BESIDE_CAMERA: [&str; 7] = [
        "near", "beside", "behind", "outside", "inside", "within", "around",
    ];
    beside_used(r, &BESIDE_CAMERA);
    let known: Vec<&Camera> = cameras.iter().filter_map(|id| scene.camera(id)).collect();
    let named = names::known_place(r, &known).map(|(_, place)| place.clone());
    let drawn_on = match &named {
        Some(place) => names::place_on_each(&place.name, &known)?,
        None => Vec::new(),
    };
    beside_used(r, &["inside", "within"]);
    if beside_used(r, &["near", "beside", "around"]) {
        notes
            .assumed
            .push("Near a place is taken as in it.".to_owned());
    }
    let ways = place::ways(r);
    let spans = spans(r, notes);
    let confidence = confidence(r, notes)?;
    let schedules = hours::schedules(r, &mut notes.assumed);
    let place = match named {
        Some(known) => Some(Said {
            text: format!("the place {}", quoted(&known.name)),
            name: Some(known.name),
            shape: known.shape,
        }),
        None => geometry(r, &known, notes)?,
    };
    one_place(r, place.as_ref(), &known)?;
    Ok(Ground {
        cameras,
        known,
        drawn_on,
        place,
        ways,
        spans,
        confidence,
        schedules,
    })
}

/// Marks these words where they stand before words that are used already, and says whether there
/// was one.
fn beside_used(r: &mut Reader, words: &[&str]) -> bool {
    let stands = |i: usize| {
        let next = i + 1 + usize::from(matches!(r.word(i + 1), "the" | "my" | "our"));
        words.contains(&r.word(i)) && r.word(next).is_empty() && !r.any_word(next).is_empty()
    };
    let found: Vec<usize> = (0..r.tokens.len()).filter(|i| stands(*i)).collect();
    for i in &found {
        r.mark(*i..*i + 1);
    }
    !found.is_empty()
}

/// Refuses two parts of the picture: a watch looks at one.
fn one_place(r: &Reader, place: Option<&Said>, cameras: &[&Camera]) -> Result<(), Need> {
    let second = |r: &Reader| geometry(&mut r.clone(), cameras, &mut Notes::default());
    match (place, second(r)) {
        (Some(first), Ok(Some(second)))
            if matches!(
                (&first.shape, &second.shape),
                (Shape::Zone(_), Shape::Zone(_))
            ) && first.shape != second.shape
                && second.shape != whole_picture().shape =>
        {
            Err(Need::new(
                Missing::Meaning,
                format!(
                    "That names two places, {} and {}, and a watch looks at one. Say them one at a time, or one that holds both.",
                    first.text, second.text
                ),
            ))
        }
        _ => Ok(()),
    }
}
