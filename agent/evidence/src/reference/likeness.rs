//! From embeddings to an answer.
//!
//! | likeness (`mobilenet-v2-features`) | confidence |
//! |---|---|
//! | below 0.75 | no answer |
//! | 0.75 | 0.70 |
//! | 0.80 | 0.85 |
//! | 0.95 and more | 0.95 |
//!
//! Straight lines in between. `tests/tools/references` measures it.

use serde_json::json;

use crate::source::{SourceAnswer, in_unit};

/// Lead of the best set over the next one; less is a tie.
pub const MIN_MARGIN: f64 = 0.05;
/// The model whose likeness was measured.
const MEASURED: &str = "mobilenet-v2-features";

/// Confidence by likeness: rising points, straight lines in between.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration([(f64, f64); 3]);

/// One reference picture with its embedding.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// Name of its set.
    pub set: &'a str,
    /// Name of its file.
    pub file: &'a str,
    pub sha256: &'a str,
    /// Of unit length.
    pub vector: &'a [f32],
}

/// A reference picture with its likeness.
#[derive(Debug, Clone, Copy)]
struct Compared<'a> {
    reference: Reference<'a>,
    likeness: f64,
}

impl Calibration {
    /// The calibration of a model, with the lowest likeness that is configured.
    ///
    /// # Errors
    /// A sentence with the remedy, if none is configured and the model was not measured.
    pub fn of(model: &str, min_likeness: Option<f64>) -> Result<Self, String> {
        match (min_likeness, model) {
            (Some(least), _) => Ok(Self([
                (least, 0.70),
                (least.midpoint(1.0), 0.85),
                (1.0, 0.95),
            ])),
            (None, MEASURED) => Ok(Self([(0.75, 0.70), (0.80, 0.85), (0.95, 0.95)])),
            (None, other) => Err(format!(
                "the likeness of {other} was not measured; measure it with \
                 tests/tools/references/run, and set agent.references.min_likeness"
            )),
        }
    }

    /// Lowest likeness that is an answer.
    pub fn least(&self) -> f64 {
        self.0[0].0
    }

    /// The confidence; `None` below the lowest likeness.
    pub fn confidence(&self, likeness: f64) -> Option<f64> {
        if likeness.is_nan() || likeness < self.least() {
            return None;
        }
        let mut at = self.0[0].1;
        for [(from, low), (to, high)] in
            self.0.windows(2).filter_map(|w| <[_; 2]>::try_from(w).ok())
        {
            let share = ((likeness - from) / (to - from)).clamp(0.0, 1.0);
            if likeness >= from {
                at = low + (high - low) * share;
            }
        }
        Some(in_unit(at))
    }
}

/// Compares `query`, of unit length, with the pictures of one or more sets. `model` made all
/// embeddings.
pub fn compare<'a>(
    query: &[f32],
    references: impl IntoIterator<Item = Reference<'a>>,
    calibration: &Calibration,
    model: &str,
) -> SourceAnswer {
    let mut best: Vec<Compared<'a>> = Vec::new();
    for reference in references {
        let Some(likeness) = cosine(query, reference.vector) else {
            let (set, file) = (reference.set, reference.file);
            return SourceAnswer::failed(format!(
                "{file} of {set} has an embedding of another length"
            ));
        };
        let compared = Compared {
            reference,
            likeness,
        };
        match best.iter_mut().find(|c| c.reference.set == reference.set) {
            Some(known) if known.likeness >= likeness => {}
            Some(known) => *known = compared,
            None => best.push(compared),
        }
    }
    best.sort_by(|a, b| b.likeness.total_cmp(&a.likeness));
    let Some(first) = best.first() else {
        return SourceAnswer::no_answer("there is no reference picture");
    };
    let (set, file, likeness) = (first.reference.set, first.reference.file, first.likeness);
    let Some(confidence) = calibration.confidence(likeness) else {
        let least = calibration.least();
        return SourceAnswer::no_answer(format!(
            "most like {set} with {likeness:.2}, below {least:.2}"
        ));
    };
    let second = best.get(1);
    let margin = second.map(|second| likeness - second.likeness);
    if let (Some(second), Some(margin)) = (second, margin)
        && margin < MIN_MARGIN
    {
        return SourceAnswer::no_answer(format!(
            "like {set} with {likeness:.2} and {} with {:.2}: too near to tell them apart",
            second.reference.set, second.likeness
        ));
    }
    SourceAnswer::Answered {
        confidence,
        note: format!("like {set} with {likeness:.2}, by {file}"),
        data: json!({
            "name": set, "likeness": rounded(likeness), "margin": margin.map(rounded),
            "second": second.map(|second| second.reference.set), "model": model,
            "picture": file, "sha256": first.reference.sha256,
        }),
    }
}

