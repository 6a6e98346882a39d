//! Lists of names.

use serde::{Deserialize, Serialize};

/// Names in order, without duplicates and empty names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct NameList(Vec<String>);

impl NameList {
    /// Returns the names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns `true` if a name is in the list.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|it| it == name)
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<S: Into<String>> FromIterator<S> for NameList {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut list: Vec<String> = Vec::new();
        for name in names {
            let name: String = name.into().trim().to_owned();
            if !name.is_empty() && !list.contains(&name) {
                list.push(name);
            }
        }
        Self(list)
    }
}

impl From<Vec<String>> for NameList {
    fn from(names: Vec<String>) -> Self {
        names.into_iter().collect()
    }
}

impl From<NameList> for Vec<String> {
    fn from(names: NameList) -> Self {
        names.0
    }
}
