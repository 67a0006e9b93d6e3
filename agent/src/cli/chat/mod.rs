//! `watchkeeper chat`: a conversation in plain words on the terminal, or line by line from a program.
//!
//! Invariant: whatever fails, the conversation goes on; it ends when the person ends it.

mod lines;

use std::path::Path;

use serde_json::json;
use watchkeeper_config::Config;
use watchkeeper_plain::answer::Looked;
use watchkeeper_plain::intent::Look;

use super::args::EventArgs;
use super::assist::Assist;
use super::events;
use super::exit::Failure;
use super::output::Output;
use super::state_folder::state_folder;
use crate::assistant::conversation::{Reply, Shown};
use crate::assistant::situation::Situation;
use crate::assistant::slash::{self, Slash};
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
        assist: Assist::new(client, config, Channel::Chat, out)?,
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
    assist: Assist<'o>,
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
        let out = self.assist.out;
        let object = json!({
            "type": "failure", "message": failure.sentence, "details": failure.details, "exit": failure.exit.code(),
        });
        out.both(&object, || failure.to_string());
    }

    async fn command(&mut self, slash: Slash) -> Result<(), Failure> {
        let out = self.assist.out;
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
                events::run(args, &self.assist.client, out).await
            }
            Slash::Memory(words) => self.assist.search_memory(&words),
            Slash::Plan => {
                let conversation = &self.assist.conversation;
                let text = match (conversation.shown(), conversation.question()) {
                    (Some(shown), _) => format!("Waits for your yes or no: {}", shown.request),
                    (None, Some(question)) => format!("Waits for your answer: {}", question.text),
                    (None, None) => "Nothing waits.".to_owned(),
                };
                out.both(&json!({"type": "answer", "text": text}), || text.clone());
                Ok(())
            }
            Slash::Help => {
                out.line(slash::help());
                self.say("help").await
            }
            Slash::Wrong(why) => Err(Failure::input(why)),
            Slash::Say(text) => self.say(&text).await,
            Slash::Think(text) => self.think(&text).await,
            Slash::Image(path) => self.assist.attach(Path::new(&path)),
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
        self.tell(before.as_ref(), reply, &here).await
    }

    async fn think(&mut self, text: &str) -> Result<(), Failure> {
        let before = self.assist.conversation.shown().cloned();
        let (reply, here) = self.assist.think(text).await?;
        self.tell(before.as_ref(), reply, &here).await
    }

    /// Tells what came of a text. `before` waited for a yes when it was said.
    async fn tell(
        &mut self,
        before: Option<&Shown>,
        reply: Reply,
        here: &Situation,
    ) -> Result<(), Failure> {
        let shown = self.assist.conversation.shown();
        let waits = shown.is_some();
        let is_answer = matches!(reply, Reply::Apply(_) | Reply::Dropped | Reply::Anew(_));
        let out = self.assist.out;
        if before.is_some() && shown != before && !is_answer {
            out.note("the proposal before this is put aside");
        }
        match reply {
            Reply::Offer(offer) => {
                self.assist
                    .show_offer(&offer, None, "Shall I do that? yes or no");
                Ok(())
            }
            Reply::Anew(offer) => {
                out.note("what runs has changed since, or it is too long ago: nothing was done, and this is the proposal as it is now");
                self.assist
                    .show_offer(&offer, None, "Shall I do that? yes or no");
                Ok(())
            }
            Reply::Apply(offer) => self.assist.apply(&offer).await,
            Reply::Unsound(offer, why) => {
                self.assist.show_offer(&offer, None, "");
                Err(Failure::input(format!(
                    "This can't be confirmed, because {why}."
                )))
            }
            Reply::Look(looked) => {
                self.assist.look(&looked, here).await?;
                if waits {
                    out.line("The proposal still waits: yes or no.");
                }
                Ok(())
            }
            Reply::Remember(kind, words) => self.assist.remember(kind, &words),
            Reply::Ask(question) => {
                out.object(&json!({"type": "question", "text": question.text, "choices": question.choices}));
                out.line(Assist::question(&question, here).to_string());
                Ok(())
            }
            Reply::Answer(text) => {
                self.assist.answer(&text);
                Ok(())
            }
            Reply::Unknown(unknown) => Err(Assist::unknown(&unknown)),
            Reply::TooLong(error) => Err(Failure::input(error.to_string())),
            Reply::Dropped => {
                let text = "Put aside. Nothing was changed.";
                out.both(&json!({"type": "dropped"}), || text.to_owned());
                Ok(())
            }
            Reply::NothingWaits => Err(Failure::input(
                "Nothing waits for a yes or a no. Say what to watch, or what you want to know; /help has examples.",
            )),
            Reply::Silence | Reply::See(_) => Ok(()),
        }
    }
}
