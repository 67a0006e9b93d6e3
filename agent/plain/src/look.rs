//! Questions: what is to be looked up, and what can be said at once.
//!
//! Invariant: nothing here changes anything.

use std::collections::BTreeSet;

use watchkeeper_contract::id::SourceId;

use crate::deployed;
use crate::hours;
use crate::intent::{EventsWanted, Look};
use crate::kinds;
use crate::moments::{self, Range};
use crate::names::{self, Mention, Stand};
use crate::question::{
    HAPPENED, WAS, has, its_cameras, its_pictures, its_pipelines, its_place, its_spans, latest,
    wants_hours,
};
use crate::reader::{Reader, content_words, one_of};
use crate::scene::{Scene, quoted};
use crate::span;
use crate::token::Kind;

/// What a question is about, and the text that goes with it; nothing where it isn't understood.
pub(crate) fn look(r: &mut Reader<'_>) -> Result<(Look, String), String> {
    let pictures = its_pictures(r);
    refuse_picture_of_now(r)?;
    refuse_what_no_table_answers(r)?;
    let pipelines = its_pipelines(r);
    let (cameras, all) = its_cameras(r)?;
    let camera = match cameras.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    };
    let when_last = r.says(&["when was|is|did the? very? last|latest"]);
    let is_one = when_last || pictures == Some(true);
    let most = latest(r).or(is_one.then_some(1));
    let (range, compared_with) = its_spans(r);
    let by_hour = wants_hours(r);
    let many = r.take(&["how many", "how often", "number of"]).is_some();
    if many && has(r, "how many|often") {
        return Err("Those are two questions. Please ask them one at a time.".to_owned());
    }
    let past = has(r, HAPPENED) || has(r, WAS) || most.is_some() || pictures.is_some() || by_hour;
    let able = wants_classes(r, many, past);
    if let Some(found) = itself(r, able && range.is_none()) {
        return Ok(found);
    }
    // `which cameras do you have`
    let of_cameras = (all || has(r, "cameras|sources")) && cameras.is_empty();
    if of_cameras && range.is_none() && only_cameras(r) {
        return Ok(all_cameras(r.scene));
    }
    if range.is_some() || (past && !is_about_watches(r)) {
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
        let range = range.or_else(|| by_hour.then(|| moments::today(r)));
        return events(r, wanted, range);
    }
    let is_any = !cameras.is_empty();
    now(r, camera.as_ref(), is_any, many)
}

/// Refuses to show what a camera sees now, with the command that does.
fn refuse_picture_of_now(r: &Reader<'_>) -> Result<(), String> {
    const NOW: [&str; 2] = [
        "show|see me|us? a new|current|live|recent? picture|photo|image|snapshot|frame",
        "show|see me|us? the current|live picture|photo|image|snapshot|frame|view",
    ];
    if !r.says(&NOW) {
        return Ok(());
    }
    let spots = names::camera_spots(r);
    let camera = spots.first().map_or("CAMERA", |(_, id)| id.as_str());
    Err(format!(
        "What a camera sees now is saved as a picture by `watchkeeper frame save {camera} -o now.jpg`. I can show the pictures of events: ask \"show me the picture of the last visitor\"."
    ))
}

/// Whether a question is for the classes that can be told.
fn wants_classes(r: &Reader<'_>, many: bool, past: bool) -> bool {
    let asks = "detect|recognise|recognize|recognised|recognized|classes|class|labels|distinguish";
    let able = has(r, asks) || (!many && has(r, "objects|things"));
    // `how many things crossed` is about what happened.
    able && !has(r, "did|happened|was|were") && !(many && past)
}

/// Whether a question is for what runs.
fn is_about_watches(r: &Reader<'_>) -> bool {
    let states = "running|runs|deployed|watching|watches|watched|active|paused|setup|configured";
    has(r, states) || r.find(&["set up"]).is_some()
}

/// Refuses questions for pictures, notes, spans and reasons: nothing that can be looked up.
fn refuse_what_no_table_answers(r: &Reader<'_>) -> Result<(), String> {
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
    // A moment is no span: `ten minutes ago` says neither how long before nor how long after.
    if let Some(found) = r.find(&["<d> ago"])
        && r.before(found.at.start) != "since"
    {
        return Err(format!(
            "{} is a moment, and I look back on spans of time. Say for example \"in the last ten minutes\" or \"between 14:00 and 14:10\".",
            quoted(&r.written(found.at))
        ));
    }
    // Why something was or was not so, and what would be.
    if has(r, "why|would|talking|saying|sound|hear") {
        return Err(String::new());
    }
    Ok(())
}

