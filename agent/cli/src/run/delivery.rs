//! Delivery of a run's events to the broker of `--mqtt`, by the reports of the agent.
//!
//! Invariant: only acknowledged messages count as delivered.

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, timeout_at};
use watchkeeper_contract::id::EventSeq;

use crate::exit::{Exit, Failure};
use crate::output::Output;
use watchkeeper_agent::run::Report;
use watchkeeper_assistant::wording::counted;

/// Time without an acknowledgement after which the wait at the end stops, beyond one connect
/// timeout.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Delivery {
    broker: String,
    state: watch::Receiver<DeliveryState>,
    /// Last reported reason why the broker is unreachable.
    reported: Option<String>,
    idle_timeout: Duration,
}

/// Sum of the agent's reports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DeliveryState {
    ever_connected: bool,
    /// Why the broker is unreachable now.
    reason: Option<String>,
    delivered: EventSeq,
    /// Number of acknowledged messages.
    acked: u64,
    /// Number of undelivered messages, and the last record that became a message.
    left: Option<(usize, EventSeq)>,
}

impl DeliveryState {
    fn apply(&mut self, report: Report) {
        match report {
            Report::Connected => {
                self.ever_connected = true;
                self.reason = None;
            }
            Report::Unreachable { reason } => self.reason = Some(reason),
            Report::Delivered { through } => self.delivered = through,
            Report::Acked { messages } => self.acked = messages,
            Report::Left { messages, through } => self.left = Some((messages, through)),
        }
    }

    /// Returns whether waiting is over for a journal that ends at `last`. A broker that was
    /// connected may return.
    fn is_over(&self, last: EventSeq) -> bool {
        self.delivered >= last && self.ever_connected
            || self.reason.is_some() && !self.ever_connected
    }

    /// Counts the undelivered messages of a journal that ends at `last`.
    fn missing(&self, last: EventSeq) -> u64 {
        let (messages, through) = self.left.unwrap_or((0, self.delivered));
        messages as u64 + last.0.saturating_sub(through.0)
    }

    fn failure(&self, last: EventSeq, broker: &str) -> Option<Failure> {
        let reason = match &self.reason {
            Some(reason) => format!(": {reason}"),
            None => String::new(),
        };
        let sentence = match self.missing(last) {
            0 if self.ever_connected => return None,
            0 => format!("the broker {broker} was never reached{reason}"),
            missing => {
                let missing = counted(missing, "event message");
                format!("{missing} not delivered to {broker}{reason}")
            }
        };
        Some(Failure::new(Exit::Undelivered, sentence))
    }
}

