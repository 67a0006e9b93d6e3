//! Arguments as a user writes them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use clap::CommandFactory;

use super::*;

fn run_args(args: &[&str]) -> RunArgs {
    let line = ["watchkeeper", "run"].iter().chain(args);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Online(OnlineCommand::Run(args)) => *args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn flag_declarations_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn flags_of_evaluation_scripts_are_parsed() {
    let args = run_args(&[
        "clip.mp4",
        "--json",
        "--watch",
        "person,car",
        "--line",
        "door:0,218,640,218",
        "--line",
        "gate:-5,0,10,20",
        "--zone",
        "desk:0,0,10,0,10,10",
        "--model",
        "motion",
        "--for",
        "12.5",
    ]);
    assert_eq!(args.watch, ["person", "car"]);
    assert_eq!(args.line.len(), 2);
    assert_eq!(args.line[1].from, [-5.0, 0.0]);
    assert_eq!(args.zone[0].points.len(), 3);
    assert_eq!(args.seconds, Some(12.5));
}

#[test]
fn search_for_cameras_refuses_what_it_would_change() {
    let find = |flags: &[&str]| {
        let line = ["watchkeeper", "cameras", "find"].iter().chain(flags);
        Cli::try_parse_from(line).map_err(|e| e.to_string())
    };
    assert!(find(&["--for", "5s", "--port", "3702"]).is_ok());
    let long = find(&["--for", "70"]).err().unwrap_or_default();
    assert!(long.contains("up to 60"), "{long}");
    let port = find(&["--port", "0"]).err().unwrap_or_default();
    assert!(port.contains("--port"), "{port}");
}

#[test]
fn pause_until_takes_local_and_offset_times() {
    let until = |text: &str| {
        let line = ["watchkeeper", "pipelines", "pause", "gate", "--until", text];
        match Cli::try_parse_from(line).map(|cli| cli.command) {
            Ok(Command::Online(OnlineCommand::Pipelines {
                action: Some(PipelineAction::Pause { until, .. }),
            })) => until,
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        }
    };
    let eight = until("2027-03-29T08:00+09:00");
    assert_eq!(eight, "2027-03-28T23:00:00Z".parse().ok());
    assert_eq!(until("2027-03-29T08:00[+09:00]"), eight);
    assert_ne!(until("2027-03-29T08:00"), None);
    assert_eq!(until("2027-03-29T08:00[Nowhere/Else]"), None);
}

#[test]
fn contradicting_flags_are_refused() {
    for bad in [
        &["c.mp4", "--workflow", "w.json", "--line", "a:0,0,1,1"][..],
        &["c.mp4", "--for", "0"],
        &["c.mp4", "--confidence", "1.1"],
        &["c.mp4", "--line", "a:0,0,1"],
        &[],
    ] {
        let line = ["watchkeeper", "run"].iter().chain(bad);
        let error = Cli::try_parse_from(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{bad:?}");
    }
}

#[test]
fn archive_names_what_is_missing() {
    let parse = |words: &[&str]| {
        let line = ["watchkeeper", "archive"].iter().chain(words);
        Cli::try_parse_from(line)
            .map(drop)
            .map_err(|e| e.to_string())
    };
    for (words, part) in [
        (
            &["query", "--like", "yard/a.jpg", "--order", "oldest"][..],
            "--order",
        ),
        (
            &["query", "--like-text", "a truck", "--order", "newest"],
            "--order",
        ),
        (&["query", "--like", "photos/b/x.jpg"], "./photos/b/x.jpg"),
        (
            &["ingest", "a.txt", "--as", "notes/a.txt"],
            "--as notes --name a.txt",
        ),
        (&["get", "nix"], "COLLECTION/NAME"),
        (
            &["ingest", "a.txt", "--as", "notes", "--time", "2999-01-01"],
            "is still to come",
        ),
    ] {
        let refused = parse(words).err().unwrap_or_default();
        assert!(refused.contains(part), "{words:?}: {refused}");
    }
    for good in [
        &["query", "cars", "--after", "yard/a.jpg", "--limit", "5"][..],
        &["query", "--like", "yard/a.jpg"],
        &["query", "--order", "oldest"],
        &["ingest", "a.txt", "--as", "notes"],
        &["ingest", "a.txt", "--as", "notes", "--time", "24h"],
        &["ingest", "a.txt", "--as", "notes", "--ttl", "5s"],
    ] {
        assert_eq!(parse(good), Ok(()), "{good:?}");
    }
}

#[test]
fn wrong_number_of_events_says_what_it_must_be() {
    for flag in ["--limit", "--after"] {
        let line = ["watchkeeper", "events", flag, "x"];
        let error = Cli::try_parse_from(line).unwrap_err().to_string();
        assert!(
            error.contains("must be a whole number, 0 or more"),
            "{error}"
        );
    }
}

#[test]
fn command_without_a_daemon_reads_no_socket() {
    let asks = |line: &str| {
        let line = ["watchkeeper"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(line).unwrap().command {
            Command::Online(command) => command.asks_daemon(),
            other => panic!("{other:?}"),
        }
    };
    for alone in [
        "cameras devices",
        "cameras find",
        "watch --list",
        "run demo:",
    ] {
        assert!(!asks(alone), "{alone}");
    }
    for asking in ["cameras", "cameras list", "status"] {
        assert!(asks(asking), "{asking}");
    }
}

#[test]
fn agent_flag_is_taken_only_by_commands_that_know_its_jobs() {
    let parse = |words: &str| {
        let line = ["watchkeeper", "job"].into_iter().chain(words.split(' '));
        Cli::try_parse_from(line).map(drop)
    };
    for words in [
        "run plan.yaml",
        "plan cars --run",
        "list",
        "show x step key",
        "resume x",
        "cancel x",
        "delete x",
    ] {
        assert!(parse(&format!("{words} --agent")).is_ok(), "{words}");
    }
    for words in [
        "plan cars",
        "prune",
        "export x",
        "tools",
        "schema",
        "validate x",
    ] {
        assert!(parse(&format!("{words} --agent")).is_err(), "{words}");
    }
}
