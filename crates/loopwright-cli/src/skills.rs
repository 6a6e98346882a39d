//! `loopwright skills`.

use std::path::{Path, PathBuf};

use loopwright_capabilities::skills::{
    Skill, SkillAudience, SkillContext, SkillLibrary, SkillScope, SkillWarning,
};
use serde_json::{Value, json};

use crate::args::Cli;
use crate::args::agents::{ShowArgs, ValidateArgs};
use crate::args::skills::{SkillsArgs, SkillsCommand};
use crate::command_hooks::SkillHooks;
use crate::config::ConfigSources;
use crate::console;
use crate::definitions::{self, Defined};
use crate::exit::ExitCode;
use crate::project::{plain, shown};
use crate::render::{sanitize_terminal, single_line};
use crate::report::SCHEMA_VERSION;
use crate::table::table_with_head;

/// The most characters of a description in a list.
const DESCRIPTION: usize = 80;

/// Why a skill cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error("unknown skill `{name}`; available: {known}")]
struct Unknown {
    name: String,
    known: String,
}

/// Lists, shows or checks skills.
pub fn skills(cli: &Cli, args: &SkillsArgs) -> ExitCode {
    let (sources, _, _, defined) = match definitions::find(cli, &args.workdir) {
        Ok(found) => found,
        Err(error) => return console::fail(&error, error.exit_code()),
    };
    match &args.command {
        SkillsCommand::List(args) => list(&defined, &sources, args.json),
        SkillsCommand::Show(args) => show(&defined.skills, args),
        SkillsCommand::Validate(args) => validate(&defined, args),
    }
}

fn list(defined: &Defined, sources: &ConfigSources, is_json: bool) -> ExitCode {
    let all = defined.skills.list(SkillAudience::All);
    for warning in defined.skills.warnings().iter().filter(|it| it.problem.is_fatal()) {
        console::warn(warning);
    }
    if is_json {
        let skills: Vec<Value> = all.iter().map(|it| in_json(it)).collect();
        return console::print_json(&json!({ "schema_version": SCHEMA_VERSION, "skills": skills }));
    }
    if all.is_empty() {
        console::tell("no skills found; create one as .agents/skills/NAME/SKILL.md");
        return ExitCode::Done;
    }
    let row = |it: &Skill| {
        let path = it.directory.clone().unwrap_or_default();
        let path = shown(&path, &defined.root, sources.home.as_deref());
        let description = single_line(&it.info.description, DESCRIPTION);
        vec![single_line(it.name(), 64), single_line(&path, 200), description]
    };
    let head = ["NAME", "DIRECTORY", "DESCRIPTION"];
    console::print(table_with_head(head, all.iter().map(|it| row(it))).as_bytes())
}

fn show(library: &SkillLibrary, args: &ShowArgs) -> ExitCode {
    let Some(skill) = library.get(&args.name) else {
        let known = library.names(SkillAudience::All).join(", ");
        return console::fail(&Unknown { name: args.name.clone(), known }, ExitCode::Usage);
    };
    for warning in library.warnings().iter().filter(|it| is_in(it, skill.directory.as_deref())) {
        console::warn(warning);
    }
    if !args.json {
        return console::print(sanitize_terminal(&format!("{}\n", skill.render(None))).as_bytes());
    }
    let mut value = in_json(&skill);
    value["schema_version"] = SCHEMA_VERSION.into();
    value["body"] = skill.content().into();
    value["resources"] = json!(skill.resources);
    console::print_json(&value)
}

fn in_json(skill: &Skill) -> Value {
    let info = &skill.info;
    json!({
        "name": info.name, "description": info.description, "directory": skill.directory,
        "allowed_tools": info.allowed_tools, "model": info.model, "agent": info.agent,
        "model_invocable": info.model_invocable, "user_invocable": info.user_invocable,
        "forks": info.context == SkillContext::Fork,
    })
}

