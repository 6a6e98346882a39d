//! Labels of jobs and workers.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// The most characters of a label.
const MAX_LENGTH: usize = 63;

/// A label, such as `gpu` or `zone=eu`: letters, digits and `-_./=`, the first one a letter or digit, at most 63.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobLabel(Arc<str>);

/// A text that is not a label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid label `{0}`; use at most {MAX_LENGTH} letters, digits and `-_./=`, starting with a letter or digit"
)]
pub struct InvalidJobLabel(String);

/// A set of labels: what a job needs, or what a worker has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobLabels(BTreeSet<JobLabel>);

impl JobLabel {
    /// Returns the label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JobLabel {
    type Err = InvalidJobLabel;

    fn from_str(text: &str) -> Result<Self, InvalidJobLabel> {
        let starts = text.starts_with(|it: char| it.is_ascii_alphanumeric());
        let is_valid = |it: char| it.is_ascii_alphanumeric() || "-_./=".contains(it);
        if starts && text.len() <= MAX_LENGTH && text.chars().all(is_valid) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidJobLabel(text.to_owned()))
        }
    }
}

impl TryFrom<String> for JobLabel {
    type Error = InvalidJobLabel;

    fn try_from(text: String) -> Result<Self, InvalidJobLabel> {
        text.parse()
    }
}

impl From<JobLabel> for String {
    fn from(label: JobLabel) -> Self {
        label.0.as_ref().to_owned()
    }
}

impl fmt::Display for JobLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JobLabels {
    /// The empty set.
    pub const EMPTY: &'static Self = &Self(BTreeSet::new());

    /// Returns `true` if the set has no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a worker with these labels can run a job with those needs.
    pub fn covers(&self, needs: &Self) -> bool {
        needs.0.is_subset(&self.0)
    }

    /// Returns the labels in order.
    pub fn iter(&self) -> impl Iterator<Item = &JobLabel> {
        self.0.iter()
    }
}

impl FromIterator<JobLabel> for JobLabels {
    fn from_iter<I: IntoIterator<Item = JobLabel>>(labels: I) -> Self {
        Self(labels.into_iter().collect())
    }
}

/// Formats the labels in order, with commas.
impl fmt::Display for JobLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, label) in self.iter().enumerate() {
            write!(f, "{}{label}", if position > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// Parses labels with commas between them; an empty text is the empty set.
impl FromStr for JobLabels {
    type Err = InvalidJobLabel;

    fn from_str(text: &str) -> Result<Self, InvalidJobLabel> {
        text.split(',').filter(|it| !it.is_empty()).map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> JobLabels {
        text.parse().unwrap()
    }

    #[test]
    fn labels_have_one_text_whatever_their_order() {
        let texts = ["zone=eu,gpu", "gpu,zone=eu", "", "gpu,gpu"].map(|it| labels(it).to_string());
        assert_eq!(texts, ["gpu,zone=eu", "gpu,zone=eu", "", "gpu"]);
        assert_eq!(serde_json::to_string(&labels("b,a")).unwrap(), r#"["a","b"]"#);
    }

    #[test]
    fn a_text_with_blanks_or_commas_is_not_a_label() {
        for text in ["", "-gpu", "a b", "a,b", "ä", &"x".repeat(MAX_LENGTH + 1)] {
            assert_eq!(text.parse::<JobLabel>(), Err(InvalidJobLabel(text.to_owned())));
        }
        assert!(serde_json::from_str::<JobLabels>(r#"["a b"]"#).is_err());
    }

    #[test]
    fn a_worker_covers_needs_if_it_has_every_label() {
        let worker = labels("gpu,zone=eu");
        let covered =
            ["", "gpu", "gpu,zone=eu", "zone=us", "gpu,cuda"].map(|it| worker.covers(&labels(it)));
        assert_eq!(covered, [true, true, true, false, false]);
        assert!(JobLabels::EMPTY.covers(&labels("")) && !JobLabels::EMPTY.covers(&labels("gpu")));
    }
}
