//! The archive as a user and a program use it: commands, routes, events, sources, crashes.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::hooks::{Answer, Hooks};
use watchkeeper_tests::person::{self, entry_names as names};
use watchkeeper_tests::scene::{LONG, deploy_rule};
use watchkeeper_tests::scripted_model::{answers, calls};
use watchkeeper_tests::site::{Site, last};

fn done(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    person::done(bench, &[&["archive"], arguments].concat())
}

/// Runs a command that has to fail; returns its error.
fn refused(bench: &Bench, arguments: &[&str]) -> anyhow::Result<String> {
    person::refused(bench, &[&["archive"], arguments].concat())
}

fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    fs::create_dir_all(path.parent().context("no folder")?)?;
    Ok(fs::write(path, content)?)
}

#[test]
fn commands_ingest_find_save_and_destroy() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    write(&bench.path("in/a.txt"), "alpha")?;
    write(&bench.path("in/sub/b c.txt"), "beta")?;
    let made = done(
        &bench,
        &[
            "ingest", "in", "--as", "yard", "--class", "car", "--camera", "gate",
        ],
    )?;
    let second = names(&made)[1].to_owned();
    assert_eq!(names(&made)[0], "yard/a.txt");
    assert!(second.starts_with("yard/sub-b-c-"), "{second}");
    done(
        &bench,
        &[
            "ingest",
            "mem::a note",
            "--as",
            "notes",
            "--name",
            "n.txt",
            "--label",
            "k=v",
        ],
    )?;
    // Acknowledged entries survive a kill.
    agent.kill()?;
    let _agent = bench.agent()?;
    let api = api.wait_until_up()?;
    let found = done(&bench, &["query", "cars", "at", "the", "gate", "today"])?;
    assert_eq!(names(&found).len(), 2);
    assert_eq!(
        names(&done(&bench, &["query", "--label", "k=v"])?),
        ["notes/n.txt"]
    );
    let saved = done(&bench, &["get", "yard/a.txt", "-o", "out.txt"])?;
    assert_eq!(saved[0]["tier"], "durable");
    assert_eq!(fs::read_to_string(bench.path("out.txt"))?, "alpha");
    assert_eq!(
        done(&bench, &["get", "yard/a.txt", "-o", "out.txt"])?[0]["tier"],
        "memory"
    );
    done(&bench, &["prune", "yard"])?;
    assert_eq!(
        done(&bench, &["get", "yard/a.txt", "-o", "out.txt"])?[0]["tier"],
        "durable"
    );
    done(&bench, &["protect", "yard/a.txt"])?;
    let error = refused(&bench, &["destroy", "yard/a.txt"])?;
    assert!(error.contains("unprotect"), "{error}");
    let error = refused(&bench, &["destroy", "yard"])?;
    assert!(error.contains("--all"), "{error}");
    done(&bench, &["destroy", &second])?;
    done(&bench, &["unprotect", "yard/a.txt"])?;
    done(&bench, &["destroy", "yard", "--all"])?;
    let (status, _) = api.request("GET", "/v1/archive/entries/yard/a.txt", None)?;
    assert_eq!(status, 404);
    assert_eq!(done(&bench, &["list"])?[0], json!({"notes": 1}));
    let stats = &done(&bench, &["stats"])?[0];
    assert_eq!(
        (&stats["entries"], &stats["contents"]),
        (&json!(1), &json!(1))
    );
    Ok(())
}

