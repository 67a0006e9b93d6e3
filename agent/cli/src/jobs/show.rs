//! Jobs, plans and tools as tables and text.
//!
//! - Jobs of the user and of the agent are shown alike, from one status.
//! - The plan of a language model is shown with all its values before it is run.
//! - Not here: what runs or changes a job (`commands`, `of_agent`).

use std::path::Path;

use serde_json::{Map, Value, json};
use watchkeeper_agent::jobs::JobStatus;
use watchkeeper_assistant::jobs::PlannedRequest;
use watchkeeper_assistant::wording::format_local;
use watchkeeper_jobs::plan::{CheckedPlan, Plan};
use watchkeeper_jobs::run::{
    Ended, JobFolder, JobInfo, Jobs, LogLine, LogRecord, Planned, PlannedBy,
};
use watchkeeper_jobs::{Toolbox, counted};

use super::super::args::JobOwner;
use super::super::exit::Failure;
use super::super::output::{Output, fitted};

/// Longest origin in the table of jobs, in characters.
const MAX_ORIGIN: usize = 60;

/// Formats a plan as it is written in files.
pub(super) fn yaml(plan: &Plan) -> Result<String, Failure> {
    let failed = |error| Failure::failed(format!("the plan can't be printed: {error}"));
    serde_saphyr::to_string(plan).map_err(failed)
}

/// Prints a plan before it is run; one of a language model with all its values.
pub(super) fn plan(made: &PlannedRequest, out: &Output) {
    let PlannedRequest {
        plan,
        planned,
        by_model,
    } = made;
    out.object(&json!({"type": "plan", "plan": plan, "by": planned.by,
        "by_model": by_model}));
    let steps = plan.steps.iter();
    let tools: Vec<&str> = steps.clone().map(|step| step.call.tool.as_str()).collect();
    out.line(format!(
        "Plan, {}: {}",
        planned_by(planned),
        tools.join(", ")
    ));
    if matches!(planned.by, PlannedBy::Model | PlannedBy::Cache) {
        let inputs = plan.inputs.iter();
        inputs.for_each(|(key, value)| out.line(format!("  {key}: {value}")));
        steps.for_each(|step| out.line(format!("  {}: {}", step.name, step.call)));
    }
}

/// Local date and time with the offset of the zone.
fn zoned_time(unix_ms: i64) -> String {
    format_local(unix_ms, "%F %T %:z")
}

pub(super) fn list(jobs: &Jobs, out: &Output) -> Result<(), Failure> {
    table(&statuses(jobs, out)?, out);
    Ok(())
}

/// All jobs, oldest first. One that the disk does not give is noted.
fn statuses(jobs: &Jobs, out: &Output) -> Result<Vec<JobStatus>, Failure> {
    let mut shown = Vec::new();
    for id in jobs.ids()? {
        match jobs.open_exact(&id).and_then(|job| JobStatus::read(&job)) {
            Ok(job) => shown.push(job),
            Err(error) => match jobs.described_ms(&id).filter(|_| error.is_damage()) {
                Some(created_ms) => shown.push(JobStatus::damaged(id, created_ms, &error)),
                None => out.note(error.to_string()),
            },
        }
    }
    shown.sort_by_key(|job| job.created_ms);
    Ok(shown)
}

pub(super) fn table(jobs: &[JobStatus], out: &Output) {
    jobs.iter().for_each(|job| out.object(job));
    let rows = jobs.iter().map(|job| {
        let origin = match &job.schedule {
            Some(schedule) => format!("schedule {schedule}: {}", job.origin),
            None => job.origin.clone(),
        };
        vec![
            job.job.clone(),
            zoned_time(job.created_ms),
            job.state.name().to_owned(),
            format!("{}/{}", job.done, job.steps),
            fitted(origin, MAX_ORIGIN),
        ]
    });
    out.table(&["job", "created", "state", "steps", "from"], rows);
}

pub(super) fn job(
    job: &JobFolder,
    step: Option<&str>,
    key: Option<&str>,
    out: &Output,
) -> Result<(), Failure> {
    let Some(step) = step else {
        whole(&JobStatus::read(job)?, &job.log()?, out);
        return Ok(());
    };
    let steps = job.info().plan["steps"].as_array();
    let names = || {
        steps
            .into_iter()
            .flatten()
            .filter_map(|step| step["name"].as_str())
    };
    if !names().any(|name| name == step) {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(Failure::input(format!(
            "no step {step}; the job has {known}"
        )));
    }
    values(step, key, job.result(step)?, out)
}

