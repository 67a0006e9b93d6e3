//! Checks a plan that a model proposes like one from a file, and against the user's own words.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use watchkeeper_jobs::plan::{CheckedPlan, Plan, Repaired, check, read_parts, repair};
use watchkeeper_jobs::{Step, Toolbox};

/// Most faults that the model reads at once; further ones are counted.
const MAX_FAULTS: usize = 40;
/// Begin of an address of another job.
const ADDRESS: &str = "job://";

/// Task of the model: a plan or a revision.
#[derive(Debug)]
pub enum PlanTask<'t> {
    /// A plan for the request.
    New,
    /// A plan like that of an earlier job, with the changes of these words. `now` is the local
    /// time from which their relative times count.
    Refine {
        plan: &'t Plan,
        words: &'t str,
        now: DateTime,
    },
    /// The rest of the plan of a job that failed.
    Revise(FailedJob<'t>),
}

/// A job that ended because steps failed.
#[derive(Debug)]
pub struct FailedJob<'t> {
    pub plan: &'t Plan,
    /// Done steps with their summaries.
    pub done: Vec<(String, String)>,
    /// Failed steps with their errors.
    pub failed: Vec<(String, String)>,
}

impl PlanTask<'_> {
    const fn earlier(&self) -> Option<&Plan> {
        match self {
            Self::New => None,
            Self::Refine { plan, .. } => Some(plan),
            Self::Revise(failed) => Some(failed.plan),
        }
    }

    /// Steps that must stay unchanged.
    fn done(&self) -> Vec<&Step> {
        let Self::Revise(failed) = self else {
            return Vec::new();
        };
        let is_done = |step: &&Step| failed.done.iter().any(|(name, _)| *name == step.name);
        failed.plan.steps.iter().filter(is_done).collect()
    }
}

/// Checks the arguments of a proposal. `request` and `more` are the user's own words.
///
/// # Errors
/// All faults, in sentences.
pub fn check_proposal(
    arguments: &str,
    request: &str,
    task: &PlanTask<'_>,
    tools: &Toolbox,
    accepts: &(dyn Fn(&CheckedPlan) -> Vec<String> + Sync),
) -> Result<Repaired, Vec<String>> {
    let texts = |faults: Vec<watchkeeper_jobs::Fault>| -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    };
    let (plan, mut faults) = read_parts(arguments);
    let Some(mut plan) = plan else {
        return Err(texts(faults));
    };
    if !faults.is_empty() {
        // The form must be right before anything is repaired, but all faults are reported at once.
        faults.extend(check(plan, tools).err().unwrap_or_default());
        return Err(bounded(texts(faults)));
    }
    request.clone_into(&mut plan.description);
    plan.rewards = None;
    let changed = |plan: &Plan, done: &Step| {
        let same = plan.steps.iter().find(|step| step.name == done.name);
        same.is_none_or(|step| step.call != done.call).then(|| {
            let name = &done.name;
            format!(
                "steps.{name}: the step is done; leave its tool and params exactly as they were"
            )
        })
    };
    // What a repair may yet correct is not a change of a done step.
    let lost = |done: &&Step| plan.steps.iter().all(|step| step.name != done.name);
    let done = task.done();
    let lost: Vec<&Step> = done.iter().copied().filter(lost).collect();
    let lost: Vec<String> = lost
        .iter()
        .filter_map(|step| changed(&plan, step))
        .collect();
    let repaired = repair(plan, tools)
        .map_err(|left| bounded(lost.into_iter().chain(texts(left.faults)).collect()))?;
    let checked = repaired.plan.plan();
    let mut faults = foreign(checked, request, task, tools);
    faults.extend(done.iter().filter_map(|step| changed(checked, step)));
    faults.extend(accepts(&repaired.plan));
    match faults.is_empty() {
        true => Ok(repaired),
        false => Err(bounded(faults)),
    }
}

fn bounded(mut faults: Vec<String>) -> Vec<String> {
    let more = faults.len().saturating_sub(MAX_FAULTS);
    faults.truncate(MAX_FAULTS);
    if more > 0 {
        faults.push(format!("{more} more faults"));
    }
    faults
}

/// Folders and other jobs that neither the user nor the earlier plan names.
fn foreign(plan: &Plan, request: &str, task: &PlanTask<'_>, tools: &Toolbox) -> Vec<String> {
    let mut named: BTreeSet<String> = words(request).collect();
    if let PlanTask::Refine { words: more, .. } = task {
        named.extend(words(more));
    }
    if let Some(earlier) = task.earlier() {
        let outside = outside(earlier, tools).into_iter();
        named.extend(outside.map(|(_, value)| trimmed(&value)));
    }
    let is_named = |value: &str| named.contains(&trimmed(value));
    let outside = outside(plan, tools).into_iter();
    outside
        .filter(|(_, value)| !is_named(value))
        .map(|(at, value)| {
            let shown: String = value.chars().take(80).collect();
            format!("{at}: {shown:?} is not named by the user; take what the user names")
        })
        .collect()
}

