//! What is said back to a person, and what is waited for: a request, the answer to a question, or a yes.
//!
//! [`SessionState::hear`] is the way in, [`SessionState::hear_reworded`] that of a model's words. Between two texts it waits for
//!
//! ```text
//! Nothing ──a request──────► Yes(shown) ──yes──► the same mark comes of it now: Apply, then Nothing
//!    │                          │                another: Anew, then Yes(shown)
//!    │                          └──a correction──► Yes(another), shown as any other
//!    └──something missing──► Answer(question) ──a few words──► the request and the words, heard as one
//! ```
//!
//! On [`Reply::See`] the caller has those cameras looked at and says the same text again. What waits longer than a process lives is kept by
//! [`super::pending`].
//!
//! Invariants:
//! - [`Reply::Apply`] comes only from a yes and nothing but a yes, said while an offer waits that was shown before, or from a [`AutoApproval`] for that very offer;
//! - on a yes the request is understood again, in what runs now and at the time when it was said; what a model proposed is compared with what
//!   runs now as it was proposed. Where another offer comes of it, that one is shown and nothing is applied;
//! - an offer waits for one yes, not longer than [`PATIENCE_S`], and is put aside by whatever is said next
//!   that is neither a look-up nor a note. What corrects it (`make it 30 seconds`) puts another in its place; it is never about what runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::Kind;
use watchkeeper_plain::answer::{Looked, Unknown};
use watchkeeper_plain::{Answer, Missing, Plain, Question, TooLong};

use super::auto_approval::AutoApproval;
use super::llm_proposal::LlmProposal;
use super::offer::{CheckedProposal, said};
use super::snapshot::SystemSnapshot;
use super::trial::TrialResult;

/// For how long an offer waits, in seconds. What runs is compared anyway; this is for times in the request, such as `until 8`, that pass.
pub const PATIENCE_S: i64 = 3600;

/// Words that mean yes and nothing else. They are compared with the whole text.
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
/// Words that mean no and nothing else.
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

/// Most corrections of one offer.
const MAX_CORRECTIONS: usize = 20;

/// Words by which somebody speaks of what they want, and not of what is so.
const WISHES: [&str; 10] = [
    "i", "we", "me", "us", "want", "prefer", "like", "always", "never", "please",
];

/// What to recognise an offer by that was shown and waits for a yes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownProposal {
    /// The person's words.
    pub request: String,
    /// What was said to the proposal of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<String>,
    /// When they were said, to the nanosecond: times in [`CheckedProposal::mark`] are reckoned from it.
    pub at: Timestamp,
    /// [`CheckedProposal::mark`] of what was shown.
    pub mark: String,
    /// What a model proposed: it is not understood again, but taken as it was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<LlmProposal>,
    /// What was seen when it was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<TrialResult>,
}

impl ShownProposal {
    /// What is kept of an offer.
    #[must_use]
    pub fn of(offer: &CheckedProposal) -> Self {
        Self {
            request: offer.request.clone(),
            corrections: offer.corrections.clone(),
            at: offer.at.timestamp(),
            mark: offer.mark(),
            made: offer.made.clone(),
            tried: offer.tried.clone(),
        }
    }

    /// The offer that it is in this situation; `None` where the words mean none any more.
    #[must_use]
    pub fn again(&self, plain: &Plain, here: &SystemSnapshot) -> Option<CheckedProposal> {
        let at = self.at.to_zoned(here.now.time_zone().clone());
        if let Some(made) = &self.made {
            return Some(CheckedProposal::of_model(
                &self.request,
                &at,
                made.clone(),
                here,
            ));
        }
        match plain.corrected(&self.request, &self.corrections, &here.scene(&at)) {
            Ok(Answer::Propose(proposal)) => {
                let mut offer = CheckedProposal::new(&self.request, &at, *proposal, here);
                offer.corrections.clone_from(&self.corrections);
                offer.tried.clone_from(&self.tried);
                Some(offer)
            }
            Ok(Answer::Ask(_) | Answer::Look(_) | Answer::Unknown(_)) | Err(_) => None,
        }
    }

