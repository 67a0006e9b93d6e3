//! Text of a line by best path decoding: the most probable character at each step, without repeats
//! and blanks. See Graves et al., "Connectionist temporal classification", ICML 2006, 3.2.

use std::sync::Arc;

use watchkeeper_models::manifest::{Blank, ClassScores};

use super::error::DecodeError;
use super::request::{Request, best, sigmoid, to_unit};

const FAMILY: &str = "ctc";

/// Text of a line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    pub text: String,
    /// Mean score of the characters, `0.0..=1.0`; 0 for an empty text.
    pub confidence: f32,
}

/// The scores of each step: `1 × steps × classes`, or `steps × 1 × classes`, where the classes are
/// the characters and the blank.
///
/// # Errors
/// [`DecodeError`]: not one tensor, or one of another shape.
pub fn steps<'a>(
    request: &Request<'a>,
    characters: usize,
) -> Result<std::slice::ChunksExact<'a, f32>, DecodeError> {
    let [tensor] = request.tensors::<1>(FAMILY)?;
    let classes = characters + 1;
    let steps = match *tensor.shape {
        [1, steps, c] | [steps, 1, c] if c == classes => steps,
        _ => usize::MAX,
    };
    if steps.checked_mul(classes) != Some(tensor.data.len()) {
        let expected = format!("1xNx{classes}, for {characters} characters and none");
        return Err(request.shape_error(FAMILY, tensor, expected));
    }
    Ok(tensor.data.chunks_exact(classes))
}

/// Decodes a line.
///
/// # Errors
/// As [`steps`].
pub fn decode(
    request: &Request<'_>,
    characters: &[Arc<str>],
    blank: Blank,
    scores: ClassScores,
) -> Result<Reading, DecodeError> {
    let none = match blank {
        Blank::First => 0,
        Blank::Last => characters.len(),
    };
    let mut reading = Reading::default();
    let (mut before, mut sum, mut count) = (none, 0.0, 0.0);
    for step in steps(request, characters.len())? {
        // A step of NaN counts as blank.
        let (class, high) = best(step).unwrap_or((none, 0.0));
        if class != none && class != before {
            let character = match blank {
                Blank::First => class - 1,
                Blank::Last => class,
            };
            reading.text.extend(characters.get(character).map(|c| &**c));
            let score = match scores {
                ClassScores::Plain => high,
                ClassScores::Sigmoid => sigmoid(high),
                ClassScores::Softmax => {
                    let parts = step.iter().map(|x| (x - high).exp());
                    1.0 / parts.filter(|x| !x.is_nan()).sum::<f32>()
                }
            };
            sum += to_unit(score);
            count += 1.0;
        }
        before = class;
    }
    if count > 0.0 {
        reading.confidence = sum / count;
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::testing::{request, tensor};

    fn read(steps: &[[f32; 3]], blank: Blank, scores: ClassScores) -> Reading {
        let data = steps.concat();
        let shape = [1, steps.len(), 3];
        let outputs = [tensor(&shape, &data)];
        let characters = ["a", "b"].map(Arc::from);
        decode(&request(&outputs, 8, 0, 0.0), &characters, blank, scores).expect("fits")
    }

    const A: [f32; 3] = [0.1, 0.8, 0.1];
    const B: [f32; 3] = [0.2, 0.2, 0.6];
    const NONE: [f32; 3] = [1.0, 0.0, 0.0];

    #[test]
    fn repeated_character_counts_once_unless_a_blank_separates() {
        let said = read(
            &[NONE, A, A, NONE, A, B, B, NONE],
            Blank::First,
            ClassScores::Plain,
        );
        assert_eq!(said.text, "aab");
        assert!((said.confidence - (0.8 + 0.8 + 0.6) / 3.0).abs() < 1e-6);
        assert_eq!(
            read(&[NONE, NONE], Blank::First, ClassScores::Plain),
            Reading::default()
        );
    }

    #[test]
    fn nothing_may_be_the_last_class() {
        // With the blank last, class 0 is the first character.
        let said = read(&[NONE, A, B], Blank::Last, ClassScores::Plain);
        assert_eq!(said.text, "ab");
    }

    #[test]
    fn logits_become_shares_of_one() {
        let said = read(
            &[[0.0, 2.0, 2.0], [0.0, 0.0, 9.0]],
            Blank::First,
            ClassScores::Softmax,
        );
        assert_eq!(said.text, "ab");
        let first = 1.0 / (2.0 + (-2.0_f32).exp());
        let second = 1.0 / (1.0 + 2.0 * (-9.0_f32).exp());
        assert!((said.confidence - (first + second) / 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_network_for_other_characters_is_refused_with_both_numbers() {
        let data = [0.0; 8];
        let outputs = [tensor(&[1, 2, 4], &data)];
        let characters = ["a", "b"].map(Arc::from);
        let refused = decode(
            &request(&outputs, 8, 0, 0.0),
            &characters,
            Blank::First,
            ClassScores::Plain,
        );
        let said = refused.expect_err("refused").to_string();
        assert!(
            said.contains("1x2x4") && said.contains("1xNx3, for 2 characters"),
            "{said}"
        );
    }

    proptest! {
        #[test]
        fn line_never_has_more_characters_than_steps(
            data in prop::collection::vec([prop::num::f32::ANY, prop::num::f32::ANY, prop::num::f32::ANY], 0..9),
            blank in prop_oneof![Just(Blank::First), Just(Blank::Last)],
            scores in prop_oneof![
                Just(ClassScores::Plain), Just(ClassScores::Sigmoid), Just(ClassScores::Softmax),
            ],
        ) {
            let said = read(&data, blank, scores);
            prop_assert!(said.text.len() <= data.len());
            prop_assert!((0.0..=1.0).contains(&said.confidence), "{}", said.confidence);
        }
    }
}
