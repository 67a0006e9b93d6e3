//! Who works on what a person said: the plain rules, or a model by one of the blueprints.
//!
//! What the rules understand is theirs: they cost nothing and do what they say. What they do not understand goes, where a model is configured, to one
//! call of a small one, which puts it into words that the rules do understand or chooses a blueprint ([`crate::proposal::reword`]). A person may name
//! the blueprint; pictures go to the set-up, which may look at them. Where no model is configured the rules say what they did not understand.
//!
//! Invariants: a model chooses among names that were checked, and one that names none of them has chosen the set-up, which can do all that the others can
//! look at and acts on nothing; what is chosen decides what a model may use, never what may be done without a yes. Sans-IO.

use serde::Serialize;
use watchkeeper_plain::{Missing, Question};

use crate::blueprint::store::{BlueprintEntry, BlueprintStoreError};
use crate::blueprint::{Blueprint, BlueprintError, Job, built_in, error};
use crate::proposal::conversation::Reply;
use crate::proposal::reword::JobChoice;

/// Who chose a blueprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// The person named it.
    Person,
    /// There are pictures to look at.
    Pictures,
    /// The model that was asked.
    Model,
    /// Nobody: the model named none that there is.
    Nobody,
}

/// A blueprint that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Which.
    pub blueprint: Blueprint,
    /// By whom.
    pub by: ChosenBy,
}

/// Why a person can't have a blueprint.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// There is none, or the disk refuses.
    #[error(transparent)]
    BlueprintStore(#[from] BlueprintStoreError),
    /// It can't be used.
    #[error("{0}")]
    Damaged(String),
    /// It is not for persons.
    #[error(
        "{0} is for events that the box is unsure of, and nobody asks for it in words; choose another one, or leave --blueprint out"
    )]
    NotAskedFor(String),
}

/// The blueprints that a request may go to.
fn open(shelf: &[BlueprintEntry]) -> impl Iterator<Item = &Blueprint> {
    let serving = shelf.iter().filter_map(|listed| listed.serves.as_ref());
    serving.filter(|blueprint| blueprint.job.is_asked_for())
}

/// What a model is told of them.
#[must_use]
pub fn choices(shelf: &[BlueprintEntry]) -> Vec<JobChoice> {
    let told = open(shelf).map(|blueprint| JobChoice {
        name: blueprint.name.to_string(),
        when: blueprint.when.clone(),
    });
    told.collect()
}

/// The one that a model chose by this name.
///
/// # Errors
/// Never, in a build that passed its tests.
pub fn chosen(name: &str, shelf: &[BlueprintEntry]) -> Result<Route, Vec<BlueprintError>> {
    match open(shelf).find(|blueprint| blueprint.name.as_str() == name) {
        Some(blueprint) => Ok(Route {
            blueprint: blueprint.clone(),
            by: ChosenBy::Model,
        }),
        None => set_up(shelf, ChosenBy::Nobody),
    }
}

/// The one under which a set-up is done.
///
/// # Errors
/// Never, in a build that passed its tests.
pub fn set_up(shelf: &[BlueprintEntry], by: ChosenBy) -> Result<Route, Vec<BlueprintError>> {
    let own = open(shelf).find(|blueprint| blueprint.name.as_str() == Job::SetUp.name());
    let blueprint = match own {
        Some(own) => own.clone(),
        None => built_in::of(Job::SetUp)?,
    };
    Ok(Route { blueprint, by })
}

/// The one that a person named.
///
/// # Errors
/// When it can't be used for what a person says.
pub fn named(listed: BlueprintEntry) -> Result<Route, RouteError> {
    // A person who names one means that one, and not what would serve in its place.
    if !listed.flaws.is_empty() {
        let flaws = error::sentence(&listed.flaws);
        return Err(RouteError::Damaged(format!(
            "the blueprint {} can't be used: {flaws}",
            listed.name
        )));
    }
    let name = listed.name.to_string();
    match listed.serves {
        Some(blueprint) if blueprint.job.is_asked_for() => Ok(Route {
            blueprint,
            by: ChosenBy::Person,
        }),
        _ => Err(RouteError::NotAskedFor(name)),
    }
}

/// Whether what the rules make of a model's words is taken for a request that it takes for one of this job: all of it was said, and nothing is put up
/// for somebody who only asks. A question of the rules about what was meant is none for the person, who never said those words.
#[must_use]
pub fn takes(job: Job, left_out: &[String], reply: &Reply) -> bool {
    let fits = match (job, reply) {
        (Job::SetUp, Reply::Proposal(offer)) => offer.is_complete(),
        (Job::SetUp, Reply::Ask(question)) => !is_at_a_loss(question),
        (Job::SetUp | Job::Question, Reply::Look(_)) => true,
        _ => false,
    };
    left_out.is_empty() && fits
}

