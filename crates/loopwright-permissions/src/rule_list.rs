//! Texts with several rules, as people write them in options and settings.

use crate::command::CommandPattern;
use crate::rule::{Rule, parse, separated, split};
use crate::tools::{self, ToolKind};

impl Rule {
    /// Separates a list of rules: by commas or `|` outside of parentheses, or by blanks if all names are known. Any other text is
    /// returned as it is.
    ///
    /// ```
    /// use loopwright_permissions::Rule;
    ///
    /// assert_eq!(Rule::list("Bash(git log:*),Edit"), ["Bash(git log:*)", "Edit"]);
    /// assert_eq!(Rule::list("Read Edit"), ["Read", "Edit"]);
    /// assert_eq!(Rule::list("Bash(echo a, b)"), ["Bash(echo a, b)"]);
    /// ```
    pub fn list(text: &str) -> Vec<&str> {
        let text = text.trim();
        let is_list = |rules: &[&str], is_known: fn(&str) -> bool| {
            rules.len() > 1
                && rules.iter().all(|rule| parse(rule).is_ok_and(|it| is_known(it.tool)))
        };
        let is_command = parse(text).is_ok_and(|it| {
            let specifier = it.specifier.filter(|_| ToolKind::of(it.tool) == ToolKind::Command);
            specifier.is_some_and(|it| CommandPattern::new(it).is_ok())
        });
        if !is_command {
            let rules: Vec<&str> = separated(text, |c| ",|".contains(c)).collect();
            if is_list(&rules, |_| true) {
                return rules;
            }
            let rules: Vec<&str> = split(text).collect();
            if is_list(&rules, tools::is_known) {
                return rules;
            }
        }
        vec![text]
    }
}
