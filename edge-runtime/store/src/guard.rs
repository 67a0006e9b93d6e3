//! Calls into sled that can't take the process down.
//!
//! sled 0.34 answers some kinds of damage with a panic instead of an error (for example
//! `pagecache/mod.rs`, "unexpected pull"). [`call`] turns both into one shape.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::format::NewerFormat;

/// What sled said.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The system refused; the files need not be damaged.
    Io(std::io::Error),
    /// The files are damaged, or sled believes so.
    Damage(String),
    /// The files are sound, and newer than this build.
    Newer(NewerFormat),
}

/// Runs `f`; a panic inside becomes [`Fault::Damage`].
///
/// Unwind safety: after a panic the caller never uses the same database handle for writing again.
pub(crate) fn call<T>(f: impl FnOnce() -> sled::Result<T>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(e))) => match e.kind() {
            // A file that ends early or holds nonsense is damage, not a refusal.
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidData => {
                Err(Fault::Damage(e.to_string()))
            }
            _ => Err(Fault::Io(e)),
        },
        Ok(Err(other)) => Err(Fault::Damage(first_line(&other.to_string()))),
        Err(panic) => Err(Fault::Damage(first_line(&message(&*panic)))),
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
        assert!(matches!(fault, Err(Fault::Damage(m)) if m == "page 7 is missing"));
    }
}
