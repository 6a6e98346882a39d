use super::*;

#[test]
fn a_policy_holds_what_it_was_given() {
    let seconds = Duration::from_secs;
    let output = OutputCaps { head: 1, tail: 2, kill: None };
    let environment = Environment::default().set("A", "a");
    let author = Author { name: Some("a".to_owned()), email: None };
    let policy = Policy::in_dir("/w")
        .read("/r")
        .read_only()
        .write("/x")
        .hide(".env")
        .network(Network::Host)
        .environment(environment.clone())
        .env("B", "b")
        .wall(seconds(1))
        .idle(seconds(2))
        .cpu(seconds(3))
        .grace(seconds(4))
        .memory(5)
        .processes(6)
        .file_size(7)
        .scratch(8)
        .open_files(9)
        .output(output)
        .driver(Tier::Landlock)
        .accept(Tier::Docker)
        .accept(Tier::Host)
        .cgroup(Cgroup::IfWritable)
        .broad(Broad::Allowed)
        .image("i")
        .direct("target")
        .cache("/c")
        .author(author.clone());
    let limits = Limits {
        wall: seconds(1),
        idle: Some(seconds(2)),
        cpu: Some(seconds(3)),
        grace: seconds(4),
        memory: 5,
        processes: 6,
        file_size: 7,
        scratch: 8,
        open_files: 9,
    };
    let expect = Policy {
        workdir: "/w".into(),
        workdir_access: WorkdirAccess::ReadOnly,
        read_paths: vec!["/r".into()],
        write_paths: vec!["/x".into()],
        protected: PROTECTED_PATHS.iter().map(PathBuf::from).collect(),
        hidden: vec![".env".into()],
        network: Network::Host,
        environment: environment.set("B", "b"),
        limits,
        output,
        driver: DriverChoice::Only(Tier::Landlock),
        accepted: [Tier::Docker, Tier::Host].into(),
        cgroup: Cgroup::IfWritable,
        broad: Broad::Allowed,
        image: "i".to_owned(),
        staging: None,
        direct: vec!["target".into()],
        cache: Some("/c".into()),
        author: Some(author),
    };
    assert_eq!(policy, expect);
    let protected = policy.protect("more").protected;
    assert_eq!(protected.last(), Some(&"more".into()));
}

#[test]
fn every_tier_has_its_name() {
    let names = ["namespaces", "bubblewrap", "landlock", "docker", "podman", "host"];
    assert_eq!(Tier::ALL.map(Tier::name), names);
    assert_eq!(names.map(Tier::named), Tier::ALL.map(Some));
    assert_eq!(Tier::named("none"), None);
}

#[test]
fn half_of_what_is_kept_is_the_beginning() {
    assert_eq!(OutputCaps::keeping(5), OutputCaps { head: 2, tail: 3, ..OutputCaps::default() });
}
