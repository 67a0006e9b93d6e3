//! Files of a sentence model, each read within a bound; only regular files are opened.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::error::LoadError;

/// Maximum bytes of a network. Small models have 90 to 130 MB; a larger one is too slow for a box.
pub(crate) const MAX_NETWORK_BYTES: u64 = 256 << 20;
/// Maximum bytes of a tokenizer; one of 30,000 words has 0.7 MB.
pub(crate) const MAX_TOKENIZER_BYTES: u64 = 16 << 20;
/// Maximum bytes of the other files, which have a few hundred.
pub(crate) const MAX_SETTINGS_BYTES: u64 = 64 << 10;

pub(crate) const NETWORKS: [&str; 2] = ["model.onnx", "onnx/model.onnx"];
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const POOLING: &str = "1_Pooling/config.json";
pub(crate) const MODULES: &str = "modules.json";
pub(crate) const LENGTH: &str = "sentence_bert_config.json";
pub(crate) const PROMPTS: &str = "config_sentence_transformers.json";

const COPY_AGAIN: &str = "copy the model's folder again";

/// Contents of a file.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Checks that `folder` has the files of a model, without opening them.
///
/// # Errors
/// [`LoadError`] about a missing file.
pub fn look(folder: &Path) -> Result<(), LoadError> {
    network_path(folder)?;
    tokenizer_path(folder).map(|_| ())
}

pub(crate) fn network(folder: &Path) -> Result<Bytes, LoadError> {
    read(&network_path(folder)?, MAX_NETWORK_BYTES)
}

pub(crate) fn tokenizer(folder: &Path) -> Result<Bytes, LoadError> {
    read(&tokenizer_path(folder)?, MAX_TOKENIZER_BYTES)
}

fn network_path(folder: &Path) -> Result<PathBuf, LoadError> {
    let remedy = "put the ONNX export of a sentence-transformers model there, as model.onnx or onnx/model.onnx";
    if !folder.is_dir() {
        return Err(LoadError::new(folder, "there is no such folder", remedy));
    }
    let candidates = NETWORKS.map(|name| folder.join(name));
    let path = candidates.into_iter().find(|path| path.exists());
    path.ok_or_else(|| LoadError::new(folder, "it has no model.onnx", remedy))
}

fn tokenizer_path(folder: &Path) -> Result<PathBuf, LoadError> {
    let path = folder.join(TOKENIZER);
    if !path.exists() {
        let remedy = "put the tokenizer.json of the same model there";
        return Err(LoadError::new(&path, "there is no such file", remedy));
    }
    Ok(path)
}

/// Reads a file of settings; `None` if it is missing.
pub(crate) fn settings(folder: &Path, name: &str) -> Result<Option<Bytes>, LoadError> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(None);
    }
    read(&path, MAX_SETTINGS_BYTES).map(Some)
}

impl Bytes {
    /// Parses the contents as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, LoadError> {
        serde_json::from_slice(&self.bytes)
            .map_err(|error| LoadError::new(&self.path, error.to_string(), COPY_AGAIN))
    }
}

fn read(path: &Path, max: u64) -> Result<Bytes, LoadError> {
    let unreadable = |error: io::Error| {
        let remedy = "let the agent's user read it";
        LoadError::new(path, format!("it can't be read: {error}"), remedy)
    };
    // Before the open, which blocks on a pipe without a writer.
    let meta = fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        return Err(LoadError::new(path, "it is not a regular file", COPY_AGAIN));
    }
    let too_large = |bytes: u64| {
        let why = format!("it has {bytes} bytes, and at most {max} are read");
        LoadError::new(path, why, "use a smaller model")
    };
    if meta.len() > max {
        return Err(too_large(meta.len()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > max {
        return Err(too_large(bytes.len() as u64));
    }
    let path = path.to_path_buf();
    Ok(Bytes { path, bytes })
}
