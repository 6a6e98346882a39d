use super::*;

/// A folder with a home beside it.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for folder in ["home", "project/.git"] {
            fs::create_dir_all(world.path(folder)).unwrap();
        }
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(name)
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn link(self, name: &str, target: &str) -> Self {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
        self
    }

    fn named_in(&self, root: &str) -> Vec<(String, Place)> {
        let home = self.path("home");
        let mut user = UserSettings::by(&|name| (name == "HOME").then(|| home.clone()));
        // Those of the machine are not part of the test.
        user.git.retain(|it| it.starts_with(&home));
        let named = of(&self.path(root), &user);
        named.into_iter().map(|it| (it.path.to_str().unwrap().to_owned(), it.place)).collect()
    }

    #[track_caller]
    fn names(&self, expect: &[(&str, Place)]) {
        let found = self.named_in("project");
        let expect: Vec<_> =
            expect.iter().map(|(path, place)| ((*path).to_owned(), *place)).collect();
        assert_eq!(found, expect);
    }
}

use Place::{Anywhere, Here, Searched};

#[test]
fn programs_in_the_settings_of_the_user_count_at_any_depth() {
    let world = World::new().file(
        "home/.gitconfig",
        "[core]\n\tfsmonitor = ./run.sh\n\thooksPath = hooks\n\tpager = less\n[alias]\n\tst = !tools/st --all\n\tdf = !git diff src/main\n",
    );
    world.names(&[
        ("run.sh", Anywhere),
        ("run.sh", Here),
        ("hooks", Anywhere),
        ("hooks", Here),
        ("tools/st", Anywhere),
        ("tools/st", Here),
        ("src/main", Here),
    ]);
}

#[test]
fn programs_in_the_settings_of_a_repository_count_from_its_top() {
    let world = World::new()
        .file(
            "project/.git/config",
            "[diff]\n\texternal = ./x\n[filter \"f\"]\n\tclean = \"python3 c.py\"\n",
        )
        .file("project/c.py", "");
    world.names(&[("x", Here), ("c.py", Here)]);
    let world = world.file("project/.git/config", "[core]\n\tsshCommand = ./sub/x\n");
    fs::create_dir(world.path("project/sub")).unwrap();
    assert_eq!(world.named_in("project/sub"), [("x".to_owned(), Here)]);
}

#[test]
fn settings_that_name_data_or_programs_elsewhere_name_nothing() {
    let world = World::new()
        .file(
            "home/.gitconfig",
            "[core]\n\texcludesFile = ./ignore\n\tpager = less -R\n\teditor = vim\n[alias]\n\tdc = diff docs/a\n\
             \tad = !git add src/ && git add lib\n[blame]\n\tignoreRevsFile = ./revs\n[core]\n\tfsmonitor = true\n\
             \tsshCommand = /opt/ssh -o x=y\n[remote \"o\"]\n\turl = ../other\n",
        )
        .file("project/lib/a", "")
        .file("project/less", "");
    world.names(&[]);
}

#[test]
fn absolute_paths_count_if_they_are_in_the_folder() {
    let world = World::new();
    let inside = world.path("project/tool").display().to_string();
    let world = world
        .file(
            "home/.gitconfig",
            &format!("[gpg]\n\tprogram = {inside}\n[sequence]\n\teditor = /usr/bin/x\n"),
        )
        .file("home/.config/git/config", "[include]\n\tpath = ~/../project/more\n")
        .file("project/more", "[core]\n\taskPass = ./ask\n");
    world.names(&[("more", Here), ("ask", Anywhere), ("ask", Here), ("tool", Here)]);
}

#[test]
fn a_link_is_named_with_what_it_leads_to() {
    let world = World::new()
        .file("project/.git/config", "[core]\n\tfsmonitor = ./run\n")
        .file("project/real.sh", "")
        .link("project/run", "real.sh");
    world.names(&[("run", Here), ("real.sh", Here)]);
}

#[test]
fn hooks_that_are_links_into_the_folder_are_named() {
    let world = World::new()
        .file("project/scripts/check", "")
        .link("project/.git/hooks/pre-commit", "../../scripts/check")
        .file("project/.git/hooks/post-commit", "");
    world.names(&[("scripts/check", Here)]);
    let world = World::new().link("project/.git/hooks", "../ci");
    world.names(&[("ci", Here)]);
}

#[test]
fn a_worktree_has_the_settings_of_its_repository() {
    let world = World::new()
        .file("tree/.git", "gitdir: ../project/.git/worktrees/tree\n")
        .file("project/.git/worktrees/tree/commondir", "../..\n")
        .file("project/.git/worktrees/tree/config.worktree", "[core]\n\teditor = ./e\n")
        .file("project/.git/config", "[core]\n\tfsmonitor = ./f\n");
    assert_eq!(world.named_in("tree"), ["f", "e"].map(|it| (it.to_owned(), Here)));
}

#[test]
fn files_that_an_envrc_loads_are_named() {
    let world = World::new().file(
        "project/.envrc",
        "export A=1\ndotenv\n  dotenv_if_exists .env.local # why\nsource_env conf/env\n. ./more.sh\nwatch_file x/y\n",
    );
    let expect = [".env", ".env.local", "conf/env", "more.sh"];
    world.names(&expect.map(|it| (it, Here)));
}

#[test]
fn a_dotenv_file_is_named_if_direnv_loads_it_without_an_envrc() {
    World::new().file("project/.env", "A=1").names(&[]);
    let world = World::new();
    let world = world.file("home/.config/direnv/direnv.toml", "[global]\nload_dotenv = true\n");
    world.names(&[(".env", Anywhere)]);
}

#[test]
fn what_an_envrc_evaluates_and_where_it_looks_for_programs_is_named() {
    let world = World::new().file(
        "project/.envrc",
        "use flake ./nix#x\nuse_nix\nPATH_add bin tools/bin # why\nexport PATH=\"$PWD/scripts:$PATH\"\nlayout python\n",
    );
    world.names(&[
        ("flake.nix", Here),
        ("flake.lock", Here),
        ("nix", Here),
        ("nix/flake.nix", Here),
        ("nix/flake.lock", Here),
        ("shell.nix", Here),
        ("default.nix", Here),
        ("bin", Searched),
        ("tools/bin", Searched),
        ("scripts", Searched),
    ]);
}
