use super::*;

#[test]
fn a_policy_holds_what_it_was_given() {
    let seconds = Duration::from_secs;
    let output = OutputLimits { head: 1, tail: 2, kill: None };
    let environment = Environment::default().set("A", "a");
    let author = Author { name: Some("a".to_owned()), email: None };
    let policy = SandboxPolicy::in_dir("/w")
        .read("/r")
        .read_only()
        .write("/x")
        .hide(".env")
        .with_network(Network::Host)
        .with_environment(environment.clone())
        .with_env("B", "b")
        .with_timeout(seconds(1))
        .with_idle_timeout(seconds(2))
        .with_cpu(seconds(3))
        .with_grace(seconds(4))
        .with_memory(5)
        .with_processes(6)
        .with_file_size(7)
        .with_scratch(8)
        .with_open_files(9)
        .with_output(output)
        .with_backend(Backend::Landlock)
        .allow_weaker(Backend::Docker)
        .allow_weaker(Backend::Host)
        .with_cgroup(Cgroup::IfWritable)
        .with_broad_paths(BroadPaths::Allowed)
        .with_image("i")
        .with_direct_path("target")
        .with_cache("/c")
        .with_copied_cache(CopiedCache::new("/u", "/l"))
        .with_author(author.clone());
    let limits = Limits {
        timeout: seconds(1),
        idle_timeout: Some(seconds(2)),
        cpu: Some(seconds(3)),
        grace: seconds(4),
        memory: 5,
        processes: 6,
        file_size: 7,
        scratch: 8,
        open_files: 9,
    };
    let expect = SandboxPolicy {
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
        backend: BackendChoice::Only(Backend::Landlock),
        accepted: [Backend::Docker, Backend::Host].into(),
        cgroup: Cgroup::IfWritable,
        broad_paths: BroadPaths::Allowed,
        image: "i".to_owned(),
        staging: None,
        direct: vec!["target".into()],
        cache: Some("/c".into()),
        copied_caches: vec![CopiedCache::new("/u", "/l")],
        author: Some(author),
    };
    assert_eq!(policy, expect);
    let protected = policy.protect("more").protected;
    assert_eq!(protected.last(), Some(&"more".into()));
}

#[test]
fn every_tier_has_its_name() {
    let names = ["namespaces", "bubblewrap", "landlock", "docker", "podman", "host"];
    assert_eq!(Backend::ALL.map(Backend::name), names);
    assert_eq!(names.map(Backend::named), Backend::ALL.map(Some));
    assert_eq!(Backend::named("none"), None);
}

#[test]
fn changes_to_a_writable_folder_can_be_discarded() {
    let policy = || SandboxPolicy::in_dir("/w");
    let policies = [policy(), policy().discard_changes(), policy().read_only().discard_changes()];
    assert_eq!(policies.map(|it| it.discards_changes()), [false, true, false]);
}

#[test]
fn half_of_what_is_kept_is_the_beginning() {
    assert_eq!(
        OutputLimits::per_stream(5),
        OutputLimits { head: 2, tail: 3, ..OutputLimits::default() }
    );
}
