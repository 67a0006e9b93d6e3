//! Cast shadows: background with less light on it, of about the same colour.
//!
//! After Prati, Mikic, Trivedi and Cucchiara, "Detecting moving shadows: algorithms and evaluation", 2003: a shadow
//! scales the background's luma by a bounded factor and leaves its chroma.

/// Lowest share of light left that still is taken for shadow. Direct sun is some three to five times the sky's light,
/// which video gamma turns into about half; a lower share would take dark cars for shadow.
const DEEPEST: f32 = 0.6;

/// Whether a cell whose chroma agrees with the background can be in shadow, by its share of the background's luma.
pub(super) fn plausible(share: f32) -> bool {
    share > DEEPEST
}
