//! Embeddings of texts: tokenizer, network and cache.
//!
//! Steps use the same few texts in every frame, and encoding one costs as much as a picture.
//!
//! - Each text is encoded once while it is cached. The cache is bounded; the oldest entry is
//!   evicted first.
//! - A text always yields as many tokens as the network takes: it is padded or cut.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufReader, Read as _};
use std::sync::Arc;

use flate2::read::GzDecoder;
use instant_clip_tokenizer::{Token, Tokenizer};
use watchkeeper_models::manifest::{Fill, TextNetwork};
use watchkeeper_models::{Resolved, ZooError};

use super::decode::{Request, embedding};
use super::network::{Feed, LoadError, Network, Signature, Wanted};
use super::stream_network::{SharedNetwork, infer};
use super::warm_up::{WarmUpError, run_once};
use crate::error::DetectError;

/// Cached texts; 4 MB with a thousand values each.
const MAX_CACHED_TEXTS: usize = 1024;
/// Longest prefix of a text that is tokenized, in bytes. Networks take a few hundred tokens.
const MAX_TEXT_BYTES: usize = 4096;
/// Largest unpacked vocabulary in bytes; CLIP's has 3.2 MB.
const MAX_VOCABULARY_BYTES: u64 = 16 << 20;

/// The tokenizer of a model.
#[derive(Clone)]
pub(super) struct TextTokenizer {
    tokenizer: Arc<Tokenizer>,
    context: usize,
    fill: Fill,
    is_masked: bool,
}

/// Token ids of one text, and a mask that is 0 for padding where the network takes one.
#[derive(Debug, Clone, PartialEq)]
struct Tokens {
    shape: [usize; 2],
    ids: Vec<i32>,
    mask: Option<Vec<i32>>,
}

impl Tokens {
    /// The inputs of the network.
    fn feeds(&self) -> Vec<Feed<'_>> {
        let inputs = std::iter::once(&self.ids).chain(&self.mask);
        inputs
            .map(|numbers| Feed::whole(&self.shape, numbers))
            .collect()
    }
}

impl TextTokenizer {
    /// Reads the vocabulary of a model, gzipped or not.
    ///
    /// # Errors
    /// One sentence that names the file: it is not the manifest's, or no vocabulary.
    pub(super) fn read(resolved: &Resolved, text: &TextNetwork) -> Result<Self, TokenizerError> {
        let part = &text.vocabulary;
        let bytes = resolved.read_part(part, MAX_VOCABULARY_BYTES)?;
        let packed = bytes.starts_with(&[0x1f, 0x8b]);
        let unreadable = |message: &dyn std::fmt::Display| TokenizerError::Vocabulary {
            file: part.file.clone(),
            message: message.to_string(),
        };
        let bytes = if packed {
            let mut whole = Vec::new();
            let unpacked = GzDecoder::new(bytes.as_slice()).take(MAX_VOCABULARY_BYTES);
            BufReader::new(unpacked)
                .read_to_end(&mut whole)
                .map_err(|e| unreadable(&e))?;
            whole
        } else {
            bytes
        };
        let tokenizer = Tokenizer::with_vocabulary(bytes.as_slice(), text.tokens)
            .map_err(|e| unreadable(&e))?;
        let last = usize::from(tokenizer.end_of_text().to_u16()) + 1;
        if last != usize::from(text.tokens) {
            let message = format!(
                "it has {last} tokens, but `text.tokens` of the manifest is {}",
                text.tokens
            );
            return Err(unreadable(&message));
        }
        Ok(Self {
            tokenizer: Arc::new(tokenizer),
            context: text.context as usize,
            fill: text.fill,
            is_masked: text.inputs.len() > 1,
        })
    }

