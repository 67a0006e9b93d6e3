//! The signals that end a run, and a job of the user.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Signals that end a run: Ctrl-C, a stop, and the end of the terminal.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent in a command that outlives its terminal.
    hangup: Option<Signal>,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|e| Failure::failed(format!("can't listen for signals: {e}")))
        };
        let hangup = (!ignores_hangup()).then(|| listen(SignalKind::hangup()));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: hangup.transpose()?,
        })
    }

    pub(crate) async fn recv(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

pub(super) async fn next() {
    match Signals::listen() {
        Ok(mut signals) => signals.recv().await,
        Err(_) => std::future::pending().await,
    }
}

/// Returns whether this command was started to outlive its terminal, such as by `nohup`.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is signal 1, SIGHUP.
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}
