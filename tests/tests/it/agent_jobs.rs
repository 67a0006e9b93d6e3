//! Jobs of the agent: submitted, followed, cancelled, resumed after kills, due by schedules.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::broker::free_port;
use watchkeeper_tests::daemons::{Bench, Process, json_lines, wait_for, wait_up_to};
use watchkeeper_tests::hooks::{Hooks, Request};
use watchkeeper_tests::person;
use watchkeeper_tests::scene::{LONG, STREET, door_workflow};

use crate::jobs::{PLAN, content, write_pictures};

const KILLS: u64 = 4;
/// Without a runtime each try fails, and the next one comes after five minutes.
const SLOW: &str = "name: slow\nsteps:\n  - {name: events, tool: event_pictures, params: {since: \
                    2026-01-01, folder: pictures}, retry: {tries: 3, pauses_s: [300]}}\n";

/// A box without cameras, and its agent.
pub(crate) struct Site {
    pub(crate) bench: Bench,
    pub(crate) api: Api,
    agent: Process,
}

impl Site {
    pub(crate) fn new(extra: &str) -> anyhow::Result<Self> {
        Self::of(Bench::new(extra)?)
    }

    fn of(bench: Bench) -> anyhow::Result<Self> {
        let agent = bench.agent()?;
        let api = Api::on(&bench).wait_until_up()?;
        Ok(Self { bench, api, agent })
    }

    /// Kills the agent as a power cut would, and starts another one.
    pub(crate) fn restart(self) -> anyhow::Result<Self> {
        self.agent.kill()?;
        Self::of(self.bench)
    }

    fn plan(&self) -> anyhow::Result<Value> {
        let folder = self.bench.path("photos");
        let plan = PLAN.replace("folder: photos", &format!("folder: {folder:?}"));
        Ok(json!({"plan": plan}))
    }

    fn submit(&self) -> anyhow::Result<String> {
        self.submit_plan(&self.plan()?)
    }

    pub(crate) fn submit_plan(&self, body: &Value) -> anyhow::Result<String> {
        let accepted = self.api.json("POST", "/v1/jobs", Some(body))?;
        Ok(accepted["job"].as_str().context("no job")?.to_owned())
    }

    pub(crate) fn job(&self, id: &str) -> anyhow::Result<Value> {
        self.api.json("GET", &format!("/v1/jobs/{id}"), None)
    }

    pub(crate) fn wait_for_state(&self, id: &str, state: &str) -> anyhow::Result<Value> {
        wait_up_to(LONG, state, || {
            let job = self.job(id).ok()?;
            (job["state"] == state).then_some(job)
        })
    }

    fn schedule(&self, name: &str) -> Option<Value> {
        let health = self.api.json("GET", "/v1/health", None).ok()?;
        let schedules = health["jobs"]["schedules"].as_array()?;
        schedules
            .iter()
            .find(|schedule| schedule["name"] == name)
            .cloned()
    }

    fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = person::command(&self.bench)?;
        command
            .args(["--json", "job"])
            .args(arguments)
            .arg("--agent");
        command.current_dir(self.bench.path(""));
        Ok(command)
    }

    fn ask(&self, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
        let out = self.command(arguments)?.output()?;
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{errors}");
        json_lines(&out.stdout).with_context(|| errors.into_owned())
    }
}

