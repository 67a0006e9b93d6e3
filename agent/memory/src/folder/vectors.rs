//! Stored vectors of slow embedders: `.vectors/NAME.vec`, one file per
//! [`Embedder::kept_as`](crate::Embedder::kept_as).
//!
//! - A cache: it may be deleted at any time, and damaged records are skipped.
//! - A vector belongs to one text and one model.
//! - At most [`MAX_VECTORS`]; records without a note are dropped once they are more than half.
//! - Format: a head, then records of one length: key of the text, scale, dimensions, checksum.
//! - Records are appended under a lock and only a torn end is overwritten, so readers need no lock.
//! - Records are not synced: a crash loses the last ones, and flash is spared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::search::{Key, Signature};

/// Maximum vectors of a file: 1.5 times the notes that the limits of files allow.
const MAX_VECTORS: usize = 150_000;
/// Number of records without a note below which the file is not rewritten.
const REWRITE_SLACK: usize = 1_000;

const FOLDER: &str = ".vectors";
const LOCK: &str = "lock";
const ENDING: &str = "vec";
const MAGIC: &[u8; 8] = b"WKVEC\0\0\x01";
const HEAD: usize = 20;
const SUM: usize = 8;

/// Vector file of one embedder.
#[derive(Debug)]
pub(super) struct Vectors {
    folder: PathBuf,
    path: PathBuf,
    dimension: usize,
    /// Open for reading; `None` without a file.
    file: Option<File>,
    /// Number of the record of each text.
    records: BTreeMap<Key, u64>,
    /// Number of records read, damaged and duplicate ones included.
    read: u64,
    damaged: u64,
    /// A failure has been logged.
    has_warned: bool,
}

impl Vectors {
    /// Opens the file of an embedder below `folder`; `None` for an invalid name.
    pub(super) fn open(folder: &Path, name: &str, dimension: usize) -> Option<Self> {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !(1..=64).contains(&name.len()) || !name.bytes().all(fits) {
            tracing::warn!(name, "memory: invalid name, vectors are not stored");
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
            has_warned: false,
        };
        vectors.refresh();
        if vectors.damaged > 0 {
            let (file, damaged) = (vectors.path.display(), vectors.damaged);
            tracing::warn!(%file, damaged, "memory: damaged vectors, computing them again");
        }
        Some(vectors)
    }

    /// Reads the vector of a text.
    pub(super) fn get(&self, key: Key) -> Option<Signature> {
        let mut record = vec![0; self.record()];
        let at = self.offset(*self.records.get(&key)?);
        self.file.as_ref()?.read_exact_at(&mut record, at).ok()?;
        let (found, signature) = parse(&record)?;
        (found == key).then_some(signature)
    }

    /// Reads what another process has added; returns whether there were new records.
    pub(super) fn refresh(&mut self) -> bool {
        let before = self.records.len();
        if let Err(error) = self.read_new_records() {
            self.warn(&error);
        }
        self.records.len() > before
    }

    /// Appends vectors. `notes` is the number of notes, `live` are the keys of their texts.
    ///
    /// A failure is logged; the vectors are computed again after the next start.
    pub(super) fn add(
        &mut self,
        vectors: &BTreeMap<Key, Option<Signature>>,
        notes: usize,
        live: impl FnOnce() -> BTreeSet<Key>,
    ) {
        if let Err(error) = self.append(vectors, notes, live) {
            self.warn(&error);
        }
    }

    fn append(
        &mut self,
        vectors: &BTreeMap<Key, Option<Signature>>,
        notes: usize,
        live: impl FnOnce() -> BTreeSet<Key>,
    ) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join(LOCK))?;
        lock.lock()?;
        self.read_new_records()?;
        let new = vectors.iter().filter_map(|(key, vector)| {
            let vector = vector.as_ref()?;
            let is_new = !self.records.contains_key(key) && vector.dimension() == self.dimension;
            is_new.then(|| (*key, vector.clone()))
        });
        let mut new: Vec<(Key, Signature)> = new.collect();
        let read = usize::try_from(self.read).unwrap_or(usize::MAX);
        if read > 2 * notes + REWRITE_SLACK || read + new.len() > MAX_VECTORS {
            let live = live();
            let used = self.records.keys().filter(|key| live.contains(key)).count();
            if read > used + REWRITE_SLACK {
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
        file.write_all_at(&bytes, self.offset(self.read))?;
        self.read_new_records()
    }

    /// Rewrites the file with its records of `live` and with `new`, and removes files of other
    /// models.
    fn rewrite(&mut self, live: &BTreeSet<Key>, new: Vec<(Key, Signature)>) -> io::Result<()> {
        let temporary = self.path.with_extension("tmp");
        let mut file = io::BufWriter::new(File::create(&temporary)?);
        file.write_all(&head(self.dimension))?;
        let mut bytes = Vec::new();
        let old = live.iter().filter_map(|key| Some((*key, self.get(*key)?)));
        for (key, signature) in old.chain(new).take(MAX_VECTORS) {
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
        self.read_new_records()
    }

    /// Reads the records that were appended, or all records of a replaced file.
    fn read_new_records(&mut self) -> io::Result<()> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.clear();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let open = self.file.as_ref().map(File::metadata).transpose()?;
        let is_same = open.is_some_and(|open| (open.dev(), open.ino()) == (meta.dev(), meta.ino()));
        // Another program truncated a file that has shrunk.
        if !is_same || meta.len() < self.offset(self.read) {
            self.clear();
            let mut start = [0; HEAD];
            let read = file.read_exact_at(&mut start, 0);
            if read.is_err() || start != head(self.dimension) {
                self.damaged += 1;
                return Ok(());
            }
        }
        let size = self.record() as u64;
        let count = (meta.len().saturating_sub(HEAD as u64) / size).min(MAX_VECTORS as u64);
        let mut reader = BufReader::with_capacity(64 << 10, &file);
        io::Seek::seek(&mut reader, io::SeekFrom::Start(self.offset(self.read)))?;
        let mut record = vec![0; self.record()];
        for number in self.read..count {
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

    fn clear(&mut self) {
        self.file = None;
        self.records.clear();
        self.read = 0;
        self.damaged = 0;
    }

    fn warn(&mut self, error: &io::Error) {
        if !self.has_warned {
            self.has_warned = true;
            let file = self.path.display();
            tracing::warn!(%file, %error, "memory: can't store vectors, computing them at each start");
        }
    }

    /// Length of a record in bytes.
    fn record(&self) -> usize {
        16 + 4 + self.dimension + SUM
    }

    /// Offset of a record in bytes.
    fn offset(&self, number: u64) -> u64 {
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

/// Parses key and vector of a record; `None` if it is damaged.
fn parse(record: &[u8]) -> Option<(Key, Signature)> {
    let (data, sum) = record.split_last_chunk::<SUM>()?;
    if xxh3_64(data) != u64::from_le_bytes(*sum) {
        return None;
    }
    let (key, rest) = data.split_first_chunk::<16>()?;
    let (scale, places) = rest.split_first_chunk::<4>()?;
    let signature = Signature::stored(f32::from_le_bytes(*scale), places)?;
    Some((Key(u128::from_le_bytes(*key)), signature))
}
