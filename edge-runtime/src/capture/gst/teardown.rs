//! The teardown of pipelines.
//!
//! - Elements may deadlock in their own teardown, as `rtspsrc` of GStreamer 1.22 does at the end of
//!   a stream. So a teardown has a thread and a timeout. One that hangs is left behind and counted
//!   until it ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::ElementExt;

/// Timeout of a teardown; shorter than the one of closing a source, whose thread waits for it.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Hanging teardowns from which on only a new process helps. Each keeps some threads and about ten
/// file descriptors, of which a process has 1024 by default.
const MAX_HANGING: usize = 32;

static HANGING: AtomicUsize = AtomicUsize::new(0);

/// Number of stopped pipelines whose teardown hangs.
pub fn hanging_teardowns() -> usize {
    HANGING.load(Ordering::Relaxed)
}

/// A sentence about this many hanging teardowns, if there are any.
pub fn teardown_trouble(hanging: usize) -> Option<String> {
    (hanging > 0).then(|| {
        format!(
            "stopped GStreamer pipelines that hang: {hanging}; they keep threads and memory until \
             the runtime restarts, by itself at {MAX_HANGING}; the log names the cameras that were \
             lost; update GStreamer if it repeats"
        )
    })
}

/// Why the process must end with this many hanging teardowns, if it must.
pub fn teardown_failure(hanging: usize) -> Option<String> {
    (hanging >= MAX_HANGING)
        .then(|| format!("{hanging} stopped GStreamer pipelines hang in their teardown"))
}

/// Stops a pipeline. One that hangs longer than [`STOP_TIMEOUT`] is logged and left behind.
pub fn tear_down(pipeline: &gst::Pipeline) {
    if !stop(pipeline, STOP_TIMEOUT) {
        tracing::error!("a GStreamer pipeline does not stop; its threads are left behind");
    }
}

/// Stops a pipeline; false if it has not stopped after `timeout`.
fn stop(pipeline: &gst::Pipeline, timeout: Duration) -> bool {
    stop_on(Builder::new(), pipeline, timeout)
}

fn stop_on(thread: Builder, pipeline: &gst::Pipeline, timeout: Duration) -> bool {
    // Without a buffer, so that an end after the timeout is an error of the sender.
    let (done, stopped) = mpsc::sync_channel(0);
    let of_thread = pipeline.clone();
    let stop = move || {
        set_null(&of_thread);
        if done.send(()).is_err() {
            HANGING.fetch_sub(1, Ordering::Relaxed);
        }
    };
    if let Err(error) = thread.name("gst-stop".to_owned()).spawn(stop) {
        tracing::warn!(%error, "no thread for the teardown of a pipeline; waiting for it");
        set_null(pipeline);
        return true;
    }
    let is_stopped = stopped.recv_timeout(timeout).is_ok();
    if !is_stopped {
        HANGING.fetch_add(1, Ordering::Relaxed);
    }
    is_stopped
}

fn set_null(pipeline: &gst::Pipeline) {
    if pipeline.set_state(gst::State::Null).is_err() {
        tracing::debug!("pipeline did not stop cleanly");
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use gstreamer::prelude::{Cast, ElementExtManual};

    use super::*;
    use crate::capture::source::CLOSE_TIMEOUT;

    fn start(text: &str) -> gst::Pipeline {
        gst::init().unwrap();
        let pipeline = gst::parse::launch(text).unwrap();
        let pipeline = pipeline.downcast::<gst::Pipeline>().unwrap();
        pipeline.set_state(gst::State::Playing).unwrap();
        pipeline
    }

    #[test]
    fn hanging_pipeline_is_left_and_counted_until_it_ends() {
        // Its streaming thread sleeps with each buffer.
        let slow = start("fakesrc ! identity sleep-time=2000000 ! fakesink sync=false");
        std::thread::sleep(Duration::from_millis(200));
        assert!(!stop(&slow, Duration::from_millis(50)));
        assert_eq!(hanging_teardowns(), 1);
        assert!(stop(&start("fakesrc ! fakesink"), STOP_TIMEOUT));
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while hanging_teardowns() > 0 && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(hanging_teardowns(), 0);
    }

    #[test]
    fn pipeline_stops_without_a_thread_too() {
        let running = start("fakesrc ! fakesink");
        // More than any address space.
        let refused = Builder::new().stack_size(1 << 60);
        assert!(stop_on(refused, &running, Duration::ZERO));
        assert_eq!(running.current_state(), gst::State::Null);
    }

    #[test]
    fn hanging_teardowns_are_reported_and_too_many_end_process() {
        assert_eq!((teardown_trouble(0), teardown_failure(0)), (None, None));
        assert!(teardown_trouble(1).unwrap().contains("hang: 1;"));
        assert_eq!(teardown_failure(MAX_HANGING - 1), None);
        assert!(teardown_failure(MAX_HANGING).is_some());
    }

    #[test]
    fn teardown_ends_before_closing_gives_up() {
        assert!(STOP_TIMEOUT < CLOSE_TIMEOUT);
    }
}
