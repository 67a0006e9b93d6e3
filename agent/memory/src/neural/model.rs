//! Embedder with a sentence model.
//!
//! - [`SentenceModel::load`] tries a model before it returns it.
//! - [`SentenceModel::kept_as`](Embedder::kept_as) is a hash of the files, so vectors of two models
//!   are never mixed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use xxhash_rust::xxh3::Xxh3;

use crate::embed::{EmbedError, Embedder};

use super::error::LoadError;
use super::folder::{self, Bytes};
use super::network::Network;
use super::pooling::{NoVector, Pooling, pool};
use super::tokens::Tokenizer;

/// Maximum tokens of a text; the rest is cut. Run time grows with them, and sentence models were
/// trained on fewer.
pub const MAX_TOKENS: usize = 512;
/// Default of most sentence models, if the files have no limit.
const DEFAULT_TOKENS: usize = 256;
/// Minimum tokens of a text that a model must accept.
const MIN_TOKENS: usize = 8;
/// Maximum dimensions of a vector: memory holds a byte of each for up to 100,000 notes.
pub const MAX_DIMENSION: usize = 1024;
/// Prefix of the fingerprint; it changes if the same files give other vectors.
const FINGERPRINT_PREFIX: &[u8] = b"watchkeeper sentences 1";
const NAME: &str = "sentences";

/// Unrelated sentences, whose cosines show the noise of a model.
const UNRELATED: [&str; 10] = [
    "A white van stands at the loading dock.",
    "The choir sang two songs by Schubert.",
    "Water boils at a lower temperature in the mountains.",
    "My sister bought a blue dress for the wedding.",
    "The parliament voted on the new tax.",
    "Cut the onions and fry them in butter.",
    "He scored a goal in the last minute.",
    "The moons of Jupiter were seen with a telescope.",
    "Please sign the contract on the last page.",
    "Somebody climbs over the fence at night.",
];
/// Mean cosine of unrelated sentences above which a model is useless. E5 models have the highest in
/// use, 0.7 to 0.8.
const MAX_UNRELATED_COSINE: f32 = 0.95;
/// Standard deviations above the mean of unrelated sentences at which two texts count as related:
/// by chance 1 in 40 does.
const FLOOR_DEVIATIONS: f32 = 2.0;

const USE_OTHER: &str = "use a model like all-MiniLM-L6-v2, bge-small-en or e5-small, exported to ONNX by sentence-transformers or optimum";
const USE_MATCHING: &str = "use network and tokenizer of the same model";

/// Embedder that runs a network.
#[derive(Debug)]
pub struct SentenceModel {
    network: Network,
    tokenizer: Tokenizer,
    pooling: Pooling,
    /// Prefixes of a query and of a note.
    prompts: (String, String),
    tokens: usize,
    dimension: usize,
    floor: f32,
    fingerprint: String,
}

/// A text without a vector.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Run(String),
    #[error(transparent)]
    Answer(#[from] NoVector),
}

