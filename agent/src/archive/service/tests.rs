//! The service before its archive is open, and how long it waits for embeddings.

use super::*;

#[tokio::test]
async fn archive_that_is_not_open_is_a_problem_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let state_dir = folder.path().join("state");
    std::fs::write(&state_dir, "a file where a folder should be").unwrap();
    let setup = ArchiveSetup {
        state_dir: state_dir.clone(),
        config: ArchiveConfig::default(),
        ca_file: None,
        credentials: None,
    };
    let runtime = RuntimeClient::new(folder.path().join("none.sock")).unwrap();
    let service = ArchiveService::new(setup, runtime);
    assert_eq!(service.problem(), None);
    assert!(service.archive().await.is_err());
    assert!(service.problem().unwrap().contains("not open"));
    std::fs::remove_file(&state_dir).unwrap();
    assert!(service.archive().await.is_ok());
    assert_eq!(service.problem(), None);
}

#[test]
fn missing_embedding_has_the_reason_that_the_counts_give() {
    let name: EntryName = "yard/a.jpg".parse().unwrap();
    let said = |waiting, why: Option<&str>| {
        let counts = EmbeddingStats {
            model: None,
            waiting,
            made: 0,
            refused: 0,
            why: why.map(str::to_owned),
        };
        no_embedding(&name, &counts)
    };
    assert!(said(2, Some("the runtime is away")).ends_with(": the runtime is away"));
    assert!(said(2, None).contains("2 pictures still wait"));
    assert!(said(0, None).contains("archive verify"));
}
