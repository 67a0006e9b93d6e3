//! Frames, and the work on each box and pixel: geometry, masks, tracking, counting, drawing and
//! image processing.
//!
//! - A crate of its own, so that development builds optimise only these loops.
//! - Nothing here reads a clock, performs I/O, spawns a thread or draws random numbers.
//! - Coordinates are pixels from the upper left corner, unless an item says otherwise.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a failing test may panic"))]

pub mod analytics;
pub mod cells;
pub mod detections;
pub mod draw;
pub mod frame;
pub mod geometry;
pub mod imaging;
pub mod jpeg;
pub mod mask;
pub mod numbers;
pub mod outline;
pub mod picture_file;
pub mod privacy;
pub mod rgb;
pub mod set_order;
pub mod shrink;
pub mod tiles;
pub mod track;
