//! The names that requests may use: those of a box's cameras, and the classes of its detectors.
//!
//! - Neither case nor what stands between the words of a name counts.
//! - A name that two cameras have means neither.

use strsim::damerau_levenshtein;

/// Most words of the name of a camera.
pub const MAX_NAME_WORDS: usize = 8;

/// What requests may name, as far as it is known now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownNames {
    pub cameras: CameraNames,
    /// Classes that installed detectors find; none while the runtime is away.
    pub classes: Vec<String>,
}

/// Names of cameras, with the ID of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CameraNames(Vec<(String, String)>);

impl CameraNames {
    /// Adds a camera by its ID and by the name that users gave it.
    pub fn add(&mut self, id: &str, name: Option<&str>) {
        for name in [Some(id), name].into_iter().flatten() {
            self.0.push((folded(name), id.to_owned()));
        }
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Returns the ID of the one camera that these words name.
    pub fn id(&self, words: &str) -> Option<&str> {
        let words = folded(words);
        let mut ids = self.0.iter().filter(|(name, _)| *name == words);
        let (_, id) = ids.next()?;
        ids.all(|(_, other)| other == id).then_some(id)
    }

    /// Returns the name that differs from these words by one letter, or by two from eight letters
    /// on. It is only asked for, so short names count too.
    pub(crate) fn nearest(&self, words: &str) -> Option<&str> {
        let words = folded(words);
        let allowed = match words.chars().count() {
            0..=2 => return None,
            3..=7 => 1,
            _ => 2,
        };
        let names = self.0.iter().map(|(name, _)| name.as_str());
        let names = names.map(|name| (damerau_levenshtein(&words, name), name));
        let near = names
            .filter(|(distance, _)| (1..=allowed).contains(distance))
            .min();
        near.map(|(_, name)| name)
    }
}

fn folded(name: &str) -> String {
    let name = name.replace('’', "'").replace("'s", "");
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").to_lowercase()
}