/// Prints one value of a result, or all.
pub(super) fn values(
    step: &str,
    key: Option<&str>,
    mut values: Map<String, Value>,
    out: &Output,
) -> Result<(), Failure> {
    let value = match key {
        Some(key) => values.remove(key).ok_or_else(|| {
            let known = values.keys().cloned().collect::<Vec<_>>().join(", ");
            Failure::input(format!("step {step} has no result {key}; it has {known}"))
        })?,
        None => Value::Object(values),
    };
    out.page(&serde_json::to_string_pretty(&value).unwrap_or_default());
    Ok(())
}

/// Prints a job with its log.
pub(super) fn whole(job: &JobStatus, log: &[LogLine], out: &Output) {
    if out.is_json() {
        let mut object = json!(job);
        object["log"] = json!(log);
        return out.object(&object);
    }
    out.line(format!(
        "job {}: {}, {} of {} steps done",
        job.job,
        job.state.name(),
        job.done,
        job.steps
    ));
    out.line(format!("  from    {}", job.origin));
    out.line(format!("  output  {}", job.output));
    if let Some(planned) = &job.planned {
        out.line(format!("  planned {}", planned_by(planned)));
    }
    let rows = log.iter().enumerate().filter_map(|(nth, line)| {
        let (step, what) = match &line.record {
            LogRecord::Opened => ("", resumption(log.get(..nth)?)?.to_owned()),
            LogRecord::Started { step, tool, .. } => (step.as_str(), format!("started, {tool}")),
            LogRecord::Finished { step, result } => (step.as_str(), result.summary.clone()),
            LogRecord::Failed { step, why, .. } => (step.as_str(), format!("failed: {why}")),
            LogRecord::Skipped { step, because } => {
                (step.as_str(), format!("skipped: {because} is not done"))
            }
            LogRecord::Claimed { .. } | LogRecord::Ended { .. } => return None,
        };
        Some(vec![zoned_time(line.at_ms), step.to_owned(), what])
    });
    out.table(&["time", "step", "what"], rows);
}

/// Why a job was opened again, by the records before; `None` at its first run.
fn resumption(before: &[LogLine]) -> Option<&'static str> {
    match before.last().map(|line| &line.record)? {
        // It was queued again, and a process began to run it.
        LogRecord::Opened => None,
        LogRecord::Ended { .. } => Some("resumed"),
        _ => Some("resumed: the process that ran it had ended in the middle"),
    }
}

/// How a plan was made, in one line.
fn planned_by(planned: &Planned) -> String {
    let by = match planned.by {
        PlannedBy::Rules => "by rules",
        PlannedBy::Template => "by a template",
        PlannedBy::Cache => "by a language model, for an earlier request",
        PlannedBy::Model => "by a language model",
        PlannedBy::Edited => "by rules that changed values",
    };
    let revised = match planned.revisions {
        0 => String::new(),
        number => format!(", revised {}", counted(number as usize, "time")),
    };
    let after = planned.predecessor.as_ref();
    let after = after.map_or_else(String::new, |job| format!(", refines job {job}"));
    format!("{by}{revised}{after}")
}

/// Prints what a job has done that has nothing left to do.
pub(super) fn done_before(job: &JobFolder, out: &Output) -> Result<(), Failure> {
    let JobInfo { id, output, .. } = job.info();
    out.line(format!("job {id} is done already; {}", output.display()));
    let done = Some(Ended::Done);
    result(id, output, &job.log()?, done, JobOwner::USER, out);
    Ok(())
}

/// Prints where the files of the job `id` of `owner` are; `ended` is absent if its run was
/// interrupted.
pub(super) fn result(
    id: &str,
    output: &Path,
    log: &[LogLine],
    ended: Option<Ended>,
    owner: JobOwner,
    out: &Output,
) {
    let mut finished = log.iter().filter_map(|line| match &line.record {
        LogRecord::Finished { step, result } => Some((step, result)),
        _ => None,
    });
    let files = finished.clone().flat_map(|(_, result)| &result.files);
    let files: Vec<String> = files
        .map(|name| output.join(name).display().to_string())
        .collect();
    out.object(&json!({"type": "ended", "job": id, "how": ended, "files": files}));
    if let Some((step, _)) = finished.next_back()
        && ended == Some(Ended::Done)
        && files.is_empty()
    {
        let command = owner.command(&format!("show {id} {step}"));
        out.line(format!("no files; `{command}` prints a result"));
    }
}

/// Prints what can be done with a job that was planned from words and is done.
pub(super) fn next_steps(id: &str, out: &Output) {
    out.line(format!(
        "next: `watchkeeper job refine {id} WORDS` changes it, `watchkeeper job keep {id} --as NAME` \
         keeps its plan"
    ));
}

