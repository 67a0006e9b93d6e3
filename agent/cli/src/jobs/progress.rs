//! Progress of a running job: lines on a plain output, a live line on a terminal, objects as JSON.

use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::json;
use watchkeeper_jobs::run::JobEvent;

use super::super::output::Output;

pub(super) struct Progress<'a> {
    out: &'a Output,
    bar: ProgressBar,
}

impl<'a> Progress<'a> {
    pub(super) fn new(out: &'a Output) -> Self {
        Self {
            out,
            bar: out.live_line(),
        }
    }

    pub(super) fn show(&mut self, event: &JobEvent<'_>) {
        match event {
            JobEvent::Started { step, attempt } => {
                let started = json!({"type": "started", "step": step.name, "tool": step.call.tool,
                    "attempt": attempt});
                self.out.object(&started);
                self.bar.set_message(step.name.clone());
            }
            JobEvent::Progress { step, done, total } => {
                let of = match total {
                    0 => String::new(),
                    total => format!(" {done} of {total}"),
                };
                self.bar.set_message(format!("{}{of}", step.name));
            }
            JobEvent::Finished { step, result } => {
                let finished = json!({"type": "finished", "step": step.name,
                    "summary": result.summary, "files": result.files});
                self.out
                    .both(&finished, || format!("{}: {}", step.name, result.summary));
            }
            JobEvent::Failed {
                step,
                why,
                again_in,
            } => self.failed(&step.name, why, *again_in),
        }
    }

    fn failed(&self, step: &str, why: &str, again_in: Option<Duration>) {
        let again_in_s = again_in.map(|pause| pause.as_secs_f64());
        let failed = json!({"type": "failed", "step": step, "why": why, "again_in_s": again_in_s});
        self.out.object(&failed);
        if !self.out.is_json() {
            let again = again_in_s.map(|pause| format!("; again in {pause} s"));
            self.out
                .aside(&format!("{step}: {why}{}", again.unwrap_or_default()));
        }
    }
}
