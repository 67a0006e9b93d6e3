//! `watchkeeper ask`: one request with its answer or proposal, and the confirmation of a proposal.
//!
//! - A proposal is printed and kept for `--confirm`; with a flag a complete one is confirmed at
//!   once.
//! - A box that has changed since the proposal is left unchanged, and the new proposal is kept.
//! - Not here: what a request means (`assistant`).

use serde_json::json;
use watchkeeper_config::Config;
use watchkeeper_contract::id::PipelineId;

use super::args::AskArgs;
use super::exit::Failure;
use super::jobs;
use super::output::Output;
use super::state_folder::state_folder;
use super::user_llm::session_deps;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::checked_proposal::CheckedProposal;
use watchkeeper_assistant::proposal::conversation::Reply;
use watchkeeper_assistant::proposal::pending::PendingProposals;
use watchkeeper_assistant::proposal::snapshot::SystemSnapshot;
use watchkeeper_assistant::session::short_command::CommandResult;
use watchkeeper_assistant::session::user_session::{ProposalStore, Session};
use watchkeeper_client::RuntimeClient;
use watchkeeper_plain::{Missing, Question};

pub(super) async fn run(
    args: &AskArgs,
    client: RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let text = args.text.join(" ");
    if is_plain(args) && jobs::serves(&text, config) {
        return organise(text, config, out).await;
    }
    let mut ask = Ask::new(client, config, out)?;
    ask.session.request_time = args.at;
    ask.session.runs_trials = !args.yes;
    let result = match &args.confirm {
        Some(id) => ask.confirm(id, config).await,
        None => {
            for file in &args.image {
                ask.session.attach_file(file)?;
            }
            ask.request(&text, args).await
        }
    };
    ask.session.settle();
    result
}

/// Returns whether a request comes without flags, which a job would ignore.
fn is_plain(args: &AskArgs) -> bool {
    let has_flag = args.think || args.at.is_some() || args.blueprint.is_some();
    args.confirm.is_none() && args.image.is_empty() && !has_flag
}

/// Runs a request to organise pictures as a job. It changes nothing that watches.
async fn organise(text: String, config: &Config, out: &Output) -> Result<(), Failure> {
    let (config, out) = (config.clone(), out.clone());
    let job = tokio::task::spawn_blocking(move || jobs::answer(&text, &config, &out)).await;
    job.unwrap_or_else(|error| Err(Failure::failed(format!("the job broke off: {error}"))))
}

/// Proposes to narrow the rules of a pipeline; with `apply` the proposal is confirmed at once.
pub(super) async fn narrow(
    pipeline: &PipelineId,
    apply: bool,
    client: RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let mut ask = Ask::new(client, config, out)?;
    let (reply, here) = ask.session.propose_narrowing(pipeline.as_str()).await?;
    let Reply::Proposal(offer) = reply else {
        return ask.finish(reply, &here).await;
    };
    if !apply {
        return ask.keep(&offer, &here).map(drop);
    }
    ask.confirm_at_once(&offer, "--apply").await
}

/// How to answer a question; none where nothing was asked, or the whole request has to change.
fn hint(question: &Question) -> Option<&'static str> {
    let is_answerable = !matches!(question.about, Missing::Picture | Missing::Meaning);
    is_answerable.then_some("repeat the whole request with the answer, or use `watchkeeper chat`")
}

/// The end of a request, which fails where actions wait that `--yes` does not confirm.
fn done_unless(they_wait: bool) -> Result<(), Failure> {
    match they_wait {
        true => Err(Failure::input(
            "--yes does not apply to it: nothing was done; confirm it by its id",
        )),
        false => Ok(()),
    }
}

struct Ask<'o> {
    session: Session,
    out: &'o Output,
    pending: PendingProposals,
}

impl<'o> Ask<'o> {
    fn new(client: RuntimeClient, config: &Config, out: &'o Output) -> Result<Self, Failure> {
        let pending = PendingProposals::new(&state_folder()?);
        let session = Session::new(session_deps(client, config, Entrypoint::Ask, out))?;
        let store = ProposalStore {
            pending: pending.clone(),
            requester: None,
            id: None,
        };
        Ok(Self {
            session: session.with_store(store),
            out,
            pending,
        })
    }

