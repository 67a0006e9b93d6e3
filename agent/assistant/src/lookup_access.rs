//! The look-ups of the configuration as a session reaches them: in the agent, or over its API.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::wording::unknown;

/// Longest value that is looked up for a session or a program, in characters.
pub const MAX_VALUE: usize = 200;

/// Formats the refusal of a name that no look-up has.
pub fn unknown_lookup(name: &str, known: &[&str]) -> String {
    match known.is_empty() {
        false => unknown("look-up", name, known),
        true => "there is no look-up; add a section [agent.lookups.NAME] to the configuration"
            .to_owned(),
    }
}

/// Asks look-ups (`[agent.lookups.NAME]`).
pub trait LookupAccess: Send + Sync + Debug {
    /// Looks `value` up by the look-up `name`, within its cache and rate; an error is a sentence.
    fn look_up(&self, name: String, value: String) -> BoxFuture<'_, Result<Value, String>>;
}
