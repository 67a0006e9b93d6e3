//! TensorFlow Lite files as ONNX: results of a back end, compared with a plain implementation and
//! with LiteRT.
//!
//! The original of `ssd-mobilenet-v2` is not in the repository. `tests/tools/oidv4/run FOLDER`
//! fetches its package, and LiteRT's outputs; `WATCHKEEPER_OIDV4=FOLDER` enables that test. Without
//! it, the test says that it is skipped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use proptest::prelude::*;
use watchkeeper_detect::network::{Feed, Network as _, Signature, Wanted};
use watchkeeper_detect::rten::RtenNetwork;
use watchkeeper_models::Zoo;
use watchkeeper_models::tflite::{features_to_onnx, to_onnx};
use watchkeeper_tests::tflite::{Activation, Conv, Net, every_operator, numbers};

/// Largest difference of a value to the reference: sums in another order.
const TOLERANCE: f32 = 1e-4;

/// Runs an ONNX file on a picture of planes; returns the values of each output.
fn run(onnx: &[u8], shape: [usize; 4], planes: &[f32]) -> anyhow::Result<Vec<Vec<f32>>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("network.onnx");
    fs::write(&file, onnx)?;
    let signature = Signature {
        manifest: "test",
        inputs: vec![Wanted::axes(shape.map(Some))],
        outputs: &[],
    };
    let network = RtenNetwork::load(&file, &signature, 1)?;
    let mut values = Vec::new();
    let feeds = [Feed::floats(&shape, planes)];
    let ran = network.infer(&feeds, &mut |outputs| {
        values = outputs.iter().map(|output| output.data.to_vec()).collect();
    });
    ran.map_err(anyhow::Error::msg)?;
    Ok(values)
}

/// A picture as rows of pixels.
#[derive(Clone)]
struct Rows {
    height: usize,
    width: usize,
    channels: usize,
    values: Vec<f32>,
}

impl Rows {
    fn at(&self, y: i64, x: i64, channel: usize) -> f32 {
        let (Ok(y), Ok(x)) = (usize::try_from(y), usize::try_from(x)) else {
            return 0.0;
        };
        if y >= self.height || x >= self.width {
            return 0.0;
        }
        self.values[(y * self.width + x) * self.channels + channel]
    }

    fn planes(&self) -> Vec<f32> {
        let area = self.height * self.width;
        let of = |channel| (0..area).map(move |place| place * self.channels + channel);
        let places = (0..self.channels).flat_map(of);
        places.map(|place| self.values[place]).collect()
    }

    fn map(mut self, change: impl Fn(f32) -> f32) -> Self {
        self.values.iter_mut().for_each(|v| *v = change(*v));
        self
    }
}

/// A convolution over rows of pixels, written from its definition. `before` is the padding above
/// and to the left; `weight` takes output, row, column and input channel.
fn convolve(
    input: &Rows,
    [height, width, channels]: [usize; 3],
    [side, stride, before]: [usize; 3],
    weight: impl Fn([usize; 4]) -> f32,
    bias: &[f32],
) -> Rows {
    let mut values = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for (output, start) in bias.iter().enumerate() {
                let mut sum = *start;
                for (dy, dx) in (0..side).flat_map(|dy| (0..side).map(move |dx| (dy, dx))) {
                    let place = |at: usize, d: usize| (at * stride + d) as i64 - before as i64;
                    for channel in 0..input.channels {
                        let seen = input.at(place(y, dy), place(x, dx), channel);
                        sum += seen * weight([output, dy, dx, channel]);
                    }
                }
                values.push(sum);
            }
        }
    }
    Rows {
        height,
        width,
        channels,
        values,
    }
}

