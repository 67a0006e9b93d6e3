//! Target `assessment`: the body of an assessment, as the API reads it and the journal checks it.
//!
//! - A refusal is one sentence with the field and the value; the API's has a 4xx status.
//! - An assessment that was accepted is written and read back unchanged, and accepted again.

use watchkeeper_contract::review::NewAssessment;
use watchkeeper_runtime::fuzzing;

pub(super) fn assessment(input: &[u8]) {
    let new = match fuzzing::assessment_body(input) {
        Ok(new) => new,
        Err(problem) => {
            assert!((400..500).contains(&problem.status), "{problem:?}");
            assert!(!problem.detail.trim().is_empty(), "{problem:?}");
            return;
        }
    };
    match fuzzing::check_assessment(&new) {
        Err(why) => assert!(!why.trim().is_empty() && !why.contains('\n'), "{why:?}"),
        Ok(()) => {
            let text = serde_json::to_string(&new).expect("it was read from JSON");
            let again: NewAssessment = serde_json::from_str(&text).expect("it was just written");
            assert_eq!(again, new, "{text}");
            assert_eq!(fuzzing::check_assessment(&again), Ok(()));
        }
    }
}