    async fn request(&mut self, text: &str, args: &AskArgs) -> Result<(), Failure> {
        let (reply, here) = if args.think || args.blueprint.is_some() {
            self.session.think(text, args.blueprint.as_deref()).await?
        } else {
            if args.at.is_none() && self.session.handle_operation(text).await?.is_some() {
                return done_unless(args.yes && self.session.pending_id().is_some());
            }
            self.session.handle_request(text).await?
        };
        let Reply::Proposal(offer) = reply else {
            let is_action = matches!(reply, Reply::Actions(..));
            self.finish(reply, &here).await?;
            return done_unless(args.yes && is_action);
        };
        if !args.yes {
            return self.keep(&offer, &here).map(drop);
        }
        if self.session.is_llm_reply {
            self.session.show_proposal(&offer, None, "");
            return Err(Failure::input(
                "--yes does not apply to the words of a language model: run without --yes, then confirm the proposal",
            ));
        }
        self.confirm_at_once(&offer, "--yes").await
    }

    /// Shows a proposal and confirms it, if it is complete; `flag` asked for that.
    async fn confirm_at_once(
        &mut self,
        offer: &CheckedProposal,
        flag: &str,
    ) -> Result<(), Failure> {
        self.session.show_proposal(offer, None, "");
        if !offer.is_complete() {
            return Err(Failure::input(format!(
                "{flag} applies whole requests only, and part of this one was not understood or can't be done: rephrase it without that part, or run without {flag} and confirm the proposal",
            )));
        }
        let (reply, here) = self.session.handle_text("yes").await?;
        self.finish(reply, &here).await
    }

    async fn confirm(&mut self, id: &str, config: &Config) -> Result<(), Failure> {
        // First, so that an unreachable runtime does not consume the proposal.
        let here = self.session.fetch_snapshot().await?;
        let socket = self.session.socket().to_path_buf();
        let shown = self.pending.take(id, &socket, here.now.timestamp())?;
        self.session.conversation.wait_for(shown);
        match self.session.handle_operation("yes").await? {
            Some(CommandResult::Organise(request)) => organise(request, config, self.out).await,
            Some(CommandResult::Done | CommandResult::Reply(..)) => Ok(()),
            // It waits for the yes to a change of pipelines.
            None => {
                let (reply, here) = self.session.handle_text("yes").await?;
                self.finish(reply, &here).await
            }
        }
    }

    /// Delivers a reply; a question or a proposal needs another command.
    async fn finish(&mut self, reply: Reply, here: &SystemSnapshot) -> Result<(), Failure> {
        match reply {
            Reply::Proposal(offer) | Reply::ChangedProposal(offer) => {
                let id = self.keep(&offer, here)?;
                Err(Failure::failed(format!(
                    "nothing was changed: the box has changed since the proposal. To apply the new one: watchkeeper ask --confirm {id}"
                )))
            }
            Reply::Ask(question) => {
                self.out.object(&json!({"type": "question", "text": question.text, "choices": question.choices}));
                let error = Session::question_error(&question, here);
                Err(error.with(hint(&question).map(str::to_owned)))
            }
            Reply::NothingPending | Reply::Dropped => Err(Failure::input(
                "no proposal is pending here; to apply one: watchkeeper ask --confirm ID",
            )),
            Reply::Empty | Reply::ProbeCameras(_) => Err(Failure::input(
                "the request is empty; for examples: watchkeeper ask \"what can I say\"",
            )),
            reply => Ok(self.session.deliver(None, reply, here).await?),
        }
    }

    /// Prints a proposal and saves it for `--confirm`; returns its id.
    fn keep(&self, offer: &CheckedProposal, here: &SystemSnapshot) -> Result<String, Failure> {
        let Some(shown) = self.session.conversation.shown() else {
            return Err(Failure::failed("the proposal is gone; ask again"));
        };
        let socket = self.session.socket();
        let id = self
            .pending
            .keep(socket, shown, None, here.now.timestamp())?;
        let hint =
            format!("Nothing changed yet. To apply (valid 1 h): watchkeeper ask --confirm {id}");
        self.session.show_proposal(offer, Some(&id), &hint);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_wanted_only_where_something_was_asked() {
        let hint_of = |about| {
            hint(&Question {
                about,
                text: String::new(),
                choices: Vec::new(),
                request: String::new(),
            })
        };
        assert!(hint_of(Missing::Camera).is_some_and(|hint| hint.contains("with the answer")));
        assert_eq!(hint_of(Missing::Picture), None);
        assert_eq!(hint_of(Missing::Meaning), None);
    }
}
