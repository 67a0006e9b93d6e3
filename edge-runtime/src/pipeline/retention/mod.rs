//! What gives way on a full disk, and how much of the annotated videos is kept.

pub mod disk_space;
pub mod recordings;