/// Cosine of the angle of two vectors of unit length; `None` if their lengths differ.
fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let products = a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y));
    (a.len() == b.len()).then(|| products.sum())
}

fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn calibration() -> Calibration {
        Calibration::of(MEASURED, None).unwrap()
    }

    /// A vector of unit length with this likeness to `[1, 0]`.
    fn at(likeness: f32) -> [f32; 2] {
        [likeness, (1.0 - likeness * likeness).sqrt()]
    }

    fn answer(pictures: &[(&str, f32)]) -> SourceAnswer {
        let vectors: Vec<[f32; 2]> = pictures.iter().map(|(_, likeness)| at(*likeness)).collect();
        let references = pictures
            .iter()
            .zip(&vectors)
            .map(|((set, _), vector)| Reference {
                set,
                file: "a.jpg",
                sha256: "00",
                vector,
            });
        compare(&[1.0, 0.0], references, &calibration(), MEASURED)
    }

    #[test]
    fn best_picture_of_the_best_set_answers() {
        let found = answer(&[("staff", 0.3), ("staff", 0.9), ("suppliers", 0.8)]);
        let SourceAnswer::Answered {
            confidence, data, ..
        } = found
        else {
            panic!("{found:?}");
        };
        assert!((0.85..0.95).contains(&confidence), "{confidence}");
        assert_eq!(data["name"], "staff");
        assert_eq!(data["second"], "suppliers");
        assert!(
            (data["margin"].as_f64().unwrap() - 0.1).abs() < 0.001,
            "{data}"
        );
    }

    #[test]
    fn low_likeness_and_near_tie_are_no_answer() {
        for (pictures, why) in [
            (&[("staff", 0.74)][..], "below 0.75"),
            (&[("staff", 0.9), ("suppliers", 0.87)], "too near"),
            (&[], "no reference"),
        ] {
            let found = answer(pictures);
            let is_it = matches!(&found, SourceAnswer::NoAnswer { note } if note.contains(why));
            assert!(is_it, "{found:?}");
        }
        // Two pictures of one set are not a tie.
        let found = answer(&[("staff", 0.9), ("staff", 0.89)]);
        assert!(matches!(found, SourceAnswer::Answered { .. }), "{found:?}");
    }

    #[test]
    fn model_that_was_not_measured_needs_the_key() {
        let why = Calibration::of("mine", None).unwrap_err();
        assert!(why.contains("agent.references.min_likeness"), "{why}");
        let own = Calibration::of("mine", Some(0.5)).unwrap();
        assert_eq!(own.confidence(0.49), None);
        assert_eq!(own.confidence(0.5), Some(0.7));
        assert_eq!(own.confidence(1.0), Some(0.95));
    }

    #[test]
    fn vector_of_another_length_is_a_failure() {
        let reference = Reference {
            set: "staff",
            file: "a.jpg",
            sha256: "00",
            vector: &[1.0],
        };
        let found = compare(&[1.0, 0.0], [reference], &calibration(), MEASURED);
        assert!(matches!(found, SourceAnswer::Failed { .. }), "{found:?}");
    }

    proptest! {
        #[test]
        fn confidence_rises_with_likeness(a in -1.0..1.01, b in -1.0..1.01, least in 0.0..0.99) {
            for calibration in [calibration(), Calibration::of("x", Some(least)).unwrap()] {
                let (low, high) = if a < b { (a, b) } else { (b, a) };
                let (of_low, of_high) = (calibration.confidence(low), calibration.confidence(high));
                prop_assert!(of_low.unwrap_or(0.0) <= of_high.unwrap_or(0.0));
                if let Some(confidence) = of_high {
                    prop_assert!((0.70..=0.95).contains(&confidence));
                }
            }
        }

        #[test]
        fn order_of_pictures_does_not_matter(
            mut pictures in prop::collection::vec((0..3_usize, 0.0..1.0_f32), 1..8)
        ) {
            let sets = ["a", "b", "c"];
            let named = |all: &[(usize, f32)]| {
                let all: Vec<_> = all.iter().map(|(set, likeness)| (sets[*set], *likeness)).collect();
                answer(&all)
            };
            let forward = named(&pictures);
            pictures.reverse();
            prop_assert_eq!(forward, named(&pictures));
        }
    }
}
