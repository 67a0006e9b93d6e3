//! The notes as the assistant opens them: one memory per folder, one embedder, one worker thread.
//!
//! - The embedder is chosen once and logged once. A model that can't be used costs only what it
//!   would have found.
//! - With [`Notes::in_background`] no caller waits for the model: until it is loaded, the hashed
//!   embedder replaces it. With [`Notes::checked`] the first use waits.
//! - No caller waits for embeddings. The worker computes [`BATCH`] at a time, outside the lock, and
//!   pauses as long as it worked, so it uses half a core at most. It ends when it is done, or when
//!   the notes are dropped.

use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Once, OnceLock, Weak};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use watchkeeper_client::clock::wall_now;
use watchkeeper_config::MemoryConfig;
use watchkeeper_memory::{Embedder, Entry, HashedEmbedder, Memory};
use watchkeeper_models::model_check::{self, Outcome, THIS_PROGRAM};

use watchkeeper_store::private_folder::make_private;

/// Notes that are embedded between two locks.
const BATCH: usize = 8;
/// Subcommand of `watchkeeper` that loads a model once, for a parent.
pub(crate) const CHECK_SUBCOMMAND: &str = "embedding-check";
/// Name of the thread that loads a model.
const LOADER: &str = "memory-model";
/// Name of the worker thread.
const WORKER: &str = "memory-vectors";

/// Embedder of the notes, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
#[schema(as = Vectors)]
pub enum EmbedderChoice {
    /// Parts of words and a table of synonyms; no model is configured.
    Hashed,
    /// Sentence embeddings by a neural model.
    Model {
        /// Folder of the model.
        #[schema(value_type = String)]
        folder: PathBuf,
        /// Length of a vector.
        dimension: usize,
    },
    /// The configured model can't be used; the hashed embedder replaces it.
    Refused {
        /// Folder of the model.
        #[schema(value_type = String)]
        folder: PathBuf,
        /// The file, what is wrong with it, the remedy.
        why: String,
    },
}

impl EmbedderChoice {
    /// One sentence for the user.
    pub fn sentence(&self) -> String {
        match self {
            Self::Hashed => {
                "notes are searched by their words and by the built-in table of synonyms".to_owned()
            }
            Self::Model { folder, dimension } => format!(
                "notes are searched by their words and by sentence embeddings of the model in {} \
                 ({dimension} numbers each)",
                folder.display()
            ),
            Self::Refused { folder, why } => format!(
                "the embedding model in {} can't be used, so notes are searched without it: {why}",
                folder.display()
            ),
        }
    }
}

/// The folder of the configured embedding model, or of one in a usual place.
pub fn model_folder(config: &MemoryConfig) -> Option<&Path> {
    let usual = config.usual.iter().find(|folder| folder.exists());
    config.model.as_ref().or(usual).map(PathBuf::as_path)
}

/// Checks that the files of an embedding model are in `folder`, without opening them.
///
/// # Errors
/// The missing file and the remedy.
pub fn check_model_files(folder: &Path) -> Result<(), String> {
    #[cfg(feature = "neural")]
    watchkeeper_memory::neural::look(folder).map_err(|error| error.to_string())?;
    #[cfg(not(feature = "neural"))]
    load(folder)?;
    Ok(())
}

/// Chooses the embedder of a configuration, and loads its model. Where `program` is given, its
/// subcommand [`CHECK_SUBCOMMAND`] must load the model first: a file can end a process.
pub fn choose_embedder(
    config: &MemoryConfig,
    program: Option<&Path>,
) -> (Arc<dyn Embedder>, EmbedderChoice) {
    let hashed = || Arc::new(HashedEmbedder::default());
    let Some(folder) = model_folder(config) else {
        return (hashed(), EmbedderChoice::Hashed);
    };
    let folder = folder.to_path_buf();
    let checked = program.map_or(Ok(()), |program| check(program, &folder));
    match checked.and_then(|()| load(&folder)) {
        Ok(model) => {
            let dimension = model.dimension();
            (model, EmbedderChoice::Model { folder, dimension })
        }
        Err(why) => (hashed(), EmbedderChoice::Refused { folder, why }),
    }
}

/// Loads the model in `folder` within limits of memory, and drops it: the body of the subcommand
/// [`CHECK_SUBCOMMAND`]. Limits this process, which must end afterwards.
///
/// # Errors
/// One sentence.
pub fn check_model(folder: &Path) -> Result<(), String> {
    model_check::limits::apply()?;
    load(folder).map(drop)
}

