//! `watchkeeper job keep` and `job templates`: plans for later requests.

use serde_json::json;
use watchkeeper_jobs::plan::read;
use watchkeeper_jobs::planner::{PlanTemplate, template_name};
use watchkeeper_jobs::run::JobState;
use watchkeeper_jobs::template_store::TemplateStoreError;

use super::super::args::TemplateAction;
use super::super::exit::Failure;
use super::super::output::{Output, fitted};
use super::commands::{JobCommands, invalid};
use super::show;

/// Longest request in the table, in characters.
const MAX_REQUEST: usize = 70;

impl JobCommands {
    pub(super) fn keep(&self, id: &str, name: Option<String>, out: &Output) -> Result<(), Failure> {
        let job = self.jobs.open(id)?;
        let id = &job.info().id;
        if job.summary()?.state != JobState::Done {
            let sentence =
                format!("job {id} is not done; `watchkeeper job resume {id}` continues it");
            return Err(Failure::input(sentence));
        }
        let request = job.info().from.planned.as_ref().map(|planned| {
            let words = std::iter::once(&planned.request).chain(&planned.refinements);
            words.cloned().collect::<Vec<_>>().join(", ")
        });
        let name = match (name, &request) {
            (Some(name), _) => name,
            (None, Some(request)) => template_name(request),
            (None, None) => {
                let sentence = "the job ran a file, so it has no words; name it with --as NAME";
                return Err(Failure::input(sentence));
            }
        };
        let plan = read(&job.info().plan).map_err(|faults| invalid(id, &faults))?;
        let request = request.unwrap_or_else(|| name.clone());
        let template = PlanTemplate::new(&request, &plan, &self.tools);
        let template = template.map_err(|error| Failure::input(error.to_string()))?;
        self.templates.keep(&name, template)?;
        let done = json!({"template": name, "request": request});
        out.both(&done, || {
            format!(
                "Kept template {name}, made of: {request}. It is also called by its name: \
                 watchkeeper job plan {name}"
            )
        });
        Ok(())
    }

    pub(super) fn templates(
        &self,
        action: Option<TemplateAction>,
        out: &Output,
    ) -> Result<(), Failure> {
        match action.unwrap_or(TemplateAction::List) {
            TemplateAction::List => {
                let all = self.templates.templates()?;
                if all.is_empty() {
                    out.note("no template is kept yet; `watchkeeper job keep ID` keeps one");
                    return Ok(());
                }
                for kept in &all {
                    let request = kept.template.request();
                    out.object(&json!({"template": kept.name, "request": request}));
                }
                let rows = all.into_iter().map(|kept| {
                    let request = kept.template.request().to_owned();
                    vec![kept.name, fitted(request, MAX_REQUEST)]
                });
                out.table(&["template", "made of"], rows);
            }
            TemplateAction::Show { name } => {
                let all = self.templates.templates()?;
                let known = || all.iter().map(|kept| kept.name.clone()).collect();
                let kept = all.iter().find(|kept| kept.name == name);
                let kept = kept.ok_or_else(|| TemplateStoreError::Unknown {
                    name: name.clone(),
                    known: known(),
                })?;
                let plan = read(kept.template.plan()).map_err(|faults| invalid(&name, &faults))?;
                out.object(&plan);
                if !out.is_json() {
                    out.page(show::yaml(&plan)?.trim_end());
                }
            }
            TemplateAction::Forget { name } => {
                self.templates.forget(&name)?;
                out.both(&json!({"forgotten": name}), || {
                    format!("Forgot template {name}")
                });
            }
        }
        Ok(())
    }
}
