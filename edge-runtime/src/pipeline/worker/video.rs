//! Pictures of a pipeline on their way to clips, the annotated video and the preview window.

use std::time::Duration;

use watchkeeper_engine::workflow::Pixels;
use watchkeeper_vision::frame::Frame;

use super::thread::WorkerThread;
use crate::media::video::VideoWriter;
use crate::pipeline::pixels::{fitted, to_image};
use crate::pipeline::recorder::Pictures;
use crate::pipeline::retention::recordings::Recording;

/// Frame rate of the annotated video of a source that reports none.
const DEFAULT_FPS: f64 = 25.0;

impl WorkerThread {
    /// Completes the clips that end at or before source time `at`.
    pub(super) fn finish_due_clips(&mut self, at: Duration) {
        if let Some(clips) = &mut self.clips {
            clips.finish_due(at);
        }
    }

    /// Completes all clips and the current part of the annotated video.
    pub(super) fn finish_clips_and_video(&mut self) {
        if let Some(clips) = &mut self.clips {
            clips.close();
        }
        self.finish_part();
        if let Some(clips) = &mut self.clips {
            clips.wait();
        }
    }

    /// Completes the current part of the annotated video if it has lasted long enough.
    pub(super) fn finish_old_part(&mut self) {
        if self.recording.as_ref().is_some_and(Recording::is_old) {
            self.finish_part();
        }
    }

    /// Completes the current part of the annotated video, if there is one.
    fn finish_part(&mut self) {
        let Some(video) = self.video.take() else {
            return;
        };
        match video.finish() {
            Ok(path) => {
                self.shared.video_parts.lock().push(path);
                if let Some(recording) = &mut self.recording {
                    recording.complete_part();
                }
            }
            Err(error) => self.pause_recording(format!("can't complete a part: {error}")),
        }
    }

    /// Writes a frame to the annotated video and shows it in the preview window.
    pub(super) fn draw(&mut self, frame: &Frame, pictures: &Pictures) {
        let clean: &dyn Pixels = &*pictures.clean;
        let picture = pictures.annotated.as_deref().unwrap_or(clean);
        self.begin_part(frame, picture.size());
        let is_shown = self.window.wants();
        if self.video.is_none() && !is_shown {
            return;
        }
        let rgb = picture.rgb();
        if let Some(video) = &mut self.video {
            let image = if video.size() == [rgb.width, rgb.height] {
                to_image(&rgb)
            } else {
                fitted(&rgb, video.size())
            };
            if let Err(error) = video.push(image, frame.pts) {
                self.video = None;
                self.pause_recording(error.to_string());
            }
        }
        if is_shown {
            self.window.show(&rgb);
        }
    }

    /// Begins a part for pictures of `size`, if a video is wanted and no fitting part is open.
    fn begin_part(&mut self, frame: &Frame, size: [u32; 2]) {
        let is_full = self.recording.as_mut().is_some_and(Recording::is_full);
        // A camera with a new resolution gets a new part; a recording stays one part.
        let is_other = !frame.recorded && self.video.as_ref().is_some_and(|v| v.size() != size);
        if is_full || is_other {
            self.finish_part();
        }
        self.finish_old_part();
        if self.video.is_some() {
            return;
        }
        let Some(path) = self.recording.as_mut().and_then(Recording::next_part) else {
            return;
        };
        match VideoWriter::create(&path, size, frame.fps.unwrap_or(DEFAULT_FPS)) {
            Ok(writer) => {
                if let Some(recording) = &mut self.recording {
                    recording.set_path(writer.path());
                }
                self.video = Some(writer);
            }
            Err(error) => self.pause_recording(error.to_string()),
        }
    }

    fn pause_recording(&mut self, why: String) {
        if let Some(recording) = &mut self.recording {
            recording.pause_after_error(why);
        }
    }
}
