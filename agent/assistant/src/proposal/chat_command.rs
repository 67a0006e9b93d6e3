//! The short commands of the chat.
//!
//! Invariant: none of them acts. Those that stop, pause or resume are requests like any other, with an offer and a yes.

use watchkeeper_plain::scene::nearest;

/// A short command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatCommand {
    /// How the runtime, its sources and its pipelines are.
    Status,
    /// The sources and pipelines.
    Streams,
    /// The latest events, so many.
    Events(u32),
    /// Notes that have to do with these words.
    Memory(String),
    /// What waits for a yes or an answer.
    Plan,
    /// What the model of language has cost, and what it may.
    Cost,
    /// The latest entries of the trace, so many.
    Trace(usize),
    /// A request that goes to the model, whatever the rules make of it.
    Think {
        /// The blueprint that it works by; absent: that of the set-up.
        blueprint: Option<String>,
        /// The words.
        text: String,
    },
    /// A picture that the next request is about.
    Image(String),
    /// What can be said.
    Help,
    /// The end.
    Quit,
    /// A request in words.
    Say(String),
    /// Something else, with what to type instead.
    Wrong(String),
}

/// Every command, what stands behind it, and what it does. Help and completion come from here.
pub const ALL: [(&str, &str, &str); 14] = [
    (
        "/status",
        "",
        "how the runtime, its cameras and its pipelines are",
    ),
    ("/streams", "", "the cameras and the pipelines on them"),
    ("/stop", "PIPELINE", "proposes to end a pipeline"),
    ("/pause", "PIPELINE", "proposes to pause it"),
    ("/resume", "PIPELINE", "proposes to let it go on"),
    ("/events", "[COUNT]", "the latest events"),
    ("/memory", "WORDS", "notes that have to do with these words"),
    (
        "/think",
        "[@NAME] TEXT",
        "lets the model of language look and propose, without the rules; by the blueprint of that name",
    ),
    ("/image", "FILE", "a picture that your next words are about"),
    ("/plan", "", "what waits for your yes, no or answer"),
    (
        "/cost",
        "",
        "what the model of language has cost, and what it may",
    ),
    (
        "/trace",
        "[COUNT]",
        "what was asked, proposed, confirmed and done last",
    ),
    ("/help", "", "this list, and examples of what can be said"),
    ("/quit", "", "the end; Ctrl-D too"),
];

/// Events that are shown where no number is said.
const EVENTS: u32 = 10;
/// Most events that are shown.
const MAX_EVENTS: u32 = 500;
/// Entries of the trace that are shown where no number is said.
const ENTRIES: usize = 20;
/// Most entries of the trace that are shown.
const MAX_ENTRIES: usize = 500;

/// The command in a line that begins with a slash; `None` where it doesn't.
#[must_use]
pub fn parse(line: &str) -> Option<ChatCommand> {
    let line = line.trim();
    if !line.starts_with('/') {
        return None;
    }
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    Some(match command {
        "/status" => ChatCommand::Status,
        "/streams" => ChatCommand::Streams,
        "/stop" | "/pause" | "/resume" => {
            let verb = command.trim_start_matches('/');
            ChatCommand::Say(format!("{verb} {rest}").trim().to_owned())
        }
        "/events" if rest.is_empty() => ChatCommand::Events(EVENTS),
        "/events" => match rest.parse() {
            Ok(count @ 1..=MAX_EVENTS) => ChatCommand::Events(count),
            _ => ChatCommand::Wrong(format!(
                "/events takes a number from 1 to {MAX_EVENTS}, such as /events 20"
            )),
        },
        "/memory" if rest.is_empty() => ChatCommand::Wrong(
            "/memory takes the words to look for, such as /memory loading dock".to_owned(),
        ),
        "/memory" => ChatCommand::Memory(rest.to_owned()),
        "/think" if rest.is_empty() => ChatCommand::Wrong(
            "/think takes what is to be set up, such as /think count the people at the desk"
                .to_owned(),
        ),
        "/think" => think(rest),
        "/image" if rest.is_empty() => {
            ChatCommand::Wrong("/image takes a file, such as /image dock.jpg".to_owned())
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
        "/help" | "/?" => ChatCommand::Help,
        "/quit" | "/exit" => ChatCommand::Quit,
        other => {
            let near = nearest(other, ALL.iter().map(|(name, ..)| *name));
            let other: String = other.chars().take(40).collect();
            ChatCommand::Wrong(match near {
                Some(name) => format!("there is no {other}; did you mean {name}?"),
                None => format!("there is no {other}; /help lists what there is"),
            })
        }
    })
}

/// `@archive what came yesterday`: a blueprint, and the words for it.
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
            "/think @NAME takes what is to be done after the name, such as /think @archive what came yesterday; \
             `watchkeeper blueprints list` has the names"
                .to_owned(),
        ),
    }
}

/// The list of commands, one a line.
#[must_use]
pub fn help() -> String {
    let line = |(name, takes, what): &(&str, &str, &str)| {
        let usage = format!("{name} {takes}");
        format!("{usage:18} {what}")
    };
    ALL.iter().map(line).collect::<Vec<_>>().join("\n")
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
    fn what_stops_and_pauses_is_a_request_in_words() {
        assert_eq!(
            parse("/pause gate-people"),
            Some(ChatCommand::Say("pause gate-people".to_owned()))
        );
        assert_eq!(parse(" /stop "), Some(ChatCommand::Say("stop".to_owned())));
        assert_eq!(parse("pause gate"), None);
    }

    #[test]
    fn every_command_of_the_list_is_understood() {
        for (name, takes, _) in ALL {
            let line = match takes {
                "" => name.to_owned(),
                "[COUNT]" => format!("{name} 5"),
                "[@NAME] TEXT" => format!("{name} @archive gate"),
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
    fn a_model_may_be_given_the_blueprint_it_works_by() {
        let think = |blueprint: Option<&str>, text: &str| {
            let blueprint = blueprint.map(str::to_owned);
            let text = text.to_owned();
            Some(ChatCommand::Think { blueprint, text })
        };
        assert_eq!(parse("/think count them"), think(None, "count them"));
        assert_eq!(
            parse("/think @archive  what came yesterday?"),
            think(Some("archive"), "what came yesterday?")
        );
        assert!(wrong("/think @archive").contains("after the name"));
        assert!(wrong("/think @ what").contains("blueprints list"));
    }

    #[test]
    fn a_mistyped_command_is_answered_with_the_one_that_may_be_meant() {
        assert!(wrong("/evnts").contains("did you mean /events?"));
        assert!(wrong("/dance").contains("/help"));
        assert!(wrong("/events many").contains("a number from 1 to 500"));
        assert!(wrong("/memory").contains("such as /memory"));
        assert!(wrong("/trace 0").contains("a number from 1 to 500"));
        assert!(wrong("/costs").contains("did you mean /cost?"));
    }
}
