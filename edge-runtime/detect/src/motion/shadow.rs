//! Cast shadows: background with less light on it, of about the same colour.
//!
//! After Prati, Mikic, Trivedi and Cucchiara, "Detecting moving shadows: algorithms and evaluation", 2003: a shadow
//! scales the background's luma by a bounded factor and leaves its chroma.

use super::cells::{BACK, FORE};

/// Lowest share of light left that still is taken for shadow. Direct sun is some three to five times the sky's light,
/// which video gamma turns into about half; a lower share would take dark cars for shadow.
const DEEPEST: f32 = 0.6;

/// Whether a cell whose chroma agrees with the background can be in shadow, by its share of the background's luma.
pub(super) fn plausible(share: f32) -> bool {
    share > DEEPEST
}

/// Finds shadow inside things; holds only its scratch memory.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// For each column the row of the last foreground since the last background.
    above: Vec<Option<usize>>,
}

impl Inside {
    /// Makes foreground of shadow that lies between foreground on both sides, along a row or a column: a shadow is cast
    /// beside a thing, so what looks like one inside is the thing's own dark paint or glass.
    pub(super) fn fill(&mut self, labels: &mut [u8], width: usize) {
        self.above.clear();
        self.above.resize(width, None);
        for y in 0..labels.len() / width {
            let mut left = None;
            for x in 0..width {
                match labels[y * width + x] {
                    BACK => {
                        left = None;
                        self.above[x] = None;
                    }
                    FORE => {
                        if let Some(from) = left.replace(x) {
                            labels[y * width + from..y * width + x].fill(FORE);
                        }
                        if let Some(from) = self.above[x].replace(y) {
                            for row in from + 1..y {
                                labels[row * width + x] = FORE;
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
