//! Compares two embeddings.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/cosine_similarity@v1",
    summary: "Computes the similarity of two embeddings: 1 for the same direction, 0 for \
              orthogonal ones, -1 for opposite ones.",
    properties: &[
        Property::data("embedding_1", &[Kind::Embedding]).about("the first embedding"),
        Property::data("embedding_2", &[Kind::Embedding]).about("the second embedding"),
    ],
    outputs: &[Output::new("similarity", &[Kind::Float])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("math")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let a = call.numbers(arg!("embedding_1"))?;
    let b = call.numbers(arg!("embedding_2"))?;
    if a.len() != b.len() {
        return Err(format!(
            "embeddings of {} and {} numbers can't be compared",
            a.len(),
            b.len()
        ));
    }
    call.finish(cosine(&a, &b))
}

/// The embedding in property `arg`, scaled to length 1. Fails if it has another number of
/// dimensions than the earlier ones, or its length is not finite.
pub(super) fn unit_embedding(
    call: &Call<'_>,
    arg: Arg,
    dimensions: Option<usize>,
) -> Result<Vec<f64>, String> {
    let mut embedding = call.numbers(arg)?;
    if let Some(earlier) = dimensions.filter(|earlier| *earlier != embedding.len()) {
        return Err(format!(
            "the embedding has {} numbers, but earlier ones had {earlier}",
            embedding.len()
        ));
    }
    let length = norm(&embedding);
    if !length.is_finite() {
        return Err(
            "the length of the embedding is not finite; use another model, or float32".to_owned(),
        );
    }
    if length != 0.0 {
        embedding.iter_mut().for_each(|n| *n /= length);
    }
    Ok(embedding)
}

pub(super) fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|n| n * n).sum::<f64>().sqrt()
}

/// Cosine of the angle between two vectors of one length; not a number if one is zero.
pub(super) fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
