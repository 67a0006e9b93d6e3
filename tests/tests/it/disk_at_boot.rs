//! A disk that is full or read-only at the start: the box watches, reports it, and stores later.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::broker::{Mosquitto, Subscriber};
use watchkeeper_tests::daemons::{Bench, FAILED, wait_for, wait_up_to};
use watchkeeper_tests::hooks::{Hooks, Request};
use watchkeeper_tests::mounts::{SmallDisk, in_private_mounts, make_read_only, make_writable};
use watchkeeper_tests::scene::{
    LONG, STREET, check_nothing_lost, deploy, more_events, wait_for_all_events,
};

use crate::full_disk::{DISK_MIB, SMALL_REST, command, reasons, watched_disk};

const WORKFLOW: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [
    {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"}],
    "outputs": [{"type": "JsonField", "name": "seen", "selector": "$steps.detect.predictions"}]}"#;

/// Sections of a source and a pipeline that watches it.
fn watching_section(bench: &Bench) -> anyhow::Result<String> {
    std::fs::write(bench.path("early.json"), WORKFLOW)?;
    Ok(format!(
        "[sources.street]\nuri = {STREET:?}\npace = \"native\"\n\n\
         [pipelines.early]\nsource = \"street\"\nworkflow = \"early.json\"\n"
    ))
}

/// Frames of the source `street` so far.
fn frames(bench: &Bench) -> Option<u64> {
    let status = bench.get("/v1/sources/street").ok()?;
    status.get("counters")?.get("frames")?.as_u64()
}

/// Waits until the camera delivers frames.
fn check_watching(bench: &Bench) -> anyhow::Result<()> {
    let before = wait_up_to(LONG, "a frame", || frames(bench).filter(|count| *count > 0))?;
    wait_up_to(LONG, "more frames", || {
        frames(bench).filter(|count| *count > before)
    })?;
    Ok(())
}

/// Number of events that wait in memory, by the reason of the degraded health.
fn waiting(bench: &Bench) -> Option<u64> {
    let reason = reasons(bench)
        .into_iter()
        .find(|reason| reason.contains("events can't be stored"))?;
    let (before, _) = reason.split_once(" events wait in memory")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Checks what health, `status` and `doctor` say of a disk that refuses.
fn check_reported(bench: &Bench, parts: &[&str]) -> anyhow::Result<()> {
    let health = bench.get("/v1/health")?;
    ensure!(health["state"] == "degraded", "{health:#}");
    let reasons = reasons(bench);
    let reason = reasons
        .iter()
        .find(|reason| reason.contains("events can't be stored"))
        .with_context(|| format!("{reasons:?}"))?;
    for part in parts.iter().chain(&["since 20", "without a restart"]) {
        ensure!(reason.contains(part), "no {part:?} in {reason}");
    }
    for name in ["status", "doctor"] {
        let out = command(bench, &[name])?;
        let text = String::from_utf8(out.stdout)?;
        for part in parts {
            ensure!(text.contains(part), "{name}: no {part:?} in {text}");
        }
        ensure!(
            name == "status" || out.status.code() == Some(FAILED),
            "{text}"
        );
    }
    Ok(())
}

/// Checks that nothing is missing between the numbers of `events`, and that each event began before
/// it ended.
fn check_order(events: &[Value]) -> anyhow::Result<()> {
    let mut begun = BTreeSet::new();
    for (event, next) in events.iter().zip(events.iter().skip(1)) {
        let number = |event: &Value| event["seq"].as_u64();
        ensure!(number(event).map(|n| n + 1) == number(next), "{next:#}");
    }
    for event in events {
        let id = event["id"].to_string();
        ensure!(
            begun.contains(&id) || event["phase"] == "new",
            "an event that never began: {event:#}"
        );
        begun.insert(id);
    }
    Ok(())
}

#[test]
fn full_disk_at_boot_deletes_old_recordings_and_starts() -> anyhow::Result<()> {
    let name = "disk_at_boot::full_disk_at_boot_deletes_old_recordings_and_starts";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let (disk, runtime, held) = watched_disk(&bench)?;
        runtime.kill()?;
        let recordings = bench.path("state/recordings");
        std::fs::create_dir_all(&recordings)?;
        let [old, new] = ["watch.1.mp4", "watch.2.mp4"].map(|part| recordings.join(part));
        for part in [&old, &new] {
            std::fs::write(part, vec![0x55; 40 << 20])?;
        }
        disk.fill(SMALL_REST)?;

        let runtime = bench.runtime()?;
        ensure!(!old.exists() && new.exists(), "{}", runtime.log_text());
        ensure!(reasons(&bench).is_empty(), "{:?}", reasons(&bench));
        check_nothing_lost(&held, &more_events(&bench, 3)?)?;
        let log = runtime.log_text();
        ensure!(log.contains("deleted old recordings and pictures"), "{log}");
        runtime.stop()
    })
}