/// The failure of a job of `owner` that is not done, with the command that resumes it.
pub(super) fn not_done(id: &str, ended: Option<Ended>, owner: JobOwner) -> Failure {
    let command = owner.command(&format!("resume {id}"));
    Failure::failed(match ended {
        Some(Ended::Cancelled) => format!("job {id} was cancelled; `{command}` continues it"),
        _ => format!("job {id} failed; `{command}` tries the rest again"),
    })
}

pub(super) fn explain(plan: &CheckedPlan, tools: &Toolbox, out: &Output) {
    let steps = &plan.plan().steps;
    for (place, step) in steps.iter().enumerate() {
        let needs = plan.waits_for(place).filter_map(|needed| steps.get(needed));
        let needs: Vec<&str> = needs.map(|needed| needed.name.as_str()).collect();
        let about = tools.spec(&step.call.tool).map_or("", |spec| spec.about);
        out.object(
            &json!({"step": step.name, "tool": step.call.tool, "params": step.call.params,
            "after": needs, "about": about, "reason": step.reason}),
        );
        let after = match needs.is_empty() {
            true => String::new(),
            false => format!(" after {}", needs.join(", ")),
        };
        out.line(format!(
            "{}. {}{after}: {}",
            place + 1,
            step.name,
            step.call.tool
        ));
        out.line(format!("   {about}"));
        if !step.reason.is_empty() {
            out.line(format!("   why: {}", step.reason));
        }
        for (name, value) in &step.call.params {
            out.line(format!("   {name} = {value}"));
        }
        for other in &step.alternatives {
            out.line(format!("   else: {}", other.tool));
        }
    }
}

pub(super) fn tools(tools: &Toolbox, name: Option<&str>, out: &Output) -> Result<(), Failure> {
    let Some(name) = name else {
        let specs = || tools.specs();
        specs().for_each(|spec| out.object(&json!({"tool": spec.name, "about": spec.about})));
        let rows = specs().map(|spec| vec![spec.name.to_owned(), spec.about.to_owned()]);
        out.table(&["tool", "what it does"], rows);
        return Ok(());
    };
    let spec = tools.spec(name).ok_or_else(|| {
        let known: Vec<&str> = tools.specs().map(|spec| spec.name).collect();
        Failure::input(format!("no tool {name}; there are {}", known.join(", ")))
    })?;
    let params = spec.params.iter().map(|param| {
        json!({"name": param.name, "is": param.kind.to_string(), "required": param.required,
            "about": param.about})
    });
    let outputs = spec
        .outputs
        .iter()
        .map(|output| json!({"key": output.key, "about": output.about}));
    out.object(&json!({"tool": spec.name, "about": spec.about,
        "params": params.collect::<Vec<_>>(), "outputs": outputs.collect::<Vec<_>>()}));
    out.line(spec.about);
    let rows = spec.params.iter().map(|param| {
        let needed = if param.required { "yes" } else { "" };
        let (name, kind) = (param.name.to_owned(), param.kind.to_string());
        vec![name, needed.to_owned(), kind, param.about.to_owned()]
    });
    out.table(&["parameter", "required", "is", "about"], rows);
    let rows = spec
        .outputs
        .iter()
        .map(|output| vec![format!("${{STEP.{}}}", output.key), output.about.to_owned()]);
    out.table(&["result", "about"], rows);
    Ok(())
}

#[cfg(test)]
mod tests {
    use watchkeeper_jobs::run::{INFO, JobState};

    use super::*;

    #[test]
    fn run_after_a_crash_is_told_from_one_that_was_asked_for() {
        let line = |record| LogLine { at_ms: 0, record };
        let started = LogRecord::Started {
            step: "list".to_owned(),
            tool: "list_pictures".to_owned(),
            params: Map::new(),
            attempt: 1,
        };
        let how = Ended::Failed;
        let crashed = [line(LogRecord::Opened), line(started)];
        assert_eq!(resumption(&[]), None);
        assert_eq!(resumption(&crashed[..1]), None);
        assert!(resumption(&crashed).is_some_and(|what| what.contains("in the middle")));
        let failed = [line(LogRecord::Opened), line(LogRecord::Ended { how })];
        assert_eq!(resumption(&failed), Some("resumed"));
    }

    #[test]
    fn damaged_job_of_the_user_is_listed() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let job = folder.path().join("20261128-141502-kxq");
        std::fs::create_dir(&job)?;
        std::fs::write(job.join(INFO), "{")?;
        let jobs = Jobs::new(folder.path().to_owned());
        let listed = statuses(&jobs, &Output::new(true)).map_err(|failure| failure.to_string())?;
        let [listed] = &listed[..] else {
            return Err(format!("{listed:?}").into());
        };
        assert_eq!(listed.state, JobState::Damaged);
        assert_eq!(listed.job, "20261128-141502-kxq");
        Ok(())
    }
}
