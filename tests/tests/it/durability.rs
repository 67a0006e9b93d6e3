//! Acknowledged events survive `kill -9` of everything, and a foreign subscriber receives every
//! journaled event.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::{Bench, program, soak, wait_for};
use watchkeeper_tests::scene::{check_nothing_lost, deploy, more_events, wait_for_all_events};

#[test]
fn killed_runtime_restores_pipelines_without_a_gap() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    deploy(&bench)?;
    let before = more_events(&bench, 3)?;
    runtime.kill()?;

    let _runtime = bench.runtime()?;
    let after = more_events(&bench, 3)?;
    check_nothing_lost(&before, &after)?;
    let verify = Command::new(program("watchkeeper")?)
        .args(["events", "verify", "--json", "--socket"])
        .arg(bench.socket())
        .output()?;
    let said: Value = serde_json::from_slice(&verify.stdout)?;
    assert!(verify.status.success(), "{said}");
    assert!(
        said["checked"].as_u64() >= after.last().and_then(|e| e["seq"].as_u64()),
        "{said}"
    );
    wait_for("the pipeline to run again", || {
        let pipelines = bench.get("/v1/pipelines").ok()?;
        let state = pipelines.pointer("/0/state/state")?.as_str()?;
        (state == "running").then_some(())
    })?;
    Ok(())
}

#[test]
fn events_reach_the_broker_over_kills_and_an_outage() -> anyhow::Result<()> {
    every_event_arrives(Duration::ZERO)
}

#[test]
fn events_reach_the_broker_after_a_minute_without_it() -> anyhow::Result<()> {
    if !soak("a minute without a broker") {
        return Ok(());
    }
    every_event_arrives(Duration::from_secs(60))
}

/// Kills both daemons, then stops the broker until two more events occurred and at least for
/// `away`.
#[expect(
    clippy::print_stderr,
    reason = "the figures of a long run are worth reading"
)]
fn every_event_arrives(away: Duration) -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let mut broker = Mosquitto::start(&bench.path("broker"))?;
    bench.configure(&broker.section())?;
    let subscriber = broker.subscribe("watchkeeper/v1/test/bench/cam/+/ev/#")?;
    let runtime = bench.runtime()?;
    let agent = bench.agent()?;
    deploy(&bench)?;
    wait_for("the first message", || {
        (!subscriber.messages().is_empty()).then_some(())
    })?;

    // The agent is killed at work, then the runtime; then the broker is down for a while.
    agent.kill()?;
    more_events(&bench, 2)?;
    let _agent = bench.agent()?;
    runtime.kill()?;
    let runtime = bench.runtime()?;
    more_events(&bench, 2)?;
    let (gone, before) = (Instant::now(), bench.events()?.len());
    broker.down()?;
    more_events(&bench, 2)?;
    std::thread::sleep(away.saturating_sub(gone.elapsed()));
    let held = bench.events()?.len() - before;
    broker.up()?;
    let back = Instant::now();
    // A foreign client reconnects by itself; its persistent session queues what it missed.
    more_events(&bench, 1)?;

    // The pipeline is deleted here, so that the test can wait for the last event.
    let all = wait_for_all_events(&bench, &subscriber)?;
    eprintln!(
        "{held} events came in {:.1} s without a broker; all {} were at the subscriber {:.1} s after its return",
        back.duration_since(gone).as_secs_f64(),
        all,
        back.elapsed().as_secs_f64()
    );
    runtime.stop()?;
    Ok(())
}

#[test]
fn newer_layout_is_refused_after_a_rollback_and_kept() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    deploy(&bench)?;
    let before = more_events(&bench, 3)?;
    runtime.stop()?;

    // Like an update: a layout that this version does not know.
    let layouts = ["state/journal/format", "state/agent/format"].map(|file| bench.path(file));
    for layout in &layouts {
        if let Some(folder) = layout.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(layout, "3\n")?;
    }
    let remedy = "start the newer version again, or move the folder away";
    let [journal, agent] = ["state/journal", "state/agent"].map(|f| bench.path(f));
    for (daemon, folder) in [
        ("watchkeeper-runtime", journal),
        ("watchkeeper-agent", agent),
    ] {
        let folder = folder.display().to_string();
        let formats = "format 3 and this version reads up to 2";
        bench.refuses_to_start(daemon, &[&folder, formats, remedy])?;
    }
    for layout in layouts {
        std::fs::write(layout, "2\n")?;
    }
    let _runtime = bench.runtime()?;
    check_nothing_lost(&before, &bench.events()?)
}

#[test]
fn second_runtime_on_the_same_state_is_refused() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _first = bench.runtime()?;
    let starts = std::fs::read(bench.path("state/starts.json"))?;
    let second = bench.runtime();
    let said = match second {
        // The first one answered; the second process must have exited all the same.
        Ok(mut process) => {
            wait_for("the second to end", || {
                (!process.is_running()).then_some(())
            })?;
            process.log_text()
        }
        Err(error) => error.to_string(),
    };
    assert!(said.contains("in use"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    // It does not count as a crash of the first one, or delete its crash record.
    assert!(!said.contains("deaths"), "{said}");
    assert_eq!(std::fs::read(bench.path("state/starts.json"))?, starts);
    Ok(())
}

#[test]
fn unwritable_state_folder_is_one_sentence() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    // A file in place of the folder: unwritable for every user, root included.
    std::fs::write(bench.path("state"), b"not a folder")?;
    let Err(error) = bench.runtime() else {
        anyhow::bail!("it started");
    };
    let said = error.to_string();
    assert!(said.contains("state"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    Ok(())
}
