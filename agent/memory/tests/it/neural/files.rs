//! Folders of models: the tiny model of `tests/models/sentences`, and each error in one.

use std::fs;
use std::path::{Path, PathBuf};

use watchkeeper_memory::Embedder as _;
use watchkeeper_memory::neural::SentenceModel;

pub(crate) fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models")
}

/// Copies the tiny model to a temporary folder.
pub(crate) fn copy() -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a folder");
    let from = models().join("sentences");
    fs::create_dir(to.path().join("1_Pooling")).expect("a folder");
    for name in [
        "model.onnx",
        "tokenizer.json",
        "1_Pooling/config.json",
        "modules.json",
    ] {
        fs::copy(from.join(name), to.path().join(name)).expect("a copy");
    }
    to
}

fn load(folder: &Path) -> SentenceModel {
    SentenceModel::load(folder).expect("a model")
}

fn refused(folder: &Path) -> String {
    SentenceModel::load(folder)
        .expect_err("refused")
        .to_string()
}

fn cosine(model: &SentenceModel, a: &str, b: &str) -> f32 {
    let vector = |text| model.embed(text).expect("a vector");
    vector(a).iter().zip(&vector(b)).map(|(a, b)| a * b).sum()
}

#[test]
fn tiny_model_embeds_by_its_table() {
    let model = load(&models().join("sentences"));
    assert_eq!((model.dimension(), model.tokens()), (16, 64));
    let near = cosine(&model, "a stray hound", "a dog barks at the gate");
    let far = cosine(&model, "a stray hound", "my sister bought a dress");
    assert!(
        near > model.floor() && far < model.floor(),
        "{near} {far} {}",
        model.floor()
    );
    // Cosines of unrelated sentences are around 0 with such a table, so the floor is low.
    assert!((0.1..0.9).contains(&model.floor()), "{}", model.floor());
    let same = cosine(&model, "The dog!", "the dog");
    assert!((same - 1.0).abs() < 1e-5, "{same}");
    // Only stop words.
    assert_eq!(model.embed("the of and").expect("a vector"), [0.0; 16]);
    assert_eq!(model.embed("").expect("a vector"), [0.0; 16]);
    assert!(model.embed(&"dog ".repeat(100_000)).is_ok());
}

