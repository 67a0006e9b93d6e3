//! The signature of a manifest, as `signature.json`.
//!
//! - What is signed begins with [`DOMAIN`]: no other statement of the box has this text, and no
//!   manifest is another statement.
//! - The text of `signature.json` has one form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::Deserialize;
use watchkeeper_store::chain::Hash;

use crate::BundleFault;

/// Begin of what is signed, before the text of the manifest.
pub const DOMAIN: &str = "watchkeeper evidence bundle, format 1\n";

/// Returns the bytes that the box signs for a manifest.
pub fn signed_bytes(manifest: &str) -> Vec<u8> {
    [DOMAIN.as_bytes(), manifest.as_bytes()].concat()
}

/// Returns the text of `signature.json` for a public key and its signature.
pub fn text(key: &[u8], signature: &[u8]) -> String {
    format!(
        "{{\"algorithm\":\"Ed25519\",\"key\":\"{}\",\"signature\":\"{}\"}}\n",
        BASE64.encode(key),
        BASE64.encode(signature)
    )
}

/// Returns the SHA-256 of a public key, hex.
pub fn fingerprint(key: &[u8]) -> String {
    Hash::of(key).to_string()
}

#[derive(Deserialize)]
struct Parts {
    key: String,
    signature: String,
}

/// Checks that the text of `signature.json` signs the text of a manifest. Returns the public key.
///
/// # Errors
/// When it does not, or has another form.
pub fn check(signature: &str, manifest: &str) -> Result<Vec<u8>, BundleFault> {
    let wrong = |why: &str| BundleFault::Changed(format!("signature.json {why}"));
    let parts: Parts = serde_json::from_str(signature).map_err(|_| wrong("is no signature"))?;
    let decode = |text: &str| BASE64.decode(text).map_err(|_| wrong("is not base64"));
    let (key, signed) = (decode(&parts.key)?, decode(&parts.signature)?);
    if text(&key, &signed) != signature {
        return Err(wrong("has another form than this program writes"));
    }
    UnparsedPublicKey::new(&ED25519, &key)
        .verify(&signed_bytes(manifest), &signed)
        .map_err(|_| wrong("does not fit: the manifest or the signature was changed"))?;
    Ok(key)
}