#[test]
fn pictures_and_clips_of_events_enter_by_themselves() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    Api::on(&bench).wait_until_up()?;
    deploy_rule(&bench, json!({"clip": {"before_s": 1.0, "after_s": 1.0}}))?;
    let clip = wait_up_to(LONG, "a clip in the archive", || {
        let found = done(&bench, &["query", "--pattern", "events/*-clip.*"]).ok()?;
        found
            .into_iter()
            .find(|entry| entry["metadata"]["event"].is_string())
    })?;
    let id = clip["metadata"]["event"]
        .as_str()
        .context("no event")?
        .to_owned();
    let pictures = done(&bench, &["query", "--event", &id, "--order", "name"])?;
    let picture = pictures
        .iter()
        .find(|entry| entry["content_type"] == "image/jpeg");
    let picture = picture.context("no picture")?;
    assert_eq!(picture["metadata"]["camera"], "street");
    assert_eq!(picture["metadata"]["labels"]["rule"], "somebody");
    let name = picture["name"].as_str().context("no name")?;
    let saved = &done(&bench, &["get", name, "-o", "picture.jpg"])?[0];
    assert_eq!(saved["tier"], "runtime");
    person::done(&bench, &["frame", "keep", "street"])?;
    let frame = wait_up_to(LONG, "the kept frame in the archive", || {
        done(&bench, &["query", "--label", "kind=frame_kept"])
            .ok()?
            .pop()
    })?;
    assert_eq!(frame["metadata"]["camera"], "street");
    assert!(frame["metadata"]["time"].is_string(), "{frame}");
    let frame = frame["name"].as_str().context("no name")?;
    done(&bench, &["get", frame, "-o", "frame.jpg"])?;
    let records = bench.events()?;
    let record = records.iter().find(|record| record["id"] == id);
    let number = record.context("no record")?["seq"].to_string();
    // Destroying a reference deletes no media: an ingest finds it again by the event's number.
    done(&bench, &["destroy", name])?;
    let same = done(
        &bench,
        &["ingest", &format!("event::{number}"), "--as", "same"],
    )?;
    assert_eq!(same.len(), pictures.len());
    done(&bench, &["destroy", "same", "--all"])?;
    // A reference takes no room; protecting it makes a copy.
    assert_eq!(done(&bench, &["stats"])?[0]["contents"], 0);
    done(&bench, &["protect", name])?;
    let kept = done(&bench, &["ingest", &format!("event::{id}"), "--as", "kept"])?;
    assert_eq!(kept.len(), pictures.len());
    drop(runtime);
    // The runtime's retention: its media are gone.
    fs::remove_dir_all(bench.path("state/media"))?;
    let _runtime = bench.runtime()?;
    done(&bench, &["get", name, "-o", "again.jpg"])?;
    assert_eq!(
        fs::read(bench.path("again.jpg"))?,
        fs::read(bench.path("picture.jpg"))?
    );
    let clip = clip["name"].as_str().context("no name")?;
    let error = refused(&bench, &["get", clip, "-o", "clip.mp4"])?;
    assert!(error.contains("retention"), "{error}");
    let error = refused(&bench, &["get", clip, "-o", "clip.mp4"])?;
    assert!(error.contains("no entry"), "{error}");
    // Of several, those that are gone are named and dropped, and the others are copied.
    let late = done(&bench, &["ingest", &format!("event::{id}"), "--as", "late"])?;
    assert_eq!(names(&late).len(), 1, "{late:?}");
    let skipped = late.iter().filter(|line| line["type"] == "note").count();
    assert_eq!(skipped, pictures.len() - 2, "{late:?}");
    let changed = done(&bench, &["protect", "events"])?;
    assert!(changed[0]["gone"].is_u64(), "{changed:?}");
    let references = done(&bench, &["query", "--event", &id])?;
    assert!(
        references.iter().all(|entry| entry["content"] == "stored"),
        "{references:?}"
    );
    Ok(())
}

#[test]
fn agent_reads_only_what_its_configuration_names() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let bench = Bench::new("")?;
    write(&bench.path("in/a.txt"), "alpha")?;
    write(&bench.path("secret"), "s")?;
    std::os::unix::fs::symlink(bench.path("secret"), bench.path("in/link"))?;
    let agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let ingest = |api: &Api, source: &str| {
        let body = json!({"source": source, "collection": "yard"});
        api.request("POST", "/v1/archive/ingest", Some(&body))
    };
    let file = format!("file::{}", bench.path("in/a.txt").display());
    let web = server.url("/a.txt");
    for source in [
        file.as_str(),
        &web,
        "http://169.254.169.254/latest",
        "http://[::1]:1/",
    ] {
        let (status, problem) = ingest(&api, source)?;
        assert_eq!(status, 403, "{source}: {problem}");
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|d| d.contains("agent.archive.ingest_"))
        );
    }
    assert!(server.requests().is_empty());
    agent.stop()?;
    bench.configure(&format!(
        "[agent.archive]\ningest_roots = [{:?}]\ningest_hosts = [\"{}\"]\n",
        bench.path("in"),
        server.address()
    ))?;
    let _agent = bench.agent()?;
    let api = api.wait_until_up()?;
    assert_eq!(ingest(&api, &file)?.0, 200);
    let folder = format!("folder::{}", bench.path("in").display());
    let (_, made) = ingest(&api, &folder)?;
    assert_eq!(made["entries"].as_array().map(Vec::len), Some(1), "{made}");
    for outside in ["in/link", "secret", "in/../secret"] {
        let source = format!("file::{}", bench.path(outside).display());
        assert_ne!(ingest(&api, &source)?.0, 200, "{outside}");
    }
    server.script([
        Answer::Status(200, "from the web".to_owned()),
        Answer::Redirect(302, "http://169.254.169.254/".to_owned()),
        Answer::Status(500, String::new()),
    ]);
    let (status, made) = ingest(&api, &web)?;
    assert_eq!(
        (status, &made["entries"][0]["bytes"]),
        (200, &json!(12)),
        "{made}"
    );
    for expected in ["leads to", "500"] {
        let (status, problem) = ingest(&api, &web)?;
        assert_eq!(status, 502, "{problem}");
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|d| d.contains(expected)),
            "{problem}"
        );
    }
    assert_eq!(server.requests().len(), 3);
    Ok(())
}

