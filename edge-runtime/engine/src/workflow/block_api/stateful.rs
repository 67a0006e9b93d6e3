//! Blocks that remember: what they keep from one element to the next, and the seam through which it is saved.
//!
//! Invariant: what a block remembers is its [`Stateful::State`] and nothing else. A [`Block`](crate::workflow::block_api::block::Block) is given itself only to
//! read, and has to be `Sync`, so it can't change anything it owns; whoever wants to remember has to say what, and that
//! has to be serialisable. A block that forgets to be saved doesn't compile.

use std::io::{self, Write};

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::workflow::block_api::block::{Call, Instance, Memory};

/// A block that remembers. Its own fields are its settings; its state is handed to it at each call.
pub(crate) trait Stateful: Send + Sync {
    /// Number of the form in which [`Self::State`] is written. It is raised with each change of that type after which
    /// what was saved before can't be read, or would mean something else.
    const FORM: u32 = 1;
    /// What it remembers. The default is how it begins.
    type State: Serialize + DeserializeOwned + Default + Send;

    /// Works on one element.
    ///
    /// # Errors
    /// As [`Instance::run`].
    fn run(&self, state: &mut Self::State, call: &mut Call<'_>) -> Result<(), String>;
}

/// A block with its state.
struct Remembering<B: Stateful> {
    block: B,
    state: B::State,
}

/// An instance of a block that remembers nothing yet.
pub(crate) fn remembering<B: Stateful + 'static>(block: B) -> Box<dyn Instance> {
    let state = B::State::default();
    Box::new(Remembering { block, state })
}

impl<B: Stateful> Remembering<B> {
    /// Whether there is anything to remember: what several blocks share may need no state in one of them.
    const REMEMBERS: bool = size_of::<B::State>() > 0;
}

impl<B: Stateful> Instance for Remembering<B> {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        self.block.run(&mut self.state, call)
    }

    fn memory(&self) -> Option<&dyn Memory> {
        Self::REMEMBERS.then_some(self)
    }

    fn memory_mut(&mut self) -> Option<&mut dyn Memory> {
        Self::REMEMBERS.then_some(self)
    }
}

impl<B: Stateful> Memory for Remembering<B> {
    fn form(&self) -> u32 {
        B::FORM
    }

    fn write(&self, most: usize) -> Result<Vec<u8>, String> {
        write(&self.state, most)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.state = read(bytes)?;
        Ok(())
    }
}

/// Writes a value as MessagePack with names of fields, so that every number comes back exactly, those that are not
/// finite included, and a field can be added to a form.
///
/// # Errors
/// Why it can't be, or that it takes more than `most` bytes.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T, most: usize) -> Result<Vec<u8>, String> {
    let mut out = Bounded {
        bytes: Vec::new(),
        most,
    };
    let result = value.serialize(&mut rmp_serde::Serializer::new(&mut out).with_struct_map());
    match result {
        Ok(()) => Ok(out.bytes),
        Err(rmp_serde::encode::Error::InvalidValueWrite(_)) => {
            Err(format!("it takes more than the {most} bytes that are left"))
        }
        Err(rmp_serde::encode::Error::Syntax(why)) => Err(why),
        Err(other) => Err(other.to_string()),
    }
}

/// Reads what [`write()`] wrote, all of it.
///
/// # Errors
/// Why it can't be read.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut rest = bytes;
    let value = rmp_serde::from_read(&mut rest).map_err(|e| e.to_string())?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("{} bytes are left over", rest.len()))
    }
}

/// Bytes in memory up to a bound.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.most {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// State that is learned anew from the next pictures, sooner than its size would be worth keeping. It is never saved, and
/// whoever saves is told so.
#[derive(Debug, Default)]
pub(crate) struct Fleeting<T>(pub(crate) T);

/// Why [`Fleeting`] state is not saved.
const LEARNED_ANEW: &str = "it is learned anew from the next pictures";

impl<T> Serialize for Fleeting<T> {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom(LEARNED_ANEW))
    }
}

impl<'de, T> Deserialize<'de> for Fleeting<T> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(LEARNED_ANEW))
    }
}
