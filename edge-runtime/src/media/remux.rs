//! Packets of a camera's stream to an MP4 file, without decoding or encoding.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::ObjectExt;

use super::sink::{Sink, clock_time, init, make};
use super::video::{FINISH_TIMEOUT, VideoError, write_fragments};
use crate::capture::packets::Packet;

/// Writer of one file.
#[derive(Debug)]
pub struct RemuxWriter {
    sink: Sink,
    path: PathBuf,
    /// Time of the stream at which the file begins.
    began: Duration,
}

impl RemuxWriter {
    /// Creates the file, which begins with `first`.
    ///
    /// # Errors
    /// [`VideoError`]; names the package if an element is not installed.
    pub fn create(path: &Path, first: &Packet) -> Result<Self, VideoError> {
        const WHAT: &str = "writing the stream";
        init()?;
        let broken = |message: String| VideoError::Broken {
            what: WHAT,
            message,
        };
        let caps: gst::Caps = first
            .format
            .parse()
            .map_err(|_| broken("unknown format".to_owned()))?;
        let is_h265 = caps
            .structure(0)
            .is_some_and(|s| s.name() == "video/x-h265");
        let parser = make(if is_h265 { "h265parse" } else { "h264parse" })?;
        let container = make("mp4mux")?;
        write_fragments(&container);
        let file = make("filesink")?;
        file.set_property("location", path);
        let sink = Sink::start(&caps, [0, 0], &[parser, container, file], WHAT)?;
        Ok(Self {
            sink,
            path: path.to_owned(),
            began: first.dts,
        })
    }

    /// Appends a packet; may wait for the disk.
    ///
    /// # Errors
    /// [`VideoError`]; the file is then unusable.
    pub fn push(&mut self, packet: &Packet) -> Result<(), VideoError> {
        let mut buffer = gst::Buffer::from_slice(packet.data.clone());
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(clock_time(packet.pts.saturating_sub(self.began)));
            buffer.set_dts(clock_time(packet.dts.saturating_sub(self.began)));
            if !packet.is_key {
                buffer.set_flags(gst::BufferFlags::DELTA_UNIT);
            }
        }
        self.sink.push_buffer(buffer)
    }

    /// Closes the file and returns its path.
    ///
    /// # Errors
    /// [`VideoError`] if the file could not be completed.
    pub fn finish(self) -> Result<PathBuf, VideoError> {
        self.sink.finish(FINISH_TIMEOUT)?;
        Ok(self.path)
    }
}
