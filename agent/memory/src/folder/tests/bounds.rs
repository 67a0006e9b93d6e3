//! What happens at the limits of files, notes and days.

use super::*;

#[test]
fn full_file_refuses_notes_with_a_remedy() {
    let mut bench = Bench::new();
    let many: String = (0..max_notes(Kind::Preference))
        .map(|n| format!("## \nwish {n}\n"))
        .collect();
    bench.put("preferences.md", &many);
    let one_more = entry(Kind::Preference, Origin::Person, "one more");
    let error = bench
        .memory
        .remember(wall(NOON), one_more)
        .expect_err("full");
    let told = "preferences.md is full, another preference does not fit (at most 200 notes and 1048576 bytes); delete or join notes";
    assert_eq!(error.to_string(), told);
    assert_eq!(bench.text("preferences.md"), many);
}

#[test]
fn agent_limit_of_knowledge_leaves_room_for_users() {
    let mut bench = Bench::new();
    let share = limits::max_agent_notes(Kind::Knowledge);
    for n in 0..share {
        let pattern = entry(Kind::Knowledge, Origin::Agent, &format!("pattern {n}"));
        bench.memory.remember(wall(NOON), pattern).expect("kept");
    }
    let one_more = entry(Kind::Knowledge, Origin::Agent, "one more");
    let error = bench
        .memory
        .remember(wall(NOON), one_more)
        .expect_err("its share is full");
    assert!(
        error.to_string().contains("the maximum of its knowledge"),
        "{error}"
    );
    let persons = entry(
        Kind::Knowledge,
        Origin::Person,
        "the gate is locked at night",
    );
    bench
        .memory
        .remember(wall(NOON), persons)
        .expect("room for a person");
}

#[test]
fn old_files_are_removed_unless_edited_or_invalid() {
    let mut bench = Bench::new();
    let name = |day: i64| {
        let at = Timestamp::from_millisecond(NOON + day * DAY).expect("time");
        layout::place(Kind::Observation, Some(at)).file
    };
    let files: Vec<String> = (0..i64::try_from(MAX_DAYS).expect("days"))
        .map(|day| name(day).to_string_lossy().into_owned())
        .collect();
    for file in &files {
        bench.put(file, "## (agent)\nquiet\n");
    }
    bench.put(&files[0], "## (agent)\nquiet\n\n## \nI saw a fox.\n");
    bench.put(&files[1], "## (agnet)\nquiet\n");
    bench.put("observations/undated.md", "## (agent)\nquiet\n");
    let write = |bench: &mut Bench, day: i64| {
        let seen = entry(Kind::Observation, Origin::Agent, "A dog.");
        bench
            .memory
            .remember(wall(NOON + day * DAY), seen)
            .expect("remember");
    };
    write(&mut bench, 400);
    assert!(bench.path(&files[0]).exists() && bench.path(&files[1]).exists());
    assert!(!bench.path(&files[2]).exists() && bench.path(&files[3]).exists());
    assert!(bench.path("observations/undated.md").exists());
    // After the clock was set back, the file just written is the oldest, and stays.
    write(&mut bench, -5);
    assert!(bench.path(&name(-5).to_string_lossy()).exists());
    assert!(!bench.path(&files[3]).exists());
}
