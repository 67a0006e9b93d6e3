//! `watchkeeper cameras find` against cameras that answer WS-Discovery over real sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use watchkeeper_tests::daemons::{json_lines, program};
use watchkeeper_tests::netns;

/// Group and port of WS-Discovery.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 250);
const PORT: u16 = 3702;

fn find(arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(Command::new(program("watchkeeper")?)
        .args(["cameras", "find"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()?)
}

/// Answers every probe on `socket`, as two cameras do and a device that damages its answers.
fn answer_probes(socket: UdpSocket) {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let probe = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let id = probe
                .split("MessageID>")
                .nth(1)
                .and_then(|rest| rest.split('<').next());
            let Some(id) = id else { continue };
            let gate = answer(
                id,
                "gate",
                "Gate%1b%5b31m%20camera",
                "http://10.99.0.1/onvif",
            );
            let yard = answer(
                id,
                "yard",
                "Yard",
                "http://me:secret@10.99.0.2/ ftp://10.99.0.2/",
            );
            let damaged = &gate[..gate.len() / 2];
            let others = answer(
                "urn:uuid:of-somebody-else",
                "other",
                "Other",
                "http://10.99.0.3/",
            );
            for text in [damaged, &others, &gate, &yard, &gate, "", "\u{0}\u{0}"] {
                socket.send_to(text.as_bytes(), from).ok();
            }
        }
    });
}

fn answer(id: &str, endpoint: &str, name: &str, xaddrs: &str) -> String {
    format!(
        r#"<?xml version="1.0"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"
        xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing"
        xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery"><s:Header>
        <a:RelatesTo>{id}</a:RelatesTo></s:Header><s:Body><d:ProbeMatches><d:ProbeMatch>
        <a:EndpointReference><a:Address>urn:uuid:{endpoint}</a:Address></a:EndpointReference>
        <d:Scopes>onvif://www.onvif.org/name/{name} onvif://www.onvif.org/hardware/M1</d:Scopes>
        <d:XAddrs>{xaddrs}</d:XAddrs></d:ProbeMatch></d:ProbeMatches></s:Body></s:Envelope>"#
    )
}

fn is_gate_and_yard(out: &Output) -> anyhow::Result<()> {
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(
        out.status.success() && !errors.contains("panicked"),
        "{errors}"
    );
    let found = json_lines(&out.stdout)?;
    let names: Vec<_> = found
        .iter()
        .filter_map(|camera| camera["name"].as_str())
        .collect();
    ensure!(names == ["Gate[31m camera", "Yard"], "{found:?}");
    ensure!(
        found[0]["hardware"] == "M1" && found[0]["endpoint"] == "urn:uuid:gate",
        "{found:?}"
    );
    ensure!(
        found[0]["xaddrs"][0] == "http://10.99.0.1/onvif",
        "{found:?}"
    );
    ensure!(
        found[1]["xaddrs"].as_array().is_some_and(Vec::is_empty),
        "{found:?}"
    );
    Ok(())
}

#[test]
fn camera_at_an_address_is_found_once() -> anyhow::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port().to_string();
    answer_probes(socket);
    let to = ["--at", "127.0.0.1", "--port", &port, "--for", "1"];
    is_gate_and_yard(&find(&[&to[..], &["--json"]].concat())?)?;

    let out = find(&to)?;
    let text = String::from_utf8_lossy(&out.stdout);
    ensure!(
        text.contains("http://10.99.0.1/onvif") && !text.contains("secret"),
        "{text}"
    );
    ensure!(
        text.contains("rtsp://USER:PASSWORD@10.99.0.1/PATH"),
        "{text}"
    );
    ensure!(!text.contains('\u{1b}'), "{text}");
    Ok(())
}

#[test]
fn cameras_of_the_local_network_are_found() -> anyhow::Result<()> {
    netns::in_private_network(
        "find_cameras::cameras_of_the_local_network_are_found",
        || {
            let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))?;
            socket
                .join_multicast_v4(&GROUP, &netns::ADDRESS)
                .context("joining the group")?;
            answer_probes(socket);
            is_gate_and_yard(&find(&["--for", "2", "--json"])?)
        },
    )
}

#[test]
fn silent_address_gives_advice() -> anyhow::Result<()> {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    silent.set_read_timeout(Some(Duration::from_secs(1)))?;
    let port = silent.local_addr()?.port().to_string();
    let out = find(&["--at", "127.0.0.1", "--port", &port, "--for", "0.2"])?;
    let text = String::from_utf8_lossy(&out.stdout);
    ensure!(
        out.status.success() && text.contains("Nothing answered at 127.0.0.1"),
        "{text}"
    );
    ensure!(text.contains("check the address"), "{text}");
    Ok(())
}
