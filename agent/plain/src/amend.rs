//! Corrections of a waiting proposal: `make it 30 seconds`, `no, for cars`, `only at night`.
//!
//! - A correction changes what was proposed, and never what runs.
//! - A correction with an unread word corrects nothing.
//! - What a correction does not name stays as it was proposed.

use crate::asks::{Asks, skip_polite};
use crate::closed;
use crate::edit::Wanted;
use crate::names::{self, Cameras, Stand};
use crate::need::Need;
use crate::pieces::{self, Request};
use crate::place::{self, Said, Way};
use crate::reader::{Reader, Slot};
use crate::request::{Parts, the_place};
use crate::scene::Camera;
use crate::settings::channels;

/// What a change of a pipeline is about.
const OF_A_PIPELINE: &str =
    "watch|watches|alarm|alarms|pipeline|pipelines|rule|monitoring|existing|running";
/// Words that say nothing in a correction.
const SMALL: &str = "to|of|for|on|at|in|and|with|about|but|only|just|then|make|set|change|use|confidence|threshold|score";
/// What is done about an event besides.
const BESIDES: &str = "clip|clips|video|recording|#|channel|slack|email|e-mail|sms|text";

/// Whether a text says how something that was proposed should be, and is no request of its own.
pub(crate) fn is_correction(text: &Reader<'_>) -> bool {
    let requests = pieces::requests(text);
    let corrects = |request: &Request<'_>| {
        let r = &request.r;
        match request.asks {
            Asks::Nothing => true,
            Asks::Not | Asks::Change => {
                let names_one = !names::pipelines(&mut r.clone()).is_empty();
                // `make it the gate camera` is about the proposal, `change the gate` may not be.
                let start = skip_polite(r, 0);
                let about_it = r.begins(start, &["make|set|change|switch it|that|this"]);
                let may_run = names::mentions_camera(r) && !about_it;
                !names_one && !r.says(&[OF_A_PIPELINE]) && !may_run
            }
            Asks::Watch => {
                let tells = r.says(&[BESIDES]) || channels(&mut r.clone()).1;
                tells && !r.says(&["when|if|whenever"]) && !names::mentions_class(r)
            }
            Asks::Stop | Asks::Pause | Asks::Resume | Asks::Look => false,
        }
    };
    !requests.is_empty() && requests.iter().all(corrects)
}

/// Applies a correction to the requests for what was proposed.
pub(crate) fn amend(watches: &mut [Parts], r: &mut Reader<'_>) -> Result<(), Need> {
    // `no, for cars` turns down what was proposed; `no more than five` says what is wanted.
    const GOES_ON: &str =
        "no|nope|nah ,|.|-|–|make|for|only|just|i|it|that|use|set|change|on|in|at|with|sorry|the";
    if watches.is_empty() {
        return Err(not_read(r));
    }
    if r.begins(0, &[GOES_ON]) {
        r.mark(0..1);
    }
    of_watches(r, watches)?;
    r.take_all(&r.lexicon.phrases.correction);
    match closed::unread_words(r, SMALL).is_empty() {
        true => Ok(()),
        false => Err(not_read(r)),
    }
}

fn not_read(r: &Reader<'_>) -> Need {
    let words = r.written(0..r.tokens.len());
    Need::not_read(
        "I did not understand how the proposal should be different. Say the whole request again, or one thing of it: other classes (\"only cars\"), a time \
         (\"make it 30 seconds\"), hours, a confidence, a cool-down, a camera, a place, a channel or a clip.",
        vec![words],
    )
}

/// What a correction sets.
struct Correction {
    wanted: Wanted,
    cameras: Cameras,
    place: Option<Said>,
    ways: Vec<Way>,
    /// Whether the other direction is wanted.
    turns: bool,
}

impl Correction {
    fn apply(&self, parts: &mut Parts, r: &mut Reader<'_>) -> Result<(), Need> {
        if self.cameras != Cameras::None {
            parts.cameras = self.cameras.clone();
        }
        let mut said = self.wanted.mentions.clone();
        if parts.is_none() {
            // Of the others, too, there are to be none.
            for mention in said.iter_mut().filter(|m| m.stand == Stand::Wanted) {
                mention.stand = Stand::None;
            }
        }
        self.wanted.set_classes(&mut parts.mentions, said);
        if let Some(place) = &self.place {
            let crosses = parts.acts.crosses || parts.is_line();
            if place.is_line() != crosses && parts.told {
                return Err(not_read(r));
            }
            parts.place = Some(place.clone());
        }
        if !self.ways.is_empty() {
            parts.ways.clone_from(&self.ways);
        }
        if self.turns {
            let [way] = parts.ways.as_mut_slice() else {
                return Err(not_read(r));
            };
            *way = way.turned().ok_or_else(|| not_read(r))?;
        }
        if let Some(seconds) = self.wanted.settings.hold_s {
            how_long(parts, seconds).ok_or_else(|| not_read(r))?;
        }
        let mut settings = self.wanted.settings.clone();
        if self.wanted.adds && !settings.notify.is_empty() {
            settings.notify.splice(0..0, parts.settings.notify.clone());
        }
        parts.settings.merge(&settings)
    }
}

/// A correction of what is to be watched. Where several are proposed it is about each of them.
fn of_watches(r: &mut Reader<'_>, watches: &mut [Parts]) -> Result<(), Need> {
    r.slot = Slot::Camera;
    let cameras = names::cameras(r);
    if let Cameras::Unknown(written) = &cameras {
        return Err(names::no_such_camera(written, r.scene));
    }
    if cameras != Cameras::None && watches.len() > 1 {
        return Err(not_read(r));
    }
    let of = |parts: &Parts| match cameras {
        Cameras::None => parts.cameras.known(r.scene),
        _ => cameras.known(r.scene),
    };
    let mut on: Vec<&Camera> = watches.iter().flat_map(of).collect();
    on.dedup();
    let named = names::known_place(r, &on).map(|(_, place)| the_place(place));
    let turns = r
        .take(&["the? other|opposite way|direction round|around?", "reverse"])
        .is_some();
    let ways = place::ways(r);
    let wanted = Wanted::read(r, false)?;
    r.slot = Slot::Place;
    let place = match named {
        Some(place) => Some(place),
        None => place::place(r)?,
    };
    let correction = Correction {
        wanted,
        cameras,
        place,
        ways,
        turns,
    };
    let is_of_it = |slot: &Slot| !matches!(slot, Slot::Free | Slot::Other);
    if !r.used.iter().any(is_of_it) {
        return Err(not_read(r));
    }
    for parts in watches {
        correction.apply(parts, r)?;
    }
    Ok(())
}

/// Another time: that for which it has to be so, else the time of quiet where one was said. Who
/// enters or is seen and has to do so for a time is somebody who stays.
fn how_long(parts: &mut Parts, seconds: f64) -> Option<()> {
    if !parts.told {
        return None;
    }
    let is_number = parts.bound.is_some() || parts.is_empty() || parts.acts.occupied;
    let holds = parts.acts.stays || is_number || parts.settings.hold_s.is_some();
    match parts
        .settings
        .cooldown_s
        .as_mut()
        .filter(|said| **said > 0.0)
    {
        Some(cooldown_s) if !holds => *cooldown_s = seconds,
        _ if parts.acts.leaves && !holds => return None,
        _ => parts.settings.hold_s = Some(seconds),
    }
    Some(())
}
