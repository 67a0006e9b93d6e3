//! The tar file of a bundle: POSIX `ustar`, with one form for given names and contents.
//!
//! - Names rise, so none is there twice. A name is relative, of letters, digits, `.`, `-` and `_`.
//! - Owner, time and mode are fixed. Padding is zero, the end is two zero blocks, nothing follows.
//! - Reading compares each header with the one that writing would make.

use std::io::{self, Read, Write};

use tar::{EntryType, Header};

use crate::{BundleFault, MAX_FILE_BYTES, MAX_FILES};

/// Size of a block in bytes.
const BLOCK: usize = 512;
/// Mode of every file.
const MODE: u32 = 0o644;
/// Longest name in bytes: what the header has place for.
const MAX_NAME: usize = 100;
/// Most folders and the file of one name.
const MAX_PARTS: usize = 3;

/// Returns whether a file of a bundle may have this name.
pub fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let first = part.as_bytes().first();
        first.is_some_and(u8::is_ascii_alphanumeric) && part.bytes().all(is_name_byte)
    };
    name.len() <= MAX_NAME && name.split('/').count() <= MAX_PARTS && name.split('/').all(is_part)
}

/// Returns whether a part of a name may have this byte.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

/// Name of a picture or clip in a bundle; `None` for an id or type that no box gives.
pub fn media_name(id: &str, content_type: &str) -> Option<String> {
    let ending = match content_type {
        "image/jpeg" => "jpg",
        "video/mp4" => "mp4",
        "video/webm" => "webm",
        _ => return None,
    };
    let name = format!("media/{id}.{ending}");
    is_name(&name).then_some(name)
}

/// Length in bytes of a bundle with files of these sizes.
pub fn length(sizes: impl IntoIterator<Item = u64>) -> u64 {
    let block = BLOCK as u64;
    let files = sizes
        .into_iter()
        .map(|bytes| block + bytes.div_ceil(block) * block);
    files.sum::<u64>() + 2 * block
}

fn header(name: &str, bytes: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(MODE);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(bytes);
    header.set_cksum();
    Ok(header)
}

/// Writes one file, whose name must be allowed and above that of the file before.
///
/// # Errors
/// When `content` has not exactly `bytes`, or a stream fails.
pub fn write_file(
    out: &mut impl Write,
    name: &str,
    bytes: u64,
    content: &mut impl Read,
) -> io::Result<()> {
    if !is_name(name) || bytes > MAX_FILE_BYTES {
        let why = format!("{name:?} with {bytes} bytes can't be in a bundle");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    out.write_all(header(name, bytes)?.as_bytes())?;
    let copied = io::copy(&mut content.take(bytes), out)?;
    if copied != bytes {
        let why = format!("{name} became shorter while it was written");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    let padding = bytes.next_multiple_of(BLOCK as u64) - bytes;
    io::copy(&mut io::repeat(0).take(padding), out)?;
    Ok(())
}

/// Writes the end of a bundle.
///
/// # Errors
/// When the stream fails.
pub fn write_end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

/// Receiver of name, size and content of a file.
pub type OnFile<'a> = dyn FnMut(&str, u64, &mut dyn Read) -> Result<(), BundleFault> + 'a;

/// Calls `on_file` with name, size and content of each file. It must read the whole content.
///
/// # Errors
/// When the file has not the form of a bundle, or `on_file` fails.
pub fn read(input: &mut impl Read, on_file: &mut OnFile<'_>) -> Result<(), BundleFault> {
    let mut last = String::new();
    for _ in 0..=MAX_FILES {
        let block = read_block(input)?;
        if block == [0; BLOCK] {
            return read_end(input);
        }
        let (name, bytes) = read_header(&block)?;
        if name <= last {
            return Err(form(format!("{name} is not in the order of names")));
        }
        let mut content = (&mut *input).take(bytes);
        on_file(&name, bytes, &mut content)?;
        if content.limit() > 0 {
            return Err(form(format!("{name} ends early")));
        }
        let padding = bytes.next_multiple_of(BLOCK as u64) - bytes;
        let mut zeros = Vec::with_capacity(BLOCK);
        (&mut *input).take(padding).read_to_end(&mut zeros)?;
        if zeros.len() as u64 != padding || zeros.iter().any(|byte| *byte != 0) {
            return Err(form(format!("after {name} there is something else")));
        }
        last = name;
    }
    Err(form(format!("it has more than {MAX_FILES} files")))
}

fn form(why: String) -> BundleFault {
    BundleFault::Form(why)
}

fn read_block(input: &mut impl Read) -> Result<[u8; BLOCK], BundleFault> {
    let mut block = [0; BLOCK];
    input
        .read_exact(&mut block)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => form("it ends early".to_owned()),
            _ => error.into(),
        })?;
    Ok(block)
}