    /// Tokenizes a text between the begin and end tokens, cut and padded to the network's length.
    fn tokens(&self, text: &str) -> Tokens {
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut tokens = vec![self.tokenizer.start_of_text()];
        self.tokenizer
            .encode(text.get(..end).unwrap_or_default(), &mut tokens);
        tokens.truncate(self.context - 1);
        tokens.push(self.tokenizer.end_of_text());
        let id = |token: Token| i32::from(token.to_u16());
        let filler = match self.fill {
            Fill::Zero => 0,
            Fill::End => id(self.tokenizer.end_of_text()),
        };
        let mut ids: Vec<i32> = tokens.into_iter().map(id).collect();
        let mut mask = vec![1; ids.len()];
        ids.resize(self.context, filler);
        mask.resize(self.context, 0);
        Tokens {
            shape: [1, self.context],
            ids,
            mask: self.is_masked.then_some(mask),
        }
    }
}

/// Why a text encoder can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The vocabulary is missing, or not the manifest's.
    #[error(transparent)]
    Part(#[from] ZooError),
    /// The file is not a vocabulary.
    #[error("{file} is no vocabulary: {message}")]
    Vocabulary { file: String, message: String },
    /// The text network can't be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

pub(super) fn signature<'a>(manifest: &'a str, text: &'a TextNetwork) -> Signature<'a> {
    let axes = vec![Some(1), Some(text.context as usize)];
    let wanted = |name: Option<String>| Wanted {
        name,
        axes: axes.clone(),
    };
    let inputs = match text.inputs.as_slice() {
        [] => vec![wanted(None)],
        names => names.iter().cloned().map(Some).map(wanted).collect(),
    };
    Signature {
        manifest,
        inputs,
        outputs: &text.outputs,
    }
}

/// Runs a text network once.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn warm_up(network: &dyn Network, tokenizer: &TextTokenizer) -> Result<(), WarmUpError> {
    run_once(
        network,
        &tokenizer.tokens("a photo").feeds(),
        &mut |outputs| embedding::decode(&Request::without_picture(outputs), &mut Vec::new()),
    )
}

/// One pipeline's text encoder and its cache.
pub(super) struct TextEncoder {
    model: String,
    tokenizer: TextTokenizer,
    network: SharedNetwork,
    cached: BTreeMap<String, Arc<[f32]>>,
    /// Cached texts, the oldest first.
    order: VecDeque<String>,
}

