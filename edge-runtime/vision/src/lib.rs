//! Frames, and what is done with every box and every pixel: geometry, masks, tracking, counting, drawing and image processing.
//!
//! A crate of its own so that a development build optimises these loops and nothing else of ours. Invariant: as in the
//! engine, nothing here reads a clock, opens anything, spawns a thread or draws randomness. Coordinates are pixels from the
//! top left corner unless an item says otherwise.

pub mod analytics;
pub mod detections;
pub mod draw;
pub mod frame;
pub mod geometry;
pub mod imaging;
pub mod jpeg;
pub mod mask;
pub mod numbers;
pub mod outline;
pub mod rgb;
pub mod set_order;
pub mod shrink;
pub mod track;
