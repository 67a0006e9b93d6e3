//! Slash commands of the chat, such as `/status`: names, arguments and help.
//!
//! Invariant: none changes a watch by itself. `/stop`, `/pause` and `/resume` become requests, with
//! a proposal and its confirmation.

use std::collections::BTreeMap;

use watchkeeper_contract::assessment::AssessmentAnswer;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::problem::nearest;

use super::agent_command::{self, AgentCommand};
use crate::reviews::{PersonAnswer, parse_fields};

/// A parsed slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatCommand {
    /// Status of the runtime, its cameras and its pipelines.
    Status,
    /// Lists cameras and pipelines.
    Streams,
    /// This many of the latest events.
    Events(u32),
    /// Lists the events that wait for a person.
    Reviews,
    /// A person's answer about the event of this record.
    Answer {
        seq: EventSeq,
        answer: PersonAnswer,
    },
    /// Proposes to narrow the rules of this pipeline by the answers about their events.
    Narrow(String),
    /// Shows the heartbeat, or pauses and resumes it.
    Heartbeat(Option<bool>),
    /// Searches the notes for these words.
    Memory(String),
    /// Shows the waiting proposal or question.
    Plan,
    /// Costs and budget of the LLM.
    Cost,
    /// This many of the latest trace entries.
    Trace(usize),
    /// A request for the LLM; the rules are skipped.
    Think {
        /// Name of the blueprint; `None` for the set-up blueprint.
        blueprint: Option<String>,
        text: String,
    },
    /// Path of a picture for the next request.
    Image(String),
    /// About operations on the archive and blueprints.
    Agents(AgentCommand),
    Help,
    Quit,
    /// A request to handle like typed text.
    Say(String),
    /// An invalid command, with an error that names the correct form.
    Wrong(String),
}

/// Every command: name and arguments, then its description.
const COMMANDS: &str = "\
/status: status of the runtime, cameras and pipelines
/streams: cameras, and the pipelines on each
/stop PIPELINE: proposes to stop and delete a pipeline
/pause PIPELINE: proposes to pause a pipeline
/resume PIPELINE: proposes to resume a pipeline
/events [COUNT]: the latest events
/reviews: the events that wait for your answer
/approve NUMBER [NOTE]: the event happened as it says
/reject NUMBER [NOTE]: the event did not happen
/correct NUMBER CLASS|NAME=VALUE: something of another class, or with another value, happened
/narrow PIPELINE: proposes what your answers say its rules should ignore
/heartbeat [pause|resume]: the periodic check: status, pause, resume
/memory WORDS: searches the notes
/think [@NAME] TEXT: asks the LLM directly, by the named blueprint
/image FILE: attaches a picture to your next request
/plan: shows the proposal or question that waits for you
/cost: costs and budget of the LLM
/trace [COUNT]: latest requests, proposals, confirmations and changes
/observe: archive, jobs and cameras in a few lines
/history [jsonl]: the steps on the archive with rewards; as JSON lines
/manual ACTION [JSON]: runs a verb of the archive or a tool of jobs, without a model
/agent: the blueprint of this chat
/switch [NAME]: chooses the blueprint for what the rules do not understand
/list: the blueprints
/show NAME: prints a blueprint
/create NAME [JOB]: creates a blueprint, a copy of the built-in one of a job
/help: this list, and example requests
/quit: ends the chat, as Ctrl-D does";

/// Commands that are taken without their slash, beside `manual` with an action: no request reads
/// like them.
const WITHOUT_SLASH: [&str; 5] = ["agent", "exit", "history", "observe", "quit"];
/// Events shown by `/events` without a number.
const EVENTS: u32 = 10;
/// Most events shown by one command.
const MAX_EVENTS: u32 = 500;
/// Trace entries shown by `/trace` without a number.
const ENTRIES: usize = 20;
/// Most trace entries shown by one command.
const MAX_ENTRIES: usize = 500;

