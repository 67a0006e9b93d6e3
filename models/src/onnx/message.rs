//! One protocol buffer message as its fields, of which none is lost.
//!
//! - Fields keep their order, number and wire type, so unknown ones are written unchanged.
//! - A message inside is bytes until it is asked for; reading copies no weights.
//! - Groups are refused: no version of `onnx.proto` has them.

use prost::DecodeError;
use prost::Message as _;
use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{self, DecodeContext, WireType};

/// A field as the wire has it.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Varint(u64),
    Fixed64(u64),
    Bytes(Bytes),
    Fixed32(u32),
}

/// Fields of a message, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message(Vec<(u32, Value)>);

/// Building a new message.
impl Message {
    #[must_use]
    pub fn number(mut self, field: u32, value: u64) -> Self {
        self.0.push((field, Value::Varint(value)));
        self
    }

    #[must_use]
    pub fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        let bytes = Bytes::copy_from_slice(bytes);
        self.0.push((field, Value::Bytes(bytes)));
        self
    }

    #[must_use]
    pub fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    #[must_use]
    pub fn message(mut self, field: u32, message: &Self) -> Self {
        let bytes = message.encode_to_vec().into();
        self.0.push((field, Value::Bytes(bytes)));
        self
    }

    /// Appends the fields of another message.
    #[must_use]
    pub fn append(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Appends an attribute of numbers to a node.
    #[must_use]
    pub fn ints(self, name: &str, values: &[u64]) -> Self {
        const INTS: u64 = 7;
        let attribute = values
            .iter()
            .fold(Self::default().text(1, name), |a, value| {
                a.number(8, *value)
            });
        self.message(5, &attribute.number(20, INTS))
    }

    /// Appends an attribute of one number to a node.
    #[must_use]
    pub fn int(self, name: &str, value: u64) -> Self {
        const INT: u64 = 2;
        let attribute = Self::default().text(1, name).number(3, value);
        self.message(5, &attribute.number(20, INT))
    }

    /// Bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// Reading a message of a file.
impl Message {
    /// Reads a message; messages inside are read when they are asked for.
    pub(super) fn read(bytes: Bytes) -> Result<Self, DecodeError> {
        Self::decode(bytes)
    }

    /// All values of a field of bytes, texts or messages.
    pub(super) fn all(&self, field: u32) -> impl Iterator<Item = &Bytes> {
        self.0
            .iter()
            .filter_map(move |(number, value)| match value {
                Value::Bytes(bytes) if *number == field => Some(bytes),
                _ => None,
            })
    }

    /// The last value of a field of bytes, as protocol buffers define it.
    pub(super) fn get(&self, field: u32) -> Option<&Bytes> {
        self.all(field).last()
    }

    /// The last value of a field of whole numbers.
    pub(super) fn get_number(&self, field: u32) -> Option<u64> {
        let mut values = self.0.iter().rev();
        values.find_map(|(number, value)| match value {
            Value::Varint(value) if *number == field => Some(*value),
            _ => None,
        })
    }

    /// The values of a repeated field of whole numbers, packed or not.
    pub(super) fn numbers(&self, field: u32) -> Result<Vec<u64>, DecodeError> {
        let mut values = Vec::new();
        for (_, value) in self.0.iter().filter(|(number, _)| *number == field) {
            match value {
                Value::Varint(value) => values.push(*value),
                Value::Bytes(packed) => {
                    let mut packed = packed.clone();
                    while packed.has_remaining() {
                        values.push(encoding::decode_varint(&mut packed)?);
                    }
                }
                Value::Fixed64(_) | Value::Fixed32(_) => {}
            }
        }
        Ok(values)
    }

    /// The values of a repeated field of `f32`, packed or not.
    pub(super) fn floats(&self, field: u32) -> Vec<f32> {
        let mut values = Vec::new();
        for (_, value) in self.0.iter().filter(|(number, _)| *number == field) {
            match value {
                Value::Fixed32(bits) => values.push(f32::from_bits(*bits)),
                Value::Bytes(packed) => {
                    let chunks = packed.as_chunks().0.iter();
                    values.extend(chunks.map(|bytes| f32::from_le_bytes(*bytes)));
                }
                Value::Varint(_) | Value::Fixed64(_) => {}
            }
        }
        values
    }

    /// Keeps the fields with these numbers out of the message.
    pub(super) fn without(mut self, fields: &[u32]) -> Self {
        self.0.retain(|(number, _)| !fields.contains(number));
        self
    }

    /// Removes the values of a field that `keeps` does not accept.
    pub(super) fn retain(&mut self, field: u32, mut keeps: impl FnMut(&Bytes) -> bool) {
        self.0.retain(|(number, value)| match value {
            Value::Bytes(bytes) if *number == field => keeps(bytes),
            _ => true,
        });
    }
}

impl prost::Message for Message {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        for (field, value) in &self.0 {
            match value {
                Value::Varint(value) => encoding::uint64::encode(*field, value, buffer),
                Value::Fixed64(value) => encoding::fixed64::encode(*field, value, buffer),
                Value::Bytes(value) => encoding::bytes::encode(*field, value, buffer),
                Value::Fixed32(value) => encoding::fixed32::encode(*field, value, buffer),
            }
        }
    }

    fn merge_field(
        &mut self,
        field: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        let value = match wire_type {
            WireType::Varint => Value::Varint(encoding::decode_varint(buffer)?),
            WireType::SixtyFourBit => {
                let mut value = 0;
                encoding::fixed64::merge(wire_type, &mut value, buffer, context)?;
                Value::Fixed64(value)
            }
            WireType::ThirtyTwoBit => {
                let mut value = 0;
                encoding::fixed32::merge(wire_type, &mut value, buffer, context)?;
                Value::Fixed32(value)
            }
            // This refuses groups.
            _ => {
                let mut value = Bytes::new();
                encoding::bytes::merge(wire_type, &mut value, buffer, context)?;
                Value::Bytes(value)
            }
        };
        self.0.push((field, value));
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        let lengths = self.0.iter().map(|(field, value)| match value {
            Value::Varint(value) => encoding::uint64::encoded_len(*field, value),
            Value::Fixed64(value) => encoding::fixed64::encoded_len(*field, value),
            Value::Bytes(value) => encoding::bytes::encoded_len(*field, value),
            Value::Fixed32(value) => encoding::fixed32::encoded_len(*field, value),
        });
        lengths.sum()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<u64>().prop_map(Value::Varint),
            any::<u64>().prop_map(Value::Fixed64),
            any::<u32>().prop_map(Value::Fixed32),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|b| Value::Bytes(b.into())),
        ]
    }

    proptest! {
        #[test]
        fn every_field_is_written_as_it_was_read(
            fields in prop::collection::vec((1_u32..1 << 29, values()), 0..20),
        ) {
            let bytes = Message(fields.clone()).to_bytes();
            let read = Message::read(bytes.clone().into()).expect("a message");
            prop_assert_eq!(&read, &Message(fields));
            prop_assert_eq!(read.to_bytes(), bytes);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = Message::read(bytes.into()) {
                let again = Message::read(message.to_bytes().into());
                prop_assert_eq!(again.expect("a message"), message);
            }
        }
    }

    #[test]
    fn group_is_refused() {
        // Field 1 begins and ends a group.
        assert!(Message::read(Bytes::from_static(&[0x0b, 0x0c])).is_err());
    }

    #[test]
    fn repeated_numbers_are_read_packed_or_not() {
        let plain = Message::default().number(8, 300).number(8, 1);
        let packed = Message::default().bytes(8, &[0xac, 0x02, 0x01]);
        assert_eq!(plain.numbers(8), Ok(vec![300, 1]));
        assert_eq!(packed.numbers(8), Ok(vec![300, 1]));
    }
}
