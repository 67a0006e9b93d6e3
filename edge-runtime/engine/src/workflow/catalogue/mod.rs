//! Descriptions of blocks for users, programs and LLMs, made from the manifests.

pub(crate) mod entries;
pub(crate) mod property_schema;
pub(crate) mod sinks_and_secrets;
