//! Flags of `watchkeeper archive`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use watchkeeper_archive::name::{EntryName, check_collection};
use watchkeeper_archive::query::Order;
use watchkeeper_archive::{Query, Selection};

use super::value::{lifetime, past, seen};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ArchiveAction {
    /// Put files, folders, texts, events or answers of web servers into the archive.
    Ingest(Box<ArchiveIngestArgs>),
    /// Find entries by plain words or by conditions.
    Query(Box<ArchiveQueryArgs>),
    /// List collections, or the entries of one.
    List {
        /// Collection, or a pattern such as yard/*.jpg.
        pattern: Option<String>,
        /// Continue behind this entry.
        #[arg(long, value_name = "NAME", requires = "pattern")]
        after: Option<EntryName>,
        /// Maximum number of entries to print.
        #[arg(long, default_value_t = 100, value_name = "COUNT")]
        limit: usize,
    },
    /// Save the content of an entry to a file.
    Get {
        /// Name of the entry, COLLECTION/NAME.
        name: EntryName,
        /// File to write, `-` for standard output [default: the name within the collection].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Read the disk instead of the fast tiers, and fill those again.
        #[arg(long)]
        skip_cache: bool,
    },
    /// Show what is known of an entry.
    Stat {
        /// Name of the entry, COLLECTION/NAME.
        name: EntryName,
    },
    /// Remove copies from the fast tiers; the entries stay on disk.
    Prune {
        /// Entry COLLECTION/NAME, or COLLECTION.
        #[arg(value_parser = selection)]
        what: Selection,
    },
    /// Remove entries from all tiers, for good; protected ones are refused.
    Destroy {
        /// Entry COLLECTION/NAME, or COLLECTION with --all.
        #[arg(value_parser = selection)]
        what: Selection,
        /// Confirm that all entries of a collection are meant.
        #[arg(long)]
        all: bool,
    },
    /// Protect entries from eviction, expiry and destruction.
    Protect {
        /// Entry COLLECTION/NAME, or COLLECTION.
        #[arg(value_parser = selection)]
        what: Selection,
    },
    /// Lift the protection of entries.
    Unprotect {
        /// Entry COLLECTION/NAME, or COLLECTION.
        #[arg(value_parser = selection)]
        what: Selection,
    },
    /// Show contents, bounds, and hits and misses by tier.
    Stats,
    /// Read all contents, compare their SHA-256, and replace damaged ones by their copy in S3.
    Verify,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ArchiveIngestArgs {
    /// Path, file::PATH, folder::PATH, mem::TEXT, archive::NAME, clip::EVENT, event::EVENT or
    /// http::URL.
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// Collection that gets them.
    #[arg(short, long = "as", value_name = "COLLECTION", value_parser = collection)]
    pub collection: String,
    /// Name within the collection, for one content [default: by the source].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Camera that saw it.
    #[arg(long, value_name = "ID")]
    pub camera: Option<String>,
    /// When it was seen, such as 2026-03-29T08:00, or how long ago.
    #[arg(long, value_name = "TIME", value_parser = seen)]
    pub time: Option<Timestamp>,
    /// Class of the object.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Zone or line.
    #[arg(long, value_name = "NAME")]
    pub zone: Option<String>,
    /// Text that it shows.
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Label of the entry; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// How long it is kept: seconds, or a duration such as 24h.
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    pub ttl: Option<u64>,
    /// Protect it from eviction, expiry and destruction.
    #[arg(long)]
    pub protect: bool,
    /// MIME type [default: by the name].
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ArchiveQueryArgs {
    /// Plain words, such as "cars at the gate yesterday"; not with conditions.
    pub words: Vec<String>,
    /// Collection, or a pattern such as events/*-clean.jpg.
    #[arg(long, value_name = "PATTERN", conflicts_with = "words")]
    pub pattern: Option<String>,
    /// Only of this class.
    #[arg(long, value_name = "CLASS", conflicts_with = "words")]
    pub class: Option<String>,
    /// Only of this camera.
    #[arg(long, value_name = "ID", conflicts_with = "words")]
    pub camera: Option<String>,
    /// Only of this zone or line.
    #[arg(long, value_name = "NAME", conflicts_with = "words")]
    pub zone: Option<String>,
    /// Only of this event.
    #[arg(long, value_name = "ID", conflicts_with = "words")]
    pub event: Option<String>,
    /// Only of this track.
    #[arg(long, value_name = "ID", conflicts_with = "words")]
    pub track: Option<i64>,
    /// Only with this in its text, codes or labels.
    #[arg(long, value_name = "TEXT", conflicts_with = "words")]
    pub text: Option<String>,
    /// Only with this label; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, conflicts_with = "words")]
    pub label: Vec<(String, String)>,
    /// Only seen since a time such as 2026-03-29T08:00, the begin of 2026-03 or 2026, or how long
    /// ago, such as 24h.
    #[arg(long, value_name = "TIME", value_parser = past, conflicts_with = "words")]
    pub since: Option<Timestamp>,
    /// Only seen before this time; of a day, month or year, before its begin.
    #[arg(long, value_name = "TIME", value_parser = past, conflicts_with = "words")]
    pub until: Option<Timestamp>,
    /// The most alike to this entry first, or to this JPEG, PNG or WebP file: ./NAME, /FOLDER/NAME.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "words")]
    pub like: Option<Like>,
    /// The most alike to this text first; needs a model that reads texts, such as CLIP.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["words", "like"])]
    pub like_text: Option<String>,
    /// Order of the entries; not with likeness [default: newest].
    #[arg(long, value_enum, conflicts_with_all = ["words", "like", "like_text"])]
    pub order: Option<ArchiveOrder>,
    /// Continue behind this entry, in the order of the answer.
    #[arg(long, value_name = "NAME")]
    pub after: Option<EntryName>,
    /// Maximum number of entries to print, 1 to 1000 [default: that of the words, else 100].
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
}

/// What entries are compared with.
#[derive(Debug, Clone)]
pub(crate) enum Like {
    Entry(EntryName),
    File(PathBuf),
}

impl FromStr for Like {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // No name of an entry begins with a mark or is without a slash.
        match text.starts_with(['.', '/', '~']) || !text.contains('/') {
            true => Ok(Self::File(text.into())),
            false => match text.parse() {
                Ok(name) => Ok(Self::Entry(name)),
                Err(error) => Err(format!("{error}; put ./ before a file: ./{text}")),
            },
        }
    }
}

/// Order of entries on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArchiveOrder {
    Newest,
    Oldest,
    Name,
}

