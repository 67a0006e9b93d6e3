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
use crate::lexicon::Stand;
use crate::names::{self, Mention};
use crate::pieces::{self, Request};
use crate::place;
use crate::reader::{Reader, Slot, one_of};
use crate::refusal::Refusal;
use crate::request::{Parts, the_place};
use crate::scene::Camera;
use crate::settings::{About, Settings, channels};

/// Words that a change of a pipeline is about.
const OF_A_PIPELINE: &str =
    "watch|watches|alarm|alarms|pipeline|pipelines|rule|monitoring|existing|running";
/// Words that say nothing in a correction.
const SMALL: &str = "to|of|for|on|at|in|and|about|but|only|just|then|make|set|change|use|confidence|threshold|score";
/// Words for further actions on an event.
const BESIDES: &str =
    "clip|clips|video|recording|picture|photo|#|channel|slack|email|e-mail|sms|text";

/// Words that add to what was proposed.
const ADDS: &str = "and|plus|&|+";

/// Seconds from which a duration is not taken for the length of a stay.
const HALF_A_DAY_S: f64 = 43_200.0;

/// Whether a text says how something that was proposed should be, and is not a separate request.
pub(crate) fn is_correction(text: &Reader<'_>) -> bool {
    // `forget the times`, `any vehicle`
    let names_class = || {
        names::find_classes(text)
            .iter()
            .any(|m| m.at.end == text.tokens.len())
    };
    if text.begins(0, &["@takes_back"]) || text.begins(0, &["any"]) && names_class() {
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
                let about_it = r.begins(start, &["make|set|change|switch it|that|this"]);
                // A place may be called as a watch is.
                names::pipelines(&mut r.clone(), about_it).is_empty()
                    && !r.says(&[OF_A_PIPELINE])
                    && (about_it || !names::mentions_camera(r))
            }
            Intent::Watch => {
                let tells = r.says(&[BESIDES]) || channels(&mut r.clone()).1;
                tells && !r.says(&["when|if|whenever"]) && !names::mentions_class(r)
            }
            // `don't tell me about cars`
            Intent::Stop => r.begins(0, &["don't|dont|do|never"]),
            Intent::Pause | Intent::Resume | Intent::Look => false,
        }
    };
    !requests.is_empty() && requests.iter().all(corrects)
}

/// Refuses the correction of an order or of a change, which are said again as a whole.
pub(crate) fn refuse_for_order(r: &Reader<'_>) -> Refusal {
    let remedy = "Say the whole request again, such as \"pause the gate watch until 8 tomorrow\".";
    unclear(r, remedy)
}

/// Applies a correction to the requests for what was proposed, to each of them if there are
/// several.
pub(crate) fn amend(watches: &mut [Parts], r: &mut Reader<'_>) -> Result<(), Refusal> {
    // `no, for cars` turns down what was proposed; `no more than five` says what is wanted.
    const GOES_ON: &str = "no|nope|nah ,|.|-|–|wait|actually|make|for|only|just|i|it|that|use|set|change|on|in|at|with|sorry|the";
    let limits = r.says(&["only|just|instead"]);
    if r.begins(0, &[ADDS, GOES_ON]) {
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
    let turns = r.says(&["the? other|opposite way|direction", "reverse"]);
    let ways = place::ways(r);
    let mut wanted = Wanted::read(r, false)?;
    r.slot = Slot::Place;
    wanted.place = match named {
        Some(place) => Some(place),
        None => wanted.settings.keep(About::Place, r, place::place)?,
    };
    // `ok, and tell #office`: "and" comes before the whole text.
    let is_said = |slot: &Slot| !matches!(slot, Slot::Free | Slot::Other);
    let first = r.used.iter().position(is_said);
    let joins = (0..first.unwrap_or_default()).any(|at| one_of(ADDS, r.any_word(at)));
    wanted.adds |= joins && !limits;
    // `not cars but trucks` is a list of classes, and `without cars` only takes something away.
    let mentions = &wanted.mentions;
    let is_of_list = |m: &Mention| !m.is_none() && m.stand != Stand::Missing;
    let names_one = mentions.iter().any(|m| m.stand == Stand::Wanted);
    let is_list = mentions.is_empty() || names_one && mentions.iter().all(is_of_list);
    let is_clear = first.is_some() && is_list && !turns;
    let is_for_one = watches.len() == 1 || cameras.is_empty() && !watches.is_empty();
    r.take_all(&["@correction"]);
    if !is_clear || !is_for_one || !closed::unread_words(r, SMALL).is_empty() {
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
            if parts.told && place.is_line() != (parts.acts.crosses || parts.is_line()) {
                return Err(not_read(r));
            }
            parts.place = Some(place.clone());
            parts.settings.notes.remove(&About::Place);
        }
        if !self.ways.is_empty() {
            parts.ways.clone_from(&self.ways);
        }
        if let Some(seconds) = settings.hold_s {
            let is_how_long = r.over(&r.tokens).says(&["for"]);
            how_long(parts, seconds, is_how_long).ok_or_else(|| not_read(r))?;
        }
        self.set_what(parts)
    }

    /// Whether it sets something of which a watch has one and that was said, or a place, which
    /// each has.
    fn sets_again(&self, now: &Settings) -> bool {
        let limits: [fn(&Settings) -> bool; 4] = [
            |s| s.confidence.is_some(),
            |s| s.stop_after_s.is_some(),
            |s| s.hold_s.is_some(),
            |s| s.cooldown_s.is_some() || s.max_per_hour.is_some(),
        ];
        let is_again = (limits.iter()).any(|is_set| is_set(&self.settings) && is_set(now));
        is_again || self.place.is_some() || !self.ways.is_empty()
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
            let wanted = said.iter_mut().filter(|m| m.stand == Stand::Wanted);
            wanted.for_each(|m| m.stand = Stand::None);
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
    let remedy = r.over(&r.tokens).remedy("correction").unwrap_or(
        "Say the whole request again, or one thing of it: other classes (\"only cars\"), a time \
         (\"make it 30 seconds\"), hours, a confidence, a cool-down, a camera, a place, a channel (\"also tell #office\") or a clip.",
    );
    unclear(r, remedy)
}

fn unclear(r: &Reader<'_>, remedy: &str) -> Refusal {
    let text = format!("I did not understand how the proposal should be different. {remedy}");
    Refusal::not_read(text, vec![r.written(0..r.tokens.len())])
}

/// Another time: that for which it has to be so, else the time of quiet where one was said. An
/// object that enters or is seen for a stated time stays. `is_how_long`: "for" was said, as of no
/// time of quiet.
fn how_long(parts: &mut Parts, seconds: f64, is_how_long: bool) -> Option<()> {
    // `24 hours` may be hours of the day.
    if !parts.told || seconds >= HALF_A_DAY_S && !parts.is_empty() {
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
