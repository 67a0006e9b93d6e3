//! A disk that is full or read-only gives one sentence and a wait; no acknowledged event is lost.

use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::{Bench, FAILED, Process, program, wait_for, wait_up_to};
use watchkeeper_tests::mounts::{SmallDisk, in_private_mounts, make_read_only};
use watchkeeper_tests::scene::{
    LONG, arrived, check_nothing_lost, deploy, more_events, wait_for_all_events,
};

/// Small enough to be filled at once, larger than the free space that the daemons reserve.
pub(crate) const DISK_MIB: u32 = 200;

/// Too little for a record, and enough for the file system.
pub(crate) const SMALL_REST: u64 = 8 << 20;

/// Returns the reasons of the degraded health.
pub(crate) fn reasons(bench: &Bench) -> Vec<String> {
    let health = bench.get("/v1/health").unwrap_or_default();
    let reasons = health
        .get("reasons")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    reasons
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Reads the value of a metric without labels.
fn metric(bench: &Bench, name: &str) -> Option<u64> {
    let (_, text) = bench.request("GET", "/v1/metrics", None).ok()?;
    let text = String::from_utf8(text).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

pub(crate) fn command(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(program("watchkeeper")?);
    command
        .arg("--config")
        .arg(bench.config())
        .args(arguments)
        .stdin(Stdio::null());
    Ok(command.output()?)
}

/// Mounts a small disk for the state folder and starts a runtime that has journaled three events,
/// which are returned.
pub(crate) fn watched_disk(bench: &Bench) -> anyhow::Result<(SmallDisk, Process, Vec<Value>)> {
    let disk = SmallDisk::mount(&bench.path("state"), DISK_MIB)?;
    let runtime = bench.runtime()?;
    deploy(bench)?;
    let events = more_events(bench, 3)?;
    Ok((disk, runtime, events))
}

#[test]
fn full_disk_delays_events_and_loses_none() -> anyhow::Result<()> {
    in_private_mounts("full_disk::full_disk_delays_events_and_loses_none", || {
        let bench = Bench::new("")?;
        let (disk, mut runtime, _) = watched_disk(&bench)?;

        // Full for the journal first, then to the last byte, as disks fill.
        disk.fill(SMALL_REST)?;
        let said = wait_up_to(LONG, "health to tell of the full disk", || {
            reasons(&bench)
                .into_iter()
                .find(|r| r.contains("events can't be stored"))
        })?;
        ensure!(
            said.contains("is full") && said.contains("free some space"),
            "{said}"
        );
        disk.fill(0)?;
        let held = bench.events()?;
        let failed = metric(&bench, "watchkeeper_journal_failed_total").unwrap_or(0);
        wait_up_to(LONG, "more attempts", || {
            metric(&bench, "watchkeeper_journal_failed_total").filter(|now| *now > failed + 2)
        })?;
        ensure!(bench.events()? == held, "something was stored without room");
        ensure!(runtime.is_running(), "{}", runtime.log_text());
        let status = command(&bench, &["status"])?;
        let status = String::from_utf8(status.stdout)?;
        ensure!(status.contains("events can't be stored"), "{status}");
        let doctor = command(&bench, &["doctor"])?;
        ensure!(doctor.status.code() == Some(FAILED), "{doctor:?}");
        let doctor = String::from_utf8(doctor.stdout)?;
        ensure!(doctor.contains("free for the state folder"), "{doctor}");
        // Requests that change stored data are refused at once, whether they add or delete.
        for (method, path) in [
            ("DELETE", "/v1/pipelines/watch"),
            ("PUT", "/v1/sources/other"),
        ] {
            let source = json!({"id": "other", "uri": "demo:"});
            let (code, text) = bench.request(method, path, Some(&source))?;
            let text = String::from_utf8_lossy(&text);
            ensure!(
                code == 507 && text.contains("is full"),
                "{method} {path}: {code} {text}"
            );
        }

        disk.make_room()?;
        let after = more_events(&bench, 3)?;
        check_nothing_lost(&held, &after)?;
        wait_for("health to be well again", || {
            reasons(&bench).is_empty().then_some(())
        })?;
        let log = runtime.log_text();
        ensure!(!log.contains("panicked"), "{log}");
        ensure!(log.matches("events can't be stored").count() == 1, "{log}");
        ensure!(log.contains("events are stored again"), "{log}");
        runtime.stop()
    })
}

#[test]
fn full_disk_deletes_old_recordings_to_store_events() -> anyhow::Result<()> {
    let name = "full_disk::full_disk_deletes_old_recordings_to_store_events";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let disk = SmallDisk::mount(&bench.path("state"), DISK_MIB)?;
        let runtime = bench.runtime()?;
        deploy(&bench)?;
        let recordings = bench.path("state/recordings");
        std::fs::create_dir_all(&recordings)?;
        let [old, new] = ["watch.1.mp4", "watch.2.mp4"].map(|part| recordings.join(part));
        for part in [&old, &new] {
            std::fs::write(part, vec![0x55; 40 << 20])?;
        }
        more_events(&bench, 3)?;

        disk.fill(SMALL_REST)?;
        wait_up_to(LONG, "the deletion of the oldest recording", || {
            (!old.exists()).then_some(())
        })?;
        let held = bench.events()?;
        check_nothing_lost(&held, &more_events(&bench, 3)?)?;
        ensure!(new.exists(), "more went than was needed");
        ensure!(reasons(&bench).is_empty(), "{:?}", reasons(&bench));
        runtime.stop()
    })
}

