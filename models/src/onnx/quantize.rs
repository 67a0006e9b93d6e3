//! Networks of float32 with convolutions in int8 (`QuantizeLinear`, `DequantizeLinear`).
//!
//! - Ranges are symmetric around zero, as TensorRT needs them: one per tensor that a convolution
//!   reads, one per output channel of its weights.
//! - A convolution that no other product follows stays float32: in many networks it makes boxes and
//!   scores. Of a YOLOv8 it sums the distribution of a side (DFL); what makes its boxes becomes
//!   int8, and the calibration decides.
//! - The new file names its origin and the back end on which it was measured.

use std::collections::{BTreeMap, BTreeSet};

use prost::bytes::Bytes;

use super::edit::{Constant, File, Node, OnnxError};
use super::half::feed_products;
use super::operators::{float_tensors, is_quantising, raise_opset};
use super::write::{FLOAT, INT8, constant};

/// Largest magnitude of a value of int8, the same on both sides.
const MAX_INT8: f32 = 127.0;

/// Keys of the properties of a file.
const ORIGIN: &str = "watchkeeper.origin";
const BACKEND: &str = "watchkeeper.backend";

/// Origin of a quantised file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// SHA-256 of the file of float32, in hexadecimal digits.
    pub sha256: String,
    /// Name of the back end on which it was measured as faster.
    pub backend: String,
}

/// Reads where a quantised file comes from; `None` for other files.
pub fn origin(file: Bytes) -> Option<Origin> {
    let file = File::read(file).ok()?;
    let (sha256, backend) = (file.property(ORIGIN)?, file.property(BACKEND)?);
    Some(Origin { sha256, backend })
}

/// A file with inner tensors as further outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedFile {
    pub bytes: Vec<u8>,
    /// Names of the further outputs, each with that of its tensor.
    pub names: Vec<(String, String)>,
}

/// A file whose convolutions can be int8.
#[derive(Debug, Clone)]
pub struct Quantizable {
    file: File,
    /// Names of the tensors that those convolutions read.
    tensors: Vec<String>,
}

impl Quantizable {
    /// Reads a file.
    ///
    /// # Errors
    /// [`OnnxError`]: it is damaged, of an old opset, or nothing of it becomes int8.
    pub fn read(file: Bytes) -> Result<Self, OnnxError> {
        let mut file = File::read(file)?;
        if file.nodes.iter().any(is_quantising) {
            return Err(OnnxError::Quantised);
        }
        raise_opset(&mut file)?;
        let floats = float_tensors(&file)?;
        let feeding = feed_products(&file);
        let mut tensors = BTreeSet::new();
        for node in &file.nodes {
            if node
                .outputs
                .iter()
                .any(|name| feeding.contains(name.as_str()))
                && let [input, weights, ..] = node.inputs.as_slice()
                && node.op == "Conv"
                && floats.contains(input)
                && !file.constants.contains_key(input)
                && let Some(weights) = file.constants.get(weights)
                && weights.floats()?.is_some()
            {
                tensors.insert(input.clone());
            }
        }
        if tensors.is_empty() {
            return Err(OnnxError::NothingToDo);
        }
        let tensors = tensors.into_iter().collect();
        Ok(Self { file, tensors })
    }

    /// Names of the tensors whose ranges must be known.
    pub fn tensors(&self) -> &[String] {
        &self.tensors
    }

    /// The file with these tensors as further outputs.
    ///
    /// # Errors
    /// [`OnnxError`]: the file is damaged.
    pub fn observed(&self, tensors: &[String]) -> Result<ObservedFile, OnnxError> {
        // An input can't be an output as well.
        self.with_outputs(tensors, |tensor, seen| {
            vec![Node::new("Identity", &[tensor], seen, |node| node)]
        })
    }

    /// The file with the number of values of each tensor as a further output.
    ///
    /// # Errors
    /// [`OnnxError`]: the file is damaged.
    pub fn sized(&self) -> Result<ObservedFile, OnnxError> {
        self.with_outputs(&self.tensors, |tensor, seen| {
            let count = format!("{seen}_count");
            let float = |node: super::Message| node.int("to", FLOAT);
            vec![
                Node::new("Size", &[tensor], &count, |node| node),
                Node::new("Cast", &[&count], seen, float),
            ]
        })
    }

