//! Kinds of events that a question asks about: who crossed, entered, left, stayed.
//!
//! Owns the words for a kind, and which kinds the watches report. Invariant: a question about one
//! kind is never answered with another one without saying so.

use serde_json::Value;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::Condition;
use watchkeeper_engine::templates::watch;

use crate::english;
use crate::lexicon::folded;
use crate::reader::{Reader, one_of};
use crate::scene::{Camera, Deployed, Scene, quoted};

/// A kind of event, by the name of its condition in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Crosses,
    Enters,
    Leaves,
    Stays,
    Appears,
}

/// Kinds, the names of their conditions in the journal, what happened as a sentence goes on behind
/// `something`, and how it is asked about.
const KINDS: [(EventKind, &str, &str, [&str; 3]); 5] = [
    (
        EventKind::Crosses,
        "crosses",
        "crossed a line",
        [
            "cross|crosses|crossed|crossing|crossings|passed|went|walked|drove over|across? the|a|my? line|tripwire",
            "cross|crosses|crossed|crossing|crossings over?",
            "came|come|went|go|going|walked|drove|ran|gone|coming over|across",
        ],
    ),
    (
        EventKind::Enters,
        "enters",
        "entered a place",
        [
            "enter|enters|entered|entering|entries",
            "arrive|arrived|arrivals",
            "came|come|went|go|going|walked|drove|ran|gone|coming in|into|inside",
        ],
    ),
    (
        EventKind::Leaves,
        "leaves",
        "left a place",
        [
            "leave|leaves|leaving|exit|exited",
            "depart|departed|departures",
            "came|come|went|go|going|walked|drove|ran|gone|coming out|away",
        ],
    ),
    (
        EventKind::Stays,
        "stays",
        "stayed for the time of its rule",
        [
            "stay|stays|stayed|staying|wait|waits|waited|waiting around?",
            "loiter|loitered|loitering|linger|lingered around?",
            "stood|queued around?",
        ],
    ),
    (
        EventKind::Appears,
        "appears",
        "was seen for the first time",
        [
            "appear|appears|appeared",
            "seen|spotted|detected",
            "see|spot|detect",
        ],
    ),
];

impl EventKind {
    /// Its name in the journal, what happened, and how it is asked about.
    fn words(self) -> (&'static str, &'static str, &'static [&'static str]) {
        let mut kinds = KINDS.iter();
        let kind = kinds.find(|(kind, ..)| *kind == self);
        kind.map_or(("", "", &[]), |(_, name, said, patterns)| {
            (name, said, patterns)
        })
    }
}

/// The kinds that a question names; their words are used then. That something was seen counts as
/// one only where a number is asked for.
pub(crate) fn asked(r: &mut Reader<'_>, number: bool) -> Vec<EventKind> {
    let mut found = Vec::new();
    for (kind, _, _, patterns) in &KINDS {
        let mut said = (*kind != EventKind::Appears || number) && r.take_all(patterns);
        let left = (0..r.tokens.len()).find(|i| is_verb_left(r, *i));
        if let Some(at) = left.filter(|_| *kind == EventKind::Leaves) {
            r.mark(at..at + 1);
            said = true;
        }
        if said {
            found.push(*kind);
        }
    }
    found
}

/// Whether something went in or out, which is a crossing where a watch has a line.
pub(crate) fn is_way_through(r: &Reader<'_>) -> bool {
    let kinds = [EventKind::Enters, EventKind::Leaves];
    let mut ways = kinds.iter().filter_map(|kind| kind.words().2.last());
    ways.any(|way| r.says(&[way]))
}

/// Refuses crossings of one direction, which are not counted apart: `crossed the door going out`.
pub(crate) fn refuse_direction(r: &Reader<'_>) -> Result<(), String> {
    const MOVES: &str = "came|come|coming|go|going|gone|went|walked|walking|drove|driving";
    const WAYS: &str = "into|onto|out|outside|toward|towards|off|away|up|down|back";
    let mut rest = r.clone();
    if !rest.take_all(EventKind::Crosses.words().2) {
        return Ok(());
    }
    let mut ways = EventKind::Enters.words().2.to_vec();
    ways.extend(EventKind::Leaves.words().2);
    ways.push(WAYS);
    // The `in` of `going in at the gate` may be taken with the name of the camera.
    let is_in = |i: &usize| one_of(MOVES, rest.word(*i)) && rest.any_word(i + 1) == "in";
    let mut words = 0..rest.tokens.len();
    let going = words.clone().find(is_in).map(|at| at..at + 2);
    let left = words.find(|i| is_verb_left(&rest, *i));
    let way = going.or_else(|| rest.find(&ways).map(|found| found.at));
    let Some(way) = way.or(left.map(|at| at..at + 1)) else {
        return Ok(());
    };
    Err(format!(
        "I count crossings of both directions together, and cannot leave out others than {}. Ask \
         how many crossed, without it.",
        quoted(&r.written(way))
    ))
}

