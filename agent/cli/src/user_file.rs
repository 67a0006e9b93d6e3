//! Files that the user names, and the failures about them.
//!
//! - A file that can't be read is wrong input; one that can't be written is a failure.
//! - Standard input is the file `-`.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::exit::Failure;

/// Makes the failure of a file that can't be read.
pub(super) fn unread<E: Display>(path: &Path) -> impl Fn(E) -> Failure + Copy {
    move |why| Failure::input(format!("can't read {}: {why}", path.display()))
}

/// Makes the failure of a file that can't be written.
pub(super) fn unwritten<E: Display>(path: &Path) -> impl Fn(E) -> Failure + Copy {
    move |why| Failure::failed(format!("can't write {}: {why}", path.display()))
}

/// The failure of an output that is there already; `kind` is a file or a folder.
pub(super) fn exists(output: &Path, kind: &str) -> Failure {
    let output = output.display();
    Failure::input(format!(
        "{output} exists; choose a new {kind} with --output"
    ))
}

/// Returns the folder of an output, where its temporary files belong.
pub(super) fn folder_of(output: &Path) -> &Path {
    let folder = output.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Reads a text of at most `limit` bytes, and one byte more to show that it is too large.
pub(super) fn read_text(from: &Path, limit: usize) -> Result<String, Failure> {
    let limit = limit as u64 + 1;
    let mut text = String::new();
    let read = match from == Path::new("-") {
        true => io::stdin().take(limit).read_to_string(&mut text),
        false => File::open(from).and_then(|file| file.take(limit).read_to_string(&mut text)),
    };
    read.map_err(unread(from))?;
    Ok(text)
}
