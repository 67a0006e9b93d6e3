//! Engines on disk: `<engine_dir>/<key>.engine`, with the checksum of the engine in front.
//!
//! - The key names everything that decides the engine; see [`Subject`].
//! - A file is complete or missing: written beside its place, synced, renamed.
//! - A damaged file counts as missing, and is deleted.
//! - `<key>.refused` holds the sentence with which a build failed because of the file, so that a
//!   start does not repeat minutes of work. Deleting it has the engine built again. So does
//!   `<key>.crashed`, for [`CRASH_KEPT`].
//! - At most [`MAX_FILES`] engines and as many refusals are kept; the oldest are deleted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use watchkeeper_models::Sha256Sum;
use watchkeeper_models::replace::{replace, replace_bounded};

use super::probe::TrtFacts;
use crate::precision::Precision;

/// Files of an ending that are kept; more than a box has models, so that a change of versions is
/// bounded.
const MAX_FILES: usize = 32;

/// How long a crash is kept. A lack of memory may be its cause, which is not part of the key.
const CRASH_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Begins a file; the number of its format.
const MAGIC: &[u8; 8] = b"WKTRT 1\n";

/// Bytes of a checksum in hexadecimal digits.
const SUM_BYTES: usize = 64;

/// Characters of a key.
const KEY_LEN: usize = 32;

/// How types are decided: by the network; TF32 is allowed for float32, as by default. The number
/// rises with every change of how files are converted.
const TYPES: &str = "strongly typed, tf32, conversion 1";

/// Everything that an engine depends on.
pub(super) struct Subject<'a> {
    /// Checksum of the ONNX file.
    pub(super) network: Sha256Sum,
    pub(super) precision: Precision,
    pub(super) facts: &'a TrtFacts,
    /// The wanted inputs, which fix the shapes.
    pub(super) inputs: String,
    pub(super) level: i32,
}

impl Subject<'_> {
    pub(super) fn key(&self) -> String {
        let TrtFacts {
            version,
            device,
            capability,
            driver,
            memory: _,
        } = self.facts;
        let text = format!(
            "{version}\n{device}\n{capability}\n{driver}\n{TYPES}\n{}\n{}\n{}\n{}\n",
            self.precision.name(),
            self.network,
            self.inputs,
            self.level
        );
        let mut key = Sha256Sum::of(text.as_bytes()).to_string();
        key.truncate(KEY_LEN);
        key
    }
}

/// How long a refusal is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Always,
    /// For [`CRASH_KEPT`]; then the engine is built again.
    OneDay,
}

/// The folder of engines.
#[derive(Debug, Clone)]
pub(super) struct EngineCache {
    folder: PathBuf,
}

impl EngineCache {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    fn engine_file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.engine"))
    }

    fn refusal_file(&self, key: &str, kept: Kept) -> PathBuf {
        let ending = match kept {
            Kept::Always => "refused",
            Kept::OneDay => "crashed",
        };
        self.folder.join(format!("{key}.{ending}"))
    }

    /// Reads an engine; one that is damaged is deleted.
    pub(super) fn read(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.engine_file(key);
        let file = match fs::read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "engine unreadable; built again");
                return None;
            }
        };
        let engine = unwrap(&file).map(<[u8]>::to_vec);
        if engine.is_none() {
            self.remove(key, "it is damaged");
        }
        engine
    }

    /// Keeps an engine; durable on return.
    pub(super) fn write(&self, key: &str, engine: &[u8]) -> io::Result<()> {
        let sum = Sha256Sum::of(engine).to_string();
        self.keep(
            &self.engine_file(key),
            &[MAGIC.as_slice(), sum.as_bytes(), engine],
        )
    }

    /// Writes a file, durable on return, and removes what it replaces.
    fn keep(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        replace_bounded(path, parts, MAX_FILES)
    }

    /// Deletes an engine that can't be used.
    pub(super) fn remove(&self, key: &str, why: &str) {
        let path = self.engine_file(key);
        tracing::warn!(path = %path.display(), why, "engine deleted; it is built again");
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "an engine can't be deleted");
        }
    }

    /// Returns the sentence with which a build failed, and how to have it repeated.
    pub(super) fn refusal(&self, key: &str) -> Option<String> {
        let crash = self.refusal_file(key, Kept::OneDay);
        let written = fs::metadata(&crash).and_then(|file| file.modified());
        let age = written.map(|at| SystemTime::now().duration_since(at));
        let (path, again) = match age {
            Ok(Ok(age)) if age < CRASH_KEPT => (crash, "to have it built before a day is over"),
            _ => (
                self.refusal_file(key, Kept::Always),
                "to have it built again",
            ),
        };
        let sentence = fs::read_to_string(&path).ok()?;
        let sentence = sentence.lines().next()?;
        Some(format!("{sentence}; {again}, delete {}", path.display()))
    }

    /// Keeps the sentence with which a build failed.
    pub(super) fn refuse(&self, key: &str, kept: Kept, sentence: &str) {
        if let Err(error) = self.keep(&self.refusal_file(key, kept), &[sentence.as_bytes()]) {
            tracing::warn!(%error, "a refusal can't be kept; the next start builds it again");
        }
    }

    /// Reads the timing cache of earlier builds; empty if there is none.
    pub(super) fn timings(&self) -> Vec<u8> {
        fs::read(self.folder.join("timing.cache")).unwrap_or_default()
    }

    pub(super) fn write_timings(&self, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        replace(&self.folder.join("timing.cache"), &[bytes])
    }
}

