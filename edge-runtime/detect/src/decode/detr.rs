//! DETR and its descendants: queries, each a box in `0..=1` of the input and class logits.
//!
//! - Sigmoid scores (RF-DETR, Deformable DETR): a query may have several classes.
//! - Softmax scores (DETR, arXiv 2005.12872): the last column means "no object".
//!
//! No suppression is needed.

use watchkeeper_models::manifest::DetrScores;

use super::error::DecodeError;
use super::request::{Request, around, best, sigmoid};
use crate::detection::RawDetection;

const FAMILY: &str = "detr";

/// Decodes one picture; appends boxes to `out`. The outputs are the boxes, then the logits.
///
/// # Errors
/// [`DecodeError`]: not two tensors, or one of another shape.
pub fn decode(
    request: &Request<'_>,
    scores: DetrScores,
    out: &mut Vec<RawDetection>,
) -> Result<(), DecodeError> {
    let [boxes, logits] = request.tensors::<2>(FAMILY)?;
    let queries = match *boxes.shape {
        [1, queries, 4] => queries,
        _ => return Err(request.shape_error(FAMILY, boxes, "1xNx4".to_owned())),
    };
    let extra = match scores {
        DetrScores::Sigmoid => 0,
        DetrScores::Softmax => 1,
    };
    let columns = request.classes + extra;
    let boxes = request.rows(FAMILY, boxes, queries, 4)?;
    let logits = request.rows(FAMILY, logits, queries, columns)?;
    let (width, height) = (request.width as f32, request.height as f32);
    for (b, logits) in boxes.zip(logits) {
        let corners = around(b[0] * width, b[1] * height, b[2] * width, b[3] * height);
        match scores {
            DetrScores::Sigmoid => {
                for (class_id, logit) in logits.iter().enumerate() {
                    request.push(out, corners, sigmoid(*logit), class_id);
                }
            }
            DetrScores::Softmax => {
                let Some((_, high)) = best(logits) else {
                    continue;
                };
                let sum: f32 = logits.iter().map(|l| (l - high).exp()).sum();
                if let Some((class_id, logit)) = best(&logits[..request.classes]) {
                    request.push(out, corners, (logit - high).exp() / sum, class_id);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::testing::{near, request, tensor};

    fn decoded(classes: usize, scores: DetrScores, logits: &[f32]) -> Vec<RawDetection> {
        let boxes = [0.5, 0.5, 0.25, 0.5];
        let shape = [1, 1, logits.len()];
        let outputs = [tensor(&[1, 1, 4], &boxes), tensor(&shape, logits)];
        let mut out = Vec::new();
        decode(&request(&outputs, 64, classes, 0.5), scores, &mut out).expect("right shape");
        out
    }

    #[test]
    fn sigmoid_scores_let_a_query_answer_two_classes() {
        let out = decoded(3, DetrScores::Sigmoid, &[2.0, -2.0, 1.0]);
        let classes: Vec<_> = out.iter().map(|d| d.class_id).collect();
        assert_eq!(classes, [0, 2]);
        assert!((out[0].score - 0.8808).abs() < 1e-3);
        assert!(near(&out[0].bbox, [24.0, 16.0, 40.0, 48.0], 1e-4));
    }

    #[test]
    fn softmax_gives_what_is_left_by_nothing() {
        assert!(decoded(2, DetrScores::Softmax, &[1.0, 0.0, 3.0]).is_empty());
        let out = decoded(2, DetrScores::Softmax, &[3.0, 0.0, 1.0]);
        assert_eq!((out.len(), out[0].class_id), (1, 0));
        assert!((out[0].score - 0.8438).abs() < 1e-3);
    }

    #[test]
    fn numbers_out_of_range_give_no_box() {
        assert!(decoded(2, DetrScores::Softmax, &[f32::NAN, f32::NAN, f32::NAN]).is_empty());
        assert!(decoded(1, DetrScores::Sigmoid, &[f32::NAN]).is_empty());
    }
}