/// Parses a line that begins with a slash, or one of [`WITHOUT_SLASH`]; `None` for any other line.
pub fn parse(line: &str) -> Option<ChatCommand> {
    let line = line.trim();
    if !line.starts_with('/') {
        let is_command = WITHOUT_SLASH.contains(&line) || line.starts_with("manual ");
        return parse(&is_command.then(|| format!("/{line}"))?);
    }
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    Some(match command {
        "/status" => ChatCommand::Status,
        "/streams" => ChatCommand::Streams,
        "/stop" | "/pause" | "/resume" => {
            // In a sentence, to stop is to pause.
            let verb = match command {
                "/stop" => "delete",
                other => other.trim_start_matches('/'),
            };
            ChatCommand::Say(format!("{verb} {rest}").trim().to_owned())
        }
        "/events" if rest.is_empty() => ChatCommand::Events(EVENTS),
        "/events" => match rest.parse() {
            Ok(count @ 1..=MAX_EVENTS) => ChatCommand::Events(count),
            _ => ChatCommand::Wrong(format!(
                "/events takes a number from 1 to {MAX_EVENTS}, such as /events 20"
            )),
        },
        "/reviews" => ChatCommand::Reviews,
        "/approve" => answer(AssessmentAnswer::Approve, command, rest),
        "/reject" => answer(AssessmentAnswer::Reject, command, rest),
        "/correct" => answer(AssessmentAnswer::Correct, command, rest),
        "/narrow" => narrow(rest),
        "/heartbeat" => heartbeat(rest),
        "/memory" if rest.is_empty() => ChatCommand::Wrong(
            "/memory needs words to search for, such as /memory loading dock".to_owned(),
        ),
        "/memory" => ChatCommand::Memory(rest.to_owned()),
        "/think" if rest.is_empty() => ChatCommand::Wrong(
            "/think needs a request, such as /think count the people at the desk".to_owned(),
        ),
        "/think" => think(rest),
        "/image" if rest.is_empty() => {
            ChatCommand::Wrong("/image needs a file, such as /image dock.jpg".to_owned())
        }
        "/image" => ChatCommand::Image(rest.to_owned()),
        "/plan" => ChatCommand::Plan,
        "/cost" => ChatCommand::Cost,
        "/trace" if rest.is_empty() => ChatCommand::Trace(ENTRIES),
        "/trace" => match rest.parse() {
            Ok(count @ 1..=MAX_ENTRIES) => ChatCommand::Trace(count),
            _ => ChatCommand::Wrong(format!(
                "/trace takes a number from 1 to {MAX_ENTRIES}, such as /trace 50"
            )),
        },
        "/observe" | "/history" | "/manual" | "/agent" | "/switch" | "/list" | "/show"
        | "/create" => match agent_command::parse(command, rest) {
            Ok(command) => ChatCommand::Agents(command),
            Err(why) => ChatCommand::Wrong(why),
        },
        "/help" | "/?" => ChatCommand::Help,
        "/quit" | "/exit" => ChatCommand::Quit,
        other => unknown_command(other),
    })
}

/// The command that a line means whose slash is missing, with its description.
pub fn without_slash(line: &str) -> Option<(&'static str, &'static str)> {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let command = format!("/{}", first.to_lowercase());
    let (name, _, about) = commands().find(|(name, ..)| *name == command)?;
    match parse(&format!("{command} {rest}")) {
        // A request is read without the slash too.
        None | Some(ChatCommand::Wrong(_) | ChatCommand::Say(_)) => None,
        Some(_) => Some((name, about)),
    }
}

/// The names of all commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    commands().map(|(name, ..)| name)
}

/// Name, usage and description of each command.
fn commands() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = COMMANDS.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(usage, about)| (usage.split(' ').next().unwrap_or(usage), usage, about))
}

/// Whether a line without a slash ends the chat.
pub fn is_bare_quit(line: &str) -> bool {
    ["quit", "exit"].contains(&line.trim().to_lowercase().as_str())
}

fn unknown_command(command: &str) -> ChatCommand {
    // The slash is part of every command and would make all of them similar.
    let known = names().map(|name| name.trim_start_matches('/'));
    let near = nearest(command.trim_start_matches('/'), known);
    let command: String = command.chars().take(40).collect();
    ChatCommand::Wrong(match near {
        Some(name) => format!("unknown command {command}; did you mean /{name}?"),
        None => format!("unknown command {command}; /help lists the commands"),
    })
}

fn heartbeat(rest: &str) -> ChatCommand {
    match rest {
        "" => ChatCommand::Heartbeat(None),
        "pause" => ChatCommand::Heartbeat(Some(true)),
        "resume" => ChatCommand::Heartbeat(Some(false)),
        _ => ChatCommand::Wrong("/heartbeat takes pause, resume or nothing".to_owned()),
    }
}

