//! Label sets of the metrics.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use watchkeeper_contract::event::Verdict;

/// Value of labels in the series that counts what exceeds the bound of a family.
pub(super) const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SourceLabels {
    pub(super) source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DropLabels {
    pub(super) source: String,
    pub(super) at: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StageLabels {
    pub(super) stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelLabels {
    pub(super) model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct VerdictLabels {
    pub(super) verdict: VerdictLabel,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ClipLabels {
    pub(super) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BackendChangeLabels {
    pub(super) model: String,
    pub(super) to: &'static str,
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StepLabels {
    pub(super) pipeline: String,
    pub(super) step: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct VerdictLabel(&'static str);

impl EncodeLabelValue for VerdictLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}

impl From<Verdict> for VerdictLabel {
    fn from(verdict: Verdict) -> Self {
        Self(match verdict {
            Verdict::Discard => "discard",
            Verdict::Escalate => "escalate",
            Verdict::Review => "review",
            Verdict::Record => "record",
            Verdict::Act => "act",
        })
    }
}

/// Final states of clips.
pub(super) const CLIP_STATES: [&str; 2] = ["kept", "lost"];

pub(super) fn of_source(source: &str) -> SourceLabels {
    SourceLabels {
        source: source.to_owned(),
    }
}
