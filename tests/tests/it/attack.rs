//! A small share of each attack of `tests/tools/attack`, so that the tool itself stays true.

use anyhow::ensure;
use watchkeeper_tests::attack::{self, Report};

fn withstood(report: &Report) -> anyhow::Result<()> {
    ensure!(report.holds(), "{report:#?}");
    Ok(())
}

fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(1)
}

#[test]
fn killed_processes_lose_no_event() -> anyhow::Result<()> {
    withstood(&attack::kills(3, &mut random())?)
}

#[test]
fn flipped_bits_lose_no_event_silently() -> anyhow::Result<()> {
    withstood(&attack::damage(4, &mut random())?)
}

#[test]
fn mutated_commands_are_answered() -> anyhow::Result<()> {
    withstood(&attack::commands(1_001, &mut random())?)
}

#[test]
fn mutated_model_files_are_deployed_or_refused() -> anyhow::Result<()> {
    withstood(&attack::model_files(20, &mut random())?)
}

#[test]
fn mutated_requests_leave_the_command_working() -> anyhow::Result<()> {
    withstood(&attack::requests(200, &mut random())?)
}

#[test]
fn camera_that_disappears_is_watched_again() -> anyhow::Result<()> {
    withstood(&attack::flaps(1, &mut random())?)
}