/// Refuses a question for what is there now where no watch tells it: no watch knows the classes, or
/// none looks at the place.
pub(crate) fn refuse_uncounted(
    scene: &Scene,
    camera: Option<&SourceId>,
    place: Option<&str>,
    labels: &[String],
) -> Result<(), String> {
    let watches = scene.pipelines.iter();
    let mut watches = watches.filter(|p| camera.is_none_or(|c| p.spec.source == *c));
    if place.is_none() && (labels.is_empty() || watches.clone().next().is_none()) {
        return Ok(());
    }
    let is_there = |p: &&Deployed| place.is_none_or(|place| has_step(p, place));
    if watches.any(|p| is_there(&p) && knows(&p.spec.workflow, labels, scene)) {
        return Ok(());
    }
    let of = how_many(labels);
    let at = place.map_or_else(String::new, |place| format!(" at {}", quoted(place)));
    let on = camera.map_or_else(String::new, |camera| format!(" on {camera}"));
    Err(format!("Not known: no watch{on} tells {of} there now{at}."))
}

/// The cameras whose watches tell no such class apart, where those of others do: what they count
/// is no answer.
pub(crate) fn uncounted_cameras(scene: &Scene, labels: &[String]) -> Option<String> {
    let tells = |p: &&Deployed| knows(&p.spec.workflow, labels, scene);
    let has_none = |camera: &&Camera| {
        let mut watches = scene.on(&camera.id).peekable();
        watches.peek().is_some() && !watches.any(|p| tells(&p))
    };
    let cameras = scene.cameras.iter().filter(has_none);
    let cameras: Vec<&str> = cameras.map(|camera| camera.id.as_str()).collect();
    (!cameras.is_empty()).then(|| {
        format!(
            "Not known on {}: no watch there tells {} there now.",
            cameras.join(" and "),
            how_many(labels)
        )
    })
}

/// What is asked for, such as `how many people are`.
fn how_many(labels: &[String]) -> String {
    match labels {
        [] => "what is".to_owned(),
        labels => format!("how many {} are", english::several(&labels.join(" or "))),
    }
}

/// Whether a workflow has a zone or a line of this name.
fn has_step(deployed: &Deployed, place: &str) -> bool {
    let steps = deployed.spec.workflow["steps"].as_array();
    let mut names = steps
        .into_iter()
        .flatten()
        .filter_map(|s| s["name"].as_str());
    names.any(|name| folded(name) == folded(place))
}

/// Whether a workflow tells one of these classes apart from others; any where there are none.
fn knows(workflow: &Value, labels: &[String], scene: &Scene) -> bool {
    let model = watch::named_model(workflow);
    let model = scene.models.iter().find(|m| Some(m.name.as_str()) == model);
    let is_blind = model.is_some_and(|model| model.labels.is_empty());
    let named = watch::named_classes(workflow);
    let is_told = |label: &String| named.as_ref().is_none_or(|named| named.contains(label));
    labels.is_empty() || !is_blind && labels.iter().any(is_told)
}

/// Whether `left` is what somebody did, and no side.
fn is_verb_left(r: &Reader<'_>, at: usize) -> bool {
    const BEFORE_SIDE: &str = "from|to|the|top|bottom|upper|lower|is|are|was|were";
    const OF_SIDE: &str = "half|third|quarter|side|corner|to|hand|bay|part";
    r.word(at) == "left"
        && !one_of(BEFORE_SIDE, r.before(at))
        && !one_of(OF_SIDE, r.any_word(at + 1))
}

