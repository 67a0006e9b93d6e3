//! Tools, jobs and templates of a user, and what all commands do with a plan.

use std::sync::Arc;

use watchkeeper_config::Config;
use watchkeeper_jobs::plan::{Fault, Plan, Repaired, anchor, repair};
use watchkeeper_jobs::run::{JobFolderError, Jobs, RunError};
use watchkeeper_jobs::template_store::TemplateStore;
use watchkeeper_jobs::tools::picture_tools;
use watchkeeper_jobs::{Toolbox, counted};

use super::super::exit::{Exit, Failure};
use super::super::state_folder::state_folder;
use super::event_pictures::EventPictures;

/// Folder of all jobs below the user's state folder.
const FOLDER: &str = "jobs";
/// Folder of kept and cached plans, beside them.
const TEMPLATES: &str = "job-templates";

/// The jobs of the user.
pub(crate) fn jobs_of_user() -> Result<Jobs, Failure> {
    Ok(Jobs::new(state_folder()?.join(FOLDER)))
}

/// Opens the templates of the user.
pub(super) fn user_templates() -> Result<TemplateStore, Failure> {
    Ok(TemplateStore::new(state_folder()?.join(TEMPLATES)))
}

/// Tools and jobs of this user.
pub(super) struct JobCommands {
    pub(super) tools: Toolbox,
    pub(super) jobs: Jobs,
    pub(super) templates: TemplateStore,
    pub(super) config: Config,
}

impl JobCommands {
    pub(super) fn new(config: Config) -> Result<Self, Failure> {
        let mut tools = picture_tools();
        tools.add(Arc::new(EventPictures::new(config.runtime_socket.clone())));
        Ok(Self {
            tools,
            jobs: jobs_of_user()?,
            templates: user_templates()?,
            config,
        })
    }

    pub(super) fn anchored(&self, mut plan: Plan) -> Result<Plan, Failure> {
        anchor(&mut plan, &self.tools).map_err(no_current_folder)?;
        Ok(plan)
    }

    pub(super) fn repair(&self, plan: Plan, name: &str) -> Result<Repaired, Failure> {
        repair(plan, &self.tools).map_err(|left| {
            let repairs = left
                .changes
                .iter()
                .map(|change| format!("repair: {change}"));
            invalid(name, &left.faults).with(repairs)
        })
    }
}

pub(super) fn no_current_folder(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("the current folder: {error}"))
}

pub(super) fn invalid(name: &str, faults: &[Fault]) -> Failure {
    let number = counted(faults.len(), "fault");
    Failure::input(format!("{name}: {number}")).with(faults.iter().map(ToString::to_string))
}

impl From<JobFolderError> for Failure {
    fn from(error: JobFolderError) -> Self {
        let exit = match error {
            JobFolderError::Unknown(_)
            | JobFolderError::Ambiguous { .. }
            | JobFolderError::NotEmpty(_)
            | JobFolderError::NotText(_) => Exit::BadInput,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}
