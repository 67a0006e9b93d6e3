//! Rules about a line: a track crosses it, as counted by the line-counter step.
//!
//! - A crossing is momentary: its event ends when it begins.

use watchkeeper_vision::analytics::CROSSING_DEPTH;
use watchkeeper_vision::detections::Detection;

use super::boxes::Boxes;
use super::context::{RuleContext, Subject, View};
use super::evidence::EvidenceItem;
use super::life::{Lifecycle, Scene};
use super::plan::CrossWatch;

/// A rule about a line.
#[derive(Debug)]
pub(super) struct Crossing {
    watch: CrossWatch,
}

impl Crossing {
    pub(super) fn new(watch: CrossWatch) -> Self {
        Self { watch }
    }

    pub(super) fn observe(
        &self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        view: &View<'_>,
    ) {
        let history = &view.histories[self.watch.group];
        for (need, direction) in self.watch.needs.iter().zip(["in", "out"]) {
            let boxes = need.and_then(|n| view.inputs.boxes(n));
            for (track, d) in boxes.into_iter().flat_map(Boxes::tracked) {
                let subject = Subject::new(track, history);
                match context.check(d, Some(subject), scene.at) {
                    Ok(()) => {
                        let mut chain = subject.chain();
                        chain.extend(depth(d).map(EvidenceItem::crossing_depth));
                        chain.extend(subject.record.map(EvidenceItem::recent_score));
                        self.report(context, scene, (subject, &chain), direction);
                    }
                    Err(why) => context.emitter.give_up(Some(why)),
                }
            }
        }
    }

    fn report(
        &self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        (subject, chain): (Subject<'_>, &[EvidenceItem]),
        direction: &str,
    ) {
        let line = &self.watch.line;
        // A line that nobody named is called "line".
        let place = match line.as_str() {
            "line" => "the line".to_owned(),
            name => format!("line {name}"),
        };
        let reason = format!("{} crossed {place}, going {direction}", subject.name());
        let mut event = context.event(scene.at, "crosses", reason);
        subject.describe(&mut event, scene.at);
        event.line = Some(line.clone());
        event.direction = Some(direction.to_owned());
        let end = event.clone();
        let mut life = Lifecycle::candidate();
        // A crossing is momentary: nothing to wait for.
        context
            .emitter
            .try_begin(scene, Some(subject.track), (chain, true), &mut life, event);
        match life {
            Lifecycle::Open(open) => context.emitter.end(scene, *open, end, chain),
            Lifecycle::Candidate { held } => {
                let emitter = &mut context.emitter;
                emitter.give_up_event(scene, scene.clock, held, &end, chain);
            }
            Lifecycle::Over => {}
        }
    }
}

/// How far an object was before the line, if the step that counted it says so.
fn depth(d: &Detection) -> Option<f64> {
    d.data(CROSSING_DEPTH)?.as_f64()
}
