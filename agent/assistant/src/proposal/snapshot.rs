//! State of the runtime at one moment, and the scene in which the rules parse a request.
//!
//! Invariants:
//! - Only what the runtime reported: a camera without a frame has no size.
//! - A zone or line with an everyday name, such as `left`, is not offered as a place.

use std::collections::BTreeSet;

use jiff::Zoned;
use serde_json::Value;
use watchkeeper_contract::health::{Health, HealthState};
use watchkeeper_contract::id::{DisplayName, EventSeq, SourceId};
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, PipelineStatus};
use watchkeeper_contract::source::{SourceState, SourceStatus};
use watchkeeper_engine::templates::watch::MOTION;
use watchkeeper_models::PREFERRED;
use watchkeeper_plain::Scene;
use watchkeeper_plain::scene::{Camera, Deployed, Model, Place, Shape};

use crate::wording::pipeline_state;

/// Task of the models that detect objects with classes.
pub(crate) const DETECTION: &str = "object-detection";
/// Most named places of one camera.
const MAX_PLACES: usize = 32;
/// Words for a location in any picture. A step with such a name was named by a program; as a place
/// it would capture words of other requests.
const LOCATION_WORDS: [&str; 22] = [
    "line", "zone", "area", "region", "place", "picture", "image", "frame", "whole", "left",
    "right", "top", "bottom", "upper", "lower", "half", "third", "quarter", "corner", "middle",
    "centre", "center",
];

/// State of the runtime at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemSnapshot {
    pub health: Health,
    pub sources: Vec<SourceStatus>,
    pub pipelines: Vec<PipelineStatus>,
    pub models: Vec<ModelInfo>,
    /// Model preferred by the configuration.
    pub preferred: Option<String>,
    /// Local time of the box, with its time zone.
    pub now: Zoned,
    /// Whether cameras without a picture size were opened.
    pub cameras_probed: bool,
}

impl SystemSnapshot {
    /// The state while the runtime does not answer.
    pub(crate) fn unknown(now: Zoned) -> Self {
        let health = Health {
            state: HealthState::Degraded,
            reasons: Vec::new(),
            details: Vec::new(),
            notes: Vec::new(),
            version: String::new(),
            boot_id: String::new(),
            uptime_s: 0.0,
            pid: 0,
            last_seq: EventSeq(0),
            effects: Default::default(),
            review_shares: Vec::new(),
            event_times: Default::default(),
            storage: None,
            channels: Vec::new(),
        };
        Self {
            health,
            sources: Vec::new(),
            pipelines: Vec::new(),
            models: Vec::new(),
            preferred: None,
            now,
            cameras_probed: false,
        }
    }

    /// Returns the scene for a request made at `now`.
    pub fn scene(&self, now: &Zoned) -> Scene {
        let models = self.usable_models();
        let camera = |source: &SourceStatus| Camera {
            id: source.spec.id.clone(),
            name: display_name(source.spec.name.as_ref(), source.spec.id.as_str()),
            size: source.size,
            places: self.places(source),
        };
        let deployed = |status: &PipelineStatus| Deployed {
            spec: status.spec.clone(),
            name: display_name(status.spec.name.as_ref(), status.spec.id.as_str()),
            paused: status.spec.paused,
            paused_until: (status.paused_until).map(|at| at.to_zoned(now.time_zone().clone())),
            not_running: match &status.state {
                PipelineState::Starting | PipelineState::Running => None,
                state => Some(pipeline_state(state)).filter(|_| !status.spec.paused),
            },
        };
        Scene {
            cameras: self.sources.iter().map(camera).collect(),
            pipelines: self.pipelines.iter().map(deployed).collect(),
            models,
            classes: self.told_classes(),
            channels: self.health.channels.clone(),
            now: now.clone(),
        }
    }

    /// Returns the cameras without a picture size that may deliver frames.
    pub fn unseen(&self) -> Vec<SourceId> {
        let may_come =
            |state: &SourceState| !matches!(state, SourceState::Failed { .. } | SourceState::Ended);
        let unseen = self
            .sources
            .iter()
            .filter(|s| s.size.is_none() && may_come(&s.state));
        unseen.map(|s| s.spec.id.clone()).collect()
    }

    pub fn pipeline(&self, id: &str) -> Option<&PipelineStatus> {
        self.pipelines.iter().find(|p| p.spec.id.as_str() == id)
    }

    pub fn present_models(&self) -> impl Iterator<Item = &ModelInfo> {
        self.models.iter().filter(|m| m.state != ModelState::Absent)
    }

    /// Returns the classes that some detector knows, installed or not.
    fn told_classes(&self) -> Vec<String> {
        let detectors = self
            .models
            .iter()
            .filter(|m| m.task == DETECTION && m.name != MOTION);
        let labels = detectors.flat_map(|m| &m.labels).filter(|l| !l.is_empty());
        let labels: BTreeSet<&String> = labels.collect();
        labels.into_iter().cloned().collect()
    }

