//! The embedded broker, as the demo uses it.

use std::net::TcpListener;
use std::time::Instant;

use watchkeeper_cli::embedded_broker::{BrokerError, run_embedded};
use watchkeeper_contract::rule::Severity;

use crate::support::agent_thread::EmbeddedAgent;
use crate::support::broker::{PATIENCE, Subscriber, mosquitto_or_skip};
use crate::support::fake_runtime::{FakeRuntime, crossing};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}

#[test]
fn a_port_that_is_taken_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    assert!(matches!(run_embedded(port), Err(BrokerError::Port { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_client_sees_events_through_the_embedded_broker() {
    if mosquitto_or_skip("a_foreign_client_sees_events_through_the_embedded_broker").is_none() {
        return;
    }
    let port = free_port();
    std::thread::spawn(move || run_embedded(port));
    let until = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "the broker does not listen");
        tokio::task::yield_now().await;
    }
    let folder = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(folder.path());
    let mut subscriber = Subscriber::start(port, "foreign").ready(port);
    let agent = EmbeddedAgent::start(folder.path(), &runtime, port, |_| ());
    for _ in 0..300 {
        runtime.append(crossing(Severity::Info));
    }
    subscriber.expect_no_hole(300);
    agent.stop();
    subscriber.expect("/b/state", |v| v["s"] == "stopped");
}
