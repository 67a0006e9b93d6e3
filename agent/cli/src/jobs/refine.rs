//! `watchkeeper job refine`: a job again, with changes in plain English.
//!
//! - A request that the rules planned is planned again with the changes. In another plan, values
//!   are changed where one step is meant. The language model handles all other changes.
//! - The earlier job stays unchanged; the new one names it as its predecessor.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::json;
use watchkeeper_assistant::jobs::{PlanTask, PlannedRequest};
use watchkeeper_jobs::plan::{Plan, difference, read};
use watchkeeper_jobs::planner::{Refinement, absolute_folders, plan_refined};
use watchkeeper_jobs::run::{JobFolder, Planned, PlannedBy};

use super::super::args::JobRefineArgs;
use super::super::exit::Failure;
use super::super::output::Output;
use super::commands::{JobCommands, invalid, no_current_folder};

/// Fewest letters of an ID before the words: "2 best" is a request.
const MIN_ID: usize = 8;

impl JobCommands {
    pub(super) fn refine(&self, args: JobRefineArgs, out: &Output) -> Result<(), Failure> {
        let (job, words) = self.job_and_words(args.words)?;
        let old = read(&job.info().plan).map_err(|faults| invalid(&job.info().id, &faults))?;
        let refined = self.refined(&job, &old, &words, out)?;
        let plan = self.anchored(refined.plan)?;
        let changes = difference(&old, &plan);
        if changes.is_empty() {
            let sentence = format!("nothing changes: job {} has done so already", job.info().id);
            return Err(Failure::input(sentence));
        }
        out.object(&json!({"type": "refined", "predecessor": job.info().id, "changes": changes}));
        if !out.is_json() {
            out.line(format!("job {} with these changes:", job.info().id));
            changes
                .iter()
                .for_each(|change| out.line_that_fits(format!("  {change}")));
        }
        if args.dry_run {
            return Ok(());
        }
        let origin = format!("{}; {words}", job.info().origin);
        self.create_and_run(plan, &origin, Some(refined.planned), &args.output, out)
    }

    /// The named job, or the latest one, and the words.
    fn job_and_words(&self, mut words: Vec<String>) -> Result<(JobFolder, String), Failure> {
        let first = words.first().filter(|word| word.len() >= MIN_ID);
        let is_id = first.is_some_and(|word| word.bytes().take(MIN_ID).all(|b| b.is_ascii_digit()));
        let job = match is_id && words.len() > 1 {
            true => self.jobs.open(&words.remove(0))?,
            false => {
                let latest = self.jobs.ids()?.pop();
                let none = || Failure::input("there is no job to refine; run one first");
                self.jobs.open(&latest.ok_or_else(none)?)?
            }
        };
        Ok((job, words.join(" ")))
    }

    fn refined(
        &self,
        job: &JobFolder,
        old: &Plan,
        words: &str,
        out: &Output,
    ) -> Result<PlannedRequest, Failure> {
        let words = absolute_folders(words).map_err(no_current_folder)?;
        let info = job.info();
        let now = Zoned::now();
        let earlier = info.from.planned.clone();
        let mut planned = earlier.clone().unwrap_or_else(|| Planned {
            by: PlannedBy::Edited,
            request: info.origin.clone(),
            refinements: Vec::new(),
            refined_at_ms: Vec::new(),
            at_ms: info.created_ms,
            predecessor: None,
            revisions: 0,
        });
        // Those of builds that stored no times count from the request, as they did there.
        planned
            .refined_at_ms
            .resize(planned.refinements.len(), planned.at_ms);
        planned.refinements.push(words.clone());
        planned.refined_at_ms.push(now.timestamp().as_millisecond());
        planned.predecessor = Some(info.id.clone());
        planned.revisions = 0;
        let (at, names) = (local(planned.at_ms), self.tools.names().unwrap_or_default());
        if planned.by == PlannedBy::Rules {
            let (last, earlier) = planned.refinements.split_last().unwrap_or((&words, &[]));
            let changed = [std::slice::from_ref(&planned.request), earlier].concat();
            let title = format!("{last} (a change of: {})", changed.join("; "));
            let times = planned.refined_at_ms.iter().map(|ms| local(*ms).datetime());
            let refinements = planned.refinements.iter().map(String::as_str).zip(times);
            let at = at.datetime();
            let plan = plan_refined(old, &planned.request, refinements, at, &title, &names);
            if let Ok(plan) = plan {
                return Ok(PlannedRequest::new(plan, planned));
            }
        }
        let refinement = Refinement::read(&words, now.datetime(), &names);
        let edited = refinement
            .map_err(|error| error.to_string())
            .and_then(|refinement| refinement.edit(old));
        match edited {
            Ok(plan) => {
                planned.by = PlannedBy::Edited;
                return Ok(PlannedRequest::new(plan, planned));
            }
            Err(why) if self.config.llm.is_none() => return Err(Failure::input(why)),
            Err(_) => {}
        }
        let task = PlanTask::Refine {
            plan: old,
            words: &words,
            now: now.datetime(),
        };
        let made = self.ask_model(&planned.request, &at, &task, out);
        let made = made.map_err(|error| Failure::input(error.to_string()))?;
        planned.by = PlannedBy::Model;
        let plan = made.plan.plan().clone();
        Ok(PlannedRequest::new(plan, planned))
    }
}

fn local(ms: i64) -> Zoned {
    let at = Timestamp::from_millisecond(ms).unwrap_or_default();
    at.to_zoned(TimeZone::system())
}
