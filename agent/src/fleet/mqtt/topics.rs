//! The one place that knows topic strings, in both directions.
//!
//! Everything of a box lies under `watchkeeper/v1/<site>/<box>/`, so that one ACL pattern covers it. Names are checked
//! types: none can hold `/`, `+` or `#`.
//!
//! ```
//! use watchkeeper_agent::fleet::command::{CommandId, OperationName};
//! use watchkeeper_agent::fleet::mqtt::{Inbound, Topics};
//! use watchkeeper_contract::id::{BoxId, SiteId, SourceId};
//!
//! let topics = Topics::new(&SiteId::new("north")?, &BoxId::new("box-7")?);
//! let gate = SourceId::new("gate")?;
//! assert_eq!(topics.state(), "watchkeeper/v1/north/box-7/state");
//! assert_eq!(topics.event(Some(&gate), "crosses"), "watchkeeper/v1/north/box-7/cam/gate/ev/crosses");
//! assert_eq!(topics.event(None, "loss"), "watchkeeper/v1/north/box-7/ev/loss");
//! assert_eq!(topics.source_state(&gate), "watchkeeper/v1/north/box-7/cam/gate/state");
//!
//! // Both directions agree.
//! let id = CommandId::new("7f3a")?;
//! let request = topics.request(OperationName::Snapshot, &id);
//! assert_eq!(request, "watchkeeper/v1/north/box-7/cmd/snapshot/7f3a/req");
//! assert_eq!(
//!     topics.parse(&request),
//!     Some(Inbound::Request { operation: Ok(OperationName::Snapshot), id, raw_operation: "snapshot" }),
//! );
//!
//! // What belongs to another box is nobody's business here.
//! assert_eq!(topics.parse("watchkeeper/v1/north/box-8/cmd/snapshot/7f3a/req"), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use watchkeeper_contract::id::{BoxId, PipelineId, SiteId, SourceId};

use crate::fleet::command::{CommandId, OperationName, UnknownOperation};

/// First two levels: the product and the version of everything below.
pub const PREFIX: &str = "watchkeeper/v1";

/// Longest name of an operation that is answered, known or not: what waits to be refused is kept in memory.
pub const MAX_OPERATION_LEN: usize = 64;

/// A topic of this box that somebody else, or an earlier session, wrote to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inbound<'a> {
    /// `cmd/<op>/<id>/req`.
    Request {
        /// Which operation, when this box offers it.
        operation: Result<OperationName, UnknownOperation>,
        /// Which command.
        id: CommandId,
        /// The operation as it was written.
        raw_operation: &'a str,
    },
    /// `state`: what an earlier session, or its will, left behind.
    State,
}

/// The topics of one box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topics {
    root: String,
}

impl Topics {
    /// The topics of box `box_id` at `site`.
    #[must_use]
    pub fn new(site: &SiteId, box_id: &BoxId) -> Self {
        Self {
            root: format!("{PREFIX}/{site}/{box_id}"),
        }
    }

    /// What everything of this box begins with, without a slash at the end.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The whole topic of `below`, which begins below the root. What is stored is stored without the root: a box that is
    /// renamed says what it has to say under its new name, where its login may write.
    #[must_use]
    pub fn at(&self, below: &str) -> String {
        format!("{}/{below}", self.root)
    }

