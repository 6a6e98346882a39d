//! Makes a module of each example program, whose `main` can be called from outside.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let made = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", examples.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&examples)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name =
                path.file_stem().and_then(|stem| stem.to_str()).ok_or("a name is not UTF-8")?;
            names.push(name.to_owned());
        }
    }
    names.sort();
    let mut modules = String::new();
    let mut arms = String::new();
    for name in &names {
        let source = fs::read_to_string(examples.join(format!("{name}.rs")))?;
        let module = made.join(format!("{name}.rs"));
        fs::write(&module, with_public_main(&source).ok_or(format!("{name} has no main"))?)?;
        let module = module.to_str().ok_or("the path of the build folder is not UTF-8")?;
        writeln!(modules, "#[path = {module:?}]\nmod {name};")?;
        writeln!(arms, "{name:?} => Some(Termination::report({name}::main())),")?;
    }
    let choice = format!(
        "#[expect(clippy::unit_arg, reason = \"some examples return nothing\")]\n\
         fn run(name: &str) -> Option<ExitCode> {{\nmatch name {{\n{arms}_ => None,\n}}\n}}\n"
    );
    fs::write(made.join("examples.rs"), modules + &choice)?;
    Ok(())
}

/// The program with a `main` that its parent module sees.
fn with_public_main(source: &str) -> Option<String> {
    ["\nfn main(", "\nasync fn main("].into_iter().find_map(|main| {
        let (before, after) = source.split_once(main)?;
        Some(format!("{before}\npub(super) {}{after}", &main[1..]))
    })
}
