//! Completion scripts, generated from the flags.

use clap::CommandFactory;

use super::args::Cli;
use super::output::Output;

pub(super) fn completions(shell: clap_complete::Shell, out: &Output) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "watchkeeper", &mut script);
    out.page(String::from_utf8_lossy(&script).trim_end());
}

#[cfg(test)]
mod tests;
