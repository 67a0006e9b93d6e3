//! Networks of float32 as strongly typed networks of mostly float16.
//!
//! - Inputs and outputs keep their types.
//! - Products become float16. An operator of the allow-list ([`operators`](super::operators))
//!   follows when all of its computed inputs are float16 and a product comes after it.
//! - So what comes after the last product stays float32: there boxes and scores are decoded, and
//!   float16 has steps of half a pixel at 512.
//! - An operator stays float32 if one of its constants overflows float16.
//! - A file that is quantised, or has its own float16, is a choice of its author: what is not
//!   float32 in it stays.
//! - The tensor `x` is float32 in the new file too; its float16 has its own name.

use std::collections::{BTreeMap, BTreeSet};

use half::f16;
use prost::bytes::Bytes;

use super::edit::{File, Node, OnnxError};
use super::operators::{
    HalfKind, constant_value, float_tensors, half_kind, is_quantising, typed_inputs,
};
use super::write::{FLOAT, FLOAT16};

/// Converts a file; returns it unchanged if no operator of it can be float16.
///
/// # Errors
/// [`OnnxError`]: the file is damaged.
pub fn convert(file: Bytes) -> Result<Bytes, OnnxError> {
    let mut network = File::read(file.clone())?;
    if network.nodes.iter().any(is_quantising) {
        return Ok(file);
    }
    let halves = choose(&network)?;
    if !halves.contains(&true) {
        return Ok(file);
    }
    rewrite(&mut network, &halves)?;
    Ok(network.to_bytes().into())
}

/// Returns for each node whether it becomes float16.
fn choose(network: &File) -> Result<Vec<bool>, OnnxError> {
    let floats = float_tensors(network)?;
    let feeds_product = feed_products(network);
    let mut fits: BTreeMap<&str, HalfFit> = BTreeMap::new();
    for (name, constant) in &network.constants {
        fits.insert(name, HalfFit::of(constant.floats()?.as_deref()));
    }
    let mut halves = Vec::with_capacity(network.nodes.len());
    let mut is_half: BTreeSet<&str> = BTreeSet::new();
    for node in &network.nodes {
        let kind = half_kind(&node.op);
        if let Some(value) = constant_value(node)?
            && let [output] = node.outputs.as_slice()
        {
            fits.insert(output, HalfFit::of(value.floats()?.as_deref()));
        }
        let inputs = typed_inputs(node);
        let inputs: Vec<&str> = inputs
            .iter()
            .map(|place| node.inputs[*place].as_str())
            .collect();
        let fits_half = |name: &&str| match (fits.get(name), kind) {
            (Some(HalfFit::Overflow), _) | (Some(HalfFit::Underflow), Some(HalfKind::Follower)) => {
                false
            }
            (Some(_), _) => true,
            // A computed tensor.
            (None, Some(HalfKind::Product)) => true,
            (None, _) => is_half.contains(name),
        };
        let outputs = || node.outputs.iter().all(|name| floats.contains(name));
        let is_wanted = match kind {
            Some(HalfKind::Product) => true,
            Some(HalfKind::Follower) => {
                let is_fed = |name: &String| feeds_product.contains(name.as_str());
                node.outputs.iter().any(is_fed) && inputs.iter().any(|name| is_half.contains(name))
            }
            None => false,
        };
        let becomes_half = is_wanted
            && outputs()
            && inputs.iter().all(|name| floats.contains(*name))
            && inputs.iter().all(fits_half);
        if becomes_half {
            is_half.extend(node.outputs.iter().map(String::as_str));
        }
        halves.push(becomes_half);
    }
    Ok(halves)
}

/// Names of tensors from which a product is computed.
pub(super) fn feed_products(network: &File) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for node in network.nodes.iter().rev() {
        let is_product = half_kind(&node.op) == Some(HalfKind::Product);
        if is_product
            || node
                .outputs
                .iter()
                .any(|name| names.contains(name.as_str()))
        {
            names.extend(node.inputs.iter().map(String::as_str));
        }
    }
    names
}

/// How the values of a constant fit into float16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HalfFit {
    /// A value is too large, or the values are not known.
    Overflow,
    /// A small value becomes zero: right for a weight, wrong for a divisor's offset.
    Underflow,
    /// All are finite, and none becomes zero.
    Exact,
}

impl HalfFit {
    fn of(values: Option<&[f32]>) -> Self {
        let Some(values) = values else {
            return Self::Overflow;
        };
        let mut fit = Self::Exact;
        for value in values {
            let half = f16::from_f32(*value);
            if !half.is_finite() {
                return Self::Overflow;
            }
            if half.to_f32() == 0.0 && *value != 0.0 {
                fit = Self::Underflow;
            }
        }
        fit
    }
}