#[test]
fn full_disk_at_boot_watches_and_stores_events_later() -> anyhow::Result<()> {
    let name = "disk_at_boot::full_disk_at_boot_watches_and_stores_events_later";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let (disk, runtime, held) = watched_disk(&bench)?;
        runtime.kill()?;
        disk.fill(0)?;

        let mut runtime = bench.runtime()?;
        // The deployment of the last run, and its events, are still known.
        check_watching(&bench)?;
        check_nothing_lost(&held, &bench.events()?)?;
        check_reported(&bench, &["is full", "free some space"])?;
        wait_up_to(LONG, "events to wait", || {
            waiting(&bench).filter(|count| *count > 2)
        })?;
        let stored = bench.events()?;
        let source = json!({"id": "other", "uri": "demo:"});
        let (code, text) = bench.request("PUT", "/v1/sources/other", Some(&source))?;
        let text = String::from_utf8_lossy(&text);
        ensure!(code == 507 && text.contains("is full"), "{code} {text}");
        ensure!(
            bench.events()? == stored,
            "something was stored without room"
        );

        disk.make_room()?;
        let after = more_events(&bench, 5)?;
        check_nothing_lost(&stored, &after)?;
        check_order(&after)?;
        wait_for("health to be well again", || {
            reasons(&bench).is_empty().then_some(())
        })?;
        ensure!(runtime.is_running(), "{}", runtime.log_text());
        bench.json("PUT", "/v1/sources/other", Some(&source))?;
        let log = runtime.log_text();
        ensure!(!log.contains("panicked"), "{log}");
        ensure!(log.contains("events are stored again"), "{log}");
        runtime.stop()?;
        let runtime = bench.runtime()?;
        check_nothing_lost(&after, &bench.events()?)?;
        runtime.stop()
    })
}

#[test]
fn first_boot_on_a_full_disk_watches_by_the_configuration() -> anyhow::Result<()> {
    let name = "disk_at_boot::first_boot_on_a_full_disk_watches_by_the_configuration";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        bench.configure(&watching_section(&bench)?)?;
        let disk = SmallDisk::mount(&bench.path("state"), DISK_MIB)?;
        disk.fill(0)?;
        let mut runtime = bench.runtime()?;
        check_watching(&bench)?;
        check_reported(&bench, &["is full", "free some space"])?;
        disk.make_room()?;
        wait_up_to(LONG, "health to be well", || {
            reasons(&bench).is_empty().then_some(())
        })?;
        deploy(&bench)?;
        let events = more_events(&bench, 3)?;
        check_order(&events)?;
        ensure!(runtime.is_running(), "{}", runtime.log_text());
        runtime.stop()
    })
}

#[test]
fn read_only_disk_at_boot_watches_and_stores_events_later() -> anyhow::Result<()> {
    let name = "disk_at_boot::read_only_disk_at_boot_watches_and_stores_events_later";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let state = bench.path("state");
        let runtime = bench.runtime()?;
        deploy(&bench)?;
        let held = more_events(&bench, 3)?;
        runtime.kill()?;
        make_read_only(&state)?;

        let mut runtime = bench.runtime()?;
        check_watching(&bench)?;
        check_nothing_lost(&held, &bench.events()?)?;
        check_reported(&bench, &["can't be written", "Read-only file system"])?;
        wait_up_to(LONG, "events to wait", || {
            waiting(&bench).filter(|count| *count > 2)
        })?;
        make_writable(&state)?;
        let after = more_events(&bench, 5)?;
        check_nothing_lost(&held, &after)?;
        check_order(&after)?;
        wait_for("health to be well again", || {
            reasons(&bench).is_empty().then_some(())
        })?;
        ensure!(runtime.is_running(), "{}", runtime.log_text());
        ensure!(!runtime.log_text().contains("panicked"));
        runtime.stop()
    })
}

