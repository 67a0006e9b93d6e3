//! An ONNX file whose nodes and constants can be replaced.
//!
//! - Whatever is not replaced is written unchanged; only the order of unlike fields changes.
//! - Nodes come before the nodes that use their outputs, as in every valid file.
//! - A name is a tensor of the outermost graph. Graphs inside of nodes are read for the names that
//!   they use, and never edited.

use std::collections::{BTreeMap, BTreeSet};

use prost::DecodeError;
use prost::bytes::Bytes;

use super::message::Message;
use super::write::{self, FLOAT};

/// Depth of graphs inside of nodes.
const MAX_DEPTH: usize = 8;

/// The file describes weights in another file.
const EXTERNAL: u64 = 1;

/// Why a file is not converted. One clause.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OnnxError {
    #[error("it is no complete ONNX file: {0}")]
    Damaged(#[from] DecodeError),
    #[error("it has {0}, expected one; export it again")]
    Count(String),
    #[error("a name in it is not UTF-8; export it again")]
    Name,
    #[error("its graphs are nested more than {MAX_DEPTH} deep; export it without loops")]
    Depth,
    #[error("it has opset {found}; export it with opset 13 or later")]
    Opset { found: u64 },
    #[error(
        "its operator `{op}` of opset {found} may differ in opset 13; export it with opset 13 or \
         later"
    )]
    Operator { op: String, found: u64 },
    #[error("it has no two convolutions in a row with float32 weights, so nothing becomes int8")]
    NothingToDo,
    #[error("it is quantised already")]
    Quantised,
    #[error("no range was measured for its tensor `{0}`")]
    Range(String),
}

/// An operation of the graph.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Type of the operation; with the domain in front if that is not ONNX's own.
    pub(super) op: String,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// All other fields.
    rest: Message,
}

impl Node {
    const INPUT: u32 = 1;
    const OUTPUT: u32 = 2;
    const OP: u32 = 4;
    const ATTRIBUTE: u32 = 5;
    const DOMAIN: u32 = 7;

    /// A new node with one output; `with` adds attributes.
    pub(super) fn new(
        op: &str,
        inputs: &[&str],
        output: &str,
        with: impl FnOnce(Message) -> Message,
    ) -> Self {
        let message = with(write::node(op, inputs, output));
        Self {
            op: op.to_owned(),
            inputs: inputs.iter().map(ToString::to_string).collect(),
            outputs: vec![output.to_owned()],
            rest: message.without(&[Self::INPUT, Self::OUTPUT]),
        }
    }

    fn read(bytes: &Bytes) -> Result<Self, OnnxError> {
        let message = Message::read(bytes.clone())?;
        let op = message.get(Self::OP).map_or(Ok(String::new()), text)?;
        let domain = message.get(Self::DOMAIN).map_or(Ok(String::new()), text)?;
        Ok(Self {
            op: match domain.as_str() {
                "" | "ai.onnx" => op,
                domain => format!("{domain}::{op}"),
            },
            inputs: texts(&message, Self::INPUT)?,
            outputs: texts(&message, Self::OUTPUT)?,
            rest: message.without(&[Self::INPUT, Self::OUTPUT]),
        })
    }

    fn to_message(&self) -> Message {
        let named = |message: Message, (field, name): (u32, &String)| message.text(field, name);
        let inputs = self.inputs.iter().map(|name| (Self::INPUT, name));
        let outputs = self.outputs.iter().map(|name| (Self::OUTPUT, name));
        let names = inputs.chain(outputs).fold(Message::default(), named);
        names.append(self.rest.clone())
    }

    pub(super) fn attribute(&self, name: &str) -> Result<Option<Message>, OnnxError> {
        const NAME: u32 = 1;
        for bytes in self.rest.all(Self::ATTRIBUTE) {
            let attribute = Message::read(bytes.clone())?;
            if attribute.get(NAME).is_some_and(|found| found == name) {
                return Ok(Some(attribute));
            }
        }
        Ok(None)
    }

    pub(super) fn remove_attribute(&mut self, name: &str) {
        const NAME: u32 = 1;
        self.rest.retain(Self::ATTRIBUTE, |bytes| {
            let attribute = Message::read(bytes.clone()).unwrap_or_default();
            attribute.get(NAME).is_none_or(|found| found != name)
        });
    }

    /// Adds the names that graphs inside of this node use.
    fn captured(&self, names: &mut BTreeSet<String>, depth: usize) -> Result<(), OnnxError> {
        const GRAPH: u32 = 6;
        const GRAPHS: u32 = 11;
        if depth > MAX_DEPTH {
            return Err(OnnxError::Depth);
        }
        for attribute in self.rest.all(Self::ATTRIBUTE) {
            let attribute = Message::read(attribute.clone())?;
            for graph in attribute.all(GRAPH).chain(attribute.all(GRAPHS)) {
                let graph = Message::read(graph.clone())?;
                for node in graph.all(File::NODE) {
                    let node = Self::read(node)?;
                    names.extend(node.inputs.iter().cloned());
                    node.captured(names, depth + 1)?;
                }
                for output in graph.all(File::OUTPUT) {
                    names.insert(Described::read(output)?.name);
                }
            }
        }
        Ok(())
    }
}

