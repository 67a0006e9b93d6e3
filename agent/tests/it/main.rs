//! Tests of the agent with a fake runtime on a Unix socket and mosquitto as the broker.

mod chains;
mod commands;
mod delivery;
mod execute;
mod fair_budget;
mod health;
mod heartbeat;
mod mqtt_document;
mod new_journal;
mod opinions;
mod runtime_client;
mod support;
