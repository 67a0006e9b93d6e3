//! The network that serves while its back end changes.
//!
//! - A candidate takes over between two frames: every run holds the lock for reading.
//! - No frame is lost: one on which the candidate fails is run again on the former back end.
//! - The former network is dropped at the change, on the task's thread; it is loaded again from its
//!   file when the candidate fails. So a change never holds two networks for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use super::golden::GoldenFrame;
use super::link::{Link, Signal};
use crate::backend_in_use::BackendInUse;
use crate::network::{Feed, LoadError, Network, Tensor, WAIT_FOR_EACH_OTHER};

/// Pause between two tries to load the former back end again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Loads the network of the back end that served first.
pub type Reload = Box<dyn Fn() -> Result<Box<dyn Network>, LoadError> + Send + Sync>;

/// A network whose back end may change between two runs.
pub struct ChangingNetwork {
    serving: RwLock<Serving>,
    in_use: BackendInUse,
    link: Arc<Link>,
    reload: Reload,
}

struct Serving {
    current: Box<dyn Network>,
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
            serving: RwLock::new(Serving {
                current: network,
                has_swapped: false,
                retry_at: None,
            }),
            link,
            reload,
        }
    }

    fn take_over(&self) {
        if !self.link.has_agreed() {
            return;
        }
        let mut serving = self.serving.write();
        // Under the lock: `share` finds it in the link or as the serving network.
        let Some(candidate) = self.link.take_agreed() else {
            return;
        };
        let former = self.replace(&mut serving, candidate);
        serving.has_swapped = true;
        drop(serving);
        self.link.signal(Signal::TookOver(former));
    }

    fn replace(&self, serving: &mut Serving, network: Box<dyn Network>) -> Box<dyn Network> {
        self.in_use.set(network.backend(), network.provider());
        std::mem::replace(&mut serving.current, network)
    }

    /// Runs the frame on which the candidate failed on the former back end, and returns to that if
    /// it works. A frame that neither can run is the frame's fault.
    fn go_back(
        &self,
        why: String,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        let now = Instant::now();
        let mut serving = self.serving.write();
        if !serving.has_swapped {
            // A parallel run went back meanwhile.
            return serving.current.infer(inputs, read);
        }
        if serving.retry_at.is_some_and(|at| now < at) {
            return Err(why);
        }
        serving.retry_at = Some(now + RETRY_INTERVAL);
        let former = (self.reload)().map_err(|error| format!("{why}; {error}"))?;
        if former.infer(inputs, read).is_err() {
            return Err(why);
        }
        let candidate = self.replace(&mut serving, former);
        serving.has_swapped = false;
        drop(serving);
        if self.link.is_shared()
            && let Err(why) = self.serving.read().current.share()
        {
            tracing::warn!(why, "{WAIT_FOR_EACH_OTHER}");
        }
        self.link.signal(Signal::WentBack(why, candidate));
        Ok(())
    }
}

impl Network for ChangingNetwork {
    fn backend(&self) -> &'static str {
        self.serving.read().current.backend()
    }

    fn provider(&self) -> Option<&'static str> {
        self.serving.read().current.provider()
    }

    fn threads(&self) -> Option<usize> {
        self.serving.read().current.threads()
    }

    fn lanes(&self) -> usize {
        self.serving.read().current.lanes()
    }

    fn share(&self) -> Result<(), String> {
        let agreed = self.link.share().map(|agreed| {
            let shared = agreed.share();
            self.link.offer(agreed, true);
            shared
        });
        let serving = self.serving.read().current.share();
        serving.and(agreed.unwrap_or(Ok(())))
    }

    fn tensor_copies(&self) -> Option<u32> {
        self.serving.read().current.tensor_copies()
    }

    fn in_use(&self) -> BackendInUse {
        self.in_use.clone()
    }

    fn infer(
        &self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        self.take_over();
        let serving = self.serving.read();
        if !self.link.wants_golden() {
            return match serving.current.infer(inputs, read) {
                Err(why) if serving.has_swapped => {
                    drop(serving);
                    self.go_back(why, inputs, read)
                }
                done => done,
            };
        }
        let mut golden = None;
        serving.current.infer(inputs, &mut |outputs| {
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