/// Parses the number of an event, and a note, a class or values by name.
fn answer(answer: AssessmentAnswer, command: &str, rest: &str) -> ChatCommand {
    let (number, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let words = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
    let corrects = answer == AssessmentAnswer::Correct;
    let is_complete = !corrects || words.is_some();
    let (fields, label, note) = match words.as_deref().and_then(parse_fields) {
        Some(fields) if corrects => (fields, None, None),
        _ if corrects => (BTreeMap::new(), words, None),
        _ => (BTreeMap::new(), None, words),
    };
    match number.parse() {
        Ok(seq) if is_complete => ChatCommand::Answer {
            seq,
            answer: PersonAnswer {
                answer,
                label,
                fields,
                note,
                name: None,
            },
        },
        _ => ChatCommand::Wrong(match corrects {
            true => format!(
                "{command} needs the number of an event, and a class or values: {command} 12 dog, \
                 {command} 12 plate=AB123"
            ),
            false => format!("{command} needs the number of an event, such as {command} 12"),
        }),
    }
}

/// Parses the name of a pipeline.
fn narrow(rest: &str) -> ChatCommand {
    match rest {
        "" => ChatCommand::Wrong(
            "/narrow needs a pipeline, such as /narrow gate; /streams lists them".to_owned(),
        ),
        pipeline => ChatCommand::Narrow(pipeline.to_owned()),
    }
}

/// Parses `@notes what came yesterday`: a blueprint name and the request.
fn think(rest: &str) -> ChatCommand {
    let Some(named) = rest.strip_prefix('@') else {
        return ChatCommand::Think {
            blueprint: None,
            text: rest.to_owned(),
        };
    };
    match named.split_once(char::is_whitespace) {
        Some((name, text)) if !name.is_empty() => ChatCommand::Think {
            blueprint: Some(name.to_owned()),
            text: text.trim().to_owned(),
        },
        _ => ChatCommand::Wrong(
            "/think @NAME needs a request after the name, such as /think @notes what came yesterday; \
             `watchkeeper blueprints list` shows the names"
                .to_owned(),
        ),
    }
}

/// Returns the list of commands, one per line.
pub fn help() -> String {
    let lines = commands().map(|(_, usage, about)| format!("{usage:18} {about}"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(line: &str) -> String {
        match parse(line) {
            Some(ChatCommand::Wrong(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn stop_and_pause_become_requests() {
        assert_eq!(
            parse("/pause gate-people"),
            Some(ChatCommand::Say("pause gate-people".to_owned()))
        );
        assert_eq!(
            parse(" /stop "),
            Some(ChatCommand::Say("delete".to_owned()))
        );
        assert_eq!(parse("pause gate"), None);
    }

    #[test]
    fn commands_that_no_request_reads_like_need_no_slash() {
        for line in [
            "agent",
            "exit",
            "history",
            "manual list {}",
            "observe",
            "quit",
        ] {
            assert_eq!(parse(line), parse(&format!("/{line}")), "{line}");
            assert!(parse(line).is_some(), "{line}");
        }
        assert_eq!(parse("history of the gate"), None);
    }

    #[test]
    fn every_listed_command_is_parsed() {
        assert_eq!(commands().count(), COMMANDS.lines().count());
        for (name, usage, _) in commands() {
            let line = match usage.strip_prefix(name).unwrap_or_default().trim() {
                "" => name.to_owned(),
                "[COUNT]" => format!("{name} 5"),
                "[pause|resume]" => format!("{name} pause"),
                "[jsonl]" => format!("{name} jsonl"),
                "NUMBER CLASS|NAME=VALUE" | "NUMBER [NOTE]" => format!("{name} 5 dog"),
                "[@NAME] TEXT" => format!("{name} @notes gate"),
                _ => format!("{name} gate"),
            };
            assert!(
                !matches!(parse(&line), None | Some(ChatCommand::Wrong(_))),
                "{line}"
            );
            assert!(help().contains(name));
        }
    }

    #[test]
    fn think_takes_an_optional_blueprint() {
        let think = |blueprint: Option<&str>, text: &str| {
            let blueprint = blueprint.map(str::to_owned);
            let text = text.to_owned();
            Some(ChatCommand::Think { blueprint, text })
        };
        assert_eq!(parse("/think count them"), think(None, "count them"));
        assert_eq!(
            parse("/think @notes  what came yesterday?"),
            think(Some("notes"), "what came yesterday?")
        );
        assert!(wrong("/think @notes").contains("after the name"));
        assert!(wrong("/think @ what").contains("blueprints list"));
    }

    #[test]
    fn correction_takes_a_class_or_values_by_name() {
        let given = |line: &str| match parse(line) {
            Some(ChatCommand::Answer { answer, .. }) => (answer.label, answer.fields),
            other => panic!("{line}: {other:?}"),
        };
        let (label, fields) = given("/correct 12 fire truck");
        assert_eq!((label.as_deref(), fields.len()), (Some("fire truck"), 0));
        let (label, fields) = given("/correct 12 plate=AB 123 colour=red");
        let expected = [("colour", "red"), ("plate", "AB 123")];
        assert!(
            fields
                .iter()
                .map(|(n, v)| (n.as_str(), v.as_str()))
                .eq(expected)
        );
        assert_eq!(label, None);
        assert!(wrong("/correct 12").contains("plate=AB123"));
    }

    #[test]
    fn command_without_its_slash_is_recognised() {
        let meant = |line| without_slash(line).map(|(name, _)| name);
        for (line, command) in [
            ("History", "/history"),
            ("manual list {}", "/manual"),
            ("show retriever", "/show"),
            ("create foo retriever", "/create"),
            ("list", "/list"),
        ] {
            assert_eq!(meant(line), Some(command), "{line}");
        }
        for line in [
            "show me the dock",
            "pause gate",
            "observe people",
            "dance",
            "",
        ] {
            assert_eq!(meant(line), None, "{line}");
        }
        assert!(is_bare_quit(" Exit") && is_bare_quit("quit") && !is_bare_quit("quit gate"));
    }

    #[test]
    fn mistyped_command_suggests_the_nearest() {
        assert!(wrong("/evnts").contains("did you mean /events?"));
        assert!(wrong("/dance").contains("/help"));
        assert!(wrong("/events many").contains("a number from 1 to 500"));
        assert!(wrong("/memory").contains("such as /memory"));
        assert!(wrong("/trace 0").contains("a number from 1 to 500"));
        assert!(wrong("/costs").contains("did you mean /cost?"));
    }
}
