//! Blocks with state, and how that state is saved.
//!
//! - All state of a block is in its [`Stateful::State`]: the block itself is shared and immutable,
//!   and the state must be serialisable. A block whose state is not saved does not compile.

use std::io::{self, Write};

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::workflow::block_api::block::{Instance, Memory};
use crate::workflow::block_api::call::Call;

/// A block with state. Its own fields are its settings; the state is passed to each call.
pub(crate) trait Stateful: Send + Sync {
    /// Version of the format of [`Self::State`], raised with each incompatible change.
    const FORM: u32 = 1;
    /// The state; its default is the initial one.
    type State: Serialize + DeserializeOwned + Default + Send;

    /// Processes one element.
    fn run(&self, state: &mut Self::State, call: &mut Call<'_>) -> Result<(), String>;
}

/// A block with state and without settings is a function.
impl<S> Stateful for fn(&mut S, &mut Call<'_>) -> Result<(), String>
where
    S: Serialize + DeserializeOwned + Default + Send,
{
    type State = S;

    fn run(&self, state: &mut S, call: &mut Call<'_>) -> Result<(), String> {
        self(state, call)
    }
}

struct StatefulInstance<B: Stateful> {
    block: B,
    state: B::State,
}

/// Creates an instance of a function with the initial state.
pub(crate) fn stateful<S>(run: fn(&mut S, &mut Call<'_>) -> Result<(), String>) -> Box<dyn Instance>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    stateful_instance(run)
}

/// Creates an instance with the initial state.
pub(crate) fn stateful_instance<B: Stateful + 'static>(block: B) -> Box<dyn Instance> {
    let state = B::State::default();
    Box::new(StatefulInstance { block, state })
}

impl<B: Stateful> StatefulInstance<B> {
    /// Whether there is any state: a shared state type may be empty for some blocks.
    const HAS_STATE: bool = size_of::<B::State>() > 0;
}

impl<B: Stateful> Instance for StatefulInstance<B> {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        self.block.run(&mut self.state, call)
    }

    fn memory(&self) -> Option<&dyn Memory> {
        Self::HAS_STATE.then_some(self)
    }

    fn memory_mut(&mut self) -> Option<&mut dyn Memory> {
        Self::HAS_STATE.then_some(self)
    }
}

impl<B: Stateful> Memory for StatefulInstance<B> {
    fn form(&self) -> u32 {
        B::FORM
    }

    fn write(&self, max_bytes: usize) -> Result<Vec<u8>, String> {
        write(&self.state, max_bytes)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.state = read(bytes)?;
        Ok(())
    }
}

/// Serialises a value as MessagePack with field names: numbers stay exact, including non-finite
/// ones, and fields can be added later. Fails beyond `max_bytes` bytes.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut out = Bounded {
        bytes: Vec::new(),
        max_bytes,
    };
    let result = value.serialize(&mut rmp_serde::Serializer::new(&mut out).with_struct_map());
    match result {
        Ok(()) => Ok(out.bytes),
        Err(rmp_serde::encode::Error::InvalidValueWrite(_)) => Err(format!(
            "it takes more than the remaining {max_bytes} bytes"
        )),
        Err(rmp_serde::encode::Error::Syntax(why)) => Err(why),
        Err(other) => Err(other.to_string()),
    }
}

/// Reads what [`write()`] wrote, all of it.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut rest = bytes;
    let value = rmp_serde::from_read(&mut rest).map_err(|e| e.to_string())?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("{} bytes are left over", rest.len()))
    }
}

/// A buffer with a maximum size.
struct Bounded {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.max_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// State that is learned from the next pictures faster than saving it is worth. It is never saved;
/// saving reports that.
#[derive(Debug, Default)]
pub(crate) struct Unsaved<T>(pub(crate) T);

const NOT_SAVED: &str = "it is learned again from the next pictures";

impl<T> Serialize for Unsaved<T> {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom(NOT_SAVED))
    }
}

impl<'de, T> Deserialize<'de> for Unsaved<T> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(NOT_SAVED))
    }
}
