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
    /// Begins another output with the same steps behind it.
    pub(super) fn begin(&mut self) {
        self.pictures.clear();
        self.groups = None;
        self.is_measured = false;
    }

    /// Adds a step, unless one with the same call is there. Returns its name, with a number where
    /// another step has the name.
    pub(super) fn add(&mut self, name: &str, tool: &str, params: Value, reason: &str) -> String {
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        let tool = tool.to_owned();
        let call = Call { tool, params };
        if let Some(known) = self.steps.iter().find(|step| step.call == call) {
            return known.name.clone();
        }
        let is_taken = |name: &str| self.steps.iter().any(|step| step.name == name);
        let mut numbered = (2..).map(|n| format!("{name}{n}"));
        let free = Some(name.to_owned()).filter(|name| !is_taken(name));
        let name = free
            .or_else(|| numbered.find(|name| !is_taken(name)))
            .unwrap_or_default();
        self.steps.push(Step {
            name: name.clone(),
            call,
            depends_on: Vec::new(),
            reason: reason.to_owned(),
            retry: Retry::default(),
            timeout_s: crate::plan::TIMEOUT_S,
            alternatives: Vec::new(),
        });
        name
    }

    /// Adds a step that takes the pictures so far and yields others; returns its name.
    pub(super) fn add_on_pictures(
        &mut self,
        name: &str,
        tool: &str,
        mut params: Value,
        reason: &str,
    ) -> String {
        params["pictures"] = json!(self.pictures);
        let name = self.add(name, tool, params, reason);
        self.pictures_of(&name);
        name
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
