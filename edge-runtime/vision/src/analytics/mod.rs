//! What tracked boxes do in the picture: crossing a line, being in a zone, how long, how often.
//!
//! Invariant: each counter is a pure function of its configuration and the frames it was given, and remembers a bounded
//! number of tracks.

pub mod grace;
pub mod line;
pub mod recent;
pub mod visits;
pub mod zone;

pub use grace::Grace;
pub use line::{Crossings, LineCounter};
pub use visits::Visits;
pub use zone::{PolygonZone, TimeInZone};
