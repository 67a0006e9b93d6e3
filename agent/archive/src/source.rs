//! What an ingest reads: `SCHEME::REST`. Sans-IO.
//!
//! | source | content |
//! |---|---|
//! | `file::PATH` | one file |
//! | `folder::PATH` | all files below a folder |
//! | `mem::TEXT`, `mem::base64,DATA` | the text, or the decoded bytes |
//! | `archive::COLLECTION/NAME` | a copy of an entry |
//! | `clip::EVENT` | the clip of an event, by its id or the number of its record |
//! | `event::EVENT` | pictures and clip of an event, likewise |
//! | `http::URL`, or `http://…`, `https://…` | one answer to a GET |
//!
//! HDF5 is not read: it needs a system library.

use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

use crate::error::ArchiveError;
use crate::name::EntryName;

/// Most files of a folder that is ingested.
pub const MAX_FILES: usize = 10_000;

/// How a source names an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventRef {
    Id(String),
    /// Number of one of its records in the journal.
    Number(u64),
}

/// A source, read from its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    Folder(PathBuf),
    Memory(Vec<u8>),
    /// A copy of an entry.
    Entry(EntryName),
    Clip(EventRef),
    /// Pictures and clip of an event.
    Event(EventRef),
    Http(Url),
}

const REMEDY: &str = "use file::PATH, folder::PATH, mem::TEXT, mem::base64,DATA, \
    archive::COLLECTION/NAME, clip::EVENT, event::EVENT or http::URL";

impl FromStr for Source {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<Self, ArchiveError> {
        let refused = |remedy: &str| ArchiveError::field("source", text, remedy.to_owned());
        if text.starts_with("http://") || text.starts_with("https://") {
            return url(text)
                .ok_or_else(|| refused("use a complete address"))
                .map(Self::Http);
        }
        let (scheme, rest) = text.split_once("::").ok_or_else(|| refused(REMEDY))?;
        let path = || match rest.is_empty() || rest.contains('\0') {
            true => Err(refused("name a path")),
            false => Ok(PathBuf::from(rest)),
        };
        // Ids of events are ULIDs: 26 letters and digits.
        let is_id = rest.len() == 26 && rest.chars().all(|c| c.is_ascii_alphanumeric());
        let event = || match rest.parse() {
            _ if is_id => Ok(EventRef::Id(rest.to_owned())),
            Ok(number @ 1..) => Ok(EventRef::Number(number)),
            _ => Err(refused(
                "name the number of an event, as `watchkeeper events` prints it, or its id",
            )),
        };
        match scheme {
            "file" => path().map(Self::File),
            "folder" => path().map(Self::Folder),
            "mem" => match rest.strip_prefix("base64,") {
                Some(data) => decode_base64(data)
                    .map(Self::Memory)
                    .ok_or_else(|| refused("write base64 with its padding, without spaces")),
                None => Ok(Self::Memory(rest.as_bytes().to_vec())),
            },
            "archive" => Ok(Self::Entry(rest.parse()?)),
            "clip" => event().map(Self::Clip),
            "event" => event().map(Self::Event),
            "http" => url(rest)
                .ok_or_else(|| refused("use a complete address"))
                .map(Self::Http),
            "hdf5" => Err(refused("HDF5 is not supported; export its images as files")),
            _ => Err(refused(REMEDY)),
        }
    }
}

fn url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    (matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain).then_some(url)
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_by_their_scheme() {
        let read = |text: &str| text.parse::<Source>().unwrap();
        assert_eq!(read("file::/a/b c.jpg"), Source::File("/a/b c.jpg".into()));
        assert_eq!(read("folder::./a"), Source::Folder("./a".into()));
        assert_eq!(
            read("mem::two words"),
            Source::Memory(b"two words".to_vec())
        );
        assert_eq!(read("mem::base64,AAE="), Source::Memory(vec![0, 1]));
        let name = "yard/a.jpg".parse().unwrap();
        assert_eq!(read("archive::yard/a.jpg"), Source::Entry(name));
        let id = "01JABCDEFGHJKMNPQRSTVWXYZ0";
        let named = EventRef::Id(id.to_owned());
        assert_eq!(read(&format!("clip::{id}")), Source::Clip(named));
        assert_eq!(read("event::17"), Source::Event(EventRef::Number(17)));
        assert!(matches!(
            read("http::https://a.example/b.jpg"),
            Source::Http(_)
        ));
        assert!(matches!(read("https://a.example/b.jpg"), Source::Http(_)));
    }

    #[test]
    fn other_sources_are_refused_with_what_is_read() {
        for bad in [
            "",
            "a",
            "file::",
            "ftp::x",
            "http::ftp://a",
            "http::http://user:pw@a/",
            "clip::../x",
            "event::",
            "event::0",
            "event::-1",
            "mem::base64,?",
            "hdf5::/x",
            "file::a\0b",
        ] {
            let refused = bad.parse::<Source>().unwrap_err().to_string();
            assert!(refused.contains("source"), "{bad}: {refused}");
        }
    }
}
