//! Problems of the agent, for its health over MQTT.

/// Problems that the API's thread knows, and those that were published last.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    /// Latest problems that the API's thread sent; empty without an API.
    pub(crate) of_api: Vec<String>,
    published: Vec<String>,
}

impl Problems {
    /// Takes what is to be published; returns whether it is new.
    pub(crate) fn replace_published(&mut self, problems: Vec<String>) -> bool {
        let is_new = self.published != problems;
        self.published = problems;
        is_new
    }
}
