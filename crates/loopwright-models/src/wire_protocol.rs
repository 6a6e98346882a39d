//! The traits for a custom wire, for a provider that supports none of the
//! [`WireApi`](crate::WireApi)s.
//!
//! - [`WireProtocol`] names the path and the headers, encodes requests, and creates readers of responses.
//! - [`TurnWriter`] writes one turn; [`EncodeInput::write_turns`] writes the conversation with it.
//! - [`ResponseReader`] reads the events of a stream, or a whole response.
//! - [`Providers::with_wire`](crate::Providers::with_wire) registers the wire for a provider.
//! - [`RequestEncoder::from_protocol`](crate::RequestEncoder::from_protocol) and
//!   [`ResponseDecoder::from_protocol`](crate::ResponseDecoder::from_protocol) test it without a network.
//!
//! ```
//! use std::sync::Arc;
//!
//! use loopwright_core::messages::{
//!     InferenceRequest, Message, ModelOrigin, Prompt, ToolCallFormat, ToolExchange, Transcript, TurnMeta,
//! };
//! use loopwright_models::wire_protocol::{
//!     EncodeInput, JsonList, ResponseReader, TurnOrder, TurnWriter, WireProtocol, object_with_list,
//! };
//! use loopwright_models::{ErrorContext, Quirks, RequestEncoder};
//! use serde_json::{Map, json};
//!
//! struct Parrot;
//!
//! struct Lines;
//!
//! impl TurnWriter for Lines {
//!     fn format(&self) -> ToolCallFormat {
//!         ToolCallFormat::Text // The wire has no tools.
//!     }
//!
//!     fn write_message(&self, list: &mut JsonList<'_>, message: &Message) {
//!         list.push(&json!({ "from": message.role(), "text": message.text() }));
//!     }
//!
//!     fn write_exchange(&self, list: &mut JsonList<'_>, exchange: &ToolExchange, _: &TurnMeta) {
//!         self.write_exchange_as_text(list, exchange);
//!     }
//! }
//!
//! impl WireProtocol for Parrot {
//!     fn name(&self) -> &str {
//!         "parrot"
//!     }
//!
//!     fn path(&self, _model: &str, _streams: bool) -> Vec<String> {
//!         vec!["talk".to_owned()]
//!     }
//!
//!     fn encode(&self, input: &EncodeInput<'_>) -> Vec<u8> {
//!         let fields = Map::from_iter([("model".to_owned(), json!(input.model()))]);
//!         object_with_list(&fields, "lines", |list| {
//!             input.write_turns(list, &Lines, TurnOrder::Any);
//!         })
//!     }
//!
//!     fn read(&self, _: Arc<ModelOrigin>, _: ErrorContext) -> Box<dyn ResponseReader> {
//!         unimplemented!("see the guide")
//!     }
//! }
//!
//! let origin = ModelOrigin { wire: "parrot".into(), provider: "p".into(), model: "small".into() };
//! let encoder = RequestEncoder::from_protocol(Arc::new(Parrot), origin.into(), Quirks::default());
//! let mut turns = Transcript::new();
//! turns.push_message(Message::user("Hello.")).unwrap();
//! let request = InferenceRequest { prompt: Prompt::of(turns), ..InferenceRequest::default() };
//! assert_eq!(
//!     String::from_utf8(encoder.encode(&request))?,
//!     r#"{"model":"small","lines":[{"from":"user","text":"Hello."}]}"#
//! );
//! # Ok::<(), std::string::FromUtf8Error>(())
//! ```

use serde_json::{Map, Value};

use crate::json;
pub use crate::{
    json::List as JsonList,
    reader::{Framing, ResponseReader},
    wire::{EncodeInput, TurnOrder, TurnWriter, WireProtocol},
};

/// Returns the body of a request: an object with `fields`, and as its last field a list that `items` writes.
pub fn object_with_list(
    fields: &Map<String, Value>,
    name: &str,
    items: impl FnOnce(&mut JsonList<'_>),
) -> Vec<u8> {
    let no_more = Map::new();
    let write = |out: &mut Vec<u8>| {
        let mut out = json::Fields { out, extra: &no_more };
        for (name, value) in fields {
            out.always(name, value);
        }
    };
    json::object_with_list(write, name, items)
}
