//! Plans from files and from requests in plain English.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use watchkeeper_jobs::plan::{Fault, MAX_PLAN_BYTES, Plan, anchor, read_text};
use watchkeeper_jobs::{Toolbox, counted, planner};

use super::super::args::JobRunArgs;
use super::super::exit::{Exit, Failure};

/// Makes relative folders of a plan absolute.
pub(super) fn anchor_plan(plan: &mut Plan, tools: &Toolbox) -> Result<(), Failure> {
    anchor(plan, tools)
        .map_err(|error| Failure::new(Exit::Failed, format!("the current folder: {error}")))
}

/// Reads a plan and replaces its inputs.
pub(super) fn plan_of_file(args: JobRunArgs) -> Result<Plan, Failure> {
    let mut plan = read_plan(&args.file)?;
    for (key, value) in args.inputs {
        let Some(input) = plan.inputs.get_mut(&key) else {
            let known = match plan.inputs.is_empty() {
                true => "no inputs".to_owned(),
                false => plan.inputs.keys().cloned().collect::<Vec<_>>().join(", "),
            };
            let sentence = format!("--input {key}: the plan has no such input; it has {known}");
            return Err(Failure::input(sentence));
        };
        *input = match input {
            // "2026" may be the name of a folder.
            Value::String(_) => Value::String(value),
            _ => serde_json::from_str(&value).unwrap_or(Value::String(value)),
        };
    }
    Ok(plan)
}

pub(super) fn plan_words(text: &str) -> Result<Plan, Failure> {
    let now = jiff::Zoned::now().datetime();
    planner::plan(text, now).map_err(|error| Failure::input(error.to_string()))
}

pub(super) fn read_plan(file: &Path) -> Result<Plan, Failure> {
    let name = file.display().to_string();
    read_text(&read_file(file)?).map_err(|faults| invalid(&name, &faults))
}

/// Reads a file of at most the size of a plan, or standard input for `-`.
pub(super) fn read_file(file: &Path) -> Result<String, Failure> {
    let unreadable = |error| Failure::input(format!("{} can't be read: {error}", file.display()));
    // One byte more than allowed shows that the file is too large.
    let limit = MAX_PLAN_BYTES as u64 + 1;
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_string(&mut text)
    } else {
        let file = fs::File::open(file).map_err(unreadable)?;
        file.take(limit).read_to_string(&mut text)
    };
    read.map_err(unreadable)?;
    Ok(text)
}

pub(super) fn invalid(name: &str, faults: &[Fault]) -> Failure {
    let number = counted(faults.len(), "fault");
    Failure::input(format!("{name}: {number}")).with(faults.iter().map(ToString::to_string))
}
