//! Questions: what is to be looked up, and what can be said at once.
//!
//! Invariant: nothing here changes anything.

use std::collections::BTreeSet;

use jiff::Zoned;
use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::deployed;
use crate::hours;
use crate::intent::{EventsWanted, Look};
use crate::kinds;
use crate::lexicon::Lexicon;
use crate::moments::{self, Range};
use crate::names::{self, Cameras, Mention};
use crate::need::Notes;
use crate::reader::{Reader, left_over};
use crate::scene::{Camera, Model, Scene, quoted};
use crate::span;
use crate::token::Kind;

/// What a question is about, and the text that goes with it; nothing where it isn't understood.
pub(crate) fn look(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<(Look, String), String> {
    let pictures = its_pictures(r);
    refuse_what_no_table_answers(r)?;
    let pipelines = its_pipelines(r, scene);
    let (cameras, all) = its_cameras(r, scene, lexicon)?;
    let camera = match cameras.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    };
    let most = latest(r).or(pictures.filter(|one| *one).map(|_| 1));
    let (range, compared_with) = its_spans(r, &scene.now, &mut notes.assumed);
    let by_hour = wants_hours(r);
    let many = r.take(&["how many", "how often", "number of"]).is_some();
    if many && has(r, "how many|often") {
        return Err("Those are two questions. Please ask them one at a time.".to_owned());
    }
    let past = has(r, HAPPENED) || has(r, WAS) || most.is_some() || pictures.is_some() || by_hour;
    // `how many things crossed` is about what happened.
    let able = has(
        r,
        "detect|recognise|recognize|recognised|recognized|classes|class|labels|distinguish",
    ) || (!many && has(r, "objects|things"));
    let able = able && !has(r, "did|happened|was|were") && !(many && past);
    if let Some(found) = itself(r, able && range.is_none(), scene) {
        return Ok(found);
    }
    // `which cameras do you have`
    let of_cameras = (all || has(r, "cameras|sources")) && cameras.is_empty();
    if of_cameras && range.is_none() && only_cameras(r, lexicon) {
        return Ok((
            Look::Cameras,
            format!("The cameras are: {}.", names::listed(scene)),
        ));
    }
    let deployed = has(
        r,
        "running|runs|deployed|watching|watches|watched|active|paused|setup|configured",
    ) || r.find(&["set up"]).is_some();
    if range.is_some() || (past && !deployed) {
        if cameras.len() > 1 {
            return Err(
                "Ask about one camera at a time, or about all of them: each is counted then."
                    .to_owned(),
            );
        }
        let wanted = EventsWanted {
            camera,
            pipelines,
            only_number: many || by_hour || compared_with.is_some(),
            pictures: pictures.is_some(),
            most,
            by_hour,
            compared_with,
            ..EventsWanted::default()
        };
        let range = range.or_else(|| {
            let today = || moments::today(&scene.now, &mut notes.assumed);
            by_hour.then(today)
        });
        return events(r, wanted, range, scene, lexicon);
    }
    let is_any = !cameras.is_empty();
    now(r, camera.as_ref(), is_any, many, scene, lexicon)
}

fn has(r: &Reader, words: &str) -> bool {
    r.find(&[words]).is_some()
}

/// Takes the words of a topic, and whether one stood there.
fn topic(r: &mut Reader, words: &str) -> bool {
    r.take_all(&[words])
}

