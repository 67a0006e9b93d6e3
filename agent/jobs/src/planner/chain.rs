//! The steps of a plan while they are added.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::plan::{Call, Retry, Step};

/// A chain of steps, each using the pictures or groups of an earlier one.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) inputs: BTreeMap<String, Value>,
    pub(super) steps: Vec<Step>,
    /// Reference to the pictures so far.
    pub(super) pictures: String,
    /// Reference to their groups, if they have some.
    pub(super) groups: Option<String>,
    /// Whether the pictures have scores.
    pub(super) is_measured: bool,
}

impl Chain {
    pub(super) fn add(&mut self, name: &str, tool: &str, params: Value, reason: &str) {
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        self.steps.push(Step {
            name: name.to_owned(),
            call: Call {
                tool: tool.to_owned(),
                params,
            },
            depends_on: Vec::new(),
            reason: reason.to_owned(),
            retry: Retry::default(),
            timeout_s: crate::plan::TIMEOUT_S,
            alternatives: Vec::new(),
        });
    }

    /// Adds a step that takes the pictures so far and yields others.
    pub(super) fn add_on_pictures(
        &mut self,
        name: &str,
        tool: &str,
        mut params: Value,
        reason: &str,
    ) {
        params["pictures"] = json!(self.pictures);
        self.add(name, tool, params, reason);
        self.pictures_of(name);
    }

    pub(super) fn measure(&mut self) {
        if !std::mem::replace(&mut self.is_measured, true) {
            self.add_on_pictures(
                "measure",
                "measure_quality",
                json!({}),
                "scores to choose by",
            );
        }
    }

    pub(super) fn pictures_of(&mut self, step: &str) {
        self.pictures = format!("${{{step}.pictures}}");
    }

    pub(super) fn collection(&self) -> &str {
        self.groups.as_deref().unwrap_or(&self.pictures)
    }
}