#[test]
fn killed_agent_resumes_job_without_loss_or_repetition() -> anyhow::Result<()> {
    let mut site = Site::new("")?;
    write_pictures(&site.bench.path("photos"), 16)?;
    let whole = site.submit()?;
    let whole = site.wait_for_state(&whole, "done")?;
    let expected = content(whole["output"].as_str().context("no output")?.as_ref())?;
    ensure!(expected.len() == 18, "{:?}", expected.keys());
    let id = site.submit()?;
    for kill in 0..KILLS {
        wait_for("the job to begin", || {
            let job = site.job(&id).ok()?;
            job["log"]
                .as_array()
                .filter(|log| !log.is_empty())
                .map(|_| ())
        })?;
        std::thread::sleep(Duration::from_millis(60 * kill));
        site = site.restart()?;
    }
    let job = site.wait_for_state(&id, "done")?;
    let got = content(job["output"].as_str().context("no output")?.as_ref())?;
    ensure!(got == expected, "{:?}", got.keys());
    let log = job["log"].as_array().context("no log")?;
    let finished = log.iter().filter(|line| line["record"] == "finished");
    let steps: Vec<&str> = finished.filter_map(|line| line["step"].as_str()).collect();
    let once: BTreeSet<&&str> = steps.iter().collect();
    ensure!(steps.len() == 5 && once.len() == 5, "{steps:?}");
    let out = person::command(&site.bench)?
        .args(["audit", "--json"])
        .output()?;
    let audited = String::from_utf8(out.stdout)?;
    for what in ["job_submitted", "job_ended"] {
        ensure!(audited.contains(what), "{what}: {audited}");
    }
    Ok(())
}

#[test]
fn command_follows_shows_cancels_and_resumes_jobs_of_the_agent() -> anyhow::Result<()> {
    let site = Site::new("")?;
    write_pictures(&site.bench.path("photos"), 6)?;
    fs::write(site.bench.path("plan.yaml"), PLAN)?;
    let objects = site.ask(&["run", "plan.yaml"])?;
    let ended = objects.last().context("nothing")?;
    assert_eq!(
        (&ended["type"], &ended["how"]),
        (&json!("ended"), &json!("done"))
    );
    let finished = objects.iter().filter(|object| object["type"] == "finished");
    assert_eq!(finished.count(), 5);
    let id = ended["job"].as_str().context("no job")?;
    let shown = site.ask(&["show", id])?;
    assert_eq!(shown[0]["state"], "done");
    let out = site.command(&["show", id, "best", "count"])?.output()?;
    assert_eq!(String::from_utf8(out.stdout)?.trim(), "6");
    let mut ids = Vec::new();
    let refused = loop {
        let body = json!({"plan": SLOW});
        let (status, answer) = site.api.request("POST", "/v1/jobs", Some(&body))?;
        match status {
            202 => ids.push(answer["job"].as_str().context("no job")?.to_owned()),
            _ => break (status, answer),
        }
        ensure!(ids.len() < 50, "no bound");
    };
    assert_eq!(refused.0, 429, "{refused:?}");
    let (first, last) = (ids.first().context("none")?, ids.last().context("none")?);
    for (id, state) in [(first, "running"), (last, "waiting")] {
        site.wait_for_state(id, state)?;
        let cancelled = site.ask(&["cancel", id])?;
        assert_eq!(cancelled[0]["was_active"], true);
        site.wait_for_state(id, "cancelled")?;
    }
    let resumed = site
        .api
        .json("POST", &format!("/v1/jobs/{first}/resume"), None)?;
    assert_eq!(resumed["job"], json!(first));
    let (status, _) = site
        .api
        .request("DELETE", &format!("/v1/jobs/{first}"), None)?;
    assert_eq!(status, 409, "it waits");
    site.ask(&["delete", last])?;
    let listed = site.ask(&["list"])?;
    ensure!(
        listed.iter().all(|job| job["job"] != json!(last)),
        "{listed:?}"
    );
    Ok(())
}

