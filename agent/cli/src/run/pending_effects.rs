//! Waits at the end of a run for the effects of its workflow, and reports the failed ones.
//!
//! - A run succeeds only if every accepted effect is done. A runtime that does not say so fails it.
//! - An effect that `[sinks]` does not allow was refused at its step, whose outputs have the
//!   reason; here it is only counted.

use std::fmt::Display;
use std::time::{Duration, Instant};

use watchkeeper_contract::spool::EffectCounts;

use super::unanswered::UnansweredPolls;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use watchkeeper_client::{ClientError, RuntimeClient};

/// Time without a completed effect after which the wait ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until all effects are done or failed, or no more complete; returns what was not done.
pub(super) async fn wait_for_effects(
    client: &RuntimeClient,
    before: &EffectCounts,
    out: &Output,
) -> Option<Failure> {
    let mut last = EffectCounts::default();
    let mut last_progress = Instant::now();
    let mut unanswered = UnansweredPolls::default();
    loop {
        let answer = match client.health().await {
            // A runtime that is gone does not come back.
            Err(error @ ClientError::Unreachable { .. }) => Err(error),
            answer => unanswered.check_and_note(answer, out),
        };
        match answer.map(|health| health.map(|health| health.effects)) {
            Ok(Some(now)) => {
                if (now.done, now.failed) != (last.done, last.failed) {
                    last_progress = Instant::now();
                }
                if pending(before, &now) == 0 || last_progress.elapsed() > IDLE_TIMEOUT {
                    report_refused(&now, out);
                    return failure(before, &now);
                }
                last = now;
            }
            Ok(None) => {}
            Err(error) => return Some(unknown(error)),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Notes how many effects were refused, where `[sinks]` allows none.
pub(super) async fn note_refused(client: &RuntimeClient, out: &Output) {
    if let Ok(health) = client.health().await {
        report_refused(&health.effects, out);
    }
}

/// Counts accepted effects that are neither done nor failed, also those not on disk yet.
fn pending(before: &EffectCounts, now: &EffectCounts) -> u64 {
    let failed = now.failed.saturating_sub(before.failed);
    (before.waiting + now.taken).saturating_sub(now.done + failed)
}

pub(super) fn unknown(why: impl Display) -> Failure {
    let sentence = format!("it is not known whether the effects of the workflow were done: {why}");
    Failure::new(Exit::Undelivered, sentence)
}

fn report_refused(now: &EffectCounts, out: &Output) {
    if now.refused > 0 {
        out.note(format!(
            "{} effects of the workflow were refused; the output `message` of their steps has the reason, [sinks] of the configuration the permissions",
            now.refused
        ));
    }
}

fn failure(before: &EffectCounts, now: &EffectCounts) -> Option<Failure> {
    let failed = now.failed.saturating_sub(before.failed);
    let pending = pending(before, now);
    if failed + pending == 0 {
        return None;
    }
    let sentence = match (failed, pending) {
        (0, pending) => format!("{pending} effects of the workflow were not done in time"),
        (failed, 0) => format!("{failed} effects of the workflow failed"),
        (failed, pending) => {
            format!("{failed} effects of the workflow failed, {pending} were not done in time")
        }
    };
    let shown = usize::try_from(failed).unwrap_or(usize::MAX);
    let skip = now.last_failed.len().saturating_sub(shown);
    let failures = now.last_failed.iter().skip(skip);
    let lines = failures.map(|f| format!("step {}, {}: {}", f.step, f.what, f.why));
    Some(Failure::new(Exit::Undelivered, sentence).with(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn runtime_that_is_gone_at_the_end_fails_the_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = RuntimeClient::new(folder.path().join("gone.sock")).expect("a client");
        let before = EffectCounts::default();
        let failure = wait_for_effects(&client, &before, &Output::new(true)).await;
        assert_eq!(failure.map(|f| f.exit), Some(Exit::Undelivered));
    }

    fn counts(waiting: u64, taken: u64, done: u64, failed: u64) -> EffectCounts {
        EffectCounts {
            waiting,
            taken,
            done,
            failed,
            ..EffectCounts::default()
        }
    }

    #[test]
    fn effects_of_an_earlier_run_are_waited_for_too() {
        let before = counts(2, 0, 0, 3);
        assert_eq!(pending(&before, &counts(1, 4, 5, 3)), 1);
        assert_eq!(failure(&before, &counts(0, 4, 6, 3)), None);
        assert_eq!(pending(&before, &counts(0, 4, 5, 4)), 0);
        let failure = failure(&before, &counts(0, 4, 5, 4)).expect("one failed");
        assert_eq!(failure.exit, Exit::Undelivered);
        assert!(failure.sentence.starts_with('1'), "{}", failure.sentence);
    }

    #[test]
    fn accepted_effects_not_on_disk_yet_are_waited_for() {
        let none = EffectCounts::default();
        assert_eq!(pending(&none, &counts(0, 3, 1, 0)), 2);
        let failure = failure(&none, &counts(0, 3, 1, 0)).expect("two are pending");
        assert!(failure.sentence.contains("not done in time"));
    }
}
