//! Media of the runtime that references name.
//!
//! - The SHA-256 is that of the reference, or the media are refused.
//! - Small media are read into memory; large ones are streamed to a file of the archive's disk.
//! - An entry whose media are gone is dropped.

use std::fs::File;
use std::io::Read as _;

use futures_util::stream;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use watchkeeper_archive::blocking::hash_of;
use watchkeeper_archive::{Archive, ArchiveError, Body, ContentHash, Entry, Sealed, Selection};
use watchkeeper_client::{ClientError, RuntimeClient};

use crate::background::blocking;

/// Largest media that are read into memory, in bytes.
const MAX_IN_MEMORY: u64 = 4 << 20;
/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// Why media can't be read.
#[derive(Debug)]
pub(super) enum MediaError {
    /// The runtime is away or busy: no other media can be read either.
    Away(ArchiveError),
    Other(ArchiveError),
}

impl From<ArchiveError> for MediaError {
    fn from(error: ArchiveError) -> Self {
        Self::Other(error)
    }
}

impl From<MediaError> for ArchiveError {
    fn from(error: MediaError) -> Self {
        match error {
            MediaError::Away(error) | MediaError::Other(error) => error,
        }
    }
}

/// Status of a runtime that starts or ends.
const NOT_READY: u16 = 503;

fn is_away(error: &ClientError) -> bool {
    error.is_transient() || error.problem().is_some_and(|it| it.status == NOT_READY)
}

/// Reads a content of at most `max` bytes.
pub(super) async fn read_file(file: File, max: u64) -> Result<Vec<u8>, String> {
    let read = blocking(move || {
        let mut content = Vec::new();
        let read = file.take(max).read_to_end(&mut content);
        read.map(|_| content)
    });
    read.await?.map_err(|error| error.to_string())
}

/// Reads the media `id` of a reference.
pub(super) async fn read(
    archive: &Archive,
    runtime: &RuntimeClient,
    entry: &Entry,
    id: &str,
) -> Result<Body, MediaError> {
    if entry.bytes > MAX_IN_MEMORY {
        let sealed = stage(archive, runtime, entry, id).await?;
        let file = blocking(move || sealed.into_file()).await;
        return Ok(Body::File(file.map_err(ArchiveError::Source)??));
    }
    match runtime.media(id).await {
        Ok(content) => {
            let hash = hash_of(&content).await.map_err(ArchiveError::Source)?;
            check(entry, hash)?;
            Ok(Body::Bytes(content))
        }
        Err(error) => Err(fault(archive, entry, &error).await),
    }
}

/// Writes the media `id` of a reference as a content. Deleted unless it is ingested.
pub(super) async fn stage(
    archive: &Archive,
    runtime: &RuntimeClient,
    entry: &Entry,
    id: &str,
) -> Result<Sealed, MediaError> {
    let (mut into, from) = tokio::io::duplex(CHUNK);
    let copy = async move { runtime.copy_media(id, &mut into).await };
    let (copied, sealed) = tokio::join!(copy, archive.stage_stream(chunks(from)));
    // A disk that refuses ends the copy too, and is the cause then.
    let sealed = sealed?;
    if let Err(error) = copied {
        return Err(fault(archive, entry, &error).await);
    }
    check(entry, sealed.hash())?;
    Ok(sealed)
}

fn chunks(
    from: impl AsyncRead + Unpin + Send,
) -> impl futures_util::Stream<Item = Result<bytes::Bytes, ArchiveError>> + Send {
    stream::try_unfold(from, |mut from| async move {
        let mut chunk = bytes::BytesMut::with_capacity(CHUNK);
        let read = from.read_buf(&mut chunk).await;
        let read = read.map_err(|error| ArchiveError::Source(error.to_string()))?;
        Ok((read > 0).then(|| (chunk.freeze(), from)))
    })
}

fn check(entry: &Entry, found: ContentHash) -> Result<(), ArchiveError> {
    match found == entry.sha256 {
        true => Ok(()),
        false => Err(ArchiveError::Source(format!(
            "{}: the runtime's media are not what the event recorded; their SHA-256 differs",
            entry.name
        ))),
    }
}

/// Makes the error of media that can't be read. Where they are gone, the entry is dropped.
async fn fault(archive: &Archive, entry: &Entry, error: &ClientError) -> MediaError {
    if !error.is_not_found() {
        let why = ArchiveError::Source(format!("{}: {}", entry.name, error.in_full()));
        return match is_away(error) {
            true => MediaError::Away(why),
            false => MediaError::Other(why),
        };
    }
    let dropped = archive.destroy(Selection::Entry(entry.name.clone())).await;
    MediaError::Other(match dropped {
        // It was dropped meanwhile.
        Ok(_) | Err(ArchiveError::NotFound(_)) => ArchiveError::Gone(entry.name.clone()),
        Err(error) => error,
    })
}