#[test]
fn remote_client_reads_no_folder_and_sees_no_local_job() -> anyhow::Result<()> {
    let port = free_port()?;
    let bench = Bench::new("")?;
    let token = "4f1c0a6f0d9b4f0e8a7d3c2b1a09f8e7";
    fs::write(bench.path("token"), token)?;
    bench.configure(&format!(
        "[agent.api]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"token\"\n"
    ))?;
    let site = Site::of(bench)?;
    write_pictures(&site.bench.path("photos"), 2)?;
    let local = site.submit()?;
    let remote = Api::over_tcp(port, Some(token)).wait_until_up()?;
    let (status, answer) = remote.request("POST", "/v1/jobs", Some(&site.plan()?))?;
    assert_eq!(status, 400);
    let detail = answer["detail"].as_str().unwrap_or_default();
    ensure!(
        detail.contains("over TCP no folder of the box is read"),
        "{detail}"
    );
    let body = json!({"request": "an album of today's deliveries by line"});
    let accepted = remote.json("POST", "/v1/jobs", Some(&body))?;
    let listed = remote.json("GET", "/v1/jobs", None)?;
    let ids: Vec<&Value> = listed
        .as_array()
        .context("no list")?
        .iter()
        .map(|j| &j["job"])
        .collect();
    assert_eq!(ids, [&accepted["job"]]);
    let (status, _) = remote.request("GET", &format!("/v1/jobs/{local}"), None)?;
    assert_eq!(status, 404);
    Ok(())
}

/// State of schedules that were due long ago, as an earlier run of the agent left it, with the last
/// job of each.
fn store_past(bench: &Bench, schedules: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
    let folder = bench.path("state/assistant");
    fs::create_dir_all(&folder)?;
    let begin = "2026-01-01T00:00:00Z";
    let stored = schedules.iter().map(|(name, job)| {
        let last = job.map(|job| json!({"due": begin, "job": job, "is_settled": false}));
        let cron = json!({"settled": begin, "last_due": null});
        ((*name).to_owned(), json!({"cron": cron, "last": last}))
    });
    let state = json!({"schedules": Value::Object(stored.collect())});
    Ok(fs::write(folder.join("schedules.json"), state.to_string())?)
}

#[test]
fn missed_schedule_runs_once_and_not_again_after_kills() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    write_pictures(&bench.path("photos"), 4)?;
    let folder = bench.path("photos");
    let plan = PLAN.replace("folder: photos", &format!("folder: {folder:?}"));
    fs::write(bench.path("plan.yaml"), plan)?;
    let output = bench.path("albums");
    bench.configure(&format!(
        "[agent.jobs.weekly]\nplan = \"plan.yaml\"\ncron = \"0 6 * * MON\"\ncatch_up = true\n\
         keep_last = 1\noutput = \"{}/%Y-%m-%d\"\n\
         [agent.jobs.never]\nplan = \"plan.yaml\"\ncron = \"0 6 * * MON\"\n",
        output.display()
    ))?;
    store_past(&bench, &[("weekly", None)])?;
    let mut site = Site::of(bench)?;
    for restart in 0..3 {
        let weekly = wait_up_to(LONG, "the missed job", || {
            site.schedule("weekly")
                .filter(|schedule| schedule["state"] == "done")
        })?;
        ensure!(
            weekly["next"].is_string() && weekly["last"].is_string(),
            "{weekly}"
        );
        let listed = site.ask(&["list"])?;
        assert_eq!(listed.len(), 1, "after {restart} restarts: {listed:?}");
        assert_eq!(listed[0]["schedule"], "weekly");
        site = site.restart()?;
    }
    let folders: Vec<_> = fs::read_dir(&output)?.collect();
    assert_eq!(folders.len(), 1);
    let never = site.schedule("never").context("no schedule")?;
    ensure!(never["last"].is_null(), "{never}");
    Ok(())
}

#[test]
fn scheduled_job_without_a_picture_is_done_and_says_so() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    fs::create_dir_all(bench.path("photos"))?;
    let request = format!(
        "organise {} by day and keep the 3 best",
        bench.path("photos").display()
    );
    bench.configure(&format!(
        "[agent.jobs.weekly]\nrequest = {request:?}\ncron = \"0 6 * * MON\"\ncatch_up = true\n"
    ))?;
    store_past(&bench, &[("weekly", None)])?;
    let site = Site::of(bench)?;
    let weekly = wait_up_to(LONG, "the job", || {
        let is_over =
            |schedule: &Value| schedule["state"] == "done" || schedule["state"] == "failed";
        site.schedule("weekly").filter(is_over)
    })?;
    let job = site.job(weekly["job"].as_str().context("no job")?)?;
    assert_eq!(job["state"], "done", "{job}");
    ensure!(
        job["log"].to_string().contains("no picture matched"),
        "{job}"
    );
    let health = site.api.json("GET", "/v1/health", None)?;
    ensure!(
        !health["reasons"].to_string().contains("weekly"),
        "{health}"
    );
    // The same for a person who asks.
    let body = json!({"request": request});
    let submitted = site.submit_plan(&body)?;
    site.wait_for_state(&submitted, "done")?;
    Ok(())
}

