//! What a plan names outside of itself: results of other jobs, and folders.

use std::path::Path;

use serde_json::Value;

use crate::plan::check::{unknown, unknown_among};
use crate::plan::reference::{Address, Text, parse};
use crate::plan::{Fault, Plan};
use crate::run::{JobFolderError, Jobs};
use crate::tool::Toolbox;

/// Jobs that a fault names.
const MAX_JOBS: usize = 3;

/// Returns a fault for each `job://` address whose job, step or key does not exist. An address
/// whose job can't be read is left to the run.
pub fn check_addresses(plan: &Plan, jobs: &Jobs) -> Vec<Fault> {
    let mut faults = Vec::new();
    for step in &plan.steps {
        for (name, value) in step.calls().flat_map(|call| &call.params) {
            if let Some(Text::Address(address)) = value.as_str().map(parse) {
                let at = format!("steps.{}.params.{name}", step.name);
                faults.extend(check_address(&at, &address, jobs));
            }
        }
    }
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

/// Returns the folders and files that a plan reads and that do not exist now, without those of
/// steps that have alternatives.
pub fn absent_folders(plan: &Plan, tools: &Toolbox) -> Vec<String> {
    let mut absent: Vec<String> = Vec::new();
    let folders = plan
        .folders(tools)
        .filter(|one| one.step.alternatives.is_empty());
    for folder in folders.map(|one| one.text) {
        let is_known = absent.iter().any(|known| known == folder);
        if !is_known && parse(folder) == Text::Plain && !Path::new(folder).exists() {
            absent.push(folder.to_owned());
        }
    }
    absent
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::read;
    use crate::tools::picture_tools;

    #[test]
    fn folder_of_a_step_with_an_alternative_may_be_absent() {
        let home = tempfile::tempdir().unwrap();
        let list = |folder: &str| json!({"tool": "list_pictures", "params": {"folder": folder}});
        let here = home.path().to_str().unwrap();
        for (folder, alternatives, expected) in [
            (here, json!([]), &[][..]),
            ("/nowhere/a", json!([]), &["/nowhere/a"]),
            ("/nowhere/a", json!([list(here)]), &[]),
            (here, json!([list("/nowhere/a")]), &[]),
        ] {
            let mut step = list(folder);
            step["name"] = json!("list");
            step["alternatives"] = alternatives;
            let plan = read(&json!({"name": "x", "steps": [step]})).unwrap();
            assert_eq!(absent_folders(&plan, &picture_tools()), expected);
        }
    }
}
