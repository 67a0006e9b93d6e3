//! The servers that speak the Messages API.

/// The server that speaks the protocol.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    #[default]
    Anthropic,
    /// No key, no choice of tools, no cache, no signatures, no errors within a stream; estimated
    /// token counts.
    Ollama,
}