impl ArchiveQueryArgs {
    /// The conditions as a query, except for a file to compare with.
    pub(crate) fn into_query(self) -> Query {
        Query {
            pattern: self.pattern,
            class: self.class,
            camera: self.camera,
            zone: self.zone,
            event: self.event,
            track: self.track,
            text: self.text,
            since: self.since,
            until: self.until,
            labels: self.label.into_iter().collect(),
            like: match self.like {
                Some(Like::Entry(name)) => Some(name),
                _ => None,
            },
            like_text: self.like_text,
            order: match self.order {
                None | Some(ArchiveOrder::Newest) => Order::Newest,
                Some(ArchiveOrder::Oldest) => Order::Oldest,
                Some(ArchiveOrder::Name) => Order::Name,
            },
            after: self.after,
            limit: self.limit,
            ..Query::default()
        }
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = split.ok_or("must be KEY=VALUE, such as order=A-17")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn collection(text: &str) -> Result<String, String> {
    if let Some((collection, name)) = text.split_once('/') {
        return Err(format!(
            "a collection has no slash; for the name within it use --as {collection} --name {name}"
        ));
    }
    check_collection(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn selection(text: &str) -> Result<Selection, String> {
    if text.contains('/') {
        let name = text.parse().map_err(|error| format!("{error}"))?;
        return Ok(Selection::Entry(name));
    }
    check_collection(text).map_err(|error| error.to_string())?;
    Ok(Selection::Collection(text.to_owned()))
}
