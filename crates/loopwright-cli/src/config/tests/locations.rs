//! Where the files are looked for.

use super::*;

#[test]
fn the_project_file_is_found_above_the_directory_of_the_run() {
    let world = World::new().project("model = 'a/above'");
    assert_eq!(world.origin_of_the_model(), "a/above from the project file /repo/loopwright.toml");
}

#[test]
fn the_nearest_project_file_wins_and_the_others_are_not_read() {
    let world =
        World::new().project("not TOML").file("repo/sub/loopwright.toml", "model = 'a/near'");
    assert_eq!(
        world.origin_of_the_model(),
        "a/near from the project file /repo/sub/loopwright.toml"
    );
}

#[test]
fn the_search_ends_at_the_root_of_the_repository() {
    let world = World::new().file("loopwright.toml", "model = 'a/outside'");
    assert_eq!(world.origin_of_the_model(), "none");
}

#[test]
fn a_worktree_has_a_git_file_and_ends_the_search_too() {
    let world =
        World::new().project("model = 'a/outer'").file("repo/sub/.git", "gitdir: elsewhere");
    assert_eq!(world.origin_of_the_model(), "none");
}

#[test]
fn outside_of_a_repository_the_search_goes_on_upwards() {
    let world = World::new().file("loopwright.toml", "model = 'a/top'").file("plain/deep/er/x", "");
    let world = world.flags(|flags| flags.workdir = "../../plain/deep/er".into());
    assert_eq!(world.origin_of_the_model(), "a/top from the project file /loopwright.toml");
}

#[test]
fn the_search_begins_in_the_directory_of_the_run_and_not_in_the_current_one() {
    let world =
        World::new().project("model = 'a/here'").file("other/loopwright.toml", "model = 'a/there'");
    let world = world.flags(|flags| flags.workdir = "../../other".into());
    assert_eq!(world.origin_of_the_model(), "a/there from the project file /other/loopwright.toml");
    assert_eq!(world.config().workdir, world.path("other"));
}

#[cfg(unix)]
#[test]
fn parents_are_those_of_the_real_directory_and_not_of_a_link_to_it() {
    let world = World::new().project("model = 'a/real'").file("elsewhere/x", "");
    std::os::unix::fs::symlink(world.path("repo/sub"), world.path("elsewhere/link")).unwrap();
    let world = world.flags(|flags| flags.workdir = "../../elsewhere/link".into());
    assert_eq!(world.origin_of_the_model(), "a/real from the project file /repo/loopwright.toml");
}

#[test]
fn the_directory_of_the_run_must_be_a_directory() {
    let world = World::new().flags(|flags| flags.workdir = "missing".into());
    assert_eq!(
        world.error(),
        "cannot use /repo/sub/missing as the working directory; choose an existing directory with `--workdir`"
    );
    let world = world.file("repo/sub/missing", "a file");
    let error = world.load().unwrap_err();
    assert_eq!(world.shown(std::error::Error::source(&error).unwrap()), "not a directory");
}

#[test]
fn the_user_file_is_looked_for_where_xdg_says() {
    let world = World::new().user("not TOML").file("xdg/loopwright/config.toml", "model = 'a/xdg'");
    let xdg = world.path("xdg");
    let world = world.env("XDG_CONFIG_HOME", xdg);
    assert_eq!(world.origin_of_the_model(), "a/xdg from the user file /xdg/loopwright/config.toml");
}

#[test]
fn a_relative_xdg_directory_is_ignored_as_its_specification_demands() {
    let world = World::new().user("model = 'a/user'").env("XDG_CONFIG_HOME", "xdg");
    assert_eq!(
        world.origin_of_the_model(),
        "a/user from the user file /home/.config/loopwright/config.toml"
    );
}

#[test]
fn without_a_home_there_is_no_user_file() {
    let mut world = World::new().user("model = 'a/user'");
    world.sources.home = None;
    assert_eq!(world.origin_of_the_model(), "none");
}

#[test]
fn a_named_file_replaces_the_user_file() {
    let world = World::new().user("not TOML").file("repo/sub/mine.toml", "model = 'a/named'");
    let world = world.flags(|flags| flags.config = Some("mine.toml".into()));
    assert_eq!(world.origin_of_the_model(), "a/named from the user file /repo/sub/mine.toml");
}

#[test]
fn a_named_file_must_be_there() {
    let world = World::new().flags(|flags| flags.config = Some("mine.toml".into()));
    assert_eq!(world.error(), "/repo/sub/mine.toml does not exist; correct or omit `--config`");
}

#[test]
fn a_project_file_that_the_user_names_speaks_for_the_user() {
    let world = World::new().project("model = 'a/mine'\nbase_url = 'http://localhost'");
    let world = world.flags(|flags| flags.config = Some("../loopwright.toml".into()));
    assert_eq!(
        world.origin_of_the_model(),
        "a/mine from the user file /repo/sub/../loopwright.toml"
    );
}
