//! The rules that hold for every file: arrows between crates, circles, words, columns, links.
//!
//! - Rules that a machine can check are tests here, each with a fixture that breaks it.
//! - Nothing of the product is linked: the rules read manifests and sources, in seconds.
//! - Folders that do not keep a rule yet are listed in `pending.toml`. An entry without a finding
//!   fails, so the list only shrinks.

mod arrows;
mod circles;
mod columns;
mod functions;
mod graph;
mod links;
mod module_docs;
mod pending;
mod sans_io;
mod shells;
mod short_docs;
mod systemd;
mod text;
mod words;
mod workspace;

type Outcome = Result<(), Box<dyn std::error::Error>>;
