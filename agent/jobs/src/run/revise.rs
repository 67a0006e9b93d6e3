//! Replaces the rest of a plan after a failed step; what is done stays.

use super::claims::claimed;
use super::error::JobFolderError;
use super::folder::{JobFolder, finished};
use crate::plan::{CheckedPlan, Plan, read};
use crate::tool::{Kind, Toolbox};

/// Why a plan can't replace that of a job.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    #[error(transparent)]
    Folder(#[from] JobFolderError),
    #[error("step {0} is done; leave it unchanged")]
    DoneStep(String),
    #[error("step {step} has left a part of {name:?}; choose another name")]
    Claimed { name: String, step: String },
}

impl JobFolder {
    /// Replaces the plan of a locked job; durable on return.
    ///
    /// # Errors
    /// As [`JobFolder::check_revision`], or if the disk refuses.
    pub(super) fn revise(
        &mut self,
        plan: &CheckedPlan,
        tools: &Toolbox,
    ) -> Result<(), RevisionError> {
        self.check_revision(plan, tools)?;
        Ok(self.replace_plan(plan.plan())?)
    }

    /// Checks that a plan can replace that of the job.
    ///
    /// # Errors
    /// If a done step would change, or a step would write over what another one has left.
    pub fn check_revision(&self, plan: &CheckedPlan, tools: &Toolbox) -> Result<(), RevisionError> {
        let lines = self.log()?;
        let old = read(&self.info().plan).ok();
        for (done, _) in finished(&lines) {
            let of = |plan: &Plan| plan.steps.iter().find(|step| step.name == done).cloned();
            let before = old.as_ref().and_then(of);
            let after = of(plan.plan());
            if before.map(|step| step.call) != after.map(|step| step.call) {
                return Err(RevisionError::DoneStep(done));
            }
        }
        let claims = claimed(&lines, &self.info().output);
        for step in &plan.plan().steps {
            for name in written(step.calls(), tools) {
                let owner = claims.get(&name).filter(|owner| **owner != step.name);
                if let Some(step) = owner.cloned() {
                    return Err(RevisionError::Claimed { name, step });
                }
            }
        }
        Ok(())
    }
}

/// Names of the files and folders that calls write.
fn written<'c>(calls: impl Iterator<Item = &'c crate::plan::Call>, tools: &Toolbox) -> Vec<String> {
    let mut names = Vec::new();
    for call in calls {
        let params = tools.spec(&call.tool).map_or(&[][..], |spec| spec.params);
        let of_names = params.iter().filter(|param| param.kind == Kind::Name);
        let given = of_names.filter_map(|param| call.params.get(param.name)?.as_str());
        names.extend(given.map(str::to_owned));
    }
    names
}
