//! The database's file as it is, with every write kept in memory.
//!
//! Opening a database writes: it repairs what a killed run left, and marks itself as open. Over
//! this backend that needs no disk, and changes nothing on it.
//!
//! - The file is never written, and may be missing.
//! - Memory holds the written pages only: those of the repair.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// Bytes of a page in memory.
const PAGE: usize = 4096;

#[derive(Debug)]
pub(crate) struct Overlay {
    file: Option<File>,
    state: Mutex<State>,
    has_ended: Arc<AtomicBool>,
}

/// Ends all access to an [`Overlay`] when it is dropped.
#[derive(Debug)]
pub(crate) struct EndSwitch(Arc<AtomicBool>);

impl Drop for EndSwitch {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct State {
    len: u64,
    /// Bytes of the file that still count; a shorter length cuts them off for good.
    visible: u64,
    written: BTreeMap<u64, Box<[u8; PAGE]>>,
}

impl Overlay {
    /// Makes a backend over `file`; without one it begins empty.
    pub(crate) fn new(file: Option<File>) -> io::Result<Self> {
        let len = match &file {
            Some(file) => file.metadata()?.len(),
            None => 0,
        };
        Ok(Self {
            file,
            state: Mutex::new(State {
                len,
                visible: len,
                written: BTreeMap::new(),
            }),
            has_ended: Arc::default(),
        })
    }

    /// Returns a switch that ends all access. Closing a database reads pages and panics over those
    /// of another state, and the file may have changed by then.
    pub(crate) fn end_switch(&self) -> EndSwitch {
        EndSwitch(Arc::clone(&self.has_ended))
    }

    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        if self.has_ended.load(Ordering::Relaxed) {
            return Err(io::Error::other("the records in memory are no longer used"));
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads one page: the written one, else that of the file, with zeros after its end.
    fn page(&self, state: &State, number: u64) -> io::Result<Box<[u8; PAGE]>> {
        if let Some(page) = state.written.get(&number) {
            return Ok(page.clone());
        }
        let mut page = Box::new([0; PAGE]);
        let at = number.saturating_mul(PAGE as u64);
        let in_file = state.visible.saturating_sub(at).min(PAGE as u64);
        let in_file = usize::try_from(in_file).unwrap_or(PAGE);
        if let (Some(file), Some(part)) = (&self.file, page.get_mut(..in_file)) {
            file.read_exact_at(part, at)?;
        }
        Ok(page)
    }
}

/// The parts of a range in pages: number of the page, first byte in it, and length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset.checked_add(done as u64)?;
        let begin = usize::try_from(at % PAGE as u64).unwrap_or(0);
        let part = (length - done).min(PAGE - begin);
        done += part;
        (part > 0).then_some((at / PAGE as u64, begin, part))
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state()?;
        let end = offset.saturating_add(out.len() as u64);
        if end > state.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = out;
        for (number, begin, length) in parts(offset, rest.len()) {
            let page = self.page(&state, number)?;
            let (part, behind) = rest.split_at_mut(length);
            part.copy_from_slice(&page[begin..begin + length]);
            rest = behind;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state()?;
        let (last, tail) = (len / PAGE as u64, len % PAGE as u64);
        if len < state.len && tail > 0 {
            let mut page = self.page(&state, last)?;
            page[usize::try_from(tail).unwrap_or(0)..].fill(0);
            state.written.insert(last, page);
        }
        state.visible = state.visible.min(len);
        state.written.split_off(&len.div_ceil(PAGE as u64));
        state.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        let mut rest = data;
        for (number, begin, length) in parts(offset, data.len()) {
            let mut page = self.page(&state, number)?;
            let (part, behind) = rest.split_at(length);
            page[begin..begin + length].copy_from_slice(part);
            state.written.insert(number, page);
            rest = behind;
        }
        state.len = state.len.max(offset.saturating_add(data.len() as u64));
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain vector of bytes.
        #[test]
        fn overlay_reads_like_a_changed_file_and_leaves_the_file_alone(
            before in proptest::collection::vec(any::<u8>(), 0..10_000),
            ops in proptest::collection::vec((0..3u8, 0..12_000usize, 0..6_000usize, any::<u8>()), 1..20),
        ) {
            let path = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(path.path(), &before).unwrap();
            let overlay = Overlay::new(Some(File::open(path.path()).unwrap())).unwrap();
            let mut model = before.clone();
            for (kind, at, length, byte) in ops {
                if kind == 0 {
                    overlay.set_len(at as u64).unwrap();
                    model.resize(at, 0);
                } else {
                    overlay.write(at as u64, &vec![byte; length]).unwrap();
                    if length > 0 {
                        model.resize(model.len().max(at + length), 0);
                        model[at..at + length].fill(byte);
                    } else {
                        model.resize(model.len().max(at), 0);
                    }
                }
                let mut seen = vec![1; model.len()];
                prop_assert_eq!(overlay.len().unwrap(), model.len() as u64);
                overlay.read(0, &mut seen).unwrap();
                prop_assert!(seen == model);
            }
            prop_assert!(overlay.read(model.len() as u64, &mut [0]).is_err());
            prop_assert_eq!(std::fs::read(path.path()).unwrap(), before);
        }
    }
}