/// Has a child process load the model in `folder`.
fn check(program: &Path, folder: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command
        .arg0("watchkeeper")
        .arg(CHECK_SUBCOMMAND)
        .arg(folder);
    let network = || folder.join("model.onnx").display().to_string();
    // A stopping agent does not wait for this thread, and its end is the child's.
    match model_check::run(&mut command, &|| false) {
        Ok(Outcome::Loaded) => Ok(()),
        Ok(Outcome::Refused(why)) => Err(why),
        Ok(Outcome::Ended(ending)) => Err(format!("{}: {ending}", network())),
        Ok(Outcome::Interrupted(why)) => Err(format!("{}: {why}", network())),
        Err(error) => Err(format!(
            "{}: it can't be checked in a child process: {error}; {}",
            network(),
            model_check::start_remedy(&error)
        )),
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
    Err("this program was built without the feature that runs such models".to_owned())
}

/// Folder of the notes, below the assistant's folder.
const FOLDER: &str = "memory";

/// The notes in a folder. Clones share them.
#[derive(Debug, Clone)]
pub struct Notes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    config: MemoryConfig,
    /// Program that checks an embedding model; absent: none is checked.
    program: Option<PathBuf>,
    /// Starts the thread that loads the model; absent: the first use loads it.
    loading: Option<Once>,
    embedder: OnceLock<(Arc<dyn Embedder>, EmbedderChoice)>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    memory: Option<Memory>,
    /// Whether the memory was opened with the chosen embedder.
    has_chosen_embedder: bool,
    /// Whether the worker thread runs.
    is_embedding: bool,
}

impl Notes {
    /// The notes below `home`, the assistant's folder. Reads nothing yet.
    pub fn new(home: &Path, config: &MemoryConfig) -> Self {
        Self::with_program(home, config, None, None)
    }

    /// Like [`Self::new`], but this program, which is `watchkeeper`, loads an embedding model in a
    /// child process first.
    pub fn checked(home: &Path, config: &MemoryConfig) -> Self {
        Self::with_program(home, config, Some(THIS_PROGRAM.into()), None)
    }

    /// Like [`Self::checked`], but a thread checks and loads the model from the first use on.
    pub fn in_background(home: &Path, config: &MemoryConfig) -> Self {
        let loading = model_folder(config).map(|_| Once::new());
        Self::with_program(home, config, Some(THIS_PROGRAM.into()), loading)
    }

    fn with_program(
        home: &Path,
        config: &MemoryConfig,
        program: Option<PathBuf>,
        loading: Option<Once>,
    ) -> Self {
        Self(Arc::new(Shared {
            folder: home.join(FOLDER),
            config: config.clone(),
            program,
            loading,
            embedder: OnceLock::new(),
            state: Mutex::default(),
        }))
    }

    /// Whether the folder exists.
    pub fn exist(&self) -> bool {
        self.0.folder.is_dir()
    }

    /// Whether an embedding model is configured, which takes long to load.
    pub fn use_a_model(&self) -> bool {
        model_folder(&self.0.config).is_some()
    }

    /// Locks the notes, opens them on first use, and reads changed files.
    ///
    /// # Errors
    /// A sentence, if they can't be used.
    pub fn open(&self) -> Result<MemoryGuard<'_>, String> {
        let shared = &self.0;
        let folder = &shared.folder;
        let failed =
            |cause: String| format!("the notes in {} can't be used: {cause}", folder.display());
        let chosen = match &shared.loading {
            Some(loading) => {
                loading.call_once(|| load_in_background(shared));
                shared.embedder.get()
            }
            None => Some(shared.embedder()),
        };
        let mut state = shared.state.lock();
        make_private(folder).map_err(|e| failed(e.to_string()))?;
        let is_current = state.has_chosen_embedder || chosen.is_none();
        let opened = match state.memory.take().filter(|_| is_current) {
            Some(mut memory) => memory.refresh().map(|()| memory),
            None => {
                state.has_chosen_embedder = chosen.is_some();
                let hashed = || Arc::new(HashedEmbedder::default()) as Arc<dyn Embedder>;
                let embedder = chosen.map_or_else(hashed, |(embedder, _)| Arc::clone(embedder));
                Memory::open(folder, embedder)
            }
        };
        let memory = opened.map_err(|e| failed(e.to_string()))?;
        Ok(MemoryGuard {
            shared,
            state,
            memory: Some(memory),
        })
    }

    /// Does `work` with the opened notes on a blocking thread: other tasks wait neither for the
    /// disk nor for the lock. Dropping the future does not stop it.
    ///
    /// # Errors
    /// A sentence, if they can't be used; those of `work`.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Memory) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let notes = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let mut memory = notes.open()?;
            work(&mut memory)
        });
        done.await.unwrap_or_else(|died| Err(died.to_string()))
    }

    /// Saves a note; returns its file.
    ///
    /// # Errors
    /// A sentence, if it can't be saved.
    pub(crate) async fn remember(&self, entry: Entry) -> Result<PathBuf, String> {
        self.with(|memory| {
            let saved = memory.remember(wall_now(), entry);
            let file = saved.map_err(|e| e.to_string())?.file;
            Ok(memory.folder().join(file))
        })
        .await
    }

    /// What computes their embeddings; `None` until that is decided and its model is loaded.
    pub fn vectors(&self) -> Option<&EmbedderChoice> {
        self.0.embedder.get().map(|(_, vectors)| vectors)
    }

    /// A sentence about what computes their embeddings; loads nothing.
    pub(crate) fn describe_embedder(&self) -> String {
        match (self.vectors(), model_folder(&self.0.config)) {
            (Some(vectors), _) => vectors.sentence(),
            (None, None) => EmbedderChoice::Hashed.sentence(),
            (None, Some(folder)) => format!(
                "the embedding model in {} is loaded at the first search of notes; until then \
                 notes are searched by their words",
                folder.display()
            ),
        }
    }

    /// Number of notes that wait for embeddings; `None` while the notes are locked, and until they
    /// are opened with the chosen embedder.
    pub fn waiting(&self) -> Option<usize> {
        let state = self.0.state.try_lock()?;
        let memory = state.memory.as_ref().filter(|_| state.has_chosen_embedder);
        memory.map(Memory::waiting)
    }
}

