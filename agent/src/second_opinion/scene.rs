//! Whether two events show one scene, so that one opinion serves both.
//!
//! | condition | within |
//! |---|---|
//! | a track in common, or the centre of each bounding box in the other | [`EITHER_MS`] |
//! | both | [`BOTH_MS`] |
//!
//! A pipeline that is replaced counts its tracks from 1 again, so a track alone is not an identity.
//!
//! The answers are in memory only; a restart forgets them.
//!
//! Invariant: camera, pipeline, rule, class and run of the runtime are those of the other event.

use std::collections::VecDeque;

use watchkeeper_contract::event::{Event, EventBody, RuleEvent};

use super::Answer;

/// Answers that later events of their scenes may share.
const MAX_ANSWERS: usize = 16;

/// Milliseconds in which a track, or a place, shows one scene.
const EITHER_MS: u64 = 10_000;
/// Milliseconds in which a track at one place does. A later picture may show something else.
const BOTH_MS: u64 = 600_000;

/// The latest answers with their events, the newest last.
#[derive(Debug, Default)]
pub(crate) struct SceneAnswers(VecDeque<(Event, Answer)>);

impl SceneAnswers {
    /// Remembers the answer about `event` for others of its scene.
    pub(crate) fn remember(&mut self, event: &Event, answer: &Answer) {
        self.0.push_back((event.clone(), answer.clone()));
        if self.0.len() > MAX_ANSWERS {
            self.0.pop_front();
        }
    }

    /// The newest answer about the scene of `event`.
    pub(crate) fn shared(&self, event: &Event) -> Option<Answer> {
        let mut answers = self.0.iter();
        let found = answers.rfind(|(asked, _)| is_same_scene(asked, event));
        found.map(|(asked, answer)| answer.share(asked.id))
    }
}

/// Returns whether both events show one scene.
pub(crate) fn is_same_scene(a: &Event, b: &Event) -> bool {
    let (EventBody::Rule(first), EventBody::Rule(second)) = (&a.body, &b.body) else {
        return false;
    };
    let is_one_rule = (
        &a.source,
        &a.pipeline,
        &a.boot_id,
        &first.rule,
        &first.label,
    ) == (
        &b.source,
        &b.pipeline,
        &b.boot_id,
        &second.rule,
        &second.label,
    );
    let apart_ms = a.mono_ms.abs_diff(b.mono_ms);
    let has_common_track = first
        .tracks
        .iter()
        .any(|track| second.tracks.contains(track));
    let within_ms = match (has_common_track, is_same_place(first, second)) {
        (true, true) => BOTH_MS,
        (true, false) | (false, true) => EITHER_MS,
        (false, false) => return false,
    };
    is_one_rule && apart_ms <= within_ms
}

fn is_same_place(a: &RuleEvent, b: &RuleEvent) -> bool {
    let (Some(a), Some(b)) = (a.bbox, b.bbox) else {
        return false;
    };
    has_centre_of(a, b) && has_centre_of(b, a)
}

/// Returns whether the centre of `other` lies in `outer`.
fn has_centre_of(outer: [f64; 4], other: [f64; 4]) -> bool {
    let x = f64::midpoint(other[0], other[2]);
    let y = f64::midpoint(other[1], other[3]);
    (outer[0]..=outer[2]).contains(&x) && (outer[1]..=outer[3]).contains(&y)
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::id::TrackId;

    use super::*;
    use crate::example::example_event;

    const HERE: [f64; 4] = [0.1, 0.1, 0.3, 0.5];
    const NEARBY: [f64; 4] = [0.15, 0.1, 0.35, 0.5];
    const BESIDE: [f64; 4] = [0.28, 0.1, 0.48, 0.5];

    fn event(mono_ms: u64, track: i64, bbox: [f64; 4]) -> Event {
        let mut event = example_event();
        event.mono_ms = mono_ms;
        if let EventBody::Rule(rule) = &mut event.body {
            rule.tracks = vec![TrackId(track)];
            rule.bbox = Some(bbox);
        }
        event
    }

    #[test]
    fn scene_is_a_track_or_a_place_for_a_while() {
        let first = event(0, 1, HERE);
        for (other, is_same) in [
            (event(BOTH_MS, 1, NEARBY), true),
            (event(BOTH_MS + 1, 1, HERE), false),
            (event(EITHER_MS, 1, BESIDE), true),
            (event(EITHER_MS + 1, 1, BESIDE), false),
            (event(EITHER_MS, 2, NEARBY), true),
            (event(EITHER_MS + 1, 2, NEARBY), false),
            (event(0, 2, BESIDE), false),
        ] {
            assert_eq!(is_same_scene(&first, &other), is_same, "{other:?}");
            assert_eq!(is_same_scene(&other, &first), is_same, "{other:?}");
        }
    }

    #[test]
    fn other_rule_class_or_run_is_another_scene() {
        let first = event(0, 1, HERE);
        let with = |change: &dyn Fn(&mut Event)| {
            let mut other = first.clone();
            change(&mut other);
            is_same_scene(&first, &other)
        };
        let rule = |change: fn(&mut RuleEvent)| {
            with(&|event: &mut Event| {
                if let EventBody::Rule(rule) = &mut event.body {
                    change(rule);
                }
            })
        };
        assert!(with(&|_| {}));
        assert!(!with(&|event| event.boot_id = "other".to_owned()));
        assert!(!with(&|event| event.pipeline = None));
        assert!(!rule(|rule| rule.rule = "leaving".to_owned()));
        assert!(!rule(|rule| rule.label = Some("dog".to_owned())));
    }
}
