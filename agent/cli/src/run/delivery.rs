//! What the broker of `run --mqtt` took: the agent's reports, heard and judged.
//!
//! Owns the last state of the delivery. Invariant: nothing is called delivered that the broker has not acknowledged.

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, timeout_at};
use watchkeeper_config::ENV_PREFIX;
use watchkeeper_config::keys::KEYS;
use watchkeeper_contract::id::EventSeq;

use crate::exit::{Exit, Failure};
use crate::output::Output;
use watchkeeper_agent::run::Report;

/// How much longer than one attempt to connect the end of a run waits for a broker that takes nothing. As long as it takes
/// something, it is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// The delivery to a broker that a person named.
#[derive(Debug)]
pub(super) struct Delivery {
    broker: String,
    heard: watch::Receiver<Heard>,
    told: Option<String>,
    patience: Duration,
}

/// What the agent said so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Heard {
    ever_connected: bool,
    reason: Option<String>,
    delivered: EventSeq,
    /// Messages that the broker acknowledged.
    acked: u64,
    /// Messages that were left and the last record that became one.
    left: Option<(usize, EventSeq)>,
}

impl Heard {
    fn take(&mut self, report: Report) {
        match report {
            Report::Connected => {
                self.ever_connected = true;
                self.reason = None;
            }
            Report::Unreachable { reason } => {
                self.reason = Some(own_words(&reason));
            }
            Report::Delivered { through } => self.delivered = through,
            Report::Acked { messages } => self.acked = messages,
            Report::Left { messages, through } => self.left = Some((messages, through)),
        }
    }

    /// Whether there is nothing more to wait for when the journal ends at `last`. A broker that was there once may be back soon.
    fn is_settled(&self, last: EventSeq) -> bool {
        self.delivered >= last && self.ever_connected
            || self.reason.is_some() && !self.ever_connected
    }

    /// Messages that were not delivered of a journal that ends at `last`.
    fn missing(&self, last: EventSeq) -> u64 {
        let (messages, through) = self.left.unwrap_or((0, self.delivered));
        messages as u64 + last.0.saturating_sub(through.0)
    }

    fn verdict(&self, last: EventSeq, broker: &str) -> Option<Failure> {
        let because = match &self.reason {
            Some(reason) => format!(": {reason}"),
            None => String::new(),
        };
        let sentence = match self.missing(last) {
            0 if self.ever_connected => return None,
            0 => format!("the broker {broker} was never reached{because}"),
            1 => format!("1 event message could not be delivered to {broker}{because}"),
            missing => {
                format!("{missing} event messages could not be delivered to {broker}{because}")
            }
        };
        Some(Failure::new(Exit::Undelivered, sentence))
    }
}

/// The reason in the words of a run, which has an option and variables where the agent has keys. What it says about the
/// address is left out: that is in front of the person who typed it.
fn own_words(reason: &str) -> String {
    let own = reason.split("; check ").next().unwrap_or(reason);
    let mut words = own.to_owned();
    for key in KEYS.iter().filter_map(|key| key.path.strip_prefix("mqtt.")) {
        let own = match key {
            "host" | "port" => "--mqtt".to_owned(),
            _ => format!("{ENV_PREFIX}MQTT__{}", key.to_uppercase()),
        };
        words = with_word(&words, &format!("mqtt.{key}"), &own);
    }
    words
}

/// `text` with the word `from` replaced; a longer word that begins so stays.
fn with_word(text: &str, from: &str, to: &str) -> String {
    let mut parts = text.split(from);
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let goes_on = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        words.push_str(if goes_on { from } else { to });
        words.push_str(part);
    }
    words
}

