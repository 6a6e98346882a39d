//! Files of a crate import each other in small cycles only.

mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use self::source::{Origin, Tree};
use crate::WORKSPACE;

/// The most files or modules that may import each other in a circle.
const MAX_CYCLE: usize = 5;

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn files_and_modules_of_a_crate_import_each_other_in_small_cycles_only() {
    let mut problems = Vec::new();
    let mut largest = 0;
    for (name, roots) in crates() {
        for files in roots.iter().map(|root| graph_of(root)) {
            let cycles = [cycles(&files), cycles(&first_level(&files))].concat();
            largest = cycles.iter().map(BTreeSet::len).fold(largest, usize::max);
            for cycle in cycles.iter().filter(|cycle| cycle.len() > MAX_CYCLE) {
                problems.push(format!("{name}: a cycle of {}: {cycle:#?}", cycle.len()));
            }
        }
    }
    println!("figure: files in the largest cycle of imports: {largest}");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn layers_of_the_core_use_only_layers_below() {
    let graph =
        first_level(&graph_of(&Path::new(WORKSPACE).join("crates/loopwright-core/src/lib.rs")));
    let layers = ["value", "state", "contract", "engine"];
    for (height, layer) in layers.iter().enumerate() {
        let above: Vec<&str> =
            layers[height + 1..].iter().copied().filter(|it| graph[*layer].contains(*it)).collect();
        assert_eq!(above, Vec::<&str>::new(), "`{layer}` uses a layer above");
    }
}

#[test]
fn an_import_is_an_edge_to_the_file_that_defines_the_item() {
    let graph = in_memory(&[
        ("lib.rs", "mod a; mod b; pub use crate::b::deep::Item;"),
        ("a.rs", "use crate::Item; #[cfg(test)] mod tests { use crate::b::Other; }"),
        ("b.rs", "pub mod deep; pub use self::deep::Item; pub struct Other;"),
        ("b/deep.rs", "pub struct Item; fn f() { json!(super::Other) }"),
    ]);
    let edges = |from: &str| graph[from].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(edges("lib.rs"), Vec::<&str>::new());
    assert_eq!(edges("a.rs"), ["b/deep.rs"]);
    assert_eq!(edges("b.rs"), Vec::<&str>::new());
    assert_eq!(edges("b/deep.rs"), ["b.rs"]);
}

#[test]
fn six_files_in_a_circle_are_a_cycle_and_a_chain_is_none() {
    let ring = |count: usize, closed: bool| -> Graph {
        (0..count)
            .map(|at| {
                let next = (at + 1 < count || closed).then(|| format!("{}", (at + 1) % count));
                (at.to_string(), next.into_iter().collect())
            })
            .collect()
    };
    assert_eq!(cycles(&ring(6, true)).iter().map(BTreeSet::len).collect::<Vec<_>>(), [6]);
    assert_eq!(cycles(&ring(6, false)), Vec::<BTreeSet<String>>::new());
}

/// Returns the crates with the files that they begin at.
fn crates() -> Vec<(String, Vec<PathBuf>)> {
    let folders = fs::read_dir(Path::new(WORKSPACE).join("crates")).unwrap();
    let mut crates: Vec<_> = folders
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let roots = ["src/lib.rs", "src/main.rs"].map(|root| entry.path().join(root));
            let name = entry.file_name().into_string().unwrap();
            (name, roots.into_iter().filter(|root| root.exists()).collect())
        })
        .collect();
    crates.sort();
    assert!(crates.len() > 10, "{}", crates.len());
    crates
}

fn graph_of(root: &Path) -> Graph {
    let folder = root.parent().unwrap();
    let name = root.file_name().unwrap().to_str().unwrap();
    graph(name, &|path| fs::read_to_string(folder.join(path)).ok())
}

fn in_memory(files: &[(&str, &str)]) -> Graph {
    let text = |path: &str| files.iter().find(|it| it.0 == path).map(|it| it.1.to_owned());
    graph(files[0].0, &text)
}

/// Makes the graph of files: an edge leads from a file to the file of an item that it uses.
fn graph(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Graph {
    let tree = Tree::read(root, read);
    let mut graph = Graph::new();
    for module in 0..tree.len() {
        let from = tree.file(module).to_owned();
        let edges = graph.entry(from.clone()).or_default();
        for path in tree.uses(module) {
            if let Some(Origin::Item(to)) = tree.resolve(module, &path)
                && to != from
            {
                edges.insert(to);
            }
        }
    }
    graph
}

/// Folds the files below a folder into the module that the folder belongs to.
fn first_level(graph: &Graph) -> Graph {
    let module = |file: &str| file.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
    let mut folded = Graph::new();
    for (from, to) in graph {
        let edges = folded.entry(module(from)).or_default();
        edges.extend(to.iter().map(|it| module(it)).filter(|it| *it != module(from)));
    }
    folded
}

/// Returns the sets of more than one node of which each reaches each.
fn cycles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|from| (from.as_str(), reachable(graph, from))).collect();
    let mut cycles: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (from, to) in &reached {
        let cycle: BTreeSet<String> = to
            .iter()
            .filter(|it| reached.get(*it).is_some_and(|back| back.contains(from)))
            .map(ToString::to_string)
            .collect();
        if cycle.len() > 1 {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

fn reachable<'a>(graph: &'a Graph, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(node) = open.pop() {
        let next = graph.get(node).into_iter().flatten().map(String::as_str);
        open.extend(next.filter(|it| found.insert(*it)));
    }
    found
}
