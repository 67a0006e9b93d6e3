//! `watchkeeper chat`: a session on the terminal, or line by line from a program.
//!
//! - A failed request does not end the chat; the user or an unreadable line does.
//! - Alerts appear above the line that is being typed; a program gets them with `--alerts` only.
//! - On a terminal, Ctrl-C cancels the current request, but never a confirmed change.

mod alerts;
mod lines;

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use watchkeeper_config::Config;

use super::args::ChatArgs;
use super::exit::Failure;
use super::jobs;
use super::output::Output;
use super::state_folder::state_folder;
use super::user_llm::session_deps;
use lines::{Line, Lines};
use watchkeeper_assistant::failure;
use watchkeeper_assistant::operations::trajectory::StepOutcome;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::agent_command::AgentCommand;
use watchkeeper_assistant::proposal::chat_command::{self, ChatCommand};
use watchkeeper_assistant::proposal::snapshot::SystemSnapshot;
use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink as _};
use watchkeeper_assistant::session::short_command::CommandResult;
use watchkeeper_assistant::session::user_session::{Session, SessionDeps};
use watchkeeper_client::RuntimeClient;

pub(super) async fn run(
    client: RuntimeClient,
    config: &Config,
    args: ChatArgs,
    out: &Output,
) -> Result<(), Failure> {
    let history = state_folder()
        .ok()
        .map(|folder| folder.join("chat.history"));
    let mut chat = Chat {
        session: Session::new(SessionDeps {
            job_tools: jobs::tool_names(),
            ..session_deps(client, config, Entrypoint::Chat, out)
        })?,
        config,
        out,
    };
    chat.session.switch_blueprint(args.blueprint.as_deref())?;
    let mut lines = Lines::open(history, out.is_json());
    alerts::start(config, args.alerts, &mut lines, out);
    // Without a terminal, the signal ends the process.
    let mut interrupts = match lines.is_terminal() {
        true => signal(SignalKind::interrupt()).ok(),
        false => None,
    };
    // Whether the previous input was Ctrl-C.
    let mut was_interrupted = false;
    if lines.is_terminal() {
        out.line(chat.greeting());
    }
    while !out.is_closed() {
        if lines.is_terminal() {
            // Only for completion; the next request reports errors.
            let snapshot = chat.session.fetch_snapshot().await.ok();
            lines.set_names(snapshot.map(|snapshot| names(&snapshot)));
        }
        match lines.next(chat.prompt()) {
            Line::Text(text) => match chat.turn(&text, next_interrupt(&mut interrupts)).await {
                Turn::End => break,
                turn => was_interrupted = turn == Turn::Cancelled,
            },
            Line::Interrupted if was_interrupted => break,
            Line::Interrupted => {
                was_interrupted = true;
                out.line("To quit: Ctrl-C again, Ctrl-D or /quit. Nothing was changed.");
            }
            Line::End => break,
            Line::Unreadable(why) => return Err(Failure::input(why)),
        }
    }
    lines.close();
    Ok(())
}

