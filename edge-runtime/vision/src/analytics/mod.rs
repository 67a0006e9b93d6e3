//! Analytics of tracked boxes: line crossings, zones, dwell times, visits.
//!
//! Each counter is a pure function of its configuration and frames, and remembers a bounded number
//! of tracks.

pub mod crossing;
pub mod grace;
pub mod line;
pub mod recent;
pub mod still;
pub mod succession;
pub mod visits;
pub mod zone;

pub use crossing::{CROSSING_DEPTH, Crossed, Crossing, CrossingCounter};
pub use grace::Grace;
pub use line::{Crossings, LineCounter};
pub use still::StillTracks;
pub use visits::Visits;
pub use zone::{PolygonZone, TimeInZone};
