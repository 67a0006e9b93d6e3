//! One request to watch → one [`WatchFor`] for each camera, or what has to be known first.
//!
//! Owns: the order in which the phrases of a request are read, and what follows from them together. The phrases themselves: `acts` (verbs),
//! `amounts` and `how_many` (numbers), `ending` (until when), `spot` (where), `objects` (what).
//!
//! Invariant: camera, objects and place are what the person said or what the notes say was assumed; a place that was named and
//! isn't known is asked for, never guessed.

mod acts;
mod amounts;
mod channels;
mod ending;
mod how_many;
mod mixed;
mod objects;
mod relation;
mod spot;
mod which;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::{CountBound, CrossDirection, Severity};

pub(crate) use acts::{one_way, quietly, wishes};
pub(crate) use amounts::{confidence, cooldown, is_for_a_time, seconds};
pub(crate) use channels::channels;
pub(crate) use ending::{end_of_watch, ending};
pub(crate) use spot::{direction, geometry as drawn, named_place, slug, whole_picture};
pub(crate) use which::refuse as refuse_one_of_them;

use crate::answer::Missing;
use crate::apart;
use crate::hours;
use crate::intent::{NamedPlace, WatchFor, What};
use crate::lexicon::Lexicon;
use crate::names::{self, Cameras, Mention, Stand};
use crate::need::{Need, Notes};
use crate::place::{self, Said, Way};
use crate::reader::{Reader, left_over};
use crate::scene::{Camera, Scene, Shape, quoted};
use crate::weighty;
use acts::{acts, verbs};
use amounts::spans;
use how_many::bound;
use objects::objects;
use spot::{LINE_REMEDY, direction_of, geometry, mark_words, unknown_place, where_is};

/// Seconds for which too few have to be seen, where nobody says how long. A detector misses somebody for some frames, and somebody walks behind somebody
/// else: an event of that is none. Longer than the two seconds for which a tracker waits for whom it has lost.
pub(crate) const TOO_FEW_S: f64 = 3.0;