#[test]
fn missing_state_folder_on_a_read_only_disk_is_made_later() -> anyhow::Result<()> {
    let name = "disk_at_boot::missing_state_folder_on_a_read_only_disk_is_made_later";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let above = bench.path("disk");
        std::fs::create_dir(&above)?;
        let config = std::fs::read_to_string(bench.config())?;
        let config = config.replace("/state\"", "/disk/state\"");
        let section = watching_section(&bench)?;
        std::fs::write(bench.config(), format!("{config}{section}"))?;
        make_read_only(&above)?;
        let runtime = bench.runtime()?;
        check_watching(&bench)?;
        check_reported(&bench, &["can't be written", "Read-only file system"])?;
        make_writable(&above)?;
        wait_up_to(LONG, "health to be well", || {
            reasons(&bench).is_empty().then_some(())
        })?;
        deploy(&bench)?;
        more_events(&bench, 3)?;
        runtime.stop()
    })
}

#[test]
fn events_that_waited_in_a_killed_runtime_become_a_loss_record() -> anyhow::Result<()> {
    let name = "disk_at_boot::events_that_waited_in_a_killed_runtime_become_a_loss_record";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let (disk, runtime, _) = watched_disk(&bench)?;
        disk.fill(SMALL_REST)?;
        let wait = || {
            wait_up_to(LONG, "events to wait", || {
                waiting(&bench).filter(|n| *n > 0)
            })
        };
        wait()?;
        disk.fill(0)?;
        runtime.kill()?;
        // The next run is killed before it can report that.
        let runtime = bench.runtime()?;
        wait()?;
        runtime.kill()?;

        disk.make_room()?;
        let runtime = bench.runtime()?;
        let losses = || -> anyhow::Result<Vec<Value>> {
            let mut events = bench.events()?;
            events.retain(|event| event["body"]["kind"] == "loss" && event["phase"] == "new");
            Ok(events)
        };
        let [loss] = &losses()?[..] else {
            anyhow::bail!("not one loss: {:?}", losses()?);
        };
        let message = loss["body"]["message"].as_str().unwrap_or_default();
        for part in ["events from 20", " to 20", "may be lost", "is full"] {
            ensure!(message.contains(part), "no {part:?} in {message}");
        }
        ensure!(loss["severity"] == "critical", "{loss:#}");
        more_events(&bench, 3)?;
        runtime.stop()?;
        let runtime = bench.runtime()?;
        ensure!(losses()?.len() == 1, "the loss was reported twice");
        runtime.stop()
    })
}

/// The last `why` of the agent's retained health, if it is in the state `state`.
fn agent_health(watching: &Subscriber, state: &str) -> Option<String> {
    let health = watching.bodies("/svc/agent/health").pop()?;
    (health["s"] == state).then(|| health["why"].to_string())
}

/// The body of a notice, which is a form, with its spaces.
fn words(request: &Request) -> String {
    request.text().replace('+', " ")
}

/// Configures a broker that may command, and a webhook for critical notices.
fn configure(bench: &Bench, broker: &Mosquitto, server: &Hooks) -> anyhow::Result<()> {
    let url = bench.path("hook.url");
    std::fs::write(&url, format!("{}\n", server.url("/hook")))?;
    bench.configure(&format!(
        "{}commands = \"all\"\n\n[channels.ops]\n\
         url_file = {url:?}\nmin_severity = \"critical\"\n",
        broker.section()
    ))
}

