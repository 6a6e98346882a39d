use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A layer and the cache below it.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(world.path("cache")).unwrap();
        fs::create_dir_all(world.path("layer/upper")).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file when the clock of the file system has moved on.
    fn write(&self, name: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mark = self.path("mark");
        fs::write(&mark, "").unwrap();
        let before = changed(&fs::metadata(&mark).unwrap());
        while changed(&fs::metadata(&mark).unwrap()) <= before {
            fs::write(&mark, "").unwrap();
        }
        fs::write(path, name).unwrap();
    }

    fn layer(&self) -> Layer {
        let cache = CopiedCache::new(self.path("cache"), self.path("layer"));
        Layer::of(&cache, Some(self.path("cache")))
    }

    fn has(&self, name: &str) -> bool {
        self.path("layer/upper").join(name).exists()
    }
}

#[test]
fn what_the_user_has_changed_since_then_is_not_hidden() {
    let world = World::new();
    world.write("cache/a/old");
    world.write("layer/upper/a/old");
    world.write("layer/upper/a/own");
    world.write("layer/upper/a/new");
    world.write("cache/a/new");
    drop_outdated(&world.path("layer/upper"), &world.path("cache"), 0).unwrap();
    assert_eq!(["a/old", "a/own", "a/new"].map(|it| world.has(it)), [true, true, false]);
}

#[test]
fn a_folder_in_place_of_one_that_the_user_has_changed_since_then_is_removed_whole() {
    let world = World::new();
    world.write("layer/upper/a/file");
    rustix::fs::lsetxattr(
        world.path("layer/upper/a"),
        OPAQUE,
        b"y",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    world.write("cache/a/other");
    drop_outdated(&world.path("layer/upper"), &world.path("cache"), 0).unwrap();
    assert!(!world.has("a"));
}

#[test]
fn a_layer_belongs_to_one_cache() {
    let world = World::new();
    let layer = world.layer();
    renew(&layer, 0).unwrap();
    world.write("layer/upper/a");
    renew(&layer, 0).unwrap();
    assert!(world.has("a"));
    fs::rename(world.path("cache"), world.path("former")).unwrap();
    fs::create_dir(world.path("cache")).unwrap();
    renew(&layer, 0).unwrap();
    assert!(!world.has("a"));
}

#[test]
fn the_size_of_a_layer_is_determined_once_a_day() {
    let world = World::new();
    fs::write(world.path("layer/upper/a"), [1; 10_000]).unwrap();
    let is_too_large = |most| is_too_large(&world.path("layer"), &world.path("layer/upper"), most);
    assert!(!is_too_large(1 << 20));
    assert!(!is_too_large(1000));
    fs::remove_file(world.path("layer/measured")).unwrap();
    assert!(is_too_large(1000));
}

#[test]
fn empty_files_and_deep_folders_count_for_the_size_of_a_layer() {
    let world = World::new();
    let upper = world.path("layer/upper");
    for name in 0..10 {
        fs::write(upper.join(name.to_string()), "").unwrap();
    }
    assert_eq!(size(&upper, 0), Some(10 * MIN_ENTRY));
    let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH).collect();
    fs::create_dir_all(upper.join(&deep)).unwrap();
    assert!(size(&upper, 0).is_some());
    fs::create_dir(upper.join(deep).join("d")).unwrap();
    assert_eq!(size(&upper, 0), None);
}

#[test]
fn the_changes_of_each_command_are_kept_when_it_ends() {
    let world = World::new();
    let start = || {
        let mut layer = world.layer();
        let held = layer.open().unwrap();
        let upper = world.path("layer").join(&layer.run).join("upper");
        (Layers(vec![(layer, held)]), upper)
    };
    let ((first, in_first), (second, in_second)) = (start(), start());
    let runs = || {
        let names = fs::read_dir(world.path("layer")).unwrap().flatten().map(|it| it.file_name());
        names.filter(|it| it.to_string_lossy().starts_with(RUN)).count()
    };
    fs::create_dir_all(in_first.join("a/b")).unwrap();
    fs::write(in_first.join("a/b/file"), "first").unwrap();
    fs::write(in_first.join("a/other"), "first").unwrap();
    fs::create_dir_all(in_second.join("a")).unwrap();
    fs::write(in_second.join("a/b"), "second").unwrap();
    // As Go protects its modules.
    fs::set_permissions(in_second.join("a"), fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!((runs(), world.has("a")), (2, false));
    drop(first);
    assert_eq!(fs::read_to_string(world.path("layer/upper/a/b/file")).unwrap(), "first");
    drop(second);
    assert_eq!(fs::read_to_string(world.path("layer/upper/a/b")).unwrap(), "second");
    assert_eq!((runs(), world.has("a/other")), (0, true));
}

#[test]
fn a_protected_folder_keeps_its_mode_when_it_moves() {
    let world = World::new();
    let mut layer = world.layer();
    let held = layer.open().unwrap();
    let module = world.path("layer").join(&layer.run).join("upper/module");
    fs::create_dir(&module).unwrap();
    fs::set_permissions(&module, fs::Permissions::from_mode(0o555)).unwrap();
    drop(Layers(vec![(layer, held)]));
    let kept = fs::metadata(world.path("layer/upper/module")).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o555);
}