/// Waits for the next Ctrl-C; forever without a signal handler.
async fn next_interrupt(interrupts: &mut Option<Signal>) {
    match interrupts {
        Some(signal) => {
            // Discard what was pressed while no request was running.
            while signal.recv().now_or_never().flatten().is_some() {}
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Returns the ids of cameras and pipelines, for completion.
fn names(here: &SystemSnapshot) -> Vec<String> {
    let sources = here.sources.iter().map(|s| s.spec.id.to_string());
    let pipelines = here.pipelines.iter().map(|p| p.spec.id.to_string());
    sources.chain(pipelines).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Done,
    /// The user cancelled the request.
    Cancelled,
    End,
}

struct Chat<'o> {
    session: Session,
    config: &'o Config,
    out: &'o Output,
}

impl Chat<'_> {
    fn greeting(&self) -> String {
        let rules = self.session.approval_rules();
        let exception = match rules.is_empty() {
            true => String::new(),
            false => format!(
                " ({} applies without: {})",
                rules.key(),
                rules.names().join(", ")
            ),
        };
        format!(
            "Type what to watch or what you want to know. /help shows examples, /quit ends. \
             Nothing changes before you say yes{exception}."
        )
    }

    fn prompt(&self) -> &'static str {
        match (
            self.session.conversation.shown(),
            self.session.conversation.question(),
        ) {
            (Some(_), _) => "yes or no> ",
            (None, Some(_)) => "answer> ",
            (None, None) => "> ",
        }
    }

    /// Handles a line, until `cancelled` completes.
    async fn turn(&mut self, line: &str, cancelled: impl Future<Output = ()>) -> Turn {
        let command = chat_command::parse(line);
        // Where an answer is awaited, "exit" may be the name of a camera.
        let is_bare_quit = self.session.is_idle() && chat_command::is_bare_quit(line);
        if command == Some(ChatCommand::Quit) || is_bare_quit {
            return Turn::End;
        }
        if command.is_none() && self.session.takes_jobs() && jobs::serves(line, self.config) {
            if let Err(error) = self.session.drop_waiting().await {
                self.out.report(ProgressEvent::Failure(&error.into()));
                return Turn::Done;
            }
            return self.organise(line.to_owned(), cancelled).await;
        }
        if let Some(ChatCommand::Agents(AgentCommand::Manual { action, parameters })) = &command
            && jobs::tool_names().contains(&action.as_str())
        {
            let (tool, given) = (action.clone(), parameters.clone());
            let run = move |config: &Config, flag: &AtomicBool, out: &Output| {
                jobs::run_tool(&tool, &given, config, flag, out)
            };
            let (ended, turn) = self.run_job(run, cancelled).await;
            let (outcome, result) = match &ended {
                Ok(()) => (StepOutcome::Done, "done".to_owned()),
                Err(failure) => (StepOutcome::Failed, failure.to_string().replace('\n', ";")),
            };
            let given = serde_json::from_str(parameters).unwrap_or_default();
            self.session.record_step(action, &given, outcome, &result);
            return turn;
        }
        let before = self.session.conversation.shown().cloned();
        let mut cancelled = pin!(cancelled);
        let understood = self.understand(command, line);
        let Some(result) = unless(cancelled.as_mut(), understood).await else {
            self.out.report(ProgressEvent::Idle);
            self.out.line(
                "Cancelled; nothing was changed. Repeat the request within 1 h to resume a language model's work.",
            );
            if let Some(shown) = self.session.conversation.shown() {
                let pending = format!("Still pending, yes or no: {}", shown.full_request());
                self.out.line(pending);
            }
            return Turn::Cancelled;
        };
        let finished = match result {
            Ok(CommandResult::Reply(reply, here)) => {
                self.session.deliver(before.as_ref(), *reply, &here).await
            }
            Ok(CommandResult::Organise(request)) => return self.organise(request, cancelled).await,
            Ok(CommandResult::Done) => Ok(()),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = finished {
            self.out.report(ProgressEvent::Failure(&failure));
        }
        self.session.settle();
        Turn::Done
    }

    /// Runs a request to organise pictures as a job. It changes nothing that watches, so it needs
    /// no yes.
    async fn organise(&self, line: String, cancelled: impl Future<Output = ()>) -> Turn {
        let run = move |config: &Config, flag: &AtomicBool, out: &Output| {
            jobs::answer_in_chat(&line, config, flag, out)
        };
        self.run_job(run, cancelled).await.1
    }

    /// Runs a job on a thread that may block, until it ends or is cancelled; prints its failure.
    async fn run_job(
        &self,
        run: impl FnOnce(&Config, &AtomicBool, &Output) -> Result<(), Failure> + Send + 'static,
        cancelled: impl Future<Output = ()>,
    ) -> (Result<(), Failure>, Turn) {
        let flag = Arc::new(AtomicBool::new(false));
        let (config, out, of_job) = (self.config.clone(), self.out.clone(), Arc::clone(&flag));
        let mut job = tokio::task::spawn_blocking(move || run(&config, &of_job, &out));
        let (ended, turn) = tokio::select! {
            ended = &mut job => (ended, Turn::Done),
            () = cancelled => {
                flag.store(true, Ordering::Relaxed);
                (job.await, Turn::Cancelled)
            }
        };
        let ended = ended.unwrap_or_else(|error| {
            let sentence = format!("the job broke off: {error}");
            Err(Failure::failed(sentence))
        });
        if let Err(failure) = &ended {
            self.out.failure(failure);
        }
        (ended, turn)
    }

    async fn understand(
        &mut self,
        command: Option<ChatCommand>,
        line: &str,
    ) -> Result<CommandResult, failure::Error> {
        match command {
            Some(ChatCommand::Image(path)) => {
                self.session.attach_file(Path::new(&path))?;
                Ok(CommandResult::Done)
            }
            Some(command) => self.session.run_command(command).await,
            None => self.session.handle_input(line).await,
        }
    }
}

/// Returns the result of `work`, or `None` if `cancelled` completes first. If both are ready,
/// `work` wins.
async fn unless<T>(
    cancelled: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = cancelled => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn cancel_ends_pending_work_but_not_finished_work() {
        assert_eq!(unless(ready(()), pending::<u8>()).await, None);
        assert_eq!(unless(ready(()), ready(1)).await, Some(1));
        assert_eq!(unless(pending(), ready(1)).await, Some(1));
    }

    #[tokio::test]
    async fn interrupt_without_a_handler_never_comes() {
        assert!(next_interrupt(&mut None).now_or_never().is_none());
    }
}