fn validate(defined: &Defined, args: &ValidateArgs) -> ExitCode {
    let (library, only) = if args.paths.is_empty() {
        (defined.skills.clone(), Vec::new())
    } else {
        named(&args.paths)
    };
    let is_asked = |path: &Path| only.is_empty() || only.iter().any(|it| path.starts_with(it));
    let skills = library.list(SkillAudience::All);
    // A command is a file, and no directory.
    let place = |it: &Skill| it.directory.clone().or_else(|| library.file(it.name()));
    let directories: Vec<PathBuf> = skills.iter().filter_map(|it| place(it)).collect();
    let directories: Vec<PathBuf> = directories.into_iter().filter(|it| is_asked(it)).collect();
    let mut problems = problems(&library);
    problems.retain(|it| is_asked(&it.path));
    let missing: Vec<&PathBuf> = only
        .iter()
        .filter(|it| !directories.iter().any(|found| found.starts_with(it)))
        .filter(|it| !problems.iter().any(|problem| problem.path.starts_with(it)))
        .collect();
    let is_fine = missing.is_empty() && !problems.iter().any(|it| it.kind == ERROR);
    let is_nothing = directories.is_empty() && missing.is_empty() && problems.is_empty();
    if is_nothing && !args.json {
        console::tell("no skills found; create one as .agents/skills/NAME/SKILL.md");
        return ExitCode::Done;
    }
    let told = if args.json {
        let problem =
            |it: &Problem| json!({ "path": it.path, "kind": it.kind, "message": it.message });
        let problems: Vec<Value> = problems.iter().map(problem).collect();
        console::print_json(&json!({
            "schema_version": SCHEMA_VERSION, "valid": is_fine, "skills": directories,
            "problems": problems, "missing": missing,
        }))
    } else {
        let fine = directories.iter().map(|it| format!("{}: ok", plain(it)));
        let none = missing.iter().map(|it| format!("{}: error: no SKILL.md found", plain(it)));
        let odd = problems.iter().map(|it| {
            let Problem { path, kind, message } = it;
            format!("{}: {kind}: {message}", plain(path))
        });
        let lines = fine.chain(none).chain(odd).map(|it| sanitize_terminal(&it) + "\n");
        console::print(lines.collect::<String>().as_bytes())
    };
    match told {
        ExitCode::Done if !is_fine => ExitCode::Config,
        told => told,
    }
}

/// A problem of a skill's file.
struct Problem {
    path: PathBuf,
    kind: &'static str,
    message: String,
}

/// The kind of problem because of which a skill is skipped.
const ERROR: &str = "error";

/// Returns the problems of skills, and those of their hooks.
fn problems(library: &SkillLibrary) -> Vec<Problem> {
    let of_files = library.warnings().into_iter().map(|it| Problem {
        kind: if it.problem.is_fatal() { ERROR } else { "warning" },
        message: it.problem.to_string(),
        path: it.path,
    });
    let of_hooks = SkillHooks::of(library).into_iter().flat_map(|found| {
        let place = format!("{}: ", found.file.display());
        found.warnings.into_iter().map(move |warning| Problem {
            message: warning.strip_prefix(&place).unwrap_or(&warning).to_owned(),
            kind: "warning",
            path: found.file.clone(),
        })
    });
    of_files.chain(of_hooks).collect()
}

/// Takes directories of skills by their own paths or by those of their files, and files of commands.
fn named(paths: &[PathBuf]) -> (SkillLibrary, Vec<PathBuf>) {
    let directory = |path: &PathBuf| {
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        if path.ends_with("SKILL.md") {
            path.parent().map_or(path.clone(), Path::to_owned)
        } else {
            path
        }
    };
    let only: Vec<PathBuf> = paths.iter().map(directory).collect();
    let places = only.iter().filter_map(|it| Some((it.is_file(), it.parent()?)));
    let library = places.fold(SkillLibrary::default().with_hooks(), |library, place| match place {
        (true, parent) => library.with_commands(SkillScope::Project, parent),
        (false, parent) => library.with_dir(SkillScope::Project, parent),
    });
    (library, only)
}

fn is_in(warning: &SkillWarning, directory: Option<&Path>) -> bool {
    directory.is_some_and(|it| warning.path.starts_with(it))
}