    /// The file with nodes that make a further output of each tensor.
    fn with_outputs(
        &self,
        tensors: &[String],
        nodes: impl Fn(&str, &str) -> Vec<Node>,
    ) -> Result<ObservedFile, OnnxError> {
        let mut file = self.file.clone();
        let suffix = file.free_suffix("_seen")?;
        let mut names = Vec::new();
        for tensor in tensors {
            let seen = format!("{tensor}{suffix}");
            file.nodes.extend(nodes(tensor, &seen));
            file.add_output(&seen);
            names.push((seen, tensor.clone()));
        }
        let bytes = file.to_bytes();
        Ok(ObservedFile { bytes, names })
    }

    /// The file with int8 convolutions. `ranges` has the largest magnitude of each tensor.
    ///
    /// # Errors
    /// [`OnnxError`]: a range is missing.
    pub fn convert(
        &self,
        ranges: &BTreeMap<String, f32>,
        origin: &Origin,
    ) -> Result<Vec<u8>, OnnxError> {
        let mut writer = Writer {
            suffix: self.file.free_suffix("_i8")?,
            file: self.file.clone(),
            there: BTreeSet::new(),
        };
        let feeding: BTreeSet<String> = feed_products(&self.file)
            .into_iter()
            .map(str::to_owned)
            .collect();
        for mut node in std::mem::take(&mut writer.file.nodes) {
            let is_last = !node.outputs.iter().any(|name| feeding.contains(name));
            if let [input, weights, ..] = node.inputs.as_mut_slice()
                && node.op == "Conv"
                && !is_last
                && self.tensors.contains(input)
                && let Some(kernel) = self.file.constants.get(weights.as_str())
                && let Some(values) = kernel.floats()?
            {
                let range = ranges.get(input.as_str());
                let range = range.ok_or_else(|| OnnxError::Range(input.clone()))?;
                *input = writer.tensor(input, *range);
                *weights = writer.kernel(weights, kernel, &values)?;
            }
            writer.file.nodes.push(node);
        }
        writer.file.remove_unused()?;
        writer.file.add_property(ORIGIN, &origin.sha256);
        writer.file.add_property(BACKEND, &origin.backend);
        Ok(writer.file.to_bytes())
    }
}

/// A file that is being quantised.
struct Writer {
    file: File,
    /// Marks new names; no name of the file has it.
    suffix: String,
    /// Names of the tensors that are quantised so far.
    there: BTreeSet<String>,
}

impl Writer {
    /// Quantises a computed tensor; returns the name of its restored values.
    fn tensor(&mut self, name: &str, range: f32) -> String {
        let [whole, restored] = self.names(name);
        if self.there.insert(name.to_owned()) {
            let [scale, zero] = self.scale(name, &[scale_of(range)], &[]);
            let quantize = ("QuantizeLinear", name, whole.as_str());
            for (op, from, to) in [quantize, ("DequantizeLinear", &whole, &restored)] {
                let inputs = [from, scale.as_str(), zero.as_str()];
                self.file
                    .nodes
                    .push(Node::new(op, &inputs, to, |node| node));
            }
        }
        restored
    }

    /// Quantises weights per output channel; returns the name of their restored values.
    fn kernel(
        &mut self,
        name: &str,
        kernel: &Constant,
        values: &[f32],
    ) -> Result<String, OnnxError> {
        let [whole, restored] = self.names(name);
        if self.there.insert(name.to_owned()) {
            let channels = kernel.shape()?.first().copied().unwrap_or(1).max(1);
            let each = values.len() / usize::try_from(channels).unwrap_or(1).max(1);
            let chunks = values.chunks(each.max(1));
            let scales: Vec<f32> = chunks
                .clone()
                .map(|chunk| scale_of(largest(chunk)))
                .collect();
            let rounded = chunks
                .zip(&scales)
                .flat_map(|(chunk, scale)| chunk.iter().map(move |value| round(value / scale)));
            let rounded: Vec<u8> = rounded.collect();
            let [scale, zero] = self.scale(name, &scales, &[channels]);
            let whole_kernel = kernel.with_values(&whole, INT8, &rounded);
            self.file.constants.insert(whole.clone(), whole_kernel);
            let inputs = [whole.as_str(), scale.as_str(), zero.as_str()];
            let axis = |node: super::Message| node.int("axis", 0);
            let node = Node::new("DequantizeLinear", &inputs, &restored, axis);
            self.file.nodes.push(node);
        }
        Ok(restored)
    }