/// A question for what can be said, or for what the models know.
fn itself(r: &mut Reader<'_>, able: bool) -> Option<(Look, String)> {
    if r.take_all(&["templates|template"]) {
        return Some((Look::Templates, String::new()));
    }
    if r.take_all(&["help|commands"]) || r.take(&["what can i say|ask|do"]).is_some() {
        return Some((Look::Help, HELP.to_owned()));
    }
    able.then(|| (Look::Classes, classes(r.scene)))
}

/// Whether a question that names cameras says nothing else.
fn only_cameras(r: &Reader<'_>) -> bool {
    let mut rest = r.clone();
    rest.take_all(&[
        "cameras|sources",
        SHOWN,
        "known|connected|available|configured|added|installed",
    ]);
    content_words(&rest).is_empty() && !has(&rest, "status|health")
}

/// A question for what happened. `wanted` says on which camera, of which pipelines and how many.
fn events(
    r: &mut Reader<'_>,
    mut wanted: EventsWanted,
    range: Option<Range>,
) -> Result<(Look, String), String> {
    let many = wanted.only_number;
    refuse_other_comparisons(r, &wanted)?;
    let of_events = has(r, "events|event|alerts|alarms|warnings|incidents");
    // Before classes: a place may be named like one.
    if let Some((camera, place)) = its_place(r, wanted.camera.as_ref())? {
        wanted.camera = Some(camera);
        wanted.place = Some(place);
    }
    kinds::refuse_direction(r)?;
    let goes = kinds::is_way_through(r);
    let kinds = kinds::asked(r, many);
    if !kinds.is_empty() && has(r, "came|come|comes|passed") {
        // `came or left`
        return Err("Those are two questions. Please ask them one at a time.".to_owned());
    }
    let mentions = names::classes(r);
    refuse_classes_apart(r, &mentions)?;
    let labels = labels_of(&mentions, r.scene);
    r.take_all(&[
        "happened|happen|events|event|alerts|alarms|warnings|incidents|came|come|comes|seen|passed|appeared",
        "went|anything|counted|recorded|altogether|total",
        SHOWN,
        "last|latest|recent",
    ]);
    // A number of something else, and events of something else, are no answers.
    another_time(r)?;
    nothing_else(r)?;
    let watches: Vec<_> = r
        .scene
        .pipelines
        .iter()
        .filter(|p| wanted.pipelines.is_empty() || wanted.pipelines.contains(&p.spec.id))
        .filter(|p| wanted.camera.as_ref().is_none_or(|c| p.spec.source == *c))
        .collect();
    let (conditions, mut told) = kinds::counted(&kinds, &watches, &labels, many, goes);
    if many && kinds.is_empty() && !of_events {
        told.push(kinds::events_of(&watches, &labels));
    }
    let (from, to) = range.unwrap_or((None, None));
    told.extend(names::substitutions(&mentions));
    // The answer names the spans of a comparison itself.
    if wanted.compared_with.is_none() {
        told.push(span::told((from, to), &r.scene.now));
    }
    told.retain(|sentence| !sentence.is_empty());
    wanted.labels = labels;
    wanted.conditions = conditions;
    wanted.from = from;
    wanted.to = to;
    Ok((Look::Events(Box::new(wanted)), told.join(" ")))
}