/// Replaces the nodes that become float16, and converts at their borders.
fn rewrite(network: &mut File, halves: &[bool]) -> Result<(), OnnxError> {
    let suffix = network.free_suffix("_f16")?;
    let half_name = |name: &str| format!("{name}{suffix}");
    let float_uses = float_uses(network, halves)?;
    let nodes = std::mem::take(&mut network.nodes);
    let mut there: BTreeSet<String> = BTreeSet::new();
    for (mut node, is_half) in nodes.into_iter().zip(halves) {
        if !is_half {
            network.nodes.push(node);
            continue;
        }
        for place in typed_inputs(&node) {
            let name = std::mem::take(&mut node.inputs[place]);
            let half = half_name(&name);
            if there.insert(half.clone()) {
                convert_input(network, &name, &half)?;
            }
            node.inputs[place] = half;
        }
        let outputs = node.outputs.clone();
        for name in &mut node.outputs {
            *name = half_name(name);
            there.insert(name.clone());
        }
        network.nodes.push(node);
        for name in outputs.iter().filter(|name| float_uses.contains(*name)) {
            network.nodes.push(cast(&half_name(name), name, FLOAT));
        }
    }
    network.remove_unused()
}

/// Adds the float16 of a tensor that is float32.
fn convert_input(network: &mut File, name: &str, half: &str) -> Result<(), OnnxError> {
    let constant = network.constants.get(name);
    let Some((constant, values)) = constant
        .map(|constant| Ok::<_, OnnxError>((constant, constant.floats()?)))
        .transpose()?
        .and_then(|(constant, values)| Some((constant, values?)))
    else {
        network.nodes.push(cast(name, half, FLOAT16));
        return Ok(());
    };
    let data = values
        .iter()
        .map(|value| f16::from_f32(*value).to_le_bytes());
    let data: Vec<u8> = data.flatten().collect();
    let constant = constant.with_values(half, FLOAT16, &data);
    network.constants.insert(half.to_owned(), constant);
    Ok(())
}

fn cast(from: &str, to: &str, kind: u64) -> Node {
    Node::new("Cast", &[from], to, |node| node.int("to", kind))
}