    /// All that was said of it, in one line.
    #[must_use]
    pub fn words(&self) -> String {
        said(&self.request, &self.corrections)
    }

    /// Until when a yes counts.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        let patience = jiff::SignedDuration::from_secs(PATIENCE_S);
        self.at.saturating_add(patience).unwrap_or(self.at)
    }

    /// Whether a yes still counts at `now`.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        (0..=PATIENCE_S).contains(&now.duration_since(self.at).as_secs())
    }
}

/// What comes back to a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// This could be done; a yes is waited for.
    Offer(Box<CheckedProposal>),
    /// The same after a yes that came to something else: what runs has changed, or too much time has passed. A new yes is waited for.
    Anew(Box<CheckedProposal>),
    /// This was understood and can't be confirmed, and why.
    Unsound(Box<CheckedProposal>, String),
    /// To be carried out now.
    Apply(Box<CheckedProposal>),
    /// Something has to be known first; its answer is waited for.
    Ask(Question),
    /// Something to look up.
    Look(Looked),
    /// A person's word that is to be kept. It changes nothing of what the box does.
    Remember(Kind, String),
    /// The pictures of these cameras have to be looked at first, then the same text is to be heard again.
    See(Vec<SourceId>),
    /// A model's answer in words. There is nothing to confirm.
    Answer(String),
    /// Nothing was understood.
    Unknown(Unknown),
    /// More text than is read.
    TooLong(TooLong),
    /// What waited was put aside.
    Dropped,
    /// A yes or a no, and nothing waits for one.
    NothingWaits,
    /// Nothing was said.
    Silence,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Default)]
enum Awaiting {
    #[default]
    Nothing,
    Answer(Question),
    Yes(ShownProposal),
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionState {
    waits: Awaiting,
}

impl SessionState {
    /// One in which this offer waits for a yes.
    #[must_use]
    pub fn with(shown: ShownProposal) -> Self {
        Self {
            waits: Awaiting::Yes(shown),
        }
    }

    /// The offer that waits for a yes.
    #[must_use]
    pub fn shown(&self) -> Option<&ShownProposal> {
        match &self.waits {
            Awaiting::Yes(shown) => Some(shown),
            Awaiting::Nothing | Awaiting::Answer(_) => None,
        }
    }

    /// What was seen when the offer that waits was tried.
    pub fn tried(&mut self, seen: &[TrialResult]) {
        if let Awaiting::Yes(shown) = &mut self.waits {
            shown.tried = seen.to_vec();
        }
    }

    /// The question that waits for an answer.
    #[must_use]
    pub fn question(&self) -> Option<&Question> {
        match &self.waits {
            Awaiting::Answer(question) => Some(question),
            Awaiting::Nothing | Awaiting::Yes(_) => None,
        }
    }

    /// Hears a text and says what comes of it.
    pub fn hear(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        let before = self.waits.clone();
        let reply = self.take(text.trim(), plain, here);
        if let Reply::See(_) = reply {
            // The same text is heard again.
            self.waits = before;
        }
        reply
    }

    /// Hears a request that is not in a person's own words: nothing in it is a yes, a no, an answer or something to remember.
    pub fn hear_reworded(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        self.hear_request(text.trim(), plain, here)
    }

    /// The owner of the box said yes to such an offer beforehand. It is compared with what runs as on any yes; where it is not the one that the permit is for, it goes
    /// on waiting.
    pub fn permitted(
        &mut self,
        permit: &AutoApproval,
        plain: &Plain,
        here: &SystemSnapshot,
    ) -> Reply {
        match std::mem::take(&mut self.waits) {
            Awaiting::Yes(shown) if shown.mark == permit.mark() => {
                self.confirm(&shown, plain, here)
            }
            waits => {
                self.waits = waits;
                Reply::NothingWaits
            }
        }
    }

    /// A model had the last word, and proposes nothing: nothing waits any more.
    pub fn answer(&mut self, text: String) -> Reply {
        self.waits = Awaiting::Nothing;
        Reply::Answer(text)
    }

