//! Findings of `config check` about files, sections and pipelines.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
use watchkeeper_config::{LoadRequest, Report};

use super::*;

/// A workflow with a line `road`.
const ROAD: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [
        {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"},
        {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
        {"type": "roboflow_core/line_counter@v2", "name": "road", "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections", "line_segment": [[0, 5], [9, 5]]}],
        "outputs": [{"type": "JsonField", "name": "in", "selector": "$steps.road.count_in"}]}"#;

/// A workflow with a zone `hall` and two parameters.
const HALL: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowParameter", "name": "conf"}, {"type": "WorkflowParameter", "name": "zone"}], "steps": [
        {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion",
            "confidence": "$inputs.conf"},
        {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
        {"type": "roboflow_core/time_in_zone@v3", "name": "hall", "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections", "zone": "$inputs.zone"}], "outputs": []}"#;

fn check_text(text: &str) -> Report {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("road.json"), ROAD).unwrap();
    std::fs::write(dir.path().join("hall.json"), HALL).unwrap();
    std::fs::write(dir.path().join("wk.toml"), text).unwrap();
    let request = LoadRequest {
        file: Some(dir.path().join("wk.toml")),
        hostname: "h".to_owned(),
        ..LoadRequest::default()
    };
    watchkeeper_config::check(&request, &check)
}

fn places(errors: &[ConfigError]) -> Vec<(&str, Option<usize>)> {
    errors.iter().map(|e| (e.key.as_str(), e.line)).collect()
}

#[test]
fn invalid_address_is_an_error_without_its_password() {
    let report = check_text(
        "[sources.a]\nuri = \"rstp://cam/1\"\n[sources.b]\nuri = \"demo:?sed=1\"\n\
         [sources.c]\nuri = \"admin:hunter2@cam/live\"\n[sources.d]\nuri = \"/no/such.mp4\"\n[sources.e]\nuri = \"demo:?seed=1\"\n",
    );
    let keys = [
        "sources.a.uri",
        "sources.b.uri",
        "sources.c.uri",
        "sources.d.uri",
    ];
    let lines = [2, 4, 6, 8].map(Some);
    let wanted: Vec<_> = keys.into_iter().zip(lines).collect();
    assert_eq!(places(&report.warnings), wanted);
    let text: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert!(!text.concat().contains("hunter2"), "{text:?}");
}

#[test]
fn absent_device_is_a_note_because_the_runtime_waits() {
    let report = check_text("[sources.a]\nuri = \"/dev/video250\"\n");
    assert_eq!(places(&report.warnings), []);
    let notes = report.notes.concat();
    assert!(
        notes.contains("sources.a.uri: /dev/video250 is not there now"),
        "{notes}"
    );
}

#[test]
fn target_fps_without_effect_is_a_note() {
    let notes_of = |source: &str| {
        let text = format!(
            "[sources.s]\nuri = \"demo:\"\n{source}\n\
             [pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\ntarget_fps = 5\n"
        );
        check_text(&text).notes.concat()
    };
    let notes = notes_of("");
    assert!(
        notes.contains("pipelines.p.target_fps: no effect"),
        "{notes}"
    );
    let native = notes_of("pace = \"native\"");
    assert!(!native.contains("target_fps"), "{native}");
}

#[test]
fn error_at_the_top_hides_none_below() {
    let report = check_text(
        "[runtime]\njournal_events = 5\n\n[sources.s]\nuri = \"demo:\"\n\n[sources.t]\npace = \"fast\"\n\n\
         [pipelines.p]\nsource = \"x\"\nworkflow = \"none.json\"\n\n\
         [pipelines.q]\nsource = \"s\"\nworkflow = \"road.json\"\nmodel = \"nosuch\"\n\n\
         [pipelines.r]\nsource = \"s\"\nworkflow = \"road.json\"\n\
         [[pipelines.r.rules]]\nname = \"a\"\nwhen = { kind = \"crosses\", line = \"raod\" }\n\n\
         [mqtt]\nhost = \"b\"\ntls = true\nca_file = \"none.pem\"\n",
    );
    assert_eq!(
        places(&report.errors),
        [("runtime.journal_events", Some(2))]
    );
    let expected = [
        ("sources.t.uri", Some(7)),
        ("pipelines.p.source", Some(11)),
        ("pipelines.p.workflow", Some(12)),
        ("pipelines.q.model", Some(17)),
        ("pipelines.r.rules[0].when.line", Some(24)),
        ("mqtt.ca_file", Some(29)),
    ];
    assert_eq!(places(&report.warnings), expected);
    let rule = report.warnings[4].to_string();
    assert!(
        rule.contains("did you mean road?") && rule.ends_with(":24)"),
        "{rule}"
    );
}