#[derive(Deserialize)]
struct PoolingFile {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct LengthFile {
    max_seq_length: Option<usize>,
}

#[derive(Deserialize)]
struct PromptsFile {
    #[serde(default)]
    prompts: BTreeMap<String, String>,
}

impl SentenceModel {
    /// Loads and tries the model in `folder`, on a dozen sentences and the longest text.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(folder: &Path) -> Result<Self, LoadError> {
        let network = folder::network(folder)?;
        let tokenizer = folder::tokenizer(folder)?;
        let settings = |name| folder::settings(folder, name);
        let [pooling, modules, length, prompts] = [
            settings(folder::POOLING)?,
            settings(folder::MODULES)?,
            settings(folder::LENGTH)?,
            settings(folder::PROMPTS)?,
        ];
        let mut hash = Xxh3::new();
        hash.update(FINGERPRINT_PREFIX);
        let all = [Some(&network), Some(&tokenizer), pooling.as_ref()];
        for file in all.into_iter().chain([length.as_ref(), prompts.as_ref()]) {
            let bytes = file.map_or(&[][..], |file| &file.bytes);
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        if let Some(file) = modules {
            check_modules(&file)?;
        }
        let pooling = pooling.as_ref().map_or(Ok(Pooling::Mean), read_pooling)?;
        let length: Option<LengthFile> = length.as_ref().map(Bytes::json).transpose()?;
        let prompts = prompts.as_ref().map(read_prompts).transpose()?;
        let words = Tokenizer::read(&tokenizer.bytes)
            .map_err(|bad| LoadError::new(&tokenizer.path, bad.to_string(), USE_OTHER))?;
        let tokens = length
            .and_then(|length| length.max_seq_length)
            .or(words.cut());
        let Bytes { path, bytes } = network;
        let network = Network::new(bytes).map_err(|why| LoadError::new(&path, why, USE_OTHER))?;
        let mut model = Self {
            network,
            tokenizer: words,
            pooling,
            prompts: prompts.unwrap_or_default(),
            tokens: tokens
                .unwrap_or(DEFAULT_TOKENS)
                .clamp(MIN_TOKENS, MAX_TOKENS),
            dimension: 0,
            floor: 0.0,
            fingerprint: format!("{:032x}", hash.digest128()),
        };
        model
            .try_out()
            .map_err(|(why, remedy)| LoadError::new(&path, why, remedy))?;
        Ok(model)
    }

    /// Maximum tokens of a text; the rest is cut.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Runs the model on unrelated sentences and on the longest text; measures dimension and floor.
    fn try_out(&mut self) -> Result<(), (String, &'static str)> {
        let as_note = |sentence: &&str| self.vector(&self.prompts.1, sentence);
        let notes: Result<Vec<Vec<f32>>, Failure> = UNRELATED.iter().map(as_note).collect();
        let notes = notes.map_err(|why| (why.to_string(), USE_OTHER))?;
        let as_question = |sentence: &&str| self.vector(&self.prompts.0, sentence);
        let questions: Result<Vec<Vec<f32>>, Failure> = if self.prompts.0 == self.prompts.1 {
            Ok(notes.clone())
        } else {
            UNRELATED.iter().map(as_question).collect()
        };
        let questions = questions.map_err(|why| (why.to_string(), USE_OTHER))?;
        let dimension = notes.first().map_or(0, Vec::len);
        if !(1..=MAX_DIMENSION).contains(&dimension) {
            let why = format!(
                "its vectors have {dimension} numbers, and at most {MAX_DIMENSION} are allowed"
            );
            return Err((why, "use a smaller model"));
        }
        let mut cosines = Vec::new();
        for (n, question) in questions.iter().enumerate() {
            let others = notes.iter().enumerate().filter(|(m, _)| *m != n);
            cosines.extend(others.map(|(_, note)| cosine(question, note)));
        }
        let (mean, deviation) = mean_and_deviation(&cosines);
        if mean > MAX_UNRELATED_COSINE {
            let why = format!(
                "it gives nearly the same vector to unrelated sentences (mean cosine {mean:.2})"
            );
            return Err((why, USE_MATCHING));
        }
        // Checks that the network knows the tokenizer's last token, and accepts the longest text.
        let last = self.tokenizer.last();
        let long = match self.run(&vec![last; self.tokens]) {
            // Such a text may have no meaning.
            Err(Failure::Answer(NoVector::Zero)) => vec![0.0; dimension],
            other => other.map_err(|why| {
                let tokens = self.tokens;
                let why = format!("it fails on {tokens} tokens of number {last}: {why}");
                (why, USE_MATCHING)
            })?,
        };
        if long.len() != dimension {
            let why = "its vectors differ in length".to_owned();
            return Err((why, USE_OTHER));
        }
        self.dimension = dimension;
        self.floor = (mean + FLOOR_DEVIATIONS * deviation).clamp(0.0, 1.0);
        Ok(())
    }

    fn vector(&self, prompt: &str, text: &str) -> Result<Vec<f32>, Failure> {
        let tokens = if prompt.is_empty() {
            self.tokenizer.tokens(text, self.tokens)
        } else {
            self.tokenizer
                .tokens(&format!("{prompt}{text}"), self.tokens)
        };
        self.run(&tokens)
    }

