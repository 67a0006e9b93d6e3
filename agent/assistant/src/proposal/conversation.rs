//! State machine of one session: a request, the answer to a question, or a confirmation.
//!
//! ```text
//! Nothing ──request──────► Confirmation(shown) ──yes──► same fingerprint: Apply, then Nothing
//!    │                          │                       else ChangedProposal, Confirmation(shown)
//!    │                          └──correction──► Confirmation(new proposal)
//!    └──incomplete request──► Answer(question) ──few words──► request and words, handled as one
//! ```
//!
//! - [`Reply::Apply`] follows only a bare yes to a proposal that was shown, or an [`AutoApproval`]
//!   of that proposal.
//! - On a yes the request is parsed again, for the time it was made, and compared with what runs.
//!   An LLM's proposal is compared as it was proposed.
//! - A proposal waits at most [`CONFIRM_TIMEOUT_S`]. Every text but a look-up or a note drops it; a
//!   correction replaces it and never concerns what runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::Kind;
use watchkeeper_plain::answer::{Looked, Unknown};
use watchkeeper_plain::{Answer, Missing, Plain, Question, TooLong};

use super::auto_approval::AutoApproval;
use super::checked_proposal::{CheckedProposal, join_corrections};
use super::llm_proposal::LlmProposal;
use super::snapshot::SystemSnapshot;
use super::trial::TrialResult;

/// How long a proposal can be confirmed, in seconds. It bounds the age of relative times such as
/// `until 8`.
pub const CONFIRM_TIMEOUT_S: i64 = 3600;

/// Texts that confirm. They are compared with the whole text.
const YES: [&str; 16] = [
    "yes",
    "y",
    "yes please",
    "yes do it",
    "yeah",
    "yep",
    "sure",
    "alright",
    "all right",
    "please do",
    "ok",
    "okay",
    "do it",
    "go ahead",
    "confirm",
    "apply",
];
/// Texts that decline. They are compared with the whole text.
const NO: [&str; 8] = [
    "no",
    "n",
    "no thanks",
    "cancel",
    "never mind",
    "nevermind",
    "forget it",
    "don't",
];

/// Most corrections of one proposal.
const MAX_CORRECTIONS: usize = 20;

/// Words that make a note a preference, not knowledge.
const PREFERENCE_WORDS: [&str; 10] = [
    "i", "we", "me", "us", "want", "prefer", "like", "always", "never", "please",
];

/// A proposal that was shown and waits for confirmation, as it is kept on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownProposal {
    pub request: String,
    /// The user's corrections, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<String>,
    /// Time of the request, to the nanosecond: relative times in the fingerprint are resolved from
    /// it.
    pub at: Timestamp,
    /// [`CheckedProposal::fingerprint`] of the proposal that was shown.
    #[serde(rename = "mark")]
    pub fingerprint: String,
    /// An LLM's proposal. It is kept whole, because asking the LLM again would give another one.
    #[serde(rename = "made", default, skip_serializing_if = "Option::is_none")]
    pub llm_proposal: Option<LlmProposal>,
    /// Results of the trial.
    #[serde(rename = "tried", default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<TrialResult>,
}

impl ShownProposal {
    /// Keeps what a later yes is checked against.
    #[must_use]
    pub fn from_proposal(offer: &CheckedProposal) -> Self {
        Self {
            request: offer.request.clone(),
            corrections: offer.corrections.clone(),
            at: offer.at.timestamp(),
            fingerprint: offer.fingerprint(),
            llm_proposal: offer.llm_proposal.clone(),
            trials: offer.trials.clone(),
        }
    }