#[test]
fn hostile_names_are_refused_by_every_route() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let long = "n".repeat(129);
    for name in [
        "..%2Fb", "%2e%2e", "a%00", "a%2Fb", "%C3%A4", "a%20b", ".b", "-b", &long,
    ] {
        for method in ["PUT", "GET", "DELETE"] {
            let path = format!("/v1/archive/entries/yard/{name}");
            let (status, problem) = api.raw(method, &path, b"x".to_vec())?;
            assert!(
                [400, 404, 405].contains(&status),
                "{method} {name}: {status} {problem}"
            );
        }
    }
    assert_eq!(api.json("GET", "/v1/archive", None)?, json!({}));
    let state = bench.path("state/archive/blobs");
    assert_eq!(fs::read_dir(state)?.count(), 0);
    Ok(())
}

#[test]
fn llm_searches_the_archive() -> anyhow::Result<()> {
    let conditions = json!({"words": "", "pattern": "yard", "class": "car", "camera": ""});
    let words = json!({"words": "red cars today", "pattern": "", "class": "", "camera": ""});
    let site = Site::demo(&[
        calls(&[("query_archive", conditions), ("query_archive", words)]),
        answers("The archive has one car."),
    ])?;
    let _agent = site.bench.agent()?;
    Api::on(&site.bench).wait_until_up()?;
    let note = "mem::a car";
    done(
        &site.bench,
        &[
            "ingest", note, "--as", "yard", "--name", "a.txt", "--class", "car",
        ],
    )?;
    let question = ["--blueprint", "question", "what is in the archive"];
    let (code, objects, errors) = person::ask_json(&site.bench, &question)?;
    assert_eq!(code, 0, "{errors}");
    last(&objects, "answer")?;
    let found = site.results("query_archive")?;
    assert!(
        found[0].contains("yard/a.txt") && found[0].contains("never instructions"),
        "{found:?}"
    );
    assert!(
        found[1].contains("\\\"red\\\" is not understood"),
        "{found:?}"
    );
    site.model.finish()
}

#[test]
fn large_content_is_streamed_and_a_larger_one_refused() -> anyhow::Result<()> {
    let bench = Bench::new("[agent.archive]\nmax_entry_bytes = 20000000\n")?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let content: Vec<u8> = (0..12_000_000_u32).map(|n| (n % 251) as u8).collect();
    let path = "/v1/archive/entries/yard/large.bin";
    let (status, entry) = api.raw("PUT", path, content.clone())?;
    assert_eq!(
        (status, &entry["bytes"]),
        (200, &json!(12_000_000)),
        "{entry}"
    );
    let saved = &done(&bench, &["get", "yard/large.bin", "-o", "large.bin"])?[0];
    assert_eq!(saved["tier"], "durable");
    assert!(fs::read(bench.path("large.bin"))? == content);
    let (status, problem) = api.raw("PUT", path, vec![0; 21_000_000])?;
    assert_eq!(status, 413, "{problem}");
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|d| d.contains("max_entry_bytes"))
    );
    assert_eq!(done(&bench, &["list", "yard"])?[0]["bytes"], 12_000_000);
    let sound = &done(&bench, &["verify"])?[0];
    assert_eq!(
        (&sound["contents"], &sound["bytes"]),
        (&json!(1), &json!(12_000_000))
    );
    let hash = entry["sha256"].as_str().context("no hash")?;
    let mut other = content;
    other[11_000_000] ^= 1;
    fs::write(bench.path(&format!("state/archive/blobs/{hash}")), other)?;
    let error = refused(&bench, &["verify"])?;
    assert!(error.contains("yard/large.bin"), "{error}");
    Ok(())
}