    fn run(&self, tokens: &[i32]) -> Result<Vec<f32>, Failure> {
        if tokens.is_empty() {
            return Err(Failure::Answer(NoVector::Zero));
        }
        let read =
            |shape: &[usize], numbers: &[f32]| pool(self.pooling, tokens.len(), shape, numbers);
        let answer = self.network.run(tokens, read).map_err(Failure::Run)?;
        answer.map_err(Failure::Answer)
    }

    fn embed_with(&self, prompt: &str, text: &str) -> Result<Vec<f32>, EmbedError> {
        let failed = |why: String| EmbedError {
            embedder: NAME,
            why,
        };
        let vector = match self.vector(prompt, text) {
            Ok(vector) => vector,
            // A text without meaning has a vector of length 0.
            Err(Failure::Answer(NoVector::Zero)) => vec![0.0; self.dimension],
            Err(failure) => return Err(failed(failure.to_string())),
        };
        if vector.len() == self.dimension {
            Ok(vector)
        } else {
            Err(failed(format!(
                "the network returns {} numbers instead of {}",
                vector.len(),
                self.dimension
            )))
        }
    }
}

impl Embedder for SentenceModel {
    fn name(&self) -> &'static str {
        NAME
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn floor(&self) -> f32 {
        // Measured, because models differ. Cosines of unrelated sentences are about 0 with MiniLM.
        // They are 0.7 and more with E5 (by its model card, because of its training temperature of
        // 0.01).
        self.floor
    }

    fn kept_as(&self) -> Option<&str> {
        Some(&self.fingerprint)
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embed_with(&self.prompts.1, text)
    }

    fn embed_question(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embed_with(&self.prompts.0, text)
    }
}

/// Checks that every step of the model is implemented here.
fn check_modules(file: &Bytes) -> Result<(), LoadError> {
    let modules: Vec<Module> = file.json()?;
    let implemented = ["Transformer", "Pooling", "Normalize"];
    let other = modules
        .iter()
        .map(|module| module.kind.rsplit('.').next().unwrap_or_default())
        .find(|kind| !implemented.contains(kind));
    match other {
        None => Ok(()),
        Some(other) => {
            let why = format!("the model has a step {other:?}, which is not supported");
            Err(LoadError::new(&file.path, why, USE_OTHER))
        }
    }
}

fn read_pooling(file: &Bytes) -> Result<Pooling, LoadError> {
    let settings: PoolingFile = file.json()?;
    let modes = settings
        .others
        .iter()
        .filter(|(key, value)| key.starts_with("pooling_mode_") && value.as_bool() == Some(true));
    let others: Vec<&str> = modes.map(|(key, _)| key.as_str()).collect();
    match (
        settings.pooling_mode_mean_tokens,
        settings.pooling_mode_cls_token,
    ) {
        (true, false) if others.is_empty() => Ok(Pooling::Mean),
        (false, true) if others.is_empty() => Ok(Pooling::First),
        _ => {
            let why = "exactly one of pooling_mode_mean_tokens and pooling_mode_cls_token must be true, and no other mode";
            Err(LoadError::new(&file.path, why, USE_OTHER))
        }
    }
}

/// Reads the prefixes of a query and of a note.
fn read_prompts(file: &Bytes) -> Result<(String, String), LoadError> {
    let PromptsFile { prompts } = file.json()?;
    let named = |names: &[&str]| {
        let found = names.iter().find_map(|name| prompts.get(*name));
        found.cloned().unwrap_or_default()
    };
    Ok((named(&["query"]), named(&["passage", "document"])))
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn mean_and_deviation(of: &[f32]) -> (f32, f32) {
    let count = of.len().max(1) as f32;
    let mean = of.iter().sum::<f32>() / count;
    let squares = of.iter().map(|x| (x - mean).powi(2)).sum::<f32>();
    (mean, (squares / count).sqrt())
}