#[test]
fn cancelled_job_is_not_resumed_by_a_restart_but_by_a_person() -> anyhow::Result<()> {
    let site = Site::new("")?;
    let id = site.submit_plan(&json!({"plan": SLOW}))?;
    site.wait_for_state(&id, "running")?;
    let path = format!("/v1/jobs/{id}");
    site.api.json("POST", &format!("{path}/cancel"), None)?;
    let site = site.restart()?;
    site.wait_for_state(&id, "cancelled")?;
    site.api.json("POST", &format!("{path}/resume"), None)?;
    site.wait_for_state(&id, "running")?;
    let site = site.restart()?;
    site.wait_for_state(&id, "running")?;
    let nowhere = "name: x\nsteps:\n  - {name: days, tool: group, params: {pictures: \
                   \"job://20200101-000000-abc/list/pictures\", by: day}}\n";
    let body = json!({"plan": nowhere});
    let (status, answer) = site.api.request("POST", "/v1/jobs", Some(&body))?;
    assert_eq!(status, 400, "{answer}");
    let body = json!({"plan": SLOW, "origin": "x".repeat(2001)});
    let (status, answer) = site.api.request("POST", "/v1/jobs", Some(&body))?;
    assert_eq!(status, 400, "{answer}");
    Ok(())
}

#[test]
fn schedule_waits_for_the_end_of_its_last_job() -> anyhow::Result<()> {
    let site = Site::new("")?;
    let slow = site.submit_plan(&json!({"plan": SLOW}))?;
    site.wait_for_state(&slow, "running")?;
    site.agent.kill()?;
    let bench = site.bench;
    write_pictures(&bench.path("photos"), 2)?;
    let folder = bench.path("photos");
    let plan = PLAN.replace("folder: photos", &format!("folder: {folder:?}"));
    fs::write(bench.path("plan.yaml"), plan)?;
    bench.configure(
        "[agent.jobs.weekly]\nplan = \"plan.yaml\"\ncron = \"0 6 * * MON\"\ncatch_up = true\n",
    )?;
    store_past(&bench, &[("weekly", Some(slow.as_str()))])?;
    let site = Site::of(bench)?;
    let is_read = |schedule: &Value| schedule["job"].is_string();
    let weekly = wait_for("the schedule", || site.schedule("weekly").filter(is_read))?;
    assert_eq!(weekly["job"], json!(slow));
    assert_eq!(site.ask(&["list"])?.len(), 1);
    site.ask(&["cancel", &slow])?;
    wait_up_to(LONG, "the next job", || {
        site.schedule("weekly")
            .filter(|schedule| schedule["job"] != json!(slow) && schedule["state"] == "done")
    })?;
    Ok(())
}

