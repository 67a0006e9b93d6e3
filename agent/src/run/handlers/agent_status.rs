//! Reports the agent's own status from its loop.

use crate::fleet::outbox::ClassStats;
use crate::run::Agent;
use crate::status::{AgentStatus, ChannelStatus, MqttStatus, OutboxStatus};

impl Agent {
    pub(in crate::run) fn status(&self) -> AgentStatus {
        let outbox = self.outbox.core();
        let stats = outbox.stats();
        let sum = |number: fn(&ClassStats) -> u64| number(&stats.events) + number(&stats.assured);
        let connected = self.mqtt.is_up();
        let channels = self.channels.health().into_iter();
        AgentStatus {
            storage: self.storage_error(),
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
            opinions: self.opinions.counts(),
            chains: self.chain_counts.lock().clone(),
        }
    }
}