/// Names of the tensors that something reads as float32.
fn float_uses(network: &File, halves: &[bool]) -> Result<BTreeSet<String>, OnnxError> {
    let mut names = network.captured()?;
    names.extend(network.outputs()?);
    for (node, is_half) in network.nodes.iter().zip(halves) {
        let typed = if *is_half {
            typed_inputs(node)
        } else {
            Vec::new()
        };
        let read = node.inputs.iter().enumerate();
        let read = read.filter(|(place, _)| !typed.contains(place));
        names.extend(read.map(|(_, name)| name.clone()));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::{Message, constant, model, node, tensor_info};

    fn floats(name: &str, shape: &[u64], values: &[f32]) -> Message {
        let data: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        constant(name, FLOAT, shape, &data)
    }

    /// `x` → nodes → `y`, with a field that no version of ONNX has.
    fn network(nodes: &[Message], constants: &[Message]) -> File {
        let graph = nodes
            .iter()
            .fold(Message::default(), |graph, node| graph.message(1, node));
        let graph = constants
            .iter()
            .fold(graph, |graph, constant| graph.message(5, constant));
        let graph = graph
            .text(2, "test")
            .message(11, &tensor_info("x", FLOAT, &[1, 1, 4, 4]))
            .message(12, &tensor_info("y", FLOAT, &[1, 1, 4, 4]))
            .message(13, &tensor_info("a", FLOAT, &[1, 1, 4, 4]))
            .text(777, "kept");
        File::read(model(&graph).into()).expect("a network")
    }

    /// The nodes of the converted network, one a line.
    fn converted(network: &File) -> Vec<String> {
        let file = convert(network.to_bytes().into()).expect("converted");
        let file = File::read(file).expect("a network");
        let shown = |node: &Node| {
            format!(
                "{} {} → {}",
                node.op,
                node.inputs.join(" "),
                node.outputs.join(" ")
            )
        };
        file.nodes.iter().map(shown).collect()
    }

    fn weights(values: &[f32]) -> Message {
        floats("w", &[1, 1, 1, 1], values)
    }

    #[test]
    fn products_and_what_leads_to_one_become_float16() {
        let nodes = [
            node("Conv", &["x", "w"], "a"),
            node("Relu", &["a"], "b"),
            node("Conv", &["b", "w"], "c"),
            node("Sigmoid", &["c"], "y"),
        ];
        let lines = converted(&network(&nodes, &[weights(&[0.5])]));
        let right = [
            "Cast x → x_f16",
            "Conv x_f16 w_f16 → a_f16",
            "Relu a_f16 → b_f16",
            "Conv b_f16 w_f16 → c_f16",
            "Cast c_f16 → c",
            "Sigmoid c → y",
        ];
        assert_eq!(lines, right);
    }

    #[test]
    fn operators_that_lose_stay_float32_between_float16_ones() {
        let nodes = [
            node("Conv", &["x", "w"], "a"),
            node("Softmax", &["a"], "b"),
            node("Mul", &["b", "a"], "c"),
            node("Conv", &["c", "w"], "y"),
        ];
        let lines = converted(&network(&nodes, &[weights(&[0.5])]));
        let right = [
            "Cast x → x_f16",
            "Conv x_f16 w_f16 → a_f16",
            "Cast a_f16 → a",
            "Softmax a → b",
            "Mul b a → c",
            "Cast c → c_f16",
            "Conv c_f16 w_f16 → y_f16",
            "Cast y_f16 → y",
        ];
        assert_eq!(lines, right);
    }

    #[test]
    fn constants_that_overflow_keep_their_operators_float32() {
        let file = network(&[node("Conv", &["x", "w"], "y")], &[weights(&[1e6])]);
        assert_eq!(converted(&file), ["Conv x w → y"]);
        let file = network(&[node("Conv", &["x", "w"], "y")], &[weights(&[f32::NAN])]);
        assert_eq!(converted(&file), ["Conv x w → y"]);
        // A weight that becomes zero changes little; an offset may keep a root from zero.
        let nodes = [
            node("Conv", &["x", "w"], "a"),
            node("Add", &["a", "tiny"], "b"),
            node("Conv", &["b", "w"], "y"),
        ];
        let file = network(&nodes, &[weights(&[1e-9]), floats("tiny", &[1], &[1e-9])]);
        assert!(converted(&file).contains(&"Add a tiny → b".to_owned()));
    }

    #[test]
    fn shapes_and_types_that_are_not_certain_stay() {
        let nodes = [
            node("Shape", &["x"], "s"),
            node("Mul", &["s", "s"], "t"),
            node("Reshape", &["x", "s"], "r"),
            node("Unknown", &["r"], "u"),
            node("Conv", &["u", "w"], "v"),
            node("Conv", &["r", "w"], "y"),
        ];
        let lines = converted(&network(&nodes, &[weights(&[0.5])]));
        assert!(lines.contains(&"Mul s s → t".to_owned()), "{lines:?}");
        assert!(lines.contains(&"Conv u w → v".to_owned()), "{lines:?}");
        assert!(
            lines.contains(&"Conv r_f16 w_f16 → y_f16".to_owned()),
            "{lines:?}"
        );
    }

    #[test]
    fn graph_inside_of_a_node_finds_its_tensors() {
        let inside = Message::default()
            .message(1, &node("Identity", &["a"], "inner"))
            .message(12, &tensor_info("inner", FLOAT, &[1]));
        let attribute = Message::default()
            .text(1, "then_branch")
            .message(6, &inside);
        let nodes = [
            node("Conv", &["x", "w"], "a"),
            node("Conv", &["a", "w"], "y"),
            node("If", &["x"], "z").message(5, &attribute),
        ];
        let lines = converted(&network(&nodes, &[weights(&[0.5])]));
        assert!(lines.contains(&"Cast a_f16 → a".to_owned()), "{lines:?}");
    }

    #[test]
    fn weights_round_to_float16_and_other_fields_stay() {
        let nodes = [node("Conv", &["x", "w"], "y").ints("strides", &[1, 1])];
        let before = network(&nodes, &[weights(&[0.1])]);
        let file = convert(before.to_bytes().into()).expect("converted");
        let has = |part: &[u8]| file.windows(part.len()).any(|window| window == part);
        assert!(has(b"kept") && has(b"strides") && has(b"watchkeeper"));
        assert!(has(&f16::from_f32(0.1).to_le_bytes()) && !has(&0.1_f32.to_le_bytes()));
    }

    #[test]
    fn file_without_anything_to_convert_is_returned_as_it_is() {
        let file: Bytes = network(&[node("Relu", &["x"], "y")], &[]).to_bytes().into();
        assert_eq!(convert(file.clone()), Ok(file));
        assert!(convert(Bytes::from_static(b"no file")).is_err());
    }
}
