//! A fast check of arguments. It covers the common case without compiling a schema and without
//! parsing the model's text into a value.
//!
//! Compiling a schema checks it against the meta-schema of its draft, which takes milliseconds the
//! first time. Most schemas of tools have only a few keywords, and most arguments match them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The check ignores schemas that are nested deeper.
const DEPTH: usize = 16;

/// The rules of a schema of common keywords. A value that does not match them can still match the
/// schema.
#[derive(Debug)]
pub(super) enum FastSchema {
    Anything,
    Rules(Box<Rules>),
    /// The schema has keywords that this check does not know.
    Unknown,
}

/// The rules for a value. Rules for values of another kind do not apply to it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    kinds: Option<Kinds>,
    values: Option<Vec<Value>>,
    least: Option<i128>,
    most: Option<i128>,
    items: Option<FastSchema>,
    members: Vec<Property>,
    /// A bit for each position of a required member.
    required: u64,
    /// Whether other members are forbidden.
    is_closed: bool,
}

/// Rules that match any value.
static ANYTHING: Rules = Rules {
    kinds: None,
    values: None,
    least: None,
    most: None,
    items: None,
    members: Vec::new(),
    required: 0,
    is_closed: false,
};

#[derive(Debug)]
struct Property {
    name: Box<str>,
    shape: FastSchema,
}

/// Kinds of values, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

/// A scalar value.
enum Plain<'a> {
    Null,
    Bool(bool),
    Whole(i128),
    Fraction,
    Text(&'a str),
}

impl FastSchema {
    pub(super) fn of(schema: &Value) -> Self {
        Self::within(schema, DEPTH)
    }

    fn within(schema: &Value, depth: usize) -> Self {
        match schema {
            Value::Bool(true) => Self::Anything,
            Value::Object(schema) if depth > 0 => Rules::of(schema, depth - 1)
                .map_or(Self::Unknown, |rules| Self::Rules(Box::new(rules))),
            _ => Self::Unknown,
        }
    }

    /// Returns `true` if a value certainly matches.
    #[cfg(test)]
    fn matches(&self, value: &Value) -> bool {
        self.deserialize(value).is_ok()
    }

    /// Returns `true` if a value in JSON text certainly matches, without parsing it into a value.
    pub(super) fn takes_text(&self, text: &str) -> bool {
        let mut value = serde_json::Deserializer::from_str(text);
        self.deserialize(&mut value).is_ok() && value.end().is_ok()
    }
}

impl Rules {
    fn of(schema: &Map<String, Value>, depth: usize) -> Option<Self> {
        let mut rules = Self::default();
        for (keyword, rule) in schema {
            match keyword.as_str() {
                // What only describes; and what is looked at once all members are known.
                "title" | "description" | "default" | "examples" | "deprecated" | "format"
                | "$comment" | "$defs" | "required" => (),
                "type" => rules.kinds = Some(Kinds::of(rule)?),
                "enum" => rules.values = Some(rule.as_array()?.clone()),
                "minimum" => rules.least = Some(whole(rule)?),
                "maximum" => rules.most = Some(whole(rule)?),
                "items" => rules.items = Some(FastSchema::within(rule, depth)),
                "properties" => {
                    let member = |(name, rule): (&String, &Value)| Property {
                        name: name.as_str().into(),
                        shape: FastSchema::within(rule, depth),
                    };
                    rules.members = rule.as_object()?.iter().map(member).collect();
                }
                "additionalProperties" => rules.is_closed = !rule.as_bool()?,
                _ => return None,
            }
        }
        for name in schema.get("required").map_or(Some(&Vec::new()), Value::as_array)? {
            rules.require(name.as_str()?)?;
        }
        Some(rules)
    }

    /// Requires a member. Returns `None` if the schema requires too many.
    fn require(&mut self, name: &str) -> Option<()> {
        let place = self.place(name).unwrap_or_else(|| {
            // It has to be there, and may not be there if no others may.
            let shape = if self.is_closed { FastSchema::Unknown } else { FastSchema::Anything };
            self.members.push(Property { name: name.into(), shape });
            self.members.len() - 1
        });
        self.required |= bit(place)?;
        Some(())
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|it| &*it.name == name)
    }

    fn fits(&self, value: &Plain<'_>) -> bool {
        let in_bounds = match value {
            Plain::Whole(it) => {
                self.least.is_none_or(|least| *it >= least)
                    && self.most.is_none_or(|most| *it <= most)
            }
            Plain::Fraction => self.least.is_none() && self.most.is_none(),
            Plain::Text(_) | Plain::Null | Plain::Bool(_) => true,
        };
        let is_one = |values: &Vec<Value>| values.iter().any(|it| value.is(it));
        in_bounds && self.is_kind(value.kind()) && self.values.as_ref().is_none_or(is_one)
    }

    /// Returns `true` if arrays or objects can match.
    fn fits_made_of_others(&self, kind: Kinds) -> bool {
        self.is_kind(kind) && self.values.is_none()
    }

    fn is_kind(&self, kind: Kinds) -> bool {
        self.kinds.is_none_or(|kinds| kinds.0 & kind.0 != 0)
    }
}

