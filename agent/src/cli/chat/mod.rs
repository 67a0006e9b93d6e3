//! `watchkeeper chat`: a conversation in plain words on the terminal, or line by line from a program.
//!
//! Invariant: whatever fails, the conversation goes on; it ends when the person ends it.

mod lines;

use std::path::Path;

use watchkeeper_config::Config;
use watchkeeper_plain::answer::Looked;
use watchkeeper_plain::intent::Look;

use super::args::EventArgs;
use super::events;
use super::exit::Failure;
use super::output::Output;
use super::persons_model::parts;
use super::state_folder::state_folder;
use crate::assistant::situation::Situation;
use crate::assistant::slash::{self, Slash};
use crate::dialogue::assist::Assist;
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
        assist: Assist::new(parts(client.clone(), config, Channel::Chat, out))?,
        client,
        out,
    };
    let mut lines = Lines::open(history, out.is_json());
    if lines.is_terminal() {
        out.line("Say what to watch, or what you want to know; /help has examples, /quit ends. Nothing is changed before you say yes.");
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
    client: RuntimeClient,
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
        let outcome = match slash::parse(line) {
            Some(Slash::Quit) => return Turn::End,
            Some(Slash::Say(text)) => self.say(&text).await,
            Some(slash) => self.command(slash).await,
            None => self.say(line).await,
        };
        if let Err(failure) = outcome {
            self.fail(&failure);
        }
        self.assist.settle();
        Turn::GoOn
    }

    fn fail(&self, failure: &Failure) {
        self.out.tell(Told::Failure(failure));
    }

    async fn command(&mut self, slash: Slash) -> Result<(), Failure> {
        let out = self.out;
        match slash {
            Slash::Status => {
                let here = self.assist.situation().await?;
                self.look(Look::Status(None), &here).await
            }
            Slash::Streams => {
                let here = self.assist.situation().await?;
                for look in [Look::Cameras, Look::Pipelines] {
                    self.look(look, &here).await?;
                    out.line("");
                }
                Ok(())
            }
            Slash::Events(limit) => {
                let args = EventArgs {
                    action: None,
                    follow: false,
                    after: None,
                    limit,
                };
                events::run(args, &self.client, out).await
            }
            Slash::Memory(words) => {
                let found = self.assist.search_memory(&words)?;
                out.tell(Told::Notes(&found));
                Ok(())
            }
            Slash::Plan => {
                let conversation = &self.assist.conversation;
                let text = match (conversation.shown(), conversation.question()) {
                    (Some(shown), _) => format!("Waits for your yes or no: {}", shown.request),
                    (None, Some(question)) => format!("Waits for your answer: {}", question.text),
                    (None, None) => "Nothing waits.".to_owned(),
                };
                out.tell(Told::Text(&text));
                Ok(())
            }
            Slash::Help => {
                out.line(slash::help());
                self.say("help").await
            }
            Slash::Wrong(why) => Err(Failure::input(why)),
            Slash::Say(text) => self.say(&text).await,
            Slash::Think(text) => self.think(&text).await,
            Slash::Image(path) => self.assist.attach_file(Path::new(&path)),
            Slash::Quit => Ok(()),
        }
    }

    async fn look(&self, look: Look, here: &Situation) -> Result<(), Failure> {
        let looked = Looked {
            look,
            text: "Nothing is deployed.".to_owned(),
            not_understood: Vec::new(),
        };
        self.assist.look(&looked, here).await
    }

    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        let before = self.assist.conversation.shown().cloned();
        let (reply, here) = self.assist.hear(text).await?;
        self.assist.tell(before.as_ref(), reply, &here).await
    }

    async fn think(&mut self, text: &str) -> Result<(), Failure> {
        let before = self.assist.conversation.shown().cloned();
        let (reply, here) = self.assist.think(text, None).await?;
        self.assist.tell(before.as_ref(), reply, &here).await
    }
}
