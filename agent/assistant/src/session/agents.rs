//! The blueprint of a session: `/agent`, `/switch`, `/list`, `/show` and `/create`.
//!
//! Invariant: a blueprint that was chosen only replaces the choice by the small model. The rules
//! come first, and no blueprint changes anything without a yes.

use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::blueprint::store::BlueprintOrigin;
use crate::blueprint::{Blueprint, BlueprintName, BlueprintStore, Job, built_in};
use crate::failure::Error;
use crate::permissions::Entrypoint;
use crate::wording::unknown;

impl Session {
    /// Chooses the blueprint for what the rules do not understand; `None`: the small model chooses.
    ///
    /// # Errors
    /// If there is no such blueprint, or it takes no requests.
    pub fn switch_blueprint(&mut self, name: Option<&str>) -> Result<(), Error> {
        if let Some(name) = name {
            self.route_by_name(name)?;
        }
        self.blueprint = name.map(str::to_owned);
        Ok(())
    }

    pub(super) fn report_agent(&self) -> Result<(), Error> {
        let text = match &self.blueprint {
            None => "The rules answer first; for what they do not understand, a small model \
                     chooses a blueprint. /list shows them, /switch NAME chooses one."
                .to_owned(),
            Some(name) => {
                let blueprint = self.route_by_name(name)?.blueprint;
                format!("The rules answer first, then {}", describe(&blueprint))
            }
        };
        self.deps.out.report(ProgressEvent::Text(&text));
        Ok(())
    }

    pub(super) async fn report_blueprints(&self) -> Result<(), Error> {
        let mut lines = Vec::new();
        for listed in self.list_blueprints().await? {
            let current = self.blueprint.as_deref() == Some(listed.name.as_str());
            let mark = if current { "*" } else { " " };
            let own = match listed.origin {
                BlueprintOrigin::BuiltIn | BlueprintOrigin::BuiltInForDamaged => "",
                BlueprintOrigin::File | BlueprintOrigin::FileInPlace | BlueprintOrigin::Damaged => {
                    " (file)"
                }
            };
            let what = listed.serves.as_ref().map_or_else(
                || "invalid".to_owned(),
                |blueprint| format!("{}: {}", blueprint.job.name(), blueprint.when),
            );
            lines.push(format!("{mark} {}{own}  {what}", listed.name));
        }
        self.deps.out.report(ProgressEvent::Text(&lines.join("\n")));
        Ok(())
    }

    pub(super) async fn show_blueprint(&self, name: &str) -> Result<(), Error> {
        let listed = self.list_blueprints().await?;
        let found = listed.iter().find(|listed| listed.name.as_str() == name);
        let found = found.ok_or_else(|| {
            let names: Vec<&str> = listed.iter().map(|listed| listed.name.as_str()).collect();
            Error::input(unknown("blueprint", name, &names))
        })?;
        self.deps.out.report(ProgressEvent::Text(&found.text));
        Ok(())
    }

    /// Creates a blueprint file, a copy of the built-in blueprint of a job.
    pub(super) fn create_blueprint(&self, name: &str, job: Option<&str>) -> Result<(), Error> {
        if self.deps.entrypoint != Entrypoint::Chat {
            return Err(Error::input(
                "/create works at a terminal only; elsewhere the operator writes blueprints: \
                 watchkeeper blueprints --agent create NAME",
            ));
        }
        let job = match job {
            None => Job::Question,
            Some(job) => Job::from_name(job).ok_or_else(|| {
                let names = Job::ALL.map(Job::name).join(", ");
                Error::input(format!("there is no job {job:?}; there are {names}"))
            })?,
        };
        let name = BlueprintName::new(name).map_err(|error| Error::input(error.to_string()))?;
        let home = self.home()?;
        let store = BlueprintStore::new(home);
        store.create(&name, built_in::text(job))?;
        let text = format!(
            "Created {name} with the job {}. Edit it: watchkeeper blueprints update {name}; use \
             it: /switch {name}",
            job.name()
        );
        self.deps.out.report(ProgressEvent::Text(&text));
        Ok(())
    }
}

fn describe(blueprint: &Blueprint) -> String {
    format!(
        "{} (job {}, model {}, at most {} calls and {}). Its tools: {}. When: {}",
        blueprint.name,
        blueprint.job.name(),
        blueprint.model_name(),
        blueprint.steps,
        blueprint.cost,
        blueprint.tools.join(", "),
        blueprint.when
    )
}