/// Returns the bit of a position, or `None` if the position exceeds the number of bits.
fn bit(place: usize) -> Option<u64> {
    1_u64.checked_shl(u32::try_from(place).ok()?)
}

fn whole(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or(value.as_u64().map(i128::from))
}

impl Kinds {
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(1 << 1);
    const INTEGER: Self = Self(1 << 2);
    const FRACTION: Self = Self(1 << 3);
    const STRING: Self = Self(1 << 4);
    const ARRAY: Self = Self(1 << 5);
    const OBJECT: Self = Self(1 << 6);

    /// Reads the kinds that a schema names; `None` if it names an unknown one.
    pub(super) fn of(rule: &Value) -> Option<Self> {
        match rule {
            Value::String(name) => Self::named(name),
            Value::Array(names) => names.iter().try_fold(Self(0), |kinds, name| {
                Some(Self(kinds.0 | Self::named(name.as_str()?)?.0))
            }),
            _ => None,
        }
    }

    /// Returns `true` if a value is of one of the kinds. `1.0` is an integer.
    pub(super) fn includes(self, value: &Value) -> bool {
        let kind = match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(it) if it.as_f64().is_some_and(|it| it.fract() == 0.0) => Self::INTEGER,
            Value::Number(_) => Self::FRACTION,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        };
        self.0 & kind.0 != 0
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self(Self::INTEGER.0 | Self::FRACTION.0),
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }
}

impl Plain<'_> {
    fn kind(&self) -> Kinds {
        match self {
            Self::Null => Kinds::NULL,
            Self::Bool(_) => Kinds::BOOLEAN,
            Self::Whole(_) => Kinds::INTEGER,
            Self::Fraction => Kinds::FRACTION,
            Self::Text(_) => Kinds::STRING,
        }
    }

    /// Returns `true` if it certainly equals the other value.
    fn is(&self, other: &Value) -> bool {
        match self {
            Self::Null => other.is_null(),
            Self::Bool(it) => other.as_bool() == Some(*it),
            Self::Whole(it) => whole(other) == Some(*it),
            Self::Fraction => false,
            Self::Text(it) => other.as_str() == Some(it),
        }
    }
}

/// Reads a value that matches, and fails at the first part that may not.
impl<'de> DeserializeSeed<'de> for &FastSchema {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        match self {
            // Looked at all the same: what is not JSON does not fit.
            FastSchema::Anything => value.deserialize_any(&ANYTHING),
            FastSchema::Rules(rules) => value.deserialize_any(&**rules),
            FastSchema::Unknown => fits_if(false),
        }
    }
}

fn fits_if<E: Error>(fits: bool) -> Result<(), E> {
    if fits { Ok(()) } else { Err(E::custom("")) }
}

impl<'de> Visitor<'de> for &Rules {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that matches the schema")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        fits_if(self.fits(&Plain::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        fits_if(self.fits(&Plain::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        fits_if(self.fits(&Plain::Whole(value.into())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        fits_if(self.fits(&Plain::Whole(value.into())))
    }

    fn visit_f64<E: Error>(self, _value: f64) -> Result<(), E> {
        fits_if(self.fits(&Plain::Fraction))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        fits_if(self.fits(&Plain::Text(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        fits_if(self.fits_made_of_others(Kinds::ARRAY))?;
        let shape = self.items.as_ref().unwrap_or(&FastSchema::Anything);
        while items.next_element_seed(shape)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        fits_if(self.fits_made_of_others(Kinds::OBJECT))?;
        let mut missing = self.required;
        while let Some(place) = members.next_key_seed(Place(self))? {
            fits_if(place.is_some() || !self.is_closed)?;
            missing &= !place.and_then(bit).unwrap_or_default();
            let shape = place.map_or(&FastSchema::Anything, |it| &self.members[it].shape);
            members.next_value_seed(shape)?;
        }
        fits_if(missing == 0)
    }
}

/// Finds the position of a member by its name.
struct Place<'a>(&'a Rules);

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Option<usize>, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Place<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.place(name))
    }
}

#[cfg(test)]
mod tests;
