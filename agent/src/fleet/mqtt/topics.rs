//! Topic strings, in both directions; no other module builds or parses them.
//!
//! All topics of a box are below `watchkeeper/v1/<site>/<box>/`, so one ACL pattern covers them.
//! Names are validated types: none can contain `/`, `+` or `#`.

use watchkeeper_contract::id::{BoxId, PipelineId, SiteId, SourceId};

use crate::fleet::command::{CommandId, InvalidCommandId, OperationName, UnknownOperation};

/// First two levels: the product, and the version of everything below.
pub const PREFIX: &str = "watchkeeper/v1";

/// Longest operation and longest id that are answered, valid or not: pending refusals are held in
/// memory.
pub const MAX_LEVEL_LEN: usize = 128;

/// A topic of this box that another client, or an earlier session, wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inbound<'a> {
    Request(RequestTopic<'a>),
    /// `state`, from an earlier session or its last will.
    State,
}

/// Topic of a request, as parsed and as its requester wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTopic<'a> {
    /// The operation, if this box offers it.
    pub operation: Result<OperationName, UnknownOperation>,
    pub id: Result<CommandId, InvalidCommandId>,
    pub raw_operation: &'a str,
    pub raw_id: &'a str,
}

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

    pub fn storage_alarm(&self) -> String {
        self.at("alarm/storage")
    }

    /// `cap/<op>`, for an operation that the box offers.
    pub fn capability(&self, operation: OperationName) -> String {
        format!("{}/cap/{operation}", self.root)
    }

    /// `cmd/<op>/<id>/req`, written by the requester.
    pub fn request(&self, operation: OperationName, id: &CommandId) -> String {
        format!("{}/cmd/{operation}/{id}/req", self.root)
    }

    /// `cmd/<op>/<id>/st`, written by the box. Both levels are as the requester wrote them.
    pub fn status(&self, operation: &str, id: &str) -> String {
        self.at(&Self::status_below(operation, id))
    }

    /// Topic of a command's status without the root.
    pub(crate) fn status_below(operation: &str, id: &str) -> String {
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
            ["cmd", operation, id, "req"] if is_answerable(operation) && is_answerable(id) => {
                Some(Inbound::Request(RequestTopic {
                    operation: operation.parse(),
                    id: CommandId::new(*id),
                    raw_operation: operation,
                    raw_id: id,
                }))
            }
            _ => None,
        }
    }
}

/// Whether a reply may repeat this level. A wildcard is not a valid one: it would end the session.
fn is_answerable(level: &str) -> bool {
    level.len() <= MAX_LEVEL_LEN && !level.contains(['+', '#', '\0'])
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
        let parsed = RequestTopic {
            operation: Ok(OperationName::Snapshot),
            id: Ok(id),
            raw_operation: "snapshot",
            raw_id: "7f3a",
        };
        assert_eq!(topics.parse(&request), Some(Inbound::Request(parsed)));
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
        let Some(Inbound::Request(request)) = inbound else {
            panic!("a request");
        };
        assert_eq!(
            (request.operation, request.raw_operation),
            (Err(UnknownOperation), "reboot")
        );
    }

    #[test]
    fn invalid_id_is_kept_as_it_was_written() {
        for id in ["a b", "2026-11-30T10:00", "", &"x".repeat(65)] {
            let topic = format!("watchkeeper/v1/s/b/cmd/stop/{id}/req");
            let topics = topics();
            let Some(Inbound::Request(request)) = topics.parse(&topic) else {
                panic!("a request: {topic}");
            };
            assert!(request.id.is_err(), "{topic}");
            assert_eq!(request.raw_id, id);
        }
    }

    #[test]
    fn wildcard_or_endless_level_is_not_a_request() {
        let endless = "x".repeat(MAX_LEVEL_LEN + 1);
        for level in ["+", "#", "a#", &endless] {
            for below in [
                format!("cmd/{level}/1/req"),
                format!("cmd/stop/{level}/req"),
            ] {
                assert_eq!(topics().parse(&topics().at(&below)), None, "{below}");
            }
        }
    }

    proptest! {
        #[test]
        fn request_topic_is_parsed_back(id in "[A-Za-z0-9_.-]{1,64}", op in 0_usize..3) {
            let operation = OperationName::ALL[op];
            let id = CommandId::new(id).expect("valid");
            let topic = topics().request(operation, &id);
            let raw_id = id.to_string();
            let want = RequestTopic { operation: Ok(operation), id: Ok(id), raw_operation: operation.as_str(), raw_id: &raw_id };
            prop_assert_eq!(topics().parse(&topic), Some(Inbound::Request(want)));
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
