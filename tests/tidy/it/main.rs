//! The rules that hold for every file: arrows between crates, circles, words, columns, links.
//!
//! - Rules that a machine can check are tests here, each with a fixture that breaks it.
//! - Nothing of the product is linked: the rules read manifests and sources, in seconds.

mod arrows;
mod circles;
mod columns;
mod doc_examples;
mod file_lengths;
mod findings;
mod functions;
mod graph;
mod limits;
mod links;
mod locks;
mod module_docs;
mod sans_io;
mod schemas;
mod shells;
mod short_docs;
mod short_texts;
mod systemd;
mod text;
mod words;
mod workspace;

type Outcome = Result<(), Box<dyn std::error::Error>>;
