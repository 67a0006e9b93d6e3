//! Tools on pictures: list, measure, find duplicates, read codes, group, rank, select, and write
//! albums.
//!
//! - A picture that can't be read is counted and named in the summary. What lists, measures or
//!   finds duplicates leaves it out; what orders, groups or filters keeps it without scores.
//! - A step fails only if no picture can be read.
//! - A tool that needs scores measures the pictures that lack them.
//! - Results keep the order of their input unless ordering is the tool's work.

mod codes;
mod combine;
mod common;
mod duplicates;
mod group;
mod list;
mod measure;
mod select;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

pub use common::{
    COUNT, Collection, GROUPS, OF_PICTURES, PICTURES, groups_done, pictures_and_groups_done,
    pictures_done,
};
use watchkeeper_pictures::Measurer;

use crate::tool::Toolbox;

/// The tools that need nothing but files.
pub fn picture_tools() -> Toolbox {
    let measurer = Arc::new(Measurer::default());
    Toolbox::new(vec![
        Arc::new(list::ListPictures),
        Arc::new(combine::Combine),
        Arc::new(measure::MeasureQuality(Arc::clone(&measurer))),
        Arc::new(duplicates::FindDuplicates(Arc::clone(&measurer))),
        Arc::new(codes::ReadCodes),
        Arc::new(group::GroupPictures(Arc::clone(&measurer))),
        Arc::new(select::Rank(Arc::clone(&measurer))),
        Arc::new(select::SelectBest(Arc::clone(&measurer))),
        Arc::new(select::Filter(measurer)),
        Arc::new(write::ContactSheet),
        Arc::new(write::Album),
    ])
}
