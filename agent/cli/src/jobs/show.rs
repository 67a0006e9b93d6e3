//! Jobs, plans and tools as tables and text.

use serde_json::{Value, json};
use watchkeeper_assistant::wording::{cut, local_time};
use watchkeeper_jobs::plan::{CheckedPlan, Plan};
use watchkeeper_jobs::run::{Ended, JobFolder, Jobs, LogRecord, Planned, PlannedBy};
use watchkeeper_jobs::{Toolbox, counted};

use super::super::exit::{Exit, Failure};
use super::super::output::Output;

/// Longest origin in the table of jobs, in characters.
const MAX_ORIGIN: usize = 60;

/// Formats a plan as it is written in files.
pub(super) fn yaml(plan: &Plan) -> Result<String, Failure> {
    let failed = |error| Failure::new(Exit::Failed, format!("the plan can't be printed: {error}"));
    serde_saphyr::to_string(plan).map_err(failed)
}

/// What is known of a job: running, how it ended, or interrupted.
fn state(job: &JobFolder) -> Result<&'static str, Failure> {
    if job.is_running()? {
        return Ok("running");
    }
    let log = job.log()?;
    Ok(match log.last().map(|line| &line.record) {
        Some(LogRecord::Ended { how: Ended::Done }) => "done",
        Some(LogRecord::Ended { how: Ended::Failed }) => "failed",
        Some(LogRecord::Ended {
            how: Ended::Cancelled,
        }) => "cancelled",
        _ => "interrupted",
    })
}

/// Number of done steps, and of all.
fn steps(job: &JobFolder) -> Result<(usize, usize), Failure> {
    let log = job.log()?;
    let done = log
        .iter()
        .filter(|line| matches!(line.record, LogRecord::Finished { .. }));
    let all = job.info().plan["steps"].as_array().map_or(0, Vec::len);
    Ok((done.count(), all))
}

pub(super) fn list(jobs: &Jobs, out: &Output) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for id in jobs.ids()? {
        let job = match jobs.open(&id) {
            Ok(job) => job,
            Err(error) => {
                out.note(error.to_string());
                continue;
            }
        };
        let (state, (done, all)) = (state(&job)?, steps(&job)?);
        let info = job.info();
        out.object(
            &json!({"job": id, "created_ms": info.created_ms, "state": state,
            "done": done, "steps": all, "origin": info.origin, "output": info.output}),
        );
        let origin = cut(info.origin.clone(), MAX_ORIGIN);
        let time = local_time(info.created_ms);
        rows.push(vec![
            id,
            time,
            state.to_owned(),
            format!("{done}/{all}"),
            origin,
        ]);
    }
    out.table(&["job", "created", "state", "steps", "from"], rows);
    Ok(())
}

pub(super) fn job(
    job: &JobFolder,
    step: Option<&str>,
    key: Option<&str>,
    out: &Output,
) -> Result<(), Failure> {
    let Some(step) = step else {
        return whole(job, out);
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
    let mut values = job.result(step)?;
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

fn whole(job: &JobFolder, out: &Output) -> Result<(), Failure> {
    let info = job.info();
    let (state, (done, all)) = (state(job)?, steps(job)?);
    let log = job.log()?;
    out.object(
        &json!({"job": info.id, "created_ms": info.created_ms, "state": state,
        "done": done, "steps": all, "origin": info.origin, "output": info.output,
        "planned": info.planned, "log": log}),
    );
    if out.is_json() {
        return Ok(());
    }
    out.line(format!(
        "job {}: {state}, {done} of {all} steps done",
        info.id
    ));
    out.line(format!("  from    {}", info.origin));
    out.line(format!("  output  {}", info.output.display()));
    if let Some(planned) = &info.planned {
        out.line(format!("  planned {}", planned_by(planned)));
    }
    let rows = log.iter().filter_map(|line| {
        let (step, what) = match &line.record {
            LogRecord::Opened | LogRecord::Claimed { .. } => return None,
            LogRecord::Started { step, tool, .. } => (step.as_str(), format!("started, {tool}")),
            LogRecord::Finished { step, result } => (step.as_str(), result.summary.clone()),
            LogRecord::Failed { step, why, .. } => (step.as_str(), format!("failed: {why}")),
            LogRecord::Skipped { step, because } => {
                (step.as_str(), format!("skipped: {because} is not done"))
            }
            LogRecord::Ended { .. } => return None,
        };
        Some(vec![local_time(line.at_ms), step.to_owned(), what])
    });
    out.table(&["time", "step", "what"], rows);
    Ok(())
}

/// How a plan was made, in one line.
fn planned_by(planned: &Planned) -> String {
    let by = match planned.by {
        PlannedBy::Rules => "by rules",
        PlannedBy::Template => "by a template",
        PlannedBy::Cache => "by a language model, for an earlier request",
        PlannedBy::Model => "by a language model",
        PlannedBy::Edited => "by rules that changed values",
        PlannedBy::RulesInPart => "by rules, in part",
    };
    let revised = match planned.revisions {
        0 => String::new(),
        number => format!(", revised {}", counted(number as usize, "time")),
    };
    let after = planned.predecessor.as_ref();
    let after = after.map_or_else(String::new, |job| format!(", refines job {job}"));
    format!("{by}{revised}{after}")
}

pub(super) fn is_done(job: &JobFolder) -> Result<bool, Failure> {
    Ok(state(job)? == "done")
}

/// Prints what a job has done that has nothing left to do.
pub(super) fn done_before(job: &JobFolder, out: &Output) -> Result<(), Failure> {
    out.line(format!(
        "job {} is done already; {}",
        job.info().id,
        job.info().output.display()
    ));
    result(job, Ended::Done, out)
}

/// Prints where the files of a job are.
pub(super) fn result(job: &JobFolder, ended: Ended, out: &Output) -> Result<(), Failure> {
    let log = job.log()?;
    let files: Vec<String> = (log.iter())
        .filter_map(|line| match &line.record {
            LogRecord::Finished { result, .. } => Some(&result.files),
            _ => None,
        })
        .flatten()
        .map(|name| job.info().output.join(name).display().to_string())
        .collect();
    let state = match ended {
        Ended::Done => "done",
        Ended::Failed => "failed",
        Ended::Cancelled => "cancelled",
    };
    out.object(&json!({"type": "ended", "job": job.info().id, "how": state, "files": files}));
    if ended == Ended::Done && files.is_empty() {
        let id = &job.info().id;
        out.line(format!(
            "no files; `watchkeeper job show {id} STEP` prints a result"
        ));
    }
    Ok(())
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