impl Shared {
    fn embedder(&self) -> &(Arc<dyn Embedder>, EmbedderChoice) {
        self.embedder.get_or_init(|| {
            let (embedder, vectors) = choose_embedder(&self.config, self.program.as_deref());
            match &vectors {
                EmbedderChoice::Hashed => {}
                EmbedderChoice::Model { .. } => tracing::info!("memory: {}", vectors.sentence()),
                EmbedderChoice::Refused { .. } => tracing::warn!("memory: {}", vectors.sentence()),
            }
            (embedder, vectors)
        })
    }
}

/// Loads the model on a thread, then opens the notes with it, which embeds new ones.
fn load_in_background(shared: &Arc<Shared>) {
    let notes = Notes(Arc::clone(shared));
    let load = move || {
        notes.0.embedder();
        if let Err(why) = notes.open() {
            tracing::warn!(why, "memory: cannot open the notes with the model");
        }
    };
    let thread = std::thread::Builder::new().name(LOADER.to_owned());
    if let Err(error) = thread.spawn(load) {
        tracing::warn!(%error, "memory: cannot start the thread that loads the embedding model; \
            notes are searched without it until the next start");
    }
}

/// The locked memory.
#[derive(Debug)]
pub struct MemoryGuard<'n> {
    shared: &'n Arc<Shared>,
    state: MutexGuard<'n, State>,
    /// `Some` until dropped.
    memory: Option<Memory>,
}

impl Deref for MemoryGuard<'_> {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        self.memory.as_ref().expect("it is held")
    }
}

impl DerefMut for MemoryGuard<'_> {
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
                tracing::warn!(%error, "memory: cannot start the embedding worker; new notes are \
                    searched by words only")
            }
        }
    }
}

/// Computes the wanted embeddings, until none is left or the notes are dropped.
fn embed(shared: &Weak<Shared>) {
    let (began, mut read, mut failed) = (Instant::now(), 0_usize, 0_usize);
    while let Some(shared) = shared.upgrade() {
        let wanted = {
            let mut state = shared.state.lock();
            let memory = state.memory.as_mut();
            let wanted = memory
                .map(|memory| memory.wanted(BATCH))
                .unwrap_or_default();
            if wanted.is_empty() {
                // Under the lock: a note added after this starts another worker.
                state.is_embedding = false;
                let took = began.elapsed().as_secs_f64();
                tracing::info!(notes = read, failed, took, "memory: embedded new notes");
                return;
            }
            wanted
        };
        // Without its model the notes wait for no embedding.
        let Some((embedder, _)) = shared.embedder.get() else {
            shared.state.lock().is_embedding = false;
            return;
        };
        read += wanted.len();
        let begun = Instant::now();
        let made = wanted.into_iter().map(|wanted| {
            let vector = embedder.embed(wanted.text());
            if let Err(error) = &vector {
                failed += 1;
                // Logged once: the cause may affect every note.
                if failed == 1 {
                    tracing::warn!(%error, "memory: cannot embed notes; they are searched by \
                        words only");
                }
            }
            (wanted, vector.ok())
        });
        let made = made.collect();
        if let Some(memory) = shared.state.lock().memory.as_mut() {
            memory.learn(made);
        }
        drop(shared);
        std::thread::sleep(begun.elapsed());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
