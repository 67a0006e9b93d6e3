//! `watchkeeper ask`: one request, its answer or proposal, and the yes to a proposal that was shown before.

use serde_json::json;
use watchkeeper_config::Config;

use super::args::AskArgs;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::state_folder::state_folder;
use super::user_llm::parts;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::checked_proposal::CheckedProposal;
use watchkeeper_assistant::proposal::conversation::{Reply, SessionState};
use watchkeeper_assistant::proposal::pending::PendingProposals;
use watchkeeper_assistant::proposal::snapshot::SystemSnapshot;
use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink as _};
use watchkeeper_assistant::session::user_session::Session;
use watchkeeper_client::RuntimeClient;

/// Carries out the command.
pub(super) async fn run(
    args: &AskArgs,
    client: RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let mut ask = Ask {
        waiting: PendingProposals::new(&state_folder()?),
        assist: Session::new(parts(client, config, Entrypoint::Ask, out))?,
        out,
    };
    ask.assist.request_time = args.at;
    ask.assist.runs_trials = !args.yes;
    let text = args.text.join(" ");
    let ended = match &args.confirm {
        Some(id) => ask.confirm(id).await,
        None => {
            for file in &args.image {
                ask.assist.attach_file(file)?;
            }
            ask.request(&text, args).await
        }
    };
    ask.assist.settle();
    ended
}

struct Ask<'o> {
    assist: Session,
    out: &'o Output,
    waiting: PendingProposals,
}

impl Ask<'_> {
    async fn request(&mut self, text: &str, args: &AskArgs) -> Result<(), Failure> {
        let (reply, here) = if args.think || args.blueprint.is_some() {
            self.assist.think(text, args.blueprint.as_deref()).await?
        } else {
            self.assist.handle_text(text).await?
        };
        let Reply::Proposal(offer) = reply else {
            return self.other(reply, &here).await;
        };
        if !args.yes {
            return self.keep(&offer, &here).map(drop);
        }
        if self.assist.is_llm_reply {
            self.assist.show_proposal(&offer, None, "");
            return Err(Failure::input(
                "--yes is for a person's own words, and these are a model's: leave --yes out and confirm what was understood",
            ));
        }
        if !offer.is_complete() {
            self.assist.show_proposal(&offer, None, "");
            return Err(Failure::input(
                "--yes does a request as a whole or not at all, and part of this one was not understood or can't be done: say it without that part, or leave --yes out and confirm what was understood",
            ));
        }
        self.assist.show_proposal(&offer, None, "");
        let (reply, here) = self.assist.handle_text("yes").await?;
        self.other(reply, &here).await
    }

    async fn confirm(&mut self, id: &str) -> Result<(), Failure> {
        // Asked first: a runtime that is away costs nobody the proposal.
        let here = self.assist.fetch_snapshot().await?;
        let socket = self.assist.socket().to_path_buf();
        let shown = self.waiting.take(id, &socket, here.now.timestamp())?;
        self.assist.conversation = SessionState::from_shown(shown);
        let (reply, here) = self.assist.handle_text("yes").await?;
        self.other(reply, &here).await
    }

    /// Everything but a new offer.
    async fn other(&mut self, reply: Reply, here: &SystemSnapshot) -> Result<(), Failure> {
        let out = self.out;
        match reply {
            Reply::Apply(offer) => Ok(self.assist.apply(&offer).await?),
            Reply::Look(looked) => Ok(self.assist.answer_look(&looked, here).await?),
            Reply::Remember(kind, words) => Ok(self.assist.save_note(kind, &words)?),
            Reply::Proposal(offer) | Reply::ChangedProposal(offer) => {
                let id = self.keep(&offer, here)?;
                Err(Failure::new(
                    Exit::Failed,
                    format!(
                        "what runs has changed since this was proposed, so nothing was done; as it is now it is confirmed by `watchkeeper ask --confirm {id}`"
                    ),
                ))
            }
            Reply::Invalid(offer, why) => {
                self.assist.show_proposal(&offer, None, "");
                Err(Failure::input(format!(
                    "this can't be confirmed, because {why}"
                )))
            }
            Reply::Ask(question) => {
                out.object(&json!({"type": "question", "text": question.text, "choices": question.choices}));
                let again =
                    "say all of it again with the answer in it; `watchkeeper chat` asks back";
                Err(Session::question_error(&question, here)
                    .with([again.to_owned()])
                    .into())
            }
            Reply::Answer(text) => {
                out.report(ProgressEvent::Answer(&text));
                Ok(())
            }
            Reply::Unknown(unknown) => Err(Session::unknown_error(&unknown).into()),
            Reply::TooLong(error) => Err(Failure::input(error.to_string())),
            Reply::NothingPending | Reply::Dropped => Err(Failure::input(
                "nothing waits for a yes or a no here: `watchkeeper ask --confirm ID` confirms a proposal, and one that is not confirmed is never done",
            )),
            Reply::Empty | Reply::ProbeCameras(_) => Err(Failure::input(
                "there is no request: say for example `watchkeeper ask \"what can I say\"`",
            )),
        }
    }

    /// Shows an offer and keeps it for a later yes.
    fn keep(&self, offer: &CheckedProposal, here: &SystemSnapshot) -> Result<String, Failure> {
        let Some(shown) = self.assist.conversation.shown() else {
            return Err(Failure::new(
                Exit::Failed,
                "the proposal is gone; ask again",
            ));
        };
        let socket = self.assist.socket();
        let id = self
            .waiting
            .keep(socket, shown, None, here.now.timestamp())?;
        let hint =
            format!("Nothing changed yet. To apply (valid 1 h): watchkeeper ask --confirm {id}");
        self.assist.show_proposal(offer, Some(&id), &hint);
        Ok(id)
    }
}
