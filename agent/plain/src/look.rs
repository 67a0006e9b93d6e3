//! Questions: what is to be looked up, and what can be said at once.
//!
//! - A question is of one [`QuestionKind`] and has [`Slots`]; each kind has one answer.
//! - Words that neither a slot nor its kind reads refuse it, with the hint for them.
//! - Nothing here changes anything.

use watchkeeper_contract::rule::CrossDirection;

use crate::answer::Look;
use crate::closed::{content_words, no_such_camera};
use crate::deployed;
use crate::intent::{STATES, skip_polite};
use crate::kinds;
use crate::lexicon::{Polarity, WATCHES};
use crate::moments;
use crate::names::{self, Mention};
use crate::question::{Slots, is_past, read_place};
use crate::question_words::{KindWords, QuestionKind};
use crate::reader::{Reader, one_of};
use crate::request::{dedup, one_list};
use crate::scene::{Deployed, Model, PAUSED, RUNNING, Scene, joined, quoted, quoted_all};

/// Words for events.
const EVENTS: &str = "events|event|alerts|alarms|warnings|incidents";

/// Topic of a question and the text that goes with it, or why it is refused.
type Understood = Result<(Look, String), String>;

/// Topic of a question, and the text that goes with it; nothing if it isn't understood.
pub(crate) fn look(r: &mut Reader<'_>) -> Understood {
    let slots = Slots::read(r);
    let mut kinds = r.lexicon.questions.kinds.iter();
    let Some(words) = kinds.find(|words| is_kind(words, &slots, r)) else {
        return Err(String::new());
    };
    Ok(match words.is {
        QuestionKind::Refused | QuestionKind::History => return Err(words.text.clone()),
        QuestionKind::Notes => {
            let asked = r.find(&words.asked).map_or(0, |found| found.at.end);
            let about = r.written(asked..r.tokens.len());
            let about = about.trim_end_matches(['?', '.', '!', ' ']).to_owned();
            (Look::Notes(about), String::new())
        }
        _ if slots.cameras.len() > 1 => {
            return Err("Ask about one camera at a time, or about all cameras.".to_owned());
        }
        QuestionKind::Coverage => {
            refuse_unread(r, words)?;
            let span = moments::describe(slots.range.unwrap_or_default(), &r.scene.now);
            (Look::Coverage(Box::new(slots.wanted)), span)
        }
        QuestionKind::Events => return events(r, slots, words),
        QuestionKind::Status => return status(r, &slots, words),
        QuestionKind::Pipelines => return pipelines(r, &slots, words),
        kind => {
            refuse_narrowed(r, &slots, words).map_err(|text| match kind {
                QuestionKind::Cost => words.text.clone(),
                _ => text,
            })?;
            match kind {
                QuestionKind::Cost => (Look::Cost, String::new()),
                QuestionKind::Help => (Look::Help, words.text.clone()),
                QuestionKind::Classes => (Look::Classes, classes(r.scene)),
                _ => {
                    let cameras = names::listed(&r.scene.cameras);
                    (Look::Cameras, format!("The cameras are: {cameras}."))
                }
            }
        }
    })
}

/// A question for the watches that there are now.
fn pipelines(r: &mut Reader<'_>, slots: &Slots, words: &KindWords) -> Understood {
    let (named, camera) = (&slots.wanted.pipelines, slots.cameras.first());
    let is_of_all = named.is_empty() && camera.is_none();
    // Of a watch that is named, and of what runs, all are shown with their state.
    let is_paused = r.has(&["paused"]) && !r.has(&["running|runs|active"]) && named.is_empty();
    refuse_unread(r, words)?;
    if named.len() + slots.cameras.len() > 1 {
        return Err("Ask about one watch or one camera, or about all.".to_owned());
    }
    let is_asked = |p: &&Deployed| {
        let is_named = named.is_empty() || named.contains(&p.spec.id);
        // The gate watch is one on camera gate.
        is_named && camera.is_none_or(|camera| p.spec.source == *camera)
    };
    let mut asked: Vec<&Deployed> = r.scene.pipelines.iter().filter(is_asked).collect();
    let state = (!is_of_all).then(|| answer_state(r, &asked)).flatten();
    asked.retain(|p| p.paused || !is_paused);
    let listed = match asked.is_empty() {
        true if is_paused => "Nothing is paused there.".to_owned(),
        _ => deployed::sentence(&asked),
    };
    let ids = asked.iter().map(|p| p.spec.id.clone()).collect();
    let look = Look::Pipelines((is_paused || !is_of_all).then_some(ids));
    Ok((look, state.unwrap_or_default() + &listed))
}

