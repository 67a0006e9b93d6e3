//! Runs a plan on pictures as `watchkeeper job run` does, without the rest of the program; for
//! `tests/tools/jobs/run`.
//!
//!     run-plan PLAN STATE OUTPUT
//!
//! Prints the time and the summary of each step. Exits with 1 if the job fails.

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
    let [plan, state, output] = arguments.as_slice() else {
        return Err("run-plan PLAN STATE OUTPUT".into());
    };
    let tools = picture_tools();
    let read = read_text(&fs::read_to_string(plan)?);
    let read = read.map_err(|faults| format!("{faults:?}"))?;
    let repaired = repair(read, &tools).map_err(|left| format!("{:?}", left.faults))?;
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
