//! The key with which the box signs its statements: `<state>/signing.key`, Ed25519 in PKCS #8.
//!
//! - Made at the first statement; readable by the runtime's user only.
//! - The key signs two kinds of statement, and no text can be both. A report of coverage is
//!   canonical JSON; the manifest of a bundle has [`DOMAIN`](signature::DOMAIN) before it.
//! - A signature proves which box made a statement, and that it was not changed afterwards, unless
//!   somebody else can read the key.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use watchkeeper_bundle::signature;
use watchkeeper_contract::bundle::{
    BUNDLE_FORMAT, BoxKey, BundleFile, BundleManifest, BundleSigner, BundleSubject, MissingPart,
    SignedManifest,
};
use watchkeeper_contract::canonical::canonical;
use watchkeeper_contract::coverage::{CoverageReport, CoverageStatement};
use watchkeeper_contract::time::Wall;
use watchkeeper_store::durable::replace_private;

/// Name of the file in the state folder.
const NAME: &str = "signing.key";

/// Why nothing can be signed.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    #[error("cannot read or write the signing key {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the signing key {} is damaged; remove it to make a new one", path.display())]
    Damaged { path: PathBuf },
    #[error("the system gives no random numbers for a signing key")]
    Random,
    #[error("the report has no JSON form: {0}")]
    Report(#[from] serde_json::Error),
}

/// The signing key of the box, read or made when it is first used.
#[derive(Debug)]
pub struct SigningKey {
    path: PathBuf,
    pair: Mutex<Option<Ed25519KeyPair>>,
}

impl SigningKey {
    /// The key in the folder `state`.
    pub fn of(state: &Path) -> Self {
        Self {
            path: state.join(NAME),
            pair: Mutex::new(None),
        }
    }

    /// Signs a report.
    ///
    /// # Errors
    /// When the key can't be read or made.
    pub fn sign(&self, report: CoverageReport) -> Result<CoverageStatement, SigningError> {
        let text = canonical(&serde_json::to_value(&report)?);
        let [key, signature] = self.with_pair(|pair| {
            let signature = pair.sign(text.as_bytes());
            [pair.public_key().as_ref(), signature.as_ref()].map(|bytes| BASE64.encode(bytes))
        })?;
        Ok(CoverageStatement {
            report,
            key,
            signature,
        })
    }

    /// Makes and signs the manifest of a bundle of the box `name`.
    ///
    /// # Errors
    /// When the key can't be read or made.
    pub fn sign_bundle(
        &self,
        name: String,
        subject: BundleSubject,
        (files, missing): (Vec<BundleFile>, Vec<MissingPart>),
        at: Wall,
    ) -> Result<SignedManifest, SigningError> {
        let BoxKey { key, fingerprint } = self.public_key()?;
        let manifest = BundleManifest {
            format: BUNDLE_FORMAT,
            subject,
            signer: BundleSigner {
                name,
                key,
                fingerprint,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            at,
            files,
            missing,
        };
        let manifest = canonical(&serde_json::to_value(&manifest)?);
        let signature = self.with_pair(|pair| {
            let signed = pair.sign(&signature::signed_bytes(&manifest));
            signature::text(pair.public_key().as_ref(), signed.as_ref())
        })?;
        Ok(SignedManifest {
            manifest,
            signature,
        })
    }

    /// Returns the public key.
    ///
    /// # Errors
    /// When the key can't be read or made.
    pub fn public_key(&self) -> Result<BoxKey, SigningError> {
        self.with_pair(|pair| {
            let key = pair.public_key().as_ref();
            BoxKey {
                key: BASE64.encode(key),
                fingerprint: signature::fingerprint(key),
            }
        })
    }

    fn with_pair<T>(&self, use_pair: impl FnOnce(&Ed25519KeyPair) -> T) -> Result<T, SigningError> {
        let mut pair = self.pair.lock();
        let pair = match &mut *pair {
            Some(pair) => pair,
            empty => empty.insert(self.load()?),
        };
        Ok(use_pair(pair))
    }

    fn load(&self) -> Result<Ed25519KeyPair, SigningError> {
        let stored = match std::fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create()?,
            read => read.map_err(|source| self.file_error(source))?,
        };
        Ed25519KeyPair::from_pkcs8(&stored).map_err(|_| SigningError::Damaged {
            path: self.path.clone(),
        })
    }

    fn create(&self) -> Result<Vec<u8>, SigningError> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let made = made.map_err(|_| SigningError::Random)?;
        replace_private(&self.path, made.as_ref()).map_err(|source| self.file_error(source))?;
        Ok(made.as_ref().to_vec())
    }

    fn file_error(&self, source: io::Error) -> SigningError {
        SigningError::File {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use ring::signature::{ED25519, UnparsedPublicKey};
    use watchkeeper_contract::bundle::JobSubject;
    use watchkeeper_contract::time::TimeQuality;

    use super::*;

    fn report(to_ms: i64) -> CoverageReport {
        CoverageReport {
            from_ms: 0,
            to_ms,
            source: None,
            events_waiting: 0,
            events_waiting_since_ms: None,
            at: Wall {
                unix_ms: to_ms,
                quality: TimeQuality::Synced,
            },
            spans: Vec::new(),
            spans_since_ms: None,
            events_since_ms: None,
            head: None,
        }
    }

    fn is_valid(statement: &CoverageStatement) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, BASE64.decode(&statement.key).unwrap());
        let text = canonical(&serde_json::to_value(&statement.report).unwrap());
        let signature = BASE64.decode(&statement.signature).unwrap();
        key.verify(text.as_bytes(), &signature).is_ok()
    }

    #[test]
    fn signature_fits_only_the_signed_report() {
        let state = tempfile::tempdir().unwrap();
        let mut statement = SigningKey::of(state.path()).sign(report(9)).unwrap();
        assert!(is_valid(&statement));
        statement.report.to_ms = 10;
        assert!(!is_valid(&statement));
    }

    #[test]
    fn statement_of_coverage_signs_no_bundle() {
        let state = tempfile::tempdir().unwrap();
        let key = SigningKey::of(state.path());
        let statement = key.sign(report(9)).unwrap();
        let public = BASE64.decode(&statement.key).unwrap();
        let signed = BASE64.decode(&statement.signature).unwrap();
        let text = canonical(&serde_json::to_value(&statement.report).unwrap());
        signature::check(&signature::text(&public, &signed), &text).unwrap_err();

        let subject = BundleSubject::Job(JobSubject {
            id: "20261128-141502-kxq".to_owned(),
            created_ms: 0,
        });
        let bundle = key.sign_bundle(
            "s/b".to_owned(),
            subject,
            (Vec::new(), Vec::new()),
            report(9).at,
        );
        let bundle = bundle.unwrap();
        let signer = signature::check(&bundle.signature, &bundle.manifest).unwrap();
        assert_eq!(signer, public);
        signature::check(&bundle.signature, &format!("{} ", bundle.manifest)).unwrap_err();
    }

    #[test]
    fn key_is_private_and_survives_a_restart() {
        let state = tempfile::tempdir().unwrap();
        let sign = || SigningKey::of(state.path()).sign(report(9)).unwrap().key;
        assert_eq!(sign(), sign());
        let file = std::fs::metadata(state.path().join(NAME)).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn damaged_key_is_named_and_not_replaced() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join(NAME), b"half").unwrap();
        let error = SigningKey::of(state.path()).sign(report(9)).unwrap_err();
        assert!(
            error.to_string().contains("signing.key is damaged"),
            "{error}"
        );
        assert_eq!(std::fs::read(state.path().join(NAME)).unwrap(), b"half");
    }
}
