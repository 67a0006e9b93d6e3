//! The archive of an agent whose configuration names a bucket.

use std::fs;

use anyhow::Context as _;
use serde_json::Value;
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::person::{self, entry_names};
use watchkeeper_tests::scene::LONG;

use s3_server::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};

#[path = "../../../agent/archive/tests/it/s3_server.rs"]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod s3_server;

fn done(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    person::done(bench, &[&["archive"], arguments].concat())
}

/// Copies that the bucket has.
fn copies(bench: &Bench) -> usize {
    let folder = bench.path("objects").join(BUCKET).join("berlin");
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn killed_bucket_delays_copies_and_no_verb() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let objects = bench.path("objects");
    let server = S3Server::start(&objects);
    let address = server.address;
    fs::write(bench.path("s3.key"), SECRET_KEY)?;
    bench.configure(&format!(
        "[agent.archive]\ns3_endpoints = [\"http://{address}\"]\ns3_bucket = {BUCKET:?}\n\
         s3_prefix = \"berlin/\"\ns3_access_key = {ACCESS_KEY:?}\ns3_secret_key_file = {:?}\n",
        bench.path("s3.key")
    ))?;
    let _agent = bench.agent()?;
    Api::on(&bench).wait_until_up()?;
    let ingest = |name: &str| {
        let text = format!("mem::text of {name}");
        done(&bench, &["ingest", &text, "--as", "yard", "--name", name])
    };
    let arrived = |number: usize| (copies(&bench) == number).then_some(());
    ingest("a.txt")?;
    wait_up_to(LONG, "the copy in the bucket", || arrived(1))?;
    drop(server);
    ingest("b.txt")?;
    let listed = done(&bench, &["query", "--pattern", "yard", "--order", "name"])?;
    assert_eq!(entry_names(&listed), ["yard/a.txt", "yard/b.txt"]);
    for name in ["a.txt", "b.txt"] {
        let entry = format!("yard/{name}");
        let saved = done(&bench, &["get", &entry, "--skip-cache", "-o", name])?;
        assert_eq!(saved[0]["tier"], "durable");
        assert_eq!(
            fs::read_to_string(bench.path(name))?,
            format!("text of {name}")
        );
    }
    let stats = done(&bench, &["stats"])?;
    let waiting = stats.first().context("no stats")?["objects_waiting"].as_u64();
    assert_eq!(waiting, Some(1));
    let _server = S3Server::start_at(&objects, address.port());
    wait_up_to(LONG, "the delayed copy", || arrived(2))
}
