//! Detects pictures that are unlike earlier ones.

use std::collections::VecDeque;

use super::cosine_similarity::{norm, unit_embedding};
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/identify_outliers@v1",
    summary: "Detects when the embedding of a picture differs in direction from almost all earlier \
              ones.",
    properties: &[
        Property::data("embedding", &[Kind::Embedding]).about("embedding of the picture"),
        Property::fraction("threshold_percentile", 0.05)
            .about("share of embeddings that count as outliers, on each side"),
        Property::integer("warmup", 3).about("number of embeddings before outliers are reported"),
        Property::integer("window_size", 32)
            .about("number of earlier embeddings to compare with")
            .nullable(),
    ],
    outputs: &[
        Output::new("is_outlier", &[Kind::Boolean]),
        Output::new("percentile", &[Kind::FloatZeroToOne]),
        Output::new("warming_up", &[Kind::Boolean]),
    ],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("video")
}];

const MAX_EMBEDDINGS: i64 = 4096;

#[derive(Default, Serialize, Deserialize)]
struct EarlierEmbeddings {
    seen: i64,
    latest: VecDeque<Vec<f64>>,
}

fn run(before: &mut EarlierEmbeddings, call: &mut Call<'_>) -> Result<(), String> {
    let earlier = before.latest.back().map(Vec::len);
    let embedding = unit_embedding(call, arg!("embedding"), earlier)?;
    let window = call.clamped(arg!("window_size"), 1..=MAX_EMBEDDINGS)?;
    before.seen += 1;
    before.latest.push_back(embedding);
    while before.latest.len() > window {
        before.latest.pop_front();
    }
    if before.seen < call.integer(arg!("warmup"))? {
        return call.finish_all((false, 0.5, true));
    }
    let percentile = before.percentile();
    let tail = call.number(arg!("threshold_percentile"))?;
    call.finish_all((
        percentile < tail || percentile > 1.0 - tail,
        percentile,
        false,
    ))
}

impl EarlierEmbeddings {
    /// Share of the earlier embeddings that are less similar to their mean direction than the
    /// newest one.
    fn percentile(&self) -> f64 {
        let Some(newest) = self.latest.back() else {
            return 0.5;
        };
        let mut direction = vec![0.0; newest.len()];
        for embedding in &self.latest {
            for (sum, n) in direction.iter_mut().zip(embedding) {
                *sum += n;
            }
        }
        // A single embedding, or embeddings that cancel out, have no mean direction.
        if self.latest.len() < 2 || norm(&direction) == 0.0 {
            direction.clone_from(newest);
        }
        let alike = |e: &[f64]| e.iter().zip(&direction).map(|(a, b)| a * b).sum::<f64>();
        let own = alike(newest);
        let less = self.latest.iter().filter(|e| alike(e) < own).count();

        less as f64 / self.latest.len() as f64
    }
}
