//! OpenAI's Responses API: `POST /v1/responses`, with nothing kept on the server.

mod encode;
mod error_body;
mod read;
mod stream;

pub(super) use encode::encode;
pub(super) use error_body::read_error;
pub(super) use read::decode;
pub(super) use stream::Stream;
