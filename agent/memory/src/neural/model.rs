//! A model of sentences: its files, and the vectors that it makes.
//!
//! Invariants: what is handed out has been tried; [`SentenceModel::kept_as`](Embedder::kept_as) names the files by what stands in them, so vectors of one model are
//! never taken for those of another.

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

/// Most tokens of a text; the rest is left out. The time that a network takes grows with them, and models of sentences were trained on fewer.
pub const MAX_TOKENS: usize = 512;
/// Tokens of a text where the files say nothing: what most such models take.
const TOKENS: usize = 256;
/// Fewest that a model must take.
const MIN_TOKENS: usize = 8;
/// Most numbers of a vector: the memory holds one byte of each for each of up to 100,000 notes.
pub const MAX_DIMENSION: usize = 1024;
/// What begins the fingerprint; another number when the same files begin to give other vectors.
const FORM: &[u8] = b"watchkeeper sentences 1";
const NAME: &str = "sentences";

/// Sentences that have nothing to do with each other. What a model says of them is what it says where nothing is found.
const UNLIKE: [&str; 10] = [
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
/// Mean cosine of these from which on a model says nothing. Of models that are in use, those of E5 come highest, with 0.7 to 0.8.
const SAYS_NOTHING: f32 = 0.95;
/// Deviations above the mean of unlike sentences at which two texts begin to have something to do with each other: by chance one in forty does.
const DEVIATIONS: f32 = 2.0;

const OTHER: &str = "take a model of the kind of all-MiniLM-L6-v2, bge-small-en or e5-small, as exported to ONNX by sentence-transformers or optimum";
const MATCHING: &str = "take network and tokenizer from the same model";

/// An embedder that runs a network.
#[derive(Debug)]
pub struct SentenceModel {
    network: Network,
    tokenizer: Tokenizer,
    pooling: Pooling,
    /// What is put before a question, and before a note.
    prompts: (String, String),
    tokens: usize,
    dimension: usize,
    floor: f32,
    fingerprint: String,
}

/// Why a text has no vector.
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
    /// Reads the model in `folder` and tries it. Takes as long as a dozen sentences and the longest text.
    ///
    /// # Errors
    /// Which file, what is wrong with it, what to do.
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
        hash.update(FORM);
        let all = [Some(&network), Some(&tokenizer), pooling.as_ref()];
        for file in all.into_iter().chain([length.as_ref(), prompts.as_ref()]) {
            let bytes = file.map_or(&[][..], |file| &file.bytes);
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        if let Some(file) = modules {
            known_modules(&file)?;
        }
        let pooling = pooling.as_ref().map_or(Ok(Pooling::Mean), pooling_of)?;
        let told: Option<LengthFile> = length.as_ref().map(Bytes::json).transpose()?;
        let prompts = prompts.as_ref().map(prompts_of).transpose()?;
        let words = Tokenizer::read(&tokenizer.bytes)
            .map_err(|bad| LoadError::new(&tokenizer.path, bad.to_string(), OTHER))?;
        let tokens = told.and_then(|told| told.max_seq_length).or(words.cut());
        let Bytes { path, bytes } = network;
        let network = Network::new(bytes).map_err(|why| LoadError::new(&path, why, OTHER))?;
        let mut model = Self {
            network,
            tokenizer: words,
            pooling,
            prompts: prompts.unwrap_or_default(),
            tokens: tokens.unwrap_or(TOKENS).clamp(MIN_TOKENS, MAX_TOKENS),
            dimension: 0,
            floor: 0.0,
            fingerprint: format!("{:032x}", hash.digest128()),
        };
        model
            .try_out()
            .map_err(|(why, remedy)| LoadError::new(&path, why, remedy))?;
        Ok(model)
    }

    /// Most tokens of a text that it looks at.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Runs it on unlike sentences and on the longest text, and takes from the answers what only they can say.
    fn try_out(&mut self) -> Result<(), (String, &'static str)> {
        let of = |sentence: &&str| self.vector(&self.prompts.1, sentence);
        let notes: Result<Vec<Vec<f32>>, Failure> = UNLIKE.iter().map(of).collect();
        let notes = notes.map_err(|why| (why.to_string(), OTHER))?;
        let asked = |sentence: &&str| self.vector(&self.prompts.0, sentence);
        let questions: Result<Vec<Vec<f32>>, Failure> = if self.prompts.0 == self.prompts.1 {
            Ok(notes.clone())
        } else {
            UNLIKE.iter().map(asked).collect()
        };
        let questions = questions.map_err(|why| (why.to_string(), OTHER))?;
        let dimension = notes.first().map_or(0, Vec::len);
        if !(1..=MAX_DIMENSION).contains(&dimension) {
            let why = format!(
                "its vectors have {dimension} numbers, and at most {MAX_DIMENSION} are taken"
            );
            return Err((why, "take a smaller model"));
        }
        let mut cosines = Vec::new();
        for (n, question) in questions.iter().enumerate() {
            let others = notes.iter().enumerate().filter(|(m, _)| *m != n);
            cosines.extend(others.map(|(_, note)| cosine(question, note)));
        }
        let (mean, deviation) = mean_and_deviation(&cosines);
        if mean > SAYS_NOTHING {
            let why = format!(
                "it says nearly the same of sentences that have nothing to do with each other (mean cosine {mean:.2})"
            );
            return Err((why, MATCHING));
        }
        // The last token shows that the tokenizer has no more of them than the network, the length that the network takes as long a text.
        let last = self.tokenizer.last();
        let long = match self.made(&vec![last; self.tokens]) {
            // It may say nothing.
            Err(Failure::Answer(NoVector::Nought)) => vec![0.0; dimension],
            other => other.map_err(|why| {
                let tokens = self.tokens;
                let why = format!("it can't take {tokens} tokens of number {last}: {why}");
                (why, MATCHING)
            })?,
        };
        if long.len() != dimension {
            let why = "its vectors have unlike many numbers for two texts".to_owned();
            return Err((why, OTHER));
        }
        self.dimension = dimension;
        self.floor = (mean + DEVIATIONS * deviation).clamp(0.0, 1.0);
        Ok(())
    }

    fn vector(&self, prompt: &str, text: &str) -> Result<Vec<f32>, Failure> {
        let tokens = if prompt.is_empty() {
            self.tokenizer.tokens(text, self.tokens)
        } else {
            self.tokenizer
                .tokens(&format!("{prompt}{text}"), self.tokens)
        };
        self.made(&tokens)
    }

    fn made(&self, tokens: &[i32]) -> Result<Vec<f32>, Failure> {
        if tokens.is_empty() {
            return Err(Failure::Answer(NoVector::Nought));
        }
        let read =
            |shape: &[usize], numbers: &[f32]| pool(self.pooling, tokens.len(), shape, numbers);
        let answer = self.network.run(tokens, read).map_err(Failure::Run)?;
        answer.map_err(Failure::Answer)
    }

    fn embedded(&self, prompt: &str, text: &str) -> Result<Vec<f32>, EmbedError> {
        let failed = |why: String| EmbedError {
            embedder: NAME,
            why,
        };
        let vector = match self.vector(prompt, text) {
            Ok(vector) => vector,
            // It has no meaning, which is what a vector of length 0 says.
            Err(Failure::Answer(NoVector::Nought)) => vec![0.0; self.dimension],
            Err(failure) => return Err(failed(failure.to_string())),
        };
        if vector.len() == self.dimension {
            Ok(vector)
        } else {
            Err(failed(format!(
                "the network answers {} numbers in place of {}",
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
        // Measured, because models differ: unlike sentences have cosines about 0 with MiniLM, and 0.7 and more with E5, whose model card says so (it was trained with
        // a temperature of 0.01).
        self.floor
    }

    fn weight(&self) -> f32 {
        // As much as the words: rank fusion was found good without weights (Cormack et al. 2009), and nothing here could measure better ones.
        1.0
    }

    fn kept_as(&self) -> Option<&str> {
        Some(&self.fingerprint)
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embedded(&self.prompts.1, text)
    }

    fn embed_question(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embedded(&self.prompts.0, text)
    }
}

/// That nothing stands between the network and the vector that isn't done here.
fn known_modules(file: &Bytes) -> Result<(), LoadError> {
    let modules: Vec<Module> = file.json()?;
    let done = ["Transformer", "Pooling", "Normalize"];
    let other = modules
        .iter()
        .map(|module| module.kind.rsplit('.').next().unwrap_or_default())
        .find(|kind| !done.contains(kind));
    match other {
        None => Ok(()),
        Some(other) => {
            let why = format!("the model has a step {other:?}, which is not done here");
            Err(LoadError::new(&file.path, why, OTHER))
        }
    }
}

fn pooling_of(file: &Bytes) -> Result<Pooling, LoadError> {
    let told: PoolingFile = file.json()?;
    let modes = told
        .others
        .iter()
        .filter(|(key, value)| key.starts_with("pooling_mode_") && value.as_bool() == Some(true));
    let others: Vec<&str> = modes.map(|(key, _)| key.as_str()).collect();
    match (told.pooling_mode_mean_tokens, told.pooling_mode_cls_token) {
        (true, false) if others.is_empty() => Ok(Pooling::Mean),
        (false, true) if others.is_empty() => Ok(Pooling::First),
        _ => {
            let why = "exactly one of pooling_mode_mean_tokens and pooling_mode_cls_token must be true, and no other mode";
            Err(LoadError::new(&file.path, why, OTHER))
        }
    }
}

/// What a model wants before a question and before a note.
fn prompts_of(file: &Bytes) -> Result<(String, String), LoadError> {
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
