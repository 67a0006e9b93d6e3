//! The archive of an agent whose configuration names a bucket, or a memcached.

use std::fs;
use std::process::{Child, Command};

use anyhow::Context as _;
use serde_json::Value;
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::broker::free_port;
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

/// A memcached at a port; killed when it is dropped.
struct Memcached(Child);

impl Memcached {
    fn start(port: u16) -> anyhow::Result<Self> {
        let mut command = Command::new("memcached");
        command.args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-p"]);
        let child = command.arg(port.to_string()).spawn();
        Ok(Self(child.context("./test installs memcached")?))
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn killed_memcached_loses_no_entry_and_is_used_again() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let port = free_port()?;
    let server = Memcached::start(port)?;
    bench.configure(&format!(
        "[agent.archive]\nmemory_bytes = 0\nmemcached = [\"127.0.0.1:{port}\"]\n"
    ))?;
    let _agent = bench.agent()?;
    Api::on(&bench).wait_until_up()?;
    let ingest = |name: &str| {
        let text = format!("mem::text of {name}");
        done(&bench, &["ingest", &text, "--as", "yard", "--name", name])
    };
    let tier = |name: &str| -> anyhow::Result<String> {
        let entry = format!("yard/{name}");
        let saved = done(&bench, &["get", &entry, "-o", name])?;
        let text = fs::read_to_string(bench.path(name))?;
        assert_eq!(text, format!("text of {name}"));
        Ok(saved[0]["tier"].as_str().context("no tier")?.to_owned())
    };
    ingest("a.txt")?;
    let is_cached = || (tier("a.txt").ok()? == "memcached").then_some(());
    wait_up_to(LONG, "a read from memcached", is_cached)?;
    drop(server);
    ingest("b.txt")?;
    for name in ["a.txt", "b.txt"] {
        assert_eq!(tier(name)?, "durable");
    }
    let _server = Memcached::start(port)?;
    wait_up_to(LONG, "a read from the restarted memcached", is_cached)
}
