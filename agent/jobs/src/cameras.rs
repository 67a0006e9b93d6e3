//! The names by which requests mean the cameras of a box.
//!
//! - Neither case nor what stands between the words of a name counts.
//! - A name that two cameras have means neither.

/// Most words of the name of a camera.
pub const MAX_NAME_WORDS: usize = 8;

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
    #[must_use]
    pub fn id(&self, words: &str) -> Option<&str> {
        let words = folded(words);
        let mut ids = self.0.iter().filter(|(name, _)| *name == words);
        let (_, id) = ids.next()?;
        ids.all(|(_, other)| other == id).then_some(id)
    }
}

fn folded(name: &str) -> String {
    let name = name.replace('’', "'").replace("'s", "");
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").to_lowercase()
}
