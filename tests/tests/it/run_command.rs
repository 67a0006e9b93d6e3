//! What `watchkeeper run` promises, asked of the real command with both daemons on the built-in scene: an exact end, every
//! event before the summary, mistakes told with the right exit code.

use std::process::{Command, Stdio};

use serde_json::Value;
use watchkeeper_tests::daemons::{program, run_json};

fn new_events(lines: &[Value]) -> u64 {
    let new = |line: &&Value| line["type"] == "event" && line["phase"] == "new";
    u64::try_from(lines.iter().filter(new).count()).expect("a small count")
}

#[test]
fn a_run_stops_at_the_second_asked_for_and_has_printed_every_event_before_the_summary()
-> anyhow::Result<()> {
    let zone = "all:0,0,640,0,640,360,0,360";
    let (code, lines, errors) =
        run_json(&["demo:", "--model", "motion", "--zone", zone, "--for", "9"])?;
    assert_eq!(code, 0, "{errors}");
    let summary = lines.last().expect("a summary");
    assert_eq!(summary["type"], "summary");
    let seconds = summary["seconds"].as_f64().unwrap_or_default();
    // The last frame lies at the end or less than one frame before it.
    assert!(seconds > 8.8 && seconds <= 9.001, "{seconds}");
    assert!(new_events(&lines) > 0, "a scene in which nothing happens");
    assert_eq!(Some(new_events(&lines)), summary["events"].as_u64());
    Ok(())
}

#[test]
fn a_run_without_line_and_zone_tells_people_of_a_crowd_in_few_lines_and_counts_everybody()
-> anyhow::Result<()> {
    let out = Command::new(program("watchkeeper")?)
        .args(["run", "demo:", "--model", "motion", "--for", "20"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8(out.stdout)?;
    let about = |line: &&str| line.contains(" appears: ");
    let lines: Vec<&str> = said.lines().filter(about).collect();
    let so_far = lines.last().and_then(|line| line.strip_suffix(" so far"));
    let so_far = so_far.and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    let so_far = so_far.ok_or_else(|| anyhow::anyhow!("no number: {said}"))?;
    assert!(lines.len() < so_far, "{said}");
    assert!(said.contains(&format!(", {so_far} events")), "{said}");
    Ok(())
}

#[test]
fn a_line_outside_the_picture_is_refused_with_its_size() -> anyhow::Result<()> {
    let line = "door:0,2000,640,2000";
    let (code, lines, errors) = run_json(&["demo:", "--line", line, "--for", "9"])?;
    assert_eq!(code, 2, "{errors}");
    assert!(
        errors.contains("\"door\"") && errors.contains("640x360"),
        "{errors}"
    );
    assert!(lines.iter().all(|line| line["type"] != "summary"));
    Ok(())
}

#[test]
fn a_broker_that_is_not_there_is_told_and_changes_the_exit_code() -> anyhow::Result<()> {
    // A port that was free a moment ago.
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let nobody = taken.local_addr()?.to_string();
    drop(taken);
    let (code, lines, errors) = run_json(&[
        "demo:", "--model", "motion", "--for", "2", "--mqtt", &nobody,
    ])?;
    assert_eq!(code, 5, "{errors}");
    assert!(errors.contains(&nobody), "{errors}");
    assert_eq!(lines.last().expect("a summary")["type"], "summary");
    Ok(())
}
