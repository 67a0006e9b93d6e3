//! Annotated videos: RGB pictures to an MP4 or WebM file.
//!
//! - Memory is bounded: [`VideoWriter::push`] waits while the encoder is behind.
//! - The only file that is written is the requested one.
//! - It can be played after [`VideoWriter::finish`]; after a crash, up to its last seconds.
//! - Dropping an unfinished writer finishes the file, and logs a failure.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::{GObjectExtManualGst, ObjectExt};
use image::RgbImage;

use super::sink::{Sink, init, make, missing_element};

pub use super::sink::SinkError as VideoError;
use crate::clock::ProcessorSum;

/// Timeout of writing the last pictures.
pub const FINISH_TIMEOUT: Duration = Duration::from_secs(30);

/// Milliseconds of video that a crash may cost. Fragments begin with a key frame, so it is more if
/// those are rare.
const FRAGMENT_MS: u32 = 1000;

/// An encoder with its settings, parser, container and file extension.
struct EncoderChoice {
    encoder: &'static str,
    settings: &'static [(&'static str, &'static str)],
    parser: Option<&'static str>,
    container: &'static str,
    extension: &'static str,
}

/// Encoders in order of preference.
const CHOICES: [EncoderChoice; 4] = [
    EncoderChoice {
        encoder: "x264enc",
        settings: &[
            ("speed-preset", "veryfast"),
            ("pass", "qual"),
            ("quantizer", "23"),
            ("threads", "1"),
            ("key-int-max", "50"),
        ],
        parser: Some("h264parse"),
        container: "mp4mux",
        extension: "mp4",
    },
    EncoderChoice {
        encoder: "openh264enc",
        settings: &[("bitrate", "4000000"), ("complexity", "low")],
        parser: Some("h264parse"),
        container: "mp4mux",
        extension: "mp4",
    },
    EncoderChoice {
        encoder: "vp8enc",
        settings: &[
            ("deadline", "1"),
            ("cpu-used", "8"),
            ("target-bitrate", "4000000"),
        ],
        parser: None,
        container: "webmmux",
        extension: "webm",
    },
    EncoderChoice {
        encoder: "avenc_mpeg4",
        settings: &[("bitrate", "6000000")],
        parser: None,
        container: "mp4mux",
        extension: "mp4",
    },
];

/// Whether [`VideoWriter`] writes files with this extension.
pub fn is_extension(extension: &str) -> bool {
    CHOICES.iter().any(|choice| choice.extension == extension)
}

/// Writer of one video file.
#[derive(Debug)]
pub struct VideoWriter {
    sink: Sink,
    /// Size of the pictures; the video's is rounded up ([`coded_size`]).
    size: [u32; 2],
    path: PathBuf,
    interval: Duration,
    finished: bool,
}

impl VideoWriter {
    /// Creates the file.
    ///
    /// The extension follows the installed encoder: without one for MP4 the file is named `.webm`;
    /// see [`Self::path`].
    ///
    /// # Errors
    /// [`VideoError`]; names the package if no encoder is installed.
    pub fn create(path: &Path, size: [u32; 2], fps: f64) -> Result<Self, VideoError> {
        init()?;
        let installed = |name: &str| gst::ElementFactory::find(name).is_some();
        let wanted = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        let complete = |c: &&EncoderChoice| {
            installed(c.encoder) && installed(c.container) && c.parser.is_none_or(installed)
        };
        let choice = CHOICES
            .iter()
            .filter(complete)
            // `min_by_key` returns the first of equals, `max_by_key` the last.
            .min_by_key(|c| wanted == "webm" && c.extension != wanted)
            .ok_or_else(|| missing_element("x264enc"))?;
        Self::with(choice, path, size, fps)
    }