/// The outputs of [`every_operator`], written from the definitions of its operators.
fn expected(picture: &Rows) -> [Vec<f32>; 2] {
    let stored = |shape: [usize; 4], salt: u32| {
        let values = numbers(shape.iter().product::<usize>() as u32, salt);
        move |[a, b, c, d]: [usize; 4]| values[((a * shape[1] + b) * shape[2] + c) * shape[3] + d]
    };
    let bias = |count, salt| numbers(count, salt);
    let first = stored([4, 3, 3, 3], 1);
    let small = convolve(picture, [3, 4, 4], [3, 2, 1], first, &bias(4, 2));
    let small = small.map(|v| v.clamp(0.0, 6.0));
    let own = stored([1, 3, 3, 4], 3);
    let only_own = |[output, dy, dx, channel]: [usize; 4]| match channel == output {
        true => own([0, dy, dx, channel]),
        false => 0.0,
    };
    let each = convolve(&small, [3, 4, 4], [3, 1, 1], only_own, &bias(4, 4));
    let each = each.map(|v| v.max(0.0));
    let mut sum = small;
    sum.values
        .iter_mut()
        .zip(&each.values)
        .for_each(|(a, b)| *a += b);
    let scores = convolve(
        &sum,
        [3, 4, 2],
        [1, 1, 0],
        stored([2, 1, 1, 4], 5),
        &bias(2, 6),
    );
    let scores = scores.map(|v| 1.0 / (1.0 + (-v).exp()));
    let cut = convolve(
        &sum,
        [2, 3, 4],
        [2, 1, 0],
        stored([4, 2, 2, 4], 7),
        &bias(4, 8),
    );
    [scores.values, cut.values.repeat(3)]
}

fn largest_difference(found: &[f32], wanted: &[f32]) -> f32 {
    let pairs = found.iter().zip(wanted);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn converted_network_computes_what_its_operators_define() -> anyhow::Result<()> {
    let picture = Rows {
        height: 5,
        width: 7,
        channels: 3,
        values: numbers(105, 9),
    };
    let found = run(
        &to_onnx(&every_operator())?,
        [1, 3, 5, 7],
        &picture.planes(),
    )?;
    for (found, wanted) in found.iter().zip(expected(&picture)) {
        ensure!(found.len() == wanted.len(), "{} values", found.len());
        let difference = largest_difference(found, &wanted);
        ensure!(difference < TOLERANCE, "{difference}: {found:?} {wanted:?}");
    }
    ensure!(found.len() == 2, "{} outputs", found.len());
    Ok(())
}

#[test]
fn unknown_operator_is_refused_by_its_place() -> anyhow::Result<()> {
    let mut net = Net::new([1, 2, 2, 1]);
    let output = net.softmax(0, &[1, 2, 2, 1]);
    let refused = to_onnx(&net.file(&[output])).err().context("taken")?;
    let message = refused.to_string();
    ensure!(message.contains("operator 0"), "{message}");
    ensure!(
        message.contains("25") && message.contains("CONV_2D"),
        "{message}"
    );
    Ok(())
}

#[test]
fn shape_that_its_operator_can_not_give_is_refused() -> anyhow::Result<()> {
    let mut net = Net::new([1, 2, 2, 1]);
    let output = net.logistic(0, &[1, 2, 2, 2]);
    let refused = to_onnx(&net.file(&[output])).err().context("taken")?;
    let message = refused.to_string();
    ensure!(
        message.contains("[1, 2, 2, 2]") && message.contains("LOGISTIC"),
        "{message}"
    );
    Ok(())
}

#[test]
fn features_are_the_means_of_a_tensor_over_four_quarters() -> anyhow::Result<()> {
    let mut net = Net::new([1, 4, 6, 3]);
    let weights = net.floats(&[2, 1, 1, 3], &numbers(6, 1));
    let bias = net.floats(&[2], &numbers(2, 2));
    let seen = net.conv(&Conv {
        input: 0,
        weights,
        bias,
        gives: [1, 4, 6, 2],
        stride: 1,
        is_depthwise: false,
        is_padded: true,
        activation: Activation::Relu,
    });
    let cut = net.logistic(seen, &[1, 4, 6, 2]);
    let file = net.file(&[cut]);
    let picture = Rows {
        height: 4,
        width: 6,
        channels: 3,
        values: numbers(72, 3),
    };
    let tensor = usize::try_from(seen)?;
    let found = run(
        &features_to_onnx(&file, tensor)?,
        [1, 3, 4, 6],
        &picture.planes(),
    )?;
    let weights = numbers(6, 1);
    let weight = |[output, _, _, channel]: [usize; 4]| weights[output * 3 + channel];
    let whole = convolve(&picture, [4, 6, 2], [1, 1, 0], weight, &numbers(2, 2));
    let whole = whole.map(|v| v.max(0.0));
    let quarters =
        (0..2).flat_map(|channel| [(0, 0), (0, 3), (2, 0), (2, 3)].map(|at| (channel, at)));
    let wanted: Vec<f32> = quarters
        .map(|(channel, (top, left))| {
            let places = (top..top + 2).flat_map(|y| (left..left + 3).map(move |x| (y, x)));
            places.map(|(y, x)| whole.at(y, x, channel)).sum::<f32>() / 6.0
        })
        .collect();
    ensure!(found.len() == 1 && found[0].len() == 8, "{found:?}");
    let difference = largest_difference(&found[0], &wanted);
    ensure!(difference < TOLERANCE, "{difference}: {found:?} {wanted:?}");
    // A tensor that does not exist, the input of weights, and one of odd sides.
    for (file, tensor) in [(&file, 1_000), (&file, 1), (&every_operator(), 4)] {
        let refused = features_to_onnx(file, tensor)
            .err()
            .context("taken")?
            .to_string();
        ensure!(refused.contains("features, tensor"), "{refused}");
    }
    Ok(())
}

proptest! {
    /// A damaged file is converted or refused in one line, and never ends the program.
    #[test]
    fn damaged_file_is_an_error_in_one_line(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        length in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let mut file = every_operator();
        for (place, byte) in &changes {
            let place = place.index(file.len());
            file[place] = *byte;
        }
        if is_cut {
            file.truncate(length.index(file.len()));
        }
        if let Err(refused) = to_onnx(&file) {
            let message = refused.to_string();
            prop_assert!(message.contains("TFL") && !message.contains('\n'), "{}", message);
        }
    }
}

/// Returns the folder that the tool filled.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn kept() -> Option<PathBuf> {
    let folder = std::env::var_os("WATCHKEEPER_OIDV4").map(PathBuf::from);
    let whole = folder.filter(|folder| folder.join("boxes.f32").is_file());
    if whole.is_none() {
        eprintln!(
            "SKIPPED: the network of ssd-mobilenet-v2 (tests/tools/oidv4/run FOLDER brings it, WATCHKEEPER_OIDV4 names the folder)"
        );
    }
    whole
}