/// Yes or no to `is the gate watch on` and `is the gate watch paused`, if it is so of all watches
/// that are meant.
fn answer_state(r: &Reader<'_>, meant: &[&Deployed]) -> Option<String> {
    let mut words = r.tokens.iter().filter(|t| t.is_word()).map(|t| &t.text);
    // Not `is the gate watch on the yard camera`.
    let last = words.rfind(|word| !one_of("now|right|currently|please", word))?;
    let is_so = |deployed: &&Deployed| match last.as_str() {
        "on" | "running" | "active" => Some(deployed.state() == RUNNING),
        "off" | "stopped" => Some(deployed.state() != RUNNING),
        "paused" => Some(deployed.state() == PAUSED),
        _ => None,
    };
    let first = meant.first()?;
    let yes = if is_so(first)? { "Yes" } else { "No" };
    let is_one = meant.iter().all(|one| one.state() == first.state());
    let is_asked = r.word(skip_polite(r, 0)) == "is" && !r.has(&["not"]);
    (is_one && is_asked).then(|| format!("{yes}: {}. ", first.state()))
}

/// Whether a question is of this kind, where it is of none before.
fn is_kind(words: &KindWords, slots: &Slots, r: &Reader<'_>) -> bool {
    let is_asked = r.has(&words.asked);
    let is_past =
        is_past(r) || slots.wanted.most.is_some() || slots.wanted.pictures || slots.wanted.by_hour;
    // Some model knows a camera as a class: `list cameras` is about those of the box.
    let is_thing = |m: &Mention| !one_of("camera|cameras", &m.said.to_lowercase());
    let is_class = || names::find_classes(r).iter().any(is_thing);
    let names_watch = !slots.wanted.pipelines.is_empty();
    let is_alone = || !slots.many && r.has(&words.asked_alone);
    match words.is {
        QuestionKind::Classes => is_asked && slots.range.is_none() && !is_past,
        QuestionKind::Coverage => {
            let is_other = names_watch || r.has(&[WATCHES]) || names::mentions_class(r);
            is_asked && slots.range.is_some() && is_past && !is_other
        }
        QuestionKind::History => (is_asked || names_watch) && is_of_the_past(r, slots),
        QuestionKind::Events => slots.range.is_some() || is_past && !r.has(&["@runs"]),
        QuestionKind::Pipelines => is_asked || names_watch,
        QuestionKind::Status => is_asked || is_alone() || is_class() || !slots.cameras.is_empty(),
        QuestionKind::Cameras => is_asked || slots.all,
        _ => is_asked,
    }
}

/// Whether a question about watches is about what was done to them: `was the gate watch on`, and
/// not `how many alarms on monday`.
fn is_of_the_past(r: &Reader<'_>, slots: &Slots) -> bool {
    let is_past =
        slots.range.is_some() || is_past(r) || r.has(&["who|why", "how often", "since when"]);
    let is_of_day = |at: usize| r.reread().has_at(at, &["<w>"]);
    let is_on = |at: usize| {
        let is_watch = r.is_taken(at - 1) || r.is_behind(at, WATCHES);
        let is_last = r.is_free(at + 1, "|?|.|!") && !is_of_day(at + 1);
        is_watch && r.is_free(at, "on|off") && is_last
    };
    // `how many alarms started after 10 pm`: alarms are events too.
    let are_events = slots.wanted.pipelines.is_empty() && r.has(&["alarms started"]);
    let is_done = !are_events
        && r.has(&[
            STATES,
            "stop|pause|resume|delete|remove|change|start|turned|switched",
        ])
        || (1..r.tokens.len()).any(is_on);
    // "Everything" is a class too.
    let is_of_all = r.has(&["everything|anything paused|resumed|deleted"]);
    is_past && is_done && (is_of_all || !names::mentions_class(r))
}

