use crate::manifest::DecodeKind;

use super::names::MAX_NAME;
use super::*;

const GOOD: &str = include_str!("../../zoo/yolox-nano.toml");

fn refused(text: &str) -> String {
    Manifest::parse(Path::new("m.toml"), text)
        .expect_err("must be refused")
        .to_string()
}

#[test]
fn unknown_key_is_refused_with_its_neighbours() {
    let message = refused(&GOOD.replace("width = 416", "widht = 416"));
    assert!(message.starts_with("m.toml: "), "{message}");
    assert!(
        message.contains("widht") && message.contains("width"),
        "{message}"
    );
}

#[test]
fn every_wrong_value_is_reported_with_allowed_ones() {
    let message = refused(
        &GOOD
            .replace("\"nchw\"", "\"chw\"")
            .replace("iou = 0.45", "iou = 45")
            .replace("labels = \"coco-80\"", "labels = \"coco\"")
            .replace("pad = 114", "pad = 300"),
    );
    for part in [
        "`input.layout` is \"chw\", allowed: nchw, nhwc",
        "`nms.iou` is 45.0, allowed: 0.0 to 1.0",
        "`labels` is \"coco\", allowed: coco-80, coco-91, or a list of names",
        "`input.pad` is 300, allowed: 0 to 255",
    ] {
        assert!(message.contains(part), "{part} missing in {message}");
    }
}

#[test]
fn wrong_type_names_its_key() {
    let message = refused(&GOOD.replace("width = 416", "width = \"wide\""));
    assert!(message.contains("`input.width`"), "{message}");
}

#[test]
fn example_in_the_readme_is_accepted() {
    let readme = include_str!("../../README.md");
    let block = readme
        .split("```")
        .find_map(|part| part.strip_prefix("toml\n"));
    let text = block
        .expect("the readme has an example")
        .replace("…64 hexadecimal digits…", &"0".repeat(64));
    let manifest = Manifest::parse(Path::new("README.md"), &text).expect("a good example");
    assert_eq!(manifest.labels.len(), 2);
}

#[test]
fn names_of_classes_are_plain_and_each_is_there_once() {
    let named = |names: &str| GOOD.replace("labels = \"coco-80\"", &format!("labels = {names}"));
    let good = named(&format!(
        "[\"car\", \"Größe\", \"{}\"]",
        "x".repeat(MAX_NAME)
    ));
    assert!(Manifest::parse(Path::new("m.toml"), &good).is_ok());
    let long = format!("[\"{}\"]", "x".repeat(MAX_NAME + 1));
    for (names, key, told) in [
        ("[\"car\", \"\"]", "`labels[1]`", "1 to 64 characters"),
        ("[\"a\\nb\"]", "`labels[0]`", "control character"),
        ("[\"\\u001b[2Jcar\"]", "`labels[0]`", "control character"),
        (&*long, "`labels[0]`", "1 to 64 characters"),
        (
            "[\"car\", \"bus\", \"car\"]",
            "`labels[2]`",
            "labels[0] has that one",
        ),
    ] {
        let message = refused(&named(names));
        assert!(
            message.contains(key) && message.contains(told),
            "{names}: {message}"
        );
    }
}

#[test]
fn part_must_not_have_endings_of_the_folder() {
    let clip = include_str!("../../zoo/clip-vit-b-32.toml");
    for name in [
        "yolox-nano.toml",
        "yolox-nano.onnx.sha256",
        "a.onnx.PART",
        "a.etag",
    ] {
        let message = refused(&clip.replace("bpe_simple_vocab_16e6.txt.gz", name));
        assert!(
            message.contains("`text.vocabulary.file`") && message.contains("does not end in"),
            "{name}: {message}"
        );
    }
}

#[test]
fn broken_toml_names_its_line() {
    let message = refused("name = \"a\"\ntask = \n");
    assert!(message.contains("line 2"), "{message}");
}

