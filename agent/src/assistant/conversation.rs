//! What is said back to a person, and what is waited for: a request, the answer to a question, or a yes.
//!
//! Invariants:
//! - [`Reply::Apply`] comes only from a yes and nothing but a yes, said while an offer waits that was shown before;
//! - on a yes the request is understood again, in what runs now and at the time when it was said. Where another offer comes of it, that one
//!   is shown and nothing is applied;
//! - an offer waits for one yes, not longer than [`PATIENCE_S`], and is put aside by whatever is said next
//!   that is neither a look-up nor a note.

use jiff::Timestamp;
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::Kind;
use watchkeeper_plain::answer::{Looked, Unknown};
use watchkeeper_plain::{Answer, MAX_CHARS, Missing, Plain, Question, TooLong};

use super::offer::Offer;
use super::situation::Situation;

/// For how long an offer waits, in seconds. What runs is compared anyway; this is for times in the request, such as `until 8`, that pass.
pub const PATIENCE_S: i64 = 3600;

/// Words that mean yes and nothing else. They are compared with the whole text.
const YES: [&str; 9] = [
    "yes",
    "y",
    "yes please",
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

/// Words by which somebody speaks of what they want, and not of what is so.
const WISHES: [&str; 10] = [
    "i", "we", "me", "us", "want", "prefer", "like", "always", "never", "please",
];

/// What to recognise an offer by that was shown and waits for a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The person's words.
    pub request: String,
    /// When they were said.
    pub at: Timestamp,
    /// [`Offer::mark`] of what was shown.
    pub mark: String,
}

impl Shown {
    /// What is kept of an offer.
    #[must_use]
    pub fn of(offer: &Offer) -> Self {
        Self {
            request: offer.request.clone(),
            at: offer.at.timestamp(),
            mark: offer.mark(),
        }
    }
}

/// What comes back to a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// This could be done; a yes is waited for.
    Offer(Box<Offer>),
    /// The same after a yes that came to something else: what runs has changed, or too much time has passed. A new yes is waited for.
    Anew(Box<Offer>),
    /// This was understood and can't be confirmed, and why.
    Unsound(Box<Offer>, String),
    /// To be carried out now.
    Apply(Box<Offer>),
    /// Something has to be known first; its answer is waited for.
    Ask(Question),
    /// Something to look up.
    Look(Looked),
    /// A person's word that is to be kept. It changes nothing of what the box does.
    Remember(Kind, String),
    /// The pictures of these cameras have to be looked at first, then the same text is to be heard again.
    See(Vec<SourceId>),
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
enum Waits {
    #[default]
    Nothing,
    Answer(Question),
    Yes(Shown),
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conversation {
    waits: Waits,
}

impl Conversation {
    /// One in which this offer waits for a yes.
    #[must_use]
    pub fn with(shown: Shown) -> Self {
        Self {
            waits: Waits::Yes(shown),
        }
    }

    /// The offer that waits for a yes.
    #[must_use]
    pub fn shown(&self) -> Option<&Shown> {
        match &self.waits {
            Waits::Yes(shown) => Some(shown),
            Waits::Nothing | Waits::Answer(_) => None,
        }
    }

    /// The question that waits for an answer.
    #[must_use]
    pub fn question(&self) -> Option<&Question> {
        match &self.waits {
            Waits::Answer(question) => Some(question),
            Waits::Nothing | Waits::Yes(_) => None,
        }
    }

    /// Hears a text and says what comes of it.
    pub fn hear(&mut self, text: &str, plain: &Plain, here: &Situation) -> Reply {
        let before = self.waits.clone();
        let reply = self.take(text.trim(), plain, here);
        if let Reply::See(_) = reply {
            // The same text is heard again.
            self.waits = before;
        }
        reply
    }

    /// Hears a request that is not in a person's own words: nothing in it is a yes, a no, an answer or something to remember.
    pub fn hear_reworded(&mut self, text: &str, plain: &Plain, here: &Situation) -> Reply {
        self.hear_request(text.trim(), plain, here)
    }

