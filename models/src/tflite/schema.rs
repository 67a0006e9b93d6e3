//! The parts of TensorFlow Lite's `schema.fbs` (version 3) that a converter of detectors needs.
//!
//! - Each index was checked: a tensor of an operator is in [`Model::tensors`].
//! - A tensor has 0 to 8 sides of 1 to [`MAX_SIDE`], and at most [`MAX_VALUES`] values.
//! - The data of a tensor has the size of its shape and kind, or is empty.
//! - Not here: which operators fit each other ([`super::convert`]).

use super::error::TfliteError;
use super::flatbuffer::{Field, Table};

/// Longest side of a tensor.
const MAX_SIDE: i32 = 1 << 16;
/// Most values of one tensor: 256 MiB of floats.
pub(super) const MAX_VALUES: usize = 1 << 26;
const MAX_AXES: usize = 8;
/// Most tensors that an operator takes, or that a graph gives.
const MAX_LINKS: usize = 64;
const IDENTIFIER: &[u8] = b"TFL3";

const VERSION: Field = Field(0, "Model.version");
const OPERATOR_CODES: Field = Field(1, "Model.operator_codes");
const SUBGRAPHS: Field = Field(2, "Model.subgraphs");
const BUFFERS: Field = Field(4, "Model.buffers");
const DEPRECATED_CODE: Field = Field(0, "OperatorCode.deprecated_builtin_code");
const CODE: Field = Field(3, "OperatorCode.builtin_code");
const TENSORS: Field = Field(0, "SubGraph.tensors");
const INPUTS: Field = Field(1, "SubGraph.inputs");
const OUTPUTS: Field = Field(2, "SubGraph.outputs");
const OPERATORS: Field = Field(3, "SubGraph.operators");
const SHAPE: Field = Field(0, "Tensor.shape");
const KIND: Field = Field(1, "Tensor.type");
const BUFFER: Field = Field(2, "Tensor.buffer");
const SPARSITY: Field = Field(6, "Tensor.sparsity");
const OPCODE: Field = Field(0, "Operator.opcode_index");
const TAKES: Field = Field(1, "Operator.inputs");
const GIVES: Field = Field(2, "Operator.outputs");
const OPTIONS_KIND: Field = Field(3, "Operator.builtin_options_type");
const OPTIONS: Field = Field(4, "Operator.builtin_options");
const DATA: Field = Field(0, "Buffer.data");

/// The operators that are read, with their codes and names in the schema.
const OPERATOR_KINDS: [(i32, &str, OperatorKind); 7] = [
    (0, "ADD", OperatorKind::Add),
    (2, "CONCATENATION", OperatorKind::Concatenation),
    (3, "CONV_2D", OperatorKind::Conv),
    (4, "DEPTHWISE_CONV_2D", OperatorKind::DepthwiseConv),
    (6, "DEQUANTIZE", OperatorKind::Dequantize),
    (14, "LOGISTIC", OperatorKind::Logistic),
    (22, "RESHAPE", OperatorKind::Reshape),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorKind {
    Add,
    Concatenation,
    Conv,
    DepthwiseConv,
    Dequantize,
    Logistic,
    Reshape,
}

impl OperatorKind {
    pub(super) fn name(self) -> &'static str {
        let mut kinds = OPERATOR_KINDS.iter();
        kinds.find(|k| k.2 == self).map_or("", |k| k.1)
    }

    /// Returns the tag of its options in the union `BuiltinOptions`, where they are read.
    fn options(self) -> Option<u8> {
        match self {
            Self::Conv => Some(1),
            Self::DepthwiseConv => Some(2),
            Self::Concatenation => Some(10),
            Self::Add => Some(11),
            Self::Dequantize | Self::Logistic | Self::Reshape => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    F32,
    F16,
    I32,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 | Self::I32 => 4,
        }
    }
}

#[derive(Debug)]
pub(super) struct Tensor<'a> {
    pub(super) shape: Vec<usize>,
    pub(super) kind: Kind,
    /// Values of a constant, little endian; empty if the tensor is computed.
    pub(super) data: &'a [u8],
}

#[derive(Debug)]
pub(super) struct Operator<'a> {
    pub(super) kind: OperatorKind,
    pub(super) inputs: Vec<usize>,
    pub(super) output: usize,
    /// Options that differ from their defaults.
    pub(super) options: Option<Table<'a>>,
}

/// One graph: tensors, and operators in the order in which they run.
#[derive(Debug)]
pub(super) struct Model<'a> {
    pub(super) tensors: Vec<Tensor<'a>>,
    pub(super) operators: Vec<Operator<'a>>,
    pub(super) input: usize,
    pub(super) outputs: Vec<usize>,
}

impl<'a> Model<'a> {
    pub(super) fn read(file: &'a [u8]) -> Result<Self, TfliteError> {
        if file.get(4..8) != Some(IDENTIFIER) {
            return Err(TfliteError::NotTflite);
        }
        let root = Table::root(file)?;
        let version = root.int(VERSION, 0)?;
        require(version == 3, || ("version".to_owned(), version), "3")?;
        let graphs = root.tables(SUBGRAPHS)?;
        let [graph] = graphs[..] else {
            return Err(refused("the number of graphs", graphs.len(), "1"));
        };
        let buffers = root.tables(BUFFERS)?;
        let tensors = graph.tables(TENSORS)?;
        let tensors = tensors.iter().enumerate();
        let tensors: Vec<_> = tensors
            .map(|(i, table)| tensor(i, table, &buffers))
            .collect::<Result<_, _>>()?;
        let codes = root.tables(OPERATOR_CODES)?;
        let operators = graph.tables(OPERATORS)?;
        let operators = operators.iter().enumerate();
        let operators = operators
            .map(|(i, table)| operator(i, table, &codes, tensors.len()))
            .collect::<Result<_, _>>()?;
        let inputs = indices(&graph, INPUTS, tensors.len())?;
        let [input] = inputs[..] else {
            return Err(refused("the number of inputs", inputs.len(), "1"));
        };
        Ok(Self {
            input,
            outputs: indices(&graph, OUTPUTS, tensors.len())?,
            tensors,
            operators,
        })
    }
}