/// Name and type of an input, output or inner tensor.
struct Described {
    name: String,
    /// Type of its values; absent for sequences and maps.
    kind: Option<u64>,
}

impl Described {
    fn read(bytes: &Bytes) -> Result<Self, OnnxError> {
        let message = Message::read(bytes.clone())?;
        let name = message.get(1).map_or(Ok(String::new()), text)?;
        let inside = |message: Option<Message>, field| -> Result<Option<Message>, DecodeError> {
            let bytes = message.and_then(|message| message.get(field).cloned());
            bytes.map(Message::read).transpose()
        };
        let tensor = inside(inside(Some(message), 2)?, 1)?;
        let kind = tensor.and_then(|tensor| tensor.get_number(1));
        Ok(Self { name, kind })
    }
}

/// A constant of the graph (`TensorProto`).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Constant(Message);

impl Constant {
    const DIMS: u32 = 1;
    const TYPE: u32 = 2;
    const FLOATS: u32 = 4;
    const NAME: u32 = 8;
    const RAW: u32 = 9;
    const LOCATION: u32 = 14;

    pub(super) const fn new(message: Message) -> Self {
        Self(message)
    }

    /// Lengths of its axes.
    pub(super) fn shape(&self) -> Result<Vec<u64>, OnnxError> {
        Ok(self.0.numbers(Self::DIMS)?)
    }

    pub(super) fn is_float(&self) -> bool {
        self.0.get_number(Self::TYPE) == Some(FLOAT)
    }

    /// Values of a constant of `f32` that is in this file; `None` for any other.
    pub(super) fn floats(&self) -> Result<Option<Vec<f32>>, OnnxError> {
        if !self.is_float() || self.0.get_number(Self::LOCATION) == Some(EXTERNAL) {
            return Ok(None);
        }
        let values = match self.0.get(Self::RAW) {
            Some(raw) => {
                let chunks = raw.as_chunks().0.iter();
                chunks.map(|bytes| f32::from_le_bytes(*bytes)).collect()
            }
            None => self.0.floats(Self::FLOATS),
        };
        let axes = self.shape()?;
        let mut lengths = axes.iter().map(|axis| usize::try_from(*axis).ok());
        let count = lengths.try_fold(1_usize, |n, axis| n.checked_mul(axis?));
        Ok((count == Some(values.len())).then_some(values))
    }

    /// The constant with another name, type and little endian data.
    pub(super) fn with_values(&self, name: &str, kind: u64, data: &[u8]) -> Self {
        let replaced = [Self::TYPE, Self::FLOATS, Self::NAME, Self::RAW];
        let kept = self.0.clone().without(&replaced);
        Self(
            kept.number(Self::TYPE, kind)
                .text(Self::NAME, name)
                .bytes(Self::RAW, data),
        )
    }
}

/// A file in memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct File {
    /// All fields of the model but its graph.
    model: Message,
    /// All fields of the graph but nodes and constants.
    graph: Message,
    pub(super) nodes: Vec<Node>,
    pub(super) constants: BTreeMap<String, Constant>,
}

impl File {
    const GRAPH: u32 = 7;
    const OPSETS: u32 = 8;
    const METADATA: u32 = 14;
    const NODE: u32 = 1;
    const CONSTANT: u32 = 5;
    const INPUT: u32 = 11;
    const OUTPUT: u32 = 12;
    const INNER: u32 = 13;

    pub(super) fn read(bytes: Bytes) -> Result<Self, OnnxError> {
        let model = Message::read(bytes)?;
        let graphs: Vec<&Bytes> = model.all(Self::GRAPH).collect();
        let [graph] = graphs[..] else {
            return Err(OnnxError::Count(format!("{} graphs", graphs.len())));
        };
        let graph = Message::read(graph.clone())?;
        let nodes = graph
            .all(Self::NODE)
            .map(Node::read)
            .collect::<Result<_, _>>()?;
        let mut constants = BTreeMap::new();
        for bytes in graph.all(Self::CONSTANT) {
            let constant = Message::read(bytes.clone())?;
            let name = constant
                .get(Constant::NAME)
                .map_or(Ok(String::new()), text)?;
            if constants.insert(name.clone(), Constant(constant)).is_some() {
                return Err(OnnxError::Count(format!("two constants `{name}`")));
            }
        }
        Ok(Self {
            model: model.without(&[Self::GRAPH]),
            graph: graph.without(&[Self::NODE, Self::CONSTANT]),
            nodes,
            constants,
        })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let nodes = self
            .nodes
            .iter()
            .map(|node| (Self::NODE, node.to_message()));
        let constants = self.constants.values();
        let constants = constants.map(|constant| (Self::CONSTANT, constant.0.clone()));
        let graph = nodes
            .chain(constants)
            .fold(Message::default(), |graph, (field, part)| {
                graph.message(field, &part)
            })
            .append(self.graph.clone());
        self.model.clone().message(Self::GRAPH, &graph).to_bytes()
    }

