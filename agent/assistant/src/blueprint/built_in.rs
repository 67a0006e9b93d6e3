//! The built-in blueprints, one per job and with the job's name.
//!
//! They are files like those of users, and the same code parses them.

use super::{Blueprint, BlueprintError, BlueprintName, Job, read};

pub const fn text(job: Job) -> &'static str {
    match job {
        Job::SetUp => include_str!("built_in/set-up.md"),
        Job::Triage => include_str!("built_in/triage.md"),
        Job::Question => include_str!("built_in/question.md"),
        Job::Notes => include_str!("built_in/notes.md"),
        Job::Jobs => include_str!("built_in/jobs.md"),
        Job::Ingestor => include_str!("built_in/ingestor.md"),
        Job::Retriever => include_str!("built_in/retriever.md"),
        Job::Organiser => include_str!("built_in/organiser.md"),
        Job::Identifier => include_str!("built_in/identifier.md"),
        Job::Coordinator => include_str!("built_in/coordinator.md"),
    }
}

/// The built-in blueprint of a job.
///
/// # Errors
/// Never, in a build that passed its tests.
pub fn blueprint(job: Job) -> Result<Blueprint, Vec<BlueprintError>> {
    let name = BlueprintName::new(job.name()).map_err(|e| {
        let remedy = "this is a bug: report it";
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
    fn every_built_in_blueprint_is_valid_with_all_tools() {
        for job in Job::ALL {
            let blueprint = blueprint(job).unwrap();
            assert_eq!(blueprint.job, job);
            assert_eq!(blueprint.tools, job.tools());
            assert!(blueprint.cost > Money::ZERO && !blueprint.when.is_empty());
        }
    }
}
