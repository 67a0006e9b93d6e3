//! Drawing on a picture: boxes, labels, zones, lines, traces.
//!
//! [`Canvas`] owns how a shape becomes pixels, [`annotate`] what our things look like, [`palette`] which colour stands
//! for what, [`trace`] where tracks have been.
//!
//! Invariant: drawing never panics and never writes outside the picture, whatever the coordinates; a shape with a
//! coordinate that is not finite is not drawn.

pub mod annotate;
pub mod canvas;
pub mod palette;
mod text;
pub mod trace;

pub use annotate::{Look, TextBox, boxes, detections, labels, line_counter, traces, zone};
pub use canvas::Canvas;
pub use palette::{Color, ColorBy};
pub use trace::Traces;