impl Delivery {
    /// Reads the agent's reports from its standard output until it ends.
    pub(super) fn listen(broker: String, connect_timeout: Duration, stdout: ChildStdout) -> Self {
        let (sender, state) = watch::channel(DeliveryState::default());
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // Skips the reports of another version.
                if let Ok(report) = serde_json::from_str(&line) {
                    sender.send_modify(|state| state.apply(report));
                }
            }
        });
        Self {
            broker,
            state,
            reported: None,
            idle_timeout: connect_timeout + IDLE_TIMEOUT,
        }
    }

    /// Prints a note about an unreachable broker, once per reason.
    pub(super) fn report(&mut self, out: &Output) {
        let reason = self.state.borrow_and_update().reason.clone();
        if let Some(reason) = reason
            && self.reported.as_ref() != Some(&reason)
        {
            out.note(format!(
                "MQTT broker {}: {reason}; the run continues and retries",
                self.broker
            ));
            self.reported = Some(reason);
        }
    }

    /// Waits until the broker has acknowledged everything up to `last`, or nothing for
    /// `idle_timeout`.
    pub(super) async fn wait_for_acks(&mut self, last: EventSeq) {
        loop {
            let acked = self.state.borrow().acked;
            let progress = |state: &DeliveryState| state.is_over(last) || state.acked > acked;
            let deadline = Instant::now() + self.idle_timeout;
            match timeout_at(deadline, self.state.wait_for(progress)).await {
                Ok(Ok(state)) if !state.is_over(last) => {}
                _ => return,
            }
        }
    }

    /// Returns the failure of undelivered messages; call it after the agent has stopped.
    pub(super) async fn failure(&mut self, last: EventSeq) -> Option<Failure> {
        let deadline = Instant::now() + Duration::from_secs(1);
        let left = self.state.wait_for(|state| state.left.is_some());
        timeout_at(deadline, left).await.ok();
        self.state.borrow().failure(last, &self.broker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(reports: &[Report]) -> DeliveryState {
        let mut state = DeliveryState::default();
        for report in reports {
            state.apply(report.clone());
        }
        state
    }

    fn unreachable() -> Report {
        Report::Unreachable {
            reason: "connection refused".to_owned(),
        }
    }

    fn left(messages: usize, through: u64) -> Report {
        Report::Left {
            messages,
            through: EventSeq(through),
        }
    }

    #[test]
    fn complete_delivery_is_no_failure() {
        let through = EventSeq(7);
        let state = state(&[Report::Connected, Report::Delivered { through }, left(0, 7)]);
        assert!(state.is_over(through));
        assert_eq!(state.failure(through, "b:1"), None);
    }

    #[test]
    fn unreachable_broker_is_a_failure_even_without_events() {
        let never = state(&[unreachable(), left(0, 0)]);
        assert!(never.is_over(EventSeq(0)));
        let failure = never.failure(EventSeq(0), "b:1");
        let failure = failure.map(|f| (f.exit, f.sentence));
        let sentence = "the broker b:1 was never reached: connection refused".to_owned();
        assert_eq!(failure, Some((Exit::Undelivered, sentence)));
    }

    #[test]
    fn messages_in_and_before_the_outbox_are_missing() {
        let state = state(&[Report::Connected, unreachable(), left(3, 10)]);
        assert_eq!(state.missing(EventSeq(12)), 5);
        let sentence = state.failure(EventSeq(12), "b:1").map(|f| f.sentence);
        assert!(
            sentence
                .as_deref()
                .is_some_and(|s| s.starts_with("5 event messages"))
        );
    }

    /// Creates a delivery that receives one report per `step`.
    fn delivery(idle_timeout: Duration, step: Duration, reports: Vec<Report>) -> Delivery {
        let (sender, state) = watch::channel(DeliveryState::default());
        tokio::spawn(async move {
            for report in reports {
                tokio::time::sleep(step).await;
                sender.send_modify(|state| state.apply(report));
            }
            std::future::pending::<()>().await;
        });
        Delivery {
            broker: "b:1".to_owned(),
            state,
            reported: None,
            idle_timeout,
        }
    }

    #[tokio::test]
    async fn slow_broker_is_waited_for_while_it_acknowledges() {
        let one = |messages| Report::Acked { messages };
        let mut reports = vec![Report::Connected];
        reports.extend((1..=20).map(one));
        let through = EventSeq(20);
        reports.push(Report::Delivered { through });
        let step = Duration::from_millis(300);
        let mut delivery = delivery(step * 15, step, reports);
        delivery.wait_for_acks(EventSeq(20)).await;
        assert_eq!(delivery.state.borrow().delivered, through);
    }

    #[test]
    fn broken_session_does_not_end_the_delivery() {
        let broken = state(&[Report::Connected, unreachable()]);
        assert!(!broken.is_over(EventSeq(1)));
        assert!(state(&[unreachable()]).is_over(EventSeq(1)));
    }

    #[tokio::test]
    async fn idle_broker_is_not_waited_for() {
        let through = EventSeq(3);
        let reports = vec![Report::Connected, Report::Delivered { through }];
        let mut delivery = delivery(Duration::from_secs(2), Duration::ZERO, reports);
        delivery.wait_for_acks(EventSeq(20)).await;
        assert_eq!(delivery.state.borrow().delivered, through);
    }

    #[test]
    fn dead_agent_has_delivered_only_what_it_reported() {
        let through = EventSeq(4);
        let state = state(&[Report::Connected, Report::Delivered { through }]);
        assert_eq!(state.missing(EventSeq(6)), 2);
    }
}