    fn take(&mut self, text: &str, plain: &Plain, here: &Situation) -> Reply {
        if text.is_empty() {
            return Reply::Silence;
        }
        if says(text, &YES) {
            return match std::mem::take(&mut self.waits) {
                Waits::Yes(shown) => self.confirm(&shown, plain, here),
                Waits::Answer(question) => self.hear_answer(question, text, plain, here),
                Waits::Nothing => Reply::NothingWaits,
            };
        }
        if says(text, &NO) {
            return match std::mem::take(&mut self.waits) {
                Waits::Nothing => Reply::NothingWaits,
                Waits::Yes(_) | Waits::Answer(_) => Reply::Dropped,
            };
        }
        if let Some((kind, words)) = remembered(text) {
            return Reply::Remember(kind, words.to_owned());
        }
        match self.waits.clone() {
            Waits::Answer(question) => self.hear_answer(question, text, plain, here),
            Waits::Nothing | Waits::Yes(_) => self.hear_request(text, plain, here),
        }
    }

    /// A yes to what was shown.
    fn confirm(&mut self, shown: &Shown, plain: &Plain, here: &Situation) -> Reply {
        let age = here.now.timestamp().duration_since(shown.at).as_secs();
        if (0..=PATIENCE_S).contains(&age) {
            let at = shown.at.to_zoned(here.now.time_zone().clone());
            let again = plain.understand(&shown.request, &here.scene(&at));
            if let Ok(Answer::Propose(proposal)) = again {
                let offer = Offer::new(&shown.request, &at, *proposal, here);
                if offer.mark() == shown.mark {
                    return Reply::Apply(Box::new(offer));
                }
            }
        }
        match self.hear_request(&shown.request, plain, here) {
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
        here: &Situation,
    ) -> Reply {
        let alone = plain.understand(text, &here.scene(&here.now));
        if let Ok(Answer::Propose(_) | Answer::Look(_)) = alone {
            return self.hear_request(text, plain, here);
        }
        let whole = question.answered(text);
        if whole.chars().count() > MAX_CHARS {
            self.waits = Waits::Answer(question);
            return Reply::TooLong(TooLong {
                found: whole.chars().count(),
            });
        }
        match plain.understand(&whole, &here.scene(&here.now)) {
            // What was asked for was not in it: the question stays, with what was said before.
            Ok(Answer::Unknown(unknown)) => {
                self.waits = Waits::Answer(question);
                Reply::Unknown(unknown)
            }
            Ok(Answer::Ask(next)) if next.about == question.about && next.text == question.text => {
                self.waits = Waits::Answer(question.clone());
                Reply::Ask(question)
            }
            _ => self.hear_request(&whole, plain, here),
        }
    }

    fn hear_request(&mut self, text: &str, plain: &Plain, here: &Situation) -> Reply {
        let answer = match plain.understand(text, &here.scene(&here.now)) {
            Ok(answer) => answer,
            Err(too_long) => {
                self.waits = Waits::Nothing;
                return Reply::TooLong(too_long);
            }
        };
        match answer {
            Answer::Propose(proposal) => {
                let offer = Offer::new(text, &here.now, *proposal, here);
                if let Some(why) = offer.unsound() {
                    self.waits = Waits::Nothing;
                    return Reply::Unsound(Box::new(offer), why);
                }
                self.waits = Waits::Yes(Shown::of(&offer));
                Reply::Offer(Box::new(offer))
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
                    Missing::Meaning | Missing::Picture => Waits::Nothing,
                    _ => Waits::Answer(question.clone()),
                };
                Reply::Ask(question)
            }
            Answer::Unknown(unknown) => {
                // `Yes, but only at night` is no yes, and the next one is not to what was shown before it.
                self.waits = Waits::Nothing;
                Reply::Unknown(unknown)
            }
        }
    }
}

/// The words behind `remember`, and whether they say what somebody wants or what is so.
fn remembered(text: &str) -> Option<(Kind, &str)> {
    let (first, rest) = text.split_once(char::is_whitespace)?;
    if !first
        .trim_end_matches([':', ','])
        .eq_ignore_ascii_case("remember")
    {
        return None;
    }
    let rest = rest.trim();
    let rest = match rest.split_once(' ') {
        Some((that, words)) if that.eq_ignore_ascii_case("that") => words.trim(),
        _ => rest,
    };
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
mod tests {
    use std::sync::LazyLock;

    use jiff::ToSpan as _;
    use proptest::prelude::*;
    use watchkeeper_contract::pipeline::PipelineSpec;
    use watchkeeper_plain::Change;

    use super::super::situation::testing::{situation, status};
    use super::*;

    /// Made once: reading the words costs more than a request.
    static PLAIN: LazyLock<Plain> = LazyLock::new(|| Plain::new().unwrap());

    const COUNT: &str = "tell me when a person crosses the vertical line at 50% on camera gate";

    fn hear(talk: &mut Conversation, text: &str, here: &Situation) -> Reply {
        talk.hear(text, &PLAIN, here)
    }

    fn offer(reply: Reply) -> Offer {
        match reply {
            Reply::Offer(offer) => *offer,
            other => panic!("{other:#?}"),
        }
    }

    fn applied(reply: Reply) -> Offer {
        match reply {
            Reply::Apply(offer) => *offer,
            other => panic!("{other:#?}"),
        }
    }

    /// The box after this offer was carried out.
    fn after(offer: &Offer, mut here: Situation) -> Situation {
        for change in &offer.proposal.changes {
            match change {
                Change::Deploy(spec) | Change::Replace(spec) => {
                    here.pipelines.retain(|p| p.spec.id != spec.id);
                    here.pipelines.push(status(spec));
                }
                Change::Stop(id) => here.pipelines.retain(|p| p.spec.id != *id),
                Change::Pause { pipeline: id, .. } | Change::Resume(id) => {
                    let pauses = matches!(change, Change::Pause { .. });
                    for runs in here.pipelines.iter_mut().filter(|p| p.spec.id == *id) {
                        let spec = PipelineSpec {
                            paused: pauses,
                            ..runs.spec.clone()
                        };
                        *runs = status(&spec);
                    }
                }
            }
        }
        here
    }

    /// The box with the watch of [`COUNT`].
    fn watched() -> Situation {
        let here = situation();
        let offer = offer(hear(&mut Conversation::default(), COUNT, &here));
        after(&offer, here)
    }

    #[test]
    fn what_was_shown_is_what_is_applied_and_only_once() {
        let here = situation();
        let mut talk = Conversation::default();
        let shown = offer(hear(&mut talk, COUNT, &here));
        assert!(
            shown
                .lines()
                .join("\n")
                .contains("+ gate-person-crosses on gate is new"),
            "{:#?}",
            shown.lines()
        );
        assert_eq!(applied(hear(&mut talk, " Yes. ", &here)), shown);
        assert_eq!(hear(&mut talk, "yes", &here), Reply::NothingWaits);
    }

    #[test]
    fn a_no_and_a_yes_with_more_behind_it_change_nothing() {
        let here = situation();
        for text in [
            "no",
            "Cancel!",
            "yes but only at night",
            "yes, and stop everything else too",
            "y e s",
            "certainly",
        ] {
            let mut talk = Conversation::default();
            offer(hear(&mut talk, COUNT, &here));
            let reply = hear(&mut talk, text, &here);
            assert!(!matches!(reply, Reply::Apply(_)), "{text}");
            assert!(
                !matches!(hear(&mut talk, "yes", &here), Reply::Apply(offer) if offer.request == COUNT),
                "{text}"
            );
        }
    }

    #[test]
    fn a_look_up_leaves_the_offer_waiting_and_another_request_puts_it_aside() {
        let here = watched();
        let mut talk = Conversation::default();
        offer(hear(&mut talk, "pause gate", &here));
        assert!(matches!(
            hear(&mut talk, "list cameras", &here),
            Reply::Look(_)
        ));
        assert!(talk.shown().is_some());
        offer(hear(&mut talk, "stop gate", &here));
        assert_eq!(
            applied(hear(&mut talk, "do it", &here)).request,
            "stop gate"
        );
    }

    #[test]
    fn an_offer_whose_pipeline_has_changed_since_is_shown_anew_and_then_applied() {
        let here = watched();
        let mut talk = Conversation::default();
        offer(hear(&mut talk, "stop gate", &here));
        let mut later = here.clone();
        later.pipelines[0].spec.record = true;
        let Reply::Anew(anew) = hear(&mut talk, "yes", &later) else {
            panic!("it was not shown anew");
        };
        assert_eq!(applied(hear(&mut talk, "yes", &later)), *anew);
    }

    #[test]
    fn an_offer_for_what_is_gone_can_not_be_applied() {
        let here = watched();
        let mut talk = Conversation::default();
        offer(hear(&mut talk, "stop gate", &here));
        let reply = hear(&mut talk, "yes", &situation());
        assert!(matches!(reply, Reply::Ask(_)), "{reply:#?}");
    }

    #[test]
    fn counters_and_states_that_go_on_meanwhile_are_no_change() {
        let here = watched();
        let mut talk = Conversation::default();
        offer(hear(&mut talk, "pause gate", &here));
        let mut later = here.clone();
        later.pipelines[0].results.frames += 100;
        later.now = later.now.checked_add(10.minutes()).unwrap();
        applied(hear(&mut talk, "yes", &later));
    }

    #[test]
    fn a_yes_after_more_than_an_hour_is_asked_for_again() {
        let here = situation();
        let mut talk = Conversation::default();
        offer(hear(&mut talk, COUNT, &here));
        let mut later = here.clone();
        later.now = later.now.checked_add((PATIENCE_S + 1).seconds()).unwrap();
        assert!(matches!(hear(&mut talk, "yes", &later), Reply::Anew(_)));
        // A clock that was set back is no reason to believe that no time has passed.
        let mut talk = Conversation::default();
        offer(hear(&mut talk, COUNT, &here));
        later.now = here.now.checked_sub(1.hour()).unwrap();
        assert!(matches!(hear(&mut talk, "yes", &later), Reply::Anew(_)));
    }

    #[test]
    fn a_question_is_answered_in_few_words_and_nothing_is_done_before_the_yes() {
        let here = situation();
        let mut talk = Conversation::default();
        let reply = hear(
            &mut talk,
            "tell me when a person crosses the vertical line at 50%",
            &here,
        );
        let Reply::Ask(question) = reply else {
            panic!("{reply:#?}");
        };
        assert_eq!(question.about, Missing::Camera);
        // An answer that answers nothing leaves the question as it is.
        assert!(!matches!(hear(&mut talk, "blue", &here), Reply::Offer(_)));
        let offer = offer(hear(&mut talk, "gate", &here));
        assert!(offer.proposal.understood.contains("On camera gate"));
        applied(hear(&mut talk, "yes", &here));
    }

    #[test]
    fn a_question_that_somebody_does_not_answer_is_left_for_the_next_request() {
        let here = watched();
        let mut talk = Conversation::default();
        let reply = hear(&mut talk, "tell me when a person appears", &here);
        assert!(matches!(reply, Reply::Ask(_)), "{reply:#?}");
        let offer = offer(hear(&mut talk, "pause gate", &here));
        assert!(offer.proposal.understood.starts_with("Pause"));
        let mut talk = Conversation::default();
        hear(&mut talk, "tell me when a person appears", &here);
        assert_eq!(hear(&mut talk, "never mind", &here), Reply::Dropped);
        assert_eq!(talk, Conversation::default());
    }

    #[test]
    fn a_camera_that_nobody_has_seen_is_looked_at_before_a_question_is_asked() {
        let mut here = situation();
        here.looked = false;
        let mut talk = Conversation::default();
        let text = "tell me when a person crosses the vertical line at 50% on camera dock";
        let Reply::See(cameras) = hear(&mut talk, text, &here) else {
            panic!("it was not looked at");
        };
        assert_eq!(cameras, [SourceId::new("dock").unwrap()]);
        here.looked = true;
        let Reply::Ask(question) = hear(&mut talk, text, &here) else {
            panic!("there is no picture to place a line in");
        };
        assert_eq!(question.about, Missing::Picture);
        here.sources[1].size = Some([640, 480]);
        offer(hear(&mut talk, text, &here));
    }

    #[test]
    fn a_pause_with_an_end_says_that_nobody_ends_it() {
        let here = watched();
        let offer = offer(hear(
            &mut Conversation::default(),
            "pause gate until 8 tomorrow",
            &here,
        ));
        assert!(!offer.is_whole());
        assert!(
            offer
                .lines()
                .join("\n")
                .contains("stays paused until somebody says"),
            "{:#?}",
            offer.lines()
        );
    }

    #[test]
    fn what_changes_nothing_is_not_offered() {
        let mut here = watched();
        here.pipelines[0].spec.paused = true;
        let reply = hear(&mut Conversation::default(), "pause gate", &here);
        let Reply::Unsound(_, why) = reply else {
            panic!("{reply:#?}");
        };
        assert_eq!(why, "it would change nothing");
    }

    #[test]
    fn words_to_remember_are_a_wish_or_a_fact() {
        let here = situation();
        let kept = |text: &str| match hear(&mut Conversation::default(), text, &here) {
            Reply::Remember(kind, words) => (kind, words),
            other => panic!("{text}: {other:#?}"),
        };
        assert_eq!(
            kept("Remember that the dock is the left half"),
            (Kind::Knowledge, "the dock is the left half".to_owned())
        );
        assert_eq!(
            kept("remember: we never want alerts on Sundays").0,
            Kind::Preference
        );
        assert!(!matches!(
            hear(&mut Conversation::default(), "remember", &here),
            Reply::Remember(..)
        ));
    }

    /// What people say, besides anything.
    fn text() -> impl Strategy<Value = String> {
        let said = prop::sample::select(vec![
            COUNT,
            "stop everything",
            "pause gate",
            "resume gate",
            "change the gate watch to only cars",
            "count cars on camera gate",
            "tell me when somebody stays in the left half",
            "gate",
            "for two minutes",
            "list cameras",
            "what happened last night",
            "remember that I like dogs",
            "yes",
            "OK",
            "no",
            "yes please stop everything",
            "",
        ]);
        prop_oneof![4 => said.prop_map(str::to_owned), 1 => ".{0,80}"]
    }

    proptest! {
        #[test]
        fn nothing_is_applied_but_what_was_shown_and_confirmed(
            turns in prop::collection::vec((text(), 0..4_u8), 1..14),
        ) {
            let mut here = situation();
            let mut talk = Conversation::default();
            let mut shown: Option<Offer> = None;
            for (text, meanwhile) in turns {
                // Somebody else changes something between two turns.
                match (meanwhile, here.pipelines.first_mut()) {
                    (1, Some(runs)) => runs.spec.record = !runs.spec.record,
                    (2, _) => here.pipelines.clear(),
                    _ => {}
                }
                let before = talk.shown().cloned();
                let reply = hear(&mut talk, &text, &here);
                match reply {
                    Reply::Apply(offer) => {
                        let plain: String = text.to_lowercase().chars().filter(|c| c.is_alphabetic()).collect();
                        prop_assert!(["yes", "ok", "y"].contains(&plain.as_str()), "{text:?} is no yes");
                        prop_assert_eq!(before, Some(Shown::of(&offer)));
                        prop_assert_eq!(Some(&*offer), shown.as_ref());
                        prop_assert_eq!(talk.shown(), None);
                        here = after(&offer, here);
                        shown = None;
                    }
                    Reply::Offer(offer) | Reply::Anew(offer) => {
                        prop_assert_eq!(talk.shown(), Some(&Shown::of(&offer)));
                        prop_assert_eq!(offer.unsound(), None);
                        shown = Some(*offer);
                    }
                    Reply::Look(_) | Reply::Remember(..) | Reply::Silence => {
                        prop_assert_eq!(talk.shown().cloned(), before);
                    }
                    _ => prop_assert_eq!(talk.shown(), None),
                }
            }
        }
    }
}