#[test]
fn error_in_a_section_hides_no_other_error() {
    let report = check_text(
        "[sources.a]\nuri = \"rtps://cam/1\"\nmax_fps = -1\n\n[sources.b]\nuri = \"missing.mp4\"\n\n\
         [pipelines.p]\nsource = \"a\"\nworkflow = \"road.json\"\nmodel = \"yolo\"\n\
         rules = [{ name = \"x\", when = { kind = \"crossed\" } }, { name = \"y\", when = { kind = \"crosses\", line = \"raod\" } }]\n\n\
         [pipelines.q]\nsource = \"bb\"\nworkflow = \"none.json\"\nmodel = \"yolo\"\ndetect = { mode = \"sometimes\" }\n\n\
         [runtime]\nstate_dir = \"/proc/nope\"\n",
    );
    let mut keys: Vec<&str> = report.warnings.iter().map(|w| w.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "pipelines.p.model",
            "pipelines.p.rules[0].when.kind",
            "pipelines.p.rules[1].when.line",
            "pipelines.p.source",
            "pipelines.q.detect.mode",
            "pipelines.q.model",
            "pipelines.q.source",
            "pipelines.q.workflow",
            "sources.a.max_fps",
            "sources.a.uri",
            "sources.b.uri",
        ]
    );
    // No daemon starts there.
    assert_eq!(places(&report.errors), [("runtime.state_dir", Some(21))]);
    let said = |key: &str| {
        let error = report.warnings.iter().find(|w| w.key == key);
        error.map(ToString::to_string).unwrap_or_default()
    };
    assert!(said("sources.a.uri").contains("did you mean rtsp?"));
    assert!(said("pipelines.p.source").contains("left out because of an error in [sources.a]"));
    assert!(said("pipelines.q.source").contains("allowed: a, b"));
}

#[test]
fn wrong_rule_hides_no_unknown_channel_and_is_a_rule() {
    let report = check_text(
        "[sources.s]\nuri = \"demo:\"\n\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n\
         [[pipelines.p.rules]]\nname = \"a\"\nwhen = { kind = \"crossed\" }\nnotify = [\"ofice\"]\n\
         [[pipelines.p.rules]]\nname = \"b\"\nwhen = { kind = \"crosses\", line = \"raod\" }\n",
    );
    let expected = [
        ("pipelines.p.rules[0].when.kind", Some(9)),
        ("pipelines.p.rules[0].notify", Some(10)),
        ("pipelines.p.rules[1].when.line", Some(13)),
    ];
    assert_eq!(places(&report.warnings), expected);
    // The rest of a wrong rule is unknown.
    let note = "sections with an error are checked further once their errors are corrected";
    assert_eq!(report.notes, [note]);
}

#[test]
fn error_about_address_file_does_not_show_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("address");
    std::fs::write(&file, "hooks.example.org/T0K3N").unwrap();
    let file = file.display();
    let report = check_text(&format!(
        "[channels.a]\nkind = \"slack\"\nurl_file = \"none.url\"\n\
         [channels.b]\nkind = \"slack\"\nurl_file = \"{file}\"\n"
    ));
    let expected = [
        ("channels.a.url_file", Some(3)),
        ("channels.b.url_file", Some(6)),
    ];
    assert_eq!(places(&report.warnings), expected);
    let text: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert!(!text.concat().contains("T0K3N"), "{text:?}");
}

#[test]
fn missing_tls_files_are_errors_with_key_value_and_remedy() {
    let report = check_text(
        "[mqtt]\nhost = \"b\"\ntls = true\nca_file = \"road.json\"\ncert_file = \"none.crt\"\nkey_file = \"none.key\"\n",
    );
    let expected = [
        ("mqtt.ca_file", Some(4)),
        ("mqtt.cert_file", Some(5)),
        ("mqtt.key_file", Some(6)),
    ];
    assert_eq!(places(&report.warnings), expected);
    let lines: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert!(
        lines[1].contains("none.crt: no such file; put it there"),
        "{lines:?}"
    );
    assert!(
        lines[0].contains("road.json: the file has no certificate in PEM form"),
        "{lines:?}"
    );
}

