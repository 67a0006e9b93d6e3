//! Tokens compared with those of the training library, recorded by `tests/tools/tiny-sentences`.

use proptest::prelude::*;
use serde::Deserialize;
use watchkeeper_memory::neural::tokens::Tokenizer;

const FILE: &[u8] = include_bytes!("../../../../../tests/models/sentences/tokenizer.json");
const GOLDEN: &str = include_str!("../../golden/tokens.json");

#[derive(Deserialize)]
struct Row {
    text: String,
    tokens: Vec<i32>,
}

fn tokenizer() -> Tokenizer {
    Tokenizer::read(FILE).expect("a tokenizer")
}

#[test]
fn tokens_equal_those_of_the_training_library() {
    let tokenizer = tokenizer();
    assert_eq!(tokenizer.cut(), Some(64));
    let rows: Vec<Row> = serde_json::from_str(GOLDEN).expect("golden");
    assert!(rows.len() > 10);
    for Row { text, tokens } in rows {
        assert_eq!(tokenizer.tokens(&text, 64), tokens, "{text:?}");
    }
}

fn with(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut file: serde_json::Value = serde_json::from_slice(FILE).expect("JSON");
    change(&mut file);
    serde_json::to_vec(&file).expect("JSON")
}

#[test]
fn tokenizer_of_another_kind_is_refused() {
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &str); 8] = [
        (
            |f| f["model"]["type"] = "Unigram".into(),
            "its model is \"Unigram\", and only \"WordPiece\"",
        ),
        (
            |f| f["normalizer"] = serde_json::Value::Null,
            "its normalizer is missing",
        ),
        (
            |f| f["pre_tokenizer"]["type"] = "Metaspace".into(),
            "its pre_tokenizer is \"Metaspace\"",
        ),
        (
            |f| f["post_processor"]["type"] = "RobertaProcessing".into(),
            "RobertaProcessing",
        ),
        (
            |f| f["post_processor"]["special_tokens"] = serde_json::Value::Null,
            "does not define \"[CLS]\"",
        ),
        (
            |f| f["model"]["unk_token"] = "[NONE]".into(),
            "no token \"[NONE]\" for unknown words",
        ),
        (
            |f| f["model"]["vocab"]["dog"] = (1_i64 << 40).into(),
            "token \"dog\" is out of range",
        ),
        (|f| f["model"]["vocab"] = 7.into(), "invalid type"),
    ];
    for (change, said) in cases {
        let refused = Tokenizer::read(&with(change))
            .expect_err("refused")
            .to_string();
        assert!(refused.contains(said), "{refused}");
    }
    assert!(Tokenizer::read(b"{").is_err());
    // Format of older files.
    let older = with(|f| {
        let bert =
            serde_json::json!({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]});
        f["post_processor"] = bert;
    });
    let older = Tokenizer::read(&older).expect("it is read");
    assert_eq!(older.tokens("a dog", 9), tokenizer().tokens("a dog", 9));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens_of_any_text_are_bounded_by_special_tokens(
        text in any::<String>(),
        many in 0..40_usize,
        most in 0..20_usize,
    ) {
        let tokenizer = tokenizer();
        let long = text.repeat(many);
        let tokens = tokenizer.tokens(&long, most);
        prop_assert!(tokens.len() <= most);
        prop_assert!(tokens.iter().all(|t| (0..=tokenizer.last()).contains(t)));
        if most >= 2 {
            prop_assert_eq!(tokens.first(), Some(&2));
            prop_assert_eq!(tokens.last(), Some(&3));
            // The cut does not change the tokens before it.
            let all = tokenizer.tokens(&long, 100_000);
            prop_assert_eq!(&tokens[..tokens.len() - 1], &all[..tokens.len() - 1]);
        }
    }
}
