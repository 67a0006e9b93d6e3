//! Writes TensorFlow Lite files: small networks of convolutions.
//!
//! Field numbers are those of TensorFlow's `schema.fbs` (version 3).

/// A field of a FlatBuffer's table.
#[derive(Debug, Clone)]
enum Value {
    Byte(u8),
    Int(i32),
    Table(Table),
    Tables(Vec<Table>),
    Ints(Vec<i32>),
    Bytes(Vec<u8>),
}

/// Fields by slot.
type Table = Vec<(usize, Value)>;

/// Function that a convolution or a sum ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    None = 0,
    Relu = 1,
    Relu6 = 3,
}

/// A convolution: its tensors, and the shape that it gives.
#[derive(Debug, Clone, Copy)]
pub struct Conv {
    pub input: i32,
    pub weights: i32,
    pub bias: i32,
    pub gives: [i32; 4],
    pub stride: i32,
    pub is_depthwise: bool,
    pub is_padded: bool,
    pub activation: Activation,
}

/// A network under construction; its first tensor is the input.
#[derive(Debug)]
pub struct Net {
    tensors: Vec<Table>,
    buffers: Vec<Table>,
    operators: Vec<Table>,
}

/// Codes of the operators that a file here may have, in the order of its table.
const CODES: [i32; 8] = [0, 2, 3, 4, 6, 14, 22, 25];
const F32: u8 = 0;
const F16: u8 = 1;

impl Net {
    pub fn new(input: [i32; 4]) -> Self {
        let mut net = Self {
            tensors: Vec::new(),
            // By convention the first buffer is empty, for all tensors that are computed.
            buffers: vec![Table::new()],
            operators: Vec::new(),
        };
        net.computed(&input);
        net
    }

    fn tensor(&mut self, shape: &[i32], kind: u8, buffer: usize) -> i32 {
        self.tensors.push(vec![
            (0, Value::Ints(shape.to_vec())),
            (1, Value::Byte(kind)),
            (2, Value::Int(number(buffer))),
        ]);
        number(self.tensors.len() - 1)
    }

    fn computed(&mut self, shape: &[i32]) -> i32 {
        self.tensor(shape, F32, 0)
    }

    fn stored(&mut self, shape: &[i32], kind: u8, data: Vec<u8>) -> i32 {
        self.buffers.push(vec![(0, Value::Bytes(data))]);
        self.tensor(shape, kind, self.buffers.len() - 1)
    }

    /// Adds a constant of 32-bit numbers.
    pub fn floats(&mut self, shape: &[i32], values: &[f32]) -> i32 {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.stored(shape, F32, data)
    }

    /// Adds a constant of 16-bit numbers, and the operator that widens them.
    pub fn halves(&mut self, shape: &[i32], values: &[f32]) -> i32 {
        let data = values.iter().flat_map(|v| half(*v).to_le_bytes()).collect();
        let source = self.stored(shape, F16, data);
        let wide = self.computed(shape);
        self.operator(6, &[source], wide, None);
        wide
    }

    /// Adds an operator by its code in the schema.
    fn operator(&mut self, code: i32, inputs: &[i32], output: i32, options: Option<(u8, Table)>) {
        let code = CODES.iter().position(|c| *c == code).unwrap_or_default();
        let mut table = vec![
            (0, Value::Int(number(code))),
            (1, Value::Ints(inputs.to_vec())),
            (2, Value::Ints(vec![output])),
        ];
        if let Some((tag, options)) = options {
            table.extend([(3, Value::Byte(tag)), (4, Value::Table(options))]);
        }
        self.operators.push(table);
    }

    pub fn conv(&mut self, conv: &Conv) -> i32 {
        let output = self.computed(&conv.gives);
        let mut options = vec![
            (0, Value::Byte(u8::from(!conv.is_padded))),
            (1, Value::Int(conv.stride)),
            (2, Value::Int(conv.stride)),
        ];
        let activation = Value::Byte(conv.activation as u8);
        let (code, tag) = if conv.is_depthwise {
            options.extend([(3, Value::Int(1)), (4, activation)]);
            (4, 2)
        } else {
            options.push((3, activation));
            (3, 1)
        };
        let inputs = [conv.input, conv.weights, conv.bias];
        self.operator(code, &inputs, output, Some((tag, options)));
        output
    }

    pub fn add(&mut self, one: i32, other: i32, shape: &[i32]) -> i32 {
        let output = self.computed(shape);
        let options = vec![(0, Value::Byte(Activation::None as u8))];
        self.operator(0, &[one, other], output, Some((11, options)));
        output
    }

    pub fn concat(&mut self, inputs: &[i32], axis: i32, shape: &[i32]) -> i32 {
        let output = self.computed(shape);
        self.operator(2, inputs, output, Some((10, vec![(0, Value::Int(axis))])));
        output
    }

    pub fn reshape(&mut self, input: i32, shape: &[i32]) -> i32 {
        let output = self.computed(shape);
        self.operator(22, &[input], output, None);
        output
    }

    pub fn logistic(&mut self, input: i32, shape: &[i32]) -> i32 {
        let output = self.computed(shape);
        self.operator(14, &[input], output, None);
        output
    }

    /// Adds an operator that no detector of ours has.
    pub fn softmax(&mut self, input: i32, shape: &[i32]) -> i32 {
        let output = self.computed(shape);
        self.operator(25, &[input], output, None);
        output
    }

