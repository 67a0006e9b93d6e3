//! Corrections of a waiting proposal: `make it 30 seconds`, `no, for cars`, `only at night`.
//!
//! - A correction changes a new watch that was proposed, and never what runs.
//! - A correction with an unread word corrects nothing.
//! - What a correction does not name stays as it was proposed.
//! - What is said with "and", "also" or "too" is added. Where there can be one only, such as a
//!   place, it is refused: nothing else may take its place.

use watchkeeper_contract::id::SourceId;

use crate::closed;
use crate::edit::{BOTH_ENDS, ONE_TIME, Wanted};
use crate::intent::{Intent, skip_polite};
use crate::lexicon::{Stand, Way};
use crate::names::{self, Mention};
use crate::pieces::{self, Request};
use crate::place::{self, Where};
use crate::reader::{Reader, Slot, one_of};
use crate::refusal::Refusal;
use crate::request::{Parts, the_place};
use crate::scene::Camera;
use crate::settings::{About, channels};

/// Words that a change of a pipeline is about.
const OF_A_PIPELINE: &str =
    "watch|watches|alarm|alarms|pipeline|pipelines|rule|monitoring|existing|running";
/// Words that say nothing in a correction.
const SMALL: &str = "to|of|for|on|at|in|and|with|about|but|only|just|then|make|set|change|use|confidence|threshold|score";
/// Words for further actions on an event.
const BESIDES: &str =
    "clip|clips|video|recording|picture|photo|#|channel|slack|email|e-mail|sms|text";

/// Words that add to what was proposed.
const ADDS: &str = "and|plus|&|+";

/// Remark if every class was left out.
const NOTHING_LEFT: &str = "Then nothing would be left to watch for. Say what to watch for instead, such as \"no, for people\".";

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
            Intent::Stop | Intent::Pause | Intent::Resume | Intent::Look => false,
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
    if r.begins(0, &[ADDS]) || r.begins(0, &[GOES_ON]) {
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
    let turn = ["the? other|opposite way|direction round|around?", "reverse"];
    let turns = r.take(&turn).is_some();
    let ways = place::ways(r);
    let mut wanted = Wanted::read(r, false)?;
    let is_also = wanted.adds;
    let is_unclear = wanted.mentions.iter().any(|m| is_beside(m, r));
    if is_unclear || !without(&mut wanted.mentions, watches) {
        return Err(not_read(r));
    }
    r.slot = Slot::Place;
    let place = match named {
        Some(place) => Some(place),
        None => wanted.settings.keep(About::Place, r, place::place)?,
    };
    // `ok, and tell #office`: "and" comes before the whole text.
    let is_said = |slot: &Slot| !matches!(slot, Slot::Free | Slot::Other);
    let first = r.used.iter().position(is_said).unwrap_or_default();
    let joins = !limits && (0..first).any(|at| one_of(ADDS, r.any_word(at)));
    wanted.adds |= joins;
    // `no people, cars` turns down what was proposed, or asks for none of them.
    if wanted.mentions.iter().any(Mention::is_none) {
        return Err(not_read(r));
    }
    let one = cameras.is_empty() || watches.len() == 1;
    if watches.is_empty() || !one || !r.used.iter().any(is_said) {
        return Err(not_read(r));
    }
    r.take_all(&["@correction"]);
    if !closed::unread_words(r, SMALL).is_empty() {
        return Err(not_read(r));
    }
    let said = Correction {
        cameras,
        place,
        ways,
        turns,
        wanted,
        is_also,
        joins,
    };
    watches
        .iter_mut()
        .try_for_each(|parts| said.apply(parts, r))
}

/// Meaning of a correction.
struct Correction {
    cameras: Vec<SourceId>,
    place: Option<Where>,
    ways: Vec<Way>,
    /// Whether the direction is turned round.
    turns: bool,
    wanted: Wanted,
    /// Whether it has "also" or "too".
    is_also: bool,
    /// Whether it begins with "and".
    joins: bool,
}

impl Correction {
    fn apply(&self, parts: &mut Parts, r: &Reader<'_>) -> Result<(), Refusal> {
        let (wanted, settings) = (&self.wanted, &self.wanted.settings);
        let moves = self.place.is_some() || !self.ways.is_empty() || self.turns;
        let is_somewhere = parts.place.is_some() || !parts.ways.is_empty();
        if moves && (self.is_also || self.joins && is_somewhere) {
            return Err(not_read(r));
        }
        let now = parts.settings.times.as_ref();
        let times = now.zip(settings.times.as_ref());
        if self.is_also && settings.times.is_some()
            || self.joins && times.is_some_and(|(now, new)| now.are_replaced_by(new))
        {
            return Err(unclear(r, ONE_TIME));
        }
        if self.adds_to_a_number(parts) {
            return Err(not_read(r));
        }
        if times.is_some_and(|(now, new)| now.loses_an_end(new)) {
            return Err(unclear(r, BOTH_ENDS));
        }
        set_cameras(parts, &self.cameras, wanted.adds);
        set_where(parts, self.place.as_ref(), &self.ways, self.turns).ok_or_else(|| not_read(r))?;
        if let Some(seconds) = settings.hold_s {
            let is_how_long = r.over(&r.tokens).says(&["for"]);
            how_long(parts, seconds, is_how_long).ok_or_else(|| not_read(r))?;
        }
        set_what(parts, wanted)?;
        if !parts.is_none() && !leave_out(&mut parts.mentions) {
            return Err(unclear(r, NOTHING_LEFT));
        }
        Ok(())
    }

