//! Target `contract`: every document of the contract as JSON.
//!
//! - A document that is read, written and read again has the same value.
//! - Its text does not change from the first write on, so a record does not drift between
//!   processes.
//! - A refusal is a sentence; the API refuses the same body with a 4xx status.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use watchkeeper_contract::command::{CommandReport, CommandRequest, CommandStatus};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::health::Health;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineStatus};
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_contract::source::{SourceSpec, SourceStatus};
use watchkeeper_contract::workflow::{BlockDetails, ValidateReport};
use watchkeeper_runtime::fuzzing;

pub(super) fn contract(input: &[u8]) {
    let read = [
        stable::<RuleSpec>(input),
        stable::<Vec<RuleSpec>>(input),
        stable::<PipelineSpec>(input),
        stable::<PipelineStatus>(input),
        stable::<SourceSpec>(input),
        stable::<SourceStatus>(input),
        stable::<Event>(input),
        stable::<CommandRequest>(input),
        stable::<CommandReport>(input),
        stable::<CommandStatus>(input),
        stable::<Problem>(input),
        stable::<Health>(input),
        stable::<ModelInfo>(input),
        stable::<ValidateReport>(input),
        stable::<BlockDetails>(input),
    ];
    let [_, _, pipeline, _, source, ..] = read;
    refused(fuzzing::pipeline_body(input).err(), pipeline);
    refused(fuzzing::source_body(input).err(), source);
}

/// Whether the input is a `T`, which then has to survive a write.
fn stable<T: DeserializeOwned + Serialize + PartialEq + Debug>(input: &[u8]) -> bool {
    let value: T = match serde_json::from_slice(input) {
        Ok(value) => value,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            return false;
        }
    };
    let text = serde_json::to_string(&value).expect("the contract is plain data");
    match serde_json::from_str::<T>(&text) {
        Ok(back) => {
            assert_eq!(back, value, "{text}");
            let again = serde_json::to_string(&back).expect("the contract is plain data");
            assert_eq!(again, text, "the text drifts");
        }
        Err(e) => panic!("{value:?} can't be read back from {text}: {e}"),
    }
    true
}

fn refused(problem: Option<Problem>, is_read: bool) {
    if let Some(problem) = problem {
        assert!(
            !is_read,
            "the API refuses what the contract reads: {problem:?}"
        );
        assert!((400..500).contains(&problem.status), "{problem:?}");
        assert!(!problem.detail.trim().is_empty(), "{problem:?}");
        assert!(problem.field.as_deref() != Some(""), "{problem:?}");
    }
}
