//! The network that serves while its back end changes.
//!
//! - A candidate takes over between two frames, because every run holds the network's lock.
//! - No frame is lost: one on which the candidate fails is run again on the former back end.
//! - The former network is dropped at the change, on the task's thread; it is loaded again from its
//!   file when the candidate fails. So a change never holds two networks for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::golden::GoldenFrame;
use super::link::{Link, Signal};
use crate::backend_in_use::BackendInUse;
use crate::network::{Feed, LoadError, Network, Tensor};

/// Pause between two tries to load the former back end again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Loads the network of the back end that served first.
pub type Reload = Box<dyn FnMut() -> Result<Box<dyn Network>, LoadError> + Send>;

/// A network whose back end may change between two runs.
pub struct ChangingNetwork {
    current: Box<dyn Network>,
    in_use: BackendInUse,
    link: Arc<Link>,
    reload: Reload,
    /// Whether a candidate serves.
    has_swapped: bool,
    /// When the former back end may be loaded again.
    retry_at: Option<Instant>,
}

impl ChangingNetwork {
    /// Serves with `network`; `reload` loads it again.
    pub(super) fn new(network: Box<dyn Network>, reload: Reload, link: Arc<Link>) -> Self {
        Self {
            in_use: network.in_use(),
            current: network,
            link,
            reload,
            has_swapped: false,
            retry_at: None,
        }
    }

    fn take_over(&mut self) {
        let Some(candidate) = self.link.take_agreed() else {
            return;
        };
        let former = self.replace(candidate);
        self.has_swapped = true;
        self.link.signal(Signal::TookOver(former));
    }

    fn replace(&mut self, network: Box<dyn Network>) -> Box<dyn Network> {
        self.in_use.set(network.backend(), network.provider());
        std::mem::replace(&mut self.current, network)
    }

    /// Runs the frame on which the candidate failed on the former back end, and goes back to it if
    /// that works. A frame that neither can run is the frame's fault.
    fn go_back(
        &mut self,
        why: String,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        let now = Instant::now();
        if self.retry_at.is_some_and(|at| now < at) {
            return Err(why);
        }
        self.retry_at = Some(now + RETRY_INTERVAL);
        let mut former = (self.reload)().map_err(|error| format!("{why}; {error}"))?;
        if former.infer(inputs, read).is_err() {
            return Err(why);
        }
        let candidate = self.replace(former);
        self.has_swapped = false;
        self.link.signal(Signal::WentBack(why, candidate));
        Ok(())
    }
}

impl Network for ChangingNetwork {
    fn backend(&self) -> &'static str {
        self.current.backend()
    }

    fn provider(&self) -> Option<&'static str> {
        self.current.provider()
    }

    fn tensor_copies(&self) -> Option<u32> {
        self.current.tensor_copies()
    }

    fn in_use(&self) -> BackendInUse {
        self.in_use.clone()
    }

    fn infer(
        &mut self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        self.take_over();
        if !self.link.wants_golden() {
            return match self.current.infer(inputs, read) {
                Err(why) if self.has_swapped => self.go_back(why, inputs, read),
                done => done,
            };
        }
        let mut golden = None;
        self.current.infer(inputs, &mut |outputs| {
            read(outputs);
            golden = Some(GoldenFrame::copy(inputs, outputs));
        })?;
        if let Some(golden) = golden {
            self.link.put_golden(golden);
        }
        Ok(())
    }
}

impl Drop for ChangingNetwork {
    fn drop(&mut self) {
        self.link.close();
    }
}
