//! `watchkeeper job stats`.

use watchkeeper_jobs::counted;
use watchkeeper_jobs::plan::Plan;
use watchkeeper_jobs::run::{JobStatistics, JobStatisticsBuilder, Jobs, Spread};

use super::super::exit::Failure;
use super::super::output::Output;

/// Prints times and failures of the stored jobs of a user.
pub(super) fn print(jobs: &Jobs, out: &Output) -> Result<(), Failure> {
    show(&collect(jobs, out)?, out);
    Ok(())
}

/// Prints the time that a plan is expected to take, if one of its tools has run before.
pub(super) fn print_expected(plan: &Plan, jobs: &Jobs, out: &Output) -> Result<(), Failure> {
    if let Some(expected) = collect(jobs, out)?.expected_time(plan) {
        out.note(format!("expected time: {expected}"));
    }
    Ok(())
}

fn collect(jobs: &Jobs, out: &Output) -> Result<JobStatistics, Failure> {
    let mut statistics = JobStatisticsBuilder::default();
    for id in jobs.ids()? {
        let read = jobs.open_exact(&id).and_then(|job| {
            let (summary, log) = job.summary_with_log()?;
            statistics.add(job.info(), &log, summary.state);
            Ok(())
        });
        match read {
            Ok(()) => {}
            Err(error) if error.is_damage() => statistics.add_damaged(),
            Err(error) => out.note(error.to_string()),
        }
    }
    Ok(statistics.build())
}

fn show(statistics: &JobStatistics, out: &Output) {
    out.object(statistics);
    let states = statistics.states.iter();
    let number: usize = states.clone().map(|(_, number)| number).sum();
    let states: Vec<String> = states
        .map(|(state, number)| format!("{number} {state}"))
        .collect();
    let success = statistics.success.map_or_else(String::new, |share| {
        format!("; success rate {:.0} %", share * 100.0)
    });
    let of = match number {
        0 => String::new(),
        _ => format!(": {}{success}", states.join(", ")),
    };
    out.line(format!("{}{of}", counted(number, "job")));
    for (what, spread) in [
        ("planning", statistics.planning_s),
        ("run", statistics.run_s),
    ] {
        if let Some(Spread { median, longest }) = spread {
            out.line(format!(
                "{what}: median {median:.1} s, longest {longest:.1} s"
            ));
        }
    }
    if statistics.tools.is_empty() {
        return;
    }
    let rows = statistics.tools.iter().map(|(tool, attempts)| {
        let time = |value: fn(Spread) -> f64| {
            let seconds = attempts.attempt_s.map(value);
            seconds.map_or_else(|| "–".to_owned(), |s| format!("{s:.2}"))
        };
        vec![
            tool.clone(),
            attempts.done.to_string(),
            attempts.failed.to_string(),
            time(|spread| spread.median),
            time(|spread| spread.longest),
        ]
    });
    let header = ["tool", "done", "failed", "median s", "longest s"];
    out.table(&header, rows);
}
