//! Warnings about passwords that a workflow sends unencrypted.
//!
//! - Only certain cases are reported: not a step whose port or `tls` comes from an input.

use serde_json::Value as Json;
use watchkeeper_contract::host::is_this_machine;
use watchkeeper_contract::pipeline::{PipelineWarning, WarningKind};

/// Block that logs in with or without TLS; e-mail always uses TLS.
const PUBLISHER: &str = "mqtt_writer_sink@";
/// Port on which brokers speak TLS.
const TLS_PORT: i64 = 8883;

/// Returns a warning for each step that sends a password over a network without TLS.
pub(super) fn plaintext_logins(workflow: &Json) -> Vec<PipelineWarning> {
    let steps = workflow["steps"].as_array().into_iter().flatten();
    let plaintext = steps.filter(|step| sends_plaintext(step));
    plaintext
        .map(|step| {
            let name = step["name"].as_str().unwrap_or_default();
            PipelineWarning {
                kind: WarningKind::LoginInClear,
                message: format!(
                    "step {name:?} sends its password to the broker unencrypted; set tls to true \
                     (port {TLS_PORT}), or use an account without other rights"
                ),
            }
        })
        .collect()
}

fn sends_plaintext(step: &Json) -> bool {
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
    fn only_passwords_sent_over_a_network_in_plaintext_warn() {
        let reported = |more: Json| {
            let mut step = json!({
                "type": "roboflow_enterprise/mqtt_writer_sink@v1", "name": "tell", "host": "broker.example", "port": 1883,
                "topic": "a", "message": "b", "username": "gate", "password": "$inputs.key",
            });
            for (key, value) in more.as_object().into_iter().flatten() {
                step[key] = value.clone();
            }
            let warnings = plaintext_logins(&json!({"steps": [step]}));
            warnings.into_iter().map(|w| w.message).collect::<Vec<_>>()
        };
        for more in [
            json!({}),
            json!({"type": "mqtt_writer_sink@v1"}),
            json!({"port": 8883, "tls": false}),
            json!({"host": "192.168.1.4"}),
            json!({"host": "$inputs.host"}),
        ] {
            let said = reported(more.clone());
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
            assert_eq!(reported(more.clone()), [""; 0], "{more}");
        }
        assert_eq!(plaintext_logins(&json!({"steps": 3})), []);
    }
}
