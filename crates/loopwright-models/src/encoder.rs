//! The encoder of requests, for all wires.

use std::sync::Arc;

use bytes::Bytes;
use loopwright_core::{
    Timestamp,
    messages::{InferenceRequest, ModelOrigin},
};

use crate::{
    prefix_reuse::{EncodedRequest, PrefixReuse},
    protocols::Wire,
    quirks::Quirks,
    wire::{EncodeInput, WireApi, WireProtocol},
};

/// Encodes requests for one model.
///
/// The conversation comes last in the body, and the encoded form of each turn is cached with the
/// turn: the bytes of a request up to the end of its last turn are the beginning of the next
/// request.
#[derive(Clone, Debug)]
pub struct RequestEncoder {
    wire: Wire,
    origin: Arc<ModelOrigin>,
    quirks: Quirks,
}

impl RequestEncoder {
    /// Creates an encoder for the model of an origin.
    pub fn new(wire: WireApi, origin: Arc<ModelOrigin>, quirks: Quirks) -> Self {
        Self::of_wire(Wire::Builtin(wire), origin, quirks)
    }

    /// Creates an encoder for the model of an origin, on a custom wire.
    pub fn from_protocol(
        protocol: Arc<dyn WireProtocol>,
        origin: Arc<ModelOrigin>,
        quirks: Quirks,
    ) -> Self {
        Self::of_wire(Wire::Custom(protocol), origin, quirks)
    }

    pub(crate) fn of_wire(wire: Wire, origin: Arc<ModelOrigin>, quirks: Quirks) -> Self {
        Self { wire, origin, quirks }
    }

    /// Returns the body of a request.
    pub fn encode(&self, request: &InferenceRequest) -> Vec<u8> {
        self.write(request, None, None)
    }

    /// Returns the body of a request that is sent now and may go on from another one, and what the next
    /// one may go on from.
    pub(crate) fn encode_after(
        &self,
        request: &InferenceRequest,
        before: Option<EncodedRequest>,
        now: Option<Timestamp>,
    ) -> (Bytes, Option<EncodedRequest>) {
        let continuation = PrefixReuse::of(before);
        let body = self.write(request, Some(&continuation), now);
        continuation.finish(body)
    }

    fn write(
        &self,
        request: &InferenceRequest,
        continuation: Option<&PrefixReuse>,
        now: Option<Timestamp>,
    ) -> Vec<u8> {
        let (origin, quirks) = (&*self.origin, self.quirks);
        self.wire.protocol().encode(&EncodeInput { origin, quirks, request, now, continuation })
    }
}
