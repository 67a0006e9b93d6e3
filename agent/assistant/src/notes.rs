//! The notes, as everything here opens them: one memory for each folder, one embedder for all, and the thread that makes vectors.
//!
//! Invariants:
//! - which embedder is in use is decided in one place and told once; a model that can't be used costs what it would have found, and nothing else;
//! - nobody waits for the vectors of notes: they are made by a thread of their own, a few at a time and not under the lock, while there are any to make. It rests as long as
//!   it worked, so it takes half a core at most, and ends when it is done or nobody has the notes any more.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use serde::Serialize;
use watchkeeper_config::MemoryConfig;
use watchkeeper_memory::{Embedder, HashedEmbedder, Memory};

use watchkeeper_store::private_folder::make_private;

/// Notes that are embedded before what came of it is kept, and another look is taken.
const BATCH: usize = 8;
/// Name of that thread.
const WORKER: &str = "memory-vectors";

/// What makes the vectors of notes, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
#[schema(as = Vectors)]
pub enum EmbedderChoice {
    /// Parts of words and a table of words that mean much the same: there is no model.
    Hashed,
    /// A model of sentences.
    Model {
        /// Its folder.
        #[schema(value_type = String)]
        folder: PathBuf,
        /// Numbers of a vector.
        dimension: usize,
    },
    /// There is a model, and it can't be used: as without one.
    Refused {
        /// Its folder.
        #[schema(value_type = String)]
        folder: PathBuf,
        /// Which file, what is wrong with it, what to do.
        why: String,
    },
}

impl EmbedderChoice {
    /// In a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Hashed => {
                "notes are found by their words and by the built-in table of words that mean much the same"
                    .to_owned()
            }
            Self::Model { folder, dimension } => format!(
                "notes are found by their words and by the model of sentences in {} ({dimension} numbers each)",
                folder.display()
            ),
            Self::Refused { folder, why } => format!(
                "the model of sentences in {} can't be used, and notes are found as without one: {why}",
                folder.display()
            ),
        }
    }
}

/// The folder of the model that is to be used, if there is to be one.
#[must_use]
pub fn folder(config: &MemoryConfig) -> Option<&Path> {
    let usual = config.usual.iter().find(|folder| folder.exists());
    config.model.as_ref().or(usual).map(PathBuf::as_path)
}

/// Whether the files of a model are in `folder`. They are not opened.
///
/// # Errors
/// What is missing, and what to do.
pub fn look(folder: &Path) -> Result<(), String> {
    #[cfg(feature = "neural")]
    watchkeeper_memory::neural::look(folder).map_err(|error| error.to_string())?;
    #[cfg(not(feature = "neural"))]
    load(folder)?;
    Ok(())
}

/// The embedder of a configuration. Takes as long as loading a model, where there is one.
#[must_use]
pub fn choose(config: &MemoryConfig) -> (Arc<dyn Embedder>, EmbedderChoice) {
    let hashed = || Arc::new(HashedEmbedder::default());
    let Some(folder) = folder(config) else {
        return (hashed(), EmbedderChoice::Hashed);
    };
    let folder = folder.to_path_buf();
    match load(&folder) {
        Ok(model) => {
            let dimension = model.dimension();
            (model, EmbedderChoice::Model { folder, dimension })
        }
        Err(why) => (hashed(), EmbedderChoice::Refused { folder, why }),
    }
}

#[cfg(feature = "neural")]
fn load(folder: &Path) -> Result<Arc<dyn Embedder>, String> {
    let model = watchkeeper_memory::neural::SentenceModel::load(folder);
    let model = model.map_err(|error| error.to_string())?;
    Ok(Arc::new(model))
}

#[cfg(not(feature = "neural"))]
fn load(_: &Path) -> Result<Arc<dyn Embedder>, String> {
    Err("this program was built without what runs them".to_owned())
}

/// Folder of the notes, below that of what is kept.
const FOLDER: &str = "memory";

/// The notes in a folder. A copy is the same notes.
#[derive(Debug, Clone)]
pub struct Notes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    config: MemoryConfig,
    embedder: OnceLock<(Arc<dyn Embedder>, EmbedderChoice)>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    memory: Option<Memory>,
    /// Whether the thread is there.
    is_embedding: bool,
}

impl Notes {
    /// Those below `home`, the folder of what is kept. Nothing is read yet.
    #[must_use]
    pub fn of(home: &Path, config: &MemoryConfig) -> Self {
        Self(Arc::new(Shared {
            folder: home.join(FOLDER),
            config: config.clone(),
            embedder: OnceLock::new(),
            state: Mutex::default(),
        }))
    }

