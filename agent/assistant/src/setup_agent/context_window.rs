//! Whether the conversation of a turn has room for another question.
//!
//! Nothing of a turn is ever taken back or made shorter: signatures of thinking cover all that stands before them, and a cache goes by its prefix. So a turn whose
//! results grow ends instead, with what it has. A round before that the model is told to answer without a tool.
//!
//! Invariant: pure; what [`ask`] lets through fits, with its answer, into what one call may have.

/// Tokens that a round of a usual turn adds at most: an answer with a definition, a long result, a picture.
const ROUND: u64 = 12_000;

/// How the model is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextBudget {
    /// As always.
    Enough,
    /// Without tools: what they would answer may have no room any more.
    ForAnAnswer,
    /// Not at all.
    None,
}

/// What there is room for: behind a prompt of so many tokens, where a prompt may have `most` and answers are allowed for in that already.
#[must_use]
pub fn ask(prompt: u64, most: u64) -> ContextBudget {
    // Where little is allowed a whole round would never have room.
    let round = ROUND.min(most / 4);
    if prompt > most {
        ContextBudget::None
    } else if prompt > most - round {
        ContextBudget::ForAnAnswer
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
    use super::super::turn::{Turn, TurnEnd, TurnRecord, TurnStep};
    use super::*;

    fn model() -> Model {
        let catalogue = Catalogue::built_in().unwrap();
        catalogue.model("claude", "claude-sonnet-5-5").unwrap()
    }

    #[test]
    fn a_prompt_fits_or_it_is_not_sent_and_the_last_round_is_for_the_answer() {
        assert_eq!(ask(8_000, 100_000), ContextBudget::Enough);
        assert_eq!(ask(88_000, 100_000), ContextBudget::Enough);
        assert_eq!(ask(88_001, 100_000), ContextBudget::ForAnAnswer);
        assert_eq!(ask(100_000, 100_000), ContextBudget::ForAnAnswer);
        assert_eq!(ask(100_001, 100_000), ContextBudget::None);
        assert_eq!(
            ask(8_000, 12_000),
            ContextBudget::Enough,
            "a small allowance is used too"
        );
        assert_eq!(ask(u64::MAX, u64::MAX), ContextBudget::ForAnAnswer);
    }

    /// One answer of a model: how many calls it makes, how long each result is, whether it has a picture.
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
        TurnRecord::Came {
            result: Box::new(ToolResult {
                call: call.to_owned(),
                parts: picture.into_iter().chain([text]).collect(),
                is_error: false,
            }),
            facts: Vec::new(),
        }
    }

    /// Drives a turn as [`super::super::drive`] does, with a model that answers with these rounds. The largest prompt that was sent.
    fn drive(rounds: Vec<Round>, most: u64) -> (u64, Turn) {
        let model = model();
        let mut turn = looked();
        let mut rounds = rounds.into_iter();
        let mut largest = 0;
        let mut number = 0;
        loop {
            let before = turn.talk().turns().to_vec();
            match turn.next() {
                TurnStep::End(_) => return (largest, turn),
                TurnStep::Run(call) => {
                    let (length, picture) = serde_json::from_str(call.arguments.text()).unwrap();
                    turn.take(begins(&call.id)).unwrap();
                    turn.take(result(&call.id, length, picture)).unwrap();
                }
                TurnStep::Ask { last } => {
                    let prompt = estimate::prompt(turn.talk(), &model);
                    let room = ask(prompt, most);
                    if room == ContextBudget::None {
                        let end = Box::new(turn.full(prompt, most));
                        turn.take(TurnRecord::Ended { end }).unwrap();
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
                    turn.take(says("so far so good", &calls)).unwrap();
                }
            }
            assert!(
                turn.talk().turns().starts_with(&before),
                "something was edited"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn whatever_the_tools_answer_no_prompt_is_larger_than_it_may_be_and_the_turn_ends(
            rounds in rounds(), most in 8_000..200_000_u64,
        ) {
            let (largest, turn) = drive(rounds, most);
            prop_assert!(largest <= most, "{largest} of {most}");
            prop_assert!(matches!(turn.next(), TurnStep::End(_)));
        }
    }

    #[test]
    fn a_turn_without_room_says_what_to_raise_and_one_with_room_for_words_has_them() {
        let long: Vec<Round> = (0..20).map(|_| vec![(MAX_TEXT, true); 7]).collect();
        let (_, turn) = drive(long, 20_000);
        let TurnStep::End(TurnEnd::Nothing { why }) = turn.next() else {
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