/// Whether a watch tells events of this kind about one of these labels; about any where there are
/// none.
pub(crate) fn tells(deployed: &Deployed, kind: EventKind, labels: &[String]) -> bool {
    let sees = |known: &[String]| {
        labels.is_empty() || known.is_empty() || labels.iter().any(|l| known.contains(l))
    };
    let seen = watch::named_classes(&deployed.spec.workflow).unwrap_or_default();
    if !sees(&seen) {
        return false;
    }
    match &deployed.spec.rules {
        Some(rules) => rules
            .iter()
            .any(|rule| is_of(&rule.when, kind) && sees(&rule.classes)),
        // What follows from the workflow.
        None => {
            let steps = deployed.spec.workflow["steps"].as_array();
            let has = |part: &str| {
                let is = |step: &Value| step["type"].as_str().is_some_and(|t| t.contains(part));
                steps.is_some_and(|steps| steps.iter().any(is))
            };
            let (line, zone) = (has("line_counter"), has("time_in_zone"));
            match kind {
                EventKind::Crosses => line,
                EventKind::Enters | EventKind::Stays => zone,
                EventKind::Leaves => false,
                EventKind::Appears => !line && !zone,
            }
        }
    }
}

fn is_of(when: &Condition, kind: EventKind) -> bool {
    matches!(
        (when, kind),
        (Condition::Crosses { .. }, EventKind::Crosses)
            | (Condition::Enters { .. }, EventKind::Enters)
            | (Condition::Leaves { .. }, EventKind::Leaves)
            | (Condition::Stays { .. }, EventKind::Stays)
            | (Condition::Appears { .. }, EventKind::Appears)
    )
}

/// Which kinds are looked for where these were asked about, and what is said of that. `goes`:
/// something went in or out.
pub(crate) fn counted(
    asked: &[EventKind],
    watches: &[&Deployed],
    labels: &[String],
    number: bool,
    goes: bool,
) -> (Vec<String>, Vec<String>) {
    let told = |kind: EventKind| watches.iter().any(|w| tells(w, kind, labels));
    let who = match labels {
        [] => "something".to_owned(),
        labels => {
            let labels: Vec<String> = labels.iter().map(|l| quoted(l)).collect();
            labels.join(" or ")
        }
    };
    let (mut kinds, mut said) = (Vec::new(), Vec::new());
    for kind in asked {
        let (name, happened, _) = kind.words();
        let (seen, first, _) = EventKind::Appears.words();
        let (counts, why) = if told(*kind) {
            let why = number.then(|| format!("Each time that {who} {happened} counts."));
            (name, why)
        } else if goes && told(EventKind::Crosses) {
            let (crosses, crossed, _) = EventKind::Crosses.words();
            let why = format!(
                "No watch here tells when {who} {happened}; instead each time counts that it \
                 {crossed}, in either direction."
            );
            (crosses, Some(why))
        } else if *kind == EventKind::Enters && told(EventKind::Appears) {
            // Without a place, an object seen for the first time has entered.
            let why = format!(
                "No watch here tells when {who} {happened}; instead each time counts that it {first}."
            );
            (seen, Some(why))
        } else {
            let why = format!(
                "No watch here tells now when {who} {happened}, so only what earlier ones told is known."
            );
            (name, Some(why))
        };
        kinds.push(counts.to_owned());
        said.extend(why);
    }
    (kinds, said)
}

/// What a number of events is the number of: not of people or things, of which one may have
/// several.
pub(crate) fn events_of(watches: &[&Deployed], labels: &[String]) -> String {
    const MOST_NAMED: usize = 4;
    let about = match labels {
        [] => String::new(),
        labels => format!(" about {}", english::several(&labels.join(" or "))),
    };
    let one = |watch: &&Deployed| {
        let told = KINDS.iter().filter(|kind| tells(watch, kind.0, labels));
        let mut told: Vec<&str> = told.map(|kind| kind.2).collect();
        let rules = watch.spec.rules.iter().flatten();
        let of_number =
            |when: &Condition| matches!(when, Condition::Count { .. } | Condition::Value { .. });
        if rules.map(|rule| &rule.when).any(of_number) {
            told.push("came to the number of its rule");
        }
        match told.is_empty() {
            true => format!("{} tells of nothing", watch.spec.id),
            false => format!("{}: something {}", watch.spec.id, told.join(", or ")),
        }
    };
    let of: Vec<String> = watches.iter().take(MOST_NAMED).map(one).collect();
    let of = match watches.len() {
        0 => String::new(),
        n if n > MOST_NAMED => format!(" of {n} watches"),
        _ => format!(" ({})", of.join("; ")),
    };
    format!(
        "What is counted are events{about}{of}, and not people or things: one that comes twice counts twice."
    )
}
