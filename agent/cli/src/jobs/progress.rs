//! Progress of a running job: lines on a plain output, a live line on a terminal, objects as JSON.

use indicatif::ProgressBar;
use serde_json::json;
use watchkeeper_agent::jobs::StepProgress;
use watchkeeper_jobs::run::{JobEvent, LogLine, LogRecord, StepResult};

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

    pub(super) fn show(&self, event: &JobEvent<'_>) {
        match event {
            JobEvent::Started { step, attempt } => {
                self.started(&step.name, &step.call.tool, *attempt);
            }
            JobEvent::Progress { step, done, total } => self.progress(&step.name, *done, *total),
            JobEvent::Finished { step, result } => self.finished(&step.name, result),
            JobEvent::Failed {
                step,
                why,
                again_in,
            } => {
                let again_in_s = again_in.map(|pause| pause.as_secs_f64());
                self.failed(&step.name, why, again_in_s);
            }
        }
    }

    /// Shows what running steps of a job of the agent have done.
    pub(super) fn show_running(&self, steps: &[StepProgress]) {
        for step in steps {
            self.progress(&step.step, step.done, step.total);
        }
    }

    pub(super) fn show_record(&self, line: &LogLine) {
        match &line.record {
            LogRecord::Started {
                step,
                tool,
                attempt,
                ..
            } => self.started(step, tool, *attempt),
            LogRecord::Finished { step, result } => self.finished(step, result),
            LogRecord::Failed {
                step,
                why,
                again_in_s,
            } => self.failed(step, why, *again_in_s),
            LogRecord::Opened
            | LogRecord::Claimed { .. }
            | LogRecord::Skipped { .. }
            | LogRecord::Ended { .. } => {}
        }
    }

    fn started(&self, step: &str, tool: &str, attempt: u64) {
        let started = json!({"type": "started", "step": step, "tool": tool, "attempt": attempt});
        self.out.object(&started);
        self.bar.set_message(step.to_owned());
    }

    fn progress(&self, step: &str, done: u64, total: u64) {
        let of = match total {
            0 => String::new(),
            total => format!(" {done} of {total}"),
        };
        self.bar.set_message(format!("{step}{of}"));
    }

    fn finished(&self, step: &str, result: &StepResult) {
        let finished = json!({"type": "finished", "step": step, "summary": result.summary,
            "files": result.files});
        self.out
            .both(&finished, || format!("{step}: {}", result.summary));
    }

    fn failed(&self, step: &str, why: &str, again_in_s: Option<f64>) {
        let failed = json!({"type": "failed", "step": step, "why": why, "again_in_s": again_in_s});
        self.out.object(&failed);
        if !self.out.is_json() {
            let again = again_in_s.map(|pause| format!("; again in {pause} s"));
            self.out
                .aside(&format!("{step}: {why}{}", again.unwrap_or_default()));
        }
    }
}