    fn names(&self, name: &str) -> [String; 2] {
        ["", "_restored"].map(|part| format!("{name}{}{part}", self.suffix))
    }

    /// Adds scales and zeros of this shape; returns their names.
    fn scale(&mut self, name: &str, scales: &[f32], shape: &[u64]) -> [String; 2] {
        let names = ["_scale", "_zero"].map(|part| format!("{name}{}{part}", self.suffix));
        let data: Vec<u8> = scales
            .iter()
            .flat_map(|scale| scale.to_le_bytes())
            .collect();
        let [scale, zero] = &names;
        let zeros = vec![0; scales.len()];
        for (name, tensor) in [
            (scale, constant(scale, FLOAT, shape, &data)),
            (zero, constant(zero, INT8, shape, &zeros)),
        ] {
            self.file
                .constants
                .insert(name.clone(), Constant::new(tensor));
        }
        names
    }
}

/// The step between two values of int8; 1 where all values are zero or unknown.
fn scale_of(range: f32) -> f32 {
    let scale = range / MAX_INT8;
    if scale.is_normal() { scale } else { 1.0 }
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// The nearest value of int8, as its bits.
fn round(value: f32) -> u8 {
    (value.round_ties_even().clamp(-MAX_INT8, MAX_INT8) as i8).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::{Message, model, node, tensor_info};

    /// Three convolutions in a row, of which the last makes the output.
    fn network(values: &[f32]) -> Bytes {
        let data: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let graph = Message::default()
            .message(1, &node("Conv", &["x", "w"], "a"))
            .message(1, &node("Conv", &["a", "w"], "b"))
            .message(1, &node("Conv", &["b", "w"], "y"))
            .text(2, "test")
            .message(
                5,
                &constant("w", FLOAT, &[values.len() as u64, 1, 1, 1], &data),
            )
            .message(11, &tensor_info("x", FLOAT, &[1, 1, 4, 4]))
            .message(12, &tensor_info("y", FLOAT, &[1, 1, 4, 4]));
        model(&graph).into()
    }

    fn place() -> Origin {
        let (sha256, backend) = ("5".repeat(64), "trt".to_owned());
        Origin { sha256, backend }
    }

    fn quantised(values: &[f32], ranges: &[(&str, f32)]) -> Result<File, OnnxError> {
        let network = Quantizable::read(network(values))?;
        let ranges = ranges
            .iter()
            .map(|(name, range)| ((*name).to_owned(), *range));
        let file = network.convert(&ranges.collect(), &place())?;
        File::read(file.into())
    }

    #[test]
    fn convolutions_but_the_last_read_int8() {
        let file = quantised(&[0.5], &[("x", 1.0), ("a", 2.0)]).expect("quantised");
        let ops: Vec<&str> = file.nodes.iter().map(|node| node.op.as_str()).collect();
        let pair = ["QuantizeLinear", "DequantizeLinear"];
        let right = [
            &pair[..],
            &["DequantizeLinear", "Conv"],
            &pair,
            &["Conv", "Conv"],
        ]
        .concat();
        assert_eq!(ops, right);
        // The last one reads the weights of float32.
        let last = file.nodes.last().expect("a node");
        assert_eq!(last.inputs, ["b", "w"]);
        let bytes = Bytes::from(file.to_bytes());
        assert_eq!(origin(bytes.clone()), Some(place()));
        assert_eq!(Quantizable::read(bytes).err(), Some(OnnxError::Quantised));
    }

    #[test]
    fn weights_have_a_scale_per_channel_and_ranges_one_per_tensor() {
        let weights = [127.0, 0.254, 0.0];
        let file = quantised(&weights, &[("x", 254.0), ("a", 1.0)]).expect("quantised");
        let scales = file.constants["w_i8_scale"]
            .floats()
            .expect("read")
            .expect("values");
        assert_eq!(scales, [1.0, 0.254 / 127.0, 1.0]);
        let range = file.constants["x_i8_scale"].floats().expect("read");
        assert_eq!(range, Some(vec![2.0]));
    }

    #[test]
    fn new_names_differ_from_each_other_and_from_all_of_the_file() {
        let graph = Message::default()
            .message(1, &node("Conv", &["x", "w"], "x_restored"))
            .message(1, &node("Conv", &["x_restored", "w"], "x_i8_scale"))
            .message(1, &node("Conv", &["x_i8_scale", "w"], "b"))
            .message(1, &node("Conv", &["b", "w"], "y"))
            .text(2, "test")
            .message(
                5,
                &constant("w", FLOAT, &[1, 1, 1, 1], &0.5_f32.to_le_bytes()),
            )
            .message(11, &tensor_info("x", FLOAT, &[1, 1, 4, 4]))
            .message(12, &tensor_info("y", FLOAT, &[1, 1, 4, 4]));
        let network = Quantizable::read(model(&graph).into()).expect("read");
        let ranges = ["x", "x_restored", "x_i8_scale"].map(|name| (name.to_owned(), 1.0));
        let bytes = network
            .convert(&ranges.into(), &place())
            .expect("quantised");
        let file = File::read(bytes.into()).expect("read");
        let outputs = file.nodes.iter().flat_map(|node| node.outputs.iter());
        let mut names: Vec<&String> = outputs.chain(file.constants.keys()).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    }

    #[test]
    fn missing_range_is_named() {
        let refused = quantised(&[0.5], &[("x", 1.0)]).err();
        assert_eq!(refused, Some(OnnxError::Range("a".to_owned())));
    }

    #[test]
    fn observed_file_has_the_tensors_as_outputs() {
        let network = Quantizable::read(network(&[0.5])).expect("read");
        let observed = network.observed(network.tensors()).expect("observed");
        let ObservedFile { bytes, names } = observed;
        let outputs = File::read(bytes.into()).and_then(|file| file.outputs());
        let seen: Vec<String> = names.iter().map(|(seen, _)| seen.clone()).collect();
        assert_eq!(seen, ["a_seen", "x_seen"]);
        assert_eq!(
            outputs,
            Ok(vec![
                "y".to_owned(),
                "a_seen".to_owned(),
                "x_seen".to_owned()
            ])
        );
    }

    #[test]
    fn sizes_of_tensors_are_outputs_of_float32() {
        let network = Quantizable::read(network(&[0.5])).expect("read");
        let ObservedFile { bytes, .. } = network.sized().expect("sized");
        let file = File::read(bytes.into()).expect("read");
        let ops: Vec<&str> = file.nodes.iter().map(|node| node.op.as_str()).collect();
        let right = ["Conv", "Conv", "Conv", "Size", "Cast", "Size", "Cast"];
        assert_eq!(ops, right);
        let outputs = ["y", "a_seen", "x_seen"].map(str::to_owned);
        assert_eq!(file.outputs(), Ok(outputs.into()));
    }

    #[test]
    fn older_opsets_are_raised_where_operators_mean_the_same() {
        let file = |opset: u64, op: &str| {
            let graph = Message::default()
                .message(1, &node("Conv", &["x", "w"], "a"))
                .message(1, &node(op, &["a"], "b").ints("axes", &[0]))
                .message(1, &node("Conv", &["b", "w"], "y"))
                .message(
                    5,
                    &constant("w", FLOAT, &[1, 1, 1, 1], &0.5_f32.to_le_bytes()),
                )
                .message(11, &tensor_info("x", FLOAT, &[1, 1, 4, 4]))
                .message(12, &tensor_info("y", FLOAT, &[1, 1, 4, 4]));
            let mut file = File::read(model(&graph).into()).expect("read");
            file.replace_opset(opset);
            Quantizable::read(file.to_bytes().into()).map(|network| network.file)
        };
        let raised = file(11, "Squeeze").expect("raised");
        let squeeze = raised.nodes.get(1).expect("a node");
        assert_eq!((squeeze.inputs.len(), raised.opset()), (2, Ok(13)));
        assert_eq!(squeeze.attribute("axes"), Ok(None));
        let found = 11;
        let op = "Softmax".to_owned();
        assert_eq!(
            file(11, "Softmax").err(),
            Some(OnnxError::Operator { op, found })
        );
        assert_eq!(file(10, "Relu").err(), Some(OnnxError::Opset { found: 10 }));
    }

    #[test]
    fn values_round_to_the_nearest_and_never_to_minus_128() {
        for (value, right) in [(0.4, 0), (0.6, 1), (-0.6, -1), (200.0, 127), (-200.0, -127)] {
            assert_eq!(round(value).cast_signed(), right, "{value}");
        }
        assert_eq!((scale_of(0.0), scale_of(f32::NAN)), (1.0, 1.0));
    }
}
