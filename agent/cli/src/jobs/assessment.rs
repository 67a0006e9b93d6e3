//! A plan from a file with all that is wrong with it, for `job validate` and before `job run`.

use serde_json::json;
use watchkeeper_jobs::plan::{Change, Fault, Plan, check, repair};
use watchkeeper_jobs::{absent_folders, check_addresses, counted};

use super::super::exit::Failure;
use super::super::output::Output;
use super::commands::{JobCommands, invalid};

/// What is wrong with a plan, and what a repair makes of it.
#[derive(Debug, Default)]
pub(super) struct Assessment {
    /// As it is written.
    faults: Vec<Fault>,
    /// After the repair.
    left: Vec<Fault>,
    changes: Vec<Change>,
    absent: Vec<String>,
    steps: usize,
}

impl JobCommands {
    /// Assesses a plan and the faults of its form.
    pub(super) fn assess(&self, plan: Option<&Plan>, form: Vec<Fault>) -> Assessment {
        let mut assessment = Assessment {
            left: form.clone(),
            faults: form,
            ..Assessment::default()
        };
        let Some(plan) = plan else {
            return assessment;
        };
        let (faults, left) = (&mut assessment.faults, &mut assessment.left);
        if !self.is_for_agent {
            let addresses = check_addresses(plan, &self.jobs);
            left.extend(addresses.clone());
            faults.extend(addresses);
        }
        faults.extend(check(plan.clone(), &self.tools).err().unwrap_or_default());
        match repair(plan.clone(), &self.tools) {
            Ok(repaired) => assessment.changes = repaired.changes,
            Err(unrepaired) => {
                left.extend(unrepaired.faults);
                assessment.changes = unrepaired.changes;
            }
        }
        // A fault that another one hid shows after the repair.
        let hidden = left.iter().filter(|fault| !faults.contains(fault));
        let hidden: Vec<Fault> = hidden.cloned().collect();
        faults.extend(hidden);
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
        if self.faults.is_empty() {
            let (steps, absent) = (self.steps, &self.absent);
            let done = json!({"valid": true, "steps": steps, "absent_folders": absent});
            out.both(&done, || {
                format!("{name}: valid, {}", counted(steps, "step"))
            });
            if !out.is_json() {
                let notes = absent.iter();
                notes.for_each(|folder| out.note(format!("there is no folder {folder}")));
            }
            return Ok(());
        }
        let texts =
            |faults: &[Fault]| -> Vec<String> { faults.iter().map(ToString::to_string).collect() };
        let changes: Vec<String> = self.changes.iter().map(ToString::to_string).collect();
        out.object(
            &json!({"valid": false, "faults": texts(&self.faults), "repairs": changes,
            "unrepaired": texts(&self.left)}),
        );
        Err(self.failure(name))
    }

    fn failure(&self, name: &str) -> Failure {
        let repairs = self.changes.iter();
        let repairs = repairs.map(|change| format!("repair: {change}"));
        let ends = match self.left.len() {
            0 => vec!["`job run` repairs all of them".to_owned()],
            number if number == self.faults.len() => {
                vec![format!("{} can't be repaired", counted(number, "fault"))]
            }
            _ => {
                let left = self.left.iter();
                left.map(|fault| format!("can't be repaired: {fault}"))
                    .collect()
            }
        };
        invalid(name, &self.faults).with(repairs).with(ends)
    }
}
