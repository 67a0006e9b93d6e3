//! `watchkeeper chat`: a conversation in plain words on the terminal, or line by line from a program.
//!
//! Invariant: whatever fails, the conversation goes on; it ends when the person ends it.

mod lines;

use std::path::Path;

use watchkeeper_config::Config;

use super::exit::Failure;
use super::output::Output;
use super::persons_model::parts;
use super::state_folder::state_folder;
use crate::assistant::situation::Situation;
use crate::assistant::slash::{self, Slash};
use crate::dialogue::assist::Assist;
use crate::dialogue::short::Came;
use crate::dialogue::told::{Teller as _, Told};
use crate::runtime_client::RuntimeClient;
use crate::setter::gate::Channel;
use lines::{Line, Lines};

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
        assist: Assist::new(parts(client, config, Channel::Chat, out))?,
        out,
    };
    let mut lines = Lines::open(history, out.is_json());
    if lines.is_terminal() {
        let policy = chat.assist.policy();
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
            lines.names(chat.assist.situation().await.ok().map(|here| names(&here)));
        }
        match lines.next(chat.prompt()) {
            Line::Text(text) => {
                if chat.turn(&text).await == Turn::End {
                    break;
                }
            }
            Line::Interrupted => out.line("/quit or Ctrl-D ends; nothing was changed."),
            Line::End => break,
            Line::Broken(why) => return Err(Failure::input(why)),
        }
    }
    lines.close();
    Ok(())
}

/// What completion knows besides the commands.
fn names(here: &Situation) -> Vec<String> {
    let sources = here.sources.iter().map(|s| s.spec.id.to_string());
    let pipelines = here.pipelines.iter().map(|p| p.spec.id.to_string());
    sources.chain(pipelines).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Turn {
    GoOn,
    End,
}

struct Chat<'o> {
    assist: Assist,
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

    async fn turn(&mut self, line: &str) -> Turn {
        let command = slash::parse(line);
        if command == Some(Slash::Quit) {
            return Turn::End;
        }
        if let Err(failure) = self.hear(command, line).await {
            self.fail(&failure);
        }
        self.assist.settle();
        Turn::GoOn
    }

    async fn hear(&mut self, command: Option<Slash>, line: &str) -> Result<(), Failure> {
        let before = self.assist.conversation.shown().cloned();
        let came = match command {
            Some(Slash::Image(path)) => {
                self.assist.attach_file(Path::new(&path))?;
                Came::Told
            }
            Some(command) => self.assist.short(command).await?,
            None => self.assist.take(line).await?,
        };
        match came {
            Came::Reply(reply, here) => self.assist.tell(before.as_ref(), *reply, &here).await,
            Came::Told => Ok(()),
        }
    }

    fn fail(&self, failure: &Failure) {
        self.out.tell(Told::Failure(failure));
    }
}
