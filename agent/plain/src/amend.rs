//! Corrections of a waiting proposal: `make it 30 seconds`, `no, for cars`, `only at night`.
//!
//! - A correction changes what was proposed, and never what runs.
//! - A correction with an unread word corrects nothing.
//! - What a correction does not name stays as it was proposed.

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::{CountBound, CrossDirection};

use crate::answer::Missing;
use crate::asks::Asks;
use crate::closed;
use crate::edit::{self, Wanted, wanted};
use crate::intent::{Intent, NamedPlace, Objects, Settings, WatchFor, What};
use crate::names::{self, Cameras, Mention, Stand};
use crate::need::{Need, Notes};
use crate::pieces::{self, Request};
use crate::place;
use crate::reader::{Reader, one_of};
use crate::request::{TOO_FEW_S, drawn, is_for_a_time, named_place, whole_picture};
use crate::scene::{Scene, Shape};

/// What says only that something is corrected.
const LEADS: [&str; 7] = [
    "yes|yeah|ok|okay|sorry|wait|hmm|actually|well|oh",
    "make|set|change|turn|update|adjust it|that|this to|into?",
    "it|that|this should|shall|must|needs? be|to?",
    "i meant|mean|said",
    "rather|instead",
    "make|set|change|use|take|give",
    "limit|restrict|keep it|that|this? to?",
];
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
                !names_one && !r.says(&[OF_A_PIPELINE]) && !names::mentions_camera(r)
            }
            Asks::Watch => {
                r.says(&[BESIDES]) && !r.says(&["when|if|whenever"]) && !names::mentions_class(r)
            }
            Asks::Stop | Asks::Pause | Asks::Resume | Asks::Look => false,
        }
    };
    !requests.is_empty() && requests.iter().all(corrects)
}

/// What was proposed, as it is after the correction.
pub(crate) fn amend(mut intents: Vec<Intent>, r: &mut Reader<'_>) -> Result<Vec<Intent>, Need> {
    // `no, for cars` turns down what was proposed; `no more than five` says what is wanted.
    const GOES_ON: &str =
        "no|nope|nah ,|.|-|–|make|for|only|just|i|it|that|use|set|change|on|in|at|with|sorry";
    if r.begins(0, &[GOES_ON]) {
        r.mark(0..1);
    }
    let watches = intents.iter_mut().find_map(|intent| match intent {
        Intent::Watch(watches) => Some(watches),
        _ => None,
    });
    of_watches(r, watches.ok_or_else(|| not_read(r))?)?;
    LEADS.iter().for_each(|lead| {
        r.take_all(&[lead]);
    });
    match closed::unread_words(r, SMALL).is_empty() {
        true => Ok(intents),
        false => Err(not_read(r)),
    }
}

fn not_read(r: &Reader<'_>) -> Need {
    let words = r.written(0..r.tokens.len());
    Need::not_read(
        "I did not understand how the proposal should be different, so it is put aside. Say the whole request again, or one thing of it: other classes (\"only cars\"), a time \
         (\"make it 30 seconds\"), hours, a confidence, a cool-down, a camera, a place, a channel or a clip.",
        vec![words],
    )
}

/// `make it 30 seconds`: a time that nothing stands with.
fn bare_time(r: &mut Reader<'_>, said: &mut Wanted) {
    if said.settings.stays_s.is_none()
        && let Some(found) = r.find(&["<d>"])
        && is_for_a_time(r, &found)
    {
        r.mark(found.at.clone());
        said.settings.stays_s = Some(found.value(0));
    }
}

/// What a correction sets.
struct Correction {
    said: Wanted,
    stop_after: Option<f64>,
    place: Option<NamedPlace>,
    /// The shape of a place with a name, on each camera that has it.
    drawn_on: Vec<(SourceId, Shape)>,
    /// A number of objects, with the words before it.
    number: Option<(String, f64)>,
    another: Option<SourceId>,
}

impl Correction {
    fn is_nothing(&self) -> bool {
        self.said.mentions.is_empty()
            && self.said.settings == Settings::default()
            && self.another.is_none()
            && self.place.is_none()
            && self.stop_after.is_none()
            && self.number.is_none()
    }

