//! Posts messages in Slack.

use std::collections::BTreeMap;

use watchkeeper_contract::effect::{Effect, SlackMessage};

use super::super::uql::Chain;
use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink;
use crate::workflow::blocks::common::sink::{Sent, Session, Sink, attachments, sealed};
use crate::workflow::blocks::common::template;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/slack_notification@v1",
    category: "sink",
    summary: "Posts a message with files to a Slack channel.",
    role: Role::Sink,
    properties: &[
        Property::value("slack_token", "token of the Slack application", Shape::Text)
            .kinds(&[Kind::Text, Kind::Secret]),
        Property::value("channel", "name or id of the channel", Shape::Text),
        sink::MESSAGE,
        sink::MESSAGE_PARAMETERS,
        sink::MESSAGE_PARAMETERS_OPERATIONS,
        sink::ATTACHMENTS,
        sink::FIRE_AND_FORGET,
        sink::DISABLE_SINK,
        sink::SHARED_COOLDOWN,
        sink::COOLDOWN_SESSION_KEY,
    ],
    outputs: sink::OUTPUTS,
    build,
    ..Manifest::BASE
}];

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    Ok(stateful_instance(Notify {
        operations: setup.parse("message_parameters_operations")?,
    }))
}

struct Notify {
    operations: BTreeMap<String, Chain>,
}

impl Sink for Notify {
    type State = ();

    fn send(&self, _: &mut Self::State, call: &mut Call<'_>) -> Result<Sent, String> {
        if call.boolean(arg!("disable_sink"), false)? {
            return Ok(Sent::Off);
        }
        let session = Session::new(call.text(arg!("cooldown_session_key"))?, "slack");
        if session.rests(call, call.number(arg!("cooldown_seconds"), 5.0)?) {
            return Ok(Sent::Resting);
        }
        let text = template::fill(
            call.text(arg!("message"))?,
            call.arg(arg!("message_parameters")),
            &self.operations,
            call.ids,
        )?;
        let slack = SlackMessage {
            token: sealed(call.arg(arg!("slack_token")), "slack_token")?,
            channel: call.text(arg!("channel"))?.to_owned(),
            text,
            files: attachments(call.arg(arg!("attachments")))?,
        };
        session.begin(call);
        Ok(Sent::by(call, Effect::Slack(slack)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;
    use super::{Effect, Kind};

    #[test]
    fn message_is_filled_and_the_token_stays_a_name() {
        let step = json!({
            "type": "roboflow_core/slack_notification@v1", "slack_token": "$inputs.token", "channel": "yard",
            "message": "{{ $parameters.n }} here", "message_parameters": {"n": 3}, "cooldown_session_key": "a"
        });
        let mut bench = Bench::new(step, &[("token", Kind::Secret)]);
        let token = || [("token", super::super::super::Value::Secret("SLACK".into()))];
        bench.feed(&token()).unwrap();
        let [Effect::Slack(slack)] = bench.effects() else {
            panic!("one message expected");
        };
        assert_eq!(slack.text, "3 here");
        assert_eq!(format!("{:?}", slack.token), "Secret(SLACK)");
        assert_eq!(bench.feed(&token()).unwrap()["throttling_status"], true);
        bench.wait(5.0);
        assert_eq!(bench.feed(&token()).unwrap()["throttling_status"], false);
    }
}
