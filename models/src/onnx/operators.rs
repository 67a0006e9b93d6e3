//! What the conversions must know of ONNX's operators.
//!
//! - An allow-list: an operator that is not here keeps its types and versions.

use std::collections::BTreeSet;

use super::edit::{Constant, File, Node, OnnxError};
use super::message::Message;
use super::write::{FLOAT, integers};

/// How an operator may be computed in float16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HalfKind {
    /// A convolution or product of matrices, where the time is spent.
    Product,
    /// Costs less than a conversion: it follows its inputs.
    Follower,
}

/// How an operator may be computed in float16; `None`: in float32 only. Those left out sum many
/// values, divide, or raise to powers, whose range float16 lacks, or compare scores.
pub(super) fn half_kind(op: &str) -> Option<HalfKind> {
    match op {
        "Conv" | "ConvTranspose" | "Gemm" | "MatMul" => Some(HalfKind::Product),
        "Add" | "AveragePool" | "Clip" | "Concat" | "DepthToSpace" | "Flatten"
        | "GlobalAveragePool" | "HardSigmoid" | "HardSwish" | "Identity" | "LeakyRelu"
        | "MaxPool" | "Mul" | "PRelu" | "Pad" | "Relu" | "Reshape" | "Resize" | "Sigmoid"
        | "Slice" | "SpaceToDepth" | "Split" | "Squeeze" | "Sub" | "Tanh" | "Transpose"
        | "Unsqueeze" => Some(HalfKind::Follower),
        _ => None,
    }
}

/// Places of the inputs that have the type of the output; all others stay unchanged.
pub(super) fn typed_inputs(node: &Node) -> Vec<usize> {
    let typed: &[usize] = match node.op.as_str() {
        "Reshape" | "Resize" | "Slice" | "Split" | "Squeeze" | "Unsqueeze" => &[0],
        // The second are lengths.
        "Pad" => &[0, 2],
        _ => return present(node, 0..node.inputs.len()),
    };
    present(node, typed.iter().copied())
}

/// An optional input that is left out has an empty name.
fn present(node: &Node, places: impl Iterator<Item = usize>) -> Vec<usize> {
    let is_there = |place: &usize| node.inputs.get(*place).is_some_and(|name| !name.is_empty());
    places.filter(is_there).collect()
}

/// Whether every output of a node is float32, as far as that is certain.
pub(super) fn has_float_outputs(node: &Node, floats: &BTreeSet<String>) -> Result<bool, OnnxError> {
    let is_float = |place: usize| {
        node.inputs
            .get(place)
            .is_some_and(|name| floats.contains(name))
    };
    Ok(match node.op.as_str() {
        op if half_kind(op).is_some() => is_float(0) && has_one_type(node),
        "BatchNormalization"
        | "Div"
        | "Exp"
        | "InstanceNormalization"
        | "LayerNormalization"
        | "Log"
        | "LogSoftmax"
        | "Neg"
        | "Pow"
        | "ReduceMax"
        | "ReduceMean"
        | "ReduceSum"
        | "Softmax"
        | "Softplus"
        | "Sqrt"
        | "Erf"
        | "Elu"
        | "Gelu" => is_float(0) && node.outputs.len() == 1,
        "Cast" => {
            let to = node.attribute("to")?.and_then(|to| to.get_number(3));
            to == Some(FLOAT)
        }
        "Constant" => constant_value(node)?.is_some_and(|value| value.is_float()),
        _ => false,
    })
}

/// Whether all outputs have the type of the first input.
fn has_one_type(node: &Node) -> bool {
    node.outputs.len() == 1 || node.op == "Split"
}

/// The value of a node `Constant` that holds a tensor.
pub(super) fn constant_value(node: &Node) -> Result<Option<Constant>, OnnxError> {
    const TENSOR: u32 = 5;
    if node.op != "Constant" {
        return Ok(None);
    }
    let value = node.attribute("value")?;
    let tensor = value.and_then(|value| value.get(TENSOR).cloned());
    let tensor = tensor.map(Message::read).transpose()?;
    Ok(tensor.map(Constant::new))
}

/// Names of the tensors that are certainly float32.
pub(super) fn float_tensors(file: &File) -> Result<BTreeSet<String>, OnnxError> {
    let inputs = file.inputs()?.into_iter();
    let inputs = inputs
        .filter(|(_, kind)| *kind == Some(FLOAT))
        .map(|(name, _)| name);
    let mut floats: BTreeSet<String> = inputs.collect();
    for (name, constant) in &file.constants {
        match constant.is_float() {
            true => floats.insert(name.clone()),
            false => floats.remove(name),
        };
    }
    for node in &file.nodes {
        if has_float_outputs(node, &floats)? {
            floats.extend(node.outputs.iter().cloned());
        }
    }
    Ok(floats)
}

/// Whether a node quantises values, or reads quantised ones.
pub(super) fn is_quantising(node: &Node) -> bool {
    node.op.contains("Quantize") || node.op.starts_with("QLinear") || node.op.contains("Integer")
}

/// The opset in which a scale may have one value per channel.
pub(super) const CHANNEL_OPSET: u64 = 13;

/// The oldest opset that is raised to [`CHANNEL_OPSET`].
const OLDEST_OPSET: u64 = 11;

/// Raises a file to [`CHANNEL_OPSET`].
pub(super) fn raise_opset(file: &mut File) -> Result<(), OnnxError> {
    let found = file.opset()?;
    if found >= CHANNEL_OPSET {
        return Ok(());
    }
    if found < OLDEST_OPSET {
        return Err(OnnxError::Opset { found });
    }
    let suffix = file.free_suffix("_axes")?;
    for node in &mut file.nodes {
        let moved = match node.op.as_str() {
            "Split" => "split",
            "Squeeze" | "Unsqueeze" => "axes",
            op if is_unchanged(op) => continue,
            op => {
                let op = op.to_owned();
                return Err(OnnxError::Operator { op, found });
            }
        };
        // What was an attribute is an input of opset 13.
        let Some(attribute) = node.attribute(moved)? else {
            continue;
        };
        let values = attribute.numbers(8)?;
        let values: Vec<i64> = values.into_iter().map(u64::cast_signed).collect();
        let output = node.outputs.first().cloned().unwrap_or_default();
        let name = format!("{output}{suffix}");
        let constant = integers(&name, &[values.len() as u64], &values);
        file.constants.insert(name.clone(), Constant::new(constant));
        node.remove_attribute(moved);
        node.inputs.push(name);
    }
    file.replace_opset(CHANNEL_OPSET);
    Ok(())
}

/// Whether an operator means the same in the opsets 11, 12 and 13.
fn is_unchanged(op: &str) -> bool {
    let is_same = matches!(
        op,
        "ArgMax"
            | "BatchNormalization"
            | "Cast"
            | "Constant"
            | "ConstantOfShape"
            | "Div"
            | "Equal"
            | "Exp"
            | "Expand"
            | "Floor"
            | "Gather"
            | "Greater"
            | "Less"
            | "Log"
            | "Max"
            | "Min"
            | "Neg"
            | "NonMaxSuppression"
            | "Pow"
            | "ReduceMax"
            | "ReduceMean"
            | "Shape"
            | "Sqrt"
            | "Tile"
            | "TopK"
            | "Where"
    );
    is_same || half_kind(op).is_some() || op.contains("::")
}