/// Understands one request to watch. `before` is the camera of the request before it.
pub(crate) fn watch(
    mut r: Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    before: Option<&SourceId>,
    notes: &mut Notes,
) -> Result<Vec<WatchFor>, Need> {
    let heading: Vec<usize> = match r.tokens.iter().position(|t| t.text == ":") {
        Some(end) => (0..end).collect(),
        None => Vec::new(),
    };
    mixed::not_a_place(&mut r);
    let ends_after_s = ending(&mut r)?;
    weighty::refuse_a_report(&r)?;
    // That it is no more than that is what is offered anyway.
    r.take_all(&["and|but? nothing else|more"]);
    let severity = if r
        .find(&["critical|critically|urgent|urgently|emergency"])
        .is_some()
    {
        r.take_all(&["critical|critically|urgent|urgently|emergency"]);
        Severity::Critical
    } else if r.find(&["warn|warning|alarm|alert|alerts"]).is_some() {
        Severity::Warning
    } else {
        Severity::Info
    };
    // `stop the hall watch; instead tell me …`
    if r.word(0) == "instead" {
        r.mark(0..1);
    }
    // `the second a lorry turns up` is no place and no time.
    const SOON: &str =
        "the second|moment|minute|instant a|an|any|someone|somebody|anyone|anybody|it|they|people";
    while let Some(found) = r.find(&[SOON]) {
        r.mark(found.at.start..found.at.start + 2);
    }
    let abandoned: Vec<usize> = (0..r.tokens.len())
        .filter(|i| {
            matches!(r.word(*i), "unattended" | "abandoned")
                && names::class_begins(&r, i + 1, scene, lexicon)
        })
        .collect();
    for at in &abandoned {
        r.mark(*at..at + 1);
    }
    // `keep a head count`
    let heads = r
        .find(&["head count|counts", "headcount|head-count|crowd|crowds"])
        .is_some();
    let wished = wishes(&mut r, notes)?;
    let (notify, is_sent) = channels(&mut r, scene, notes);
    let severity = match wished.quiet {
        true => Severity::Info,
        false => severity,
    };
    // `at most one alert every hour`: the verb of it asks for nothing more.
    let cooldown_s = cooldown(&mut r).unwrap_or(0.0);
    let (told, counted) = verbs(&mut r, scene, lexicon);
    // It was asked to watch, whoever took the verb.
    let told = told || wished.any || is_sent || !counted;
    if told && wished.quiet {
        notes.assumed.push(
            "Nobody is told over a channel: each event is kept with its picture, and published over MQTT as any other.".to_owned(),
        );
    }
    from_one_to_another(&r, scene, lexicon)?;
    let cameras = cameras_of(&mut r, scene, lexicon, before, notes)?;
    beside_used(
        &mut r,
        &[
            "near", "beside", "behind", "outside", "inside", "within", "around",
        ],
    );
    let known: Vec<_> = cameras.iter().filter_map(|id| scene.camera(id)).collect();
    let named = names::known_place(&mut r, &known).map(|(_, place)| place.clone());
    let drawn_on = match &named {
        Some(place) => names::place_on_each(&place.name, &known)?,
        None => Vec::new(),
    };
    beside_used(&mut r, &["inside", "within"]);
    if beside_used(&mut r, &["near", "beside", "around"]) {
        notes
            .assumed
            .push("Near a place is taken as in it.".to_owned());
    }
    let mut ways = place::ways(&mut r);
    let spans = spans(&mut r, notes);
    let confidence = confidence(&mut r, notes)?;
    let schedules = hours::schedules(&mut r, &mut notes.assumed);
    let mut place = match named {
        Some(known) => Some(Said {
            text: format!("the place {}", quoted(&known.name)),
            name: Some(known.name),
            shape: known.shape,
        }),
        None => geometry(&mut r, &known, notes)?,
    };
    one_place(&r, place.as_ref(), &known)?;
    let bound = bound(&mut r, scene, lexicon)?;
    let said = r.clone();
    let mentions = names::classes(&mut r, scene, lexicon);
    relation::refuse(&r, &mentions)?;
    if bound.is_some() {
        // That is what a number of them says.
        r.take_all(&["all? at the same time", "all? at once", "simultaneously"]);
    }
    if bound.is_some() {
        one_number(&r, &mentions)?;
    }
    let before = r.used.clone();
    let mut acts = acts(&mut r);
    let happens: Vec<usize> = (0..r.tokens.len())
        .filter(|i| before.get(*i) != r.used.get(*i))
        .collect();
    which::one_after_another(&r, &mentions, &happens)?;
    let all_left = which::all_have_left(&mut r, &mentions, acts.leaves, notes)?;
    if all_left && (acts.enters || acts.crosses || acts.stays) {
        return Err(Need::new(
            Missing::Meaning,
            "That all of them have left is one thing, and what else happens another. Please say them one at a time, such as \"when the hall is empty\".",
        ));
    }
    match all_left {
        true => (acts.leaves, acts.empty) = (false, true),
        false => which::refuse_all(&r, &mentions)?,
    }
    which::refuse(&r, &mentions)?;
    acts.people |= heads;
    acts.stays |= !abandoned.is_empty();
    if counted && !told && acts.enters && acts.leaves {
        // Who comes in and who goes out is counted where they do.
        (acts.crosses, acts.both_ways) = (true, true);
    }
    cannot_be_seen(&mut r, &mentions, notes)?;
    let unknown_place = unknown_place(&r, &heading, lexicon);
    let (model, objects, none) = objects(
        &mut r,
        &mentions,
        unknown_place.as_deref(),
        scene,
        lexicon,
        notes,
        &acts,
    )?;
    moves_not(&said, &model, none, scene, notes);
    if let Some(written) = &unknown_place {
        match &mut place {
            // What was asked for was answered: the words are its name.
            Some(place) => {
                place.text = format!("{} ({})", quoted(written), place.text);
                place.name = place.name.take().or_else(|| Some(written.clone()));
            }
            None => return Err(where_is(written, &known, &acts, scene)),
        }
        mark_words(&mut r, written);
    }
    if bound.is_some() && (acts.crosses || acts.enters || acts.leaves) {
        return Err(Need::new(
            Missing::Meaning,
            "I can tell each one that comes, goes or crosses, and when more or fewer than a number are there at once; I do not add up how many came. \
             Say for example \"when there are more than 3 people\".",
        ));
    }
    if let Some(wrong) = spans.wrong {
        return Err(wrong);
    }
    let crosses = acts.crosses || matches!(&place, Some(p) if matches!(p.shape, Shape::Line(..)));
    if none && (crosses || acts.enters || acts.leaves) {
        return Err(Need::new(
            Missing::Meaning,
            "I tell those who come, go or cross as they do, and not that none did. I can tell when nobody is there for a time: say for example \"when nobody is in the hall for 10 \
             minutes\".",
        ));
    }
    if let Some(seconds) = spans.hold_s
        && (crosses || acts.leaves)
        && told
    {
        return Err(Need::new(
            Missing::Meaning,
            format!(
                "Who {} does so in a moment, and not for {}. Say it without the time, or say for how long somebody stays (\"when a person is in the hall for {1}\") or nobody is there \
                 (\"when nobody is in the hall for {1}\").",
                if crosses { "crosses a line" } else { "leaves" },
                amounts::seconds(seconds)
            ),
        ));
    }
    // `nobody but a dog` is that a dog is there alone.
    if none && mentions.iter().any(|m| m.stand == Stand::Excluded) {
        return Err(Need::new(
            Missing::Meaning,
            "I can tell when none of something is there, and not when there is none but something else. Say it without the exception, such as \"when nobody is in the hall\".",
        ));
    }
    if counted && !told && !crosses && (acts.enters || acts.leaves) {
        return Err(Need::new(
            Missing::Line,
            format!(
                "Who comes and who goes is counted where they cross a line. Where is it? {LINE_REMEDY}"
            ),
        ));
    }
    let empty = acts.empty || none;
    let bound = match (bound, empty, acts.occupied) {
        (Some(bound), ..) => Some(bound),
        (None, true, _) => Some(CountBound::Under(1)),
        (None, false, true) => Some(CountBound::Over(0)),
        (None, false, false) => None,
    };
    mixed::refuse(&r, &mentions, bound, (empty, acts.occupied))?;
    apart::refuse_either_hours(&r)?;
    let is_line = matches!(&place, Some(p) if matches!(p.shape, Shape::Line(..)));
    if (acts.crosses || is_line) && ways.is_empty() {
        ways.extend(match (acts.enters, acts.leaves) {
            _ if acts.both_ways => Some(Way::Any),
            (true, false) => Some(Way::In),
            (false, true) => Some(Way::Out),
            _ => None,
        });
    }
    if acts.crosses || is_line {
        // Whatever crosses a line goes or drives.
        r.take_all(&["drive|drives|driving|walk|walks|walking|ride|rides|riding|pass|passes|passing|move|moves|moving"]);
    }
    if bound.is_some() && acts.parks {
        notes.not_possible.push(
            "A number does not tell whether they are parked or drive: all that are there count."
                .to_owned(),
        );
    }
    let is_only_seen = told && bound.is_none() && !acts.any() && place.is_none();
    let mut conditions = Vec::new();
    if acts.crosses || is_line {
        let Some(line) = place.as_ref().and_then(|p| match p.shape {
            Shape::Line(a, b) => Some((a, b)),
            Shape::Zone(_) => None,
        }) else {
            return Err(Need::new(
                Missing::Line,
                format!("Where is the line that they cross? {LINE_REMEDY}"),
            ));
        };
        let direction = direction_of(&ways, line, notes)?;
        if told {
            conditions.push(What::Crosses(direction));
        } else if direction != CrossDirection::Any {
            notes.assumed.push(format!(
                "A line counts both directions, each by itself: the one that was said is count_{}.",
                if direction == CrossDirection::In {
                    "in"
                } else {
                    "out"
                }
            ));
        }
    } else if let Some(bound) = bound {
        let for_s = match (spans.hold_s, bound) {
            (Some(said), _) => said,
            (None, CountBound::Over(_)) => 0.0,
            (None, CountBound::Under(_)) => {
                notes.assumed.push(format!(
                    "For how long was not said: it has to be so for {}, as whoever is hidden for a moment is not gone.",
                    seconds(TOO_FEW_S)
                ));
                TOO_FEW_S
            }
        };
        conditions.push(What::Count(bound, for_s));
    } else if acts.stays || (spans.hold_s.is_some() && told) {
        let Some(for_s) = spans.hold_s else {
            // `for minus 5 seconds` is a time that is no time.
            weighty::refuse(&r)?;
            return Err(Need::new(
                Missing::Duration,
                "How long shall they stay before it counts? Say for example \"two minutes\".",
            ));
        };
        conditions.push(What::Stays(for_s));
    } else if told {
        if acts.enters {
            conditions.push(What::Enters);
        }
        if acts.leaves {
            conditions.push(What::Leaves);
        }
        if conditions.is_empty() {
            conditions.push(if place.is_some() {
                What::Enters
            } else {
                What::Appears
            });
        }
    }
    // These need a place; without one it is the whole picture.
    let needs_zone = conditions
        .iter()
        .any(|c| matches!(c, What::Leaves | What::Stays(_)));
    if place.is_none() && needs_zone {
        place = Some(whole_picture());
        notes
            .assumed
            .push("No place was said: the whole picture.".to_owned());
    } else if place.is_none() && conditions.contains(&What::Enters) {
        conditions = vec![What::Appears];
        notes
            .assumed
            .push("No place was said: whoever is seen for the first time has entered.".to_owned());
    }
    let is_one_way = matches!(ways.as_slice(), [way] if *way != Way::Any);
    if is_one_way && !acts.crosses && !is_line {
        return Err(Need::new(
            Missing::Line,
            format!(
                "Which way something moves is told by a line that it crosses. Where is the line? {LINE_REMEDY}"
            ),
        ));
    }
    if is_only_seen {
        doing(&r, &mentions, lexicon)?;
    }
    weighty::refuse(&r)?;
    weighty::refuse_way(&r)?;
    notes.not_understood.extend(left_over(&r, lexicon));
    let place = place.map(|said| named_place(said, is_line));
    let watch = |camera: SourceId, conditions: Vec<What>, place: Option<NamedPlace>| WatchFor {
        camera,
        model: model.clone(),
        objects: objects.clone(),
        conditions,
        place,
        counts: counted,
        confidence,
        schedules: schedules.clone(),
        cooldown_s,
        severity,
        notify: notify.clone(),
        clip: wished.clip,
        // What is critical is never lowered.
        second_opinion: wished.second_opinion && severity != Severity::Critical,
        stop_after_s: ends_after_s.or(spans.stop_after_s),
    };
    let mut watches = Vec::new();
    for camera in cameras {
        let (mut place, mut conditions) = (place.clone(), conditions.clone());
        // A place that has a name lies elsewhere on each camera, and what is in of a line there may be out of it here.
        let drawn = drawn_on.iter().find(|(on, _)| *on == camera);
        if let (Some(place), Some((_, shape))) = (&mut place, drawn) {
            place.shape = shape.clone();
            if let Shape::Line(a, b) = place.shape {
                for what in &mut conditions {
                    if let What::Crosses(to) = what {
                        *to = direction_of(&ways, (a, b), &mut Notes::default())?;
                    }
                }
            }
        }
        watches.push(watch(camera, conditions, place));
    }
    Ok(watches)
}