impl TextEncoder {
    pub(super) fn new(model: &str, tokenizer: TextTokenizer, network: SharedNetwork) -> Self {
        Self {
            model: model.to_owned(),
            tokenizer,
            network,
            cached: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// The embedding of a text.
    ///
    /// # Errors
    /// [`DetectError`]: the network failed, or returned a value that is not finite.
    pub(super) fn embedding(&mut self, text: &str) -> Result<Arc<[f32]>, DetectError> {
        if let Some(cached) = self.cached.get(text) {
            return Ok(Arc::clone(cached));
        }
        let mut out = Vec::new();
        let tokens = self.tokenizer.tokens(text);
        let ran = infer(&self.network, &tokens.feeds(), &mut |outputs| {
            embedding::decode(&Request::without_picture(outputs), &mut out)
        });
        ran.map_err(|message| self.network.failed(&self.model, message))?;
        let embedding: Arc<[f32]> = out.into();
        if self.order.len() >= MAX_CACHED_TEXTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.cached.remove(&oldest);
        }
        self.order.push_back(text.to_owned());
        self.cached.insert(text.to_owned(), Arc::clone(&embedding));
        Ok(embedding)
    }

    /// Embeddings of several texts, concatenated, each normalised to length 1 as open-vocabulary
    /// networks take them.
    ///
    /// # Errors
    /// As [`Self::embedding`], or the embeddings differ in length.
    pub(super) fn embeddings(&mut self, texts: &[String]) -> Result<Vec<f32>, DetectError> {
        let mut rows: Vec<f32> = Vec::new();
        let mut length = None;
        for text in texts {
            let row = self.embedding(text)?;
            if *length.get_or_insert(row.len()) != row.len() {
                let message = "its embeddings of two texts differ in length";
                return Err(self.network.failed(&self.model, message));
            }
            let square = row.iter().map(|x| f64::from(*x) * f64::from(*x));
            let norm = square.sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
            rows.extend(row.iter().map(|x| (f64::from(*x) / norm) as f32));
        }
        Ok(rows)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::network::{Numbers, Tensor};

    /// Merges that make only `dog` one token.
    const MERGES: &str = "#version\nd o\ndo g</w>\n";

    fn tokenizer(context: usize, fill: Fill) -> TextTokenizer {
        TextTokenizer {
            tokenizer: Arc::new(Tokenizer::with_vocabulary(MERGES.as_bytes(), 516).unwrap()),
            context,
            fill,
            is_masked: true,
        }
    }

    #[test]
    fn text_is_tokens_between_marks_cut_or_padded_to_size() {
        // Bytes in the middle of a word count from 0 for `!`, at its end 256 higher; then merges,
        // beginning and end.
        let (begin, end, dog) = (514, 515, 513);
        let letter = |c: u8| i32::from(c - b'!');
        let short = tokenizer(6, Fill::Zero).tokens("Dog");
        assert_eq!(short.ids, [begin, dog, end, 0, 0, 0]);
        assert_eq!(short.mask, Some(vec![1, 1, 1, 0, 0, 0]));
        let filled = tokenizer(5, Fill::End).tokens("dog");
        assert_eq!(filled.ids, [begin, dog, end, end, end]);
        let long = tokenizer(4, Fill::Zero).tokens("cat dog");
        assert_eq!(long.ids, [begin, letter(b'c'), letter(b'a'), end]);
        let empty = tokenizer(3, Fill::Zero).tokens("");
        assert_eq!(empty.ids, [begin, end, 0]);
    }

    #[test]
    fn a_text_without_end_is_cut_between_its_characters() {
        let endless = "ä".repeat(MAX_TEXT_BYTES);
        let cut = tokenizer(9, Fill::Zero).tokens(&endless);
        assert_eq!(cut.ids.len(), 9);
    }

    /// A network that returns the number of tokens and counts its runs.
    struct Counting(Arc<AtomicUsize>);

    impl Network for Counting {
        fn backend(&self) -> &'static str {
            "counting"
        }

        fn infer(
            &self,
            inputs: &[Feed<'_>],
            read: &mut dyn FnMut(&[Tensor<'_>]),
        ) -> Result<(), String> {
            let Numbers::Whole(ids) = inputs[0].numbers else {
                return Err("words expected".to_owned());
            };
            self.0.fetch_add(1, Ordering::Relaxed);
            let data = [3.0, ids.iter().filter(|id| **id > 0).count() as f32 + 1.0];
            read(&[Tensor {
                name: "out",
                shape: &[1, 2],
                data: &data,
            }]);
            Ok(())
        }
    }

    fn encoder() -> (TextEncoder, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let network: Box<dyn Network> = Box::new(Counting(Arc::clone(&asked)));
        let network = SharedNetwork::new(network);
        let encoder = TextEncoder::new("tiny", tokenizer(8, Fill::Zero), network);
        (encoder, asked)
    }

    #[test]
    fn each_text_is_asked_once_and_the_memory_is_bounded() {
        let (mut encoder, asked) = encoder();
        for _ in 0..3 {
            assert_eq!(*encoder.embedding("dog").unwrap(), [3.0, 4.0]);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        for n in 0..MAX_CACHED_TEXTS {
            encoder.embedding(&format!("number {n}")).unwrap();
        }
        assert_eq!(encoder.cached.len(), MAX_CACHED_TEXTS);
        let before = asked.load(Ordering::Relaxed);
        encoder.embedding("dog").unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), before + 1, "the oldest went");
    }

    #[test]
    fn embeddings_for_an_open_vocabulary_network_have_length_one() {
        let (mut encoder, _) = encoder();
        let rows = encoder
            .embeddings(&["dog".to_owned(), "dog".to_owned()])
            .unwrap();
        for (found, wanted) in rows.iter().zip([0.6, 0.8, 0.6, 0.8]) {
            assert!((found - wanted).abs() < 1e-6, "{rows:?}");
        }
    }
}