#[test]
fn rule_with_a_class_unknown_to_its_model_is_an_error() {
    let text = "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n\
         [[pipelines.p.rules]]\nname = \"a\"\nwhen = { kind = \"crosses\", line = \"road\" }\nclasses = [\"person\"]\n";
    let report = check_text(text);
    assert_eq!(
        places(&report.warnings),
        [("pipelines.p.rules[0].classes[0]", Some(9))]
    );
}

#[test]
fn invalid_parameter_is_an_error_and_empty_zone_a_note() {
    let with = |parameters: &str| {
        check_text(&format!(
            "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"hall.json\"\nparameters = {{ {parameters} }}\n"
        ))
    };
    let wrong = with("conf = 7, zone = []");
    let [error] = wrong.warnings.as_slice() else {
        panic!("{:?}", wrong.warnings);
    };
    assert_eq!(error.key, "pipelines.p.parameters.conf");
    assert_eq!(error.found.as_deref(), Some("7"));
    assert!(error.to_string().contains("from 0 to 1"), "{error}");
    let empty = with("conf = 0.5, zone = []");
    assert_eq!(places(&empty.warnings), []);
    assert!(
        empty.notes.len() == 1
            && empty.notes[0].contains("zone of step hall has fewer than three corners"),
        "{:?}",
        empty.notes
    );
}

#[test]
fn pipeline_without_rules_is_a_note() {
    let text =
        "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n";
    let quiet = check_text(&format!("{text}rules = []\n"));
    assert_eq!(
        quiet.notes,
        ["pipelines.p: no rules, so it makes no events"]
    );
    let derived = check_text(text);
    assert_eq!((derived.notes.len(), derived.warnings), (0, vec![]));
}

