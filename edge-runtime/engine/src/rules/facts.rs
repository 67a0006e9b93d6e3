//! What a workflow offers to rules: lines, zones and selectors with their kinds.
//!
//! - Not here: reading it from a plan (`workflow::plan::facts`), checking rules (`check`).

pub struct WorkflowFacts<'a> {
    pub lines: Vec<StepFacts>,
    pub zones: Vec<StepFacts>,
    /// Every selector that a rule can name, for suggestions.
    pub selectors: Vec<String>,
    /// Kind of a selector's output; `None` if there is no such output.
    pub kind_of: &'a dyn Fn(&str) -> Option<SelectorKind>,
    /// Whether the class or data of a selector's boxes may be a text or code that a step read.
    pub is_read: &'a dyn Fn(&str) -> bool,
}

/// A step that a rule can name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepFacts {
    pub name: String,
    /// Selector of the tracked detections that the step reads, if it reads a selector.
    pub detections: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorKind {
    Detections,
    Number,
    Boolean,
    Text,
    /// Known at run time only.
    Any,
    Other,
}
