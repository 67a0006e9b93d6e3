//! Verifying a bundle: form, signature, files, then what the records and the log say.
//!
//! - One pass over the file; nothing is written to the disk.
//! - A sound bundle proves what its signer states. Whose key it is, a caller must know.

use std::collections::BTreeMap;
use std::io::Read;

use watchkeeper_contract::bundle::{BUNDLE_FORMAT, BundleManifest, BundleSubject};
use watchkeeper_store::chain::Hash;

pub use crate::checks::Proof;
use crate::checks::{check_event, check_job};
use crate::read::ReadBundle;
use crate::{BundleFault, MANIFEST, SIGNATURE, signature};

/// A bundle that was found sound.
#[derive(Debug)]
pub struct Verified {
    pub manifest: BundleManifest,
    /// Bytes of all its files.
    pub bytes: u64,
    pub proof: Proof,
}

/// Reads and checks a bundle. With `key`, the public key that must have signed it.
///
/// # Errors
/// [`BundleFault`] names what is wrong.
pub fn verify(input: &mut impl Read, key: Option<&ExpectedKey>) -> Result<Verified, BundleFault> {
    let contents = ReadBundle::read(input)?;
    let text = contents.text(MANIFEST)?;
    let signer = signature::check(contents.text(SIGNATURE)?, text)?;
    let found = signature::fingerprint(&signer);
    if let Some(expected) = key
        && expected.0 != found
    {
        return Err(BundleFault::Changed(format!(
            "another key signed it: its fingerprint is {found}, not {}",
            expected.0
        )));
    }
    let manifest = read_manifest(text)?;
    if manifest.signer.fingerprint != found {
        let why = "the manifest names another key than the one that signed it";
        return Err(BundleFault::Changed(why.to_owned()));
    }
    compare_files(&manifest, &contents)?;
    let proof = match &manifest.subject {
        BundleSubject::Event(subject) => check_event(subject, &manifest, &contents)?,
        BundleSubject::Job(_) => check_job(&manifest, &contents)?,
    };
    let bytes = manifest.files.iter().map(|file| file.bytes).sum();
    Ok(Verified {
        manifest,
        bytes,
        proof,
    })
}

/// The public key by which a bundle must be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedKey(String);

impl ExpectedKey {
    /// The key with this fingerprint: 64 hex digits.
    pub fn by_fingerprint(hex: &str) -> Option<Self> {
        Hash::parse(hex).map(|hash| Self(hash.to_string()))
    }

    /// The key itself.
    pub fn by_key(key: &[u8]) -> Self {
        Self(signature::fingerprint(key))
    }
}

fn read_manifest(text: &str) -> Result<BundleManifest, BundleFault> {
    #[derive(serde::Deserialize)]
    struct FormatOnly {
        format: u16,
    }
    let wrong = |error: serde_json::Error| BundleFault::Form(format!("{MANIFEST}: {error}"));
    let FormatOnly { format } = serde_json::from_str(text).map_err(wrong)?;
    if format > BUNDLE_FORMAT {
        return Err(BundleFault::Newer(format));
    }
    serde_json::from_str(text).map_err(wrong)
}

/// Compares the files with those that the manifest lists.
fn compare_files(manifest: &BundleManifest, contents: &ReadBundle) -> Result<(), BundleFault> {
    let changed = |why: String| Err(BundleFault::Changed(why));
    let mut signed = BTreeMap::new();
    for file in &manifest.files {
        if signed.insert(file.name.as_str(), file).is_some() {
            return changed(format!("the manifest lists {} twice", file.name));
        }
        match contents.files.get(&file.name) {
            None => return changed(format!("{} was removed", file.name)),
            Some((bytes, sha256)) if *bytes != file.bytes || *sha256 != file.sha256 => {
                return changed(format!("{} was changed", file.name));
            }
            Some(_) => {}
        }
    }
    let own = [MANIFEST, SIGNATURE];
    let mut others = contents.files.keys().map(String::as_str);
    match others.find(|name| !own.contains(name) && !signed.contains_key(name)) {
        Some(name) => changed(format!("{name} was added")),
        None => Ok(()),
    }
}
