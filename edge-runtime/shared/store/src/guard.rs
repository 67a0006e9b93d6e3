//! Calls into redb that can't take the process down.
//!
//! redb checks a file's pages when it opens it, and reports damage. A page that is damaged while
//! the file is open may still cause a panic. [`call`] turns both into one error.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::error::StoreError;
use crate::newer::NewerFormat;

/// Error of a call into redb.
#[derive(Debug)]
pub(crate) enum StoreFault {
    /// The system refused; the files need not be damaged.
    Io(io::Error),
    /// The files are damaged, or redb believes so.
    Damage(String),
    /// The files are sound, and newer than this build.
    Newer(NewerFormat),
}

/// Runs `f`; a panic inside becomes [`StoreFault::Damage`].
///
/// Unwind safety: after a panic the caller never uses the same database handle for writing again.
pub(crate) fn call<T>(f: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, StoreFault> {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|panic| Err(redb::Error::Corrupted(message(&*panic))))
        .map_err(fault)
}

/// Makes the error of the store from a fault of a call at `path`.
pub(crate) fn fault_to_error(path: &Path, what: &'static str, fault: StoreFault) -> StoreError {
    match fault {
        StoreFault::Io(e) => StoreError::from_io(path, what, e),
        StoreFault::Damage(why) => StoreError::Damaged {
            path: path.to_owned(),
            why,
        },
        StoreFault::Newer(newer) => newer.into(),
    }
}

fn fault(error: redb::Error) -> StoreFault {
    match error {
        redb::Error::Io(e) => match e.kind() {
            // A file that ends early or holds nonsense is damage, not a refusal.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                StoreFault::Damage(e.to_string())
            }
            _ => StoreFault::Io(e),
        },
        redb::Error::Corrupted(_)
        | redb::Error::RepairAborted
        | redb::Error::UpgradeRequired(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableDoesNotExist(_) => StoreFault::Damage(first_line(&error.to_string())),
        // Nothing is said about the file, so what is stored stays where it is.
        other => StoreFault::Io(io::Error::other(first_line(&other.to_string()))),
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".to_owned())
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_damage_with_its_message() {
        let fault = call::<()>(|| panic!("page {} is missing", 7));
        assert!(
            matches!(&fault, Err(StoreFault::Damage(m)) if m.ends_with("page 7 is missing")),
            "{fault:?}"
        );
    }

    #[test]
    fn refusal_is_no_damage_but_an_early_end_is() {
        let said = |kind: io::ErrorKind| call::<()>(|| Err(redb::Error::Io(kind.into())));
        assert!(matches!(
            said(io::ErrorKind::StorageFull),
            Err(StoreFault::Io(_))
        ));
        assert!(matches!(
            said(io::ErrorKind::UnexpectedEof),
            Err(StoreFault::Damage(_))
        ));
    }
}
