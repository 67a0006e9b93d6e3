//! Corrections of a waiting proposal: `make it 30 seconds`, `no, for cars`, `only at night`.
//!
//! - A correction changes a new watch that was proposed, and never what runs.
//! - A correction with an unread word corrects nothing.
//! - What a correction does not name stays as it was proposed.
//! - It takes nothing away, and does not turn a direction round: these are refused.
//! - What is said with "and", "also" or "too" is added. Of what a watch has one, such as a place or
//!   a time, nothing is added: it is refused.

use crate::closed;
use crate::edit::{BOTH_ENDS, ONE_TIME, Wanted};
use crate::intent::{Intent, skip_polite};
use crate::lexicon::{Polarity, WATCHES};
use crate::names::{self, Mention};
use crate::pieces::{self, Request};
use crate::place;
use crate::reader::{Reader, Slot};
use crate::refusal::Refusal;
use crate::request::{Parts, the_place};
use crate::scene::Camera;
use crate::settings::{About, Settings, channels};

/// Words that say nothing in a correction.
const FILLERS: &str = "to|of|for|on|at|in|and|about|but|only|just|then|make|set|change|use|confidence|threshold|score";
/// Words for further actions on an event.
const MEDIA: &str =
    "clip|clips|video|recording|picture|photo|#|channel|slack|email|e-mail|sms|text";

/// Words that add to what was proposed.
const ADDS: &str = "and|plus|&|+";

/// Seconds from which a duration is not taken for the length of a stay.
const HALF_A_DAY_S: f64 = 43_200.0;

/// Whether a text says how something that was proposed should be, and is not a separate request.
pub(crate) fn is_correction(text: &Reader<'_>) -> bool {
    // `forget the times`, `any vehicle`
    let ends = |m: &Mention| m.at.end == text.tokens.len();
    let names_class = || names::find_classes(text).iter().any(ends);
    if text.has_at(0, &["@takes_back"]) || text.has_at(0, &["any"]) && names_class() {
        return true;
    }
    let requests = pieces::requests(text);
    let corrects = |request: &Request<'_>| {
        let r = &request.r;
        match request.intent {
            Intent::Nothing => true,
            Intent::Not | Intent::Change => {
                // `make it the gate camera` is about the proposal, `change the gate` may not be.
                let start = skip_polite(r, 0);
                let about_it = r.has_at(start, &["make|set|change|switch it|that|this"]);
                // A place may be called as a watch is.
                names::pipelines(&mut r.clone(), about_it).is_empty()
                    && !r.has(&[WATCHES, "existing|running"])
                    && (about_it || !names::mentions_camera(r))
            }
            Intent::Watch => {
                let tells = r.has(&[MEDIA]) || channels(&mut r.clone()).1;
                tells && !r.has(&["when|if|whenever"]) && !names::mentions_class(r)
            }
            // `don't tell me about cars`
            Intent::Stop => r.has_at(0, &["don't|dont|do|never"]),
            Intent::Pause | Intent::Resume | Intent::Look => false,
        }
    };
    !requests.is_empty() && requests.iter().all(corrects)
}

/// Remedy for the correction of an order or of a change.
pub(crate) const SAY_AGAIN: &str =
    "Say the whole request again, such as \"pause the gate watch until 8 tomorrow\".";

/// Applies a correction to the requests for what was proposed, to each of them if there are
/// several.
pub(crate) fn amend(watches: &mut [Parts], r: &mut Reader<'_>) -> Result<(), Refusal> {
    // `no, for cars` turns down what was proposed; `no more than five` says what is wanted.
    const GOES_ON: &str = "no|nope|nah ,|.|-|–|wait|actually|make|for|only|just|i|it|that|use|set|change|on|in|at|with|sorry|the";
    let limits = r.has(&["only|just|instead"]);
    if r.has_at(0, &[ADDS, GOES_ON]) {
        r.mark(0..1);
    }
    r.slot = Slot::Camera;
    let cameras = names::cameras(r);
    let on = watches.iter().map(|parts| match cameras.is_empty() {
        true => &parts.cameras,
        false => &cameras,
    });
    let mut on: Vec<&Camera> = on.flat_map(|ids| r.scene.named_cameras(ids)).collect();
    on.dedup();
    let named = names::known_place(r, &on, names::is_where).map(|(_, place)| the_place(place));
    let turns = r.has(&["the? other|opposite way|direction", "reverse"]);
    let ways = place::ways(r);
    let mut wanted = Wanted::read(r, false)?;
    r.slot = Slot::Place;
    wanted.place = match named {
        Some(place) => Some(place),
        None => wanted.settings.keep(About::Place, r, place::place)?,
    };
    // `ok, and tell #office`: "and" comes before the whole text.
    let is_said = |slot: &Slot| !matches!(slot, Slot::Free | Slot::Other);
    let first = r.slots.iter().position(is_said);
    let joins = (0..first.unwrap_or_default()).any(|at| r.is(at, ADDS));
    wanted.adds |= joins && !limits;
    // `not cars but trucks` is a list of classes, and `without cars` only takes something away.
    let mentions = &wanted.mentions;
    let is_of_list = |m: &Mention| !m.is_none() && m.polarity != Polarity::Missing;
    let names_one = mentions.iter().any(|m| m.polarity == Polarity::Wanted);
    let is_list = mentions.is_empty() || names_one && mentions.iter().all(is_of_list);
    let is_clear = first.is_some() && is_list && !turns;
    let is_for_one = watches.len() == 1 || cameras.is_empty() && !watches.is_empty();
    r.take_all(&["@correction"]);
    if !is_clear || !is_for_one || !closed::unread_words(r, FILLERS).is_empty() {
        return Err(not_read(r));
    }
    (wanted.cameras, wanted.ways) = (cameras, ways);
    let mut watches = watches.iter_mut();
    watches.try_for_each(|parts| wanted.apply(parts, r))
}

