//! The blueprints that are compiled in: one of each job, with the job's name.
//!
//! They are files as a person writes them, read by the same code.

use super::{Blueprint, BlueprintError, BlueprintName, Job, read};

/// The text of the one of this job.
#[must_use]
pub const fn text(job: Job) -> &'static str {
    match job {
        Job::SetUp => include_str!("built_in/set-up.md"),
        Job::Triage => include_str!("built_in/triage.md"),
        Job::Question => include_str!("built_in/question.md"),
        Job::Archive => include_str!("built_in/archive.md"),
    }
}

/// The job whose built-in blueprint has this name.
#[must_use]
pub fn job_of(name: &BlueprintName) -> Option<Job> {
    Job::named(name.as_str())
}

/// The one of this job.
///
/// # Errors
/// Never, in a build that passed its tests.
pub fn of(job: Job) -> Result<Blueprint, Vec<BlueprintError>> {
    let name = BlueprintName::new(job.name()).map_err(|e| {
        let remedy = "this is a fault of the program: report it";
        vec![BlueprintError::new(
            "name",
            job.name(),
            &e.to_string(),
            remedy,
        )]
    })?;
    read(&name, text(job))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_llm::money::Money;

    use super::*;

    #[test]
    fn every_job_has_a_blueprint_that_is_read_and_has_all_of_its_tools() {
        for job in Job::ALL {
            let blueprint = of(job).unwrap();
            assert_eq!(blueprint.job, job);
            assert_eq!(blueprint.tools, job.tools());
            assert!(blueprint.cost > Money::ZERO && !blueprint.when.is_empty());
        }
    }
}
