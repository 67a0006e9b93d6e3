//! The limits that a process sets for itself before it checks a model.
//!
//! - Memory is limited by `RLIMIT_DATA`: libraries of graphics cards reserve far more addresses
//!   than they use, so `RLIMIT_AS` would refuse sound models.
//! - If memory runs out all the same, the kernel ends this process first.
//! - The process ends with its parent.
//!
//! Not here: the limit of time, which its parent keeps.

use std::path::Path;

use rustix::process::{Resource, Rlimit, Signal};

/// Part of the memory that a check may use: one half.
const SHARE: u64 = 2;

/// Step to which the limit is rounded down. Kernels differ in what they reserve, and a limit that
/// changed would have every model checked again.
const STEP_BYTES: u64 = 64 << 20;

/// Added to the priority value: cameras come first, but on a busy box a check still ends in time.
const NICE: i32 = 5;

/// Bytes of memory that a check may use; `None` where the memory of the machine is not known.
#[must_use]
pub fn max_bytes() -> Option<u64> {
    let memory = watchkeeper_board::memory::limit(Path::new("/"))?;
    Some((memory / SHARE / STEP_BYTES).max(1) * STEP_BYTES)
}

/// Limits this process.
///
/// # Errors
/// When its memory can't be limited; one sentence. It must not load a model then.
pub fn apply() -> Result<(), String> {
    if let Some(bytes) = max_bytes() {
        limit(Resource::Data, bytes).map_err(|error| {
            format!("the memory of the check can't be limited: {error}; allow setrlimit (2)")
        })?;
    }
    // The rest protects the box and not the daemon, so it is not needed.
    limit(Resource::Core, 0).ok();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    rustix::process::nice(NICE).ok();
    std::fs::write("/proc/self/oom_score_adj", "1000").ok();
    Ok(())
}

/// Lowers a limit; one that is lower already stays.
fn limit(resource: Resource, most: u64) -> rustix::io::Result<()> {
    let inherited = rustix::process::getrlimit(resource).maximum;
    let most = Some(inherited.map_or(most, |inherited| inherited.min(most)));
    let limit = Rlimit {
        current: most,
        maximum: most,
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
}
