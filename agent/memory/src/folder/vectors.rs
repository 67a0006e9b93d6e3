//! Vectors on the disk, for embedders that take long: `.vectors/NAME.vec` beside the notes, one file for each [`Embedder::kept_as`](crate::Embedder::kept_as).
//!
//! Invariants:
//! - nothing depends on it: it can be deleted at any time, what is damaged in it is left out, and either costs the time to make those vectors again;
//! - a vector is only ever used for the text and by the model that it was made for;
//! - it never has more than [`MAX_VECTORS`], and what no note says any more goes when it is more than half.
//!
//! A head, then records of one length: the key of the text, the scale, the places, a checksum over these. Records are added at the end under a lock and nothing is
//! written over but a torn end, so a reader needs no lock. They are not synced: a crash loses the last ones, and flash is spared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::search::{Key, Signature};

/// Most vectors of a file: half more than the notes that are kept of themselves.
const MAX_VECTORS: usize = 150_000;
/// Records without a note that are not worth writing the file anew for.
const SLACK: usize = 1_000;

const FOLDER: &str = ".vectors";
const LOCK: &str = "lock";
const ENDING: &str = "vec";
const MAGIC: &[u8; 8] = b"WKVEC\0\0\x01";
const HEAD: usize = 20;
const SUM: usize = 8;

/// The file of one embedder.
#[derive(Debug)]
pub(super) struct Vectors {
    folder: PathBuf,
    path: PathBuf,
    dimension: usize,
    /// Open for reading; none while there is no file.
    file: Option<File>,
    /// Which record holds the vector of a text.
    records: BTreeMap<Key, u64>,
    /// Records that were looked at, those that are damaged or there twice with them.
    read: u64,
    damaged: u64,
    /// Whether it was said already that it can't be used.
    told: bool,
}

impl Vectors {
    /// Those below `folder` that the embedder of this name made; what can't be read is made anew.
    pub(super) fn open(folder: &Path, name: &str, dimension: usize) -> Option<Self> {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !(1..=64).contains(&name.len()) || !name.bytes().all(fits) {
            tracing::warn!(name, "memory: vectors are not kept under this name");
            return None;
        }
        let folder = folder.join(FOLDER);
        let mut vectors = Self {
            path: folder.join(format!("{name}.{ENDING}")),
            folder,
            dimension,
            file: None,
            records: BTreeMap::new(),
            read: 0,
            damaged: 0,
            told: false,
        };
        vectors.look();
        if vectors.damaged > 0 {
            let (file, damaged) = (vectors.path.display(), vectors.damaged);
            tracing::warn!(%file, damaged, "memory: vectors are damaged and are made anew");
        }
        Some(vectors)
    }

    /// The vector of a text.
    pub(super) fn get(&self, key: Key) -> Option<Signature> {
        let mut record = vec![0; self.record()];
        let at = self.place(*self.records.get(&key)?);
        self.file.as_ref()?.read_exact_at(&mut record, at).ok()?;
        let (found, signature) = parse(&record)?;
        (found == key).then_some(signature)
    }

    /// Takes in what another process has added. True when there was something.
    pub(super) fn look(&mut self) -> bool {
        let before = self.records.len();
        if let Err(error) = self.look_at_file() {
            self.failed(&error);
        }
        self.records.len() > before
    }

    /// Adds vectors; there are `notes` notes, whose texts have the keys `live`. What can't be kept is made again after the next start.
    pub(super) fn add(
        &mut self,
        made: &BTreeMap<Key, Option<Signature>>,
        notes: usize,
        live: impl FnOnce() -> BTreeSet<Key>,
    ) {
        if let Err(error) = self.append(made, notes, live) {
            self.failed(&error);
        }
    }