#[test]
fn failing_disk_stops_an_idle_runtime() -> anyhow::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let bench = Bench::new("")?;
    let runtime = bench.runtime_ignoring_sigxfsz()?;
    let pid = i32::try_from(runtime.id()).ok().and_then(Pid::from_raw);
    // From here on no file grows beyond its first page, so later bytes can't be written.
    let one_page = Rlimit {
        current: Some(4096),
        maximum: Some(4096),
    };
    prlimit(pid, Resource::Fsize, one_page)?;
    let (code, log) = runtime.wait_for_exit(LONG)?;
    ensure!(code == Some(FAILED), "{code:?}: {log}");
    let last = log.lines().rfind(|line| line.contains("ERROR"));
    let last = last.unwrap_or_default();
    ensure!(
        last.contains("events can't be stored: ") && last.contains("File too large"),
        "{log}"
    );
    ensure!(!log.contains("panicked"), "{log}");
    let runtime = bench.runtime()?;
    ensure!(bench.events()?.is_empty(), "an event was needed to find it");
    ensure!(reasons(&bench).is_empty(), "{:?}", reasons(&bench));
    runtime.stop()
}

#[test]
fn stop_on_full_disk_is_timely_and_reports_unstored_events() -> anyhow::Result<()> {
    let name = "full_disk::stop_on_full_disk_is_timely_and_reports_unstored_events";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let (disk, runtime, _) = watched_disk(&bench)?;
        disk.fill(SMALL_REST)?;
        // More events wait than have room for their pictures, and the pipeline goes on.
        wait_up_to(LONG, "events without pictures", || {
            let health = bench.get("/v1/health").ok()?.to_string();
            health.contains("new ones have no pictures").then_some(())
        })?;
        let frames = || {
            let results = bench.get("/v1/pipelines/watch/results").ok()?;
            results.get("frames")?.as_u64()
        };
        let before = frames();
        wait_up_to(LONG, "further frames", || (frames() > before).then_some(()))?;
        let held = bench.events()?;

        let (code, log) = runtime.end()?;
        ensure!(code == Some(FAILED), "{code:?}: {log}");
        let last = log
            .lines()
            .rfind(|line| line.contains("ERROR"))
            .unwrap_or_default();
        ensure!(
            last.contains("events unstored") && last.contains("is full"),
            "{log}"
        );
        ensure!(!log.contains("panicked"), "{log}");

        disk.make_room()?;
        let _runtime = bench.runtime()?;
        let after = more_events(&bench, 3)?;
        check_nothing_lost(&held, &after)?;
        Ok(())
    })
}

#[test]
fn outbox_on_full_disk_waits_and_delivers_everything() -> anyhow::Result<()> {
    in_private_mounts(
        "full_disk::outbox_on_full_disk_waits_and_delivers_everything",
        || {
            let bench = Bench::new("")?;
            let mut broker = Mosquitto::start(&bench.path("broker"))?;
            bench.configure(&broker.section())?;
            let subscriber = broker.subscribe("watchkeeper/v1/test/bench/cam/+/ev/#")?;
            let delivered = || arrived(&subscriber);
            let disk = SmallDisk::mount(&bench.path("state/agent"), DISK_MIB)?;
            let runtime = bench.runtime()?;
            let mut agent = bench.agent()?;
            deploy(&bench)?;
            wait_up_to(LONG, "the first messages", || {
                (delivered().len() > 2).then_some(())
            })?;

            disk.fill(SMALL_REST)?;
            wait_up_to(LONG, "the agent to tell of the full disk", || {
                agent
                    .log_text()
                    .contains("outbox: can't write")
                    .then_some(())
            })?;
            disk.fill(0)?;
            let waiting = delivered();
            let journal = more_events(&bench, 4)?;
            // A broker that goes down meanwhile makes nothing worse.
            broker.down()?;
            broker.up()?;
            ensure!(agent.is_running(), "{}", agent.log_text());
            ensure!(delivered().len() < journal.len(), "nothing was held back");
            ensure!(delivered().is_superset(&waiting));

            disk.make_room()?;
            wait_for_all_events(&bench, &subscriber).with_context(|| agent.log_text())?;
            let log = agent.log_text();
            ensure!(!log.contains("panicked"), "{log}");
            agent.stop()?;
            runtime.stop()
        },
    )
}

#[test]
fn run_checks_its_state_folder_before_it_starts() -> anyhow::Result<()> {
    let name = "full_disk::run_checks_its_state_folder_before_it_starts";
    in_private_mounts(name, || {
        let bench = Bench::new("")?;
        let disk = SmallDisk::mount(&bench.path("full"), 16)?;
        disk.fill(0)?;
        std::fs::create_dir(bench.path("fixed"))?;
        make_read_only(&bench.path("fixed"))?;
        for (folder, code, part) in [
            ("full", FAILED, "is full"),
            ("fixed", 2, "can't be written"),
        ] {
            let keep = bench.path(folder).display().to_string();
            let out = command(
                &bench,
                &[
                    "run",
                    "demo:?seconds=1&width=160&height=90",
                    "--keep-state",
                    &keep,
                ],
            )?;
            let errors = String::from_utf8(out.stderr)?;
            let sentences = errors
                .lines()
                .filter(|line| line.starts_with("watchkeeper: "))
                .count();
            ensure!(
                out.status.code() == Some(code),
                "{folder}: {:?}: {errors}",
                out.status
            );
            ensure!(sentences == 1, "{folder}: not one sentence: {errors}");
            ensure!(
                errors.contains(part) && errors.contains(&keep),
                "{folder}: {errors}"
            );
        }
        Ok(())
    })
}
