//! Detects changes of pictures against a running mean.

use std::collections::VecDeque;

use super::cosine_similarity::{cosine, unit_embedding};
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/identify_changes@v1",
    summary: "Detects when the embedding of a picture is far from the mean of earlier ones.",
    properties: &[
        Property::literal("strategy", Shape::Choice(&names_of(&STRATEGIES)))
            .about("how the mean of earlier embeddings is computed")
            .or(Or::Text(STRATEGIES[0].0)),
        Property::data("embedding", &[Kind::Embedding]).about("embedding of the picture"),
        Property::fraction("threshold_percentile", 0.2)
            .about("share of embeddings that count as outliers, both sides together"),
        Property::integer("warmup", 3).about("number of embeddings before outliers are reported"),
        Property::fraction("smoothing_factor", 0.1)
            .about("weight of the newest embedding in an exponential mean")
            .nullable(),
        Property::integer("window_size", 10)
            .about("number of embeddings in a window")
            .nullable(),
    ],
    outputs: &[
        Output::new("is_outlier", &[Kind::Boolean]),
        Output::new("percentile", &[Kind::FloatZeroToOne]),
        Output::new("z_score", &[Kind::Float]),
        Output::new("average", &[Kind::Embedding]),
        Output::new("std", &[Kind::Embedding]),
        Output::new("warming_up", &[Kind::Boolean]),
    ],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("video")
}];

/// How the mean is computed.
#[derive(Debug, Clone, Copy)]
enum Average {
    Exponential,
    Simple,
    Window,
}

const STRATEGIES: [(&str, Average); 3] = [
    ("Exponential Moving Average (EMA)", Average::Exponential),
    ("Simple Moving Average (SMA)", Average::Simple),
    ("Sliding Window", Average::Window),
];

const MAX_WINDOW: i64 = 4096;

#[derive(Default, Serialize, Deserialize)]
struct EmbeddingStatistics {
    seen: i64,
    embeddings: Vec<Mean>,
    likeness: Option<Mean>,
}

/// Mean and spread of one number over time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Mean {
    average: f64,
    /// Variance of an exponential mean, or the sum of squares of a simple one.
    spread: f64,
    deviation: f64,
    window: VecDeque<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Strategy {
    Exponential(f64),
    /// With the number of values, including the new one.
    Simple(f64),
    Window(usize),
}

impl Mean {
    fn begin(number: f64) -> Self {
        Self {
            average: number,
            ..Self::default()
        }
    }

    fn add(&mut self, number: f64, strategy: Strategy) {
        match strategy {
            Strategy::Exponential(alpha) => {
                self.average = (1.0 - alpha) * self.average + alpha * number;
                let difference = number - self.average;
                self.spread = (1.0 - alpha) * self.spread + alpha * difference * difference;
                self.deviation = self.spread.sqrt();
            }
            // Welford, "Note on a method for calculating corrected sums of squares and products",
            // 1962.
            Strategy::Simple(count) => {
                let before = number - self.average;
                self.average += before / count;
                self.spread += before * (number - self.average);
                self.deviation = (self.spread / (count - 1.0)).sqrt();
            }
            Strategy::Window(size) => {
                self.window.push_back(number);
                while self.window.len() > size {
                    self.window.pop_front();
                }
                let count = self.window.len().max(1) as f64;
                self.average = self.window.iter().sum::<f64>() / count;
                let squares = self.window.iter().map(|n| (n - self.average).powi(2));
                self.deviation = (squares.sum::<f64>() / count).sqrt();
            }
        }
    }
}

impl EmbeddingStatistics {
    /// Returns the z-score of an embedding's similarity to the mean, and its percentile.
    fn compare(&mut self, embedding: &[f64], strategy: Strategy) -> (f64, f64) {
        if self.embeddings.is_empty() {
            return (0.0, 0.5);
        }
        let averages: Vec<f64> = self.embeddings.iter().map(|m| m.average).collect();
        let alike = cosine(embedding, &averages);
        // An embedding of zeros has no direction, and would make every later mean NaN.
        if !alike.is_finite() {
            return (0.0, 0.5);
        }
        match &mut self.likeness {
            None => self.likeness = Some(Mean::begin(alike)),
            Some(likeness) => likeness.add(alike, strategy),
        }
        match self.likeness.as_ref().filter(|l| l.deviation != 0.0) {
            Some(likeness) => {
                let score = (alike - likeness.average) / likeness.deviation;
                let percentile = 1.0 - 0.5 * (1.0 + libm::erf(score / std::f64::consts::SQRT_2));
                (score, percentile)
            }
            None => (0.0, 0.5),
        }
    }

    fn add(&mut self, embedding: &[f64], strategy: Strategy) {
        if self.embeddings.is_empty() {
            self.embeddings = embedding.iter().map(|n| Mean::begin(*n)).collect();
        } else {
            for (mean, number) in self.embeddings.iter_mut().zip(embedding) {
                mean.add(*number, strategy);
            }
        }
        self.seen += 1;
    }
}

fn run(usual: &mut EmbeddingStatistics, call: &mut Call<'_>) -> Result<(), String> {
    let earlier = Some(usual.embeddings.len()).filter(|dimensions| *dimensions > 0);
    let embedding = unit_embedding(call, arg!("embedding"), earlier)?;
    let count = usual.seen as f64 + 1.0;
    let window = call.clamped(arg!("window_size"), 1..=MAX_WINDOW)?;
    let strategy = match call.choice(arg!("strategy"), &STRATEGIES)? {
        Average::Exponential => Strategy::Exponential(call.number(arg!("smoothing_factor"))?),
        Average::Simple => Strategy::Simple(count),
        Average::Window => Strategy::Window(window),
    };
    let (score, percentile) = usual.compare(&embedding, strategy);
    let warming_up = usual.seen < call.integer(arg!("warmup"))?;
    let tail = call.number(arg!("threshold_percentile"))? / 2.0;
    usual.add(&embedding, strategy);
    let of = |number: fn(&Mean) -> f64| {
        Value::list(
            usual
                .embeddings
                .iter()
                .map(|m| Value::Float(number(m)))
                .collect(),
        )
    };
    call.finish_all((
        !warming_up && (percentile <= tail || percentile >= 1.0 - tail),
        percentile,
        score,
        of(|m| m.average),
        of(|m| m.deviation),
        warming_up,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;
    use super::{Kind, Value};

    #[test]
    fn embedding_of_zeros_does_not_end_the_statistics() {
        let step = json!({
            "type": "roboflow_core/identify_changes@v1", "embedding": "$inputs.embedding",
            "strategy": "Simple Moving Average (SMA)"
        });
        let mut bench = Bench::new(step, &[("embedding", Kind::Embedding)]);
        let mut score = |numbers: [f64; 2]| {
            let embedding = Value::list(numbers.map(Value::Float).to_vec());
            let out = bench.feed(&[("embedding", embedding)]);
            out.unwrap_or_else(|e| panic!("{e}"))["z_score"].clone()
        };
        for numbers in [[1.0, 0.0], [1.0, 0.1], [0.0, 0.0], [1.0, 0.2]] {
            score(numbers);
        }
        let unlike = score([0.0, 1.0]).as_f64();
        assert!(unlike.is_some_and(|score| score < -1.0), "{unlike:?}");
    }
}
