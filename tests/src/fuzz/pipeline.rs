//! Target `pipeline`: a deployment as JSON, checked like the API does and run on hostile frames.
//!
//! - A refusal has a 4xx status, a sentence and the field.
//! - Accepted rules make only valid events, whatever the frames hold.
//! - An event starts once and ends once; its JSON is read back unchanged.
//! - Its confidence lies in `0.0..=1.0` and its bounding box in the picture.

use std::collections::BTreeMap;
use std::time::Duration;

use ulid::Ulid;
use watchkeeper_contract::event::{Phase, RuleEvent, Verdict};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::rule::Weekday;
use watchkeeper_engine::rules::{Change, FinishReason, LocalTime, Moment, NeedKind, NeedValue};
use watchkeeper_engine::workflow::{Execution, SlotId};
use watchkeeper_runtime::fuzzing;
use watchkeeper_runtime::pipeline::plan;

use super::hostile::{Choices, PICTURE, text_and_choices};

const FRAMES: usize = 6;

pub(super) fn pipeline(input: &[u8]) {
    let (text, mut choices) = text_and_choices(input);
    let planned = fuzzing::pipeline_body(text).and_then(|spec| plan::plan(&spec));
    let mut plan = match planned {
        Ok(plan) => plan,
        Err(problem) => {
            assert!((400..500).contains(&problem.status), "{problem:?}");
            assert!(!problem.detail.trim().is_empty(), "{problem:?}");
            let shown = problem.value.as_deref().unwrap_or_default();
            assert!(shown.len() <= text.len() * 6 + 200, "{problem:?}");
            return;
        }
    };
    let mut execution = plan.compiled.instantiate();
    let mut told = EventChecker::default();
    let mut number = 0;
    let mut new_id = || {
        number += 1;
        EventId(Ulid::from(number))
    };
    let mut at = moment(&mut choices, 0);
    for frame in 0..FRAMES {
        at = moment(&mut choices, frame);
        execution.run(
            choices.image(),
            &[],
            Duration::from_secs(frame as u64),
            &mut choices,
        );
        let inputs: Vec<NeedValue<'_>> = plan
            .needs
            .iter()
            .map(|(slot, kind)| value(&execution, *slot, *kind))
            .collect();
        told.take(
            plan.rules
                .observe(&at, None, |need| inputs[need], &mut new_id),
        );
    }
    told.take(plan.rules.finish(
        FinishReason::SourceEnded,
        &at,
        |_| NeedValue::Missing,
        &mut new_id,
    ));
    assert!(told.open.values().all(|open| !open), "an event has no end");
}

fn moment(choices: &mut Choices<'_>, frame: usize) -> Moment {
    Moment {
        time_s: match choices.byte() {
            0..40 => choices.number(),
            step => frame as f64 * f64::from(step) / 16.0,
        },
        frame: frame as u64 + 1,
        size: choices.pick(&[PICTURE, PICTURE, PICTURE, [0, 0], [u32::MAX, 1]]),
        is_damaged: frame.is_multiple_of(5),
        local: Some(LocalTime {
            weekday: choices.pick(&[Weekday::Mon, Weekday::Sun]),
            minute_of_day: choices.pick(&[0, 1, 720, 1439, u16::MAX]),
        }),
    }
}

fn value<'a>(execution: &'a Execution, slot: SlotId, kind: NeedKind) -> NeedValue<'a> {
    let number = || execution.number(slot).map(NeedValue::Number);
    let boolean = || execution.boolean(slot).map(NeedValue::Boolean);
    match kind {
        NeedKind::Detections => execution.detections(slot).map(NeedValue::Detections),
        NeedKind::Number => number(),
        NeedKind::Boolean => boolean(),
        NeedKind::NumberOrBoolean => number().or_else(boolean),
        NeedKind::Text => execution.text(slot).map(NeedValue::Text),
    }
    .unwrap_or(NeedValue::Missing)
}

/// Events so far, and whether each is still open.
#[derive(Default)]
struct EventChecker {
    open: BTreeMap<EventId, bool>,
}

impl EventChecker {
    fn take(&mut self, changes: Vec<Change>) {
        for change in changes {
            let was = self.open.insert(change.id, change.phase != Phase::End);
            match change.phase {
                Phase::New => assert_eq!(was, None, "{change:?} begins twice"),
                Phase::Update | Phase::End => assert_eq!(was, Some(true), "{change:?} is not open"),
                Phase::Clip | Phase::Assessed => panic!("{change:?}: a rule films nothing itself"),
            }
            let decided = &change.decision;
            assert_ne!(decided.verdict, Verdict::Discard, "{change:?}");
            assert!((0.0..=1.0).contains(&decided.confidence), "{change:?}");
            assert!(!decided.reason.is_empty(), "{change:?}");
            for evidence in &change.evidence {
                assert!((0.0..=1.0).contains(&evidence.confidence), "{evidence:?}");
                assert!(evidence.weight.is_finite(), "{evidence:?}");
            }
            let event = &change.event;
            if let Some(bbox) = event.bbox {
                assert!(bbox.iter().all(|v| (0.0..=1.0).contains(v)), "{event:?}");
                assert!(bbox[0] <= bbox[2] && bbox[1] <= bbox[3], "{event:?}");
            }
            let text = serde_json::to_string(event).expect("an event has a JSON form");
            match serde_json::from_str::<RuleEvent>(&text) {
                Ok(back) => assert_eq!(&back, event, "{text}"),
                Err(e) => panic!("{event:?} can't be read back from {text}: {e}"),
            }
        }
    }
}
