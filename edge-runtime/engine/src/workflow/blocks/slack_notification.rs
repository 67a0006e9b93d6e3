//! Posts messages in Slack.

use watchkeeper_contract::effect::{Effect, SlackMessage};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink::{self, EffectOrRefusal, attachments, sealed};
use crate::workflow::blocks::common::template::Template;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/slack_notification@v1",
    summary: "Posts a message with files to a Slack channel.",
    properties: &[
        Property::secret("slack_token").about("token of the Slack application"),
        Property::value("channel", Shape::Text).about("name or id of the channel"),
        sink::MESSAGE,
        sink::MESSAGE_PARAMETERS,
        sink::MESSAGE_PARAMETERS_OPERATIONS,
        sink::ATTACHMENTS,
        sink::FIRE_AND_FORGET,
        sink::DISABLE_SINK,
        sink::SHARED_COOLDOWN,
        sink::COOLDOWN_SESSION_KEY,
    ],
    build: |setup| sink::messenger(setup, "slack", post),
    ..sink::BASE
}];

fn post(message: &Template, call: &Call<'_>) -> Result<EffectOrRefusal, String> {
    Ok(Ok(Effect::Slack(SlackMessage {
        token: sealed(call, arg!("slack_token"))?,
        channel: call.text(arg!("channel"))?.to_owned(),
        text: message.fill(call)?,
        files: attachments(call.arg(arg!("attachments")))?,
    })))
}

#[cfg(test)]
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
        let token = super::super::super::Value::Secret("SLACK".into());
        bench.feed(&[("token", token)]).unwrap();
        let [Effect::Slack(slack)] = bench.effects() else {
            panic!("one message expected");
        };
        assert_eq!(slack.text, "3 here");
        assert_eq!(format!("{:?}", slack.token), "Secret(SLACK)");
    }
}