/// A question for what happened.
fn events(r: &mut Reader<'_>, slots: Slots, words: &KindWords) -> Understood {
    let mut wanted = slots.wanted;
    let number = wanted.only_number;
    // No thing that is looked for: `what did the camera see`.
    r.take_all(&["@the_box_saw"]);
    let of_events = r.has(&[EVENTS]);
    let is_of_all = r.has(&["all|every|everybody|everyone|everything|or"]);
    // Before classes: a place may be named like one.
    let (camera, place) = read_place(r, slots.cameras.first())?.unzip();
    wanted.camera = camera.or(wanted.camera);
    wanted.place = place;
    let asked = kinds::asked(r, number)?;
    // `entered on monday and left on tuesday`
    if wanted.compared_with.is_some() && asked.len() > 1 {
        return Err(kinds::TWO_QUESTIONS.to_owned());
    }
    if names::find_classes(r).iter().any(Mention::is_nobody) {
        return Err("I look up who was there, and not when nobody was. `watchkeeper watch unattended` reports that from now on.".to_owned());
    }
    let (labels, substitutions) = labels(r, words)?;
    let is_asked = |p: &&Deployed| {
        (wanted.pipelines.is_empty() || wanted.pipelines.contains(&p.spec.id))
            && wanted.camera.as_ref().is_none_or(|c| p.spec.source == *c)
    };
    let watches: Vec<_> = r.scene.pipelines.iter().filter(is_asked).collect();
    let at_place = wanted.place.is_some();
    let (kinds, mut sentences) =
        kinds::reported_kinds(&asked, r.scene, &watches, &labels, number, at_place);
    let best_kinds = asked.iter().filter_map(|asked| asked.counts.first());
    let is_as_asked = substitutions.is_empty() && kinds.iter().eq(best_kinds) && !is_of_all;
    let first = r.word(skip_polite(r, 0));
    let is_yes_or_no = one_of("did|was|were|has|have|is|are", first);
    wanted.is_yes_or_no = !number && is_as_asked && is_yes_or_no;
    if number && !of_events {
        sentences.push(kinds::events_of(&labels));
    }
    let today = || wanted.by_hour.then(|| moments::today(r));
    let range = slots.range.or_else(today).unwrap_or_default();
    sentences.extend(substitutions);
    // The answer names the spans of a comparison itself.
    if wanted.compared_with.is_none() {
        sentences.push(moments::describe(range, &r.scene.now));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    let crossings = kinds.iter().filter(|kind| kind.condition == "crosses");
    let ways: Vec<CrossDirection> = crossings.map(|kind| kind.direction).collect();
    wanted.direction = match ways.as_slice() {
        [way @ (CrossDirection::In | CrossDirection::Out)] => Some(*way),
        _ => None,
    };
    wanted.conditions = kinds.into_iter().map(|kind| kind.condition).collect();
    wanted.labels = labels;
    (wanted.from, wanted.to) = range;
    Ok((Look::Events(Box::new(wanted)), sentences.join(" ")))
}

/// A question for what is there now.
fn status(r: &mut Reader<'_>, slots: &Slots, words: &KindWords) -> Understood {
    let named = slots.cameras.first();
    let (camera, place) = read_place(r, named)?.unzip();
    let camera = camera.or_else(|| named.cloned());
    // `is the gate up`, and not `how many cars go up at the gate`
    let is_thing = |m: &Mention| !m.labels.is_empty() && !one_of("camera|cameras", &m.said);
    let is_named = names::find_classes(r).iter().any(is_thing);
    let is_alone = !slots.many && !is_named && r.take_all(&words.asked_alone);
    // `is the camera ok` counts no cameras.
    if is_alone || !slots.many && r.has(&words.asked) {
        r.take_all(&["camera|cameras"]);
    }
    let (labels, mut sentences) = labels(r, words)?;
    let unknown = kinds::unknown_now(r.scene, camera.as_ref(), place.as_deref(), &labels)?;
    sentences.insert(0, unknown);
    sentences.retain(|sentence| !sentence.is_empty());
    Ok((Look::Status(camera), sentences.join(" ")))
}

/// The labels of the classes that a question names, with a sentence for each that no label
/// distinguishes. Refuses words that neither they nor those of its kind are.
fn labels(r: &mut Reader<'_>, words: &KindWords) -> Result<(Vec<String>, Vec<String>), String> {
    // One that stands apart, as in `was the last car a truck`, stays unread.
    let mentions = one_list(r, false, false);
    refuse_classes_apart(r, &mentions)?;
    r.take_all(&["what|how was it"]);
    let names_events = words.is != QuestionKind::Events || r.has(&[EVENTS, "happen|happened"]);
    let is_named = names_events || !mentions.is_empty();
    if !is_named && r.has(&["he|she|him|her|it|they|them", "did|was|have i"]) {
        return Err("Say who or what, such as \"did anybody come to the yard today\".".to_owned());
    }
    refuse_unread(r, words)?;
    let mut labels = labels_of(&mentions, r);
    // Who it was is not asked of things, nor of the box itself.
    if mentions.is_empty() && r.has(&["who"]) {
        labels.push("person".to_owned());
    }
    Ok((labels, names::substitutions(&mentions).collect()))
}

/// Refuses a class that is left out or absent, and one at an unknown place: `cars but no trucks`,
/// `who is on the bench`.
fn refuse_classes_apart(r: &Reader<'_>, mentions: &[Mention]) -> Result<(), String> {
    // `motion events` are those of one detector.
    let of_motion = |m: &Mention| one_of("motion|movement", &m.said) && r.is(m.at.end, EVENTS);
    let is_apart = |m: &&Mention| {
        names::is_where(r, m.at.start)
            || m.polarity != Polarity::Wanted && !m.is_nobody()
            || of_motion(m)
    };
    let Some(mention) = mentions.iter().find(is_apart) else {
        return Ok(());
    };
    let from = mention.at.start.saturating_sub(1);
    Err(format!(
        "I count what is named, each by itself, and do not understand {} there. Ask for one class, or for several together, such as \"how many cars and trucks today\".",
        quoted(&r.written(from..mention.at.end))
    ))
}

/// The labels of what is named: those that some model knows, else all.
fn labels_of(mentions: &[Mention], r: &Reader<'_>) -> Vec<String> {
    let is_told = |label: &String| r.labels.iter().any(|(_, known)| *known == label);
    let labels = mentions.iter().flat_map(|mention| {
        let any_is_told = mention.labels.iter().any(is_told);
        mention
            .labels
            .iter()
            .filter(move |label| !any_is_told || is_told(label))
    });
    dedup(labels.cloned().collect())
}

/// Refuses words that nothing reads, a camera and a time.
fn refuse_narrowed(r: &mut Reader<'_>, slots: &Slots, words: &KindWords) -> Result<(), String> {
    let is_told = |range| words.is == QuestionKind::Cost && moments::has_costs(range, &r.scene.now);
    let has_range = slots.range.is_some_and(|range| !is_told(range));
    if !slots.cameras.is_empty() || has_range || !slots.wanted.pipelines.is_empty() {
        return Err(
            "This is the same for the whole box. Ask without a camera, a watch and a time."
                .to_owned(),
        );
    }
    refuse_unread(r, words)
}

/// Refuses a question with words that nothing reads: a table is not an answer to
/// `what colour is the sky`.
fn refuse_unread(r: &mut Reader<'_>, words: &KindWords) -> Result<(), String> {
    r.take_all(&words.asked);
    r.take_all(&words.beside);
    r.take_all(&["@shown"]);
    let rest = content_words(r);
    if rest.is_empty() {
        return Ok(());
    }
    if let Some(text) = no_such_camera(r) {
        return Err(text);
    }
    Err(format!(
        "I did not understand {}. I can show the cameras, what is watched, how many are counted and what happened; a time is for example \"yesterday between 14:00 and 15:00\". Ask \"help\" for more.",
        quoted_all(&rest, ", ")
    ))
}

fn classes(scene: &Scene) -> String {
    let one = |Model { name, labels }: &Model| match labels.as_slice() {
        [] => format!("{name} sees anything that moves and tells no classes apart"),
        labels => format!("{name} knows {}", labels.join(", ")),
    };
    match scene.models.is_empty() {
        true => "There is no model here.".to_owned(),
        false => format!("{}.", joined(scene.models.iter().map(one), "; ")),
    }
}
