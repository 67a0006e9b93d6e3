//! State machine of one session: a request, the answer to a question, or a confirmation.
//!
//! ```text
//! Nothing ──request──────► Confirmation(shown) ──yes──► same fingerprint: Apply, then Nothing
//!    │                          │                       else ChangedProposal, Confirmation(shown)
//!    │                          └──correction──► Confirmation(new proposal)
//!    └──incomplete request──► Answer(question) ──few words──► request and words, handled as one
//! ```
//!
//! - [`Reply::Apply`] follows only a bare yes to a shown proposal, or its [`AutoApproval`].
//! - On a yes the request is parsed again, for the time it was made, and compared with what runs.
//!   An LLM's proposal is compared as it was proposed.
//! - A proposal waits at most [`CONFIRM_TIMEOUT_S`]. A correction replaces it and never concerns
//!   what runs; a no and any other request drop it. A look-up, a note and a text that is not
//!   understood leave it, and the reply says that it waits.

mod awaiting;
mod reply;
mod shown;
mod words;

use watchkeeper_contract::id::PipelineId;
use watchkeeper_plain::answer::Unknown;
use watchkeeper_plain::{Answer, Change, Missing, Plain, Question, TooLong};

use self::words::{NO, YES, is_phrase, parse_note};
use super::auto_approval::AutoApproval;
use super::checked_proposal::CheckedProposal;
use super::llm_proposal::LlmProposal;
use super::snapshot::SystemSnapshot;
use super::trial::TrialResult;
use super::undo::{UNDO, undo};

use awaiting::Awaiting;
pub use reply::Reply;
pub(super) use shown::readable;
pub use shown::{CONFIRM_TIMEOUT_S, ShownChanges, ShownEffect, ShownProposal};

/// Most corrections of one proposal.
const MAX_CORRECTIONS: usize = 20;