    /// Whether anything was ever kept.
    #[must_use]
    pub fn are_there(&self) -> bool {
        self.0.folder.is_dir()
    }

    /// Whether vectors take so long that it is worth beginning with them before anybody asks.
    #[must_use]
    pub fn want_a_model(&self) -> bool {
        folder(&self.0.config).is_some()
    }

    /// Opens them, reads what has changed, and holds them until what is answered is dropped.
    ///
    /// # Errors
    /// A sentence, when they can't be used.
    pub fn open(&self) -> Result<MemoryGuard<'_>, String> {
        let shared = &self.0;
        let folder = &shared.folder;
        let failed =
            |cause: String| format!("the notes in {} can't be used: {cause}", folder.display());
        let (embedder, _) = shared.embedder();
        let mut state = shared.state();
        make_private(folder).map_err(|e| failed(e.to_string()))?;
        let opened = match state.memory.take() {
            Some(mut memory) => memory.refresh().map(|()| memory),
            None => Memory::open(folder, Arc::clone(embedder)),
        };
        let memory = opened.map_err(|e| failed(e.to_string()))?;
        Ok(MemoryGuard {
            shared,
            state,
            memory: Some(memory),
        })
    }

    /// What makes their vectors; none while they were not opened yet, which loads it.
    #[must_use]
    pub fn vectors(&self) -> Option<&EmbedderChoice> {
        self.0.embedder.get().map(|(_, vectors)| vectors)
    }

    /// What makes their vectors, in a sentence, without loading it.
    #[must_use]
    pub fn told(&self) -> String {
        match (self.vectors(), folder(&self.0.config)) {
            (Some(vectors), _) => vectors.sentence(),
            (None, None) => EmbedderChoice::Hashed.sentence(),
            (None, Some(folder)) => format!(
                "the model of sentences in {} is loaded when notes are looked for the first time; until then they are found by their words",
                folder.display()
            ),
        }
    }

    /// How many wait for their vectors; none where nobody knows without waiting.
    #[must_use]
    pub fn waiting(&self) -> Option<usize> {
        let state = self.0.state.try_lock().ok()?;
        state.memory.as_ref().map(Memory::waiting)
    }
}

impl Shared {
    fn embedder(&self) -> &(Arc<dyn Embedder>, EmbedderChoice) {
        self.embedder.get_or_init(|| {
            let (embedder, vectors) = choose(&self.config);
            match &vectors {
                EmbedderChoice::Hashed => {}
                EmbedderChoice::Model { .. } => tracing::info!("memory: {}", vectors.sentence()),
                EmbedderChoice::Refused { .. } => tracing::warn!("memory: {}", vectors.sentence()),
            }
            (embedder, vectors)
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever died with it has taken the memory out: it is opened anew.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory, held.
#[derive(Debug)]
pub struct MemoryGuard<'n> {
    shared: &'n Arc<Shared>,
    state: MutexGuard<'n, State>,
    /// There until it is given back.
    memory: Option<Memory>,
}

impl Deref for MemoryGuard<'_> {
    type Target = Memory;

    #[expect(clippy::expect_used, reason = "only dropping takes it out")]
    fn deref(&self) -> &Memory {
        self.memory.as_ref().expect("it is held")
    }
}

impl DerefMut for MemoryGuard<'_> {
    #[expect(clippy::expect_used, reason = "only dropping takes it out")]
    fn deref_mut(&mut self) -> &mut Memory {
        self.memory.as_mut().expect("it is held")
    }
}

impl Drop for MemoryGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let waits = self
            .memory
            .as_ref()
            .is_some_and(|memory| memory.waiting() > 0);
        self.state.memory = self.memory.take();
        if !waits || self.state.is_embedding {
            return;
        }
        let shared = Arc::downgrade(self.shared);
        let thread = std::thread::Builder::new().name(WORKER.to_owned());
        match thread.spawn(move || embed(&shared)) {
            Ok(_) => self.state.is_embedding = true,
            Err(error) => {
                tracing::warn!(%error, "memory: new notes are found by their words alone")
            }
        }
    }
}