    fn with(
        choice: &EncoderChoice,
        path: &Path,
        size: [u32; 2],
        fps: f64,
    ) -> Result<Self, VideoError> {
        let fps = if (0.1..=240.0).contains(&fps) {
            fps
        } else {
            25.0
        };
        let path = path.with_extension(choice.extension);
        let encoder = make(choice.encoder)?;
        for (name, value) in choice.settings {
            if encoder.find_property(name).is_some() {
                encoder.set_property_from_str(name, value);
            }
        }
        let mut rest = Vec::new();
        if choice.encoder != "avenc_mpeg4" {
            // Players on phones and in browsers support only 4:2:0.
            let filter = make("capsfilter")?;
            let caps = gst::Caps::builder("video/x-raw")
                .field("format", "I420")
                .build();
            filter.set_property("caps", caps);
            rest.push(filter);
        }
        rest.push(encoder);
        if let Some(parser) = choice.parser {
            rest.push(make(parser)?);
        }
        let container = make(choice.container)?;
        write_fragments(&container);
        rest.push(container);
        let file = make("filesink")?;
        file.set_property("location", &path);
        rest.push(file);
        let sink = Sink::open(coded_size(size), fps, &rest, false, "writing the video")?;
        Ok(Self {
            sink,
            size,
            path,
            interval: Duration::from_secs_f64(1.0 / fps),
            finished: false,
        })
    }

    /// Returns the path of the video.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the width and height that every picture must have.
    pub fn size(&self) -> [u32; 2] {
        self.size
    }

    /// Adds the processor time of the pipeline's threads to `sum` when they end.
    pub fn add_time_to(&self, sum: Arc<ProcessorSum>) {
        self.sink.add_time_to(sum);
    }

    /// Appends a picture that is shown from `pts` on; times must grow. Waits while the encoder is
    /// behind.
    ///
    /// # Errors
    /// [`VideoError`]; the file is then unusable.
    pub fn push(&mut self, picture: RgbImage, pts: Duration) -> Result<(), VideoError> {
        let (got, expected) = ([picture.width(), picture.height()], self.size);
        if got != expected {
            return Err(VideoError::Size { got, expected });
        }
        self.sink
            .push(pad_to_coded_size(picture), pts, self.interval)
    }

    /// Writes the rest of the video and closes the file.
    ///
    /// # Errors
    /// [`VideoError`] if the file could not be completed.
    pub fn finish(mut self) -> Result<PathBuf, VideoError> {
        self.finished = true;
        self.sink.finish(FINISH_TIMEOUT)?;
        Ok(self.path.clone())
    }
}

/// Makes an MP4 muxer write fragments that become a plain file in the end: after a crash the file
/// can be played. (`faststart` would first collect everything in the system's temporary folder,
/// where its size is not seen.)
pub(super) fn write_fragments(container: &gst::Element) {
    if container.find_property("fragment-mode").is_some() {
        container.set_property_from_str("fragment-mode", "first-moov-then-finalise");
        container.set_property("fragment-duration", FRAGMENT_MS);
    }
}

/// Returns the size of the video: even, because chroma has half the resolution, and at least one
/// block.
fn coded_size(size: [u32; 2]) -> [u32; 2] {
    size.map(|side| side.max(16).next_multiple_of(2))
}

/// Pads a picture to the size of the video by repeating its last row and column.
fn pad_to_coded_size(picture: RgbImage) -> RgbImage {
    let (width, height) = picture.dimensions();
    let [w, h] = coded_size([width, height]);
    if [w, h] == [width, height] || width == 0 || height == 0 {
        return picture;
    }
    RgbImage::from_fn(w, h, |x, y| {
        *picture.get_pixel(x.min(width - 1), y.min(height - 1))
    })
}

impl Drop for VideoWriter {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = self.sink.finish(FINISH_TIMEOUT)
        {
            tracing::warn!(path = %self.path.display(), %error, "video not completed");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
pub(crate) mod tests {
    use watchkeeper_contract::id::SourceId;
    use watchkeeper_contract::source::SourceSpec;

    use super::*;
    use crate::capture::check::{NEEDS, elements};
    use crate::capture::mailbox::Recv;
    use crate::capture::source::{Deps, Source};

    fn moving(n: u32) -> RgbImage {
        RgbImage::from_fn(162, 90, |x, y| {
            image::Rgb([
                (x + n * 4) as u8,
                (y * 2) as u8,
                if x / 16 == n % 10 { 255 } else { 40 },
            ])
        })
    }

    /// Returns the frames and the size of a video, read back through capture.
    pub(crate) fn read_back(path: &Path) -> (usize, Option<[u32; 2]>) {
        let spec = SourceSpec::new(SourceId::new("back").unwrap(), path.display().to_string());
        let handle = Source::spawn(spec, Deps::default());
        let receiver = handle.subscribe();
        let mut frames = 0;
        while let Recv::Frame(_) = receiver.recv(Duration::from_secs(20)) {
            frames += 1;
        }
        (frames, handle.status().size)
    }