/// Refuses questions for pictures, notes, spans and reasons: nothing that can be looked up.
fn refuse_what_no_table_answers(r: &Reader) -> Result<(), String> {
    if has(r, "picture|photo|image|snapshot|describe")
        && (has(r, "in|describe|on|what|what's"))
        && !has(r, "classes|labels")
    {
        return Err("Without a language model I cannot describe a picture, and I do not identify people. I can show what the cameras count and what happened; \
            ask \"help\" for more."
            .to_owned());
    }
    if let Some(found) = r.find(&[
        "remember|remembered|recall|memory|memories|notes|note about|of|on|for? the|my|our?",
    ]) {
        let about = r.written(found.at.end..r.tokens.len());
        let about = about.trim_end_matches(['?', '.', '!', ' ']);
        let about = if about.is_empty() { "WORDS" } else { about };
        return Err(format!(
            "What is kept in notes is shown by `/memory {about}` in the chat. I can show the cameras, what is watched, how many are counted and what happened; ask \"help\" for more."
        ));
    }
    if let Some(found) = r.find(&["how long", "for how long"])
        && r.find(&["how long ago"]).is_none()
    {
        return Err(format!(
            "{} is nothing that I add up: each event that is over says how long it went on. Ask for the events (\"what happened at the gate today\") or how often (\"how many stayed at the gate \
             today\").",
            quoted(&r.written(found.at))
        ));
    }
    // Why something was or was not so, and what would be.
    if has(r, "why|would|talking|saying|sound|hear") {
        return Err(String::new());
    }
    Ok(())
}

/// The span that a question is about, and the one that it is compared with.
fn its_spans(
    r: &mut Reader,
    now: &Zoned,
    assumed: &mut Vec<String>,
) -> (Option<Range>, Option<Range>) {
    let (first, second) = match moments::compared(r, now, assumed) {
        Some((first, second)) => (Some(first), Some(second)),
        None => (moments::past(r, now, assumed), None),
    };
    let mut been = |range| span::been(r, range, now, assumed);
    (first.map(&mut been), second.map(&mut been))
}

/// Whether a number is asked for each hour, or for the hour with most events.
fn wants_hours(r: &mut Reader) -> bool {
    r.take_all(&[
        "at|in|during? what|which hour|hours|time was|were|is|are? it? the? busiest",
        "at|in|during? what|which|the? busiest|peak hour|hours|time|times?",
        "per|each|every|an hour",
        "hour by hour",
        "by the? hour",
        "hourly",
    ])
}