    /// Takes what a model proposes for the request of a person. It waits for the same yes as what was understood by the rules.
    pub fn propose(&mut self, request: &str, made: LlmProposal, here: &SystemSnapshot) -> Reply {
        let offer = CheckedProposal::of_model(request, &here.now, made, here);
        self.show(offer)
    }

    fn take(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        if text.is_empty() {
            return Reply::Silence;
        }
        if says(text, &YES) {
            return match std::mem::take(&mut self.waits) {
                Awaiting::Yes(shown) => self.confirm(&shown, plain, here),
                Awaiting::Answer(question) => self.hear_answer(question, text, plain, here),
                Awaiting::Nothing => Reply::NothingWaits,
            };
        }
        if says(text, &NO) {
            return match std::mem::take(&mut self.waits) {
                Awaiting::Nothing => Reply::NothingWaits,
                Awaiting::Yes(_) | Awaiting::Answer(_) => Reply::Dropped,
            };
        }
        if let Some((kind, words)) = remembered(text) {
            return Reply::Remember(kind, words.to_owned());
        }
        match self.waits.clone() {
            Awaiting::Answer(question) => self.hear_answer(question, text, plain, here),
            Awaiting::Yes(shown) if is_corrected(&shown, text, plain, here) => {
                self.hear_correction(shown, text, plain, here)
            }
            Awaiting::Nothing | Awaiting::Yes(_) => self.hear_request(text, plain, here),
        }
    }

    /// A correction of what was shown: the whole is understood again, at the time when the request was said.
    fn hear_correction(
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
                self.show(offer)
            }
            // An answer would be one to the request without its corrections: it is said again.
            Ok(Answer::Ask(mut question)) => {
                let unseen = here.unseen();
                if !here.looked && !unseen.is_empty() {
                    return Reply::See(unseen);
                }
                self.waits = Awaiting::Nothing;
                question.about = Missing::Meaning;
                Reply::Ask(question)
            }
            other => self.answered(&request, other, here),
        }
    }

    /// A yes to what was shown.
    fn confirm(&mut self, shown: &ShownProposal, plain: &Plain, here: &SystemSnapshot) -> Reply {
        if shown.is_fresh(here.now.timestamp())
            && let Some(offer) = shown.again(plain, here)
            && offer.mark() == shown.mark
        {
            return Reply::Apply(Box::new(offer));
        }
        if let Some(made) = &shown.made {
            return match self.propose(&shown.request, made.clone(), here) {
                Reply::Offer(offer) => Reply::Anew(offer),
                other => other,
            };
        }
        let scene = here.scene(&here.now);
        let reply = match plain.corrected(&shown.request, &shown.corrections, &scene) {
            Ok(Answer::Propose(proposal)) => {
                let mut offer = CheckedProposal::new(&shown.request, &here.now, *proposal, here);
                offer.corrections.clone_from(&shown.corrections);
                self.show(offer)
            }
            other => self.answered(&shown.request, other, here),
        };
        match reply {
            Reply::Offer(offer) => Reply::Anew(offer),
            other => other,
        }
    }

    /// The answer to a question. Who says something else that is a request of its own has changed the subject.
    fn hear_answer(
        &mut self,
        question: Question,
        text: &str,
        plain: &Plain,
        here: &SystemSnapshot,
    ) -> Reply {
        let scene = here.scene(&here.now);
        let alone = plain.understand(text, &scene);
        let whole = question.answered(text);
        // One of the answers that were named is an answer, whatever it would mean by itself.
        let is_choice = question
            .choices
            .iter()
            .any(|choice| says(text, &[&choice.to_lowercase()]));
        if let (Ok(Answer::Propose(_) | Answer::Look(_)), false) = (&alone, is_choice) {
            return self.answered(text, alone, here);
        }
        match plain.understand(&whole, &scene) {
            Err(too_long) => {
                self.waits = Awaiting::Answer(question);
                Reply::TooLong(too_long)
            }
            // What was asked for was not in it: the question stays, with what was said before.
            Ok(Answer::Unknown(unknown)) => {
                self.waits = Awaiting::Answer(question);
                Reply::Unknown(unknown)
            }
            Ok(Answer::Ask(next)) if next.about == question.about && next.text == question.text => {
                self.waits = Awaiting::Answer(question.clone());
                Reply::Ask(question)
            }
            other => self.answered(&whole, other, here),
        }
    }

    /// Has an offer wait for its yes, where it can be confirmed.
    fn show(&mut self, offer: CheckedProposal) -> Reply {
        if let Some(why) = offer.unsound() {
            self.waits = Awaiting::Nothing;
            return Reply::Unsound(Box::new(offer), why);
        }
        self.waits = Awaiting::Yes(ShownProposal::of(&offer));
        Reply::Offer(Box::new(offer))
    }

    fn hear_request(&mut self, text: &str, plain: &Plain, here: &SystemSnapshot) -> Reply {
        let answer = plain.understand(text, &here.scene(&here.now));
        self.answered(text, answer, here)
    }

    /// What comes of a request that was understood as this.
    fn answered(
        &mut self,
        text: &str,
        answer: Result<Answer, TooLong>,
        here: &SystemSnapshot,
    ) -> Reply {
        let answer = match answer {
            Ok(answer) => answer,
            Err(too_long) => {
                self.waits = Awaiting::Nothing;
                return Reply::TooLong(too_long);
            }
        };
        match answer {
            Answer::Propose(proposal) => {
                self.show(CheckedProposal::new(text, &here.now, *proposal, here))
            }
            Answer::Look(looked) => Reply::Look(looked),
            Answer::Ask(question) => {
                // A size that is not known is a reason for many questions, and none that a person should be asked.
                let unseen = here.unseen();
                if !here.looked && !unseen.is_empty() {
                    return Reply::See(unseen);
                }
                self.waits = match question.about {
                    // These are answered by saying all of it again.
                    Missing::Meaning | Missing::Picture => Awaiting::Nothing,
                    _ => Awaiting::Answer(question.clone()),
                };
                Reply::Ask(question)
            }
            Answer::Unknown(unknown) => {
                // `Yes, but only at night` is no yes, and the next one is not to what was shown before it.
                self.waits = Awaiting::Nothing;
                Reply::Unknown(unknown)
            }
        }
    }
}