/// Refuses to compare anything but two spans of time.
fn refuse_other_comparisons(r: &Reader<'_>, wanted: &EventsWanted) -> Result<(), String> {
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

/// Refuses classes that do not add up: one that is left out or absent, or one beside another:
/// `cars but no trucks`, `people with dogs`.
fn refuse_classes_apart(r: &Reader<'_>, mentions: &[Mention]) -> Result<(), String> {
    let joins = |i: usize| one_of("and|or|,|&|a|an|the|any", r.any_word(i));
    let pairs = mentions.iter().zip(mentions.iter().skip(1));
    let mut apart = pairs.filter(|(a, b)| !(a.at.end..b.at.start).all(joins));
    let mut left_out = mentions
        .iter()
        .filter(|m| m.stand != Stand::Wanted && !m.is_nobody());
    let Some(mention) = left_out.next().or_else(|| Some(apart.next()?.1)) else {
        return Ok(());
    };
    let from = mention.at.start.saturating_sub(1);
    Err(format!(
        "I count what is named, each by itself, and do not understand {} there. Ask for one class, or for several together, such as \"how many cars and trucks today\".",
        quoted(&r.written(from..mention.at.end))
    ))
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
    r: &mut Reader<'_>,
    camera: Option<&SourceId>,
    is_any: bool,
    many: bool,
) -> Result<(Look, String), String> {
    let states = "status|health|online|offline|working|ok|okay|alive|fps|connected";
    let is_class = names::mentions_class(r);
    let is_state = has(r, states) || many && is_class || has(r, "there");
    let is_of_watches = is_about_watches(r) || has(r, "pipelines|pipeline|watch|rules|alarms");
    let place = match is_state || is_class && !is_of_watches {
        true => its_place(r, camera)?,
        false => None,
    };
    let camera = place.as_ref().map(|(camera, _)| camera).or(camera);
    if is_state || place.is_some() {
        r.take_all(&[states, "box|system|everything|anything|overall|happening"]);
        let mentions = only_classes_else(r)?;
        let place = place.as_ref().map(|(_, place)| place.as_str());
        let labels = labels_of(&mentions, r.scene);
        if is_class || place.is_some() {
            kinds::refuse_uncounted(r.scene, camera, place, &labels)?;
        }
        let uncounted = match camera {
            None => kinds::uncounted_cameras(r.scene, &labels),
            Some(_) => None,
        };
        return Ok((Look::Status(camera.cloned()), uncounted.unwrap_or_default()));
    }
    if r.take_all(&[
        "pipelines|pipeline|watches|watch|running|runs|watching|watched|rules|alarms|jobs|deployed|streams|active|paused|set",
    ]) {
        r.take_all(&["everything|anything"]);
        nothing_else(r)?;
        let text = deployed::listed(r.scene, camera);
        return Ok((Look::Pipelines(camera.cloned()), text));
    }
    if has(r, "cameras|camera|sources") || r.any_word(0) == "cameras" || is_any {
        r.take_all(&["sources", "happening"]);
        let mentions = only_classes_else(r)?;
        if camera.is_some() {
            let labels = labels_of(&mentions, r.scene);
            kinds::refuse_uncounted(r.scene, camera, None, &labels)?;
            return Ok((
                Look::Status(camera.cloned()),
                deployed::listed(r.scene, None),
            ));
        }
        return Ok(all_cameras(r.scene));
    }
    if r.take_all(&["models|model"]) {
        return Ok((Look::Classes, classes(r.scene)));
    }
    Err(String::new())
}

/// Refuses a question about the present that says more than classes, which it returns.
fn only_classes_else(r: &mut Reader<'_>) -> Result<Vec<Mention>, String> {
    let mentions = names::classes(r);
    refuse_classes_apart(r, &mentions)?;
    nothing_else(r)?;
    Ok(mentions)
}

/// The cameras, as they are listed.
fn all_cameras(scene: &Scene) -> (Look, String) {
    (
        Look::Cameras,
        format!("The cameras are: {}.", names::listed(scene)),
    )
}

/// Words that ask to be shown something, and for when.
const SHOWN: &str = "tell|show|shows|list|display|see|currently|moment|present|today|give|doing";

/// Refuses a question of which words about a time are left over: what happened in another one is no
/// answer.
fn another_time(r: &Reader<'_>) -> Result<(), String> {
    let time = (0..r.tokens.len()).find(|i| {
        let number = r.tokens.get(*i).is_some_and(|t| {
            matches!(t.kind, Kind::Number(_) | Kind::Clock(_)) && !r.word(*i).is_empty()
        });
        number || hours::is_time(r.word(*i)) || one_of("between|ago", r.word(*i))
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
fn nothing_else(r: &mut Reader<'_>) -> Result<(), String> {
    r.take_all(&[SHOWN, "no changes|change"]);
    match content_words(r).as_slice() {
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