#[test]
fn key_of_another_family_is_refused() {
    let message = refused(&GOOD.replace("strides = [8, 16, 32]", "strides = [8]\nreg_max = 7"));
    assert!(
        message.contains("`decode.reg_max`") && message.contains("yolox"),
        "{message}"
    );
}

#[test]
fn task_and_layout_have_to_agree() {
    let seg = include_str!("../../zoo/yolov8n-seg.toml");
    let message = refused(&seg.replace("instance-segmentation", "classification"));
    assert!(
        message.contains("`task`") && message.contains("instance-segmentation"),
        "{message}"
    );
    let pose = include_str!("../../zoo/yolov8n-pose.toml");
    let message = refused(&pose.replace("\"coco-17\"", "\"coco-80\""));
    assert!(
        message.contains("`decode.keypoints`") && message.contains("coco-17"),
        "{message}"
    );
}

#[test]
fn parts_of_a_model_are_checked() {
    let clip = include_str!("../../zoo/clip-vit-b-32.toml");
    let good = Manifest::parse(Path::new("clip.toml"), clip).expect("a good manifest");
    let parts: Vec<_> = good.parts().map(|part| part.file.as_str()).collect();
    assert_eq!(
        parts,
        ["clip-vit-b-32-text.onnx", "bpe_simple_vocab_16e6.txt.gz"]
    );
    assert_eq!(good.stands_for, ["clip/ViT-B-32"]);
    for (from, to, key, told) in [
        (
            "bpe_simple",
            "../bpe_simple",
            "`text.vocabulary.file`",
            "in the same folder",
        ),
        (
            "context = 77",
            "context = 2",
            "`text.context`",
            "3 to 512 tokens",
        ),
        (
            "fill = \"end\"",
            "fill = \"stop\"",
            "`text.fill`",
            "zero, end",
        ),
        (
            ", sha256 = \"924691ac",
            ", sha256 = \"x",
            "`text.vocabulary.sha256`",
            "64 hexadecimal digits",
        ),
        (
            "task = \"image-text",
            "task = \"image",
            "`task`",
            "image-text-embedding",
        ),
        (
            "kind = \"embedding\"\noutputs = [\"image_embeds\"]",
            "kind = \"depth\"",
            "`text`",
            "only with a network",
        ),
        (
            "[licence]",
            "labels = [\"a\"]\n[licence]",
            "`labels`",
            "it has no classes",
        ),
        (
            "[licence]",
            "confidence = 0.5\n[licence]",
            "`confidence`",
            "has no scores",
        ),
        (
            "stands_for = [\"clip/ViT-B-32\"]",
            "stands_for = [\"\"]",
            "`stands_for[0]`",
            "as a step names it",
        ),
    ] {
        let message = refused(&clip.replacen(from, to, 1));
        assert!(
            message.contains(key) && message.contains(told),
            "{to}: {message}"
        );
    }
    let without = clip.replace(
        ", sha256 = \"924691ac288e54409236115652ad4aa250f48203de50a9e4722a6ecd48d6804a\"",
        "",
    );
    let message = refused(&without);
    assert!(
        message.contains("`text.vocabulary.sha256` is absent"),
        "{message}"
    );
}

