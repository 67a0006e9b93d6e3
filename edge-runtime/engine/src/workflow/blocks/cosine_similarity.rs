//! Compares two embeddings.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/cosine_similarity@v1",
    category: "math",
    summary: "Computes the similarity of two embeddings: 1 for the same direction, 0 for orthogonal ones, -1 for opposite ones.",
    properties: &[
        Property::data("embedding_1", "the one", &[Kind::Embedding]),
        Property::data("embedding_2", "the other", &[Kind::Embedding]),
    ],
    outputs: &[Output::new("similarity", &[Kind::Float])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let embedding = |arg: Arg| {
        let numbers = call.arg(arg).as_numbers();
        numbers.ok_or_else(|| format!("an embedding expected, got {}", call.arg(arg).what()))
    };
    let (a, b) = (
        embedding(arg!("embedding_1"))?,
        embedding(arg!("embedding_2"))?,
    );
    if a.len() != b.len() {
        return Err(format!(
            "embeddings of {} and {} numbers can't be compared",
            a.len(),
            b.len()
        ));
    }
    call.put(0, cosine(&a, &b));
    Ok(())
}

/// Cosine of the angle between two vectors of one length; not a number if one is zero.
pub(super) fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
