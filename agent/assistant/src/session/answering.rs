//! What came of a text is told, and an offer is kept before it is shown.
//!
//! Invariant: where offers are kept, one that waits is on the disk before it is shown, and gone from it before anything is done about it.

use std::sync::Arc;

use jiff::Timestamp;
use watchkeeper_contract::source::SourceState;
use watchkeeper_plain::answer::{Looked, Unknown};
use watchkeeper_plain::intent::Look;
use watchkeeper_plain::{Missing, Question};

use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::failure::Error;
use crate::proposal::conversation::{Reply, SessionState, ShownProposal};
use crate::proposal::offer::CheckedProposal;
use crate::proposal::pending::PendingError;
use crate::proposal::snapshot::SystemSnapshot;
use crate::setup_agent::tool_context::look_back;
use crate::wording::quoted;

impl Session {
    /// Shows an offer. `hint` says what waits for what.
    pub fn show_offer(&self, offer: &CheckedProposal, id: Option<&str>, hint: &str) {
        self.parts.out.tell(ProgressEvent::Offer(offer, id, hint));
    }

    /// Tells what came of a text; what was confirmed is carried out. `before` waited for a yes when it was said.
    ///
    /// # Errors
    /// When nothing came of it, or it could not be carried out.
    pub async fn tell(
        &mut self,
        before: Option<&ShownProposal>,
        reply: Reply,
        here: &SystemSnapshot,
    ) -> Result<(), Error> {
        let shown = self.conversation.shown();
        let (waits, is_another) = (shown.is_some(), shown != before);
        let is_answer = matches!(reply, Reply::Apply(_) | Reply::Dropped | Reply::Anew(_));
        if before.is_some() && is_another && !is_answer {
            self.say("the proposal before this is put aside");
        }
        if is_another {
            self.forget_kept(&reply)?;
        }
        let out = Arc::clone(&self.parts.out);
        match reply {
            Reply::Offer(offer) => self.keep_and_show(&offer, here),
            Reply::Anew(offer) => {
                self.say("what runs has changed since, or it is too long ago: nothing was done, and this is the proposal as it is now");
                self.keep_and_show(&offer, here)
            }
            Reply::Apply(offer) => self.apply(&offer).await,
            Reply::Unsound(offer, why) => {
                self.show_offer(&offer, None, "");
                Err(Error::input(format!(
                    "This can't be confirmed, because {why}."
                )))
            }
            Reply::Look(looked) => {
                self.look(&looked, here).await?;
                if waits {
                    out.tell(ProgressEvent::Waits);
                }
                Ok(())
            }
            Reply::Remember(kind, words) => self.remember(kind, &words),
            Reply::Ask(question) => {
                out.tell(ProgressEvent::Question(&question, here));
                Ok(())
            }
            Reply::Answer(text) => {
                out.tell(ProgressEvent::Answer(&text));
                Ok(())
            }
            Reply::Unknown(unknown) => Err(Self::unknown(&unknown)),
            Reply::TooLong(error) => Err(Error::input(error.to_string())),
            Reply::Dropped => {
                out.tell(ProgressEvent::Dropped);
                Ok(())
            }
            Reply::NothingWaits => Err(Error::input(
                "Nothing waits for a yes or a no. Say what to watch, or what you want to know; /help has examples.",
            )),
            Reply::Silence | Reply::See(_) => Ok(()),
        }
    }

    /// Takes an offer that waits no more off the disk. Where it is to be carried out and is not there any more, somebody else had it first.
    pub(super) fn forget_kept(&mut self, reply: &Reply) -> Result<(), Error> {
        let socket = self.parts.client.socket().to_path_buf();
        let Some(keeping) = &mut self.keeping else {
            return Ok(());
        };
        let Some(id) = keeping.id.take() else {
            return Ok(());
        };
        match (keeping.waiting.take(&id, &socket, Timestamp::now()), reply) {
            (Ok(_), _) => Ok(()),
            (Err(error), Reply::Apply(_)) => Err(error.into()),
            // It may be an hour old by now.
            (Err(PendingError::Unknown { .. }), _) => Ok(()),
            (Err(error), _) => {
                tracing::warn!(%error, "a proposal that was put aside still waits");
                Ok(())
            }
        }
    }

    fn keep_and_show(
        &mut self,
        offer: &CheckedProposal,
        here: &SystemSnapshot,
    ) -> Result<(), Error> {
        let socket = self.parts.client.socket();
        if let (Some(keeping), Some(shown)) = (&mut self.keeping, self.conversation.shown()) {
            let by = Some(keeping.by.clone());
            let kept = keeping
                .waiting
                .keep(socket, shown, by, here.now.timestamp());
            // What could not be kept is not shown, so no yes can be to it.
            keeping.id = Some(kept.inspect_err(|_| self.conversation = SessionState::default())?);
        }
        self.show_offer(offer, self.kept(), "Shall I do that? yes or no");
        Ok(())
    }

    /// The sentence of a question, with what could be answered. Where a picture is missing, why none comes.
    #[must_use]
    pub fn question(question: &Question, here: &SystemSnapshot) -> Error {
        let mut details = Vec::new();
        if !question.choices.is_empty() {
            details.push(format!("could be: {}", question.choices.join(", ")));
        }
        if question.about == Missing::Picture {
            let away = here
                .sources
                .iter()
                .filter_map(|source| match &source.state {
                    SourceState::Lost { message, .. } | SourceState::Failed { message, .. } => {
                        Some(format!("{}: {message}", source.spec.id))
                    }
                    _ => None,
                });
            details.extend(away);
        }
        Error::input(&question.text).with(details)
    }

    /// The sentence of what was not understood.
    #[must_use]
    pub fn unknown(unknown: &Unknown) -> Error {
        let words = &unknown.not_understood;
        let details = (!words.is_empty()).then(|| format!("not understood: {}", quoted(words)));
        Error::input(&unknown.text).with(details)
    }

    /// Looks something up and tells it.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn look(&self, looked: &Looked, here: &SystemSnapshot) -> Result<(), Error> {
        let out = Arc::clone(&self.parts.out);
        match &looked.look {
            Look::Cameras => out.tell(ProgressEvent::Cameras(&here.sources)),
            Look::Pipelines(None) => {
                out.tell(ProgressEvent::Pipelines(&here.pipelines, &looked.text))
            }
            Look::Pipelines(Some(camera)) => {
                let on_it = here.pipelines.iter().filter(|p| p.spec.source == *camera);
                let on_it: Vec<_> = on_it.cloned().collect();
                out.tell(ProgressEvent::Pipelines(&on_it, &looked.text));
            }
            Look::Status(None) => out.tell(ProgressEvent::Status(here)),
            Look::Status(Some(camera)) => {
                let sources = here.sources.iter().filter(|s| s.spec.id == *camera);
                let sources: Vec<_> = sources.cloned().collect();
                let on_it = here.pipelines.iter().filter(|p| p.spec.source == *camera);
                let on_it: Vec<_> = on_it.cloned().collect();
                out.tell(ProgressEvent::Camera(&sources, camera.as_str(), &on_it));
            }
            Look::Events(wanted) => {
                let happened = look_back(&self.parts.client, wanted).await?;
                out.tell(ProgressEvent::Events(&happened, wanted, &looked.text));
            }
            Look::Classes | Look::Templates | Look::Help => {
                out.tell(ProgressEvent::Text(&looked.text))
            }
        }
        if !looked.not_understood.is_empty() {
            let words = quoted(&looked.not_understood);
            self.say(&format!("not understood, and left out: {words}"));
        }
        Ok(())
    }
}