/// Whether the whole text is a yes or a no; `None` for any other text.
pub fn yes_or_no(text: &str) -> Option<bool> {
    match (is_phrase(text, &YES), is_phrase(text, &NO)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionState {
    awaiting: Awaiting,
    /// Topic of the last request.
    topic: Topic,
    /// The last question, where nothing else was said since.
    asked: Option<String>,
    /// The proposal that was confirmed last, which can be undone.
    confirmed: Option<Box<CheckedProposal>>,
}

/// Topic of a correction if no proposal waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Topic {
    #[default]
    Nothing,
    /// The pipeline that was set up or changed last.
    Pipeline(PipelineId),
    /// A request that was not understood, and none was since.
    Failed,
}

impl SessionState {
    /// Returns the proposal that waits for confirmation.
    pub fn shown(&self) -> Option<&ShownProposal> {
        match &self.awaiting {
            Awaiting::Confirmation(shown) => Some(shown),
            Awaiting::Nothing | Awaiting::Answer { .. } => None,
        }
    }

    /// Stores the trial results of the waiting proposal.
    pub fn set_trials(&mut self, seen: &[TrialResult]) {
        if let Awaiting::Confirmation(shown) = &mut self.awaiting
            && let ShownEffect::Changes(changes) = &mut shown.effect
        {
            changes.trials = seen.to_vec();
        }
    }

    /// Makes a proposal that was shown wait for confirmation.
    pub fn wait_for(&mut self, shown: ShownProposal) {
        self.awaiting = Awaiting::Confirmation(Box::new(shown));
    }

    pub fn drop_waiting(&mut self) {
        self.awaiting = Awaiting::Nothing;
    }

    /// Returns the question that waits for an answer.
    pub fn question(&self) -> Option<&Question> {
        match &self.awaiting {
            Awaiting::Answer { question, .. } => Some(question),
            Awaiting::Nothing | Awaiting::Confirmation(_) => None,
        }
    }

    pub fn handle(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        let before = self.awaiting.clone();
        let reply = self.dispatch(text.trim(), plain, here);
        if let Reply::ProbeCameras(_) = reply {
            // The caller handles the same text once more.
            self.awaiting = before;
        }
        reply
    }

    /// Handles an LLM's rewording of a request: it is never a yes, a no, an answer or a note.
    pub fn handle_reworded(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        self.handle_request(text.trim(), plain, here)
    }

    /// Confirms the waiting proposal if it has this fingerprint, after the comparison of a yes.
    pub fn auto_confirm(
        &mut self,
        approval: &AutoApproval,
        plain: &Plain,
        here: &SystemSnapshot,
    ) -> Reply {
        let fingerprint = |shown: &ShownProposal| Some(shown.changes()?.fingerprint.clone());
        match self.shown().and_then(fingerprint) {
            Some(shown) if shown == approval.fingerprint() => self.confirm_waiting(plain, here),
            _ => Reply::NothingPending,
        }
    }

    /// Ends a request with an answer; nothing waits afterwards.
    pub fn answer(&mut self, text: String, is_by_model: bool) -> Reply {
        self.awaiting = Awaiting::Nothing;
        self.topic = Topic::Nothing;
        Reply::Answer { text, is_by_model }
    }

    /// Shows an LLM's proposal, which needs the same confirmation as any other.
    pub fn propose_by_llm(
        &mut self,
        request: &str,
        llm_proposal: LlmProposal,
        here: &SystemSnapshot,
    ) -> Reply {
        let offer = CheckedProposal::from_llm(request, &here.now, llm_proposal, here);
        self.propose(offer)
    }

    fn dispatch(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        if text.is_empty() {
            return Reply::Empty;
        }
        if is_phrase(text, &YES) {
            return self.confirm_waiting(plain, here);
        }
        if is_phrase(text, &NO) {
            return match std::mem::take(&mut self.awaiting) {
                Awaiting::Nothing => Reply::NothingPending,
                Awaiting::Confirmation(_) | Awaiting::Answer { .. } => Reply::Dropped,
            };
        }
        if let Some((kind, words)) = parse_note(text) {
            return Reply::Remember(kind, words.to_owned());
        }
        if is_phrase(text, &UNDO) {
            return self.propose_undo(here);
        }
        match self.awaiting.clone() {
            Awaiting::Answer {
                question,
                is_repeated,
            } => self.handle_answer(question, is_repeated, text, plain, here),
            Awaiting::Nothing => self.handle_follow_up(text, plain, here),
            Awaiting::Confirmation(shown) => match corrected(&shown, text, plain, here) {
                Some(corrections) => self.handle_correction(&shown, corrections, plain, here),
                None => self.handle_request(text, plain, here),
            },
        }
    }

    /// Proposes to revert what was confirmed last.
    fn propose_undo(&mut self, here: &SystemSnapshot) -> Reply {
        let confirmed = self.confirmed.as_deref();
        if let Some(proposal) = confirmed.and_then(|confirmed| undo(confirmed, here)) {
            let request = proposal.says.clone();
            return self.propose_by_llm(&request, proposal, here);
        }
        let mut text = match confirmed {
            Some(_) => "I can't undo the last change, because I do not know what it replaced.",
            None => "Nothing was changed in this conversation, so there is nothing to undo.",
        }
        .to_owned();
        text.push_str(
            " `watchkeeper audit` lists the changes that were confirmed; ask for the opposite one, \
             such as \"resume the gate watch\".",
        );
        self.keep_proposal(&mut text, here);
        Reply::Unknown(Unknown {
            text,
            not_understood: Vec::new(),
            unseen: Vec::new(),
        })
    }

    /// Handles a text while nothing waits: a correction concerns what was just talked about, and
    /// never another watch.
    fn handle_follow_up(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        let scene = here.scene(&here.now);
        let understood = |text: &str| plain.understand(text, &scene);
        let goes_on = |asked: &String| plain.follow_up(asked, text, &scene);
        if let Some((whole, looked)) = self.asked.as_ref().and_then(goes_on) {
            self.asked = Some(whole);
            return Reply::Look(looked);
        }
        let proposes = |text: &str| matches!(understood(text), Ok(Answer::Propose(_)));
        // `delete it`
        let asks_which =
            || matches!(understood(text), Ok(Answer::Ask(of)) if of.about == Missing::Pipeline);
        let lower = text.to_lowercase();
        let mut words = lower.split(|c: char| !c.is_alphanumeric());
        let is_about_it = words.any(|word| ["it", "that", "this"].contains(&word)) && asks_which();
        if !is_about_it && !plain.is_correction(text, &scene) {
            return self.handle_request(text, plain, here);
        }
        match self.topic.clone() {
            Topic::Pipeline(id) => {
                let whole = format!("{text} {id}");
                let text = if proposes(&whole) { &whole } else { text };
                self.handle_request(text, plain, here)
            }
            Topic::Failed if proposes(text) => Reply::Unknown(Unknown {
                text: "The request before was not understood, so there is nothing to correct. Say the whole request again, or name the watch to change.".to_owned(),
                not_understood: Vec::new(),
                unseen: Vec::new(),
            }),
            Topic::Failed | Topic::Nothing => self.handle_request(text, plain, here),
        }
    }

    /// Parses the request with all its corrections, for the time of the request.
    fn handle_correction(
        &mut self,
        shown: &ShownProposal,
        corrections: Vec<String>,
        plain: &Plain,
        here: &SystemSnapshot,
    ) -> Reply {
        let at = shown.at.to_zoned(here.now.time_zone().clone());
        match plain.corrected(&shown.request, &corrections, &here.scene(&at)) {
            Ok(Answer::Propose(proposal)) => {
                let mut offer = CheckedProposal::new(&shown.request, &at, *proposal, here);
                offer.corrections = corrections;
                self.propose(offer)
            }
            // An answer would be joined to the request without its corrections, so the user has to
            // repeat the correction.
            Ok(Answer::Ask(question)) => {
                let about = Missing::Meaning;
                let asked = Answer::Ask(Question { about, ..question });
                self.reply_to(&shown.request, Ok(asked), here)
            }
            other => self.reply_to(&shown.request, other, here),
        }
    }

    /// Handles a yes to what waits.
    fn confirm_waiting(&mut self, plain: &Plain, here: &SystemSnapshot) -> Reply {
        match std::mem::take(&mut self.awaiting) {
            Awaiting::Confirmation(shown) => match &shown.effect {
                ShownEffect::Changes(changes) => self.confirm(&shown, changes, plain, here),
                // The session runs them, without this snapshot of the runtime.
                ShownEffect::Actions { .. } => {
                    self.awaiting = Awaiting::Confirmation(shown);
                    Reply::NothingPending
                }
            },
            Awaiting::Answer { question, .. } => {
                self.awaiting = Awaiting::question(&question);
                Reply::Ask(question)
            }
            Awaiting::Nothing => Reply::NothingPending,
        }
    }

    /// Applies the proposal if its fingerprint is unchanged, else shows the new one.
    fn confirm(
        &mut self,
        shown: &ShownProposal,
        changes: &ShownChanges,
        plain: &Plain,
        here: &SystemSnapshot,
    ) -> Reply {
        if shown.is_fresh(here.now.timestamp())
            && let Some(offer) = shown.recheck(plain, here)
            && shown.is_of(&offer)
        {
            self.topic = match offer.proposal.changes.as_slice() {
                [Change::Delete(_)] => Topic::Nothing,
                [change] => Topic::Pipeline(change.pipeline().clone()),
                _ => Topic::Nothing,
            };
            self.confirmed = Some(Box::new(offer.clone()));
            return Reply::Apply(Box::new(offer));
        }
        if let Some(llm_proposal) = &changes.llm_proposal {
            return match self.propose_by_llm(&shown.request, llm_proposal.clone(), here) {
                Reply::Proposal(offer) => Reply::ChangedProposal(offer),
                other => other,
            };
        }
        let scene = here.scene(&here.now);
        let reply = match plain.corrected(&shown.request, &changes.corrections, &scene) {
            Ok(Answer::Propose(proposal)) => {
                let mut offer = CheckedProposal::new(&shown.request, &here.now, *proposal, here);
                offer.corrections.clone_from(&changes.corrections);
                self.propose(offer)
            }
            other => self.reply_to(&shown.request, other, here),
        };
        match reply {
            Reply::Proposal(offer) => Reply::ChangedProposal(offer),
            other => other,
        }
    }

    /// Handles the answer to a question. A text that is a complete request replaces the question.
    /// `is_repeated`: the text before was not an answer.
    fn handle_answer(
        &mut self,
        question: Question,
        is_repeated: bool,
        text: &str,
        plain: &Plain,
        here: &SystemSnapshot,
    ) -> Reply {
        let scene = here.scene(&here.now);
        let alone = plain.understand(text, &scene);
        let whole = question.answered(text);
        // A listed choice is an answer, even if it is a request by itself.
        let is_choice = question
            .choices
            .iter()
            .any(|choice| is_phrase(text, &[&choice.to_lowercase()]));
        let is_complete = match &alone {
            Ok(Answer::Propose(_) | Answer::Look(_)) => true,
            // `pause it`, which asks what it means by itself, or a request that is refused.
            Ok(Answer::Ask(_) | Answer::Unknown(_)) => plain.is_request(text, &scene),
            Err(_) => false,
        };
        if is_complete && !is_choice {
            return self.reply_to(text, alone, here);
        }
        match plain.understand(&whole, &scene) {
            Err(too_long) => {
                self.awaiting = Awaiting::question(&question);
                Reply::TooLong(too_long)
            }
            // The answer is not in the text: the question and the incomplete request stay.
            Ok(Answer::Unknown(unknown)) => {
                let refused;
                (self.awaiting, refused) = Awaiting::refuse(question, is_repeated, text);
                Reply::Unknown(match unknown.unseen.is_empty() {
                    true => refused,
                    false => unknown,
                })
            }
            Ok(Answer::Ask(next)) if next.about == question.about && next.text == question.text => {
                let refused;
                (self.awaiting, refused) = Awaiting::refuse(question, is_repeated, text);
                Reply::Unknown(refused)
            }
            // What is not a camera does not become part of the request.
            Ok(Answer::Ask(next)) if [next.about, question.about] == [Missing::Camera; 2] => {
                let again = Question {
                    request: question.request,
                    ..next
                };
                self.awaiting = Awaiting::question(&again);
                Reply::Ask(again)
            }
            other => self.reply_to(&whole, other, here),
        }
    }

    /// Makes the proposal wait for confirmation if it is valid. The topic stays where it is about
    /// the same pipeline.
    fn propose(&mut self, offer: CheckedProposal) -> Reply {
        let topic = std::mem::take(&mut self.topic);
        self.topic = match (topic, offer.proposal.changes.as_slice()) {
            (Topic::Pipeline(id), [change]) if *change.pipeline() == id => Topic::Pipeline(id),
            _ => Topic::Nothing,
        };
        if let Some(why) = offer.invalid_reason() {
            self.awaiting = Awaiting::Nothing;
            return Reply::Invalid(Box::new(offer), why);
        }
        self.awaiting = Awaiting::Confirmation(Box::new(ShownProposal::from_proposal(&offer)));
        Reply::Proposal(Box::new(offer))
    }

    fn handle_request(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        let answer = plain.understand(text, &here.scene(&here.now));
        self.reply_to(text, answer, here)
    }

    /// Turns the result of the parser into a reply.
    fn reply_to(
        &mut self,
        text: &str,
        answer: Result<Answer, TooLong>,
        here: &SystemSnapshot,
    ) -> Reply {
        let answer = match answer {
            Ok(answer) => answer,
            Err(too_long) => return Reply::TooLong(too_long),
        };
        self.asked = matches!(answer, Answer::Look(_)).then(|| text.to_owned());
        match answer {
            Answer::Propose(proposal) => {
                self.propose(CheckedProposal::new(text, &here.now, *proposal, here))
            }
            Answer::Look(looked) => {
                if self.topic == Topic::Failed {
                    self.topic = Topic::Nothing;
                }
                Reply::Look(looked)
            }
            Answer::Ask(mut question) => {
                // Without a picture size the parser asks questions that the user should not have to
                // answer.
                let unseen = here.unseen();
                if !here.cameras_probed && !unseen.is_empty() {
                    return Reply::ProbeCameras(unseen);
                }
                match question.about {
                    // The user answers it by repeating the whole request.
                    Missing::Meaning => {
                        self.keep_proposal(&mut question.text, here);
                    }
                    Missing::Picture => self.awaiting = Awaiting::Nothing,
                    _ => self.awaiting = Awaiting::question(&question),
                }
                Reply::Ask(question)
            }
            Answer::Unknown(mut unknown) => {
                if !self.keep_proposal(&mut unknown.text, here) {
                    self.topic = Topic::Failed;
                }
                Reply::Unknown(unknown)
            }
        }
    }

    /// Whether a proposal still waits after a text that was not understood; `reply` then says so.
    /// Nothing else waits afterwards.
    fn keep_proposal(&mut self, reply: &mut String, here: &SystemSnapshot) -> bool {
        match &self.awaiting {
            Awaiting::Confirmation(shown) if shown.is_fresh(here.now.timestamp()) => {
                reply.push_str(&still_waits(shown));
                true
            }
            _ => {
                self.awaiting = Awaiting::Nothing;
                false
            }
        }
    }
}

/// Reminder of a waiting proposal after a text that is not understood.
fn still_waits(shown: &ShownProposal) -> String {
    format!(
        " Not changed: the proposal for \"{}\" still waits for a yes.",
        shown.full_request()
    )
}

/// The corrections of the shown proposal with this text, if it is one. An LLM's proposal is
/// corrected by the LLM.
fn corrected(
    shown: &ShownProposal,
    text: &str,
    plain: &Plain,
    here: &SystemSnapshot,
) -> Option<Vec<String>> {
    let changes = shown.changes()?;
    let is_open = changes.llm_proposal.is_none()
        && shown.is_fresh(here.now.timestamp())
        && changes.corrections.len() < MAX_CORRECTIONS;
    let is_correction = is_open && plain.is_correction(text, &here.scene(&here.now));
    is_correction.then(|| [changes.corrections.as_slice(), &[text.to_owned()]].concat())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
