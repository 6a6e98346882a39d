//! Instructions about the available skills.

use std::sync::Arc;

use crate::skills::skill::Skill;

const INTRODUCTION: &str = "Skills are instructions for one kind of work. If one of these fits \
    the task, call `load_skill` with its name before you start, and follow its instructions:";

/// Returns the catalogue, or `None` if there is nothing to choose from.
pub(super) fn catalogue(skills: &[Arc<Skill>]) -> Option<String> {
    let lines: Vec<String> = skills
        .iter()
        .filter(|it| !it.info.description.is_empty())
        .map(|it| it.info.to_line())
        .collect();
    (!lines.is_empty()).then(|| format!("{INTRODUCTION}\n{}", lines.join("\n")))
}