    fn apply(&self, watch: &mut WatchFor, r: &mut Reader<'_>) -> Result<(), Need> {
        if let Some(camera) = &self.another {
            watch.camera = camera.clone();
        }
        other_classes(watch, &self.said, r.scene)?;
        if let Some(place) = &self.place {
            let mut place = place.clone();
            if let Some((_, shape)) = self.drawn_on.iter().find(|(on, _)| *on == watch.camera) {
                place.shape = shape.clone();
            }
            if says_a_way(watch, &place.shape) {
                return Err(Need::meaning(
                    "The direction was said of the other line, and on this one it may be another. Say the whole request again, with its line and its direction.",
                ));
            }
            in_place(watch, &place).ok_or_else(|| not_read(r))?;
        }
        if let Some((words, number)) = &self.number {
            let (now, held_s) = count_of(watch).ok_or_else(|| not_read(r))?;
            *now = another_bound(words, *number, *now, held_s, &mut r.notes)
                .ok_or_else(|| not_read(r))?;
        }
        if let Some(seconds) = self.said.settings.stays_s {
            how_long(watch, seconds, &mut r.notes).ok_or_else(|| not_read(r))?;
        }
        watch.confidence = self.said.settings.confidence.or(watch.confidence);
        watch.cooldown_s = self.said.settings.cooldown_s.or(watch.cooldown_s);
        if !self.said.settings.schedules.is_empty() {
            watch.schedules.clone_from(&self.said.settings.schedules);
        }
        if !self.said.settings.notify.is_empty() {
            watch.notify.clone_from(&self.said.settings.notify);
        }
        watch.clip = self.said.settings.clip.or(watch.clip);
        watch.stop_after_s = self.stop_after.or(watch.stop_after_s);
        Ok(())
    }
}

/// A correction of what is to be watched. Where several are proposed it is about each of them.
fn of_watches(r: &mut Reader<'_>, watches: &mut [WatchFor]) -> Result<(), Need> {
    let cameras = names::cameras(r);
    let on: Vec<_> = r
        .scene
        .cameras
        .iter()
        .filter(|c| watches.iter().any(|w| w.camera == c.id))
        .collect();
    let named = names::known_place(r, &on).map(|(_, place)| place.clone());
    let drawn_on = match &named {
        Some(place) => names::place_on_each(&place.name, &on)?,
        None => Vec::new(),
    };
    let stop_after = r.take(&["for|during the? next <u>"]).map(|f| f.value(0));
    let moved = moved_line(r, watches)?;
    let mut said = wanted(r)?;
    bare_time(r, &mut said);
    let shape = match named {
        Some(known) => Some(place::Said {
            text: format!("the place {}", crate::scene::quoted(&known.name)),
            name: Some(known.name),
            shape: known.shape,
        }),
        None => match moved {
            Some(moved) => Some(moved),
            None => drawn(r, &on)?,
        },
    };
    let number = number_of_objects(r);
    let place = shape.map(|said| {
        let is_line = matches!(said.shape, Shape::Line(..));
        named_place(said, is_line)
    });
    let another = another_camera(r, &cameras, watches, place.is_some())?;
    let correction = Correction {
        said,
        stop_after,
        place,
        drawn_on,
        number,
        another,
    };
    if correction.is_nothing() {
        return Err(not_read(r));
    }
    for watch in watches {
        correction.apply(watch, r)?;
    }
    Ok(())
}

