//! Generates the section "Commands" of `docs/ref/cli.md` from the declaration of the flags.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;

/// The last heading that is written by hand, with its sentence.
const COMMANDS: &str = "## Commands

Every command takes the options of `watchkeeper`; they are listed once.
";

/// Hides the options that each command has.
fn without_common_options(command: &mut clap::Command) {
    *command = std::mem::take(command).mut_args(|arg| {
        let is_common = arg.is_global_set() || matches!(arg.get_id().as_str(), "help" | "version");
        arg.hide(is_common)
    });
}

fn describe(command: &mut clap::Command, path: &str, doc: &mut String) {
    // clap ends some lines with blanks.
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    doc.push_str(&format!(
        "\n### {path}\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    ));
    for sub in command.get_subcommands_mut() {
        if !sub.is_hide_set() && sub.get_name() != "help" {
            let path = format!("{path} {}", sub.get_name());
            without_common_options(sub);
            describe(sub, &path, doc);
        }
    }
}

#[test]
fn commands_of_the_document_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ref/cli.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (by_hand, generated) = written.split_once(COMMANDS).unwrap();
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut commands = String::new();
    describe(&mut command, "watchkeeper", &mut commands);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{by_hand}{COMMANDS}{commands}")).unwrap();
        return;
    }
    assert!(
        generated == commands,
        "docs/ref/cli.md is out of date; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-cli document"
    );
}
