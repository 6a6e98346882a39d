//! Images and documents for models that cannot see them.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_core::messages::{
    Content, InferenceRequest, Message, Part, ToolExchange, ToolResult, Transcript, Turn, TurnBody,
    TurnError,
};

use crate::model_info::{ModelCapability, ModelInfo};

/// What a model sees besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    images: bool,
    documents: bool,
}

/// Returns a request in which text says so of each image and document that the model cannot see. A model of which it is not
/// known what it can do gets everything.
pub(crate) fn shown<'a>(
    request: &'a InferenceRequest,
    info: Option<&ModelInfo>,
) -> Cow<'a, InferenceRequest> {
    let Some(capabilities) = info.and_then(|it| it.capabilities.as_ref()) else {
        return Cow::Borrowed(request);
    };
    let can = |capability| capabilities.contains(&capability);
    let sight =
        Sight { images: can(ModelCapability::Images), documents: can(ModelCapability::Documents) };
    if sight == (Sight { images: true, documents: true }) || !sight.hides_in(request) {
        return Cow::Borrowed(request);
    }
    match sight.replaced(request) {
        Ok(request) => Cow::Owned(request),
        // Parts that are replaced are no calls, so that each turn stays valid.
        Err(_) => Cow::Borrowed(request),
    }
}

impl Sight {
    /// Returns the word for a part that is hidden.
    fn hides(self, part: &Part) -> Option<&'static str> {
        match part.content() {
            Content::Image(_) if !self.images => Some("image"),
            Content::Document(_) if !self.documents => Some("document"),
            _ => None,
        }
    }

    fn hides_some(self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.hides(part).is_some())
    }

    fn hides_in_turn(self, turn: &Turn) -> bool {
        let results = match turn.body() {
            TurnBody::ToolExchange(exchange) => exchange.results(),
            _ => &[],
        };
        self.hides_some(turn.message().parts())
            || results.iter().any(|result| self.hides_some(&result.content))
    }

    fn hides_in(self, request: &InferenceRequest) -> bool {
        let prompt = &request.prompt;
        prompt.head.iter().chain(prompt.turns.iter()).any(|turn| self.hides_in_turn(turn))
            || prompt.tail.iter().any(|message| self.hides_some(message.parts()))
    }

    fn replaced(self, request: &InferenceRequest) -> Result<InferenceRequest, TurnError> {
        let mut request = request.clone();
        let prompt = &mut request.prompt;
        prompt.head = self.transcript(&prompt.head)?;
        prompt.turns = self.transcript(&prompt.turns)?;
        for message in &mut prompt.tail {
            *message = self.message(message);
        }
        Ok(request)
    }

    fn transcript(self, transcript: &Transcript) -> Result<Transcript, TurnError> {
        let mut shown = Transcript::new();
        for turn in transcript {
            if self.hides_in_turn(turn) {
                shown.push(self.turn(turn)?);
            } else {
                shown.push(Arc::clone(turn));
            }
        }
        Ok(shown)
    }

    fn turn(self, turn: &Turn) -> Result<Turn, TurnError> {
        let body = match turn.body() {
            TurnBody::Input(message) => TurnBody::Input(self.message(message)),
            TurnBody::Reply(message) => TurnBody::Reply(self.message(message)),
            TurnBody::ToolExchange(exchange) => {
                let results = exchange.results().iter().map(|result| ToolResult {
                    content: self.parts(&result.content).into(),
                    is_error: result.is_error,
                });
                let reply = self.message(exchange.reply());
                TurnBody::ToolExchange(ToolExchange::new(reply, results)?)
            }
        };
        Ok(Turn::new(body)?.with_meta(turn.meta().clone()))
    }

    fn message(self, message: &Message) -> Message {
        message.clone().with_parts(self.parts(message.parts()))
    }

    fn parts(self, parts: &[Part]) -> Vec<Part> {
        let shown = |part: &Part| match self.hides(part) {
            Some(what) => {
                Part::text(format!("[{what}: omitted, because this model does not accept {what}s]"))
            }
            None => part.clone(),
        };
        parts.iter().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::messages::{Media, MediaSource, Prompt, Role, ToolCall};

    use super::*;

    fn document() -> Part {
        let source = MediaSource::Base64("JVBERg==".into());
        Part::new(Content::Document(Media { mime: "application/pdf".into(), source, name: None }))
    }

    fn image() -> Part {
        Part::image("image/png", "iVBORw==")
    }

    /// A request in which a user shows an image, and a tool returns another one and a document.
    fn request() -> InferenceRequest {
        let mut turns = Transcript::new();
        turns.push_message(Message::user("Hello.")).unwrap();
        turns.push_message(Message::new(Role::User, [Part::text("Look."), image()])).unwrap();
        let call = ToolCall::new("call_1", "read_file", "{}");
        let reply = Message::new(Role::Assistant, [Part::new(Content::ToolCall(call))]);
        let result = ToolResult { content: [image(), document()].into(), is_error: false };
        let exchange = ToolExchange::new(reply, [result]).unwrap();
        turns.push(Turn::new(TurnBody::ToolExchange(exchange)).unwrap());
        let tail = vec![Message::new(Role::User, [image()])];
        let prompt = Prompt { turns, tail, ..Prompt::default() };
        InferenceRequest { prompt, ..InferenceRequest::default() }
    }

    /// What a model with these capabilities gets: a word for each part that is not text, and the texts that stand for one.
    fn seen(capabilities: Option<&[ModelCapability]>) -> Vec<String> {
        let capabilities = capabilities.map(<[ModelCapability]>::to_vec);
        let info = ModelInfo { capabilities, ..ModelInfo::default() };
        let request = request();
        let shown = shown(&request, Some(&info));
        let mut seen = Vec::new();
        let mut add = |parts: &[Part]| {
            for part in parts {
                match part.content() {
                    Content::Image(_) => seen.push("IMAGE".to_owned()),
                    Content::Document(_) => seen.push("DOCUMENT".to_owned()),
                    Content::Text(text) if text.starts_with('[') => seen.push(text.to_string()),
                    _ => {}
                }
            }
        };
        for turn in &shown.prompt.turns {
            add(turn.message().parts());
            if let TurnBody::ToolExchange(exchange) = turn.body() {
                exchange.results().iter().for_each(|it| add(&it.content));
            }
        }
        shown.prompt.tail.iter().for_each(|it| add(it.parts()));
        seen
    }

    #[test]
    fn a_model_that_cannot_see_is_told_so_wherever_something_is_shown() {
        let image = "[image: omitted, because this model does not accept images]";
        let document = "[document: omitted, because this model does not accept documents]";
        assert_eq!(seen(Some(&[ModelCapability::Tools])), [image, image, document, image]);
        assert_eq!(seen(Some(&[ModelCapability::Images])), ["IMAGE", "IMAGE", document, "IMAGE"]);
        let all = ["IMAGE", "IMAGE", "DOCUMENT", "IMAGE"];
        assert_eq!(seen(Some(&[ModelCapability::Images, ModelCapability::Documents])), all);
        assert_eq!(seen(None), all);
    }

    #[test]
    fn turns_without_images_stay_the_same_values() {
        let info = ModelInfo { capabilities: Some(Vec::new()), ..ModelInfo::default() };
        let request = request();
        let shown = shown(&request, Some(&info));
        let same = |index| {
            let of =
                |request: &InferenceRequest| Arc::clone(request.prompt.turns.get(index).unwrap());
            Arc::ptr_eq(&of(&request), &of(&shown))
        };
        assert_eq!([same(0), same(1), same(2)], [true, false, false]);
    }
}
