//! Masks in definitions, and secrets that are put back.

use serde_json::json;

use super::*;

fn definition(token: &str) -> Value {
    json!({"version": "1.0", "inputs": [], "outputs": [], "steps": [
        {"type": "roboflow_core/slack_notification@v1", "name": "slack", "slack_token": token,
        "channel": "c", "message": "m"},
        {"type": "roboflow_core/webhook_sink@v1", "name": "hook",
        "url": "https://hooks.example/T0/B0", "method": "POST",
         "json_payload": {"api_key": "k3y", "count": "$steps.count.output", "text": "mail \
             rtsp://u:p@cam/1"}},
    ]})
}

#[test]
fn changed_copy_gets_hidden_secrets_back() {
    let old = definition("xoxb-1-2-3-4-5-6-7");
    let shown = hidden(&old);
    let text = shown.to_string();
    for secret in ["xoxb", "T0", "k3y", "u:p"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(text.contains("$steps.count.output") && text.contains("hooks.example"));
    let mut copy = shown;
    copy["steps"][0]["message"] = json!("another");
    copy["steps"].as_array_mut().unwrap().swap(0, 1);
    let whole = restore_secrets(&copy, Some(&old)).unwrap();
    assert_eq!(
        whole["steps"][1]["slack_token"],
        old["steps"][0]["slack_token"]
    );
    assert_eq!(whole["steps"][1]["message"], "another");
    assert_eq!(whole["steps"][0], old["steps"][1]);
}

#[test]
fn mask_in_another_place_is_rejected() {
    let old = definition("xoxb-1");
    let mut copy = hidden(&old);
    copy["steps"][0]["name"] = json!("mine");
    let error = restore_secrets(&copy, Some(&old)).unwrap_err();
    assert!(
        error.starts_with("steps.mine.slack_token is ***"),
        "{error}"
    );
    let mut copy = hidden(&old);
    copy["steps"][0]["message"] = json!("***");
    let error = restore_secrets(&copy, Some(&old)).unwrap_err();
    assert!(error.starts_with("steps.slack.message is ***"), "{error}");
    assert!(restore_secrets(&hidden(&old), None).is_err());
    assert_eq!(
        restore_secrets(&definition("$inputs.t"), None).unwrap(),
        definition("$inputs.t")
    );
}

#[test]
fn secret_stays_with_its_destination() {
    let old = json!({"version": "1.0", "outputs": [],
    "inputs": [{"type": "WorkflowParameter", "name": "pass", "default_value": "s3same"}],
    "steps": [
        {"type": "roboflow_core/webhook_sink@v1", "name": "hook",
        "url": "https://hooks.example/in", "method": "POST",
         "headers": {"Authorization": "Bearer k3y"},
         "json_payload": {"count": "$steps.count.output"}},
        {"type": "roboflow_core/email_notification@v1", "name": "mail",
        "smtp_server": "mail.example", "sender_email_password": "$inputs.pass", "subject": "s"},
    ]});
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut copy = hidden(&old);
        change(&mut copy);
        restore_secrets(&copy, Some(&old))
    };
    let whole = changed(&|c| {
        c["steps"][0]["json_payload"]["more"] = json!("$steps.count.output");
        c["steps"][1]["subject"] = json!("t");
    });
    assert_eq!(
        whole.unwrap()["steps"][0]["headers"],
        old["steps"][0]["headers"]
    );
    let elsewhere: [&dyn Fn(&mut Value); 6] = [
        &|c| c["steps"][0]["url"] = json!("https://evil.example/in"),
        &|c| c["steps"][0]["type"] = json!("roboflow_core/local_file_sink@v1"),
        &|c| c["steps"][0]["json_payload"]["count"] = json!("$inputs.pass"),
        &|c| c["steps"][1]["smtp_server"] = json!("mail.evil"),
        &|c| c["steps"][1]["smtp_port"] = json!(25),
        &|c| {
            c["outputs"] = json!([{"type": "JsonField", "name": "o", "selector": "$inputs.pass"}]);
        },
    ];
    for (nth, change) in elsewhere.into_iter().enumerate() {
        let error = changed(change).unwrap_err();
        assert!(error.contains("would take a secret"), "{nth}: {error}");
    }
}

