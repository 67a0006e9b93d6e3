//! Clips: written elsewhere, stored and removed here.

use std::fs::{self, File};
use std::path::Path;

use watchkeeper_board::storage::{SpaceError, space};
use watchkeeper_contract::event::ClipState;

use super::error::{MediaError, io_at};
use super::index::{Form, MediaEntry, parse};
use super::{MediaStore, NewClip, remove};
use crate::journal::RetentionRank;
use crate::journal::chain::Hash;

/// Maximum bytes of one clip.
const MAX_CLIP_BYTES: u64 = 32 << 20;

/// One clip takes at most `1 / CLIP_SHARE` of the limit, so that it displaces few others.
const CLIP_SHARE: u64 = 4;

impl MediaStore {
    /// Maximum bytes of one clip.
    pub fn max_clip_bytes(&self) -> u64 {
        MAX_CLIP_BYTES.min(self.limits.max_bytes / CLIP_SHARE)
    }

    /// Whether a clip that is being written may grow: the disk has more than its minimum free.
    pub fn has_space_for_clips(&self) -> bool {
        space(&self.root).is_ok_and(|disk| disk.free > self.limits.min_free_bytes)
    }

    /// A new id for a clip of an event at `unix_ms`, and the path to write it to after
    /// [`Self::reserve_clip`]. It counts as being written until it is kept or discarded. Waits for
    /// no disk.
    pub fn new_clip(&self, unix_ms: i64) -> NewClip {
        let id = self.names.lock().reserve(unix_ms);
        let name = format!(".{id}.{}", Form::Mp4.extension());
        NewClip {
            id: id.to_string(),
            path: self.folder_of(id).join(name),
        }
    }

    /// Checks the disk and creates the folder of the clip.
    ///
    /// # Errors
    /// When the disk is full or refuses. The clip is to be discarded then.
    pub fn reserve_clip(&self, clip: &NewClip) -> Result<(), MediaError> {
        let free = space(&self.root)
            .map_err(|SpaceError { path, source }| MediaError::Io { path, source })?
            .free;
        if free <= self.limits.min_free_bytes {
            let path = self.root.clone();
            return Err(MediaError::Full { path, free });
        }
        let id = parse(&clip.id)?;
        // Under the lock, so that the folder is not removed as empty meanwhile.
        self.make_folder(&mut self.index(), id)
    }

    /// Stores the clip that was written at `written`; durable on return. Deletes other files if
    /// needed.
    ///
    /// # Errors
    /// When it is no clip, is too large, or the disk refuses. The file is removed then.
    pub fn keep_clip(
        &self,
        id: &str,
        rank: RetentionRank,
        written: &Path,
    ) -> Result<ClipState, MediaError> {
        let entry = self.store_clip(id, rank, written);
        if entry.is_err() {
            self.discard_clip(id, written);
        }
        entry
    }

    fn store_clip(
        &self,
        id: &str,
        rank: RetentionRank,
        written: &Path,
    ) -> Result<ClipState, MediaError> {
        let id = parse(id)?;
        let extension = written.extension().and_then(|e| e.to_str());
        let form = extension.and_then(Form::of);
        let form = form.ok_or_else(|| MediaError::NotFound { id: id.to_string() })?;
        let mut file = File::open(written).map_err(io_at(written))?;
        let bytes = file.metadata().map_err(io_at(written))?.len();
        // What is written between two size checks comes on top.
        let max = 2 * self.max_clip_bytes();
        if bytes > max {
            return Err(MediaError::TooLarge { bytes, max });
        }
        let sha256 = Hash::of_all(&mut file).map_err(io_at(written))?.to_string();
        file.sync_all().map_err(io_at(written))?;
        self.delete_for(bytes);
        let entry = MediaEntry {
            id,
            form,
            rank,
            bytes,
        };
        let path = self.path_of(&entry);
        fs::rename(written, &path).map_err(io_at(&path))?;
        let folder = self.folder_of(id);
        if let Err(error) = (self.sync_folder)(&folder) {
            // It is reported as lost, so the next start must not find it.
            remove(&path);
            return Err(io_at(&folder)(error));
        }
        self.index().insert(entry);
        self.names.lock().active.remove(&id);
        let content_type = form.content_type().to_owned();
        Ok(ClipState::Kept {
            content_type,
            bytes,
            sha256,
        })
    }

    /// Discards a clip and removes the file at `written`.
    pub fn discard_clip(&self, id: &str, written: &Path) {
        if let Ok(id) = parse(id) {
            self.names.lock().active.remove(&id);
        }
        remove(written);
    }

    /// The state of a clip that was being written when the last run ended. One that is found has a
    /// durable name.
    pub fn find_clip(&self, id: &str) -> Option<ClipState> {
        let entry = self.entry(id).ok()?;
        // The run may have ended between the move and the sync.
        self.make_folder(&mut self.index(), entry.id).ok()?;
        (self.sync_folder)(&self.folder_of(entry.id)).ok()?;
        let path = self.path_of(&entry);
        let sha256 = Hash::of_all(&mut File::open(path).ok()?).ok()?.to_string();
        Some(ClipState::Kept {
            content_type: entry.form.content_type().to_owned(),
            bytes: entry.bytes,
            sha256,
        })
    }
}
