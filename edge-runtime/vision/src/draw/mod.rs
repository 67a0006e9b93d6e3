//! Drawing on a picture: boxes, labels, zones, lines, traces.
//!
//! - [`Canvas`] rasterises shapes, [`annotate`] defines their appearance, [`palette`] their
//!   colours, [`trace`] the past of tracks.
//! - Drawing never panics and never writes outside the picture.
//! - A shape with a coordinate that is not finite is not drawn.

pub mod annotate;
pub mod canvas;
pub mod palette;
mod text;
pub mod trace;

pub use annotate::{TextBox, boxes, line_counter, traces, zone};
pub use canvas::Canvas;
pub use palette::{Color, ColorBy};
pub use trace::Traces;
