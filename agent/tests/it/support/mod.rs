//! Test doubles and processes around the agent: broker, runtime, webhook receiver, LLM.

pub(crate) mod agent;
pub(crate) mod agent_api;
pub(crate) mod agent_thread;
pub(crate) mod broker;
pub(crate) mod fake_runtime;
pub(crate) mod hook;
pub(crate) mod model;
