//! Claude's Messages API: `POST /v1/messages`. Ollama and other local servers speak it too.

mod block;
mod encode;
mod error_body;
mod read;
mod stream;

pub(super) use encode::encode;
pub(super) use error_body::read_error;
pub(super) use read::decode;
pub(super) use stream::Stream;