#[test]
fn reader_needs_characters_and_line_network() {
    let ocr = include_str!("../../zoo/pp-ocr-v4.toml");
    let good = Manifest::parse(Path::new("ocr.toml"), ocr).expect("a good manifest");
    let DecodeKind::Ctc { characters, .. } = &good.decode.kind else {
        panic!("{:?}", good.decode.kind);
    };
    assert_eq!((characters.len(), &*characters[6623]), (6624, " "));
    for (from, to, key) in [
        ("blank = \"first\"", "blank = \"none\"", "`decode.blank`"),
        ("widest = 1600", "widest = 100000", "`decode.widest`"),
        ("threshold = 0.3", "threshold = 30.0", "`lines.threshold`"),
        ("unclip = 1.6", "unclip = -1.0", "`lines.unclip`"),
        ("width = 736", "width = 0", "`lines.input.width`"),
        ("widest = 1920", "widest = 700", "`lines.widest`"),
        ("file = \"ch_PP", "file = \"/etc/ch_PP", "`lines.file`"),
        ("confidence = 0.5\nstands", "stands", "`confidence`"),
    ] {
        let message = refused(&ocr.replacen(from, to, 1));
        assert!(message.contains(key), "{to}: {message}");
    }
    let start = ocr.find("characters").unwrap_or_default();
    let end = ocr.find("# Finds lines").unwrap_or_default();
    let without = format!("{}{}", &ocr[..start], &ocr[end..]);
    assert!(refused(&without).contains("`decode.characters`"));
}

#[test]
fn runs_of_frames_are_bounded() {
    let run = "name = \"moves\"\ntask = \"action-recognition\"\nconfidence = 0.5\nlabels = [\"wave\", \"fall\"]\n[input]\nwidth = 224\n\
               height = 224\nlayout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\nfit = \"stretch\"\n[decode]\nkind = \"actions\"\n\
               scores = \"softmax\"\nframes = 16\nfps = 4.0\norder = \"channels-first\"\n";
    assert!(Manifest::parse(Path::new("m.toml"), run).is_ok());
    for (from, to, key) in [
        ("frames = 16", "frames = 1", "`decode.frames`"),
        ("224", "1025", "`decode.frames`"),
        ("fps = 4.0", "fps = 0.0", "`decode.fps`"),
        (
            "order = \"channels-first\"",
            "order = \"last\"",
            "`decode.order`",
        ),
        ("\"nchw\"", "\"nhwc\"", "`decode.order`"),
    ] {
        let message = refused(&run.replace(from, to));
        assert!(message.contains(key), "{to}: {message}");
    }
}

#[test]
fn what_is_unusual_needs_a_threshold() {
    let odd = "name = \"odd\"\ntask = \"anomaly-detection\"\n[input]\nwidth = 256\nheight = 256\nlayout = \"nchw\"\ncolour = \"rgb\"\n\
               dtype = \"f32\"\nfit = \"stretch\"\n[decode]\nkind = \"anomaly\"\nthreshold = 0.5\n";
    let good = Manifest::parse(Path::new("m.toml"), odd).expect("a good manifest");
    let wanted = DecodeKind::Anomaly {
        threshold: 0.5,
        deviation: 1.0,
    };
    assert_eq!(good.decode.kind, wanted);
    assert!(refused(&odd.replace("threshold = 0.5", "")).contains("`decode.threshold` is absent"));
    let boxes = odd
        .replace("\"anomaly\"", "\"detr\"")
        .replace("threshold = 0.5", "");
    assert!(refused(&boxes).contains("`decode.scores` is absent, allowed: sigmoid, softmax"));
    assert!(refused(&format!("{odd}deviation = 0.0\n")).contains("`decode.deviation`"));
    assert!(refused(&odd.replace("stretch", "crop")).contains("every pixel"));
}

#[test]
fn features_need_names_and_mask_network() {
    let sam = include_str!("../../zoo/sam2-hiera-tiny.toml");
    let good = Manifest::parse(Path::new("sam.toml"), sam).expect("a good manifest");
    assert_eq!(good.decode.kind, DecodeKind::Features { tensors: 3 });
    let parts: Vec<_> = good.parts().map(|part| part.file.as_str()).collect();
    assert_eq!(parts, ["sam2-hiera-tiny-masks.onnx"]);
    for (from, to, key) in [
        ("cover = \"input\"", "cover = \"all\"", "`masks.cover`"),
        ("\"masks\", ", "", "`masks.outputs`"),
        ("file = \"sam2", "file = \"../sam2", "`masks.file`"),
        ("fit = \"stretch\"", "fit = \"crop\"", "`input.fit`"),
        (
            "outputs = [\"high_res_feats_0\", \"high_res_feats_1\", \"image_embed\"]",
            "",
            "`decode.outputs`",
        ),
    ] {
        let message = refused(&sam.replacen(from, to, 1));
        assert!(message.contains(key), "{to}: {message}");
    }
    let (alone, masks) = sam.split_once("[masks]").unwrap_or_default();
    assert!(refused(alone).contains("`masks` is absent"));
    let elsewhere = refused(&format!("{GOOD}\n[masks]{masks}"));
    assert!(elsewhere.contains("layout features"), "{elsewhere}");
}