fn tensor<'a>(
    index: usize,
    table: &Table<'a>,
    buffers: &[Table<'a>],
) -> Result<Tensor<'a>, TfliteError> {
    let place = |what: &str| format!("tensor {index}, {what}");
    let kind = match table.byte(KIND)? {
        0 => Kind::F32,
        1 => Kind::F16,
        2 => Kind::I32,
        other => {
            let allowed = "0 (FLOAT32), 1 (FLOAT16), 2 (INT32)";
            return Err(refused(place("type"), other, allowed));
        }
    };
    if table.table(SPARSITY)?.is_some() {
        return Err(refused(place("sparsity"), "given", "dense tensors"));
    }
    let shape = table.ints(SHAPE, MAX_AXES)?;
    let sides = shape.iter().map(|side| match side {
        1..=MAX_SIDE => usize::try_from(*side).ok(),
        _ => None,
    });
    let sides: Option<Vec<usize>> = sides.collect();
    let values = |sides: &Vec<usize>| {
        let mut sides = sides.iter();
        let values = sides.try_fold(1_usize, |n, side| n.checked_mul(*side));
        values.filter(|n| *n <= MAX_VALUES)
    };
    let counted = sides.and_then(|sides| values(&sides).map(|values| (sides, values)));
    let Some((sides, values)) = counted else {
        let allowed = format!("sides of 1 to {MAX_SIDE} with {MAX_VALUES} values in all");
        return Err(refused(place("shape"), format!("{shape:?}"), allowed));
    };
    let buffer = usize::try_from(table.int(BUFFER, 0)?).ok();
    let Some(buffer) = buffer.and_then(|buffer| buffers.get(buffer)) else {
        return Err(TfliteError::Damaged { field: BUFFER.1 });
    };
    let data = buffer.bytes(DATA)?;
    if !data.is_empty() && data.len() != values * kind.bytes() {
        let allowed = format!("{} bytes, as its shape says", values * kind.bytes());
        let found = format!("{} bytes", data.len());
        return Err(refused(place("data"), found, allowed));
    }
    Ok(Tensor {
        shape: sides,
        kind,
        data,
    })
}

fn operator<'a>(
    index: usize,
    table: &Table<'a>,
    codes: &[Table<'a>],
    tensors: usize,
) -> Result<Operator<'a>, TfliteError> {
    let code = usize::try_from(table.int(OPCODE, 0)?).ok();
    let Some(code) = code.and_then(|code| codes.get(code)) else {
        return Err(TfliteError::Damaged { field: OPCODE.1 });
    };
    // Files of old writers have the code in the byte alone, those of new ones in both.
    let code = code
        .int(CODE, 0)?
        .max(i32::from(code.byte(DEPRECATED_CODE)?));
    let Some((_, name, kind)) = OPERATOR_KINDS.iter().find(|k| k.0 == code) else {
        let known: Vec<_> = OPERATOR_KINDS.iter().map(|k| k.1).collect();
        let place = format!("operator {index}");
        return Err(refused(place, format!("of kind {code}"), known.join(", ")));
    };
    let place = |what: &str| format!("operator {index} ({name}), {what}");
    let outputs = indices(table, GIVES, tensors)?;
    let [output] = outputs[..] else {
        return Err(refused(place("number of outputs"), outputs.len(), "1"));
    };
    let options = table.table(OPTIONS)?;
    let tag = table.byte(OPTIONS_KIND)?;
    if let Some(wanted) = kind.options()
        && options.is_some()
        && tag != wanted
    {
        return Err(refused(place("kind of options"), tag, wanted.to_string()));
    }
    Ok(Operator {
        kind: *kind,
        inputs: indices(table, TAKES, tensors)?,
        output,
        options: options.filter(|_| kind.options().is_some()),
    })
}

/// Reads a list of tensors; an absent tensor (-1) is refused.
fn indices(table: &Table<'_>, field: Field, tensors: usize) -> Result<Vec<usize>, TfliteError> {
    let indices = table.ints(field, MAX_LINKS)?;
    let indices = indices.iter().map(|index| {
        let index = usize::try_from(*index).ok();
        let index = index.filter(|index| *index < tensors);
        index.ok_or(TfliteError::Damaged { field: field.1 })
    });
    indices.collect()
}

/// Makes the error for a part that the converter does not know.
pub(super) fn refused(
    place: impl Into<String>,
    found: impl ToString,
    supported: impl Into<String>,
) -> TfliteError {
    TfliteError::Unsupported {
        place: place.into(),
        found: found.to_string(),
        supported: supported.into(),
    }
}

/// Fails with what was found, unless `good`.
pub(super) fn require<T: ToString>(
    good: bool,
    found: impl FnOnce() -> (String, T),
    supported: &str,
) -> Result<(), TfliteError> {
    if good {
        return Ok(());
    }
    let (place, found) = found();
    Err(refused(place, found, supported))
}
