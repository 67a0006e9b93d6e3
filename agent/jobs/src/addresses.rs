//! What a plan names outside of itself: results of other jobs, and folders.

use std::path::Path;

use serde_json::Value;

use crate::plan::check::{unknown, unknown_among};
use crate::plan::reference::{Address, INPUTS, Text, parse};
use crate::plan::{Call, Fault, Plan};
use crate::run::{JobFolderError, Jobs};
use crate::tool::{Kind, Toolbox};

/// Jobs that a fault names.
const MAX_JOBS: usize = 3;

/// Returns a fault for each `job://` address whose job, step or key does not exist. An address
/// whose job can't be read is left to the run.
pub fn check_addresses(plan: &Plan, jobs: &Jobs) -> Vec<Fault> {
    let mut faults = Vec::new();
    each_param(plan, &mut |at, _, _, value| {
        if let Some(Text::Address(address)) = value.as_str().map(parse) {
            faults.extend(check_address(&at, &address, jobs));
        }
    });
    faults
}

fn check_address(at: &str, address: &Address, jobs: &Jobs) -> Option<Fault> {
    let kind = match jobs.open_exact(&address.job) {
        Err(JobFolderError::Unknown(_)) => {
            let all = jobs.ids().ok()?;
            let latest_first: Vec<&str> = all.iter().rev().map(String::as_str).collect();
            unknown_among("job", &address.job, &latest_first, MAX_JOBS)
        }
        Err(_) => return None,
        Ok(job) => match job.result(&address.step) {
            Err(JobFolderError::NotDone { .. }) => {
                let steps = job.info().plan.get("steps").and_then(Value::as_array);
                let names = steps.into_iter().flatten();
                let names = names.filter_map(|step| step.get("name")?.as_str());
                unknown("finished step", &address.step, names)
            }
            Err(_) => return None,
            Ok(values) if values.contains_key(&address.key) => return None,
            Ok(values) => unknown("result", &address.key, values.keys().map(String::as_str)),
        },
    };
    Some(Fault::new(at, kind))
}

/// Returns the folders that a plan reads and that do not exist now. Those of alternatives, which
/// only a failure needs, are not looked for.
pub fn absent_folders(plan: &Plan, tools: &Toolbox) -> Vec<String> {
    let mut absent = Vec::new();
    let calls = plan.steps.iter().map(|step| &step.call);
    let params = calls.flat_map(|call| call.params.iter().map(move |param| (call, param)));
    for (call, (name, value)) in params {
        let spec = tools.spec(&call.tool);
        let kind = spec
            .and_then(|spec| spec.param(name))
            .map(|param| param.kind);
        if kind != Some(Kind::Folder) {
            continue;
        }
        let folder = match value.as_str().map(parse) {
            Some(Text::Plain) => value.as_str(),
            Some(Text::Reference(input)) if input.owner == INPUTS => {
                plan.inputs.get(&input.key).and_then(Value::as_str)
            }
            _ => None,
        };
        if let Some(folder) = folder.filter(|folder| !Path::new(folder).is_dir())
            && !absent.iter().any(|known| known == folder)
        {
            absent.push(folder.to_owned());
        }
    }
    absent
}

/// Calls `visit` with the place, call, name and value of each parameter.
fn each_param(plan: &Plan, visit: &mut dyn FnMut(String, &Call, &str, &Value)) {
    for step in &plan.steps {
        for call in step.calls() {
            for (name, value) in &call.params {
                let at = format!("steps.{}.params.{name}", step.name);
                visit(at, call, name, value);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::read;
    use crate::tools::picture_tools;

    #[test]
    fn folder_of_an_alternative_may_be_absent() {
        let home = tempfile::tempdir().unwrap();
        let list = |folder: &str| json!({"tool": "list_pictures", "params": {"folder": folder}});
        let here = home.path().to_str().unwrap();
        for (first, alternative, expected) in [
            (here, "/nowhere/a", &[][..]),
            ("/nowhere/a", here, &["/nowhere/a"]),
        ] {
            let mut step = list(first);
            step["name"] = json!("list");
            step["alternatives"] = json!([list(alternative)]);
            let plan = read(&json!({"name": "x", "steps": [step]})).unwrap();
            assert_eq!(absent_folders(&plan, &picture_tools()), expected);
        }
    }
}
