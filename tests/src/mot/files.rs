//! Files of a tracking sequence.
//!
//! - `seqinfo.json`: `fps`; optionally `set` (the group), `frames`, `width`, `height`. Without
//!   `frames` the last bounding box decides.
//! - `det.txt`: `frame,-1,x,y,w,h,score,…`, frames from 1, pixels.
//! - `gt.txt`: `frame,id,x,y,w,h,consider,class,visibility`. Class 1 is a target where `consider`
//!   is 1; 2, 7, 8 and 12 are distractors, 0 is an unlabelled region.
//! - Results: `frame,id,x,y,w,h,1,-1,-1,-1`.
//!
//! Frames are in order; an invalid file gives an error with file, line and field.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use watchkeeper_vision::geometry::BBox;

/// Most frames of a sequence: a day at 30 frames a second.
const MAX_FRAMES: usize = 24 * 3600 * 30;

/// Contents of `seqinfo.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Info {
    /// Group whose sequences are scored together.
    #[serde(default = "all")]
    pub set: String,
    pub fps: f64,
    /// Number of frames. If the file has none, reading the sequence sets it to the last frame with
    /// a box.
    #[serde(default)]
    pub frames: usize,
    /// Width of the picture in pixels; 0 if unknown. Tracking does not use it.
    #[serde(default)]
    pub width: u32,
    /// Height of the picture in pixels; 0 if unknown.
    #[serde(default)]
    pub height: u32,
}

/// Group of sequences that name none.
fn all() -> String {
    "all".to_owned()
}

/// Detection with its bounding box in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    pub bbox: BBox,
    /// Confidence of the detector.
    pub score: f64,
}

/// Labelled bounding box of the ground truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truth {
    /// Identity over the sequence.
    pub id: i64,
    /// Bounding box in pixels.
    pub bbox: BBox,
    /// Whether the box counts as a target.
    pub consider: bool,
    /// Class id of `MOTChallenge`.
    pub class: i64,
}

/// Bounding box that a tracker returned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tracked {
    /// Identity over the sequence.
    pub id: i64,
    /// Bounding box in pixels.
    pub bbox: BBox,
}

/// One value of type `T` for each box, by frame.
pub type Frames<T> = Vec<Vec<T>>;

/// Sequence with its detections.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Name of the folder.
    pub name: String,
    pub info: Info,
    /// Detections of each frame.
    pub found: Frames<Found>,
}

impl Sequence {
    /// Reads the sequence in `folder`.
    ///
    /// # Errors
    /// If a file is missing or invalid.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.file_name().context("a folder without a name")?;
        let mut info = read_info(folder)?;
        let found = by_frame(&folder.join("det.txt"), info.frames, |fields| {
            Ok(Found {
                bbox: bbox(fields)?,
                score: number(fields, 6, "score")?,
            })
        })?;
        info.frames = found.len();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            info,
            found,
        })
    }

    /// Reads every folder below `folder` that holds a `det.txt`, sorted by name. Each has its own
    /// result.
    ///
    /// # Errors
    /// If `folder` can't be read or holds no sequence.
    pub fn read_all(folder: &Path) -> anyhow::Result<Vec<anyhow::Result<Self>>> {
        let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let mut folders: Vec<_> = entries
            .filter_map(|e| Some(e.ok()?.path()))
            .filter(|p| p.join("det.txt").is_file())
            .collect();
        folders.sort();
        ensure!(
            !folders.is_empty(),
            "{}: no folder in it holds a det.txt",
            folder.display()
        );
        Ok(folders.iter().map(|f| Self::read(f)).collect())
    }
}

/// Reads `gt.txt` of the sequence in `folder`.
///
/// # Errors
/// As [`Sequence::read`].
pub fn read_truth(folder: &Path, frames: usize) -> anyhow::Result<Frames<Truth>> {
    by_frame(&folder.join("gt.txt"), frames, |fields| {
        Ok(Truth {
            id: whole(fields, 1, "id")?,
            bbox: bbox(fields)?,
            consider: number(fields, 6, "consider")? != 0.0,
            class: whole(fields, 7, "class")?,
        })
    })
}

/// Reads the results of a tracker.
///
/// # Errors
/// As [`Sequence::read`].
pub fn read_results(path: &Path, frames: usize) -> anyhow::Result<Frames<Tracked>> {
    by_frame(path, frames, |fields| {
        Ok(Tracked {
            id: whole(fields, 1, "id")?,
            bbox: bbox(fields)?,
        })
    })
}

/// Formats the results of a tracker, with hundredths of pixels.
pub fn results_text(frames: &Frames<Tracked>) -> String {
    let mut out = String::new();
    for (frame, boxes) in frames.iter().enumerate() {
        for Tracked { id, bbox } in boxes {
            let (w, h) = (bbox.width(), bbox.height());
            // Writing to a string can't fail.
            _ = writeln!(
                out,
                "{},{id},{:.2},{:.2},{w:.2},{h:.2},1,-1,-1,-1",
                frame + 1,
                bbox.x1,
                bbox.y1
            );
        }
    }
    out
}

