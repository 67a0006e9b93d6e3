//! Chooses what handles a request: the plain rules, or a language model by a blueprint.
//!
//! The rules answer what they understand, at no cost. What they do not understand goes to one call
//! of the small model, if one is configured. It rewords the request for the rules, or it chooses a
//! blueprint ([`crate::proposal::reword`]). A user may name the blueprint. Requests with pictures
//! go to the set-up, which may look at them.
//!
//! - A model chooses among checked names. Any other name means the set-up, which can read all that
//!   the other jobs can and changes nothing.
//! - The choice decides which tools a model has, never what may be done without a confirmation.
//! - Sans-IO.

use serde::Serialize;
use watchkeeper_plain::{Missing, Question};

use crate::blueprint::store::{BlueprintEntry, BlueprintStoreError};
use crate::blueprint::{Blueprint, Job, built_in, error};
use crate::proposal::conversation::Reply;
use crate::proposal::reword::JobChoice;

/// Who chose a blueprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// The user named it.
    Person,
    Pictures,
    Model,
    /// A coordinator, for one part of a request.
    Coordinator,
    /// A question that its model handed over.
    HandOver,
    /// The fallback: the model named no known blueprint.
    Nobody,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    pub blueprint: Blueprint,
    pub by: ChosenBy,
}

/// Why a blueprint that a user named can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    #[error(transparent)]
    BlueprintStore(#[from] BlueprintStoreError),
    #[error("{0}")]
    Damaged(String),
    /// The blueprint's job is not for users.
    #[error(
        "{name} {what} and takes no requests here; name another blueprint, or leave out --blueprint"
    )]
    NotForUsers { name: String, what: &'static str },
}

/// The choices that the small model reads. A damaged blueprint stays one of them where its job or
/// its `when` is known: no other blueprint, and no other provider, gets its requests.
pub fn choices(entries: &[BlueprintEntry]) -> Vec<JobChoice> {
    let choices = entries.iter().filter_map(|listed| {
        let of_job = || built_in::blueprint(Job::from_name(listed.name.as_str())?).ok();
        let when = match listed.serves.clone().or_else(of_job) {
            Some(blueprint) => blueprint
                .job
                .is_user_requestable()
                .then_some(blueprint.when)?,
            None => listed.refuses.clone()?,
        };
        Some(JobChoice {
            name: listed.name.to_string(),
            when,
        })
    });
    choices.collect()
}

/// Routes to the blueprint `name` that a model chose, or to the set-up.
///
/// # Errors
/// A sentence about its file, if that is damaged.
pub fn route_by_model(name: &str, entries: &[BlueprintEntry]) -> Result<Route, String> {
    match choices(entries).iter().any(|choice| choice.name == name) {
        true => route(name, entries, ChosenBy::Model),
        false => route_to_setup(entries, ChosenBy::Nobody),
    }
}

/// Routes to the blueprint of the set-up.
///
/// # Errors
/// A sentence about its file, if that is damaged.
pub fn route_to_setup(entries: &[BlueprintEntry], by: ChosenBy) -> Result<Route, String> {
    route(Job::SetUp.name(), entries, by)
}

fn route(name: &str, entries: &[BlueprintEntry], by: ChosenBy) -> Result<Route, String> {
    let listed = entries.iter().find(|listed| listed.name.as_str() == name);
    let listed = listed.ok_or_else(|| format!("there is no blueprint {name}"))?;
    match &listed.serves {
        Some(blueprint) => Ok(Route {
            blueprint: blueprint.clone(),
            by,
        }),
        None => Err(listed.trouble().unwrap_or_default()),
    }
}

/// Routes to a blueprint that the user named.
///
/// # Errors
/// [`RouteError`], if its file is invalid or its job is not for users.
pub fn route_by_user(listed: BlueprintEntry) -> Result<Route, RouteError> {
    // A user who names an invalid file does not mean the built-in blueprint behind it.
    if !listed.flaws.is_empty() {
        let errors = error::sentence(&listed.flaws);
        return Err(RouteError::Damaged(format!(
            "the blueprint {} can't be used: {errors}",
            listed.name
        )));
    }
    let name = listed.name.to_string();
    match listed.serves {
        Some(blueprint) if blueprint.job.is_user_requestable() => Ok(Route {
            blueprint,
            by: ChosenBy::Person,
        }),
        Some(blueprint) if blueprint.job == Job::Jobs => Err(RouteError::NotForUsers {
            name,
            what: "plans jobs (`watchkeeper job plan`)",
        }),
        _ => Err(RouteError::NotForUsers {
            name,
            what: "judges uncertain events",
        }),
    }
}

/// Whether the rules' reply to a rewording serves a request of this job.
///
/// Nothing of the request may be left out, and a mere question gets no proposal. A question of the
/// rules about the meaning of words is not for the user, who never wrote the rewording.
pub fn accepts_rewording(job: Job, left_out: &[String], reply: &Reply) -> bool {
    let fits = match (job, reply) {
        (Job::SetUp, Reply::Proposal(offer)) => offer.is_complete(),
        (Job::SetUp, Reply::Ask(question)) => !is_answerable_by_model(question),
        (Job::SetUp | Job::Question, Reply::Look(_)) => true,
        _ => false,
    };
    left_out.is_empty() && fits
}

