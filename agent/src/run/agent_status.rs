//! Answers questions about the agent's own state from its loop.

use super::Agent;
use crate::fleet::outbox::ClassStats;
use crate::second_opinion;
use crate::status::{ChannelStanding, MqttStanding, OutboxStanding, Standing};

impl Agent {
    pub(super) fn standing(&self) -> Standing {
        let stats = self.outbox.stats();
        let sum = |number: fn(&ClassStats) -> u64| number(&stats.events) + number(&stats.assured);
        let connected = self.session.up().is_some();
        Standing {
            mqtt: MqttStanding {
                configured: self.broker.is_some(),
                connected,
                why: self.link_lost_by.clone().filter(|_| !connected),
            },
            outbox: OutboxStanding {
                events: stats.events.entries,
                bytes: sum(|class| class.bytes),
                assured: stats.assured.entries,
                acked: stats.acked,
                dropped: sum(|class| class.dropped),
                cursor: self.outbox.cursor().map_or(0, |cursor| cursor.0),
            },
            channels: self.fares().into_iter().map(ChannelStanding::of).collect(),
            opinions: second_opinion::Counts {
                asks: self.asker.is_some(),
                waiting: self.opinions.waits(),
                ..self.opined
            },
        }
    }
}
