//! Completion scripts and man pages, generated from the flags.

#[cfg(test)]
mod document;

use std::path::Path;

use clap::CommandFactory;

use super::args::Cli;
use super::exit::{Exit, Failure};
use super::output::Output;

pub(super) fn completions(shell: clap_complete::Shell, out: &Output) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "watchkeeper", &mut script);
    out.page(String::from_utf8_lossy(&script).trim_end());
}

pub(super) fn man(dir: Option<&Path>, out: &Output) -> Result<(), Failure> {
    let failed =
        |e: std::io::Error| Failure::new(Exit::Failed, format!("can't write the man pages: {e}"));
    match dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(failed)?;
            clap_mangen::generate_to(Cli::command(), dir).map_err(failed)?;
            out.line(format!("Wrote the man pages to {}", dir.display()));
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(failed)?;
            out.page(String::from_utf8_lossy(&page).trim_end());
        }
    }
    Ok(())
}
