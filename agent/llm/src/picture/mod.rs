//! Pictures in a size that the server does not scale.

mod prepare;
pub mod size;

pub use prepare::{Detail, PictureError, PreparedPicture, prepare};