fn read_info(folder: &Path) -> anyhow::Result<Info> {
    let path = folder.join("seqinfo.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let info: Info = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    ensure!(
        info.frames <= MAX_FRAMES,
        "{}: frames is {}, allowed are up to {MAX_FRAMES}",
        path.display(),
        info.frames
    );
    Ok(info)
}

fn by_frame<T>(
    path: &Path,
    frames: usize,
    read: impl Fn(&[&str]) -> anyhow::Result<T>,
) -> anyhow::Result<Frames<T>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    // Without a frame count in `seqinfo.json`, the last box decides.
    let most = if frames == 0 { MAX_FRAMES } else { frames };
    let mut out: Frames<T> = (0..frames).map(|_| Vec::new()).collect();
    for (n, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("{}:{}", path.display(), n + 1);
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let frame = whole(&fields, 0, "frame").with_context(place)?;
        let at = frame.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        if let Some(at) = at.filter(|at| *at < most && *at >= out.len()) {
            out.resize_with(at + 1, Vec::new);
        }
        let slot = at.and_then(|at| out.get_mut(at));
        let Some(slot) = slot else {
            bail!(
                "{}: frame is {frame}, allowed are 1 to {most} (seqinfo.json)",
                place()
            );
        };
        slot.push(read(&fields).with_context(place)?);
    }
    Ok(out)
}

fn number(fields: &[&str], at: usize, name: &str) -> anyhow::Result<f64> {
    let text = fields
        .get(at)
        .with_context(|| format!("no field {} ({name})", at + 1))?;
    let value: f64 = text
        .parse()
        .with_context(|| format!("{name} is {text:?}, a number is wanted"))?;
    ensure!(
        value.is_finite(),
        "{name} is {text}, a finite number is wanted"
    );
    Ok(value)
}

fn whole(fields: &[&str], at: usize, name: &str) -> anyhow::Result<i64> {
    let value = number(fields, at, name)?;
    // Some tools write whole numbers as 1.0. Saturates beyond the range.
    Ok(value as i64)
}

fn bbox(fields: &[&str]) -> anyhow::Result<BBox> {
    let (x, y) = (number(fields, 2, "x")?, number(fields, 3, "y")?);
    let (w, h) = (number(fields, 4, "w")?, number(fields, 5, "h")?);
    Ok(BBox::new(x, y, x + w, y + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(det: &str) -> anyhow::Result<Sequence> {
        let room = tempfile::tempdir()?;
        let info =
            r#"{"set":"MOT17","fps":30.0,"frames":2,"width":640,"height":480,"detector":"any"}"#;
        std::fs::write(room.path().join("seqinfo.json"), info)?;
        std::fs::write(room.path().join("det.txt"), det)?;
        Sequence::read(room.path())
    }

    #[test]
    fn sequence_keeps_frames_without_boxes() -> anyhow::Result<()> {
        let s = sequence("2,-1,10,20,30,40,0.5,-1,-1,-1\n")?;
        assert_eq!(s.found.len(), 2);
        assert_eq!(s.found[0], []);
        assert_eq!(s.found[1][0].bbox, BBox::new(10.0, 20.0, 40.0, 60.0));
        Ok(())
    }

    #[test]
    fn sequence_info_needs_only_the_frame_rate() -> anyhow::Result<()> {
        let room = tempfile::tempdir()?;
        std::fs::write(room.path().join("seqinfo.json"), r#"{"fps": 25}"#)?;
        std::fs::write(room.path().join("det.txt"), "3,-1,10,20,30,40,0.5\n")?;
        let s = Sequence::read(room.path())?;
        assert_eq!((s.info.frames, s.found.len()), (3, 3));
        assert_eq!(s.info.set, "all");
        Ok(())
    }

    #[test]
    fn sequence_error_names_line_field_and_allowed_values() {
        for (det, wanted) in [
            (
                "3,-1,10,20,30,40,0.5",
                "det.txt:1: frame is 3, allowed are 1 to 2",
            ),
            (
                "1,-1,10,20,wide,40,0.5",
                "w is \"wide\", a number is wanted",
            ),
            (
                "1,-1,10,20,inf,40,0.5",
                "w is inf, a finite number is wanted",
            ),
            ("1,-1,10,20,30,40", "no field 7 (score)"),
        ] {
            let said = sequence(det).map_or_else(|e| format!("{e:#}"), |_| String::new());
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn tracker_results_survive_write_and_read() -> anyhow::Result<()> {
        let bbox = BBox::new(1.25, 2.5, 11.25, 22.75);
        let written = vec![vec![], vec![Tracked { id: 3, bbox }]];
        let room = tempfile::NamedTempFile::new()?;
        std::fs::write(room.path(), results_text(&written))?;
        assert_eq!(read_results(room.path(), 2)?, written);
        Ok(())
    }
}
