//! A plan from a file with all that is wrong with it, for `job validate` and before `job run`.

use serde_json::json;
use watchkeeper_jobs::plan::{Change, Fault, Plan, repair};
use watchkeeper_jobs::{absent_folders, check_addresses, counted};

use super::super::exit::Failure;
use super::super::output::Output;
use super::commands::JobCommands;

/// Faults of a plan: each is repaired or left.
#[derive(Debug, Default)]
pub(super) struct Assessment {
    left: Vec<Fault>,
    changes: Vec<Change>,
    absent: Vec<String>,
    steps: usize,
}

impl JobCommands {
    pub(super) fn assess(&self, plan: Option<&Plan>, form: Vec<Fault>) -> Assessment {
        let mut assessment = Assessment {
            left: form,
            ..Assessment::default()
        };
        let Some(plan) = plan else {
            return assessment;
        };
        if !self.is_for_agent {
            assessment.left.extend(check_addresses(plan, &self.jobs));
        }
        match repair(plan.clone(), &self.tools) {
            Ok(repaired) => assessment.changes = repaired.changes,
            Err(unrepaired) => {
                assessment.left.extend(unrepaired.faults);
                assessment.changes = unrepaired.changes;
            }
        }
        assessment.absent = absent_folders(plan, &self.tools);
        assessment.steps = plan.steps.len();
        assessment
    }
}

impl Assessment {
    /// Refuses a plan that can't be repaired.
    ///
    /// # Errors
    /// All its faults, with what a repair would change.
    pub(super) fn require_repairable(&self, name: &str) -> Result<(), Failure> {
        match self.left.is_empty() {
            true => Ok(()),
            false => Err(self.failure(name)),
        }
    }

    /// Prints that the plan is valid.
    ///
    /// # Errors
    /// All its faults, with what a repair would change.
    pub(super) fn show(&self, name: &str, out: &Output) -> Result<(), Failure> {
        if self.left.is_empty() && self.changes.is_empty() {
            let (steps, absent) = (self.steps, &self.absent);
            let done = json!({"valid": true, "steps": steps, "absent_folders": absent});
            out.both(&done, || {
                format!("{name}: valid, {}", counted(steps, "step"))
            });
            self.note(out);
            return Ok(());
        }
        let left: Vec<String> = self.left.iter().map(ToString::to_string).collect();
        let repairs: Vec<String> = self.changes.iter().map(ToString::to_string).collect();
        out.object(&json!({"valid": false, "faults": left, "repairs": repairs}));
        Err(self.failure(name))
    }

    /// Notes what a run of the plan would refuse, unless the output is JSON.
    pub(super) fn note(&self, out: &Output) {
        if out.is_json() {
            return;
        }
        let faults = self.left.iter().map(ToString::to_string);
        let absent = self
            .absent
            .iter()
            .map(|folder| format!("there is no folder {folder}"));
        faults
            .chain(absent)
            .for_each(|why| out.note(format!("not ready to run: {why}")));
    }

    fn failure(&self, name: &str) -> Failure {
        let (left, repairs) = (self.left.len(), self.changes.len());
        let faults = match (left, repairs) {
            (_, 0) => counted(left, "fault"),
            (0, _) => format!(
                "{}; `job run` repairs all of them",
                counted(repairs, "fault")
            ),
            _ => format!(
                "{} can't be repaired, {repairs} can",
                counted(left, "fault")
            ),
        };
        let repairs = self.changes.iter();
        Failure::input(format!("{name}: {faults}"))
            .with(self.left.iter().map(ToString::to_string))
            .with(repairs.map(|change| format!("repair: {change}")))
    }
}