#[test]
fn event_starts_a_job_with_its_camera_and_a_failed_one_is_named() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let plan = "name: of-event\ninputs: {event_camera: none, event_time: \"2026-01-01\"}\nsteps:\n  \
                - {name: events, tool: event_pictures, params: {since: \"${inputs.event_time}\", \
                camera: \"${inputs.event_camera}\", folder: pictures}}\n";
    fs::write(bench.path("plan.yaml"), plan)?;
    let broken = "name: broken\nsteps:\n  - {name: list, tool: list_pictures, \
                  params: {folder: /nowhere/at/all}, retry: {tries: 1}}\n";
    fs::write(bench.path("broken.yaml"), broken)?;
    bench.configure(&format!(
        "[sources.street]\nuri = {STREET:?}\npace = \"native\"\n\
         [agent.jobs.door]\nplan = \"plan.yaml\"\non = {{camera = \"street\", rule = \"delivery\"}}\n\
         [agent.jobs.broken]\nplan = \"broken.yaml\"\non = {{rule = \"delivery\"}}\n"
    ))?;
    let _runtime = bench.runtime()?;
    let site = Site::of(bench)?;
    wait_for("the schedules", || site.schedule("door"))?;
    // The first look at the journal's end comes before the first event.
    std::thread::sleep(Duration::from_secs(2));
    let rules = json!([{"name": "delivery", "when": {"kind": "crosses", "line": "door"}}]);
    let pipeline =
        json!({"id": "watch", "source": "street", "workflow": door_workflow(), "rules": rules});
    site.bench.json("POST", "/v1/pipelines", Some(&pipeline))?;
    let door = wait_up_to(LONG, "the job of an event", || {
        site.schedule("door")
            .filter(|schedule| schedule["state"] == "done")
    })?;
    let job = site.job(door["job"].as_str().context("no job")?)?;
    let params = |line: &Value| line["record"] == "started";
    ensure!(
        job["log"].as_array().context("no log")?.iter().any(params),
        "{job}"
    );
    let described = site.bench.path("state/assistant/jobs");
    let id = door["job"].as_str().context("no job")?;
    let stored = fs::read_to_string(described.join(id).join("job.json"))?;
    ensure!(stored.contains("\"event_camera\": \"street\""), "{stored}");
    wait_up_to(LONG, "the failed job", || {
        site.schedule("broken")
            .filter(|schedule| schedule["state"] == "failed")
    })?;
    let health = site.api.json("GET", "/v1/health", None)?;
    let reasons = health["reasons"].to_string();
    ensure!(
        reasons.contains("schedule broken: its last job failed"),
        "{reasons}"
    );
    Ok(())
}

#[test]
fn check_names_wrong_times_missing_files_and_faults_of_plans() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    fs::write(
        bench.path("bad.yaml"),
        PLAN.replace("measure_quality", "weigh"),
    )?;
    bench.configure(
        "[agent.jobs.a]\nplan = \"bad.yaml\"\ncron = \"0 6 * * *\"\n\
         [agent.jobs.b]\nplan = \"none.yaml\"\ncron = \"0 6 * * *\"\n\
         [agent.jobs.c]\nrequest = \"make me a sandwich\"\ncron = \"0 25 * * *\"\n\
         [agent.jobs.d]\nrequest = \"make me a sandwich\"\ncron = \"0 5 * * *\"\n\
         [agent.jobs.e]\nplan = \"bad.yaml\"\n",
    )?;
    let out = person::command(&bench)?
        .args(["config", "check"])
        .output()?;
    let errors = String::from_utf8(out.stderr)?;
    for part in [
        "no tool \"weigh\"",
        "none.yaml",
        "agent.jobs.c.cron",
        "agent.jobs.d.request",
        "agent.jobs.e: needs cron",
    ] {
        ensure!(errors.contains(part), "{part}: {errors}");
    }
    Ok(())
}

