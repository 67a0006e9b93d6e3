//! The limits that a process sets for itself before it checks a model.
//!
//! - Memory is limited by `RLIMIT_DATA`: libraries of graphics cards reserve far more addresses
//!   than they use, so `RLIMIT_AS` would refuse sound models.
//! - If memory still runs out, the kernel ends this process first.
//! - The process ends with its parent, also with one that ended before the limits applied.
//! - Processor time is limited, because a busy box stretches the time of the wall clock only.
//!
//! Not here: the limit of wall clock, which its parent keeps.

use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, Signal};

/// Most processor time of a check, in seconds, over all its threads.
pub const MAX_CPU_SECONDS: u64 = 60;

/// Environment variable with the number of the parent process.
const PARENT_VARIABLE: &str = "MODEL_CHECK_PARENT";

/// Part of the memory that a check may use: one half.
const SHARE: u64 = 2;

/// Step to which the limit is rounded down. Kernels differ in what they reserve, and a limit that
/// changed would have every model checked again.
const STEP_BYTES: u64 = 64 << 20;

/// Seconds from the signal at the end of the processor time to the one that can't be ignored.
const CPU_GRACE: u64 = 5;

/// Added to the priority value: cameras come first, but on a busy box a check still ends in time.
const NICE: i32 = 5;

/// Bytes of memory that a check may use; `None` if the memory of the machine is not known.
pub fn max_bytes() -> Option<u64> {
    let memory = watchkeeper_board::memory::limit(Path::new("/"))?;
    Some((memory / SHARE / STEP_BYTES).max(1) * STEP_BYTES)
}

/// Limits this process.
///
/// # Errors
/// When its memory can't be limited, or its parent has ended; one sentence. It must not load a
/// model then.
pub fn apply() -> Result<(), String> {
    if let Some(bytes) = max_bytes() {
        limit(Resource::Data, bytes, bytes).map_err(|error| {
            format!("the memory of the check can't be limited: {error}; allow setrlimit (2)")
        })?;
    }
    // The rest protects the box and not the daemon, so it is not needed.
    limit(Resource::Cpu, MAX_CPU_SECONDS, MAX_CPU_SECONDS + CPU_GRACE).ok();
    follow_parent()
}

/// Name and value of the variable by which a child knows its parent, for [`follow_parent`].
pub fn parent_variable() -> (&'static str, String) {
    (PARENT_VARIABLE, std::process::id().to_string())
}

/// Has this process end with its parent, yield to the cameras, and be the first to be ended when
/// memory runs out.
///
/// # Errors
/// When its parent has ended; one sentence.
pub fn follow_parent() -> Result<(), String> {
    limit(Resource::Core, 0, 0).ok();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    // The signal is not sent for a parent that ended before.
    let expected = std::env::var(PARENT_VARIABLE).ok();
    let parent = rustix::process::getppid();
    if !is_same_process(expected.as_deref(), parent) {
        return Err("the program that asked for the check has ended; try again".to_owned());
    }
    rustix::process::nice(NICE).ok();
    std::fs::write("/proc/self/oom_score_adj", "1000").ok();
    Ok(())
}

/// Whether `parent` has the expected number, where one is expected.
fn is_same_process(expected: Option<&str>, parent: Option<Pid>) -> bool {
    let parent = parent.map_or(0, |parent| parent.as_raw_nonzero().get());
    expected.is_none_or(|expected| expected == parent.to_string())
}

/// Lowers a limit; one that is lower already stays.
fn limit(resource: Resource, current: u64, maximum: u64) -> rustix::io::Result<()> {
    let inherited = rustix::process::getrlimit(resource);
    let lower = |most: u64, inherited: Option<u64>| {
        Some(inherited.map_or(most, |inherited| inherited.min(most)))
    };
    let limit = Rlimit {
        current: lower(current, inherited.current.or(inherited.maximum)),
        maximum: lower(maximum, inherited.maximum),
    };
    rustix::process::setrlimit(resource, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_at_most_half_of_the_memory_in_whole_steps() {
        let memory = watchkeeper_board::memory::limit(Path::new("/"));
        let (Some(limit), Some(memory)) = (max_bytes(), memory) else {
            panic!("the memory of this machine is not known");
        };
        assert!(limit <= (memory / 2).max(STEP_BYTES));
        assert_eq!(limit % STEP_BYTES, 0);
    }

    #[test]
    fn only_the_process_that_started_the_check_is_its_parent() {
        let parent = rustix::process::getppid();
        let number = parent.map_or(0, |parent| parent.as_raw_nonzero().get());
        assert!(is_same_process(None, parent));
        assert!(is_same_process(Some(&number.to_string()), parent));
        assert!(!is_same_process(Some(&(number + 1).to_string()), parent));
        assert!(!is_same_process(Some("1"), None));
    }
}
