//! Retention of annotated videos, and deletion of old media on a full disk.

pub mod disk_space;
pub mod recordings;
