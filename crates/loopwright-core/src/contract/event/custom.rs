//! Events that the core does not define.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::event::{AgentEvent, EventType};

/// An event that a capability or a program defines.
///
/// Listeners receive it like the events of the core: `on_event` by its type, `wiretap` as [`AgentEvent::Custom`].
/// Broadcasting and the JSON lines of the program `loopwright` carry it under its name.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use loopwright_core::{AgentState, BoxError, CustomEvent, tool_fn_with, NoArgs};
/// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
///
/// #[derive(Debug, serde::Serialize, serde::Deserialize)]
/// struct TicketCreated {
///     number: u32,
/// }
///
/// impl CustomEvent for TicketCreated {
///     const NAME: &'static str = "ticket_created";
/// }
///
/// let create = tool_fn_with("create_ticket", "Creates a ticket.", |_: NoArgs, cx| {
///     Box::pin(async move {
///         cx.events.emit(|| TicketCreated { number: 7 });
///         Ok::<_, BoxError>("created")
///     })
/// });
/// let steps = [ScenarioStep::tool_call("create_ticket", serde_json::json!({})), "Done.".into()];
/// let numbers = Arc::new(Mutex::new(Vec::new()));
/// let heard = Arc::clone(&numbers);
/// let agent = test_loop(FakeDriver::steps(steps)).with_tool(create).on_event(
///     move |event: &TicketCreated, _envelope| heard.lock().unwrap().push(event.number),
/// );
/// block_on(agent.execute(AgentState::new()));
/// assert_eq!(*numbers.lock().unwrap(), [7]);
/// ```
pub trait CustomEvent: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The name of the event in JSON. It must stay the same and must differ from the names of all other events. The
    /// convention is `snake_case`, with the name of the capability first.
    const NAME: &'static str;
}

/// An event that the core does not define, without its type. Cheap to clone.
///
/// As JSON, it is an object: `type` holds the name, beside the fields of the event. An event that is no JSON object, or
/// that has a field `type`, is in the field `value`.
#[derive(Clone)]
pub struct CustomEventData(Arc<Inner>);

struct Inner {
    name: Box<str>,
    /// The event itself, or what a listener decoded from the JSON value.
    typed: OnceLock<Box<dyn ErasedEvent>>,
    /// The JSON value, or what the event was encoded to.
    value: OnceLock<Value>,
}

trait ErasedEvent: Send + Sync {
    fn as_any(&self) -> &dyn Any;

    fn to_value(&self) -> Value;
}

impl<T: CustomEvent> ErasedEvent for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|error| {
            Value::Object(Map::from_iter([("encoding_error".to_owned(), error.to_string().into())]))
        })
    }
}

impl CustomEventData {
    fn new<T: CustomEvent>(event: T) -> Self {
        let typed = OnceLock::from(Box::new(event) as Box<dyn ErasedEvent>);
        Self(Arc::new(Inner { name: T::NAME.into(), typed, value: OnceLock::new() }))
    }

    /// Creates an event from its name and its JSON value.
    pub fn from_value(name: &str, value: Value) -> Self {
        let value = OnceLock::from(value);
        Self(Arc::new(Inner { name: name.into(), typed: OnceLock::new(), value }))
    }

    /// Returns the name: [`CustomEvent::NAME`].
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the event as JSON, without its name. An event that cannot be encoded is an object with the field
    /// `encoding_error`.
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| match self.0.typed.get() {
            Some(event) => event.to_value(),
            None => Value::Null,
        })
    }

    /// Returns the event if it has the name of `T` and fits its type.
    pub fn get<T: CustomEvent>(&self) -> Option<&T> {
        if self.name() != T::NAME {
            return None;
        }
        if self.0.typed.get().is_none() {
            let decoded: T = self.decode()?;
            self.0.typed.get_or_init(|| Box::new(decoded));
        }
        (**self.0.typed.get()?).as_any().downcast_ref()
    }

    fn decode<T: CustomEvent>(&self) -> Option<T> {
        let value = self.value();
        let whole = T::deserialize(value).ok();
        whole.or_else(|| T::deserialize(value.get("value")?).ok())
    }
}

impl<T: CustomEvent> From<T> for AgentEvent {
    fn from(event: T) -> Self {
        Self::Custom(CustomEventData::new(event))
    }
}

impl<T: CustomEvent> EventType for T {
    fn of(event: &AgentEvent) -> Option<&Self> {
        match event {
            AgentEvent::Custom(event) => event.get(),
            _ => None,
        }
    }
}

impl PartialEq for CustomEventData {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.value() == other.value()
    }
}

impl fmt::Debug for CustomEventData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.name()).field(self.value()).finish()
    }
}

impl Serialize for CustomEventData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = [("type", Value::from(self.name()))];
        match self.value() {
            Value::Object(fields) if !fields.contains_key("type") => {
                let kind = kind.iter().map(|(name, value)| (*name, value));
                serializer.collect_map(kind.chain(fields.iter().map(|(name, it)| (&**name, it))))
            }
            Value::Null => serializer.collect_map(kind),
            value => {
                let fields = [("type", &kind[0].1), ("value", value)];
                serializer.collect_map(fields)
            }
        }
    }
}

impl<'de> Deserialize<'de> for CustomEventData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let name = fields.remove("type");
        let name = name.as_ref().and_then(Value::as_str);
        let name = name.ok_or_else(|| serde::de::Error::missing_field("type"))?;
        let value = if fields.is_empty() { Value::Null } else { Value::Object(fields) };
        Ok(Self::from_value(name, value))
    }
}