/// Reads `make it at 30%` after a line, which is where the line is, and no confidence.
fn moved_line(r: &mut Reader<'_>, watches: &[WatchFor]) -> Result<Option<place::Said>, Need> {
    const OF_CONFIDENCE: &str =
        "confidence|certainty|threshold|score|sure|certain|confident|probability";
    let moves = "move|shift|put the|that|this|it? line? to|at <p>";
    let Some(found) = r.find(&[moves, "the|that|this line to|at <p>", "at|to|is <p>"]) else {
        return Ok(None);
    };
    let last = found.at.end.saturating_sub(1);
    let is_share = one_of("%|percent", r.any_word(last)) || r.any_word(last).contains('.');
    let is_other = r.find(&[OF_CONFIDENCE]).is_some() || is_of_a_shape(r, found.at.start);
    if !is_share || is_other {
        return Ok(None);
    }
    let mut places = watches.iter().map(|watch| watch.place.as_ref());
    let Some(Some(place)) = places.next() else {
        return Ok(None);
    };
    let wrong = |text: String| Err(Need::new(Missing::Place, text));
    let share = r.written(found.at.clone());
    let is_one = places.all(|other| other == Some(place));
    let moved = place::moved_line(&place.shape, found.value(0)).filter(|_| is_one);
    match moved {
        Some(Ok(said)) => {
            r.mark(found.at);
            Ok(Some(said))
        }
        Some(Err(place::Wrong::Text(why))) => wrong(format!("It is not clear where: {why}.")),
        Some(Err(place::Wrong::NoSize)) | None => wrong(format!(
            "{share:?} could be a place or a confidence. Say \"confidence {}\", or the whole \
             request again with its place.",
            found.value(0)
        )),
    }
}

/// Whether a share that begins here is that of a shape that is drawn whole.
fn is_of_a_shape(r: &Reader<'_>, start: usize) -> bool {
    r.find(&["vertical|horizontal|zone|area|half|third|quarter|rectangle|polygon|box|from <p>"])
        .is_some_and(|shape| shape.at.start <= start)
}

/// Takes a number of objects, with the words before it. One before a time may be part of it:
/// `2 to 3 minutes`.
fn number_of_objects(r: &mut Reader<'_>) -> Option<(String, f64)> {
    let found = r.find(&[
        "at? least|over|more? than? <n>",
        "fewer|less|under than? <n>",
        "<n>",
    ])?;
    let whole = r.over(&r.tokens);
    if whole.begins(found.at.end, &["and|or|to|,|-|–? <d>"]) {
        return None;
    }
    r.mark(found.at.clone());
    Some((r.written(found.at.clone()).to_lowercase(), found.value(0)))
}

/// The camera to which a correction moves the only watch, together with its place.
fn another_camera(
    r: &Reader<'_>,
    cameras: &Cameras,
    watches: &[WatchFor],
    has_place: bool,
) -> Result<Option<SourceId>, Need> {
    match cameras {
        Cameras::None => Ok(None),
        Cameras::These(ids) => match (ids.as_slice(), watches) {
            ([id], [watch]) if watch.place.is_none() || has_place => Ok(Some(id.clone())),
            _ => Err(not_read(r)),
        },
        Cameras::All => Err(not_read(r)),
        Cameras::Unknown(written) => Err(names::no_such_camera(written, r.scene)),
    }
}

/// Other classes, of the same model or of one that knows all of them.
fn other_classes(watch: &mut WatchFor, wanted: &Wanted, scene: &Scene) -> Result<(), Need> {
    let mentions = &wanted.mentions;
    if mentions.is_empty() {
        return Ok(());
    }
    // Whatever moves is no class: it can be said, and takes the classes away.
    let anything = |m: &Mention| m.labels.is_empty() && m.stand == Stand::Wanted;
    if mentions.iter().all(anything) && !scene.models.is_empty() {
        watch.objects = Objects::anything();
        return Ok(());
    }
    let now = (!watch.objects.labels.is_empty()).then(|| watch.objects.labels.clone());
    let own = scene.models.iter().filter(|m| m.name == watch.model);
    let others = scene.models.iter().filter(|m| m.name != watch.model);
    let mut refused = None;
    for model in own.chain(others) {
        let fits = |labels: &[String]| labels.iter().all(|l| model.labels.contains(l));
        match edit::classes(wanted, now.clone(), &model.labels, &watch.model) {
            Ok(Some(objects)) if fits(&objects.labels) => {
                let only = watch.objects.only;
                watch.objects = Objects { only, ..objects };
                watch.model.clone_from(&model.name);
                return Ok(());
            }
            Ok(_) => {}
            Err(need) => refused = refused.or(Some(need)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        Need::new(
            Missing::Class,
            "No single model knows all of these. Which classes shall it watch for?",
        )
    }))
}