/// Whether a language model may find the answer by itself: the meaning of words, the camera, the
/// class, the place in the picture. Only the user knows duration, direction and pipeline; where
/// no pipeline runs, the rules took a new request for a change.
pub fn is_answerable_by_model(question: &Question) -> bool {
    match question.about {
        Missing::Meaning
        | Missing::KnownClass
        | Missing::Class
        | Missing::Camera
        | Missing::Place
        | Missing::Line => true,
        Missing::Pipeline => question.choices.is_empty(),
        Missing::Duration | Missing::Picture => false,
    }
}

/// Whether the rules read only a part of the request, or ask what a language model may find out.
/// Then a configured model is asked first; the rules' reply is the fallback.
pub fn is_partial(reply: &Reply) -> bool {
    match reply {
        Reply::Unknown(_) => true,
        Reply::Ask(question) => is_answerable_by_model(question),
        Reply::Proposal(_)
        | Reply::Look(_)
        | Reply::ChangedProposal(_)
        | Reply::Invalid(..)
        | Reply::Apply(_)
        | Reply::Remember(..)
        | Reply::ProbeCameras(_)
        | Reply::Answer { .. }
        | Reply::Actions(..)
        | Reply::TooLong(_)
        | Reply::Dropped
        | Reply::NothingPending
        | Reply::Empty => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_plain::answer::{Look, Looked};

    use super::*;
    use crate::blueprint::{BlueprintName, BlueprintStore};

    fn store_with(
        files: &[(&str, &str)],
    ) -> (tempfile::TempDir, BlueprintStore, Vec<BlueprintEntry>) {
        let dir = tempfile::tempdir().unwrap();
        let store = BlueprintStore::new(dir.path());
        for (name, text) in files {
            store
                .create(&BlueprintName::new(name).unwrap(), text)
                .unwrap();
        }
        let all = store.list().unwrap().0;
        (dir, store, all)
    }

    const DOCK: &str = "+++\njob = \"question\"\nwhen = \"About the dock.\"\n+++\n";

    #[test]
    fn model_chooses_among_blueprints_for_users() {
        let (_dir, _shelf, all) = store_with(&[("dock", DOCK)]);
        let choices = choices(&all);
        let names: Vec<&str> = choices.iter().map(|c| c.name.as_str()).collect();
        let wanted =
            "coordinator dock identifier ingestor notes organiser question retriever set-up";
        assert_eq!(names.join(" "), wanted);
        for (name, blueprint, by) in [
            ("dock", "dock", ChosenBy::Model),
            ("notes", "notes", ChosenBy::Model),
            ("coordinator", "coordinator", ChosenBy::Model),
            ("", "set-up", ChosenBy::Nobody),
            ("triage", "set-up", ChosenBy::Nobody),
            ("../../etc", "set-up", ChosenBy::Nobody),
        ] {
            let routed = route_by_model(name, &all).unwrap();
            assert_eq!(
                (routed.blueprint.name.as_str(), routed.by),
                (blueprint, by),
                "{name}"
            );
        }
    }

    #[test]
    fn damaged_blueprint_gets_its_requests_and_refuses_them() {
        let (_dir, store, _) = store_with(&[]);
        std::fs::create_dir_all(store.folder()).unwrap();
        std::fs::write(store.folder().join("question.md"), "broken").unwrap();
        // A provider without a model.
        for (name, job) in [("dock", "question"), ("doubt", "triage")] {
            let text = format!(
                "+++\njob = \"{job}\"\nwhen = \"About the dock.\"\nprovider = \"local\"\n+++\n"
            );
            std::fs::write(store.folder().join(format!("{name}.md")), text).unwrap();
        }
        let all = store.list().unwrap().0;
        let why = route_by_model("dock", &all).unwrap_err();
        assert!(why.contains("the blueprint dock can't be used"), "{why}");
        assert!(!choices(&all).iter().any(|choice| choice.name == "doubt"));
        assert!(choices(&all).iter().any(|choice| choice.name == "question"));
        let why = route_by_model("question", &all).unwrap_err();
        assert!(why.contains("may name another provider"), "{why}");
        assert!(route_by_model("notes", &all).is_ok());
    }

    #[test]
    fn user_gets_the_named_blueprint_or_the_reason() {
        let (_dir, store, _) = store_with(&[("dock", DOCK)]);
        let routed = route_by_user(store.get("dock").unwrap()).unwrap();
        assert_eq!(
            (routed.blueprint.name.as_str(), routed.by),
            ("dock", ChosenBy::Person)
        );
        let triage = route_by_user(store.get("triage").unwrap()).unwrap_err();
        assert!(triage.to_string().contains("takes no requests"), "{triage}");
        std::fs::write(store.folder().join("question.md"), "broken").unwrap();
        let damaged = route_by_user(store.get("question").unwrap()).unwrap_err();
        assert!(damaged.to_string().contains("front matter"), "{damaged}");
    }

    #[test]
    fn rewording_counts_only_if_it_does_the_job() {
        let look = Reply::Look(Looked {
            look: Look::Cameras,
            text: String::new(),
        });
        assert!(
            accepts_rewording(Job::SetUp, &[], &look)
                && accepts_rewording(Job::Question, &[], &look)
        );
        assert!(
            !accepts_rewording(Job::Notes, &[], &look),
            "a request for note keeping is kept"
        );
        assert!(!accepts_rewording(
            Job::Question,
            &["blue".to_owned()],
            &look
        ));
        let silence = Reply::Empty;
        assert!(!accepts_rewording(Job::SetUp, &[], &silence));
    }
}
