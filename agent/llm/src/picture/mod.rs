//! Pictures in the size that a model sees unscaled.

mod prepare;
pub mod size;

pub use prepare::{Detail, PictureError, Prepared, prepare};
