//! Topic strings, in both directions; no other module builds or parses them.
//!
//! All topics of a box are below `watchkeeper/v1/<site>/<box>/`, so one ACL pattern covers them.
//! Names are validated types: none can contain `/`, `+` or `#`.

use watchkeeper_contract::id::{BoxId, PipelineId, SiteId, SourceId};

use crate::fleet::command::{CommandId, OperationName, UnknownOperation};

/// First two levels: the product, and the version of everything below.
pub const PREFIX: &str = "watchkeeper/v1";

/// Longest accepted name of an operation, known or not: pending refusals are held in memory.
pub const MAX_OPERATION_LEN: usize = 64;

/// A topic of this box that another client, or an earlier session, wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inbound<'a> {
    Request {
        /// The operation, if this box offers it.
        operation: Result<OperationName, UnknownOperation>,
        id: CommandId,
        /// The operation as the requester wrote it.
        raw_operation: &'a str,
    },
    /// `state`, from an earlier session or its last will.
    State,
}

/// The topics of one box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topics {
    root: String,
}

impl Topics {
    /// The topics of box `box_id` at `site`.
    pub fn new(site: &SiteId, box_id: &BoxId) -> Self {
        Self {
            root: format!("{PREFIX}/{site}/{box_id}"),
        }
    }

    /// Common prefix of all topics of the box, without a slash at the end.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Full topic of `below`. Records on disk have topics without the root, so a renamed box
    /// publishes them under its new name, which its login may write.
    pub fn at(&self, below: &str) -> String {
        format!("{}/{below}", self.root)
    }

    /// `state`: online, stopped or offline.
    pub fn state(&self) -> String {
        format!("{}/state", self.root)
    }

    /// `birth`: what this box is.
    pub fn birth(&self) -> String {
        format!("{}/birth", self.root)
    }

    pub fn health(&self, service: &str) -> String {
        format!("{}/svc/{service}/health", self.root)
    }

    pub fn source_state(&self, source: &SourceId) -> String {
        format!("{}/cam/{source}/state", self.root)
    }

    pub fn source_frames(&self, source: &SourceId) -> String {
        format!("{}/cam/{source}/m/frames", self.root)
    }

    pub fn pipeline_counts(&self, source: &SourceId, pipeline: &PipelineId) -> String {
        format!("{}/cam/{source}/m/counts/{pipeline}", self.root)
    }

    pub fn agent_measurements(&self) -> String {
        format!("{}/m/agent", self.root)
    }

    pub fn board_measurements(&self) -> String {
        format!("{}/m/board", self.root)
    }

    /// `cam/<source>/ev/<kind>`, or `ev/<kind>` for events about the box.
    ///
    /// The box publishes below its root; tests and the generated reference need the whole topic.
    pub fn event(&self, source: Option<&SourceId>, kind: &str) -> String {
        self.at(&Self::event_below(source, kind))
    }

    /// Topic of an event without the root.
    pub(crate) fn event_below(source: Option<&SourceId>, kind: &str) -> String {
        below(source, "ev", kind)
    }

    /// `cam/<source>/opinion/<kind>` without the root, for a second opinion on an event of that
    /// kind.
    pub fn opinion_below(source: Option<&SourceId>, kind: &str) -> String {
        below(source, "opinion", kind)
    }

    /// `cam/<source>/heartbeat/<kind>` or `heartbeat/<kind>` without the root, for a finding.
    pub fn heartbeat_below(source: Option<&SourceId>, kind: &str) -> String {
        below(source, "heartbeat", kind)
    }

    pub fn outage_alarm(&self, source: &SourceId) -> String {
        format!("{}/alarm/source_outage/{source}", self.root)
    }

    /// `cap/<op>`, for an operation that the box offers.
    pub fn capability(&self, operation: OperationName) -> String {
        format!("{}/cap/{operation}", self.root)
    }

    /// `cmd/<op>/<id>/req`, written by the requester.
    pub fn request(&self, operation: OperationName, id: &CommandId) -> String {
        format!("{}/cmd/{operation}/{id}/req", self.root)
    }

    /// `cmd/<op>/<id>/st`, written by the box. `operation` is as the requester wrote it.
    pub fn status(&self, operation: &str, id: &CommandId) -> String {
        self.at(&Self::status_below(operation, id))
    }

    /// Topic of a command's status without the root.
    pub(crate) fn status_below(operation: &str, id: &CommandId) -> String {
        format!("cmd/{operation}/{id}/st")
    }

    /// Filter of the subscription to requests; never the whole tree of the box.
    pub fn requests(&self) -> String {
        format!("{}/cmd/+/+/req", self.root)
    }

    /// Parses a topic of a subscription; `None` for all others.
    pub fn parse<'a>(&self, topic: &'a str) -> Option<Inbound<'a>> {
        let rest = topic.strip_prefix(&self.root)?.strip_prefix('/')?;
        let levels: Vec<&str> = rest.split('/').collect();
        match levels.as_slice() {
            ["state"] => Some(Inbound::State),
            // A wildcard is not a valid level. A reply with it would end the session.
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

/// Topic below `cam/<source>` when there is a source, else below the root.
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

    #[test]
    fn topics_of_a_box_are_written_and_read_alike() {
        let topics = Topics::new(
            &SiteId::new("north").expect("name"),
            &BoxId::new("box-7").expect("name"),
        );
        let gate = SourceId::new("gate").expect("name");
        let below = |topic: String| {
            let below = topic.strip_prefix("watchkeeper/v1/north/box-7/");
            below.expect("a topic of this box").to_owned()
        };
        assert_eq!(below(topics.state()), "state");
        assert_eq!(
            below(topics.event(Some(&gate), "crosses")),
            "cam/gate/ev/crosses"
        );
        assert_eq!(below(topics.event(None, "loss")), "ev/loss");
        assert_eq!(below(topics.source_state(&gate)), "cam/gate/state");

        let id = CommandId::new("7f3a").expect("id");
        let request = topics.request(OperationName::Snapshot, &id);
        assert_eq!(below(request.clone()), "cmd/snapshot/7f3a/req");
        let parsed = Inbound::Request {
            operation: Ok(OperationName::Snapshot),
            id,
            raw_operation: "snapshot",
        };
        assert_eq!(topics.parse(&request), Some(parsed));
        let other_box = request.replace("box-7", "box-8");
        assert_eq!(topics.parse(&other_box), None);
    }

    fn topics() -> Topics {
        Topics::new(
            &SiteId::new("s").expect("name"),
            &BoxId::new("b").expect("name"),
        )
    }

    #[test]
    fn unknown_operation_still_has_an_id() {
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
    fn invalid_id_is_not_a_request() {
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
    fn wildcard_is_not_an_operation() {
        for topic in [
            "watchkeeper/v1/s/b/cmd/+/1/req",
            "watchkeeper/v1/s/b/cmd/#/1/req",
        ] {
            assert_eq!(topics().parse(topic), None, "{topic}");
        }
    }

    proptest! {
        #[test]
        fn request_topic_is_parsed_back(id in "[A-Za-z0-9_.-]{1,64}", op in 0_usize..3) {
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
