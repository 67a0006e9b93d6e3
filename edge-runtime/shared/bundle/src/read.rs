//! What is kept of a bundle that is read: sizes and hashes of its files, and its texts.

use std::collections::BTreeMap;
use std::io::Read;

use sha2::{Digest as _, Sha256};
use watchkeeper_store::chain::Hash;

use crate::{BundleFault, CHAIN, JOB_LOG, MANIFEST, MAX_TEXT_BYTES, RECORDS, SIGNATURE, archive};

/// Bytes of a file that are read at once.
const PIECE: usize = 1 << 16;

/// Parts of a bundle that were read.
#[derive(Debug, Default)]
pub(crate) struct ReadBundle {
    /// Size and SHA-256 of each file.
    pub(crate) files: BTreeMap<String, (u64, String)>,
    texts: BTreeMap<String, String>,
    text_bytes: u64,
}

impl ReadBundle {
    pub(crate) fn read(input: &mut impl Read) -> Result<Self, BundleFault> {
        let mut contents = Self::default();
        archive::read(input, &mut |name, bytes, content| {
            contents.add(name, bytes, content)
        })?;
        Ok(contents)
    }

    fn add(&mut self, name: &str, bytes: u64, content: &mut dyn Read) -> Result<(), BundleFault> {
        let is_text = [MANIFEST, SIGNATURE, RECORDS, CHAIN, JOB_LOG].contains(&name);
        if is_text {
            self.text_bytes = self.text_bytes.saturating_add(bytes);
            if self.text_bytes > MAX_TEXT_BYTES {
                let why = format!("its texts have more than {MAX_TEXT_BYTES} bytes");
                return Err(BundleFault::Form(why));
            }
        }
        let mut text = Vec::new();
        let mut digest = Sha256::new();
        let mut piece = vec![0; PIECE];
        loop {
            let read = content.read(&mut piece)?;
            let Some(piece) = piece.get(..read).filter(|piece| !piece.is_empty()) else {
                break;
            };
            digest.update(piece);
            if is_text {
                text.extend_from_slice(piece);
            }
        }
        let sha256 = Hash(digest.finalize().into()).to_string();
        self.files.insert(name.to_owned(), (bytes, sha256));
        if is_text {
            let text = String::from_utf8(text)
                .map_err(|_| BundleFault::Changed(format!("{name} is not UTF-8")))?;
            self.texts.insert(name.to_owned(), text);
        }
        Ok(())
    }

    /// Text of a file that a bundle must have.
    pub(crate) fn text(&self, name: &str) -> Result<&str, BundleFault> {
        let text = self.texts.get(name).map(String::as_str);
        text.ok_or_else(|| BundleFault::Form(format!("it has no {name}")))
    }
}
