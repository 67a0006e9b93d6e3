//! Watches that people confirmed and kept, as examples for similar requests.
//!
//! - The note of the confirmation has the pipeline and its definition as tags; what runs says
//!   whether a watch was kept. Without its note (`watchkeeper memory forget`) it is not an example.
//! - Kept is a watch that runs as it was confirmed, for [`KEPT_FOR`] at least. It was not replaced,
//!   paused or stopped, nor were its events rejected more often than approved.
//! - At most [`MAX_EXAMPLES`]; without the camera's name, coordinates and drawing.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, PipelineStatus};
use watchkeeper_jobs::{CameraNames, MAX_NAME_WORDS};
use watchkeeper_memory::note::{Kind, Note, Tag};
use watchkeeper_memory::{Found, Memory, Query};
use xxhash_rust::xxh3::xxh3_64;

use super::tool_context::ToolContext;
use crate::lesson::{RELATED, similarity};
use crate::proposal::price::is_drawing;
use crate::proposal::snapshot::SystemSnapshot;
use crate::redact;

/// How long a watch runs unchanged before it is an example.
pub(super) const KEPT_FOR: SignedDuration = SignedDuration::from_hours(72);
/// Maximum number of examples.
const MAX_EXAMPLES: usize = 2;
/// Longest time between the note of a watch and its first frame; a later start is a replacement.
const START_TIMEOUT: SignedDuration = SignedDuration::from_hours(1);
/// Tag of the note of a confirmed watch.
const TAG: &str = "watch";
/// Placeholder for the camera's name in an example.
const CAMERA: &str = "CAMERA";

/// The tags of the note of a confirmed watch: [`TAG`], its pipeline and a hash of its definition. A
/// name that is not a tag makes a note that is never an example.
pub(crate) fn tags(spec: &PipelineSpec) -> Vec<Tag> {
    let mut definition = redact::spec(spec);
    if let Some(members) = definition.as_object_mut() {
        members.remove("paused");
    }
    let definition = format!(
        "definition-{:016x}",
        xxh3_64(definition.to_string().as_bytes())
    );
    let tags = [TAG, spec.id.as_str(), &definition];
    tags.into_iter().flat_map(Tag::new).collect()
}

/// The kept watches whose request resembles `request`, the best first.
pub(super) async fn similar(
    context: &ToolContext,
    request: &str,
    here: &SystemSnapshot,
) -> Vec<Value> {
    // A search must not create the folder.
    let Some(notes) = context.memory.as_ref().filter(|notes| notes.exist()) else {
        return Vec::new();
    };
    let query = Query {
        kinds: vec![Kind::Observation],
        tags: Tag::new(TAG).into_iter().collect(),
        ..Query::new(request)
    };
    let search = |memory: &mut Memory| memory.search(query).map_err(|e| e.to_string());
    let found = notes.with(search).await.unwrap_or_default();
    let mut examples = Vec::new();
    for (note, status) in kept_notes(&found, request, here) {
        if examples.len() == MAX_EXAMPLES {
            break;
        }
        let answers = context.client.answers(&status.spec.id).await;
        let rules = answers.iter().flat_map(|answers| &answers.rules);
        let of_rules = rules.flat_map(|rule| &rule.answers);
        let (approved, rejected): (Vec<_>, Vec<_>) = of_rules.partition(|answer| answer.is_true);
        if answers.is_ok() && rejected.len() <= approved.len() {
            examples.push(example(
                note,
                &status.spec,
                &camera_names(&status.spec, here),
            ));
        }
    }
    examples
}

/// The notes whose watch was kept, each with its pipeline.
fn kept_notes<'a>(
    found: &'a [Found],
    request: &str,
    here: &'a SystemSnapshot,
) -> Vec<(&'a Note, &'a PipelineStatus)> {
    let now = here.now.timestamp();
    let of_note = |found: &'a Found| {
        let note = &found.note;
        let is_its = |status: &&PipelineStatus| {
            let tags = tags(&status.spec);
            tags.len() == 3 && tags.iter().all(|tag| note.tags.contains(tag))
        };
        let status = here.pipelines.iter().find(is_its)?;
        let is_similar = similarity(request, note.words.as_str()) >= RELATED;
        (is_similar && was_kept(note.at?, status, now)).then_some((note, status))
    };
    found.iter().filter_map(of_note).collect()
}

/// Whether a watch that was confirmed at `confirmed` has run unchanged since.
fn was_kept(confirmed: Timestamp, status: &PipelineStatus, now: Timestamp) -> bool {
    let since = status.results.counting_since;
    let since = since.and_then(|since| Timestamp::from_millisecond(since.unix_ms).ok());
    let starts_with_note =
        |since: Timestamp| since.duration_since(confirmed).abs() <= START_TIMEOUT;
    since.is_some_and(starts_with_note)
        && matches!(status.state, PipelineState::Running)
        && !status.spec.paused
        && now.duration_since(confirmed) >= KEPT_FOR
}

fn camera_names(spec: &PipelineSpec, here: &SystemSnapshot) -> CameraNames {
    let mut names = CameraNames::default();
    names.add(spec.source.as_str(), None);
    for source in here
        .sources
        .iter()
        .filter(|source| source.spec.id == spec.source)
    {
        let name = source.spec.name.as_ref().map(|name| name.as_str());
        names.add(spec.source.as_str(), name);
    }
    names
}