/// Marks these words where they stand before words that are used already, and says whether there was one.
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

/// Refuses a number of one thing beside another: `a car and two people` are not two of either.
fn one_number(r: &Reader, mentions: &[Mention]) -> Result<(), Need> {
    let article = |m: &Mention| {
        let before = m.at.start.checked_sub(1);
        before.is_some_and(|i| matches!(r.any_word(i), "a" | "an" | "one"))
    };
    let and = |a: &Mention, b: &Mention| (a.at.end..b.at.start).any(|i| r.any_word(i) == "and");
    let each = mentions.windows(2).find(|pair| match pair {
        [a, b] => {
            let wanted = a.stand == Stand::Wanted && b.stand == Stand::Wanted;
            wanted && a.labels != b.labels && and(a, b) && (article(a) || article(b))
        }
        _ => false,
    });
    match each {
        Some([a, b]) => {
            let written = r.written(a.at.start..b.at.end);
            Err(Need::not_read(
                "I can tell how many there are of all that is named together, not how many of each. Say one of them, or \"at least 3 cars or people\".",
                vec![written],
            ))
        }
        _ => Ok(()),
    }
}

/// Says of what is opened and closed that it can't be seen; without anything else to watch for there is nothing left of the request.
fn cannot_be_seen(r: &mut Reader, mentions: &[Mention], notes: &mut Notes) -> Result<(), Need> {
    let Some(found) = r.take(&[
        "opens|opened|opening|open|closes|closed|closing|shuts|locks|locked|unlocks|unlocked",
    ]) else {
        return Ok(());
    };
    let written = r.written(found.at);
    let text = format!(
        "No model here sees that something is opened or closed ({}): only what is in the picture, where, and for how long.",
        quoted(&written)
    );
    if mentions.is_empty() {
        return Err(Need::not_read(text, vec![written]));
    }
    notes.not_possible.push(text);
    Ok(())
}

