//! Values that capabilities and programs store with the conversation.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A key for one value of type `T` in a state.
///
/// Keys are separate from the metadata that models and users write: model output cannot change
/// them.
///
/// ```
/// use loopwright_core::Key;
///
/// const REWINDS: Key<u32> = Key::execution("retrospective", "rewinds");
/// ```
pub struct Key<T> {
    namespace: Cow<'static, str>,
    name: Cow<'static, str>,
    scope: Scope,
    value: PhantomData<fn() -> T>,
}

/// The lifetime of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Until the execution ends and another starts.
    Execution,
    /// As long as the state.
    Session,
}

impl<T> Key<T> {
    /// Creates a key of a value that lives as long as the state.
    pub const fn session(namespace: &'static str, name: &'static str) -> Self {
        Self::new(Cow::Borrowed(namespace), Cow::Borrowed(name), Scope::Session)
    }

    /// Creates a key of a value that the next execution does not see.
    pub const fn execution(namespace: &'static str, name: &'static str) -> Self {
        Self::new(Cow::Borrowed(namespace), Cow::Borrowed(name), Scope::Execution)
    }

    const fn new(namespace: Cow<'static, str>, name: Cow<'static, str>, scope: Scope) -> Self {
        Self { namespace, name, scope, value: PhantomData }
    }

    /// Returns the key without its type.
    ///
    /// ```
    /// use loopwright_core::{Key, Namespace};
    ///
    /// const PAGES: Key<Vec<String>> = Key::session("bookmarks", "pages");
    /// let slot = PAGES.slot();
    /// assert_eq!((slot.space, &*slot.key), (Namespace::Session, "bookmarks.pages"));
    /// ```
    pub fn slot(&self) -> StateKey {
        let key = format!("{}.{}", self.namespace, self.name).into();
        match self.scope {
            Scope::Execution => StateKey { space: Namespace::Execution, key },
            Scope::Session => StateKey { space: Namespace::Session, key },
        }
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}.{}, {:?})", self.namespace, self.name, self.scope)
    }
}

/// The key of a value, without its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateKey {
    /// The namespace.
    pub space: Namespace,
    /// The name within the namespace.
    pub key: Arc<str>,
}

/// The three separate namespaces of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespace {
    /// Free metadata of users and models.
    Metadata,
    /// Capabilities' own values, for one execution.
    Execution,
    /// Capabilities' own values, for as long as the state lives.
    Session,
}

/// Values by name. Cheap to clone.
///
/// ```
/// use loopwright_core::AgentState;
///
/// let state = AgentState::new().with_metadata("team", "support").with_metadata("ticket", 42);
/// let names: Vec<&str> = state.metadata().iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["team", "ticket"]);
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metadata(Arc<BTreeMap<Arc<str>, Value>>);

impl Metadata {
    /// Returns a value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Returns all values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn put(&mut self, key: Arc<str>, value: Option<Value>) {
        let values = Arc::make_mut(&mut self.0);
        match value {
            Some(value) => values.insert(key, value),
            None => values.remove(&key),
        };
    }

    pub(crate) fn remove(&mut self, key: &str) {
        if self.0.contains_key(key) {
            Arc::make_mut(&mut self.0).remove(key);
        }
    }

    pub(crate) fn typed<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_value(self.get(key)?.clone()).ok()
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
