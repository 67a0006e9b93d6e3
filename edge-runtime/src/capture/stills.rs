//! A picture, or a folder of pictures in the order of their names.
//!
//! - Pictures are read one at a time.
//! - Files with another extension are skipped. One of a folder that can't be read is left out and
//!   reported; a single one, or a folder of nothing else, breaks the feed.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use watchkeeper_config::bounded;
use watchkeeper_contract::source::LossCause;
use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::picture_file;

use super::feed::{Feed, FeedError, Raw, Step};

/// Interval of a folder's pictures: ten a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// Whether the extension is that of a supported picture format.
pub(super) fn is_picture(path: &Path) -> bool {
    path.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| ["jpg", "jpeg", "png", "webp"].contains(&e.to_ascii_lowercase().as_str()))
}

/// Refuses an animated picture, which GStreamer shows in part or not at all.
pub(super) fn refuse_gif(path: &Path, mut file: File) -> Result<(), FeedError> {
    let mut head = [0; 4];
    // A shorter file is reported by what reads it.
    if file.read_exact(&mut head).is_err() || head != *b"GIF8" {
        return Ok(());
    }
    Err(FeedError {
        cause: LossCause::Codec,
        message: format!(
            "{} is a GIF, which is no video; convert it to MP4 first",
            path.display()
        ),
        is_retryable: false,
    })
}

/// Pictures that are shown one after the other.
pub(super) struct Stills {
    files: std::vec::IntoIter<PathBuf>,
    shown: u32,
}

impl Stills {
    /// Lists the pictures at `path`, a file or a folder.
    pub(super) fn open(path: &Path) -> Result<Self, FeedError> {
        let files = if path.is_dir() {
            let entries = std::fs::read_dir(path)
                .and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>())
                .map_err(|e| super::cause::from_path(path, &e))?;
            let mut files: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
            files.retain(|file| is_picture(file));
            files.sort();
            files
        } else {
            vec![path.to_owned()]
        };
        if files.is_empty() {
            return Err(FeedError {
                cause: LossCause::NotFound,
                message: format!(
                    "folder {} holds no picture; put .jpg, .png or .webp files there",
                    path.display()
                ),
                is_retryable: false,
            });
        }
        Ok(Self {
            files: files.into_iter(),
            shown: 0,
        })
    }
}

impl Feed for Stills {
    fn next(&mut self, _wait: Duration) -> Step {
        let Some(path) = self.files.next() else {
            return Step::End;
        };
        match read(&path) {
            Ok(picture) => {
                let pts = INTERVAL.saturating_mul(self.shown);
                self.shown = self.shown.saturating_add(1);
                Step::Picture(Raw {
                    picture: picture.into(),
                    pts: Some(pts),
                    fps: Some(1.0 / INTERVAL.as_secs_f64()),
                    is_damaged: false,
                })
            }
            // No file of the folder is a picture.
            Err(broken) if self.shown == 0 && self.files.len() == 0 => Step::Broken(broken),
            Err(broken) => Step::LeftOut(broken),
        }
    }

    fn is_recording(&self) -> bool {
        true
    }
}

fn read(path: &Path) -> Result<Picture, FeedError> {
    let file = bounded::read_up_to(path, picture_file::MAX_FILE_BYTES)
        .map_err(|e| super::cause::from_path(path, &e))?;
    let picture = picture_file::decode(&file).map_err(|e| FeedError {
        cause: LossCause::Codec,
        message: format!("picture {} can't be read: {e}", path.display()),
        is_retryable: false,
    })?;
    Ok(picture.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;

    fn drain(path: &Path) -> (Vec<(u32, Duration)>, Step) {
        let mut stills = Stills::open(path).unwrap();
        let mut seen = Vec::new();
        loop {
            match stills.next(Duration::ZERO) {
                Step::Picture(raw) => seen.push((raw.picture.picture().width, raw.pts.unwrap())),
                other => return (seen, other),
            }
        }
    }

    #[test]
    fn folder_is_played_by_name_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        for (name, width) in [("b.png", 2), ("a.jpg", 1), ("c.PNG", 3)] {
            let format = image::ImageFormat::from_path(name).unwrap();
            image::RgbImage::new(width, 4)
                .save_with_format(folder.path().join(name), format)
                .unwrap();
        }
        std::fs::write(folder.path().join("notes.txt"), "no picture").unwrap();
        let (seen, end) = drain(folder.path());
        let ms = Duration::from_millis;
        assert_eq!(seen, [(1, ms(0)), (2, ms(100)), (3, ms(200))]);
        assert!(matches!(end, Step::End));
    }

    #[test]
    fn text_file_named_as_a_picture_fails_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        std::fs::write(&path, "no picture").unwrap();
        let (_, end) = drain(&path);
        let Step::Broken(broken) = end else {
            panic!("{end:?}");
        };
        assert_eq!(broken.cause, LossCause::Codec);
        assert!(broken.message.contains("a.png"), "{}", broken.message);
    }

    #[test]
    fn unreadable_picture_of_a_folder_is_left_out_and_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.png"), "no picture").unwrap();
        image::RgbImage::new(2, 4)
            .save(folder.path().join("b.png"))
            .unwrap();
        std::fs::write(folder.path().join("c.png"), "no picture").unwrap();
        let mut stills = Stills::open(folder.path()).unwrap();
        for name in ["a.png", "", "c.png"] {
            match stills.next(Duration::ZERO) {
                Step::LeftOut(why) => assert!(!name.is_empty() && why.message.contains(name)),
                Step::Picture(raw) => assert_eq!((name, raw.pts), ("", Some(Duration::ZERO))),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(stills.next(Duration::ZERO), Step::End));
        std::fs::remove_file(folder.path().join("b.png")).unwrap();
        let mut stills = Stills::open(folder.path()).unwrap();
        assert!(matches!(stills.next(Duration::ZERO), Step::LeftOut(_)));
        assert!(matches!(stills.next(Duration::ZERO), Step::Broken(_)));
    }

    #[test]
    fn picture_beyond_a_bound_fails_with_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        image::RgbImage::new(16_385, 1).save(&path).unwrap();
        let (_, end) = drain(&path);
        let Step::Broken(broken) = end else {
            panic!("{end:?}");
        };
        let told = "a picture of 16385x1 has a side of more than 16384 pixels; scale it down";
        assert!(broken.message.ends_with(told), "{}", broken.message);
        assert_eq!(broken.cause, LossCause::Codec);
    }

    #[test]
    fn empty_folder_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let broken = Stills::open(folder.path()).err().unwrap();
        assert!(broken.message.contains(".jpg"), "{}", broken.message);
    }
}