/// Says of `nothing moves` what it comes to where a model sees things, be they still or not.
fn moves_not(said: &Reader, model: &str, none: bool, scene: &Scene, notes: &mut Notes) {
    let moves = ["nothing|nobody|noone is|are? moves|moved|moving"];
    let sees_things = |m: &&crate::scene::Model| m.name == model && !m.labels.is_empty();
    if none && said.find(&moves).is_some() && scene.models.iter().any(|m| sees_things(&m)) {
        notes.assumed.push(format!(
            "The model {model} sees what is there, and not whether it moves: what stands still is there too."
        ));
    }
}

/// Refuses a way from one camera to another: each camera sees its own tracks only.
fn from_one_to_another(r: &Reader, scene: &Scene, lexicon: &Lexicon) -> Result<(), Need> {
    let named = |word: &str, from: usize| {
        (from..r.tokens.len())
            .find(|i| r.word(*i) == word && names::camera_at(r, i + 1, scene, lexicon))
    };
    let Some(from) = named("from", 0) else {
        return Ok(());
    };
    let Some(to) = named("to", from) else {
        return Ok(());
    };
    let written = r.written(from..to + 1);
    Err(Need::not_read(
        "I cannot follow somebody from one camera to another. Each camera can be watched by itself.",
        vec![written],
    ))
}