    /// Builds the proposal again from the current state; `None` if the request means no proposal
    /// now.
    #[must_use]
    pub fn recheck(&self, plain: &Plain, here: &SystemSnapshot) -> Option<CheckedProposal> {
        let at = self.at.to_zoned(here.now.time_zone().clone());
        if let Some(llm_proposal) = &self.llm_proposal {
            return Some(CheckedProposal::from_llm(
                &self.request,
                &at,
                llm_proposal.clone(),
                here,
            ));
        }
        match plain.corrected(&self.request, &self.corrections, &here.scene(&at)) {
            Ok(Answer::Propose(proposal)) => {
                let mut offer = CheckedProposal::new(&self.request, &at, *proposal, here);
                offer.corrections.clone_from(&self.corrections);
                offer.trials.clone_from(&self.trials);
                Some(offer)
            }
            Ok(Answer::Ask(_) | Answer::Look(_) | Answer::Unknown(_)) | Err(_) => None,
        }
    }

    /// Returns the request with its corrections, in one line.
    #[must_use]
    pub fn full_request(&self) -> String {
        join_corrections(&self.request, &self.corrections)
    }

    /// Returns when the proposal expires.
    #[must_use]
    pub fn valid_until(&self) -> Timestamp {
        let timeout = jiff::SignedDuration::from_secs(CONFIRM_TIMEOUT_S);
        self.at.saturating_add(timeout).unwrap_or(self.at)
    }

    /// Whether the proposal can be confirmed at `now`.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        (0..=CONFIRM_TIMEOUT_S).contains(&now.duration_since(self.at).as_secs())
    }
}

/// What the session replies to a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A proposal that waits for confirmation.
    Proposal(Box<CheckedProposal>),
    /// Confirmed, but what runs changed or the proposal expired. The new proposal waits for
    /// confirmation.
    ChangedProposal(Box<CheckedProposal>),
    /// Understood, but it cannot be confirmed; with the reason.
    Invalid(Box<CheckedProposal>, String),
    /// A confirmed proposal to apply now.
    Apply(Box<CheckedProposal>),
    /// A question about an incomplete request; the session waits for the answer.
    Ask(Question),
    Look(Looked),
    /// A note to save. It changes nothing on the box.
    Remember(Kind, String),
    /// These cameras must be opened for their picture sizes. The caller then handles the text once
    /// more.
    ProbeCameras(Vec<SourceId>),
    /// An LLM's answer; nothing to confirm.
    Answer(String),
    Unknown(Unknown),
    /// The text exceeds the limit of the parser.
    TooLong(TooLong),
    /// The user declined what was waiting.
    Dropped,
    /// A yes or a no while nothing waits.
    NothingPending,
    /// An empty text.
    Empty,
}

/// What the next text is expected to be.
#[derive(Debug, Clone, PartialEq, Default)]
enum Awaiting {
    #[default]
    Nothing,
    Answer(Question),
    Confirmation(ShownProposal),
}

/// State of one session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionState {
    awaiting: Awaiting,
}

impl SessionState {
    /// Creates a session in which this proposal waits for confirmation.
    #[must_use]
    pub fn from_shown(shown: ShownProposal) -> Self {
        Self {
            awaiting: Awaiting::Confirmation(shown),
        }
    }

    /// Returns the proposal that waits for confirmation.
    #[must_use]
    pub fn shown(&self) -> Option<&ShownProposal> {
        match &self.awaiting {
            Awaiting::Confirmation(shown) => Some(shown),
            Awaiting::Nothing | Awaiting::Answer(_) => None,
        }
    }

    /// Stores the trial results of the waiting proposal.
    pub fn set_trials(&mut self, seen: &[TrialResult]) {
        if let Awaiting::Confirmation(shown) = &mut self.awaiting {
            shown.trials = seen.to_vec();
        }
    }

    /// Returns the question that waits for an answer.
    #[must_use]
    pub fn question(&self) -> Option<&Question> {
        match &self.awaiting {
            Awaiting::Answer(question) => Some(question),
            Awaiting::Nothing | Awaiting::Confirmation(_) => None,
        }
    }

    /// Handles a text of the user.
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

