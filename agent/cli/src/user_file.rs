//! Files that the user names, and the failures about them.
//!
//! - A file that can't be read is wrong input; one that can't be written is a failure.
//! - Standard input is the file `-`.
//! - An output of [`new_file`] or [`new_folder`] gets its name when all of it is on stable storage.
//!   What a killed command leaves is a hidden file or folder `.export…` beside it.
//! - [`write_file`] and [`write_new_file`] write under the final name, and don't sync.

use std::fmt::Display;
use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::{NamedTempFile, TempDir};
use watchkeeper_config::bounded::read_up_to;
use watchkeeper_evidence::picture;
use watchkeeper_store::durable::sync_folder;

use super::exit::Failure;

const TEMPORARY_PREFIX: &str = ".export";

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

/// Writes what the user named, which may be a device such as `/dev/stdout`.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(unwritten(path))
}

/// Writes a file that the user did not name, and replaces none.
pub(super) fn write_new_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let created = File::create_new(path);
    let written = created.and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| {
        let shown = path.display();
        match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::input(format!(
                "{shown} exists already; use -o {shown} to replace it, or -o with another file"
            )),
            _ => unwritten(path)(error),
        }
    })
}

/// Refuses a name of another picture format, because a frame is a JPEG.
pub(super) fn require_jpeg_name(output: &Path) -> Result<(), Failure> {
    let extension = output.extension().unwrap_or_default();
    let others = ["png", "webp", "gif", "bmp", "tif", "tiff", "avif"];
    match others
        .iter()
        .any(|other| extension.eq_ignore_ascii_case(other))
    {
        true => Err(Failure::input(format!(
            "{}: a frame is a JPEG; use -o {}",
            output.display(),
            output.with_extension("jpg").display()
        ))),
        false => Ok(()),
    }
}

/// Makes the file that becomes `output`, with the mode that the umask leaves.
pub(super) fn new_file(output: &Path) -> io::Result<NamedTempFile> {
    let mut new = tempfile::Builder::new();
    let new = new.prefix(TEMPORARY_PREFIX);
    new.permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder_of(output))
}

/// Makes the folder that becomes `output`, with the mode that the umask leaves.
pub(super) fn new_folder(output: &Path) -> io::Result<TempDir> {
    let mut new = tempfile::Builder::new();
    let new = new.prefix(TEMPORARY_PREFIX);
    new.permissions(Permissions::from_mode(0o777))
        .tempdir_in(folder_of(output))
}

/// Gives a written file the name `output`; an earlier file of that name is replaced.
pub(super) fn place(new: NamedTempFile, output: &Path) -> io::Result<()> {
    new.as_file().sync_all()?;
    new.persist(output)?;
    sync_folder(folder_of(output))
}

/// Gives a written file the name `output`, unless that name is taken; then the file is returned.
pub(super) fn place_new(
    new: NamedTempFile,
    output: &Path,
) -> io::Result<Result<(), NamedTempFile>> {
    new.as_file().sync_all()?;
    match new.persist_noclobber(output) {
        Ok(_) => sync_folder(folder_of(output)).map(Ok),
        Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists => Ok(Err(taken.file)),
        Err(refused) => Err(refused.error),
    }
}

/// Reads a picture, and checks that a model takes it.
pub(super) fn read_picture(file: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |why: &dyn Display| Failure::input(format!("{}: {why}", file.display()));
    let read = read_up_to(file, picture::MAX_BYTES as u64);
    let content = read.map_err(|error| wrong(&error))?;
    picture::check(&[&content]).map_err(|error| wrong(&error))?;
    Ok(content)
}

/// Reads a text. Of one with more than `max_bytes` the begin is returned, which is longer than
/// `max_bytes`: its reader refuses it, with the other faults.
pub(super) fn read_text(from: &Path, max_bytes: usize) -> Result<String, Failure> {
    let limit = max_bytes as u64 + char::MAX_LEN_UTF8 as u64;
    let mut bytes = Vec::new();
    let read = match from == Path::new("-") {
        true => io::stdin().take(limit).read_to_end(&mut bytes),
        false => File::open(from).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(unread(from))?;
    if bytes.len() > max_bytes
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        // The limit cut the last character.
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).map_err(unread(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("metadata").permissions().mode() & 0o777
    }

    #[test]
    fn placed_files_and_folders_have_the_usual_mode() {
        let dir = tempfile::tempdir().expect("a folder");
        let usual = dir.path().join("usual");
        std::fs::write(&usual, "").expect("write");
        let output = dir.path().join("out");
        for content in ["first", "second"] {
            let mut new = new_file(&output).expect("new");
            new.write_all(content.as_bytes()).expect("write");
            place(new, &output).expect("placed");
            assert_eq!(std::fs::read_to_string(&output).expect("read"), content);
            assert_eq!(mode(&output), mode(&usual));
        }
        let usual = dir.path().join("usual folder");
        std::fs::create_dir(&usual).expect("a folder");
        assert_eq!(mode(new_folder(&output).expect("new").path()), mode(&usual));
    }

    #[test]
    fn taken_name_is_not_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let output = dir.path().join("out");
        std::fs::write(&output, "before").expect("write");
        let new = new_file(&output).expect("new");
        let new = place_new(new, &output)
            .expect("no failure")
            .expect_err("taken");
        assert_eq!(std::fs::read_to_string(&output).expect("read"), "before");
        place_new(new, &dir.path().join("other"))
            .expect("no failure")
            .expect("free");
    }

    #[test]
    fn start_of_long_text_exceeds_limit_by_whole_characters() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("text");
        for long in ["ä".repeat(20), "€".repeat(20), "🙂".repeat(20)] {
            std::fs::write(&file, &long).expect("write");
            assert_eq!(read_text(&file, long.len()).as_ref(), Ok(&long));
            for limit in 8..16 {
                let begin = read_text(&file, limit).expect("a text");
                assert!(begin.len() > limit && long.starts_with(&begin), "{begin}");
            }
        }
        std::fs::write(&file, b"caf\xe9").expect("write");
        assert!(read_text(&file, 16).is_err(), "it is not UTF-8");
    }

    #[test]
    fn frame_gets_no_name_of_another_format() {
        let refused = require_jpeg_name(Path::new("out/s.PNG"));
        let sentence = refused.expect_err("a JPEG is no PNG").sentence;
        assert!(sentence.ends_with("use -o out/s.jpg"), "{sentence}");
        for name in ["s.jpg", "s.jpeg", "s.jpg.tmp", "/dev/stdout"] {
            assert!(require_jpeg_name(Path::new(name)).is_ok(), "{name}");
        }
    }
}
