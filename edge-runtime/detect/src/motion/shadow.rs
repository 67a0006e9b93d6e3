//! Cast shadows: background with less light and about the same colour.
//!
//! A shadow scales the background's luma by a bounded factor and keeps its chroma. See Prati,
//! Mikic, Trivedi and Cucchiara, "Detecting moving shadows: algorithms and evaluation", 2003.

use super::cells::{BACK, FORE};

/// Lowest share of light of a shadow. Direct sun is three to five times the light of the sky, which
/// video gamma turns into about half. A lower share would take dark cars for shadows.
const MIN_LIGHT_SHARE: f32 = 0.6;

/// Whether a cell with the background's chroma can be in shadow, by its share of the background's
/// luma.
pub(super) fn is_plausible(share: f32) -> bool {
    share > MIN_LIGHT_SHARE
}

/// Finds shadow labels inside objects; holds only its scratch memory.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// For each column, the row of the last foreground since the last background.
    above: Vec<Option<usize>>,
}

impl Inside {
    /// Relabels shadow between foreground on both sides of a row or column as foreground. A shadow
    /// falls beside an object, so inside it is the object's dark paint or glass.
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
