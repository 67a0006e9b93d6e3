//! Runs a plan on pictures as `watchkeeper job run` does, without the rest of the program; for
//! `tests/tools/jobs/run`.
//!
//!     run-plan PLAN STATE OUTPUT
//!     run-plan PLAN
//!
//! Prints the time and the summary of each step, or only the time to read and check the plan. Exits
//! with 1 if the job fails.

#![expect(
    clippy::print_stdout,
    reason = "it prints what a benchmark has measured"
)]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use watchkeeper_jobs::plan::{read_text, repair};
use watchkeeper_jobs::run::{Ended, JobEvent, Jobs, Runner};
use watchkeeper_jobs::tools::picture_tools;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (plan, folders) = arguments
        .split_first()
        .ok_or("run-plan PLAN STATE OUTPUT")?;
    let tools = picture_tools();
    let text = fs::read_to_string(plan)?;
    let began = Instant::now();
    let read = read_text(&text).map_err(|faults| format!("{faults:?}"))?;
    let repaired = repair(read, &tools).map_err(|left| format!("{:?}", left.faults))?;
    let [state, output] = folders else {
        println!("checked in {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
        return Ok(());
    };
    let jobs = Jobs::new(Path::new(state).join("jobs"));
    let job = jobs.create(&repaired.plan, plan, Some(Path::new(output)))?;
    let mut began = Instant::now();
    let mut report = |event: JobEvent<'_>| match event {
        JobEvent::Started { .. } => began = Instant::now(),
        JobEvent::Progress { .. } => {}
        JobEvent::Finished { step, result } => {
            let seconds = began.elapsed().as_secs_f64();
            println!("{} {seconds:.2} s: {}", step.name, result.summary);
        }
        JobEvent::Failed { step, why, .. } => println!("{}: {why}", step.name),
    };
    let ended = Runner::new(tools, jobs).run(&job, &mut report, &|| false)?;
    match ended {
        Ended::Done => Ok(()),
        Ended::Failed | Ended::Cancelled => Err("the job failed".into()),
    }
}