/// Puts [`CAMERA`] in the place of the names of a camera.
fn without_names(text: &str, names: &CameraNames) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut shown = Vec::new();
    let mut rest = words.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let is_name = |length: &usize| {
            let words = rest.get(..*length);
            words.is_some_and(|words| names.id(&words.join(" ")).is_some())
        };
        let length = (1..=MAX_NAME_WORDS).rev().find(is_name);
        shown.push(length.map_or(*first, |_| CAMERA));
        rest = length
            .and_then(|length| rest.get(length..))
            .unwrap_or(after);
    }
    shown.join(" ")
}

/// The request and the definition of a watch, for any camera.
fn example(note: &Note, spec: &PipelineSpec, names: &CameraNames) -> Value {
    let steps = spec.workflow["steps"].as_array().into_iter().flatten();
    let steps = steps.filter(|step| !is_drawing(step)).map(without_places);
    let rules = serde_json::to_value(&spec.rules).unwrap_or_default();
    let rules = rules.as_array().into_iter().flatten().map(without_places);
    json!({
        "request": without_names(note.words.as_str(), names), "steps": steps.collect::<Value>(),
        "rules": rules.collect::<Value>(),
    })
}

/// A step or rule without its coordinates, which are lists of lists.
fn without_places(of: &Value) -> Value {
    let mut of = of.clone();
    if let Some(members) = of.as_object_mut() {
        members.retain(|_, value| !value[0].is_array());
    }
    of
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use crate::proposal::snapshot::testing::{situation, status};

    fn spec() -> PipelineSpec {
        serde_json::from_value(json!({
            "id": "gate-people", "source": "gate",
            "workflow": {"steps": [
                {"type": "watchkeeper/line@v1", "name": "door", "line_segment": [[0, 1], [2, 3]]},
                {"type": "roboflow_core/label_visualization@v1", "name": "labels"},
            ]},
            "rules": [{"name": "in", "when": {"kind": "crosses", "line": "door"},
                "classes": ["person"]}],
        }))
        .unwrap()
    }

    /// A watch that was confirmed some hours before the snapshot.
    fn confirmed(hours: i64) -> (SystemSnapshot, Timestamp) {
        let mut here = situation();
        let at = here.now.timestamp() - SignedDuration::from_hours(hours);
        let mut status = status(&spec());
        let since = json!({"unix_ms": at.as_millisecond(), "quality": "synced"});
        status.results.counting_since = serde_json::from_value(since).unwrap();
        here.pipelines.push(status);
        (here, at)
    }

    #[test]
    fn watch_is_kept_after_three_days_unless_changed_or_paused() {
        let was_kept = |(here, at): &(SystemSnapshot, Timestamp)| {
            was_kept(*at, &here.pipelines[0], here.now.timestamp())
        };
        assert!(was_kept(&confirmed(73)) && !was_kept(&confirmed(71)));
        let mut changed = confirmed(73);
        let since = changed.0.pipelines[0].results.counting_since.as_mut();
        since.unwrap().unix_ms += 7_200_000;
        assert!(!was_kept(&changed));
        let mut paused = confirmed(73);
        paused.0.pipelines[0].spec.paused = true;
        assert!(!was_kept(&paused));
        let mut stopped = confirmed(73);
        stopped.0.pipelines[0].state = PipelineState::Ended;
        assert!(!was_kept(&stopped));
    }

    #[test]
    fn watch_that_was_replaced_within_its_first_hour_is_not_kept() {
        let (mut here, at) = confirmed(73);
        let note = |spec: &PipelineSpec| Note {
            at: Some(at),
            camera: None,
            tags: tags(spec),
            origin: watchkeeper_memory::note::Origin::Person,
            words: watchkeeper_memory::note::Words::new("count people at the door").unwrap(),
        };
        let found = |spec: &PipelineSpec| Found {
            file: "notes.md".into(),
            line: 1,
            kind: Kind::Observation,
            score: 1.0,
            trusted: true,
            note: note(spec),
        };
        let kept_of = |here: &SystemSnapshot| {
            kept_notes(&[found(&spec())], "count people at the door", here).len()
        };
        assert_eq!(kept_of(&here), 1);
        here.pipelines[0].spec.workflow = json!({"steps": []});
        assert_eq!(kept_of(&here), 0);
    }

    #[test]
    fn names_of_the_camera_are_hidden_in_any_case() {
        let mut names = CameraNames::default();
        names.add("gate-2", Some("Hintere Tür"));
        for (text, expected) in [
            ("people at GATE 2, please", "people at CAMERA please"),
            ("the hintere TÜR's people", "the CAMERA people"),
            ("gate 22", "gate 22"),
        ] {
            assert_eq!(without_names(text, &names), expected, "{text}");
        }
    }

    #[test]
    fn example_has_no_camera_no_coordinates_and_no_drawing() {
        let words = "Asked for and confirmed: count people at the door on camera gate.";
        let note = Note {
            at: None,
            camera: None,
            tags: Vec::new(),
            origin: watchkeeper_memory::note::Origin::Person,
            words: watchkeeper_memory::note::Words::new(words).unwrap(),
        };
        let shown = example(&note, &spec(), &camera_names(&spec(), &situation()));
        assert_eq!(
            shown["request"],
            "Asked for and confirmed: count people at the door on camera CAMERA"
        );
        let door = json!([{"type": "watchkeeper/line@v1", "name": "door"}]);
        assert_eq!(shown["steps"], door);
        assert_eq!(shown["rules"][0]["classes"], json!(["person"]));
    }
}