fn read_header(block: &[u8; BLOCK]) -> Result<(String, u64), BundleFault> {
    let read = Header::from_byte_slice(block);
    if read.as_ustar().is_none() {
        return Err(form("it has no header of a tar file".to_owned()));
    }
    let name = String::from_utf8(read.path_bytes().into_owned()).unwrap_or_default();
    if !is_name(&name) {
        return Err(form(format!(
            "{name:?} is not the name of one of its files"
        )));
    }
    let bytes = read.entry_size().map_err(|error| form(error.to_string()))?;
    if bytes > MAX_FILE_BYTES {
        return Err(form(format!(
            "{name} has {bytes} bytes, more than {MAX_FILE_BYTES}"
        )));
    }
    if header(&name, bytes)?.as_bytes() != block {
        return Err(form(format!("the header of {name} has other fields")));
    }
    Ok((name, bytes))
}

fn read_end(input: &mut impl Read) -> Result<(), BundleFault> {
    if read_block(input)? != [0; BLOCK] || input.read(&mut [0])? > 0 {
        return Err(form("after its end there is something else".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Files = Vec<(String, Vec<u8>)>;

    fn pack(files: &Files) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, content) in files {
            write_file(
                &mut out,
                name,
                content.len() as u64,
                &mut content.as_slice(),
            )
            .unwrap();
        }
        write_end(&mut out).unwrap();
        out
    }

    fn unpack(bytes: &[u8]) -> Result<Files, BundleFault> {
        let mut files = Vec::new();
        read(&mut &*bytes, &mut |name, _, content| {
            let mut read = Vec::new();
            content.read_to_end(&mut read)?;
            files.push((name.to_owned(), read));
            Ok(())
        })?;
        Ok(files)
    }

    #[test]
    fn name_outside_the_bundle_is_refused() {
        for name in [
            "", "/a", "../a", "a/../b", "a//b", ".a", "a/", "a b", "ä", "a/b/c/d",
        ] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name("media/01JABC.jpg") && is_name("results/step-1.json"));
        assert!(!is_name(&"a".repeat(MAX_NAME + 1)));
    }

    #[test]
    fn file_of_another_kind_is_refused_without_its_bytes() {
        let error = unpack(&[b'%'; 2 * BLOCK]).unwrap_err().to_string();
        assert!(error.ends_with("it has no header of a tar file"), "{error}");
    }

    #[test]
    fn file_in_wrong_order_is_refused() {
        let files = vec![("b".to_owned(), vec![1]), ("a".to_owned(), vec![2])];
        let error = unpack(&pack(&files)).unwrap_err().to_string();
        assert!(error.contains("order of names"), "{error}");
    }

    proptest! {
        #[test]
        fn files_come_back_and_the_length_is_known(
            files in prop::collection::btree_map("[a-z0-9]{1,8}", prop::collection::vec(any::<u8>(), 0..1200), 0..6)
        ) {
            let files: Files = files.into_iter().collect();
            let packed = pack(&files);
            let sizes = files.iter().map(|(_, content)| content.len() as u64);
            prop_assert_eq!(packed.len() as u64, length(sizes));
            prop_assert_eq!(unpack(&packed).unwrap(), files);
        }

        #[test]
        fn changed_byte_changes_a_content_or_is_refused(
            content in prop::collection::vec(any::<u8>(), 1..700), at in any::<usize>(), bit in 0u8..8
        ) {
            let files = vec![("file".to_owned(), content)];
            let mut packed = pack(&files);
            let at = at % packed.len();
            packed[at] ^= 1 << bit;
            if let Ok(read) = unpack(&packed) {
                prop_assert_ne!(read, files);
            }
        }
    }
}
