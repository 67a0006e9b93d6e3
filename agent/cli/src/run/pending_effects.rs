//! What the workflow of a run wanted done outside: waited for at its end, and told.
//!
//! Invariant: a run ends well only where everything that a step was told to be taken has been done. What `[sinks]` did not allow was refused at the step,
//! which says so in its outputs; here it is only counted.

use std::time::{Duration, Instant};

use watchkeeper_contract::spool::EffectCounts;

use crate::exit::{Exit, Failure};
use crate::output::Output;
use watchkeeper_client::RuntimeClient;

/// How long the end of a run waits while nothing gets done. As long as something does, it is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the runtime is asked.
const ASK: Duration = Duration::from_millis(100);

/// Waits until everything is done, given up, or nothing more gets done, and tells what was not.
pub(super) async fn settle(
    client: &RuntimeClient,
    before: &EffectCounts,
    out: &Output,
) -> Option<Failure> {
    let mut last = EffectCounts::default();
    let mut moved = Instant::now();
    loop {
        // A runtime that has died has told so by other ways.
        let now = client.health().await.ok()?.effects;
        if left(before, &now) == 0 || moved.elapsed() > PATIENCE {
            tell_refused(&now, out);
            return verdict(before, &now);
        }
        if (now.done, now.failed) != (last.done, last.failed) {
            moved = Instant::now();
        }
        last = now;
        tokio::time::sleep(ASK).await;
    }
}

/// What was taken and is neither done nor given up; some of it may not lie on the disk yet.
fn left(before: &EffectCounts, now: &EffectCounts) -> u64 {
    let failed = now.failed.saturating_sub(before.failed);
    (before.waiting + now.taken).saturating_sub(now.done + failed)
}

fn tell_refused(now: &EffectCounts, out: &Output) {
    if now.refused > 0 {
        out.note(format!(
            "the workflow wanted {} things done outside that were refused; the output `message` of its sinks says why, and [sinks] of the configuration what is allowed",
            now.refused
        ));
    }
}

fn verdict(before: &EffectCounts, now: &EffectCounts) -> Option<Failure> {
    let failed = now.failed.saturating_sub(before.failed);
    let left = left(before, now);
    if failed + left == 0 {
        return None;
    }
    let sentence = match (failed, left) {
        (0, left) => {
            format!("{left} things that the workflow wanted done outside were not done in time")
        }
        (failed, 0) => {
            format!("{failed} things that the workflow wanted done outside were given up")
        }
        (failed, left) => format!(
            "of the things that the workflow wanted done outside {failed} were given up and {left} not done in time"
        ),
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
    fn a_run_is_settled_when_all_that_was_taken_is_done_also_what_an_earlier_run_left() {
        let before = counts(2, 0, 0, 3);
        assert_eq!(left(&before, &counts(1, 4, 5, 3)), 1);
        assert_eq!(verdict(&before, &counts(0, 4, 6, 3)), None);
        assert_eq!(left(&before, &counts(0, 4, 5, 4)), 0);
        let failure = verdict(&before, &counts(0, 4, 5, 4)).expect("one was given up");
        assert_eq!(failure.exit, Exit::Undelivered);
        assert!(failure.sentence.starts_with('1'), "{}", failure.sentence);
    }

    #[test]
    fn what_was_taken_and_does_not_lie_on_the_disk_yet_is_waited_for() {
        let none = EffectCounts::default();
        assert_eq!(left(&none, &counts(0, 3, 1, 0)), 2);
        let failure = verdict(&none, &counts(0, 3, 1, 0)).expect("two are left");
        assert!(failure.sentence.contains("not done in time"));
    }
}
