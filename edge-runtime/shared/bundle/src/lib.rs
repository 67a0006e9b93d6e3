//! Evidence bundles: one file with all that the box has about an event or a job, signed by it.
//!
//! Owns the form of the file ([`archive`]), its signature ([`signature`]), its records with their
//! place in the hash chain ([`record_line`]), [`mod@write`] and [`mod@verify`].
//!
//! - A bundle has one form: equal contents are equal bytes, and any other byte is refused.
//! - Files are streamed. Texts that must be read whole have a common bound.
//! - A bundle is outside data: nothing of it is trusted before its signature is checked.
//!
//! Not here: what belongs to an event (the runtime) or a job (the command line), the private key.

pub mod archive;
mod checks;
mod read;
pub mod record_line;
pub mod signature;
pub mod verify;
pub mod write;

/// The signed statement.
pub const MANIFEST: &str = "manifest.json";
/// Key and signature.
pub const SIGNATURE: &str = "signature.json";
/// Records of the event.
pub const RECORDS: &str = "records.jsonl";
/// Records of other events that link those of the event to the signed head.
pub const CHAIN: &str = "chain.jsonl";
/// Log of the job.
pub const JOB_LOG: &str = "log.jsonl";

/// Most files of a bundle.
pub const MAX_FILES: usize = 20_000;
/// Most bytes of the texts that are read whole: manifest, records, links, log of a job.
pub const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Most bytes of one file: what the size in a tar header can say.
pub const MAX_FILE_BYTES: u64 = (8 << 30) - 1;

/// Why a file is not a sound bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleFault {
    #[error("it can't be read: {0}")]
    Io(#[from] std::io::Error),
    /// The file was never a bundle, or no longer has the form of one.
    #[error("no bundle, or a changed one: {0}")]
    Form(String),
    #[error("its format {0} is newer than this program; update it")]
    Newer(u16),
    /// The bundle's contents contradict each other, its signature or the wanted key.
    #[error("{0}")]
    Changed(String),
}
