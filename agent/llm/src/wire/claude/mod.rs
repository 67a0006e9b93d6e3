//! Claude's Messages API: `POST /v1/messages`. Ollama and other local servers speak it too.

mod block;
mod encode;
mod fault;
mod read;
mod stream;

pub(super) use encode::encode;
pub(super) use fault::fault;
pub(super) use read::whole;
pub(super) use stream::Stream;