/// Whether the rules ask for what a model may find out by itself: what the words mean, which camera or class is meant, and where in the picture that is. How
/// long, how many, which way and which of several pipelines only the person knows.
#[must_use]
pub fn is_at_a_loss(question: &Question) -> bool {
    match question.about {
        Missing::Meaning
        | Missing::KnownClass
        | Missing::Class
        | Missing::Camera
        | Missing::Place
        | Missing::Line => true,
        Missing::Direction
        | Missing::Duration
        | Missing::Number
        | Missing::Pipeline
        | Missing::Picture => false,
    }
}

/// Whether the rules read only a part of what was said, or ask for what a model may find out: then a model is asked, where there is one. What the rules made
/// of it is for when it does not help.
#[must_use]
pub fn is_partial(reply: &Reply) -> bool {
    match reply {
        Reply::Unknown(_) => true,
        Reply::Ask(question) => is_at_a_loss(question),
        Reply::Proposal(offer) => !offer.proposal.not_understood.is_empty(),
        Reply::Look(looked) => !looked.not_understood.is_empty(),
        Reply::ChangedProposal(_)
        | Reply::Invalid(..)
        | Reply::Apply(_)
        | Reply::Remember(..)
        | Reply::ProbeCameras(_)
        | Reply::Answer(_)
        | Reply::TooLong(_)
        | Reply::Dropped
        | Reply::NothingPending
        | Reply::Empty => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_plain::answer::Looked;
    use watchkeeper_plain::intent::Look;

    use super::*;
    use crate::blueprint::{BlueprintName, BlueprintStore};

    fn shelf(files: &[(&str, &str)]) -> (tempfile::TempDir, BlueprintStore, Vec<BlueprintEntry>) {
        let dir = tempfile::tempdir().unwrap();
        let shelf = BlueprintStore::of(dir.path());
        for (name, text) in files {
            shelf
                .create(&BlueprintName::new(name).unwrap(), text)
                .unwrap();
        }
        let all = shelf.list().unwrap().0;
        (dir, shelf, all)
    }

    const DOCK: &str = "+++\njob = \"question\"\nwhen = \"About the dock.\"\n+++\n";

    #[test]
    fn a_model_chooses_among_those_that_a_person_may_ask_for() {
        let (_dir, _shelf, all) = shelf(&[("dock", DOCK)]);
        let told = choices(&all);
        let names: Vec<&str> = told.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["archive", "dock", "question", "set-up"]);
        for (name, blueprint, by) in [
            ("dock", "dock", ChosenBy::Model),
            ("archive", "archive", ChosenBy::Model),
            ("", "set-up", ChosenBy::Nobody),
            ("triage", "set-up", ChosenBy::Nobody),
            ("../../etc", "set-up", ChosenBy::Nobody),
        ] {
            let routed = chosen(name, &all).unwrap();
            assert_eq!(
                (routed.blueprint.name.as_str(), routed.by),
                (blueprint, by),
                "{name}"
            );
        }
    }

    #[test]
    fn a_person_gets_the_one_they_name_or_is_told_why_not() {
        let (_dir, shelf, _) = shelf(&[("dock", DOCK)]);
        let routed = named(shelf.get("dock").unwrap()).unwrap();
        assert_eq!(
            (routed.blueprint.name.as_str(), routed.by),
            ("dock", ChosenBy::Person)
        );
        let triage = named(shelf.get("triage").unwrap()).unwrap_err();
        assert!(
            triage.to_string().contains("nobody asks for it"),
            "{triage}"
        );
        std::fs::write(shelf.folder().join("question.md"), "broken").unwrap();
        let damaged = named(shelf.get("question").unwrap()).unwrap_err();
        assert!(damaged.to_string().contains("front matter"), "{damaged}");
    }

    #[test]
    fn other_words_count_only_where_they_do_what_the_job_does() {
        let look = Reply::Look(Looked {
            look: Look::Cameras,
            text: String::new(),
            not_understood: Vec::new(),
        });
        assert!(takes(Job::SetUp, &[], &look) && takes(Job::Question, &[], &look));
        assert!(!takes(Job::Archive, &[], &look), "it was to be kept");
        assert!(!takes(Job::Question, &["blue".to_owned()], &look));
        let silence = Reply::Empty;
        assert!(!takes(Job::SetUp, &[], &silence));
    }
}