    /// Names of the outputs.
    pub(super) fn outputs(&self) -> Result<Vec<String>, OnnxError> {
        let outputs = self.graph.all(Self::OUTPUT);
        outputs
            .map(|bytes| Ok(Described::read(bytes)?.name))
            .collect()
    }

    /// Names and types of the inputs; older files list constants among them.
    pub(super) fn inputs(&self) -> Result<Vec<(String, Option<u64>)>, OnnxError> {
        let inputs = self.graph.all(Self::INPUT).map(Described::read);
        inputs
            .map(|input| input.map(|input| (input.name, input.kind)))
            .collect()
    }

    /// Adds an output of float32 without a stated shape.
    pub(super) fn add_output(&mut self, name: &str) {
        let tensor = Message::default().number(1, FLOAT);
        let kind = Message::default().message(1, &tensor);
        let output = Message::default().text(1, name).message(2, &kind);
        let graph = std::mem::take(&mut self.graph);
        self.graph = graph.message(Self::OUTPUT, &output);
    }

    /// Names that graphs inside of nodes use.
    pub(super) fn captured(&self) -> Result<BTreeSet<String>, OnnxError> {
        let mut names = BTreeSet::new();
        for node in &self.nodes {
            node.captured(&mut names, 0)?;
        }
        Ok(names)
    }

    /// An ending, beginning with `suffix`, that no name of the file has inside.
    pub(super) fn free_suffix(&self, suffix: &str) -> Result<String, OnnxError> {
        let mut names = self.captured()?;
        names.extend(self.constants.keys().cloned());
        names.extend(self.inputs()?.into_iter().map(|(name, _)| name));
        for node in &self.nodes {
            names.extend(node.inputs.iter().chain(&node.outputs).cloned());
        }
        let mut suffix = suffix.to_owned();
        while names.iter().any(|name| name.contains(&suffix)) {
            suffix.push('_');
        }
        Ok(suffix)
    }

    /// Removes constants that nothing uses, and what describes tensors that are gone.
    pub(super) fn remove_unused(&mut self) -> Result<(), OnnxError> {
        let mut used = self.captured()?;
        used.extend(self.outputs()?);
        used.extend(
            self.nodes
                .iter()
                .flat_map(|node| node.inputs.iter().cloned()),
        );
        let is_constant: BTreeSet<String> = self.constants.keys().cloned().collect();
        self.constants.retain(|name, _| used.contains(name));
        let is_kept = |bytes: &Bytes| {
            let name = Described::read(bytes).map(|tensor| tensor.name);
            name.is_ok_and(|name| used.contains(&name))
        };
        self.graph.retain(Self::INNER, is_kept);
        self.graph.retain(Self::INPUT, |bytes| {
            let name = Described::read(bytes).map(|tensor| tensor.name);
            name.is_ok_and(|name| !is_constant.contains(&name)) || is_kept(bytes)
        });
        Ok(())
    }

    /// Version of ONNX's own operators.
    pub(super) fn opset(&self) -> Result<u64, OnnxError> {
        for bytes in self.model.all(Self::OPSETS) {
            let opset = Message::read(bytes.clone())?;
            if opset
                .get(1)
                .is_none_or(|domain| domain.is_empty() || domain == "ai.onnx")
            {
                return Ok(opset.get_number(2).unwrap_or(1));
            }
        }
        Ok(1)
    }

    /// Replaces the version of ONNX's own operators.
    pub(super) fn replace_opset(&mut self, version: u64) {
        self.model.retain(Self::OPSETS, |bytes| {
            let opset = Message::read(bytes.clone()).unwrap_or_default();
            opset
                .get(1)
                .is_some_and(|domain| !domain.is_empty() && domain != "ai.onnx")
        });
        let opset = Message::default().text(1, "").number(2, version);
        let model = std::mem::take(&mut self.model);
        self.model = model.message(Self::OPSETS, &opset);
    }

    pub(super) fn add_property(&mut self, key: &str, value: &str) {
        let property = Message::default().text(1, key).text(2, value);
        let model = std::mem::take(&mut self.model);
        self.model = model.message(Self::METADATA, &property);
    }

    /// The value of a property.
    pub(super) fn property(&self, key: &str) -> Option<String> {
        self.model.all(Self::METADATA).find_map(|bytes| {
            let property = Message::read(bytes.clone()).ok()?;
            let is_it = property.get(1).is_some_and(|found| found == key);
            is_it.then(|| text(property.get(2)?).ok()).flatten()
        })
    }
}

fn text(bytes: &Bytes) -> Result<String, OnnxError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| OnnxError::Name)
}

fn texts(message: &Message, field: u32) -> Result<Vec<String>, OnnxError> {
    message.all(field).map(text).collect()
}