impl Delivery {
    /// Listens to the agent until it ends.
    pub(super) fn listen(broker: String, connect_timeout: Duration, said: ChildStdout) -> Self {
        let (tell, heard) = watch::channel(Heard::default());
        tokio::spawn(async move {
            let mut lines = BufReader::new(said).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // A line of another version says nothing to this one.
                if let Ok(report) = serde_json::from_str(&line) {
                    tell.send_modify(|heard| heard.take(report));
                }
            }
        });
        Self {
            broker,
            heard,
            told: None,
            patience: connect_timeout + PATIENCE,
        }
    }

    /// Says that the broker can't be reached, once for each reason.
    pub(super) fn tell(&mut self, out: &Output) {
        let reason = self.heard.borrow_and_update().reason.clone();
        if let Some(reason) = reason
            && self.told.as_ref() != Some(&reason)
        {
            out.note(format!(
                "the broker {} can't be used: {reason}; the run goes on and it is tried again",
                self.broker
            ));
            self.told = Some(reason);
        }
    }

    /// Waits until the broker has everything up to `last`, or has taken nothing for a while.
    pub(super) async fn settle(&mut self, last: EventSeq) {
        loop {
            let taken = self.heard.borrow().acked;
            let moves = |heard: &Heard| heard.is_settled(last) || heard.acked > taken;
            let moved =
                timeout_at(Instant::now() + self.patience, self.heard.wait_for(moves)).await;
            match moved {
                Ok(Ok(heard)) if !heard.is_settled(last) => {}
                // Whatever it was waited for, the verdict comes from what is known then.
                _ => return,
            }
        }
    }

    /// After the agent has stopped: what is missing of a journal that ends at `last`, as a failure.
    pub(super) async fn verdict(&mut self, last: EventSeq) -> Option<Failure> {
        let deadline = Instant::now() + Duration::from_secs(1);
        let left = self.heard.wait_for(|heard| heard.left.is_some());
        timeout_at(deadline, left).await.ok();
        self.heard.borrow().verdict(last, &self.broker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(reports: &[Report]) -> Heard {
        let mut heard = Heard::default();
        for report in reports {
            heard.take(report.clone());
        }
        heard
    }

    fn unreachable() -> Report {
        Report::Unreachable {
            reason: "connection refused; check that the broker runs at mqtt.host and mqtt.port"
                .to_owned(),
        }
    }

    fn left(messages: usize, through: u64) -> Report {
        Report::Left {
            messages,
            through: EventSeq(through),
        }
    }

    #[test]
    fn a_broker_that_took_everything_is_no_failure() {
        let through = EventSeq(7);
        let heard = heard(&[Report::Connected, Report::Delivered { through }, left(0, 7)]);
        assert!(heard.is_settled(through));
        assert_eq!(heard.verdict(through, "b:1"), None);
    }

    #[test]
    fn a_broker_that_is_not_there_is_a_failure_with_the_reason_even_without_events() {
        let never = heard(&[unreachable(), left(0, 0)]);
        assert!(never.is_settled(EventSeq(0)));
        let failure = never.verdict(EventSeq(0), "b:1");
        let told = failure.map(|f| (f.exit, f.sentence));
        let sentence = "the broker b:1 was never reached: connection refused".to_owned();
        assert_eq!(told, Some((Exit::Undelivered, sentence)));
    }

    #[test]
    fn a_remedy_names_what_a_run_has_and_not_the_keys_of_a_box() {
        let login = "the broker asks for a login; set mqtt.username and mqtt.password_file";
        assert_eq!(
            own_words(login),
            "the broker asks for a login; set WATCHKEEPER_MQTT__USERNAME and WATCHKEEPER_MQTT__PASSWORD_FILE"
        );
        let tls = "it hung up; set mqtt.tls if it speaks TLS, else check mqtt.port";
        assert_eq!(
            own_words(tls),
            "it hung up; set WATCHKEEPER_MQTT__TLS if it speaks TLS, else check --mqtt"
        );
    }

    #[test]
    fn what_is_in_the_outbox_and_what_never_got_there_are_both_missing() {
        let heard = heard(&[Report::Connected, unreachable(), left(3, 10)]);
        assert_eq!(heard.missing(EventSeq(12)), 5);
        let sentence = heard.verdict(EventSeq(12), "b:1").map(|f| f.sentence);
        assert!(
            sentence
                .as_deref()
                .is_some_and(|s| s.starts_with("5 event messages"))
        );
    }

    /// A delivery that hears `reports`, one a step.
    fn delivery(patience: Duration, step: Duration, reports: Vec<Report>) -> Delivery {
        let (tell, heard) = watch::channel(Heard::default());
        tokio::spawn(async move {
            for report in reports {
                tokio::time::sleep(step).await;
                tell.send_modify(|heard| heard.take(report));
            }
            std::future::pending::<()>().await;
        });
        Delivery {
            broker: "b:1".to_owned(),
            heard,
            told: None,
            patience,
        }
    }

    #[tokio::test]
    async fn a_broker_that_is_slow_is_waited_for_as_long_as_it_takes_something() {
        let one = |messages| Report::Acked { messages };
        let mut reports = vec![Report::Connected];
        reports.extend((1..=20).map(one));
        let through = EventSeq(20);
        reports.push(Report::Delivered { through });
        let step = Duration::from_millis(300);
        let mut delivery = delivery(step * 15, step, reports);
        delivery.settle(EventSeq(20)).await;
        assert_eq!(delivery.heard.borrow().delivered, through);
    }

    #[test]
    fn a_session_that_breaks_is_not_the_end_of_the_delivery() {
        let broken = heard(&[Report::Connected, unreachable()]);
        assert!(!broken.is_settled(EventSeq(1)));
        assert!(heard(&[unreachable()]).is_settled(EventSeq(1)));
    }

    #[tokio::test]
    async fn a_broker_that_takes_nothing_more_is_not_waited_for() {
        let through = EventSeq(3);
        let reports = vec![Report::Connected, Report::Delivered { through }];
        let mut delivery = delivery(Duration::from_secs(2), Duration::ZERO, reports);
        delivery.settle(EventSeq(20)).await;
        assert_eq!(delivery.heard.borrow().delivered, through);
    }

    #[test]
    fn an_agent_that_died_without_a_word_has_delivered_only_what_it_said() {
        let through = EventSeq(4);
        let heard = heard(&[Report::Connected, Report::Delivered { through }]);
        assert_eq!(heard.missing(EventSeq(6)), 2);
    }
}