#[test]
fn network_in_onnx_folder_with_one_row_is_accepted() {
    let folder = copy();
    let rows = load(folder.path());
    fs::create_dir(folder.path().join("onnx")).expect("a folder");
    fs::remove_file(folder.path().join("model.onnx")).expect("gone");
    fs::copy(
        models().join("sentences-odd/whole.onnx"),
        folder.path().join("onnx/model.onnx"),
    )
    .expect("a copy");
    let whole = load(folder.path());
    let text = "a dog waits at the red van";
    for (a, b) in rows
        .embed(text)
        .expect("a vector")
        .iter()
        .zip(whole.embed(text).expect("a vector"))
    {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    assert_ne!(rows.kept_as(), whole.kept_as());
}

#[test]
fn unsuitable_networks_are_refused_with_the_reason() {
    for (name, said) in [
        ("no-numbers", "not finite"),
        ("all-alike", "nearly the same vector to unrelated sentences"),
        ("few-tokens", "it fails on 64 tokens of number"),
        ("one-row", "has the shape [1, 1, 16]"),
        (
            "other-output",
            "none of the outputs `sentence_embedding`, `last_hidden_state`, `token_embeddings`, only `logits`",
        ),
        ("fixed-length", "export it with dynamic axes"),
        ("more-inputs", "an input `pixels`"),
    ] {
        let folder = copy();
        let from = models().join(format!("sentences-odd/{name}.onnx"));
        fs::copy(from, folder.path().join("model.onnx")).expect("a copy");
        let told = refused(folder.path());
        assert!(
            told.contains("model.onnx: ") && told.contains(said),
            "{told}"
        );
        assert!(!told.contains('\n') && told.len() < 700, "{told}");
    }
}

#[test]
fn invalid_files_are_named_with_a_remedy() {
    let settings = r#"{"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true}"#;
    let dense = r#"[{"type": "sentence_transformers.models.Dense"}]"#;
    for (name, content, said) in [
        ("model.onnx", &b"\x08\x07nonsense"[..], "model.onnx: "),
        ("model.onnx", b"", "model.onnx: "),
        (
            "tokenizer.json",
            b"{}",
            "tokenizer.json: its normalizer is missing",
        ),
        ("tokenizer.json", b"\xff", "tokenizer.json: "),
        (
            "1_Pooling/config.json",
            settings.as_bytes(),
            "exactly one of pooling_mode_mean_tokens",
        ),
        ("modules.json", dense.as_bytes(), "a step \"Dense\""),
        ("modules.json", b"7", "modules.json: invalid type"),
        (
            "sentence_bert_config.json",
            b"{\"max_seq_length\": \"long\"}",
            "sentence_bert_config.json: invalid type",
        ),
        (
            "config_sentence_transformers.json",
            b"{\"prompts\": 3}",
            "config_sentence_transformers.json: invalid type",
        ),
    ] {
        let folder = copy();
        fs::write(folder.path().join(name), content).expect("write");
        let told = refused(folder.path());
        assert!(told.contains(said), "{told}");
        assert!(told.contains("; "), "it says what to do: {told}");
    }
    let folder = copy();
    fs::remove_file(folder.path().join("tokenizer.json")).expect("gone");
    assert!(refused(folder.path()).contains(
        "tokenizer.json: there is no such file; put the tokenizer.json of the same model"
    ));
    fs::remove_file(folder.path().join("model.onnx")).expect("gone");
    assert!(refused(folder.path()).contains("it has no model.onnx; put the ONNX export"));
    assert!(refused(Path::new("/nowhere")).contains("/nowhere: there is no such folder"));
    // A truncated network, as from an interrupted download.
    let folder = copy();
    let path = folder.path().join("model.onnx");
    let whole = fs::read(&path).expect("read");
    for part in 1..8 {
        fs::write(&path, &whole[..whole.len() * part / 8]).expect("write");
        assert!(refused(folder.path()).contains("model.onnx: "));
    }
    let large = fs::File::create(&path).expect("a file");
    large.set_len(300 << 20).expect("a hole");
    assert!(refused(folder.path()).contains("at most 268435456 are read; use a smaller model"));
}

#[test]
fn optional_files_of_a_model_are_used() {
    let folder = copy();
    let plain = load(folder.path());
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("write");
    put(
        "sentence_bert_config.json",
        r#"{"max_seq_length": 12, "do_lower_case": false}"#,
    );
    let short = load(folder.path());
    assert_eq!(short.tokens(), 12);
    let late = format!("{} dog", "van ".repeat(12));
    assert_ne!(
        plain.embed(&late).expect("a vector"),
        short.embed(&late).expect("a vector")
    );
    put(
        "1_Pooling/config.json",
        r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#,
    );
    // The first token of the tiny model has no vector, because it does not depend on the others.
    assert!(refused(folder.path()).contains("zero everywhere"));
    put(
        "1_Pooling/config.json",
        r#"{"pooling_mode_mean_tokens": true}"#,
    );
    put(
        "config_sentence_transformers.json",
        r#"{"prompts": {"query": "dog ", "passage": "van "}}"#,
    );
    let prompted = load(folder.path());
    assert_ne!(
        prompted.embed("red").expect("a vector"),
        prompted.embed_question("red").expect("a vector")
    );
    assert_eq!(
        prompted.embed("red").expect("a vector"),
        short.embed("van red").expect("a vector")
    );
    let names = [&plain, &short, &prompted].map(|m| m.kept_as().map(str::to_owned));
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
    assert_eq!(
        load(&models().join("sentences")).kept_as(),
        plain.kept_as(),
        "it goes by what stands in the files, not by where they are"
    );
}

#[derive(serde::Deserialize)]
struct Row {
    text: String,
    mean: Vec<f32>,
    first: Vec<f32>,
}

#[test]
fn exported_transformer_matches_the_reference() {
    let rows: Vec<Row> =
        serde_json::from_str(include_str!("../../golden/bert.json")).expect("golden");
    let folder = copy();
    let from = models().join("sentences-odd/bert.onnx");
    fs::copy(from, folder.path().join("model.onnx")).expect("a copy");
    let mean = load(folder.path());
    let first = r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#;
    fs::write(folder.path().join("1_Pooling/config.json"), first).expect("write");
    let first = load(folder.path());
    for row in rows {
        for (model, expected) in [(&mean, &row.mean), (&first, &row.first)] {
            let vector = model.embed(&row.text).expect("a vector");
            assert_eq!(vector.len(), expected.len());
            for (a, b) in vector.iter().zip(expected) {
                assert!((a - b).abs() < 1e-4, "{:?}: {a} for {b}", row.text);
            }
        }
    }
    // The network accepts the 64 tokens of the tokenizer, and not one more.
    let longer = r#"{"max_seq_length": 65}"#;
    fs::write(folder.path().join("sentence_bert_config.json"), longer).expect("write");
    let told = refused(folder.path());
    assert!(told.contains("it fails on 65 tokens"), "{told}");
}