    /// The reverse of [`Self::at`]; `None` for what is not this box's.
    #[must_use]
    pub fn below<'a>(&self, topic: &'a str) -> Option<&'a str> {
        topic.strip_prefix(&self.root)?.strip_prefix('/')
    }

    /// `state`: online, stopped or offline.
    #[must_use]
    pub fn state(&self) -> String {
        format!("{}/state", self.root)
    }

    /// `birth`: what this box is.
    #[must_use]
    pub fn birth(&self) -> String {
        format!("{}/birth", self.root)
    }

    /// `svc/<service>/health`.
    #[must_use]
    pub fn health(&self, service: &str) -> String {
        format!("{}/svc/{service}/health", self.root)
    }

    /// `cam/<source>/state`.
    #[must_use]
    pub fn source_state(&self, source: &SourceId) -> String {
        format!("{}/cam/{source}/state", self.root)
    }

    /// `cam/<source>/m/frames`.
    #[must_use]
    pub fn source_frames(&self, source: &SourceId) -> String {
        format!("{}/cam/{source}/m/frames", self.root)
    }

    /// `cam/<source>/m/counts/<pipeline>`.
    #[must_use]
    pub fn pipeline_counts(&self, source: &SourceId, pipeline: &PipelineId) -> String {
        format!("{}/cam/{source}/m/counts/{pipeline}", self.root)
    }

    /// `m/agent`.
    #[must_use]
    pub fn agent_measurements(&self) -> String {
        format!("{}/m/agent", self.root)
    }

    /// `cam/<source>/ev/<kind>`, or `ev/<kind>` for events about the box.
    #[must_use]
    pub fn event(&self, source: Option<&SourceId>, kind: &str) -> String {
        self.at(&Self::event_below(source, kind))
    }

    /// [`Self::event`] without the root.
    #[must_use]
    pub fn event_below(source: Option<&SourceId>, kind: &str) -> String {
        below(source, "ev", kind)
    }

    /// `cam/<source>/opinion/<kind>`, without the root: what a second opinion makes of an event of that kind.
    #[must_use]
    pub fn opinion_below(source: Option<&SourceId>, kind: &str) -> String {
        below(source, "opinion", kind)
    }

    /// `cam/<source>/heartbeat/<kind>`, or `heartbeat/<kind>` for what is about the box, without the root: what the heartbeat found.
    #[must_use]
    pub fn heartbeat_below(source: Option<&SourceId>, kind: &str) -> String {
        below(source, "heartbeat", kind)
    }

    /// `alarm/source_outage/<source>`.
    #[must_use]
    pub fn outage_alarm(&self, source: &SourceId) -> String {
        format!("{}/alarm/source_outage/{source}", self.root)
    }

    /// `cap/<op>`: that this box offers an operation.
    #[must_use]
    pub fn capability(&self, operation: OperationName) -> String {
        format!("{}/cap/{operation}", self.root)
    }

    /// `cmd/<op>/<id>/req`, written by the requester.
    #[must_use]
    pub fn request(&self, operation: OperationName, id: &CommandId) -> String {
        format!("{}/cmd/{operation}/{id}/req", self.root)
    }

    /// `cmd/<op>/<id>/st`, written by the box. `operation` is as the requester wrote it.
    #[must_use]
    pub fn status(&self, operation: &str, id: &CommandId) -> String {
        self.at(&Self::status_below(operation, id))
    }

    /// [`Self::status`] without the root.
    #[must_use]
    pub fn status_below(operation: &str, id: &CommandId) -> String {
        format!("cmd/{operation}/{id}/st")
    }

    /// Where requests come. Never the box's whole tree.
    #[must_use]
    pub fn requests(&self) -> String {
        format!("{}/cmd/+/+/req", self.root)
    }

    /// What a topic of a subscription means; `None` for everything else.
    #[must_use]
    pub fn parse<'a>(&self, topic: &'a str) -> Option<Inbound<'a>> {
        let rest = topic.strip_prefix(&self.root)?.strip_prefix('/')?;
        let levels: Vec<&str> = rest.split('/').collect();
        match levels.as_slice() {
            ["state"] => Some(Inbound::State),
            // No broker delivers a wildcard as a level; answering to one would end the session.
            ["cmd", operation, id, "req"]
                if operation.len() <= MAX_OPERATION_LEN
                    && !operation.contains(['+', '#', '\0']) =>
            {
                Some(Inbound::Request {
                    operation: operation.parse(),
                    id: CommandId::new(*id).ok()?,
                    raw_operation: operation,
                })
            }
            _ => None,
        }
    }
}

/// What has to do with a source stands below it.
fn below(source: Option<&SourceId>, level: &str, kind: &str) -> String {
    match source {
        Some(source) => format!("cam/{source}/{level}/{kind}"),
        None => format!("{level}/{kind}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topics() -> Topics {
        Topics::new(
            &SiteId::new("s").expect("name"),
            &BoxId::new("b").expect("name"),
        )
    }

    #[test]
    fn an_operation_nobody_knows_still_has_an_id_to_answer_to() {
        let inbound = topics().parse("watchkeeper/v1/s/b/cmd/reboot/1/req");
        let Some(Inbound::Request {
            operation,
            raw_operation,
            ..
        }) = inbound
        else {
            panic!("a request");
        };
        assert_eq!(
            (operation, raw_operation),
            (Err(UnknownOperation), "reboot")
        );
    }

    #[test]
    fn an_id_that_is_no_id_is_nobodys_request() {
        let long = format!("watchkeeper/v1/s/b/cmd/stop/{}/req", "x".repeat(65));
        let endless = format!("watchkeeper/v1/s/b/cmd/{}/1/req", "x".repeat(65));
        for topic in [
            &endless,
            "watchkeeper/v1/s/b/cmd/stop/a b/req",
            "watchkeeper/v1/s/b/cmd/stop//req",
            &long,
        ] {
            assert_eq!(topics().parse(topic), None, "{topic}");
        }
    }

    #[test]
    fn a_wildcard_is_no_operation_as_its_answer_could_not_be_published() {
        for topic in [
            "watchkeeper/v1/s/b/cmd/+/1/req",
            "watchkeeper/v1/s/b/cmd/#/1/req",
        ] {
            assert_eq!(topics().parse(topic), None, "{topic}");
        }
    }

    proptest! {
        #[test]
        fn a_request_topic_is_parsed_back(id in "[A-Za-z0-9_.-]{1,64}", op in 0_usize..3) {
            let operation = OperationName::ALL[op];
            let id = CommandId::new(id).expect("valid");
            let topic = topics().request(operation, &id);
            let want = Inbound::Request { operation: Ok(operation), id, raw_operation: operation.as_str() };
            prop_assert_eq!(topics().parse(&topic), Some(want));
        }

        #[test]
        fn arbitrary_topics_never_panic(topic in "\\PC{0,80}") {
            let topics = topics();
            let _ignored = topics.parse(&topic).is_some();
            let below = format!("{}/{topic}", topics.root());
            let _ignored = topics.parse(&below).is_some();
        }
    }
}
