//! Reports the agent's own status from its loop.

use watchkeeper_assistant::wording::counted;

use crate::fleet::outbox::ClassStats;
use crate::run::Agent;
use crate::status::{AgentStatus, ChannelStatus, MqttStatus, OutboxStatus, StatusRequest};

impl Agent {
    pub(in crate::run) fn on_status_request(&mut self, request: StatusRequest) {
        if let Some(problems) = request.problems {
            self.problems.of_api = problems;
            self.update_agent_health();
        }
        // A caller that went away needs no answer.
        drop(request.answer.send(self.status()));
    }

    /// One sentence per problem of the agent. The runtime and the session with the broker have
    /// their own topics.
    pub(super) fn problems(&self) -> Vec<String> {
        let disk = self.storage_error().into_iter();
        disk.chain(self.problems_besides_disk()).collect()
    }

    pub(super) fn problems_besides_disk(&self) -> Vec<String> {
        let dropped = match self.outbox.core().unreported_drops() {
            0 => None,
            dropped => Some(format!(
                "the broker did not accept {} in time; they were dropped. Check the broker, or \
                 raise agent.outbox_events",
                counted(dropped, "message")
            )),
        };
        let channels = self.channels.health().into_iter();
        let channels = channels.filter_map(|(_, health)| health.trouble);
        let shared_name = self
            .mqtt
            .shares_name
            .then(|| self.mqtt.identity.shared_name());
        let of_api = self.problems.of_api.iter().cloned();
        let own = dropped.into_iter().chain(shared_name);
        own.chain(channels).chain(of_api).collect()
    }

    fn status(&self) -> AgentStatus {
        let outbox = self.outbox.core();
        let stats = outbox.stats();
        let sum = |number: fn(&ClassStats) -> u64| number(&stats.events) + number(&stats.assured);
        let connected = self.mqtt.is_up();
        let channels = self.channels.health().into_iter();
        AgentStatus {
            problems: self.problems(),
            mqtt: MqttStatus {
                configured: self.mqtt.broker.is_some(),
                connected,
                why: self.mqtt.lost_reason.clone().filter(|_| !connected),
                refused_requests: self.commands.refused(),
            },
            outbox: OutboxStatus {
                events: stats.events.entries,
                bytes: sum(|class| class.bytes),
                assured: stats.assured.entries,
                acked: stats.acked,
                dropped: sum(|class| class.dropped),
                cursor: outbox.cursor().map_or(0, |cursor| cursor.0),
            },
            channels: channels.map(ChannelStatus::of).collect(),
            opinions: *self.opinion_counts.lock(),
            chains: self.chain_counts.lock().clone(),
        }
    }
}
