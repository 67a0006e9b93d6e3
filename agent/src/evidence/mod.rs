//! Chains: the sources that decide about the events of a rule; a second opinion is one of the
//! language model alone.
//!
//! - [`service`]: follows the journal, runs chains, reports results. [`queue`]: which one is next.
//!   [`on_disk`]: stored form.
//! - [`ask`]: asks one source. [`fields`]: fields that a model reads. [`report`]: the assessment.
//! - [`counts`]: answers, failures and times by source. [`lookup_service`]: the look-ups, shared.
//!
//! Invariants:
//! - A chain is stored in one batch with the cursor after its event.
//! - A source is asked after "asking" is durable; a paid one is asked once, over crashes too.
//! - Each event gets exactly one result, and stays with people where no source decides.
//!
//! Not here: order, weights and final states (`watchkeeper_evidence::chain`); what a second opinion
//! is asked and how it is weighed ([`crate::second_opinion`]).

pub(crate) mod ask;
pub(crate) mod counts;
mod fields;
pub(crate) mod lookup_service;
pub(crate) mod on_disk;
mod queue;
mod report;
pub(crate) mod service;