fn floats(file: &Path) -> anyhow::Result<Vec<f32>> {
    let bytes = fs::read(file).with_context(|| file.display().to_string())?;
    let (values, _) = bytes.as_chunks();
    Ok(values
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .collect())
}

#[test]
fn network_of_the_package_computes_what_litert_does() -> anyhow::Result<()> {
    let Some(folder) = kept() else {
        return Ok(());
    };
    let zoo = Zoo::builtin();
    let manifest = zoo.manifest("ssd-mobilenet-v2").context("not in the zoo")?;
    let package = manifest.packages.first().context("no package")?;
    let onnx = package.file(File::open(folder.join("package.tgz"))?)?;
    let sum = watchkeeper_models::Sha256Sum::of(&onnx);
    ensure!(manifest.known_file(sum).is_some(), "other bytes: {sum}");
    let picture = Rows {
        height: 300,
        width: 300,
        channels: 3,
        values: floats(&folder.join("input.f32"))?,
    };
    let found = run(&onnx, [1, 3, 300, 300], &picture.planes())?;
    for (found, file) in found.iter().zip(["boxes.f32", "classes.f32"]) {
        let wanted = floats(&folder.join(file))?;
        ensure!(
            found.len() == wanted.len(),
            "{file}: {} values",
            found.len()
        );
        let difference = largest_difference(found, &wanted);
        ensure!(difference < TOLERANCE, "{file}: {difference}");
    }
    Ok(())
}