    /// Returns the present detection models: the preferred one first, the motion detector last. A
    /// box with demo sources only gets the motion detector alone, because the demo figures are
    /// drawn for it.
    fn usable_models(&self) -> Vec<Model> {
        let is_demo = |s: &SourceStatus| s.spec.uri.starts_with("demo:");
        let only_demo = !self.sources.is_empty() && self.sources.iter().all(is_demo);
        let preferred: Vec<&str> = match &self.preferred {
            Some(name) => vec![name],
            None => PREFERRED.to_vec(),
        };
        let rank = |name: &str| {
            let rank = preferred.iter().position(|other| *other == name);
            rank.unwrap_or(preferred.len())
        };
        let usable = self.models.iter().filter(|m| {
            m.state != ModelState::Absent
                && (m.name == MOTION || (m.task == DETECTION && !only_demo))
        });
        let mut models: Vec<Model> = usable
            .map(|m| Model {
                name: m.name.clone(),
                labels: match m.name.as_str() {
                    MOTION => Vec::new(),
                    // The background class of a network has no name.
                    _ => m.labels.iter().filter(|l| !l.is_empty()).cloned().collect(),
                },
            })
            .collect();
        models.sort_by_key(|m| (rank(&m.name), m.name == MOTION));
        models
    }

    /// Returns the zones and lines of pipelines on this camera, named by their steps. Different
    /// shapes with one name are ambiguous and left out.
    fn places(&self, source: &SourceStatus) -> Vec<Place> {
        let Some(size) = source.size.filter(|[w, h]| *w > 0 && *h > 0) else {
            return Vec::new();
        };
        let on_it = self
            .pipelines
            .iter()
            .filter(|p| p.spec.source == source.spec.id);
        let mut places: Vec<Place> = Vec::new();
        let mut doubtful: Vec<String> = Vec::new();
        for place in on_it.flat_map(|p| drawn_places(&p.spec, size)) {
            if place.name.split(' ').all(is_location_word) {
                continue;
            }
            match places.iter().find(|known| known.name == place.name) {
                Some(known) if known.shape != place.shape => doubtful.push(place.name),
                Some(_) => {}
                None if places.len() < MAX_PLACES => places.push(place),
                None => {}
            }
        }
        places.retain(|place| !doubtful.contains(&place.name));
        places
    }
}

fn is_location_word(word: &str) -> bool {
    LOCATION_WORDS.contains(&word) || word.chars().all(|c| c.is_ascii_digit())
}

/// The name of a zone or line in a scene, from that of its step.
pub fn place_name(step: &str) -> String {
    step.replace(['-', '_'], " ").to_lowercase()
}

/// Returns the zones and lines given as literal coordinates.
fn drawn_places(spec: &PipelineSpec, size: [u32; 2]) -> Vec<Place> {
    let steps = spec.workflow.get("steps").and_then(Value::as_array);
    let place = |step: &Value| {
        let kind = step.get("type")?.as_str()?;
        let name = step.get("name")?.as_str()?;
        let shape = if kind.contains("line_counter@") {
            match points(step.get("line_segment")?, size)?.as_slice() {
                [a, b] if a != b => Shape::Line(*a, *b),
                _ => return None,
            }
        } else if kind.contains("time_in_zone@") {
            let corners = points(step.get("zone")?, size)?;
            if corners.len() < 3 {
                return None;
            }
            Shape::Zone(corners)
        } else {
            return None;
        };
        let name = place_name(name);
        Some(Place { name, shape })
    };
    steps.into_iter().flatten().filter_map(place).collect()
}

/// Converts pixels to shares of the picture; `None` for a point outside or a selector.
fn points(value: &Value, [w, h]: [u32; 2]) -> Option<Vec<[f64; 2]>> {
    let share = |value: &Value, whole: u32| {
        let share = value.as_f64()? / f64::from(whole);
        (0.0..=1.0).contains(&share).then_some(share)
    };
    let point = |point: &Value| match point.as_array()?.as_slice() {
        [x, y] => Some([share(x, w)?, share(y, h)?]),
        _ => None,
    };
    value.as_array()?.iter().map(point).collect()
}

/// Returns the display name, or the id without one.
pub(crate) fn display_name(name: Option<&DisplayName>, id: &str) -> String {
    name.map_or_else(|| id.to_owned(), DisplayName::to_string)
}

#[cfg(test)]
pub(crate) mod testing {
    //! A box with two cameras and no pipeline, for tests.
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use jiff::civil::date;
    use jiff::tz::TimeZone;
    use serde_json::json;

    use super::*;

    pub(crate) fn source(id: &str, uri: &str, size: Option<[u32; 2]>) -> SourceStatus {
        serde_json::from_value(json!({
            "spec": {"id": id, "uri": uri}, "state": {"state": "idle"},
            "since": {"unix_ms": 0, "quality": "synced"}, "size": size,
            "counters": {"frames": 0, "dropped": 0, "connects": 0, "losses": 0, "fps": 0.0},
        }))
        .unwrap()
    }

