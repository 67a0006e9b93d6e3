//! Questions about the body of an event that do not depend on its kind.

use crate::event::{EventBody, RuleEvent};

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
