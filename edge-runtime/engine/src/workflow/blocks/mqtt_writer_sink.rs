//! Publishes messages to MQTT brokers.

use watchkeeper_contract::effect::{Effect, MqttMessage, MqttQos};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink;
use crate::workflow::blocks::common::sink::{Sent, sealed};

/// Port on which brokers speak TLS.
const TLS_PORT: u16 = 8883;

const PORT: Shape = Shape::Integer(1, u16::MAX as i64);

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_enterprise/mqtt_writer_sink@v1",
    summary: "Publishes a text to an MQTT broker, such as that of a building or a machine.",
    properties: &[
        Property::value("host", Shape::Text).about("host name or address of the broker"),
        Property::value("port", PORT).about("port of the broker"),
        Property::value("topic", Shape::Text).about("topic of the message, without wildcards"),
        Property::value("message", Shape::Text).about("text of the message"),
        Property::value_or("qos", Shape::Integer(0, 2), Or::Int(0))
            .about("0: sent once; 1 and 2: retried until the broker acknowledges it"),
        Property::boolean("retain", false)
            .about("whether the broker retains it for later subscribers"),
        Property::value_or("timeout", POSITIVE, Or::Float(0.5)).about(
            "timeout of the broker in seconds; at least 5, or 15 with acknowledgement, doubled \
             after each failure",
        ),
        Property::optional("username", Shape::Text).about("user name at the broker"),
        // An extension of the peer's block: a password may be a secret.
        Property::optional("password", Shape::Text)
            .about(
                "password of that user, or a secret; without tls it is sent unencrypted, which is \
                 a warning",
            )
            .kinds(&[Kind::Text, Kind::Secret]),
        Property::boolean("fail_fast", false).about(
            "whether the step fails if the message is not queued, instead of reporting it in its \
             outputs",
        ),
        // An extension of the peer's block, which has no TLS.
        Property::optional("tls", Shape::Boolean)
            .about("whether the connection is TLS; null: at port 8883"),
    ],
    outputs: sink::PLAIN_OUTPUTS,
    build: |_| Ok(Box::new(run)),
    ..sink::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let fails = call.boolean(arg!("fail_fast"))?;
    let message = message(call).and_then(|message| message.check().map(|()| message));
    let sent = match message {
        Ok(message) => Sent::by(call, Effect::Mqtt(message)),
        Err(why) => Sent::Refused(why),
    };
    match sent {
        Sent::Refused(why) if fails => Err(why),
        sent => sent.put_plainly(call),
    }
}

fn message(call: &Call<'_>) -> Result<MqttMessage, String> {
    let port = call.integer_in(arg!("port"), 1..=u16::MAX.into())?;
    let qos = call.integer(arg!("qos"))?;
    let qos =
        MqttQos::from_number(qos).ok_or_else(|| format!("qos is {qos} and has to be 0, 1 or 2"))?;
    let timeout_s = call.number(arg!("timeout"))?;
    if !(timeout_s.is_finite() && timeout_s > 0.0) {
        return Err(format!(
            "timeout is {timeout_s} and has to be a number of seconds above 0"
        ));
    }
    let username = call.optional(arg!("username"), Call::text)?;
    Ok(MqttMessage {
        host: call.text(arg!("host"))?.to_owned(),
        port,
        tls: call
            .optional(arg!("tls"), Call::boolean)?
            .unwrap_or(port == TLS_PORT),
        username: username.map(str::to_owned),
        password: call.optional(arg!("password"), sealed)?,
        topic: call.text(arg!("topic"))?.to_owned(),
        payload: call.text(arg!("message"))?.to_owned(),
        qos,
        retain: call.boolean(arg!("retain"))?,
        timeout_s,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};
    use watchkeeper_contract::effect::Sealed;

    use super::super::super::Value;
    use super::super::super::tests::bench::Bench;
    use super::{Effect, Kind, MqttQos};

    fn step(more: &Json) -> Json {
        let mut step = json!({
            "type": "mqtt_writer_sink@v1", "host": "broker.example", "port": 1883, "topic": "yard/count",
            "message": "$inputs.text"
        });
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        step
    }

    #[test]
    fn message_is_queued_with_its_password_as_a_name() {
        let step =
            step(&json!({"qos": 1, "retain": true, "username": "gate", "password": "$inputs.key"}));
        let mut bench = Bench::new(step, &[("text", Kind::Text), ("key", Kind::Secret)]);
        let out = bench
            .feed(&[
                ("text", "3".into()),
                ("key", Value::Secret("BROKER".into())),
            ])
            .unwrap();
        assert_eq!(out["error_status"], false, "{out}");
        let [Effect::Mqtt(message)] = bench.effects() else {
            panic!("one message expected");
        };
        assert_eq!(
            (&*message.payload, message.qos),
            ("3", MqttQos::AtLeastOnce)
        );
        assert_eq!(message.password, Some(Sealed::Secret("BROKER".to_owned())));
        assert!(message.retain && !message.tls);
    }

    #[test]
    fn tls_defaults_by_the_port() {
        for (more, tls) in [
            (json!({"port": 8883}), true),
            (json!({"port": 8883, "tls": false}), false),
            (json!({"port": 11883, "tls": true}), true),
        ] {
            let mut bench = Bench::new(step(&more), &[("text", Kind::Text)]);
            bench.feed(&[("text", "3".into())]).unwrap();
            let [Effect::Mqtt(message)] = bench.effects() else {
                panic!("one message expected");
            };
            assert_eq!(message.tls, tls, "{more}");
        }
    }

    #[test]
    fn refused_message_is_output_or_fails_the_step() {
        for (more, part) in [
            (json!({"topic": "yard/#"}), "topic"),
            (json!({"password": "x"}), "username"),
        ] {
            let mut bench = Bench::new(step(&more), &[("text", Kind::Text)]);
            let out = bench.feed(&[("text", "3".into())]).unwrap();
            assert_eq!(out["error_status"], true);
            assert!(out["message"].as_str().unwrap().contains(part), "{out}");
            let mut strict = more.clone();
            strict["fail_fast"] = true.into();
            let mut bench = Bench::new(step(&strict), &[("text", Kind::Text)]);
            let why = bench.feed(&[("text", "3".into())]).unwrap_err();
            assert!(why.contains(part), "{why}");
            assert!(bench.effects().is_empty());
        }
        for more in [json!({"port": 0}), json!({"qos": 3}), json!({"timeout": 0})] {
            let mut refused = step(&more);
            refused["message"] = "3".into();
            let why = Bench::refusal(refused);
            let key = more.as_object().unwrap().keys().next().unwrap();
            assert!(why.contains(key), "{why}");
        }
    }
}
