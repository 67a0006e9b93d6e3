//! The TLS provider of the process.

/// Makes ring the TLS provider of this process; `reqwest` builds no client without one.
///
/// Calling it again changes nothing.
pub fn install_provider() {
    // The error only says that a provider is installed already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}
