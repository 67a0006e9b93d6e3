//! Makes the folders of a plan independent of where the program was started.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::Plan;
use super::reference::{self, INPUTS, Text};
use crate::tool::{Kind, Toolbox};

/// Makes relative folders absolute, in parameters and in the inputs that they use: a job may be
/// resumed from another folder.
///
/// # Errors
/// If the current folder is not known.
pub fn anchor(plan: &mut Plan, tools: &Toolbox) -> io::Result<()> {
    let mut inputs = Vec::new();
    for call in plan.steps.iter_mut().flat_map(|step| step.calls_mut()) {
        let Some(spec) = tools.spec(&call.tool) else {
            continue;
        };
        for param in spec
            .params
            .iter()
            .filter(|param| param.kind == Kind::Folder)
        {
            let Some(value) = call.params.get_mut(param.name) else {
                continue;
            };
            match value.as_str().map(reference::parse) {
                Some(Text::Plain) => absolute(value)?,
                Some(Text::Reference(input)) if input.owner == INPUTS => inputs.push(input.key),
                _ => {}
            }
        }
    }
    for key in inputs {
        if let Some(value) = plan.inputs.get_mut(&key) {
            absolute(value)?;
        }
    }
    Ok(())
}

fn absolute(value: &mut Value) -> io::Result<()> {
    if let Some(text) = value.as_str().filter(|text| !text.is_empty())
        && let Some(path) = std::path::absolute(Path::new(text))?.to_str()
    {
        *value = Value::from(path);
    }
    Ok(())
}
