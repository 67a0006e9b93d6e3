//! The files of a model, read within bounds.
//!
//! Invariant: no more of a file is read than its kind may have, and nothing but a plain file is opened.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::error::LoadError;

/// Largest network in bytes. Small models have 90 to 130 MB; a larger one would take memory and time that a box has other uses for.
pub(crate) const MAX_NETWORK: u64 = 256 << 20;
/// Largest tokenizer in bytes: that of a vocabulary of 30,000 words has 0.7 MB.
pub(crate) const MAX_TOKENIZER: u64 = 16 << 20;
/// Largest of the other files in bytes; they have a few hundred.
pub(crate) const MAX_SETTINGS: u64 = 64 << 10;

pub(crate) const NETWORKS: [&str; 2] = ["model.onnx", "onnx/model.onnx"];
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const POOLING: &str = "1_Pooling/config.json";
pub(crate) const MODULES: &str = "modules.json";
pub(crate) const LENGTH: &str = "sentence_bert_config.json";
pub(crate) const PROMPTS: &str = "config_sentence_transformers.json";

const AGAIN: &str = "copy the model's folder again";

/// A file and what stands in it.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Whether the files that a model needs are in `folder`; they are not opened.
///
/// # Errors
/// Which is missing, and what to do.
pub fn look(folder: &Path) -> Result<(), LoadError> {
    network_path(folder)?;
    tokenizer_path(folder).map(|_| ())
}

/// The network's file.
pub(crate) fn network(folder: &Path) -> Result<Bytes, LoadError> {
    read(&network_path(folder)?, MAX_NETWORK)
}

/// The tokenizer's file.
pub(crate) fn tokenizer(folder: &Path) -> Result<Bytes, LoadError> {
    read(&tokenizer_path(folder)?, MAX_TOKENIZER)
}

fn network_path(folder: &Path) -> Result<PathBuf, LoadError> {
    let remedy = "put the ONNX export of a sentence-transformers model there, as model.onnx or onnx/model.onnx";
    if !folder.is_dir() {
        return Err(LoadError::new(folder, "there is no such folder", remedy));
    }
    let there = NETWORKS.map(|name| folder.join(name));
    let path = there.into_iter().find(|path| path.exists());
    path.ok_or_else(|| LoadError::new(folder, "it has no model.onnx", remedy))
}

fn tokenizer_path(folder: &Path) -> Result<PathBuf, LoadError> {
    let path = folder.join(TOKENIZER);
    if !path.exists() {
        let remedy = "put the one of the same model there: the network means nothing without it";
        return Err(LoadError::new(&path, "there is no such file", remedy));
    }
    Ok(path)
}

/// A file of settings; none where it is not there.
pub(crate) fn settings(folder: &Path, name: &str) -> Result<Option<Bytes>, LoadError> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(None);
    }
    read(&path, MAX_SETTINGS).map(Some)
}

impl Bytes {
    /// What it says as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, LoadError> {
        serde_json::from_slice(&self.bytes)
            .map_err(|error| LoadError::new(&self.path, error.to_string(), AGAIN))
    }
}

fn read(path: &Path, most: u64) -> Result<Bytes, LoadError> {
    let unreadable = |error: io::Error| {
        let remedy = "let the agent's user read it";
        LoadError::new(path, format!("it can't be read: {error}"), remedy)
    };
    // Asked before it is opened: opening a pipe would wait for its writer.
    let meta = fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        return Err(LoadError::new(path, "it is no plain file", AGAIN));
    }
    let large = |bytes: u64| {
        let why = format!("it has {bytes} bytes, and at most {most} are read");
        LoadError::new(path, why, "take a smaller model")
    };
    if meta.len() > most {
        return Err(large(meta.len()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(large(bytes.len() as u64));
    }
    let path = path.to_path_buf();
    Ok(Bytes { path, bytes })
}