    pub(crate) fn status(spec: &PipelineSpec) -> PipelineStatus {
        let state = if spec.paused { "paused" } else { "running" };
        serde_json::from_value(json!({
            "spec": spec, "state": {"state": state},
            "since": {"unix_ms": 0, "quality": "synced"},
            "results": {
                "frames": 1, "source_s": 1.0, "elapsed_s": 1.0, "tracks": 0, "lines": {}, "zones": {},
                "events": 0, "discarded": 0, "stages_ms": {}, "outputs": {},
            },
        }))
        .unwrap()
    }

    pub(crate) fn model(name: &str, labels: &[&str]) -> ModelInfo {
        serde_json::from_value(json!({
            "name": name, "task": "object-detection", "state": {"state": "builtin"}, "labels": labels,
        }))
        .unwrap()
    }

    pub(crate) fn situation() -> SystemSnapshot {
        SystemSnapshot {
            health: serde_json::from_value(json!({
                "state": "up", "reasons": [], "version": "0", "boot_id": "b", "uptime_s": 1.0, "pid": 1, "last_seq": 0,
            }))
            .unwrap(),
            sources: vec![
                source("gate", "rtsp://cam/1", Some([640, 360])),
                source("dock", "rtsp://cam/2", None),
            ],
            pipelines: Vec::new(),
            models: vec![
                model(MOTION, &["motion"]),
                model(PREFERRED[0], &["person", "car", "dog"]),
            ],
            preferred: None,
            now: date(2026, 11, 22).at(9, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap(),
            cameras_probed: true,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::testing::{model, situation, source, status};
    use super::*;

    fn pipeline(id: &str, source: &str, steps: Value) -> PipelineStatus {
        let spec = json!({"id": id, "source": source, "workflow": {"steps": steps}});
        status(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn preferred_model_is_first_and_motion_last() {
        let mut here = situation();
        here.models.push(model("other", &["person"]));
        let names = |here: &SystemSnapshot| -> Vec<String> {
            let scene = here.scene(&here.now);
            scene.models.into_iter().map(|m| m.name).collect()
        };
        assert_eq!(names(&here), [PREFERRED[0], "other", MOTION]);
        here.preferred = Some("other".to_owned());
        assert_eq!(names(&here), ["other", PREFERRED[0], MOTION]);
        here.models[1].state = ModelState::Absent;
        assert_eq!(names(&here), ["other", MOTION]);
        here.models.push(model(PREFERRED[1], &["person"]));
        here.preferred = None;
        assert_eq!(names(&here), [PREFERRED[1], "other", MOTION]);
    }

    #[test]
    fn demo_only_box_offers_the_motion_detector() {
        let mut here = situation();
        here.sources = vec![source("street", "demo:?seed=1", None)];
        let models = here.scene(&here.now).models;
        assert_eq!(models.len(), 1);
        assert_eq!(
            (models[0].name.as_str(), models[0].labels.len()),
            (MOTION, 0)
        );
    }

    #[test]
    fn unambiguous_zones_and_lines_become_places() {
        let mut here = situation();
        let zone = |name: &str, x: u32| json!({"type": "roboflow_core/time_in_zone@v3", "name": name, "zone": [[0, 0], [x, 0], [x, 180]]});
        let door = json!({"type": "roboflow_core/line_counter@v2", "name": "Back_door", "line_segment": [[0, 0], [320, 360]]});
        let outside = json!({"type": "roboflow_core/line_counter@v2", "name": "far", "line_segment": [[0, 0], [900, 0]]});
        let by_parameter = json!({"type": "roboflow_core/time_in_zone@v3", "name": "open", "zone": "$inputs.zone"});
        here.pipelines = vec![
            pipeline(
                "a",
                "gate",
                json!([
                    zone("bay", 320),
                    door,
                    outside,
                    by_parameter,
                    zone("zone", 64),
                    zone("car", 64)
                ]),
            ),
            pipeline("b", "gate", json!([zone("bay", 320), zone("ramp", 64)])),
            pipeline("c", "gate", json!([zone("ramp", 128)])),
            pipeline("d", "dock", json!([zone("shelf", 64)])),
        ];
        let scene = here.scene(&here.now);
        let names: Vec<&str> = scene.cameras[0]
            .places
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        assert_eq!(names, ["bay", "back door", "car"]);
        assert_eq!(
            scene.cameras[0].places[1].shape,
            Shape::Line([0.0, 0.0], [0.5, 1.0])
        );
        assert!(scene.cameras[1].places.is_empty(), "its size is unknown");
    }

    #[test]
    fn unseen_lists_only_cameras_that_may_deliver() {
        let mut here = situation();
        assert_eq!(here.unseen(), [SourceId::new("dock").unwrap()]);
        here.sources[1].state = SourceState::Ended;
        assert!(here.unseen().is_empty());
    }
}