    /// Confirms the waiting proposal by `approval`, after comparing it with what runs as for a yes.
    /// A proposal with another fingerprint goes on waiting.
    pub fn auto_confirm(
        &mut self,
        approval: &AutoApproval,
        plain: &Plain,
        here: &SystemSnapshot,
    ) -> Reply {
        match std::mem::take(&mut self.awaiting) {
            Awaiting::Confirmation(shown) if shown.fingerprint == approval.fingerprint() => {
                self.confirm(&shown, plain, here)
            }
            waits => {
                self.awaiting = waits;
                Reply::NothingPending
            }
        }
    }

    /// Ends a request with an LLM's answer; nothing waits afterwards.
    pub fn answer_by_llm(&mut self, text: String) -> Reply {
        self.awaiting = Awaiting::Nothing;
        Reply::Answer(text)
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
            return match std::mem::take(&mut self.awaiting) {
                Awaiting::Confirmation(shown) => self.confirm(&shown, plain, here),
                Awaiting::Answer(question) => self.handle_answer(question, text, plain, here),
                Awaiting::Nothing => Reply::NothingPending,
            };
        }
        if is_phrase(text, &NO) {
            return match std::mem::take(&mut self.awaiting) {
                Awaiting::Nothing => Reply::NothingPending,
                Awaiting::Confirmation(_) | Awaiting::Answer(_) => Reply::Dropped,
            };
        }
        if let Some((kind, words)) = parse_note(text) {
            return Reply::Remember(kind, words.to_owned());
        }
        match self.awaiting.clone() {
            Awaiting::Answer(question) => self.handle_answer(question, text, plain, here),
            Awaiting::Confirmation(shown) if is_corrected(&shown, text, plain, here) => {
                self.handle_correction(shown, text, plain, here)
            }
            Awaiting::Nothing | Awaiting::Confirmation(_) => self.handle_request(text, plain, here),
        }
    }

    /// Parses the request with all its corrections, for the time of the request.
    fn handle_correction(
        &mut self,
        shown: ShownProposal,
        text: &str,
        plain: &Plain,
        here: &SystemSnapshot,
    ) -> Reply {
        let at = shown.at.to_zoned(here.now.time_zone().clone());
        let ShownProposal {
            request,
            mut corrections,
            ..
        } = shown;
        corrections.push(text.to_owned());
        match plain.corrected(&request, &corrections, &here.scene(&at)) {
            Ok(Answer::Propose(proposal)) => {
                let mut offer = CheckedProposal::new(&request, &at, *proposal, here);
                offer.corrections = corrections;
                self.propose(offer)
            }
            // An answer would be joined to the request without its corrections, so the user has to
            // repeat the request.
            Ok(Answer::Ask(mut question)) => {
                let unseen = here.unseen();
                if !here.cameras_probed && !unseen.is_empty() {
                    return Reply::ProbeCameras(unseen);
                }
                self.awaiting = Awaiting::Nothing;
                question.about = Missing::Meaning;
                Reply::Ask(question)
            }
            other => self.reply_to(&request, other, here),
        }
    }

    /// Applies the proposal if its fingerprint is unchanged, else shows the new one.
    fn confirm(&mut self, shown: &ShownProposal, plain: &Plain, here: &SystemSnapshot) -> Reply {
        if shown.is_fresh(here.now.timestamp())
            && let Some(offer) = shown.recheck(plain, here)
            && offer.fingerprint() == shown.fingerprint
        {
            return Reply::Apply(Box::new(offer));
        }
        if let Some(llm_proposal) = &shown.llm_proposal {
            return match self.propose_by_llm(&shown.request, llm_proposal.clone(), here) {
                Reply::Proposal(offer) => Reply::ChangedProposal(offer),
                other => other,
            };
        }
        let scene = here.scene(&here.now);
        let reply = match plain.corrected(&shown.request, &shown.corrections, &scene) {
            Ok(Answer::Propose(proposal)) => {
                let mut offer = CheckedProposal::new(&shown.request, &here.now, *proposal, here);
                offer.corrections.clone_from(&shown.corrections);
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
    fn handle_answer(
        &mut self,
        question: Question,
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
        if let (Ok(Answer::Propose(_) | Answer::Look(_)), false) = (&alone, is_choice) {
            return self.reply_to(text, alone, here);
        }
        match plain.understand(&whole, &scene) {
            Err(too_long) => {
                self.awaiting = Awaiting::Answer(question);
                Reply::TooLong(too_long)
            }
            // The answer is not in the text: the question stays, with the request so far.
            Ok(Answer::Unknown(unknown)) => {
                self.awaiting = Awaiting::Answer(question);
                Reply::Unknown(unknown)
            }
            Ok(Answer::Ask(next)) if next.about == question.about && next.text == question.text => {
                self.awaiting = Awaiting::Answer(question.clone());
                Reply::Ask(question)
            }
            other => self.reply_to(&whole, other, here),
        }
    }

    /// Makes the proposal wait for confirmation if it is valid.
    fn propose(&mut self, offer: CheckedProposal) -> Reply {
        if let Some(why) = offer.invalid_reason() {
            self.awaiting = Awaiting::Nothing;
            return Reply::Invalid(Box::new(offer), why);
        }
        self.awaiting = Awaiting::Confirmation(ShownProposal::from_proposal(&offer));
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
            Err(too_long) => {
                self.awaiting = Awaiting::Nothing;
                return Reply::TooLong(too_long);
            }
        };
        match answer {
            Answer::Propose(proposal) => {
                self.propose(CheckedProposal::new(text, &here.now, *proposal, here))
            }
            Answer::Look(looked) => Reply::Look(looked),
            Answer::Ask(question) => {
                // Without a picture size the parser asks questions that the user should not have to
                // answer.
                let unseen = here.unseen();
                if !here.cameras_probed && !unseen.is_empty() {
                    return Reply::ProbeCameras(unseen);
                }
                self.awaiting = match question.about {
                    // The user answers these by repeating the whole request.
                    Missing::Meaning | Missing::Picture => Awaiting::Nothing,
                    _ => Awaiting::Answer(question.clone()),
                };
                Reply::Ask(question)
            }
            Answer::Unknown(unknown) => {
                // `Yes, but only at night` is not a yes, and a later yes does not concern the
                // proposal before it.
                self.awaiting = Awaiting::Nothing;
                Reply::Unknown(unknown)
            }
        }
    }
}

/// Whether a text corrects the shown proposal. An LLM's proposal is corrected by the LLM.
fn is_corrected(shown: &ShownProposal, text: &str, plain: &Plain, here: &SystemSnapshot) -> bool {
    shown.llm_proposal.is_none()
        && shown.is_fresh(here.now.timestamp())
        && shown.corrections.len() < MAX_CORRECTIONS
        && plain.is_correction(text, &here.scene(&here.now))
}

/// Returns the kind and text of a note: the words behind `remember` or `note:`.
fn parse_note(text: &str) -> Option<(Kind, &str)> {
    let (first, rest) = text.split_once(char::is_whitespace)?;
    let verb = first.trim_end_matches([':', ',']);
    let rest = rest.trim();
    let that = rest
        .split_once(' ')
        .filter(|(that, _)| that.eq_ignore_ascii_case("that"))
        .map(|(_, words)| words.trim());
    // `note` alone may begin any request.
    let is_note = verb.eq_ignore_ascii_case("note") && (verb.len() < first.len() || that.is_some());
    if !is_note && !verb.eq_ignore_ascii_case("remember") {
        return None;
    }
    let rest = that.unwrap_or(rest);
    let is_preference = |word: &str| PREFERENCE_WORDS.contains(&word.to_lowercase().as_str());
    let kind = match rest
        .split(|c: char| !c.is_alphanumeric())
        .any(is_preference)
    {
        true => Kind::Preference,
        false => Kind::Knowledge,
    };
    (!rest.is_empty()).then_some((kind, rest))
}

/// Whether the whole text is one of `words`, ignoring case and punctuation.
fn is_phrase(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase().replace('’', "'");
    let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!' | ','));
    words.contains(&text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