#[test]
fn source_of_a_chain_that_can_never_answer_is_an_error() {
    let report = check_text(
        "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n\
         [[pipelines.p.rules]]\nname = \"a\"\nwhen = { kind = \"crosses\", line = \"road\" }\n\
         decide = { chain = [\"vehicle\", \"list\", \"fleet\", \"lst\", \"broken\", \"person\"] }\n\
         [agent.lookups.list]\nkind = \"table\"\npath = \"list.csv\"\nkey = \"k\"\n\
         [agent.lookups.vehicle]\nkind = \"fields\"\nschema = { properties = { plate = { type = \"string\" } } }\n\
         [agent.lookups.fleet]\nkind = \"table\"\npath = \"list.csv\"\nkey = \"k\"\nvalue = \"fields.plat\"\n\
         [agent.lookups.broken]\nkind = \"http\"\n",
    );
    let all = report.errors.iter().chain(&report.warnings);
    let chain: Vec<String> = all
        .filter(|error| error.key.contains("chain"))
        .map(ToString::to_string)
        .collect();
    let expected = [
        "asks a language model",
        "the rule has none; set decide.code or decide.text",
        "looks up fields.plat, and no source before it reads that",
        "is not a source; add a section [agent.lookups.lst]",
    ];
    assert_eq!(chain.len(), expected.len(), "{chain:?}");
    for (error, part) in chain.iter().zip(expected) {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn reference_model_is_checked_if_a_chain_uses_it() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models");
    let keys = |source: &str, references: &str| {
        let report = check_text(&format!(
            "[models]\ndir = {:?}\n[sources.s]\nuri = \"demo:\"\n\
             [pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n\
             [[pipelines.p.rules]]\nname = \"a\"\n\
             when = {{ kind = \"crosses\", line = \"road\" }}\n\
             decide = {{ chain = [\"box\", \"{source}\", \"person\"], \
             text = \"$steps.detect.predictions\" }}\n\
             [agent.references]\n{references}\n",
            models.display().to_string()
        ));
        let all = report.errors.into_iter().chain(report.warnings);
        all.filter(|error| error.key.contains("references"))
            .map(|error| error.key)
            .collect::<Vec<_>>()
    };
    let set = "reference staff";
    let model = ["agent.references.model"];
    assert_eq!(keys(set, "model = \"nothing\""), model);
    assert_eq!(keys("text", "model = \"nothing\""), Vec::<String>::new());
    let least = ["agent.references.min_likeness"];
    assert_eq!(keys(set, "model = \"bright-look\""), least);
    let both = "model = \"bright-look\"\nmin_likeness = 0.9";
    assert_eq!(keys(set, both), Vec::<String>::new());
}

#[test]
fn names_that_the_file_does_not_have_are_noted_for_schedules() {
    let report = check_text(
        "[sources.street]\nuri = \"demo:\"\n\
         [agent.jobs.gate]\nrequest = \"the 3 best of today's cars\"\n\
         on = { camera = \"stret\", rule = \"sits\" }\n",
    );
    let notes = report.notes.join("\n");
    for part in [
        "on.camera: the file has no camera stret",
        "(known: street)",
        "on.rule",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
}

#[test]
fn clip_of_a_stream_that_the_source_lacks_is_a_note() {
    let report = check_text(
        "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n\
         [[pipelines.p.rules]]\nname = \"a\"\nwhen = { kind = \"crosses\", line = \"road\" }\n\
         clip = { before_s = 2, after_s = 2, made_of = \"stream\" }\n",
    );
    let notes = report.notes.concat();
    assert!(
        notes.contains("rules[0].clip.made_of: the source s has no encoded stream"),
        "{notes}"
    );
}

#[test]
fn missing_secret_and_folder_of_the_archive_are_errors() {
    let report = check_text(
        "[agent.archive]\ningest_roots = [\"none\"]\ns3_endpoints = [\"https://s3.example.com\"]\n\
         s3_bucket = \"b\"\ns3_prefix = \"p/\"\ns3_access_key = \"k\"\ns3_secret_key_file = \"none.key\"\n",
    );
    let keys: Vec<&str> = report.warnings.iter().map(|e| e.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "agent.archive.ingest_roots[0]",
            "agent.archive.s3_secret_key_file"
        ]
    );
}

#[test]
fn channels_that_no_rule_names_are_noted() {
    let text = "[sources.a]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"a\"\nworkflow = \"road.json\"\n\
         rules = [{ name = \"r\", when = { kind = \"crosses\", line = \"road\" }, notify = [\"desk\"] }]\n\
         [channels.desk]\nurl = \"https://h/1\"\n[channels.all]\nurl = \"https://h/2\"\nmin_severity = \"info\"\n\
         [channels.yard]\nurl = \"https://h/3\"\n";
    let report = check_text(text);
    assert_eq!(report.warnings, []);
    let notes = report.notes.iter().filter(|n| n.starts_with("channels."));
    let notes: Vec<&String> = notes.collect();
    assert!(
        notes.len() == 1 && notes[0].starts_with("channels.yard:"),
        "{notes:?}"
    );
    let config = report.config.unwrap();
    assert_eq!(deployed(&config, &config.pipelines), [""; 0]);
    let no_channels = Config {
        channels: Vec::new(),
        ..config.clone()
    };
    let found = deployed(&no_channels, &config.pipelines);
    assert!(
        found.len() == 1 && found[0].contains("add a section [channels.desk]"),
        "{found:?}"
    );
}

#[test]
fn masked_class_that_no_model_knows_is_an_error() {
    let report = check_text(
        "[sources.s]\nuri = \"rtsp://cam/1\"\n[sources.s.privacy]\nclasses = [\"persn\"]\n\
         [pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n",
    );
    let wanted = [("sources.s.privacy.classes", Some(4))];
    assert_eq!(places(&report.warnings), wanted);
    let shown = report.warnings[0].to_string();
    assert!(
        shown.contains("persn") && shown.contains("pipeline p"),
        "{shown}"
    );
}

#[test]
fn line_outside_pictures_of_a_known_size_is_an_error() {
    let of = |source: &str| {
        check_text(&format!(
            "[sources.s]\n{source}\n[pipelines.p]\nsource = \"s\"\nworkflow = \"hall.json\"\n\
             parameters = {{ conf = 0.5, zone = [[700, 10], [900, 10], [900, 90]] }}\n"
        ))
    };
    for source in [
        "uri = \"demo:\"",
        "uri = \"rtsp://cam/1\"\nscale = [640, 360]",
    ] {
        let report = of(source);
        let keys: Vec<&str> = report.warnings.iter().map(|e| e.key.as_str()).collect();
        assert_eq!(keys, ["pipelines.p.workflow"], "{source}");
        assert!(report.warnings[0].to_string().contains("640x360"));
    }
    assert_eq!(places(&of("uri = \"rtsp://cam/1\"").warnings), []);
}

#[test]
fn token_file_of_the_api_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let check = || {
        check_text(&format!(
            "[agent.api]\nlisten = \"127.0.0.1:8088\"\ntoken_file = {file:?}\n"
        ))
    };
    std::fs::write(&file, "short").unwrap();
    let report = check();
    assert_eq!(
        places(&report.warnings),
        [("agent.api.token_file", Some(3))]
    );
    assert!(!report.warnings[0].to_string().contains("short"));
    std::fs::write(&file, "0123456789abcdef".repeat(4)).unwrap();
    assert_eq!(places(&check().warnings), []);
}