    fn append(
        &mut self,
        made: &BTreeMap<Key, Option<Signature>>,
        notes: usize,
        live: impl FnOnce() -> BTreeSet<Key>,
    ) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join(LOCK))?;
        lock.lock()?;
        self.look_at_file()?;
        let new = made.iter().filter_map(|(key, vector)| {
            let vector = vector.as_ref()?;
            let is_new = !self.records.contains_key(key) && vector.dimension() == self.dimension;
            is_new.then(|| (*key, vector.clone()))
        });
        let mut new: Vec<(Key, Signature)> = new.collect();
        let read = usize::try_from(self.read).unwrap_or(usize::MAX);
        if read > 2 * notes + SLACK || read + new.len() > MAX_VECTORS {
            let live = live();
            let kept = self.records.keys().filter(|key| live.contains(key)).count();
            if read > kept + SLACK {
                return self.rewrite(&live, new);
            }
        }
        new.truncate(MAX_VECTORS.saturating_sub(read));
        if self.file.is_none() {
            return self.rewrite(&BTreeSet::new(), new);
        }
        let mut bytes = Vec::new();
        for (key, signature) in &new {
            write(&mut bytes, *key, signature);
        }
        let file = OpenOptions::new().write(true).open(&self.path)?;
        file.write_all_at(&bytes, self.place(self.read))?;
        self.look_at_file()
    }

    /// Writes the file anew with `new` and those that it has of `live`. Those of other models go.
    fn rewrite(&mut self, live: &BTreeSet<Key>, new: Vec<(Key, Signature)>) -> io::Result<()> {
        let temporary = self.path.with_extension("tmp");
        let mut file = io::BufWriter::new(File::create(&temporary)?);
        file.write_all(&head(self.dimension))?;
        let mut bytes = Vec::new();
        let here = live.iter().filter_map(|key| Some((*key, self.get(*key)?)));
        for (key, signature) in here.chain(new).take(MAX_VECTORS) {
            bytes.clear();
            write(&mut bytes, key, &signature);
            file.write_all(&bytes)?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path != self.path && path.extension().is_some_and(|e| e == ENDING || e == "tmp") {
                fs::remove_file(&path)?;
            }
        }
        self.look_at_file()
    }

    /// Reads what was added since the last look, or all of a file that is another one.
    fn look_at_file(&mut self) -> io::Result<()> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other("it is no plain file"));
        }
        let known = self.file.as_ref().map(File::metadata).transpose()?;
        let same =
            known.is_some_and(|known| (known.dev(), known.ino()) == (meta.dev(), meta.ino()));
        // One that shrank was cut by somebody else.
        if !same || meta.len() < self.place(self.read) {
            self.forget();
            let mut begins = [0; HEAD];
            let whole = file.read_exact_at(&mut begins, 0);
            if whole.is_err() || begins != head(self.dimension) {
                self.damaged += 1;
                return Ok(());
            }
        }
        let size = self.record() as u64;
        let there = (meta.len().saturating_sub(HEAD as u64) / size).min(MAX_VECTORS as u64);
        let mut reader = BufReader::with_capacity(64 << 10, &file);
        io::Seek::seek(&mut reader, io::SeekFrom::Start(self.place(self.read)))?;
        let mut record = vec![0; self.record()];
        for number in self.read..there {
            reader.read_exact(&mut record)?;
            match parse(&record) {
                Some((key, _)) => {
                    self.records.insert(key, number);
                }
                None => self.damaged += 1,
            }
            self.read = number + 1;
        }
        drop(reader);
        self.file = Some(file);
        Ok(())
    }

    fn forget(&mut self) {
        self.file = None;
        self.records.clear();
        self.read = 0;
        self.damaged = 0;
    }

    fn failed(&mut self, error: &io::Error) {
        if !self.told {
            self.told = true;
            let file = self.path.display();
            tracing::warn!(%file, %error, "memory: vectors can't be kept, and are made again at each start");
        }
    }

    /// Length of a record, in bytes.
    fn record(&self) -> usize {
        16 + 4 + self.dimension + SUM
    }

    /// Where a record begins.
    fn place(&self, number: u64) -> u64 {
        HEAD as u64 + number.saturating_mul(self.record() as u64)
    }
}

fn head(dimension: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let (words, sum) = head.split_at_mut(HEAD - SUM);
    let (magic, places) = words.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    places.copy_from_slice(&u32::try_from(dimension).unwrap_or(u32::MAX).to_le_bytes());
    sum.copy_from_slice(&xxh3_64(words).to_le_bytes());
    head
}

fn write(bytes: &mut Vec<u8>, key: Key, signature: &Signature) {
    let begin = bytes.len();
    let (scale, places) = signature.parts();
    bytes.extend(key.0.to_le_bytes());
    bytes.extend(scale.to_le_bytes());
    bytes.extend(places);
    let sum = xxh3_64(bytes.get(begin..).unwrap_or_default());
    bytes.extend(sum.to_le_bytes());
}

/// The key and the vector of a record; none when it is damaged.
fn parse(record: &[u8]) -> Option<(Key, Signature)> {
    let (said, sum) = record.split_last_chunk::<SUM>()?;
    if xxh3_64(said) != u64::from_le_bytes(*sum) {
        return None;
    }
    let (key, rest) = said.split_first_chunk::<16>()?;
    let (scale, places) = rest.split_first_chunk::<4>()?;
    let signature = Signature::stored(f32::from_le_bytes(*scale), places)?;
    Some((Key(u128::from_le_bytes(*key)), signature))
}
