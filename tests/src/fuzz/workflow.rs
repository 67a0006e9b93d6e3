//! Target `workflow`: a definition as JSON, checked, compiled and run on three hostile frames.
//!
//! - A definition compiles exactly if the check has no findings.
//! - Every error has a class and a sentence, and suggests only what is allowed.
//! - Every failure of a run names a step of the definition.
//! - The answer has exactly the declared outputs; a picture has the size of the frame.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;
use watchkeeper_contract::workflow::{ValidateReport, WorkflowError};
use watchkeeper_engine::workflow::{Compiled, compile, validate};

use super::hostile::{Choices, PICTURE, text_and_choices};

/// Largest report for a definition of this size: an error must not exhaust the box's memory.
fn bound(input: &[u8]) -> usize {
    64 * 1024 + 256 * input.len()
}

pub(super) fn workflow(input: &[u8]) {
    let (text, mut choices) = text_and_choices(input);
    let Ok(definition) = serde_json::from_slice::<Json>(text) else {
        return;
    };
    let report = validate(&definition);
    assert_eq!(report.ok, report.errors.is_empty());
    report.errors.iter().for_each(check_error);
    let size = serde_json::to_vec(&report).map_or(0, |r| r.len());
    assert!(size <= bound(text), "a report of {size} bytes");
    match compile(&definition, &BTreeMap::new()) {
        Ok(compiled) => {
            assert!(report.ok, "it compiles and is not valid: {report:?}");
            run(&compiled, &report, &mut choices);
        }
        Err(errors) => assert_eq!(errors, report.errors, "two answers to one question"),
    }
}

/// Checks that an error helps the author of the definition.
pub(super) fn check_error(error: &WorkflowError) {
    assert!(error.class.ends_with("Error"), "{error:?}");
    assert!(!error.message.trim().is_empty(), "{error:?}");
    if let (Some(nearest), false) = (&error.nearest, error.allowed.is_empty()) {
        assert!(error.allowed.contains(nearest), "{error:?}");
    }
}

fn run(compiled: &Compiled, report: &ValidateReport, choices: &mut Choices<'_>) {
    let mut execution = compiled.instantiate();
    for _ in 0..3 {
        let image = choices.image();
        let now = Duration::from_millis(choices.byte().into());
        let went = execution.run(image, &[], now, choices);
        for failure in &went.errors {
            assert!(report.steps.contains_key(&failure.step), "{failure:?}");
            assert!(!failure.message.trim().is_empty(), "{failure:?}");
        }
        let outputs = execution.outputs_json();
        let names = outputs.as_object().map(|o| o.keys().collect::<Vec<_>>());
        let declared: Vec<_> = report.outputs.keys().collect();
        assert_eq!(names.map(sorted), Some(declared));
        if let Some(picture) = execution.output_image() {
            let rgb = picture.rgb();
            assert_eq!([rgb.width, rgb.height], PICTURE);
            assert_eq!(rgb.data.len(), 3 * (rgb.width * rgb.height) as usize);
        }
    }
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list
}
