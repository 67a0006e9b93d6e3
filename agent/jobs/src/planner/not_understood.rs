//! Why the rules plan no request, as a sentence that names what they know.

use std::fmt;

use super::words::{GROUPINGS, ORDERS, is_folder};
use crate::cameras::CameraNames;

/// Why a request has no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotUnderstood {
    Words {
        words: Vec<String>,
        hint: Option<String>,
    },
    WhichPictures,
}

impl NotUnderstood {
    /// Without words it is not said which pictures are meant.
    pub(super) fn words(words: Vec<String>, cameras: &CameraNames) -> Self {
        if words.is_empty() {
            return Self::WhichPictures;
        }
        let all = words.join(" ");
        let mut texts = std::iter::once(&all).chain(&words);
        let near = texts.find_map(|text| cameras.nearest(text));
        let hint = near.map(|near| format!("did you mean the camera {near}?"));
        Self::Words { words, hint }
    }

    /// An object that no detector finds.
    pub(super) fn object(noun: String, mut others: Vec<String>, classes: &[String]) -> Self {
        let hint = match classes.is_empty() {
            true => format!("{noun}: classes of objects are known while the runtime runs"),
            false => format!("{noun}: no installed detector finds them"),
        };
        others.push(noun);
        Self::Words {
            words: others,
            hint: Some(hint),
        }
    }
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words { words, hint } => {
                let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                write!(f, "not understood: {}", quoted.join(", "))?;
                if let Some(hint) = hint {
                    write!(f, " ({hint})")?;
                }
                if words.iter().any(|word| is_folder(word)) {
                    f.write_str(" (a request reads one folder; --output names the one to write)")?;
                }
            }
            Self::WhichPictures => {
                f.write_str("say which pictures: a folder, a time, or a camera")?
            }
        }
        f.write_str(
            "; for example: organise ./photos by day and keep the 3 best of each, \
             or: the best 10 pictures of last week's cars. Groups are by ",
        )?;
        let groupings: Vec<&str> = GROUPINGS.iter().map(|(word, _)| *word).collect();
        let orders: Vec<&str> = ORDERS.iter().map(|(word, _)| *word).collect();
        let (groupings, orders) = (groupings.join(", "), orders.join(", "));
        write!(f, "{groupings}; choices are the {orders}")
    }
}

impl std::error::Error for NotUnderstood {}
