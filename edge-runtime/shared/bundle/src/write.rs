//! Writing a bundle: its files with their hashes first, then the signed manifest.
//!
//! A file is read twice, for its hash and for its content. One that may be deleted is held open
//! meanwhile; of the others there may be thousands.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use watchkeeper_contract::bundle::{BundleFile, MissingPart, SignedManifest};
use watchkeeper_store::chain::Hash;

use crate::archive::{self, is_name, write_end, write_file};
use crate::{MANIFEST, MAX_FILE_BYTES, SIGNATURE};

/// Content of a file.
#[derive(Debug)]
enum Content {
    Text(Vec<u8>),
    Open(File),
    At(PathBuf),
}

/// The contents of a bundle before it is signed.
#[derive(Debug, Default)]
pub struct Contents {
    files: BTreeMap<String, (BundleFile, Content)>,
    missing: Vec<MissingPart>,
}

impl Contents {
    pub fn add_text(&mut self, name: &str, text: impl Into<Vec<u8>>) {
        let text = text.into();
        let (bytes, sha256) = (text.len() as u64, Hash::of(&text).to_string());
        self.insert(name.to_owned(), bytes, sha256, None, Content::Text(text));
    }

    /// Adds an open file of `bytes` bytes. Returns its SHA-256.
    ///
    /// # Errors
    /// When it can't be read, is shorter, or is too large for a bundle.
    pub fn add_file(&mut self, name: &str, mut file: File, bytes: u64) -> io::Result<String> {
        let sha256 = hash(&mut file, bytes)?;
        self.insert(
            name.to_owned(),
            bytes,
            sha256.clone(),
            None,
            Content::Open(file),
        );
        Ok(sha256)
    }

    /// Adds the file at `path`, which is opened again when the bundle is written. `original` is
    /// its path for the manifest.
    ///
    /// # Errors
    /// When it can't be read, or is too large for a bundle.
    pub fn add_path(
        &mut self,
        name: &str,
        path: &Path,
        original: Option<String>,
    ) -> io::Result<()> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let sha256 = hash(&mut file, bytes)?;
        let content = Content::At(path.to_owned());
        self.insert(name.to_owned(), bytes, sha256, original, content);
        Ok(())
    }

    fn insert(
        &mut self,
        name: String,
        bytes: u64,
        sha256: String,
        original: Option<String>,
        content: Content,
    ) {
        debug_assert!(is_name(&name), "{name}");
        let file = BundleFile {
            name: name.clone(),
            bytes,
            sha256,
            original,
        };
        self.files.insert(name, (file, content));
    }

    /// Removes a file, whose absence is then to be explained.
    pub fn remove(&mut self, name: &str) {
        self.files.remove(name);
    }

    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Whether a part of this name is stated as missing.
    pub fn is_missing(&self, name: &str) -> bool {
        self.missing.iter().any(|part| part.name == name)
    }

    /// Number of files.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    pub fn add_missing(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.missing.push(MissingPart {
            name: name.into(),
            why: why.into(),
        });
    }

    /// Files and missing parts for the manifest.
    pub fn describe(&self) -> (Vec<BundleFile>, Vec<MissingPart>) {
        let files = self.files.values().map(|(file, _)| file.clone());
        (files.collect(), self.missing.clone())
    }

    /// Adds the signed manifest.
    #[must_use]
    pub fn sign(mut self, signed: SignedManifest) -> Bundle {
        self.add_text(MANIFEST, signed.manifest);
        self.add_text(SIGNATURE, signed.signature);
        Bundle { files: self.files }
    }
}

/// SHA-256 of the first `bytes` of a file, which must have them.
fn hash(file: &mut File, bytes: u64) -> io::Result<String> {
    if bytes > MAX_FILE_BYTES {
        let why = format!("it has {bytes} bytes, more than {MAX_FILE_BYTES}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    file.seek(SeekFrom::Start(0))?;
    let sha256 = Hash::of_all(&mut (&*file).take(bytes))?.to_string();
    match file.stream_position()? == bytes {
        true => Ok(sha256),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A bundle that is about to be written.
#[derive(Debug)]
pub struct Bundle {
    files: BTreeMap<String, (BundleFile, Content)>,
}

impl Bundle {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        archive::length(self.files.values().map(|(file, _)| file.bytes))
    }

    /// Writes the whole bundle.
    ///
    /// # Errors
    /// When `out` fails, or a file became shorter. One whose content changed meanwhile is found by
    /// verifying.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        for (name, (file, content)) in self.files {
            match content {
                Content::Text(text) => write_file(out, &name, file.bytes, &mut text.as_slice())?,
                Content::Open(mut open) => {
                    open.seek(SeekFrom::Start(0))?;
                    write_file(out, &name, file.bytes, &mut open)?;
                }
                Content::At(path) => {
                    write_file(out, &name, file.bytes, &mut File::open(path)?)?;
                }
            }
        }
        write_end(out)
    }
}