/// The cameras that a question names, and whether it means all of them.
fn its_cameras(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<(Vec<SourceId>, bool), String> {
    match names::cameras(r, scene, lexicon) {
        Cameras::Unknown(written) if stands_before_camera(r, &written) => {
            Err(names::no_such_camera(&written, scene).text)
        }
        Cameras::These(cameras) => Ok((cameras, false)),
        Cameras::All => Ok((Vec::new(), true)),
        Cameras::None | Cameras::Unknown(_) => Ok((Vec::new(), false)),
    }
}

/// A question for what can be said, or for what the models know.
fn itself(r: &mut Reader, able: bool, scene: &Scene) -> Option<(Look, String)> {
    if topic(r, "templates|template") {
        return Some((Look::Templates, String::new()));
    }
    if topic(r, "help|commands") || r.take(&["what can i say|ask|do"]).is_some() {
        return Some((Look::Help, HELP.to_owned()));
    }
    able.then(|| (Look::Classes, classes(scene)))
}

/// Whether a question that names cameras says nothing else.
fn only_cameras(r: &Reader, lexicon: &Lexicon) -> bool {
    let mut rest = r.clone();
    rest.take_all(&[
        "cameras|sources",
        SHOWN,
        "known|connected|available|configured|added|installed",
    ]);
    left_over(&rest, lexicon).is_empty() && !has(&rest, "status|health")
}

/// A question for what happened. `wanted` says on which camera, of which pipelines and how many.
fn events(
    r: &mut Reader,
    mut wanted: EventsWanted,
    range: Option<Range>,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<(Look, String), String> {
    let many = wanted.only_number;
    refuse_other_comparisons(r, &wanted)?;
    let of_events = has(r, "events|event|alerts|alarms|warnings|incidents");
    // Before classes: a place may be named like one.
    if let Some((camera, place)) = its_place(r, wanted.camera.as_ref(), scene, lexicon) {
        wanted.camera = Some(camera);
        wanted.place = Some(place);
    }
    let kinds = kinds::asked(r, many);
    let mentions = names::classes(r, &with_all_classes(scene), lexicon);
    let labels = labels_of(&mentions, scene);
    r.take_all(&[
        "happened|happen|events|event|alerts|alarms|warnings|incidents|came|come|comes|seen|passed|appeared",
        "went|anything|counted|recorded|altogether|total",
        SHOWN,
        "last|latest|recent",
    ]);
    // A number of something else, and events of something else, are no answers.
    another_time(r)?;
    nothing_else(r, lexicon)?;
    let watches: Vec<_> = scene
        .pipelines
        .iter()
        .filter(|p| wanted.pipelines.is_empty() || wanted.pipelines.contains(&p.spec.id))
        .filter(|p| wanted.camera.as_ref().is_none_or(|c| p.spec.source == *c))
        .collect();
    let (conditions, mut told) = kinds::counted(&kinds, &watches, &labels, many);
    if many && kinds.is_empty() && !of_events {
        told.push(kinds::events_of(&watches, &labels));
    }
    let (from, to) = range.unwrap_or((None, None));
    told.extend(names::substitutions(&mentions));
    // The answer names the spans of a comparison itself.
    if wanted.compared_with.is_none() {
        told.push(span::told((from, to), &scene.now));
    }
    told.retain(|sentence| !sentence.is_empty());
    wanted.labels = labels;
    wanted.conditions = conditions;
    wanted.from = from;
    wanted.to = to;
    Ok((Look::Events(wanted), told.join(" ")))
}

/// Refuses to compare anything but two spans of time.
fn refuse_other_comparisons(r: &Reader, wanted: &EventsWanted) -> Result<(), String> {
    let compares = has(r, "compare|compared|busier|quieter")
        || has(r, "more|fewer|less") && r.find(&["than <n>"]).is_none() && has(r, "than|or");
    if wanted.compared_with.is_none() && compares {
        return Err(
            "I compare the numbers of two times, such as \"more cars today than yesterday\" or \
             \"how many this morning against yesterday morning\"; ask for others one by one."
                .to_owned(),
        );
    }
    Ok(())
}

/// Hides the names of places that stand as classes, such as the first `car` of `was a car in the
/// car zone`. Returns the reader without them.
fn without_class_names(r: &Reader, scene: &Scene, lexicon: &Lexicon) -> Reader {
    let mut view = r.clone();
    let mentions = names::classes(&mut r.clone(), &with_all_classes(scene), lexicon);
    for mention in mentions {
        let (start, end) = (mention.at.start, mention.at.end);
        let article =
            usize::from(start > 0 && matches!(r.any_word(start - 1), "the" | "my" | "our"));
        let before = start
            .checked_sub(1 + article)
            .map_or("", |at| r.any_word(at));
        if !BEFORE_PLACES.contains(&before) && !PLACES.contains(&r.any_word(end)) {
            view.mark(start..end);
        }
    }
    view
}

/// Words before the name of a place.
const BEFORE_PLACES: [&str; 14] = [
    "in", "at", "on", "inside", "into", "onto", "within", "through", "across", "over", "near",
    "around", "from", "to",
];
/// Words behind the name of a place.
const PLACES: [&str; 5] = ["zone", "area", "line", "region", "place"];

/// The named place that a question is about, with its camera.
fn its_place(
    r: &mut Reader,
    camera: Option<&SourceId>,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Option<(SourceId, String)> {
    let cameras = scene.cameras.iter();
    let cameras: Vec<&Camera> = cameras
        .filter(|known| camera.is_none_or(|camera| known.id == *camera))
        .collect();
    let mut view = without_class_names(r, scene, lexicon);
    let before = view.used.clone();
    let (camera, place) = names::known_place(&mut view, &cameras)?;
    for at in (0..before.len()).filter(|at| !before[*at] && view.used[*at]) {
        r.mark(at..at + 1);
    }
    if let Some(at) = (1..before.len())
        .find(|at| view.used[at - 1] && !before[at - 1] && PLACES.contains(&r.word(*at)))
    {
        r.mark(at..at + 1);
    }
    Some((camera.id.clone(), place.name.clone()))
}

/// The scene as one in which every known class can be told: whether it could be is a matter of what
/// watched then.
fn with_all_classes(scene: &Scene) -> Scene {
    let mut scene = scene.clone();
    scene.models.push(Model {
        name: String::new(),
        labels: scene.classes.clone(),
    });
    scene
}

/// The labels of what is named: those that some model tells, else all.
fn labels_of(mentions: &[Mention], scene: &Scene) -> Vec<String> {
    let models = scene.models.iter().flat_map(|model| &model.labels);
    let told: BTreeSet<&String> = models.chain(&scene.classes).collect();
    let mut labels: Vec<String> = Vec::new();
    for mention in mentions {
        let is_told = mention.labels.iter().any(|label| told.contains(label));
        for label in &mention.labels {
            if !labels.contains(label) && (told.contains(label) || !is_told) {
                labels.push(label.clone());
            }
        }
    }
    labels
}

/// A question for the present: status, pipelines, cameras, models. `is_any`: a camera is named.
fn now(
    r: &mut Reader,
    camera: Option<&SourceId>,
    is_any: bool,
    many: bool,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<(Look, String), String> {
    let states = "status|health|online|offline|working|ok|okay|alive|fps|connected";
    let status = || (Look::Status(camera.cloned()), deployed::listed(scene));
    if has(r, states) || many && names::mentions_class(r, scene, lexicon) || has(r, "there") {
        r.take_all(&[states, "box|system|everything|anything|overall|happening"]);
        drop(names::classes(r, scene, lexicon));
        nothing_else(r, lexicon)?;
        return Ok(status());
    }
    if topic(
        r,
        "pipelines|pipeline|watches|watch|running|runs|watching|watched|rules|alarms|jobs|deployed|streams|active|paused|set",
    ) {
        r.take_all(&["everything|anything"]);
        nothing_else(r, lexicon)?;
        let text = match camera {
            Some(camera) => deployed::listed_on(scene, camera),
            None => deployed::listed(scene),
        };
        return Ok((Look::Pipelines(camera.cloned()), text));
    }
    if has(r, "cameras|camera|sources") || r.any_word(0) == "cameras" || is_any {
        r.take_all(&["sources", "happening"]);
        drop(names::classes(r, scene, lexicon));
        nothing_else(r, lexicon)?;
        if camera.is_some() {
            return Ok(status());
        }
        return Ok((
            Look::Cameras,
            format!("The cameras are: {}.", names::listed(scene)),
        ));
    }
    if topic(r, "models|model") {
        return Ok((Look::Classes, classes(scene)));
    }
    Err(String::new())
}

/// Words for events, and for what is one.
const HAPPENED: &str = "happened|happen|events|event|alerts|alarms|warnings|incidents|came|entered|crossed|left|seen|stayed|waited|passed|appeared|arrived|loitered";
/// Words that say only that something is past.
const WAS: &str = "was|were|did|has|have|had";

/// Whether pictures of events are asked for, and only one: `show me the picture of the last
/// visitor`.
fn its_pictures(r: &mut Reader) -> Option<bool> {
    const ONE: &str = "picture|photo|image|snapshot";
    const SEVERAL: &str = "pictures|photos|images|snapshots";
    let events = "event|events|alert|alerts|alarm|alarms|warning|warnings";
    if has(r, events) {
        let any = format!("{ONE}|{SEVERAL} of|from|for");
        return r.take(&[&any]).map(|_| false);
    }
    let shows = "show|see|display|give|send me|us? the|its|their last|latest|newest?";
    let of = "of|from|for?";
    let is_one = r.take(&[&format!("{shows} {ONE} {of}")]).is_some();
    (is_one || r.take(&[&format!("{shows} {SEVERAL} {of}")]).is_some()).then_some(is_one)
}

/// How many of the newest events are asked for: `the last 3 events`, `the latest alarm`.
fn latest(r: &mut Reader) -> Option<usize> {
    let several = "last|latest|newest|recent <n> events|alerts|alarms|warnings|incidents";
    let one = "last|latest|newest event|alert|alarm|warning|incident";
    let found = r.take(&[several, one])?;
    // A number that no list has is that of the whole list.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a number saturates"
    )]
    found
        .held
        .first()
        .map_or(Some(1), |n| (*n >= 1.0).then_some(*n as usize))
}

/// The pipelines whose events are asked about; their names are used then. One that is called like a
/// camera is that camera.
fn its_pipelines(r: &mut Reader, scene: &Scene) -> Vec<PipelineId> {
    if r.find(&[HAPPENED, WAS]).is_none() {
        return Vec::new();
    }
    let mut with = r.clone();
    let named = names::pipelines(&mut with, scene);
    let is_camera = |id: &PipelineId| {
        let pipeline = scene.pipelines.iter().find(|p| p.spec.id == *id);
        let called = pipeline.map_or("", |p| p.name.as_str());
        let mut cameras = scene.cameras.iter();
        cameras.any(|c| [c.id.as_str(), &c.name].contains(&called) || c.id.as_str() == id.as_str())
    };
    if named.is_empty() || named.iter().any(is_camera) {
        return Vec::new();
    }
    *r = with;
    named
}

/// Whether this is what a camera is called, and no verb behind it: `the stockroom camera`.
fn stands_before_camera(r: &Reader, written: &str) -> bool {
    let count = written.split(' ').count();
    (1..r.tokens.len()).any(|i| {
        r.written(i..i + count) == written
            && matches!(r.any_word(i - 1), "the" | "my" | "our" | "on" | "in" | "at")
            && matches!(r.any_word(i + count), "camera" | "cam")
    })
}

/// Words that ask to be shown something, and for when.
const SHOWN: &str = "tell|show|shows|list|display|see|currently|moment|present|today|give|doing";

/// Refuses a question of which words about a time are left over: what happened in another one is no
/// answer.
fn another_time(r: &Reader) -> Result<(), String> {
    let time = (0..r.tokens.len()).find(|i| {
        let number = r.tokens.get(*i).is_some_and(|t| {
            matches!(t.kind, Kind::Number(_) | Kind::Clock(_)) && !r.word(*i).is_empty()
        });
        number || hours::is_time(r.word(*i)) || matches!(r.word(*i), "between" | "ago")
    });
    let Some(at) = time else {
        return Ok(());
    };
    let end = (at..r.tokens.len())
        .find(|i| r.word(*i).is_empty() || r.tokens.get(*i).is_some_and(|t| t.kind == Kind::Mark))
        .unwrap_or(r.tokens.len());
    Err(format!(
        "I did not understand {} of the time. Say for example \"yesterday between 14:00 and 15:00\", \"since 8:40\", \"on monday\" or \"in the last two hours\".",
        quoted(&r.written(at..end))
    ))
}

/// Refuses to show the present where something else was asked: a table is no answer to `what colour
/// is the sky`.
fn nothing_else(r: &mut Reader, lexicon: &Lexicon) -> Result<(), String> {
    r.take_all(&[SHOWN, "no changes|change"]);
    match left_over(r, lexicon).as_slice() {
        [] => Ok(()),
        rest => {
            let rest: Vec<String> = rest.iter().map(|w| quoted(w)).collect();
            Err(format!(
                "I did not understand {}. I can show the cameras, what is watched, how many are counted and what happened; ask \"help\" for more.",
                rest.join(", ")
            ))
        }
    }
}

/// What can be said, for a person who asks.
pub(crate) const HELP: &str = "You can say, for example: \"tell me when somebody waits at the dock for more than two minutes\", \"count cars on the park camera\", \
    \"alert me when a person crosses the vertical line at 50% from left to right\", \"warn me about people in the left half between 22:00 and 6:00\", \
    \"pause the gate camera until 8 tomorrow\", \"stop everything\", \"what happened last night\", \"list templates\". Nothing is done before you say yes.";

fn classes(scene: &Scene) -> String {
    let models: Vec<String> = scene
        .models
        .iter()
        .map(|m| match m.labels.as_slice() {
            [] => format!(
                "{} sees anything that moves and tells no classes apart",
                m.name
            ),
            labels => format!("{} knows {}", m.name, labels.join(", ")),
        })
        .collect();
    if models.is_empty() {
        return "There is no model here.".to_owned();
    }
    format!("{}.", models.join("; "))
}
