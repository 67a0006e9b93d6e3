//! Whether the conversation of a turn has room for another call of the language model.
//!
//! A conversation is never shortened: signatures of thinking cover all previous text, and a
//! provider's cache goes by the prefix. So a turn that grows too long ends with what it has. In the
//! round before, the model must answer without a tool.
//!
//! Invariant: pure. A prompt that [`budget`] accepts fits, with its answer, into one call.

/// Maximum tokens that a usual round adds: an answer with a definition, a long result, a picture.
const ROUND_TOKENS: u64 = 12_000;

/// How the model may be called next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextBudget {
    Enough,
    /// Without tools: there may be no room for their results.
    AnswerOnly,
    Exhausted,
}

/// The budget after a prompt of `prompt` tokens. `max_prompt` already leaves room for an answer.
pub fn budget(prompt: u64, max_prompt: u64) -> ContextBudget {
    // A quarter of a small limit: a whole round would never fit.
    let round = ROUND_TOKENS.min(max_prompt / 4);
    if prompt > max_prompt {
        ContextBudget::Exhausted
    } else if prompt > max_prompt - round {
        ContextBudget::AnswerOnly
    } else {
        ContextBudget::Enough
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use watchkeeper_llm::catalogue::{Catalogue, Model};
    use watchkeeper_llm::conversation::{MediaType, Picture, ToolResult, UserPart};
    use watchkeeper_llm::estimate;

    use super::super::tool::MAX_TEXT;
    use super::super::turn::testing::{begins, looked, says};
    use super::super::turn::{Turn, TurnStep};
    use super::super::turn_record::{TurnEnd, TurnRecord};
    use super::*;

    fn model() -> Model {
        let catalogue = Catalogue::built_in().unwrap();
        catalogue.model("claude", "claude-sonnet-5-5").unwrap()
    }

    #[test]
    fn last_round_before_the_limit_is_for_the_answer() {
        assert_eq!(budget(8_000, 100_000), ContextBudget::Enough);
        assert_eq!(budget(88_000, 100_000), ContextBudget::Enough);
        assert_eq!(budget(88_001, 100_000), ContextBudget::AnswerOnly);
        assert_eq!(budget(100_000, 100_000), ContextBudget::AnswerOnly);
        assert_eq!(budget(100_001, 100_000), ContextBudget::Exhausted);
        assert_eq!(
            budget(8_000, 12_000),
            ContextBudget::Enough,
            "a small limit is used too"
        );
        assert_eq!(budget(u64::MAX, u64::MAX), ContextBudget::AnswerOnly);
    }

    /// The calls of one answer: for each the length of its result, and whether it has a picture.
    type Round = Vec<(usize, bool)>;

    fn rounds() -> impl Strategy<Value = Vec<Round>> {
        let result = (0..=MAX_TEXT, any::<bool>());
        prop::collection::vec(prop::collection::vec(result, 1..8), 0..30)
    }

    fn result(call: &str, length: usize, picture: bool) -> TurnRecord {
        let picture = picture.then(|| {
            UserPart::Picture(Picture {
                media: MediaType::Jpeg,
                width: 1456,
                height: 816,
                bytes: vec![0; 8].into(),
            })
        });
        let text = UserPart::Text("x".repeat(length));
        TurnRecord::ToolFinished {
            result: Box::new(ToolResult {
                call: call.to_owned(),
                parts: picture.into_iter().chain([text]).collect(),
                is_error: false,
            }),
            facts: Vec::new(),
        }
    }

    /// Drives a turn like [`super::super::drive`], with these answers. Returns the largest prompt.
    fn drive(rounds: Vec<Round>, most: u64) -> (u64, Turn) {
        let model = model();
        let mut turn = looked();
        let mut rounds = rounds.into_iter();
        let mut largest = 0;
        let mut number = 0;
        loop {
            let before = turn.conversation().turns().to_vec();
            match turn.next() {
                TurnStep::End(_) => return (largest, turn),
                TurnStep::Run(call) => {
                    let (length, picture) = serde_json::from_str(call.arguments.text()).unwrap();
                    turn.apply(begins(&call.id)).unwrap();
                    turn.apply(result(&call.id, length, picture)).unwrap();
                }
                TurnStep::Ask { last } => {
                    let prompt = estimate::prompt(turn.conversation(), &model);
                    let room = budget(prompt, most);
                    if room == ContextBudget::Exhausted {
                        let end = Box::new(turn.end_when_full(prompt, most));
                        turn.apply(TurnRecord::Ended { end }).unwrap();
                        continue;
                    }
                    largest = largest.max(prompt);
                    let may_call = !last && room == ContextBudget::Enough;
                    let calls = rounds.next().filter(|_| may_call).unwrap_or_default();
                    let calls: Vec<(String, serde_json::Value)> = calls
                        .into_iter()
                        .map(|of| {
                            number += 1;
                            (format!("c{number}"), json!(of))
                        })
                        .collect();
                    let calls: Vec<_> = calls
                        .iter()
                        .map(|(id, of)| (id.as_str(), "get_snapshot", of.clone()))
                        .collect();
                    turn.apply(says("so far so good", &calls)).unwrap();
                }
            }
            assert!(
                turn.conversation().turns().starts_with(&before),
                "the conversation only grows"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn prompts_stay_within_the_limit_and_the_turn_ends(
            rounds in rounds(), most in 8_000..200_000_u64,
        ) {
            let (largest, turn) = drive(rounds, most);
            prop_assert!(largest <= most, "{largest} of {most}");
            prop_assert!(matches!(turn.next(), TurnStep::End(_)));
        }
    }

    #[test]
    fn full_turn_names_the_limit_or_answers_in_words() {
        let long: Vec<Round> = (0..20).map(|_| vec![(MAX_TEXT, true); 7]).collect();
        let (_, turn) = drive(long, 20_000);
        let TurnStep::End(TurnEnd::NoResult { why }) = turn.next() else {
            panic!("{:?}", turn.next());
        };
        assert!(
            why.contains("20000") && why.contains("tokens_per_call"),
            "{why}"
        );
        let (_, turn) = drive(vec![vec![(MAX_TEXT, false)]; 3], 20_000);
        assert!(
            matches!(turn.next(), TurnStep::End(TurnEnd::Answer { .. })),
            "{:?}",
            turn.next()
        );
    }
}
