//! Values that flow between steps, and their formats: pictures, JSON, Python's text, saved bytes.

pub mod codec;
pub(crate) mod image;
pub mod json;
pub(crate) mod lenient;
pub(crate) mod python_format;
pub(crate) mod python_json;
pub(crate) mod python_text;
pub(crate) mod stored_value;
pub(crate) mod tree;
pub(crate) mod value;
