//! Questions: what is to be looked up, and what can be said at once.
//!
//! Invariant: nothing here changes anything.

use crate::control;
use crate::hours::{self, Range};
use crate::intent::{EventsWanted, Look};
use crate::lexicon::Lexicon;
use crate::names::{self, Cameras};
use crate::need::Notes;
use crate::reader::{Reader, left_over};
use crate::scene::Scene;

/// What a question is about, and the text that goes with it; nothing where it isn't understood.
pub(crate) fn look(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<(Look, String), String> {
    let has = |r: &Reader, words: &str| r.find(&[words]).is_some();
    if has(r, "picture|photo|image|snapshot|describe")
        && (has(r, "in|describe|on|what|what's"))
        && !has(r, "classes|labels")
    {
        return Err("Without a language model I cannot describe a picture, and I do not identify people. I can show what the cameras count and what happened; \
            ask \"help\" for more."
            .to_owned());
    }
    let cameras = match names::cameras(r, scene, lexicon) {
        Cameras::These(cameras) => cameras,
        Cameras::None | Cameras::All | Cameras::Unknown(_) => Vec::new(),
    };
    let camera = match cameras.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    };
    let range: Option<Range> = hours::past(r, &scene.now, &mut notes.assumed);
    let many = r.take(&["how many"]).is_some();
    let past = has(
        r,
        "happened|happen|events|event|alerts|alarms|warnings|incidents|was|were|did|came|entered|crossed|left|has|have|seen",
    );
    let able = has(
        r,
        "detect|recognise|recognize|recognised|recognized|classes|class|labels|objects|things|distinguish",
    ) && !has(r, "did|happened|was|were");
    let topic = |r: &mut Reader, words: &str| r.take_all(&[words]);
    if topic(r, "templates|template") {
        return Ok((Look::Templates, String::new()));
    }
    if topic(r, "help|commands") || r.take(&["what can i say|ask|do"]).is_some() {
        return Ok((Look::Help, HELP.to_owned()));
    }
    if able && range.is_none() {
        return Ok((Look::Classes, classes(scene)));
    }
    if range.is_some() || (past && !has(r, "running|deployed")) {
        let mentions = names::classes(r, scene, lexicon);
        let mut labels: Vec<String> = Vec::new();
        for label in mentions.into_iter().flat_map(|m| m.labels) {
            let known = scene.models.iter().any(|m| m.labels.contains(&label));
            if known && !labels.contains(&label) {
                labels.push(label);
            }
        }
        r.take_all(&["happened|happen|events|event|alerts|alarms|warnings|incidents|came|entered|crossed|left|seen|went|anything"]);
        notes.not_understood.extend(left_over(r, lexicon));
        let (from, to) = range.unwrap_or((None, None));
        let wanted = EventsWanted {
            camera,
            labels,
            from,
            to,
            only_number: many,
        };
        return Ok((Look::Events(wanted), String::new()));
    }
    if has(r, "status|health|online|offline|working|ok|okay|alive|fps")
        || many && names::mentions_class(r, scene, lexicon)
        || has(r, "there")
    {
        return Ok((Look::Status(camera), control::listed(scene)));
    }
    if topic(
        r,
        "pipelines|pipeline|watches|watch|running|watching|rules|alarms|jobs|deployed|streams|active",
    ) {
        return Ok((Look::Pipelines, control::listed(scene)));
    }
    if has(r, "cameras|camera|sources") || r.any_word(0) == "cameras" || !cameras.is_empty() {
        if camera.is_some() {
            return Ok((Look::Status(camera), control::listed(scene)));
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
