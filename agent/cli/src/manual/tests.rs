//! Generates the section "Commands" of `docs/ref/cli.md` from the declaration of the flags, and
//! checks its table of exit codes and the examples of the help.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use crate::args::Cli;
use crate::exit::Exit;

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

/// Failures in the order of their codes.
const EXITS: [Exit; 5] = [
    Exit::Failed,
    Exit::BadInput,
    Exit::NoRuntime,
    Exit::Source,
    Exit::Undelivered,
];

/// What a failure means; a new one goes into [`EXITS`] too.
const fn meaning(exit: Exit) -> &'static str {
    match exit {
        Exit::Failed => "The command failed; standard error has the reason.",
        Exit::BadInput => {
            "Invalid input: a flag, a missing file, a file that is not a video, an unknown model, \
             or a workflow that does not compile."
        }
        Exit::NoRuntime => {
            "The runtime is not reachable, or a program that `run` needs is missing or does not \
             start."
        }
        Exit::Source => {
            "The camera or file failed: connection refused, unreachable, wrong password, or it \
             broke off."
        }
        Exit::Undelivered => {
            "`run`: the run is complete, but the broker of `--mqtt` did not acknowledge every \
             event, or an effect of the workflow that `[sinks]` allows failed or may have failed."
        }
    }
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ref/cli.md")
}

#[test]
fn exit_codes_of_the_document_are_complete() {
    let written = std::fs::read_to_string(document()).unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| Code");
    let section = written.split_once("## Exit codes\n").unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(is_row).collect();
    assert!(rows[0].starts_with("| 0 | Success."), "{}", rows[0]);
    let expected = EXITS.map(|exit| format!("| {} | {} |", exit.code(), meaning(exit)));
    assert_eq!(rows[1..], expected);
}

/// The arguments of a command line; double quotes hold one together.
fn arguments(line: &str) -> Vec<&str> {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(nth, part)| match nth % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string);
    let help = help.unwrap_or_default();
    let lines = help.split_once("Examples:").map_or("", |(_, lines)| lines);
    let own = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let subs = command.get_subcommands().flat_map(examples);
    own.map(str::to_owned).chain(subs).collect()
}

#[test]
fn examples_of_the_help_are_valid_commands() {
    let examples = examples(&Cli::command());
    assert!(examples.len() > 5, "{examples:?}");
    for line in examples {
        let parsed = Cli::try_parse_from(arguments(&line));
        assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
    }
}

#[test]
fn commands_of_the_document_are_current() {
    let path = document();
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