    #[test]
    fn every_encoder_is_in_the_element_check() {
        let mut needs = NEEDS.iter();
        let videos = needs.find(|need| need.what == "annotated videos").unwrap();
        for choice in &CHOICES {
            let parts = [Some(choice.encoder), choice.parser, Some(choice.container)];
            let known = videos.alternatives.iter().any(|alternative| {
                let elements: Vec<&str> = elements(alternative).collect();
                parts.iter().flatten().all(|part| elements.contains(part))
            });
            assert!(known, "{}", choice.encoder);
        }
        assert_eq!(videos.alternatives.len(), CHOICES.len());
    }

    #[test]
    fn video_of_every_installed_encoder_reads_back_whole() {
        init().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for choice in &CHOICES {
            if gst::ElementFactory::find(choice.encoder).is_none() {
                continue;
            }
            let path = folder.path().join(choice.encoder);
            let mut writer = VideoWriter::with(choice, &path, [162, 90], 10.0).unwrap();
            for n in 0..25 {
                let pts = Duration::from_millis(u64::from(n) * 100);
                writer.push(moving(n), pts).unwrap();
            }
            let path = writer.finish().unwrap();
            assert_eq!(
                read_back(&path),
                (25, Some([162, 90])),
                "{}",
                choice.encoder
            );
        }
    }

    #[test]
    fn pictures_of_odd_and_tiny_sizes_are_padded() {
        let folder = tempfile::tempdir().unwrap();
        for (size, coded) in [
            ([161, 90], [162, 90]),
            ([160, 91], [160, 92]),
            ([641, 361], [642, 362]),
            ([1, 1], [16, 16]),
        ] {
            let path = folder.path().join(format!("{size:?}.mp4"));
            let mut writer = VideoWriter::create(&path, size, 10.0).unwrap();
            for n in 0..3 {
                let picture = RgbImage::from_pixel(size[0], size[1], image::Rgb([n as u8, 0, 9]));
                writer
                    .push(picture, Duration::from_millis(n * 100))
                    .unwrap();
            }
            let path = writer.finish().unwrap();
            assert_eq!(read_back(&path), (3, Some(coded)), "{size:?}");
        }
    }

    #[test]
    fn video_of_a_crashed_writer_plays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mp4");
        let mut writer = VideoWriter::create(&path, [162, 90], 25.0).unwrap();
        let path = writer.path().to_owned();
        let mut n = 0;
        // The encoder holds pictures back, so the first fragments are late.
        while n < 250 || std::fs::metadata(&path).map_or(0, |m| m.len()) < 20_000 {
            assert!(n < 5000, "nothing is written");
            let pts = Duration::from_millis(u64::from(n) * 40);
            writer.push(moving(n), pts).unwrap();
            n += 1;
        }
        let crashed = folder.path().join("crashed.mp4");
        std::fs::copy(&path, &crashed).unwrap();
        writer.finish().unwrap();
        assert_eq!(read_back(&path).0, n as usize);
        assert!(read_back(&crashed).0 > 0);
    }

    #[test]
    fn time_of_the_encoder_is_known_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer =
            VideoWriter::create(&folder.path().join("a.mp4"), [162, 90], 10.0).unwrap();
        let sum = Arc::new(ProcessorSum::default());
        writer.add_time_to(Arc::clone(&sum));
        for n in 0..20 {
            let pts = Duration::from_millis(u64::from(n) * 100);
            writer.push(moving(n), pts).unwrap();
        }
        writer.finish().unwrap();
        assert!(sum.get() > Duration::ZERO);
    }

    #[test]
    fn missing_folder_is_an_error() {
        let path = Path::new("/nowhere/at/all/out.mp4");
        let result = VideoWriter::create(path, [64, 64], 10.0).and_then(|mut writer| {
            for n in 0..50 {
                writer.push(RgbImage::new(64, 64), Duration::from_millis(n * 100))?;
            }
            writer.finish()
        });
        assert!(result.is_err());
    }

    #[test]
    fn picture_of_another_size_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = VideoWriter::create(&folder.path().join("a.mp4"), [64, 64], 10.0).unwrap();
        let error = writer
            .push(RgbImage::new(32, 64), Duration::ZERO)
            .unwrap_err();
        assert!(matches!(error, VideoError::Size { .. }), "{error}");
    }
}