/// Refuses a request in which something happens that is no word of the language: seen at all is something else than `falls` or `runs`.
fn doing(r: &Reader, mentions: &[Mention], lexicon: &Lexicon) -> Result<(), Need> {
    const HELPS: [&str; 9] = [
        "is", "are", "was", "has", "have", "been", "being", "gets", "starts",
    ];
    for mention in mentions {
        let mut at = mention.at.end;
        while HELPS.contains(&r.word(at)) {
            at += 1;
        }
        let content = |i: &usize| {
            let word = r.word(*i);
            let is_word = r.tokens.get(*i).is_some_and(|t| t.is_word());
            is_word && !word.is_empty() && !lexicon.is_filler(word)
        };
        let end = (at..r.tokens.len()).take_while(content).last();
        if let Some(last) = end {
            let written = r.written(at..last + 1);
            return Err(Need::not_read(
                format!(
                    "What {} means for them is nothing that I can watch: I can tell when they are seen, enter, leave, stay, or cross a line.",
                    quoted(&written)
                ),
                vec![written],
            ));
        }
    }
    Ok(())
}

/// The cameras that are meant: those that are named, the one of a place that is named, the one of the request before, or the only one.
fn cameras_of(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    before: Option<&SourceId>,
    notes: &mut Notes,
) -> Result<Vec<SourceId>, Need> {
    let all = || scene.cameras.iter().map(|c| c.id.clone()).collect();
    if scene.cameras.is_empty() {
        return Err(Need::new(
            Missing::Camera,
            "There is no camera yet. Add one, then ask again.",
        ));
    }
    // `on all cameras except the yard`
    if let Some(found) = r.find(&[
        "on|for|at|from? all|every of? the? cameras|camera but|except|excluding for|on|at|not?",
    ]) {
        let mut later = r.clone();
        later.mark(0..found.at.end);
        if let Cameras::These(out) = names::cameras(&mut later, scene, lexicon) {
            r.mark(found.at.clone());
            for i in found.at.end..r.tokens.len() {
                if later.word(i).is_empty() {
                    r.mark(i..i + 1);
                }
            }
            let left = scene
                .cameras
                .iter()
                .map(|c| &c.id)
                .filter(|id| !out.contains(id));
            let left: Vec<SourceId> = left.cloned().collect();
            if !left.is_empty() {
                return Ok(left);
            }
        }
    }
    match names::cameras(r, scene, lexicon) {
        Cameras::These(cameras) => Ok(cameras),
        Cameras::All => Ok(all()),
        Cameras::Unknown(written) => Err(names::no_such_camera(&written, scene)),
        Cameras::None => {
            // A place with a name is on one camera, which is meant then.
            let known: Vec<_> = scene.cameras.iter().collect();
            let with_place = place_of_one(r, &known, before)?;
            if let Some(camera) = with_place.as_ref().or(before) {
                return Ok(vec![camera.clone()]);
            }
            if let [only] = scene.cameras.as_slice() {
                notes.assumed.push(format!(
                    "The camera is {}, the only one.",
                    names::shown(only)
                ));
                return Ok(vec![only.id.clone()]);
            }
            let text = format!("On which camera? There are {}.", names::listed(scene));
            Err(Need::new(Missing::Camera, text).with(names::choices(scene)))
        }
    }
}

/// The camera of the place that is named. One of that name on several cameras is asked about, unless the request before it was about one of these.
fn place_of_one(
    r: &Reader,
    cameras: &[&Camera],
    before: Option<&SourceId>,
) -> Result<Option<SourceId>, Need> {
    let Some((_, place)) = names::known_place(&mut r.clone(), cameras) else {
        return Ok(None);
    };
    let on = cameras
        .iter()
        .filter(|c| names::place_on(c, &place.name).is_some());
    let on: Vec<&SourceId> = on.map(|c| &c.id).collect();
    match (on.as_slice(), before) {
        ([one], _) => Ok(Some((*one).clone())),
        (several, Some(before)) if several.contains(&before) => Ok(Some(before.clone())),
        (several, _) => {
            let choices: Vec<String> = several.iter().map(ToString::to_string).collect();
            let text = format!(
                "On which camera? There is a place {} on {}.",
                quoted(&place.name),
                choices.join(" and ")
            );
            Err(Need::new(Missing::Camera, text).with(choices))
        }
    }
}