    pub fn file(&self, outputs: &[i32]) -> Vec<u8> {
        let codes = CODES.map(|code| vec![(3, Value::Int(code))]);
        let graph = vec![
            (0, Value::Tables(self.tensors.clone())),
            (1, Value::Ints(vec![0])),
            (2, Value::Ints(outputs.to_vec())),
            (3, Value::Tables(self.operators.clone())),
        ];
        let model = vec![
            (0, Value::Int(3)),
            (1, Value::Tables(codes.to_vec())),
            (2, Value::Tables(vec![graph])),
            (4, Value::Tables(self.buffers.clone())),
        ];
        let mut file = vec![0; 4];
        file.extend(b"TFL3");
        let root = write_table(&mut file, &model);
        point(&mut file, 0, root);
        file
    }
}

/// A network of each operator, with two outputs: `1 × 12 × 2`, a score each, and `1 × 6 × 4`.
pub fn every_operator() -> Vec<u8> {
    let mut net = Net::new([1, 5, 7, 3]);
    let weights = net.halves(&[4, 3, 3, 3], &numbers(108, 1));
    let bias = net.floats(&[4], &numbers(4, 2));
    let first = Conv {
        input: 0,
        weights,
        bias,
        gives: [1, 3, 4, 4],
        stride: 2,
        is_depthwise: false,
        is_padded: true,
        activation: Activation::Relu6,
    };
    let small = net.conv(&first);
    let weights = net.floats(&[1, 3, 3, 4], &numbers(36, 3));
    let bias = net.halves(&[4], &numbers(4, 4));
    let each = net.conv(&Conv {
        input: small,
        weights,
        bias,
        stride: 1,
        is_depthwise: true,
        activation: Activation::Relu,
        ..first
    });
    let sum = net.add(small, each, &[1, 3, 4, 4]);
    let weights = net.halves(&[2, 1, 1, 4], &numbers(8, 5));
    let bias = net.floats(&[2], &numbers(2, 6));
    let scores = net.conv(&Conv {
        input: sum,
        weights,
        bias,
        gives: [1, 3, 4, 2],
        stride: 1,
        activation: Activation::None,
        ..first
    });
    let scores = net.reshape(scores, &[1, 12, 2]);
    let scores = net.logistic(scores, &[1, 12, 2]);
    let weights = net.floats(&[4, 2, 2, 4], &numbers(64, 7));
    let bias = net.floats(&[4], &numbers(4, 8));
    let cut = net.conv(&Conv {
        input: sum,
        weights,
        bias,
        gives: [1, 2, 3, 4],
        stride: 1,
        is_padded: false,
        activation: Activation::None,
        ..first
    });
    // Pictures are joined by row, then lists by place.
    let twice = net.concat(&[cut, cut], 1, &[1, 4, 3, 4]);
    let upper = net.reshape(twice, &[1, 12, 4]);
    let lower = net.reshape(cut, &[1, 6, 4]);
    let all = net.concat(&[upper, lower], -2, &[1, 18, 4]);
    net.file(&[scores, all])
}

/// Numbers between -1 and 1 that 16 bits hold exactly.
pub fn numbers(count: u32, salt: u32) -> Vec<f32> {
    (0..count)
        .map(|i| {
            let mixed = (i + 1).wrapping_mul(2_654_435_761) ^ salt.wrapping_mul(2_246_822_519);
            (mixed >> 8 & 0xff) as f32 / 128.0 - 1.0
        })
        .collect()
}

/// Converts a number that 16 bits hold exactly.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    if value == 0.0 {
        return sign;
    }
    let exponent = (bits >> 23 & 0xff) as u16 - 112;
    sign | exponent << 10 | (bits >> 13 & 0x3ff) as u16
}

fn number(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

/// Appends a table and what it leads to; returns its position.
fn write_table(file: &mut Vec<u8>, table: &Table) -> usize {
    let slots = table.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
    let vtable = file.len();
    let (header, body) = (4 + 2 * slots, 4 + 4 * table.len());
    for size in [header, body] {
        file.extend((size as u16).to_le_bytes());
    }
    let mut places = vec![0_u16; slots];
    for (i, (slot, _)) in table.iter().enumerate() {
        places[*slot] = (4 + 4 * i) as u16;
    }
    file.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    let at = file.len();
    file.extend(number(at - vtable).to_le_bytes());
    for (_, value) in table {
        match value {
            Value::Byte(byte) => file.extend([*byte, 0, 0, 0]),
            Value::Int(int) => file.extend(int.to_le_bytes()),
            _ => file.extend([0; 4]),
        }
    }
    for (i, (_, value)) in table.iter().enumerate() {
        let place = at + 4 + 4 * i;
        let target = match value {
            Value::Byte(_) | Value::Int(_) => continue,
            Value::Table(table) => write_table(file, table),
            Value::Tables(tables) => {
                let vector = file.len();
                file.extend(number(tables.len()).to_le_bytes());
                file.extend(vec![0; 4 * tables.len()]);
                for (i, table) in tables.iter().enumerate() {
                    let table = write_table(file, table);
                    point(file, vector + 4 + 4 * i, table);
                }
                vector
            }
            Value::Ints(ints) => {
                let vector = file.len();
                file.extend(number(ints.len()).to_le_bytes());
                file.extend(ints.iter().flat_map(|int| int.to_le_bytes()));
                vector
            }
            Value::Bytes(bytes) => {
                let vector = file.len();
                file.extend(number(bytes.len()).to_le_bytes());
                file.extend(bytes);
                vector
            }
        };
        point(file, place, target);
    }
    at
}

/// Writes the offset from a place to a target after it.
fn point(file: &mut [u8], place: usize, target: usize) {
    file[place..place + 4].copy_from_slice(&number(target - place).to_le_bytes());
}
