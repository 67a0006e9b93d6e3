//! Fingerprints of specifications.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use watchkeeper_contract::canonical::canonical;

/// Version of fingerprints, for a version that computes them in another way.
const FINGERPRINT: &str = "2:";

/// Fingerprint of a specification: equal ones run alike. The order of keys does not matter.
pub fn fingerprint(of: &impl Serialize) -> String {
    let json = serde_json::to_value(of).unwrap_or_default();
    let hash = Sha256::digest(canonical(&json));
    let hex = hash.iter().take(16).map(|b| format!("{b:02x}"));
    std::iter::once(FINGERPRINT.to_owned()).chain(hex).collect()
}