    /// Whether a number would be added to one that there is: `plus 10 seconds`.
    fn adds_to_a_number(&self, parts: &Parts) -> bool {
        let (now, new) = (&parts.settings, &self.wanted.settings);
        let pairs = [
            (now.hold_s, new.hold_s),
            (now.cooldown_s, new.cooldown_s),
            (now.confidence, new.confidence),
            (now.stop_after_s, new.stop_after_s),
        ];
        let is_twice = |(now, new): (Option<f64>, Option<f64>)| now.is_some() && new.is_some();
        self.is_also && new.hold_s.is_some() || self.wanted.adds && pairs.into_iter().any(is_twice)
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

/// Sets classes and settings.
fn set_what(parts: &mut Parts, wanted: &Wanted) -> Result<(), Refusal> {
    let mut said = wanted.mentions.clone();
    if parts.is_none() {
        // Of the others, too, there are to be none.
        for mention in said.iter_mut().filter(|m| m.stand == Stand::Wanted) {
            mention.stand = Stand::None;
        }
    }
    match wanted.keeps_classes() {
        true => parts.mentions.extend(said),
        false => parts.mentions = said,
    }
    let mut settings = wanted.settings.clone();
    if wanted.adds && !settings.notify.is_empty() {
        settings.notify.splice(0..0, parts.settings.notify.clone());
    }
    parts.settings.merge(&settings)
}

/// Sets cameras, or adds them; none are said where the list is empty.
fn set_cameras(parts: &mut Parts, said: &[SourceId], adds: bool) {
    if !said.is_empty() && !adds {
        parts.cameras.clear();
    }
    for id in said {
        if !parts.cameras.contains(id) {
            parts.cameras.push(id.clone());
        }
    }
}

/// Whether a class is said beside another one: `with dogs`, `instead of trucks, buses`.
fn is_beside(class: &Mention, r: &Reader<'_>) -> bool {
    let at = r.before_articles(class.at.start);
    r.before(at) == "with" || r.fits("instead of", at.saturating_sub(2)).is_some()
}

/// `without cars` leaves cars out, where they are watched for; false if they are not: a helmet that
/// is missing is seen on somebody.
fn without(said: &mut [Mention], watches: &[Parts]) -> bool {
    let watched = watches.iter().flat_map(|parts| &parts.mentions);
    let watched: Vec<&String> = watched.flat_map(|m| &m.labels).collect();
    let mut missing = said.iter_mut().filter(|m| m.stand == Stand::Missing);
    missing.all(|mention| {
        mention.stand = Stand::Excluded;
        mention.labels.iter().any(|label| watched.contains(&label))
    })
}

/// Removes the classes that are wanted and left out, such as cars after `no, without cars`; false
/// if none is left.
fn leave_out(mentions: &mut Vec<Mention>) -> bool {
    let is_wanted = |m: &Mention| m.stand == Stand::Wanted;
    let left_out = mentions.iter().filter(|m| m.stand == Stand::Excluded);
    let out: Vec<String> = left_out.flat_map(|m| m.labels.clone()).collect();
    let is_out = |m: &Mention| {
        is_wanted(m) && !m.labels.is_empty() && m.labels.iter().all(|label| out.contains(label))
    };
    let gone = mentions.iter().filter(|m| is_out(m));
    let gone: Vec<String> = gone.flat_map(|m| m.labels.clone()).collect();
    mentions.retain(|m| {
        let is_done = m.stand == Stand::Excluded
            && !gone.is_empty()
            && m.labels.iter().all(|label| gone.contains(label));
        !is_out(m) && !is_done
    });
    gone.is_empty() || mentions.iter().any(is_wanted)
}

/// Sets place and direction; nothing if a line would take the place of a zone, or there is no
/// direction to turn.
fn set_where(parts: &mut Parts, place: Option<&Where>, ways: &[Way], turns: bool) -> Option<()> {
    if let Some(place) = place {
        let crosses = parts.acts.crosses || parts.is_line();
        if place.is_line() != crosses && parts.told {
            return None;
        }
        parts.place = Some(place.clone());
        (parts.settings.notes).retain(|(about, _)| *about != About::Place);
    }
    if !ways.is_empty() {
        parts.ways = ways.to_vec();
    }
    if turns {
        let [way] = parts.ways.as_mut_slice() else {
            return None;
        };
        *way = way.turned()?;
    }
    Some(())
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
