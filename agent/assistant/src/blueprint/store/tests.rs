//! Files that replace, damage, or exceed the built-in blueprints.

use super::*;

const DOCK: &str = "+++\njob = \"question\"\nwhen = \"About the dock.\"\n+++\nAnswer in Polish.\n";

fn name(name: &str) -> BlueprintName {
    BlueprintName::new(name).unwrap()
}

fn open() -> (tempfile::TempDir, BlueprintStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = BlueprintStore::new(dir.path());
    (dir, store)
}

fn names(store: &BlueprintStore) -> Vec<(String, BlueprintOrigin)> {
    let (all, notes) = store.list().unwrap();
    assert_eq!(notes, Vec::<String>::new());
    all.iter().map(|l| (l.name.to_string(), l.origin)).collect()
}

#[test]
fn built_in_ones_exist_without_a_folder() {
    let (_dir, store) = open();
    let all = names(&store);
    assert_eq!(all.len(), Job::ALL.len());
    assert!(
        all.iter()
            .all(|(_, origin)| *origin == BlueprintOrigin::BuiltIn)
    );
    assert!(!store.folder().exists(), "listing creates nothing");
}

#[test]
fn blueprint_is_created_updated_copied_and_deleted() {
    let (_dir, store) = open();
    store.create(&name("dock"), DOCK).unwrap();
    assert_eq!(store.get("dock").unwrap().text, DOCK);
    let taken = store.create(&name("dock"), DOCK).unwrap_err();
    assert!(taken.to_string().contains("update dock"), "{taken}");
    let other = DOCK.replace("Polish", "Czech");
    store.update(&name("dock"), &other).unwrap();
    store.duplicate(&name("dock"), &name("yard")).unwrap();
    assert_eq!(
        store.get("yard").unwrap().serves.unwrap().instructions,
        "Answer in Czech."
    );
    assert!(!store.delete(&name("dock")).unwrap());
    let gone = store.get("dock").unwrap_err().to_string();
    assert!(
        gone.contains("no blueprint \"dock\"") && gone.contains("yard"),
        "{gone}"
    );
    let near = store.delete(&name("yart")).unwrap_err().to_string();
    assert!(near.contains("did you mean yard?"), "{near}");
}

#[test]
fn file_replaces_a_built_in_one_until_deleted() {
    let (_dir, store) = open();
    let own = built_in::text(Job::Question).replace("steps = 8", "steps = 3");
    assert!(matches!(
        store.create(&name("question"), &own),
        Err(BlueprintStoreError::Taken { built_in: true, .. })
    ));
    store.update(&name("question"), &own).unwrap();
    assert_eq!(store.serving(Job::Question).unwrap().0.steps, 3);
    assert!(names(&store).contains(&("question".to_owned(), BlueprintOrigin::FileInPlace)));
    assert!(store.delete(&name("question")).unwrap());
    assert_eq!(store.serving(Job::Question).unwrap().0.steps, 8);
    assert!(matches!(
        store.delete(&name("question")),
        Err(BlueprintStoreError::BuiltIn(_))
    ));
}

#[test]
fn damaged_file_is_reported_and_no_other_provider_is_used() {
    let (_dir, store) = open();
    for job in [Job::Triage, Job::Question] {
        store
            .update(&name(job.name()), built_in::text(job))
            .unwrap();
    }
    store.create(&name("dock"), DOCK).unwrap();
    for damage in [
        &b"+++\njob = \"tri"[..],
        b"\xff\xfe",
        &[b'x'; MAX_BYTES + 9],
    ] {
        for file in ["triage.md", "question.md", "dock.md"] {
            fs::write(store.folder().join(file), damage).unwrap();
        }
        for job in [Job::Question, Job::Triage] {
            let why = store.serving(job).unwrap_err();
            let name = job.name();
            assert!(
                why.starts_with(&format!("the blueprint {name} can't be used"))
                    && why.contains("may name another provider"),
                "{why}"
            );
        }
        let triage = store.get("triage").unwrap();
        assert_eq!(
            (triage.origin, triage.serves),
            (BlueprintOrigin::Damaged, None)
        );
        assert_eq!(triage.text, built_in::text(Job::Triage));
        let dock = store.get("dock").unwrap();
        assert_eq!(
            (dock.origin, dock.serves.is_none()),
            (BlueprintOrigin::Damaged, true)
        );
        assert!(dock.trouble().unwrap().contains("not used"));
        assert!(store.duplicate(&name("dock"), &name("yard")).is_err());
    }
    // Its form shows that it names no provider.
    let wrong_value = built_in::text(Job::Question).replace("steps = 8", "steps = 99");
    fs::write(store.folder().join("question.md"), wrong_value).unwrap();
    let (blueprint, trouble) = store.serving(Job::Question).unwrap();
    assert_eq!(blueprint.steps, 8);
    assert!(trouble.unwrap().contains("the built-in one is used"));
    // A damaged file can be updated and deleted.
    store.update(&name("dock"), DOCK).unwrap();
    store.delete(&name("triage")).unwrap();
    store.delete(&name("question")).unwrap();
    assert!(store.serving(Job::Triage).is_ok());
    assert!(store.list().unwrap().0.iter().all(|l| l.flaws.is_empty()));
}