#[test]
fn secret_stays_if_steps_compute_the_destination() {
    let old = json!({"version": "1.0", "outputs": [],
    "inputs": [{"type": "WorkflowParameter", "name": "server",
    "default_value": "mail.example"}, {"type": "WorkflowParameter", "name": "subject",
    "default_value": "s"}],
    "steps": [
        {"type": "roboflow_core/property_definition@v1", "name": "raw",
        "data": "$inputs.server", "operations": []},
        {"type": "roboflow_core/property_definition@v1", "name": "addr",
        "data": "$steps.raw.output", "operations": [{"type": "StringToUpperCase"}]},
        {"type": "roboflow_core/email_notification@v1", "name": "mail",
        "smtp_server": "$steps.addr.output", "sender_email_password": "s3same",
        "subject": "$inputs.subject"},
    ]});
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut copy = hidden(&old);
        change(&mut copy);
        restore_secrets(&copy, Some(&old))
    };
    assert!(changed(&|c| c["inputs"][1]["default_value"] = json!("t")).is_ok());
    for (nth, change) in [
        (
            0,
            &(|c: &mut Value| c["inputs"][0]["default_value"] = json!("mail.evil"))
                as &dyn Fn(&mut Value),
        ),
        (1, &|c: &mut Value| {
            c["steps"][0]["data"] = json!("mail.evil")
        }),
        (2, &|c: &mut Value| c["steps"][1]["operations"] = json!([])),
    ] {
        let error = changed(change).unwrap_err();
        assert!(error.contains("would take a secret"), "{nth}: {error}");
    }
}

#[test]
fn secret_stays_with_its_destination_in_inner_workflow() {
    let input = |name: &str, default: Value| {
        json!({"type": "WorkflowParameter", "name": name,
    "default_value": default})
    };
    let child = json!({"version": "1.0", "outputs": [], "inputs": [input("server",
    json!("mail.example")), input("pass", Value::Null), input("other", json!("s4same")),
    input("text", json!("hello"))],
    "steps": [
        {"type": "roboflow_core/email_notification@v1", "name": "mail",
        "smtp_server": "$inputs.server", "sender_email_password": "$inputs.pass",
        "subject": "$inputs.text"},
        {"type": "roboflow_core/slack_notification@v1", "name": "slack",
        "slack_token": "$inputs.other", "channel": "c", "message": "m"},
    ]});
    let old = json!({"version": "1.0", "outputs": [], "inputs": [input("hook",
    json!("https://hooks.example/services/T0"))], "steps": [
        {"type": "roboflow_core/inner_workflow@v1", "name": "in",
        "workflow_definition": child, "parameter_bindings": {"pass": "s3same"}},
        {"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "$inputs.hook",
        "method": "POST", "json_payload": {}},
    ]});
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut copy = hidden(&old);
        assert!(!copy.to_string().contains("same"), "{copy}");
        change(&mut copy);
        restore_secrets(&copy, Some(&old))
    };
    let whole = changed(&|c| c["steps"][0]["parameter_bindings"]["text"] = json!("hi"));
    let bindings = whole.unwrap()["steps"][0]["parameter_bindings"].take();
    assert_eq!(bindings, json!({"pass": "s3same", "text": "hi"}));
    let elsewhere: [&dyn Fn(&mut Value); 6] = [
        &|c| c["steps"][0]["parameter_bindings"]["server"] = json!("mail.evil"),
        &|c| {
            c["steps"][0]["workflow_definition"]["inputs"][0]["default_value"] = json!("mail.evil");
        },
        &|c| c["steps"][0]["workflow_definition"]["steps"][0]["subject"] = json!("$inputs.pass"),
        // One secret in place of another: both masks look the same.
        &|c| {
            c["steps"][0]["workflow_definition"]["steps"][1]["slack_token"] = json!("$inputs.pass")
        },
        // The address of a webhook is a secret.
        &|c| {
            c["outputs"] = json!([{"type": "JsonField", "name": "o", "selector": "$inputs.hook"}]);
        },
        &|c| c["steps"][1]["json_payload"] = json!({"a": "$inputs.hook"}),
    ];
    for (nth, change) in elsewhere.into_iter().enumerate() {
        let error = changed(change).unwrap_err();
        assert!(error.contains("would take a secret"), "{nth}: {error}");
        assert!(!error.contains("same"), "{nth}: {error}");
    }
}

#[test]
fn different_secrets_get_different_masks() {
    let (one, other) = redact_pair(&definition("xoxb-1"), &definition("xoxb-2"));
    assert_eq!(one["steps"][0]["slack_token"], "***");
    assert_ne!(one, other);
    assert!(!other.to_string().contains("xoxb"));
    let (one, other) = redact_pair(&definition("xoxb-1"), &definition("xoxb-1"));
    assert_eq!(one, other);
}