#[test]
fn output_of_every_pixel_needs_uncropped_input() {
    let map = GOOD
        .replace("object-detection", "semantic-segmentation")
        .replace(
            "kind = \"yolox\"\nstrides = [8, 16, 32]",
            "kind = \"segments\"\nscores = \"softmax\"",
        );
    let cut = map
        .replace("fit = \"letterbox\"", "fit = \"crop\"")
        .replace("placement = \"top-left\"\n", "")
        .replace("pad = 114\n", "");
    let message = refused(&cut);
    assert!(
        message.contains("the output covers every pixel"),
        "{message}"
    );
}

#[test]
fn a_name_can_never_leave_its_folder() {
    for bad in [
        "",
        "../x",
        "a/b",
        ".hidden",
        "UPPER",
        "a b",
        &"a".repeat(65),
    ] {
        assert!(!is_name(bad), "{bad}");
    }
    assert!(is_name("rf-detr_nano.v2"));
}

#[test]
fn package_of_a_registry_is_checked() {
    const PACKAGED: &str = include_str!("../../zoo/ssd-mobilenet-v2.toml");
    let parsed = Manifest::parse(Path::new("m.toml"), PACKAGED).expect("a good manifest");
    assert_eq!(
        parsed.packages[0].url(),
        "https://registry.npmjs.org/@mediapipe/objectron/-/objectron-0.4.1675468480.tgz"
    );
    for (from, to, part) in [
        (
            "\"tgz\"",
            "\"rar\"",
            "`package[0].format` is \"rar\", allowed: tgz, wheel",
        ),
        (
            "\"tflite\"",
            "\"tfjs\"",
            "`package[0].convert` is \"tfjs\", allowed: none, tflite",
        ),
        (
            "convert = \"tflite\"",
            "features = 205",
            "`package[0].features` is 205",
        ),
        ("bytes = 32667233", "bytes = 0", "`package[0].bytes` is 0"),
        (
            "[184, 9987912]",
            "[184, 184]",
            "`package[0].range` is [184, 184]",
        ),
        ("[184, 9987912]", "[9, 3]", "`package[0].range` is [9, 3]"),
        ("\"fc3e", "\"xc3e", "`package[0].sha256`"),
        ("\"d0a5", "\"d0", "`package[0].member_sha256`"),
        ("\"package/obj", "\"package/../obj", "`package[0].member`"),
        ("\"@mediapipe/", "\"/@mediapipe/", "`package[0].path`"),
        (
            "\"https://registry",
            "\"file:///registry",
            "`package[0].registry`",
        ),
        (
            "\"cat\", \"dog\"]",
            "\"cat\", \"dig\"]",
            "`watch[6]` is \"dig\", allowed: a name of `labels`",
        ),
        ("shift = 0.75", "shift = 99.0", "`decode.shift` is 99.0"),
        (
            "shift = 0.75",
            "scales = [0.9, 0.2]",
            "`decode.scales` is [0.9, 0.2]",
        ),
    ] {
        assert!(PACKAGED.contains(from), "{from}");
        let message = refused(&PACKAGED.replace(from, to));
        assert!(message.contains(part), "{part} missing in {message}");
    }
}