#[test]
fn unreadable_file_affects_only_its_own_name() {
    let (_dir, store) = open();
    store.create(&name("dock"), DOCK).unwrap();
    fs::create_dir(store.folder().join("yard.md")).unwrap();
    fs::create_dir(store.folder().join("question.md")).unwrap();
    // A symlink to itself: root can read a file without permissions.
    std::os::unix::fs::symlink("gate.md", store.folder().join("gate.md")).unwrap();
    let (all, _) = store.list().unwrap();
    let of = |name: &str| all.iter().find(|l| l.name.as_str() == name).unwrap();
    assert_eq!(of("dock").origin, BlueprintOrigin::File);
    for damaged in ["yard", "gate", "question"] {
        assert_eq!(of(damaged).origin, BlueprintOrigin::Damaged);
        let trouble = of(damaged).trouble().unwrap();
        assert!(trouble.contains("it can't be read"), "{trouble}");
    }
    assert!(store.serving(Job::Question).is_err());
    let denied = unreadable(&io::ErrorKind::PermissionDenied.into());
    assert!(denied.to_string().contains("chown"), "{denied}");
}

#[test]
fn written_file_gets_the_owner_of_the_folder() {
    let (dir, _) = open();
    // Only root can change owners.
    if chown(dir.path(), Some(12_345), Some(12_345)).is_err() {
        return;
    }
    let store = BlueprintStore::new(&dir.path().join("assistant"));
    store.create(&name("dock"), DOCK).unwrap();
    store
        .update(&name("question"), built_in::text(Job::Question))
        .unwrap();
    let folder = store.folder();
    let made = ["dock.md", "question.md"].map(|file| folder.join(file));
    for path in made
        .iter()
        .map(PathBuf::as_path)
        .chain([folder, folder.parent().unwrap()])
    {
        let there = fs::metadata(path).unwrap();
        assert_eq!(
            (there.uid(), there.gid()),
            (12_345, 12_345),
            "{}",
            path.display()
        );
    }
}

#[test]
fn concurrent_creates_of_one_name_succeed_once() {
    let (_dir, store) = open();
    let many: Vec<_> = (0..8)
        .map(|n| {
            let store = store.clone();
            let text = DOCK.replace("Polish", &format!("Polish {n}"));
            std::thread::spawn(move || (store.write(&name("dock"), &text, WriteTarget::Free), text))
        })
        .collect();
    let many: Vec<_> = many.into_iter().map(|one| one.join().unwrap()).collect();
    let (made, refused): (Vec<_>, Vec<_>) = many.into_iter().partition(|(done, _)| done.is_ok());
    assert_eq!((made.len(), refused.len()), (1, 7));
    assert!(
        refused
            .iter()
            .all(|(done, _)| matches!(done, Err(BlueprintStoreError::Taken { .. })))
    );
    assert_eq!(store.get("dock").unwrap().text, made[0].1);
    assert_eq!(
        fs::read_dir(store.folder()).unwrap().count(),
        1,
        "nothing is left over"
    );
}

#[test]
fn invalid_blueprint_is_not_written() {
    let (_dir, store) = open();
    let wrong = DOCK.replace("question", "triag");
    assert!(matches!(
        store.create(&name("dock"), &wrong),
        Err(BlueprintStoreError::Invalid(_))
    ));
    assert!(!store.folder().exists());
}

#[test]
fn files_over_the_maximum_are_reported() {
    let (_dir, store) = open();
    for n in 0..MAX_FILES {
        store.create(&name(&format!("b{n:02}")), DOCK).unwrap();
    }
    assert!(matches!(
        store.create(&name("more"), DOCK),
        Err(BlueprintStoreError::Full)
    ));
    assert!(matches!(
        store.update(&name("question"), DOCK),
        Err(BlueprintStoreError::Full)
    ));
    fs::write(store.folder().join("zz.md"), DOCK).unwrap();
    fs::write(store.folder().join("Not A Name.md"), DOCK).unwrap();
    let (all, notes) = store.list().unwrap();
    assert_eq!(all.len(), MAX_FILES + Job::ALL.len());
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn file_is_private_and_blocked_folder_is_an_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, store) = open();
    store.create(&name("dock"), DOCK).unwrap();
    let mode = fs::metadata(store.folder().join("dock.md"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // A file in place of the folder.
    let blocked = BlueprintStore::new(&dir.path().join("blueprints/dock.md"));
    for job in [Job::Question, Job::Triage] {
        assert!(blocked.serving(job).is_err());
    }
    assert!(matches!(
        blocked.create(&name("x"), DOCK),
        Err(BlueprintStoreError::Io { .. })
    ));
}
