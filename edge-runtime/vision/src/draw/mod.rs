//! Drawing on a picture: boxes, labels, zones, lines, traces.
//!
//! - [`Canvas`] rasterises shapes, [`annotate`] defines their appearance, [`palette`] their
//!   colours, [`trace`] the past of tracks. [`Labels`] are placed once all shapes are drawn.
//! - Drawing never panics and never writes outside the picture.
//! - A shape with a coordinate that is not finite is not drawn.

pub mod annotate;
pub mod canvas;
mod font;
pub mod labels;
pub mod palette;
mod place;
mod text;
pub mod trace;
mod twins;

pub use annotate::{TextBox, boxes, corners, line, tints, traces, zone};
pub use canvas::Canvas;
pub use labels::{Labels, LastSides};
pub use palette::{Color, ColorBy};
pub use trace::Traces;
pub use twins::distinct;
