//! A box with three cameras, and short ways to ask it something.

use std::sync::LazyLock;

use jiff::Zoned;
use jiff::civil::date;
use jiff::tz::TimeZone;
use watchkeeper_contract::id::{ChannelId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_plain::answer::{Answer, Change, Missing, Proposal, Question};
use watchkeeper_plain::scene::{Camera, Deployed, Model, Place, Shape};
use watchkeeper_plain::{Plain, Scene};

/// The labels that most detectors have.
pub(crate) const COCO: &str = include_str!("../../../../models/labels/coco-80.txt");

pub(crate) fn coco() -> Model {
    Model {
        name: "yolox-nano".to_owned(),
        labels: COCO.lines().map(str::to_owned).collect(),
    }
}

pub(crate) fn camera(id: &str, name: &str) -> Camera {
    Camera {
        id: SourceId::new(id).unwrap(),
        name: name.to_owned(),
        size: Some([1280, 720]),
        places: Vec::new(),
    }
}

/// Berlin, the evening before the clocks go forward.
pub(crate) fn evening() -> Zoned {
    let tz = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    date(2026, 3, 28).at(21, 10, 0, 0).to_zoned(tz).unwrap()
}

pub(crate) fn scene() -> Scene {
    let mut yard = camera("yard", "Yard");
    yard.places.push(Place {
        name: "left parking bay".to_owned(),
        shape: Shape::Zone(vec![[0.1, 0.5], [0.3, 0.5], [0.3, 0.9], [0.1, 0.9]]),
    });
    Scene {
        cameras: vec![camera("dock", "Loading dock"), camera("gate", "Gate"), yard],
        pipelines: Vec::new(),
        models: vec![coco()],
        classes: Vec::new(),
        channels: ["security", "front-desk"]
            .map(|c| ChannelId::new(c).unwrap())
            .to_vec(),
        now: evening(),
    }
}

/// The scene with a pipeline for each of these names of cameras.
pub(crate) fn with_pipelines(cameras: &[&str]) -> Scene {
    let mut scene = scene();
    for camera in cameras {
        let spec = deployed(&format!(
            "tell me when a person or a car appears on camera {camera}"
        ));
        scene.pipelines.push(Deployed {
            name: format!("{camera} alarm"),
            spec,
            paused: false,
            paused_until: None,
            not_running: None,
        });
    }
    scene
}

/// Made once: reading the words costs more than a request.
pub(crate) static PLAIN: LazyLock<Plain> = LazyLock::new(|| Plain::new().unwrap());

pub(crate) fn ask(text: &str, scene: &Scene) -> Answer {
    PLAIN.understand(text, scene).unwrap()
}

pub(crate) fn proposal_in(text: &str, scene: &Scene) -> Proposal {
    match ask(text, scene) {
        Answer::Propose(proposal) => *proposal,
        other => panic!("{text}: {other:#?}"),
    }
}

pub(crate) fn proposal(text: &str) -> Proposal {
    proposal_in(text, &scene())
}

pub(crate) fn specs(proposal: &Proposal) -> Vec<PipelineSpec> {
    let of = |change: &Change| match change {
        Change::Deploy(spec) | Change::Replace(spec) => Some((**spec).clone()),
        Change::Delete(_) | Change::Pause { .. } | Change::Resume(_) => None,
    };
    proposal.changes.iter().filter_map(of).collect()
}

/// The one pipeline that is proposed.
pub(crate) fn deployed(text: &str) -> PipelineSpec {
    let mut specs = specs(&proposal(text));
    assert_eq!(specs.len(), 1, "{text}");
    specs.remove(0)
}

pub(crate) fn question_in(text: &str, scene: &Scene) -> Question {
    match ask(text, scene) {
        Answer::Ask(question) => question,
        other => panic!("{text}: {other:#?}"),
    }
}

pub(crate) fn question(text: &str, about: Missing) -> Question {
    let question = question_in(text, &scene());
    assert_eq!(question.about, about, "{text}: {}", question.text);
    question
}