#[test]
fn agent_on_a_full_disk_reports_it_and_refuses_commands() -> anyhow::Result<()> {
    let name = "disk_at_boot::agent_on_a_full_disk_reports_it_and_refuses_commands";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let broker = Mosquitto::start(&bench.path("broker"))?;
        let server = Hooks::start()?;
        configure(&bench, &broker, &server)?;
        let watching = broker.subscribe("watchkeeper/v1/test/bench/#")?;
        let disk = SmallDisk::mount(&bench.path("state"), DISK_MIB)?;
        disk.fill(0)?;

        let mut agent = bench.agent()?;
        wait_up_to(LONG, "the birth message", || {
            watching.bodies("/birth").pop()
        })
        .with_context(|| agent.log_text())?;
        let why = wait_up_to(LONG, "the agent to be degraded", || {
            agent_health(&watching, "degraded")
        })?;
        for part in ["is full", "free some space", "since 20"] {
            ensure!(why.contains(part), "no {part:?} in {why}");
        }
        let notice = wait_up_to(LONG, "the notice", || server.requests().pop())?;
        let text = words(&notice);
        ensure!(
            text.contains("the disk of the box is full") && text.contains("free some space"),
            "{text}"
        );
        // The command asks both daemons.
        let _runtime = bench.runtime()?;
        for name in ["status", "doctor"] {
            let out = command(&bench, &[name])?;
            let text = String::from_utf8(out.stdout)?;
            ensure!(text.contains("nothing can be stored"), "{name}: {text}");
        }
        let request = "watchkeeper/v1/test/bench/cmd/stop/1/req";
        broker.publish(request, true, r#"{"pipeline": "none"}"#)?;
        let status = |state: &str| {
            let all = watching.bodies("/cmd/stop/1/st");
            all.into_iter().find(|body| body["status"] == state)
        };
        let refused = wait_up_to(LONG, "the refusal", || status("rejected"))?;
        let reason = refused["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains("can't be stored"), "{refused}");
        ensure!(status("accepted").is_none(), "accepted without a disk");

        broker.publish(request, true, "")?;
        disk.make_room()?;
        wait_up_to(LONG, "the agent to be well", || {
            agent_health(&watching, "up")
        })?;
        let again = "watchkeeper/v1/test/bench/cmd/stop/2/req";
        broker.publish(again, true, r#"{"pipeline": "none"}"#)?;
        wait_up_to(LONG, "the command to be accepted", || {
            watching
                .bodies("/cmd/stop/2/st")
                .into_iter()
                .find(|body| body["status"] == "accepted")
        })?;
        ensure!(server.requests().len() == 1, "{:?}", server.requests());
        ensure!(agent.is_running(), "{}", agent.log_text());
        ensure!(!agent.log_text().contains("panicked"));
        Ok(())
    })
}

#[test]
fn box_on_a_read_only_disk_delivers_everything_later() -> anyhow::Result<()> {
    let name = "disk_at_boot::box_on_a_read_only_disk_delivers_everything_later";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let broker = Mosquitto::start(&bench.path("broker"))?;
        let server = Hooks::start()?;
        configure(&bench, &broker, &server)?;
        let watching = broker.subscribe("watchkeeper/v1/test/bench/#")?;
        let (runtime, agent) = (bench.runtime()?, bench.agent()?);
        deploy(&bench)?;
        more_events(&bench, 3)?;
        runtime.kill()?;
        agent.kill()?;
        let state = bench.path("state");
        make_read_only(&state)?;

        let (mut runtime, mut agent) = (bench.runtime()?, bench.agent()?);
        let why = wait_up_to(LONG, "the agent to be degraded", || {
            agent_health(&watching, "degraded")
        })
        .with_context(|| agent.log_text())?;
        ensure!(why.contains("Read-only file system"), "{why}");
        wait_up_to(LONG, "the health of the runtime", || {
            let health = watching.bodies("/svc/runtime/health").pop()?;
            let why = health["why"].to_string();
            (health["s"] == "degraded" && why.contains("Read-only file system")).then_some(())
        })?;
        let is_told =
            |request: &Request| words(request).contains("the disk of the box is read-only");
        wait_up_to(LONG, "the notice", || {
            server.requests().iter().any(is_told).then_some(())
        })?;
        wait_up_to(LONG, "events to wait", || {
            waiting(&bench).filter(|count| *count > 2)
        })?;
        make_writable(&state)?;
        more_events(&bench, 5)?;
        wait_for_all_events(&bench, &watching).with_context(|| agent.log_text())?;
        wait_up_to(LONG, "the agent to be well", || {
            agent_health(&watching, "up")
        })?;
        ensure!(runtime.is_running() && agent.is_running());
        ensure!(!agent.log_text().contains("panicked"));
        Ok(())
    })
}
