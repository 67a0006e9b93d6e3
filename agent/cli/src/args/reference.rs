//! Arguments of `watchkeeper reference`.

use std::path::PathBuf;

use clap::Subcommand;
use watchkeeper_contract::id::EventSeq;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ReferenceAction {
    /// Add pictures to a set, from files or from events.
    Add {
        /// Name of the set, such as bay-3-truck.
        name: String,
        /// JPEG, PNG or WebP files of at most 10 MiB; or name events with --event.
        #[arg(required_unless_present = "event")]
        files: Vec<PathBuf>,
        /// Number of a record with a picture: the object's bounding box is cut out; repeatable.
        #[arg(long, value_name = "NUMBER")]
        event: Vec<EventSeq>,
    },
    /// List the sets.
    List,
    /// List the pictures of a set, which of them wait for their embedding, and why.
    Show {
        /// Name of the set.
        name: String,
    },
    /// Remove pictures from a set, or the whole set.
    Remove {
        /// Name of the set.
        name: String,
        /// Name of its file, or the first characters of its SHA-256 [default: all of the set].
        pictures: Vec<String>,
    },
}
