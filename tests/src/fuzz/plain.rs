//! Target `plain`: a request in plain words, to a box with cameras, a place, channels and a watch.
//!
//! - It has one answer; one that is too long has none.
//! - Nothing is proposed of a request with a word that no phrase knows.

use std::sync::LazyLock;

use jiff::Zoned;
use watchkeeper_contract::id::{ChannelId, SourceId};
use watchkeeper_plain::answer::{Answer, Change};
use watchkeeper_plain::scene::{Camera, Deployed, Model, Place, Shape};
use watchkeeper_plain::{MAX_CHARS, Plain, Scene};

/// A word that nothing reads.
const UNKNOWN: &str = "xqzv";

static PLAIN: LazyLock<Plain> = LazyLock::new(|| Plain::new().expect("its data files are valid"));
static SCENE: LazyLock<Scene> = LazyLock::new(scene);

fn scene() -> Scene {
    let camera = |id: &str, name: &str| Camera {
        id: SourceId::new(id).expect("it is an ID"),
        name: name.to_owned(),
        size: Some([1280, 720]),
        places: vec![Place {
            name: format!("{id} bay"),
            shape: Shape::Zone(vec![[0.1, 0.5], [0.3, 0.5], [0.3, 0.9]]),
        }],
    };
    let now: Zoned = "2026-03-28T21:10:00+01:00[+01:00]"
        .parse()
        .expect("it is a time");
    let mut scene = Scene {
        cameras: vec![camera("gate", "Gate"), camera("yard", "Back yard")],
        models: vec![Model {
            name: "yolox-nano".to_owned(),
            labels: ["person", "car", "truck", "dog"]
                .map(str::to_owned)
                .to_vec(),
        }],
        channels: vec![ChannelId::new("office").expect("it is an ID")],
        now,
        ..Scene::default()
    };
    let watch = PLAIN.understand("tell me when a car appears on camera gate", &scene);
    let Ok(Answer::Propose(proposal)) = watch else {
        panic!("not proposed");
    };
    for change in proposal.changes {
        let Change::Deploy(spec) = change else {
            panic!("no new watch");
        };
        scene.pipelines.push(Deployed {
            name: spec.id.to_string(),
            spec: *spec,
            paused: false,
            paused_until: None,
            not_running: None,
        });
    }
    scene
}

pub(super) fn plain(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let understand = |text: &str| PLAIN.understand(text, &SCENE);
    let Ok(answer) = understand(&text) else {
        assert!(text.chars().count() > MAX_CHARS);
        return;
    };
    if let Answer::Propose(proposal) = &answer {
        assert!(!proposal.changes.is_empty() && !proposal.understood.is_empty());
        assert_eq!(Ok(&answer), understand(&text).as_ref());
        let with_unknown = understand(&format!("{UNKNOWN} {text}"));
        assert!(
            !matches!(with_unknown, Ok(Answer::Propose(_))),
            "{with_unknown:?}"
        );
    }
}