/// Whether a text corrects what was shown. What a model proposed is corrected by whoever made it.
fn is_corrected(shown: &ShownProposal, text: &str, plain: &Plain, here: &SystemSnapshot) -> bool {
    shown.made.is_none()
        && shown.is_fresh(here.now.timestamp())
        && shown.corrections.len() < MAX_CORRECTIONS
        && plain.is_correction(text, &here.scene(&here.now))
}

/// The words behind `remember` or `note:`, and whether they say what somebody wants or what is so.
fn remembered(text: &str) -> Option<(Kind, &str)> {
    let (first, rest) = text.split_once(char::is_whitespace)?;
    let verb = first.trim_end_matches([':', ',']);
    let rest = rest.trim();
    let that = rest
        .split_once(' ')
        .filter(|(that, _)| that.eq_ignore_ascii_case("that"))
        .map(|(_, words)| words.trim());
    // `note` alone is the beginning of anything.
    let is_note = verb.eq_ignore_ascii_case("note") && (verb.len() < first.len() || that.is_some());
    if !is_note && !verb.eq_ignore_ascii_case("remember") {
        return None;
    }
    let rest = that.unwrap_or(rest);
    let is_wish = |word: &str| WISHES.contains(&word.to_lowercase().as_str());
    let kind = match rest.split(|c: char| !c.is_alphanumeric()).any(is_wish) {
        true => Kind::Preference,
        false => Kind::Knowledge,
    };
    (!rest.is_empty()).then_some((kind, rest))
}

/// Whether the whole text is one of these, whatever its case and marks.
fn says(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase().replace('’', "'");
    let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!' | ','));
    words.contains(&text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
