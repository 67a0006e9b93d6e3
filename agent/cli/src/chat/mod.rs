//! `watchkeeper chat`: a conversation in plain words on the terminal, or line by line from a program.
//!
//! Invariants: whatever fails, the conversation goes on; it ends when the person ends it. On a terminal Ctrl-C gives up the request that is worked on, and never what was
//! confirmed, which is carried out to its end.

mod lines;

use std::path::Path;

use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use watchkeeper_config::Config;

use super::exit::Failure;
use super::output::Output;
use super::state_folder::state_folder;
use super::user_llm::parts;
use lines::{Line, Lines};
use watchkeeper_assistant::failure;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::chat_command::{self, ChatCommand};
use watchkeeper_assistant::proposal::snapshot::SystemSnapshot;
use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink as _};
use watchkeeper_assistant::session::short_command::CommandResult;
use watchkeeper_assistant::session::user_session::Session;
use watchkeeper_client::RuntimeClient;

/// Carries out the command.
pub(super) async fn run(
    client: RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let history = state_folder()
        .ok()
        .map(|folder| folder.join("chat.history"));
    let mut chat = Chat {
        assist: Session::new(parts(client, config, Entrypoint::Chat, out))?,
        out,
    };
    let mut lines = Lines::open(history, out.is_json());
    // Whoever reads from a pipe is ended by the signal, as any program.
    let mut breaks = match lines.is_terminal() {
        true => signal(SignalKind::interrupt()).ok(),
        false => None,
    };
    // Whether Ctrl-C was the last thing that was heard.
    let mut is_second = false;
    if lines.is_terminal() {
        let policy = chat.assist.approval_rules();
        let but = match policy.is_empty() {
            true => String::new(),
            false => format!(
                " ({} does without: {})",
                policy.key(),
                policy.names().join(", ")
            ),
        };
        out.line(format!("Say what to watch, or what you want to know; /help has examples, /quit ends. Nothing is changed before you say yes{but}."));
    }
    while !out.is_closed() {
        if lines.is_terminal() {
            // For the completion of names only: the answer tells what is wrong, if anything is.
            lines.names(
                chat.assist
                    .fetch_snapshot()
                    .await
                    .ok()
                    .map(|here| names(&here)),
            );
        }
        match lines.next(chat.prompt()) {
            Line::Text(text) => match chat.turn(&text, break_of(&mut breaks)).await {
                Turn::End => break,
                turn => is_second = turn == Turn::BrokenOff,
            },
            Line::Interrupted if is_second => break,
            Line::Interrupted => {
                is_second = true;
                out.line("Ctrl-C again, Ctrl-D or /quit ends; nothing was changed.");
            }
            Line::End => break,
            Line::Broken(why) => return Err(Failure::input(why)),
        }
    }
    lines.close();
    Ok(())
}

/// Comes when the person presses Ctrl-C from now on; never where nobody listens for it.
async fn break_of(breaks: &mut Option<Signal>) {
    match breaks {
        Some(signal) => {
            // What was pressed while nothing was worked on is over.
            while signal.recv().now_or_never().flatten().is_some() {}
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// What completion knows besides the commands.
fn names(here: &SystemSnapshot) -> Vec<String> {
    let sources = here.sources.iter().map(|s| s.spec.id.to_string());
    let pipelines = here.pipelines.iter().map(|p| p.spec.id.to_string());
    sources.chain(pipelines).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Turn {
    GoOn,
    /// The person gave the request up.
    BrokenOff,
    End,
}

struct Chat<'o> {
    assist: Session,
    out: &'o Output,
}

impl Chat<'_> {
    fn prompt(&self) -> &'static str {
        let conversation = &self.assist.conversation;
        match (conversation.shown(), conversation.question()) {
            (Some(_), _) => "yes or no> ",
            (None, Some(_)) => "answer> ",
            (None, None) => "> ",
        }
    }

    /// Hears a line, until `broken_off` comes.
    async fn turn(&mut self, line: &str, broken_off: impl Future<Output = ()>) -> Turn {
        let command = chat_command::parse(line);
        if command == Some(ChatCommand::Quit) {
            return Turn::End;
        }
        let before = self.assist.conversation.shown().cloned();
        let Some(came) = unless(broken_off, self.understand(command, line)).await else {
            self.out.report(ProgressEvent::Idle);
            self.out.line("Given up; nothing was changed. The same words within an hour go on where a model was.");
            if let Some(shown) = self.assist.conversation.shown() {
                let waits = format!(
                    "What still waits for your yes or no is: {}",
                    shown.full_request()
                );
                self.out.line(waits);
            }
            return Turn::BrokenOff;
        };
        let told = match came {
            Ok(CommandResult::Reply(reply, here)) => {
                self.assist.deliver(before.as_ref(), *reply, &here).await
            }
            Ok(CommandResult::Done) => Ok(()),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = told {
            self.fail(&failure);
        }
        self.assist.settle();
        Turn::GoOn
    }

    async fn understand(
        &mut self,
        command: Option<ChatCommand>,
        line: &str,
    ) -> Result<CommandResult, failure::Error> {
        match command {
            Some(ChatCommand::Image(path)) => {
                self.assist.attach_file(Path::new(&path))?;
                Ok(CommandResult::Done)
            }
            Some(command) => self.assist.run_command(command).await,
            None => self.assist.handle_input(line).await,
        }
    }

    fn fail(&self, failure: &failure::Error) {
        self.out.report(ProgressEvent::Failure(failure));
    }
}

/// What comes of `work`, unless `broken_off` comes before. Where both are there, the work counts.
async fn unless<T>(
    broken_off: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = broken_off => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_break_ends_what_is_worked_on_and_not_what_is_done() {
        assert_eq!(unless(ready(()), pending::<u8>()).await, None);
        assert_eq!(unless(ready(()), ready(1)).await, Some(1));
        assert_eq!(unless(pending(), ready(1)).await, Some(1));
    }

    #[tokio::test]
    async fn where_nobody_listens_nothing_is_broken_off() {
        assert!(break_of(&mut None).now_or_never().is_none());
    }
}