#[test]
fn chat_and_conversation_run_a_request_as_a_job() -> anyhow::Result<()> {
    let site = Site::new("")?;
    write_pictures(&site.bench.path("photos"), 5)?;
    let photos = site.bench.path("photos");
    let request = format!(
        "organise {} by day and keep the 3 best of each",
        photos.display()
    );
    let objects = person::chat(&site.bench, &format!("{request}\n"))?;
    let types = person::types(&objects);
    for expected in ["plan", "job", "started", "finished", "ended"] {
        ensure!(types.contains(&expected), "{expected}: {types:?}");
    }
    let out = person::command(&site.bench)?
        .args(["trace", "--json"])
        .output()?;
    let trace = String::from_utf8(out.stdout)?;
    for part in [
        "job_submitted",
        "job_step",
        "job_ended",
        "\"channel\":\"chat\"",
    ] {
        ensure!(trace.contains(part), "{part}: {trace}");
    }
    let talk = site.api.json("POST", "/v1/conversations", None)?;
    let id = talk["id"].as_str().context("no conversation")?;
    let path = format!("/v1/conversations/{id}");
    site.api.json(
        "POST",
        &format!("{path}/messages"),
        Some(&json!({"text": request})),
    )?;
    let events = wait_up_to(LONG, "the end of the message", || {
        let events = site.api.json("GET", &format!("{path}/events"), None).ok()?;
        let events = events.as_array()?.clone();
        events
            .iter()
            .any(|event| event["type"] == "end")
            .then_some(events)
    })?;
    let types = person::types(&events);
    for expected in ["heard", "plan", "job", "job_step", "said", "end"] {
        ensure!(types.contains(&expected), "{expected}: {types:?}");
    }
    assert_eq!(events.last().context("nothing")?["failed"], false);
    Ok(())
}

#[test]
fn failed_job_of_a_schedule_is_sent_to_the_channels() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let hooks = Hooks::start()?;
    let broken = "name: broken\nsteps:\n  - {name: list, tool: list_pictures, \
                  params: {folder: /nowhere/at/all}, retry: {tries: 1}}\n";
    fs::write(bench.path("broken.yaml"), broken)?;
    fs::write(
        bench.path("blocked.yaml"),
        PLAN.replace("measure_quality", "weigh"),
    )?;
    bench.configure(&format!(
        "[channels.office]\nurl = \"{}\"\nmin_severity = \"warning\"\n\
         [agent.jobs.weekly]\nplan = \"broken.yaml\"\ncron = \"0 6 * * MON\"\ncatch_up = true\n\
         notify_failure = true\n\
         [agent.jobs.blocked]\nplan = \"blocked.yaml\"\ncron = \"0 6 * * MON\"\n\
         catch_up = true\nnotify_failure = true\n",
        hooks.url("/hook")
    ))?;
    store_past(&bench, &[("weekly", None), ("blocked", None)])?;
    let _site = Site::of(bench)?;
    let sent = |words: &str| {
        wait_up_to(LONG, words, || {
            let mut requests = hooks.requests().into_iter();
            requests.find(|request| text_of(request).contains(words))
        })
    };
    let failed = text_of(&sent("The job of schedule weekly failed")?);
    ensure!(failed.contains("job_failed"), "{failed}");
    let blocked = text_of(&sent("Schedule blocked started no job")?);
    ensure!(blocked.contains("no tool"), "{blocked}");
    Ok(())
}

/// The body of a notification, which is a form.
fn text_of(request: &Request) -> String {
    request.text().replace('+', " ")
}

#[test]
fn prune_removes_old_jobs_and_leaves_chosen_folders() -> anyhow::Result<()> {
    let bench = Bench::new("[agent.job_limits]\nmax_jobs = 2\n")?;
    write_pictures(&bench.path("photos"), 2)?;
    fs::write(bench.path("plan.yaml"), PLAN)?;
    let run = |arguments: &[&str]| -> anyhow::Result<Vec<Value>> {
        let mut command = person::command(&bench)?;
        command.args(["--json", "job"]).args(arguments);
        let out = command.current_dir(bench.path("")).output()?;
        ensure!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        json_lines(&out.stdout)
    };
    for output in ["first", "second", "third"] {
        run(&["run", "plan.yaml", "--output", output])?;
    }
    let listed = run(&["list"])?;
    assert_eq!(listed.len(), 2, "{listed:?}");
    ensure!(bench.path("first/album/index.html").exists());
    bench.configure("[agent.job_limits]\nmax_jobs = 1\n")?;
    let removed = run(&["prune"])?;
    assert_eq!(removed[0]["removed"], json!([listed[0]["job"]]));
    Ok(())
}
