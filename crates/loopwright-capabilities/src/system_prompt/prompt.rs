//! The composition of the prompt.

use loopwright_core::{ToolDescriptor, ToolSet, ToolVisibility};

/// What the prompt is made of besides the tools.
#[derive(Clone, Debug, Default)]
pub(super) struct Recipe {
    pub(super) preamble: String,
    pub(super) guidelines: Vec<String>,
    pub(super) append: String,
}

const LOOK_WITH_TOOLS: &str =
    "To search and list files, prefer grep, search_files and list_dir to bash.";
const LOOK_WITH_BASH: &str = "Use bash to list and search files.";
const LOOKING: [&str; 3] = ["grep", "search_files", "list_dir"];
const ALWAYS: [&str; 3] = [
    "Be concise.",
    "Refer to files by their paths.",
    "Report truthfully what you did and found, including failures.",
];

impl Recipe {
    pub(super) fn write(&self, tools: &ToolSet) -> String {
        let blocks = [
            self.preamble.trim().to_owned(),
            list_of(tools),
            format!("Guidelines:\n{}", self.guidelines(tools)),
            self.append.trim().to_owned(),
        ];
        let blocks: Vec<String> = blocks.into_iter().filter(|it| !it.is_empty()).collect();
        blocks.join("\n\n")
    }

    fn guidelines(&self, tools: &ToolSet) -> String {
        let mut lines: Vec<&str> = Vec::new();
        let own = self.guidelines.iter().map(|it| it.trim()).filter(|it| !it.is_empty());
        for line in own.chain(looking(tools)).chain(ALWAYS) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let lines: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
        lines.join("\n")
    }
}

fn looking(tools: &ToolSet) -> Option<&'static str> {
    let has = |name: &str| tools.get(name).is_some();
    let has_better = LOOKING.into_iter().any(has);
    has("bash").then_some(if has_better { LOOK_WITH_TOOLS } else { LOOK_WITH_BASH })
}

/// Lists the tools that are in requests from the start.
fn list_of(tools: &ToolSet) -> String {
    let shown = tools.iter().filter(|it| it.options().visibility == ToolVisibility::Always);
    let lines = shown.map(|tool| format!("- {}: {}", tool.name(), snippet(tool.descriptor())));
    let lines: Vec<String> = lines.collect();
    let list = if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") };
    format!("Tools:\n{list}\nThere may be other tools besides these.")
}

/// Snippets longer than this are cut.
const SNIPPET_CHARS: usize = 160;

/// Returns the first sentence of the description, or its first line.
fn snippet(tool: ToolDescriptor<'_>) -> String {
    let line = tool.description().trim().lines().next().unwrap_or_default();
    let sentence = line.split_inclusive(". ").next().unwrap_or_default().trim();
    match sentence.char_indices().nth(SNIPPET_CHARS) {
        None => sentence.to_owned(),
        Some(_) => sentence.chars().take(SNIPPET_CHARS - 3).chain("...".chars()).collect(),
    }
}
