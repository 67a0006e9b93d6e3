//! Questions about the body and verdict of an event that do not depend on its kind.

use crate::event::{EventBody, RuleEvent, Verdict};

impl Verdict {
    /// Name in JSON, which users see too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discard => "discard",
            Self::Escalate => "escalate",
            Self::Review => "review",
            Self::Record => "record",
            Self::Act => "act",
        }
    }
}

impl EventBody {
    /// Details of the rule, where a rule made the event.
    pub fn rule(&self) -> Option<&RuleEvent> {
        let Self::Rule(rule) = self else {
            return None;
        };
        Some(rule)
    }

    /// The reason of a rule's event, or the message of another one: text from outside.
    pub fn text(&self) -> &str {
        match self {
            Self::Rule(rule) => &rule.reason,
            Self::SourceOutage { message, .. }
            | Self::PipelineHeld { message }
            | Self::PipelineFailed { message, .. }
            | Self::StepFailing { message, .. }
            | Self::LoadShed { message, .. }
            | Self::BoardThrottled { message, .. }
            | Self::StorageWorn { message, .. }
            | Self::DecoderFallback { message, .. }
            | Self::FrameKept { message }
            | Self::BackendChange { message, .. }
            | Self::Loss { message, .. } => message,
        }
    }
}
