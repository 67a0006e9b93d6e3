//! The demo scene as a source.

use std::time::Duration;

use watchkeeper_config::demo::DemoOptions;
use watchkeeper_demo::Renderer;

use super::feed::{Feed, Raw, Step};

/// Plays the demo scene.
pub(super) struct DemoFeed {
    renderer: Renderer,
    next: u32,
}

impl DemoFeed {
    pub(super) fn new(options: &DemoOptions) -> Self {
        Self {
            renderer: Renderer::new(options),
            next: 0,
        }
    }
}

impl Feed for DemoFeed {
    fn next(&mut self, _wait: Duration) -> Step {
        let options = self.renderer.options();
        if self.next >= options.frames() {
            return Step::End;
        }
        let pts = Duration::from_secs_f64(f64::from(self.next) / options.fps);
        let fps = Some(options.fps);
        let picture = self.renderer.frame(self.next);
        self.next += 1;
        Step::Picture(Raw {
            picture: picture.into(),
            pts: Some(pts),
            fps,
            is_damaged: false,
        })
    }

    fn is_recording(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_has_as_many_frames_as_its_options_say() {
        let options = DemoOptions::parse("?seconds=2&width=160&height=90").expect("valid options");
        let mut feed = DemoFeed::new(&options);
        let mut frames = 0;
        while let Step::Picture(raw) = feed.next(Duration::ZERO) {
            assert_eq!(raw.picture.picture().width, 160);
            frames += 1;
        }
        assert_eq!(frames, 30);
    }
}
