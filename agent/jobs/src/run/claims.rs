//! Names in the output folder that steps have claimed.
//!
//! Invariant: the name of a done step stays its own. That of any other is free once nothing is left
//! of what it began.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::log::{LogLine, LogRecord};
use crate::target::part;

/// The claimed names of a job that does not run, each with its step.
pub(super) fn claimed(log: &[LogLine], output: &Path) -> HashMap<String, String> {
    let mut done = HashSet::new();
    let mut claims = HashMap::new();
    for line in log {
        match &line.record {
            LogRecord::Claimed { step, name } => {
                claims.insert(name.clone(), step.clone());
            }
            LogRecord::Finished { step, .. } => {
                done.insert(step.as_str());
            }
            _ => {}
        }
    }
    claims.retain(|name, step| done.contains(step.as_str()) || is_begun(output, name));
    claims
}

/// Whether something of this name is in the output folder, finished or not.
pub(super) fn is_begun(output: &Path, name: &str) -> bool {
    let paths = [part(output, name), output.join(name)];
    // What can't be looked at counts.
    let is_there = |path: &Path| path.symlink_metadata().map_or_else(is_other, |_| true);
    paths.iter().any(|path| is_there(path))
}

fn is_other(error: std::io::Error) -> bool {
    error.kind() != std::io::ErrorKind::NotFound
}