/// The words of a text, with and without the full stop at their end, and the parts between
/// quotation marks.
fn words(text: &str) -> impl Iterator<Item = String> {
    let quoted = text.split('"').skip(1).step_by(2);
    let single = text.split_whitespace().flat_map(|word| {
        let word = word.trim_matches(|c: char| "\"',;:!?()".contains(c));
        let word = word.strip_suffix("'s").unwrap_or(word);
        [Some(word), word.strip_suffix('.')].into_iter().flatten()
    });
    quoted.chain(single).map(trimmed)
}

fn trimmed(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => path.to_owned(),
        path => path.to_owned(),
    }
}

/// The addresses and folders of a plan with their places.
fn outside(plan: &Plan, tools: &Toolbox) -> Vec<(String, String)> {
    let params = plan.steps.iter().flat_map(|step| {
        let params = step.calls().flat_map(|call| &call.params);
        params.filter_map(|(name, value)| {
            let at = format!("steps.{}.params.{name}", step.name);
            Some((at, value.as_str()?.to_owned()))
        })
    });
    let addresses = params.filter(|(_, value)| value.starts_with(ADDRESS));
    let folders = plan.folders(tools).map(|folder| {
        let at = match folder.input {
            Some(key) => format!("inputs.{key}"),
            None => format!("steps.{}.params.{}", folder.step.name, folder.param),
        };
        (at, folder.text.to_owned())
    });
    let folders = folders.filter(|(_, folder)| !folder.starts_with(ADDRESS));
    addresses.chain(folders).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::{Value, json};
    use watchkeeper_jobs::tools::picture_tools;

    use super::*;

    fn proposal(folder: &str) -> Value {
        json!({
            "name": "x",
            "inputs": {"folder": folder},
            "steps": [
                {"name": "list", "tool": "list_pictures", "params": {"folder": "${inputs.folder}"}},
                {"name": "album", "tool": "album", "params": {"from": "${list.pictures}",
                    "name": "all"}},
            ],
        })
    }

    fn faults(proposal: &Value, request: &str, task: &PlanTask<'_>) -> Vec<String> {
        let accepts = |_: &CheckedPlan| Vec::new();
        let text = proposal.to_string();
        let checked = check_proposal(&text, request, task, &picture_tools(), &accepts);
        checked.err().unwrap_or_default()
    }

    #[test]
    fn only_folders_that_the_user_names_are_read() {
        for (folder, request) in [
            ("./a", "tidy ./a, please"),
            ("./a/", "tidy ./a."),
            ("My Holiday", "tidy \"My Holiday\""),
            ("/srv/a", "what is in /srv/a?"),
        ] {
            let none: [String; 0] = [];
            assert_eq!(faults(&proposal(folder), request, &PlanTask::New), none);
        }
        for folder in ["/", ".", "..", "/home", "/srv/a/..", "/srv", "~"] {
            let found = faults(&proposal(folder), "tidy /srv/a up", &PlanTask::New);
            assert!(found[0].contains("is not named by the user"), "{found:?}");
        }
    }

    #[test]
    fn folder_made_of_several_inputs_is_refused() {
        for written in ["${inputs.a}${inputs.b}", "${inputs.a}c", "/${inputs.b}"] {
            let mut plan = proposal("/srv/a");
            plan["inputs"]["a"] = json!("/et");
            plan["inputs"]["b"] = json!("c");
            plan["steps"][0]["params"]["folder"] = json!(written);
            let found = faults(&plan, "tidy /srv/a up", &PlanTask::New);
            assert!(
                found[0].contains("the path of a folder"),
                "{written}: {found:?}"
            );
        }
    }

    #[test]
    fn other_jobs_are_read_only_if_the_user_names_them() {
        let mut plan = proposal("/srv/a");
        plan["steps"][1]["params"]["from"] = json!("job://20260101-abc/list/pictures");
        let found = faults(&plan, "tidy /srv/a", &PlanTask::New);
        assert!(found[0].starts_with("steps.album.params.from"), "{found:?}");
        let request = "an album of job://20260101-abc/list/pictures and /srv/a";
        assert_eq!(faults(&plan, request, &PlanTask::New).len(), 0);
    }

    #[test]
    fn done_steps_stay_and_the_rest_may_change() {
        let old = watchkeeper_jobs::plan::read(&proposal("/srv/a")).unwrap();
        let task = PlanTask::Revise(FailedJob {
            plan: &old,
            done: vec![("list".to_owned(), "2 pictures".to_owned())],
            failed: vec![("album".to_owned(), "the disk is full".to_owned())],
        });
        let mut new = proposal("/srv/a");
        new["steps"][1]["params"]["name"] = json!("other");
        assert_eq!(faults(&new, "tidy", &task).len(), 0);
        new["steps"][0]["params"]["subfolders"] = json!(false);
        let found = faults(&new, "tidy", &task);
        assert!(found[0].contains("the step is done"), "{found:?}");
    }

    #[test]
    fn faults_of_form_and_meaning_are_told_together_and_are_bounded() {
        let steps: Vec<Value> = (0..100)
            .map(|n| json!({"name": format!("s{n}"), "tool": "fly", "x": 1}))
            .collect();
        let found = faults(
            &json!({"name": "x", "steps": steps}),
            "tidy",
            &PlanTask::New,
        );
        assert_eq!(found.len(), MAX_FAULTS + 1);
        assert!(found[MAX_FAULTS].ends_with("more faults"), "{found:?}");
        let found = faults(&json!({"steps": []}), "tidy", &PlanTask::New);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