/// Whether a watch has one direction, and the new line lies in another way than the old one.
fn says_a_way(watch: &WatchFor, new: &Shape) -> bool {
    let along = |shape: &Shape| match shape {
        Shape::Line([x0, y0], [x1, y1]) => Some([x1 - x0, y1 - y0]),
        Shape::Zone(_) => None,
    };
    let says = |what: &What| {
        matches!(
            what,
            What::Crosses(CrossDirection::In | CrossDirection::Out)
        )
    };
    let old = watch.place.as_ref().and_then(|place| along(&place.shape));
    let same = match (old, along(new)) {
        (Some([x, y]), Some([u, v])) => (x * v - y * u).abs() < 1e-9 && x * u + y * v > 0.0,
        _ => false,
    };
    !same && watch.conditions.iter().any(says)
}

/// Another place: a line takes the place of a line, an area that of an area or of the whole
/// picture.
fn in_place(watch: &mut WatchFor, place: &NamedPlace) -> Option<()> {
    let is_line = matches!(place.shape, Shape::Line(..));
    let crosses = watch
        .conditions
        .iter()
        .any(|what| matches!(what, What::Crosses(_)));
    if is_line != crosses && !(watch.conditions.is_empty() && watch.counts) {
        return None;
    }
    for what in &mut watch.conditions {
        if *what == What::Appears {
            *what = What::Enters;
        }
    }
    watch.place = Some(place.clone());
    Some(())
}

/// How many it is about, and for how long.
fn count_of(watch: &mut WatchFor) -> Option<(&mut CountBound, f64)> {
    watch.conditions.iter_mut().find_map(|what| match what {
        What::Count(bound, held_s) => Some((bound, *held_s)),
        _ => None,
    })
}

/// Another number, on the side on which the bound was. A bare one could be seconds too, where a
/// time was said, and where nobody is counted.
fn another_bound(
    words: &str,
    number: f64,
    now: CountBound,
    held_s: f64,
    notes: &mut Notes,
) -> Option<CountBound> {
    if !words.starts_with(|c: char| c.is_ascii_digit()) || words.parse::<f64>().is_err() {
        return bound(words, number);
    }
    match now {
        CountBound::Under(0 | 1) => None,
        _ if held_s > TOO_FEW_S => None,
        CountBound::Under(_) => bound("fewer", number),
        CountBound::Over(_) => {
            notes.assumed.push(format!(
                "{words} is at least {words}; say \"more than {words}\" where that is meant."
            ));
            bound(words, number)
        }
    }
}

fn bound(words: &str, number: f64) -> Option<CountBound> {
    if number.fract() != 0.0 || !(0.0..=1e6).contains(&number) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number up to a million"
    )]
    let number = number as u32;
    Some(match words {
        w if w.starts_with("fewer") || w.starts_with("less") || w.starts_with("under") => {
            CountBound::Under(number)
        }
        w if w.starts_with("over") || w.starts_with("more") => CountBound::Over(number),
        _ => CountBound::Over(number.checked_sub(1)?),
    })
}

/// Another time: that for which it has to be so, else the time of quiet where one was said.
fn how_long(watch: &mut WatchFor, seconds: f64, notes: &mut Notes) -> Option<()> {
    let mut held = watch.conditions.iter_mut().filter_map(|what| match what {
        What::Stays(for_s) | What::Count(_, for_s) => Some(for_s),
        _ => None,
    });
    if let Some(for_s) = held.next() {
        *for_s = seconds;
        return Some(());
    }
    if let Some(cooldown_s) = watch.cooldown_s.as_mut().filter(|said| **said > 0.0) {
        *cooldown_s = seconds;
        return Some(());
    }
    // Who enters or is seen and has to do so for a time is somebody who stays.
    let comes = |what: &What| matches!(what, What::Enters | What::Appears);
    let [what] = watch.conditions.as_mut_slice() else {
        return None;
    };
    if !comes(what) {
        return None;
    }
    *what = What::Stays(seconds);
    if watch.place.is_none() {
        watch.place = Some(named_place(whole_picture(), false));
        notes
            .assumed
            .push("No place was said: the whole picture.".to_owned());
    }
    Some(())
}
