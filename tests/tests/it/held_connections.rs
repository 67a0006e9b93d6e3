//! Clients that hold connections and never read keep nobody else out.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use anyhow::ensure;
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::broker::free_port;
use watchkeeper_tests::daemons::Bench;
use watchkeeper_tests::person::command;
use watchkeeper_tests::silent_clients::hold;

/// More than a daemon serves at a time.
const CLIENTS: usize = 300;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Requests whose answers fill the buffers of the system.
fn pipelined(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(2_000)
}

#[test]
fn clients_that_never_read_leave_the_runtime_to_the_owner() -> anyhow::Result<()> {
    let bench = Bench::new("[sources.street]\nuri = \"demo:\"\n")?;
    let _runtime = bench.runtime()?;
    let socket = bench.socket();
    let connect = || {
        let stream = UnixStream::connect(&socket)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    let held = hold(CLIENTS, connect, &pipelined("/v1/sources"))?;
    let status = command(&bench)?.args(["status", "--json"]).output()?;
    let errors = String::from_utf8_lossy(&status.stderr);
    ensure!(status.status.success(), "{errors}");
    ensure!(held.len() == CLIENTS);
    Ok(())
}

#[test]
fn clients_without_a_token_leave_the_api_to_its_owner() -> anyhow::Result<()> {
    let port = free_port()?;
    let bench = Bench::new(&format!(
        "[agent.api]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"token\"\n"
    ))?;
    std::fs::write(bench.path("token"), TOKEN)?;
    let _daemons = [bench.runtime()?, bench.agent()?];
    let owner = Api::over_tcp(port, Some(TOKEN)).wait_until_up()?;
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    let silent = hold(CLIENTS, connect, "GET /v1/health HTTP/1.1\r\nhost: lo")?;
    let not_reading = hold(CLIENTS, connect, &pipelined("/v1/health"))?;
    let (status, health) = owner.request("GET", "/v1/health", None)?;
    ensure!(status == 200, "{health}");
    ensure!(silent.len() + not_reading.len() == 2 * CLIENTS);
    Ok(())
}

#[test]
fn foreign_host_name_is_refused_over_tcp() -> anyhow::Result<()> {
    let port = free_port()?;
    let bench = Bench::new(&format!(
        "[agent.api]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"token\"\n\
         hosts = [\"box.example.com\"]\n"
    ))?;
    std::fs::write(bench.path("token"), TOKEN)?;
    let _daemons = [bench.runtime()?, bench.agent()?];
    let owner = Api::over_tcp(port, Some(TOKEN)).wait_until_up()?;
    for (host, expected) in [
        ("localhost", 200),
        ("box.example.com", 200),
        ("evil.example", 421),
    ] {
        let (status, answer) = owner.under_host(host, "/v1/health")?;
        ensure!(status == expected, "{host}: {status} {answer}");
        ensure!(expected == 200 || answer["field"] == "Host", "{answer}");
    }
    Ok(())
}