/// Makes the vectors that are wanted, until there are none or nobody has the notes any more.
fn embed(shared: &Weak<Shared>) {
    let (began, mut read, mut failed) = (Instant::now(), 0_usize, 0_usize);
    while let Some(shared) = shared.upgrade() {
        let wanted = {
            let mut state = shared.state();
            let memory = state.memory.as_mut();
            let wanted = memory
                .map(|memory| memory.wanted(BATCH))
                .unwrap_or_default();
            if wanted.is_empty() {
                // Under the lock: whoever adds a note after this starts another one.
                state.is_embedding = false;
                let took = began.elapsed().as_secs_f64();
                tracing::info!(
                    notes = read,
                    failed,
                    took,
                    "memory: the model has read new notes"
                );
                return;
            }
            wanted
        };
        let (embedder, _) = shared.embedder();
        read += wanted.len();
        let begun = Instant::now();
        let made = wanted.into_iter().map(|wanted| {
            let vector = embedder.embed(wanted.text());
            if let Err(error) = &vector {
                failed += 1;
                // What fails for one note may fail for all of them.
                if failed == 1 {
                    tracing::warn!(%error, "memory: notes are found by their words alone");
                }
            }
            (wanted, vector.ok())
        });
        let made = made.collect();
        if let Some(memory) = shared.state().memory.as_mut() {
            memory.learn(made);
        }
        drop(shared);
        std::thread::sleep(begun.elapsed());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::fs;
    use std::time::Duration;

    use watchkeeper_memory::{Entry, Kind, Origin, Query, Words};

    use super::*;
    use watchkeeper_client::clock::wall_now;

    fn tiny() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/sentences")
    }

    fn named(model: PathBuf) -> MemoryConfig {
        MemoryConfig {
            model: Some(model),
            usual: Vec::new(),
        }
    }

    fn remember(notes: &Notes, words: &str) {
        let entry = Entry::new(Kind::Knowledge, Origin::Person, Words::new(words).unwrap());
        notes.open().unwrap().remember(wall_now(), entry).unwrap();
    }

    fn found(notes: &Notes, words: &str) -> Vec<String> {
        let found = notes.open().unwrap().search(Query::new(words)).unwrap();
        let words = found.into_iter().map(|f| f.note.words.to_string());
        words.collect()
    }

    #[test]
    fn a_model_is_taken_where_it_is_named_or_lies_in_the_usual_place() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        let usual = MemoryConfig {
            model: None,
            usual: vec![dir.path().join("not-there"), there.clone()],
        };
        assert_eq!(choose(&usual).1, EmbedderChoice::Hashed);
        // A folder is there, and nothing in it.
        fs::create_dir(&there).unwrap();
        let (embedder, vectors) = choose(&usual);
        assert_eq!(embedder.name(), "hashed");
        let told = vectors.sentence();
        assert!(
            told.contains("can't be used") && told.contains("it has no model.onnx; put"),
            "{told}"
        );
        for name in ["model.onnx", "tokenizer.json"] {
            fs::copy(tiny().join(name), there.join(name)).unwrap();
        }
        let (folder, dimension) = (there, 16);
        assert_eq!(
            choose(&usual).1,
            EmbedderChoice::Model { folder, dimension }
        );
        // One that was named is not replaced by another one.
        let wrong = MemoryConfig {
            model: Some(dir.path().join("not-there")),
            ..usual
        };
        assert!(matches!(choose(&wrong).1, EmbedderChoice::Refused { .. }));
    }

    #[test]
    fn new_notes_get_their_vectors_while_nobody_waits() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::of(dir.path(), &named(tiny()));
        assert!(!notes.are_there() && notes.waiting().is_none());
        let other = notes.clone();
        for n in 0..3 * BATCH {
            remember(&other, &format!("A hound barks {n} times."));
        }
        let until = Instant::now() + Duration::from_secs(30);
        while notes.waiting() != Some(0) {
            assert!(Instant::now() < until, "they still wait");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!found(&notes, "the dog").is_empty());
        // The thread is gone, and the next note has one again.
        remember(&notes, "The lorry waits.");
        while notes.waiting() != Some(0) {
            assert!(Instant::now() < until, "it still waits");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            found(&notes, "the truck").first().map(String::as_str),
            Some("The lorry waits.")
        );
    }

    #[test]
    fn whoever_dies_with_the_notes_in_hand_takes_none_of_them_along() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::of(dir.path(), &MemoryConfig::default());
        remember(&notes, "A hound barks.");
        let other = notes.clone();
        let died = std::thread::spawn(move || {
            let _held = other.open().unwrap();
            panic!("a tool broke");
        });
        assert!(died.join().is_err());
        assert_eq!(found(&notes, "hound"), ["A hound barks."]);
    }
}