impl Wanted {
    /// Applies a correction to one watch.
    fn apply(&self, parts: &mut Parts, r: &Reader<'_>) -> Result<(), Refusal> {
        let settings = &self.settings;
        if let Some(new) = &settings.times {
            if self.adds {
                return Err(unclear(r, ONE_TIME));
            }
            let now = parts.settings.times.as_ref();
            if now.is_some_and(|now| now.loses_an_end(new)) {
                return Err(unclear(r, BOTH_ENDS));
            }
        }
        if self.adds && self.sets_again(&parts.settings) {
            return Err(not_read(r));
        }
        self.set_cameras(parts);
        if let Some(place) = &self.place {
            // No line takes the place of a zone.
            if parts.reports && place.is_line() != (parts.acts.crosses || parts.is_line()) {
                return Err(not_read(r));
            }
            parts.place = Some(place.clone());
            parts.settings.notes.remove(&About::Place);
        }
        if !self.ways.is_empty() {
            parts.ways.clone_from(&self.ways);
        }
        if let Some(seconds) = settings.hold_s {
            let is_how_long = r.reread().has(&["for"]);
            how_long(parts, seconds, is_how_long).ok_or_else(|| not_read(r))?;
        }
        self.set_what(parts)
    }

    /// Whether it sets something of which a watch has one and that was said, or a place, which
    /// each has.
    fn sets_again(&self, now: &Settings) -> bool {
        let said = &self.settings;
        let is_rare = |s: &Settings| s.cooldown_s.is_some() || s.max_per_hour.is_some();
        said.confidence.and(now.confidence).is_some()
            || said.stop_after_s.and(now.stop_after_s).is_some()
            || said.hold_s.and(now.hold_s).is_some()
            || is_rare(said) && is_rare(now)
            || self.place.is_some()
            || !self.ways.is_empty()
    }

    /// Sets cameras, or adds them.
    fn set_cameras(&self, parts: &mut Parts) {
        if !self.cameras.is_empty() && !self.adds {
            parts.cameras.clear();
        }
        for id in &self.cameras {
            if !parts.cameras.contains(id) {
                parts.cameras.push(id.clone());
            }
        }
    }

    /// Sets classes and settings.
    fn set_what(&self, parts: &mut Parts) -> Result<(), Refusal> {
        let mut said = self.mentions.clone();
        if parts.is_none() {
            // Of the others, too, there are to be none.
            let wanted = said.iter_mut().filter(|m| m.polarity == Polarity::Wanted);
            wanted.for_each(|m| m.polarity = Polarity::None);
        }
        if !said.is_empty() && !self.adds {
            parts.mentions.clear();
        }
        parts.mentions.extend(said);
        let mut settings = self.settings.clone();
        if self.adds && !settings.notify.is_empty() {
            settings.notify.splice(0..0, parts.settings.notify.clone());
        }
        parts.settings.merge(&settings)
    }
}

fn not_read(r: &Reader<'_>) -> Refusal {
    let remedy = r.reread().remedy("correction").unwrap_or(
        "Say the whole request again, or one thing of it: other classes (\"only cars\"), a time \
         (\"make it 30 seconds\"), hours, a confidence, a cool-down, a camera, a place, a channel (\"also tell #office\") or a clip.",
    );
    unclear(r, remedy)
}

/// Refuses a correction that is not understood.
pub(crate) fn unclear(r: &Reader<'_>, remedy: &str) -> Refusal {
    let text = format!("I did not understand how the proposal should be different. {remedy}");
    Refusal::not_read(text, vec![r.written(r.positions())])
}

/// Another time: that for which it has to be so, else the time of quiet where one was said. An
/// object that enters or is seen for a stated time stays. `is_how_long`: "for" was said, as of no
/// time of quiet.
fn how_long(parts: &mut Parts, seconds: f64, is_how_long: bool) -> Option<()> {
    // `24 hours` may be hours of the day.
    if !parts.reports || seconds >= HALF_A_DAY_S && !parts.is_empty() {
        return None;
    }
    let is_number = parts.bound.is_some() || parts.is_empty() || parts.acts.occupied;
    let holds = parts.acts.stays || is_number || parts.settings.hold_s.is_some();
    let cooldown_s = parts.settings.cooldown_s.as_mut();
    match cooldown_s.filter(|said| **said > 0.0) {
        // `for 10 minutes` may be an end.
        Some(_) if !holds && is_how_long => return None,
        None if parts.settings.stop_after_s.is_some() && is_how_long => return None,
        Some(cooldown_s) if !holds => *cooldown_s = seconds,
        // `make it 30 seconds` may be the pause that was assumed.
        _ if !holds && (parts.acts.leaves || !is_how_long) => return None,
        _ => parts.settings.hold_s = Some(seconds),
    }
    Some(())
}
