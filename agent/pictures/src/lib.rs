//! Picture files on disk: what they say of themselves, how good they are, which belong together.
//!
//! Owns [`Picture`], its metadata and scores, near duplicates, groups, selection, contact sheets
//! and albums.
//!
//! - A file is data from outside: one that can't be read is reported by [`PictureError`], and the
//!   others continue.
//! - Pictures are compared and measured upright, as their EXIF orientation says.
//! - The order of results depends on the pictures only, not on threads or the file system.
//! - One picture a thread is decoded at a time; of the others only measurements stay.
//!
//! Not here: where pictures come from, and what a job does with them.

pub mod album;
pub mod condition;
mod difference_hash;
pub mod duplicates;
pub mod folder;
pub mod group;
pub mod likeness;
pub mod measure;
pub mod metadata;
mod noise;
mod picture;
mod place;
pub mod scores;
pub mod select;
pub mod sheet;

pub use group::Group;
pub use measure::{Measured, Measurer};
pub use picture::{FoundObject, Picture, PictureError, Tag};
pub use place::Place;
pub use scores::{Scores, Trait};
