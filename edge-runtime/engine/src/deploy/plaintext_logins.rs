//! Logins that a workflow would send unencrypted: worth a word when it is deployed, as nobody sees them on the wire.
//!
//! Only what is certain is told: a step whose port or `tls` comes from outside is told by whoever sends its messages.

use serde_json::Value as Json;
use watchkeeper_contract::host::is_this_machine;
use watchkeeper_contract::pipeline::{PipelineWarning, WarningKind};

/// Block that logs in with or without TLS; e-mail always has it.
const PUBLISHER: &str = "mqtt_writer_sink@";
/// The port at which brokers speak TLS.
const TLS_PORT: i64 = 8883;

/// The steps of a workflow that send a password over a network without TLS.
pub(super) fn logins_in_clear(workflow: &Json) -> Vec<PipelineWarning> {
    let steps = workflow["steps"].as_array().into_iter().flatten();
    let in_clear = steps.filter(|step| is_in_clear(step));
    in_clear
        .map(|step| {
            let name = step["name"].as_str().unwrap_or_default();
            PipelineWarning {
                kind: WarningKind::LoginInClear,
                message: format!(
                    "step {name:?} sends its password to the broker unencrypted; give it tls (port {TLS_PORT}), or a user who may do nothing else"
                ),
            }
        })
        .collect()
}

fn is_in_clear(step: &Json) -> bool {
    let block = step["type"].as_str().unwrap_or_default();
    let is_publisher = block.rsplit('/').next().unwrap_or_default();
    let without_tls = match &step["tls"] {
        Json::Bool(tls) => !tls,
        Json::Null => step["port"].as_i64().is_some_and(|port| port != TLS_PORT),
        _ => false,
    };
    let is_here = step["host"].as_str().is_some_and(is_this_machine);
    is_publisher.starts_with(PUBLISHER) && !step["password"].is_null() && without_tls && !is_here
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_password_that_passes_a_network_unencrypted_is_told_and_no_other() {
        let told = |more: Json| {
            let mut step = json!({
                "type": "roboflow_enterprise/mqtt_writer_sink@v1", "name": "tell", "host": "broker.example", "port": 1883,
                "topic": "a", "message": "b", "username": "gate", "password": "$inputs.key",
            });
            for (key, value) in more.as_object().into_iter().flatten() {
                step[key] = value.clone();
            }
            let warnings = logins_in_clear(&json!({"steps": [step]}));
            warnings.into_iter().map(|w| w.message).collect::<Vec<_>>()
        };
        for more in [
            json!({}),
            json!({"type": "mqtt_writer_sink@v1"}),
            json!({"port": 8883, "tls": false}),
            json!({"host": "192.168.1.4"}),
            json!({"host": "$inputs.host"}),
        ] {
            let said = told(more.clone());
            assert!(
                said.len() == 1 && said[0].contains("\"tell\""),
                "{more}: {said:?}"
            );
        }
        for more in [
            json!({"port": 8883}),
            json!({"tls": true}),
            json!({"tls": "$inputs.tls"}),
            json!({"port": "$inputs.port"}),
            json!({"password": null}),
            json!({"host": "localhost"}),
            json!({"host": "127.0.0.1"}),
            json!({"host": "::1"}),
            json!({"type": "roboflow_core/webhook_sink@v1"}),
        ] {
            assert_eq!(told(more.clone()), [""; 0], "{more}");
        }
        assert_eq!(logins_in_clear(&json!({"steps": 3})), []);
    }
}