/// Keeps the engines of the folder `from` in the folder `to`; a missing one has none.
pub(crate) fn adopt_engines(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let (from, to) = (EngineCache::new(from), EngineCache::new(to));
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if let Some(key) = name.strip_suffix(".engine")
            && let Some(engine) = from.read(key)
        {
            to.write(key, &engine)?;
        }
    }
    Ok(())
}

/// The engine in a file, if its checksum is right.
fn unwrap(file: &[u8]) -> Option<&[u8]> {
    let rest = file.strip_prefix(MAGIC)?;
    let (sum, engine) = rest.split_at_checked(SUM_BYTES)?;
    (Sha256Sum::of(engine).to_string().as_bytes() == sum).then_some(engine)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use proptest::prelude::*;

    use super::*;

    fn facts() -> TrtFacts {
        TrtFacts {
            version: "10.3.0".to_owned(),
            device: "Orin".to_owned(),
            capability: "8.7".to_owned(),
            driver: "540.4.0".to_owned(),
            memory: 8 << 30,
        }
    }

    fn key(facts: &TrtFacts, network: &[u8], inputs: &str, level: i32) -> String {
        let subject = Subject {
            network: Sha256Sum::of(network),
            precision: Precision::Fp16,
            facts,
            inputs: inputs.to_owned(),
            level,
        };
        subject.key()
    }

    #[test]
    fn everything_that_decides_an_engine_changes_its_key() {
        let here = facts();
        let same = key(&here, b"net", "1x3", 3);
        let (mut version, mut device, mut capability) = (facts(), facts(), facts());
        let mut driver = facts();
        driver.driver = "540.5.0".to_owned();
        version.version = "10.16.2".to_owned();
        device.device = "Orin Nano".to_owned();
        capability.capability = "8.9".to_owned();
        let others = [
            key(&version, b"net", "1x3", 3),
            key(&device, b"net", "1x3", 3),
            key(&capability, b"net", "1x3", 3),
            key(&driver, b"net", "1x3", 3),
            key(&here, b"other", "1x3", 3),
            key(&here, b"net", "1x4", 3),
            key(&here, b"net", "1x3", 4),
        ];
        assert_eq!(same, key(&here, b"net", "1x3", 3));
        let fp32 = Subject {
            network: Sha256Sum::of(b"net"),
            precision: Precision::Fp32,
            facts: &here,
            inputs: "1x3".to_owned(),
            level: 3,
        };
        assert_ne!(same, fp32.key());
        assert!(others.iter().all(|other| *other != same));
        // Free memory differs from day to day.
        let memory = TrtFacts { memory: 1, ..here };
        assert_eq!(same, key(&memory, b"net", "1x3", 3));
    }

    #[test]
    fn oldest_engines_are_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = EngineCache::new(folder.path());
        for n in 0..MAX_FILES + 3 {
            cache.write(&format!("{n:03}"), b"engine").expect("written");
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64);
            let file = File::options()
                .write(true)
                .open(cache.engine_file(&format!("{n:03}")));
            file.and_then(|file| file.set_modified(at))
                .expect("its time");
        }
        assert_eq!(
            fs::read_dir(folder.path()).expect("a folder").count(),
            MAX_FILES
        );
        assert_eq!(cache.read("000"), None);
        assert!(cache.read("034").is_some());
    }

    #[test]
    fn engine_is_kept_although_an_old_one_can_not_be_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = EngineCache::new(folder.path());
        let stuck = cache.engine_file("000");
        fs::create_dir(&stuck).expect("something in the way");
        let second = cache.engine_file("001");
        for n in 1..=MAX_FILES {
            fs::write(cache.engine_file(&format!("{n:03}")), b"old").expect("written");
        }
        for (path, second) in [(&stuck, 1), (&second, 2)] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let file = File::open(path).and_then(|file| file.set_modified(at));
            file.expect("its time");
        }
        cache.write("new", b"engine").expect("written");
        assert_eq!(cache.read("new"), Some(b"engine".to_vec()));
        assert!(stuck.exists() && !second.exists());
    }

    #[test]
    fn engines_of_another_folder_are_kept_with_their_keys() {
        let (from, to) = (tempfile::tempdir(), tempfile::tempdir());
        let (from, to) = (from.expect("a folder"), to.expect("a folder"));
        let cache = EngineCache::new(from.path());
        cache.write("a", b"engine").expect("written");
        cache.write_timings(b"times").expect("written");
        cache.refuse("b", Kept::Always, "no such operator");
        adopt_engines(from.path(), to.path()).expect("adopted");
        let cache = EngineCache::new(to.path());
        assert_eq!(cache.read("a"), Some(b"engine".to_vec()));
        assert_eq!(fs::read_dir(to.path()).expect("a folder").count(), 1);
        adopt_engines(&from.path().join("none"), to.path()).expect("nothing to do");
    }

    #[test]
    fn refusals_are_bounded_and_half_written_files_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = EngineCache::new(folder.path());
        let (old, new) = (
            folder.path().join(".a.engine.1.tmp"),
            folder.path().join(".b.engine.2.tmp"),
        );
        for path in [&old, &new] {
            fs::write(path, "half").expect("written");
        }
        let file = File::options().write(true).open(&old).expect("opened");
        file.set_modified(SystemTime::now() - CRASH_KEPT)
            .expect("its time");
        for n in 0..MAX_FILES + 3 {
            cache.refuse(&n.to_string(), Kept::Always, "no such operator");
        }
        assert!(!old.exists() && new.exists());
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, MAX_FILES + 1);
    }

    #[test]
    fn refusal_lasts_until_its_file_is_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = EngineCache::new(folder.path());
        assert_eq!(cache.refusal("k"), None);
        cache.refuse("k", Kept::Always, "no such operator");
        let said = cache.refusal("k").expect("a sentence");
        let path = said.strip_prefix("no such operator; to have it built again, delete ");
        fs::remove_file(path.expect("a path")).expect("deleted");
        assert_eq!(cache.refusal("k"), None);
    }

    #[test]
    fn crash_is_kept_for_a_day() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = EngineCache::new(folder.path());
        cache.refuse("k", Kept::OneDay, "it crashes");
        let said = cache.refusal("k").expect("a sentence");
        let path = said.strip_prefix("it crashes; to have it built before a day is over, delete ");
        let file = File::options().write(true).open(path.expect("a path"));
        let at = SystemTime::now() - CRASH_KEPT;
        file.and_then(|file| file.set_modified(at))
            .expect("its time");
        assert_eq!(cache.refusal("k"), None);
    }

    proptest! {
        #[test]
        fn damaged_engine_counts_as_missing(
            engine in prop::collection::vec(any::<u8>(), 1..200), at in any::<prop::sample::Index>(),
            bit in 0_u8..8, cut in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let cache = EngineCache::new(folder.path());
            cache.write("k", &engine).expect("written");
            prop_assert_eq!(cache.read("k"), Some(engine));
            let path = cache.engine_file("k");
            let mut file = fs::read(&path).expect("read");
            let at = at.index(file.len());
            match cut {
                true => file.truncate(at),
                false => file[at] ^= 1 << bit,
            }
            fs::write(&path, file).expect("damaged");
            prop_assert_eq!(cache.read("k"), None);
            prop_assert!(!path.exists());
        }
    }
}
