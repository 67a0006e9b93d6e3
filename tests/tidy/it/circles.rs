//! The files of a crate form no circle.
//!
//! - A circle is reported with the edges that make it: file, line, name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::graph::{Disk, File, Graph, read_target};
use crate::workspace::packages;

/// Number of files in circles, and the edges to cut.
fn describe(graph: &Graph) -> Result<(usize, String), std::fmt::Error> {
    let mut text = String::new();
    let mut files = 0;
    for members in graph.cyclic_parts() {
        files += members.len();
        let part = within(graph, &members);
        writeln!(text, "  {} files in circles:", members.len())?;
        if let Some(circle) = part.shortest_circle() {
            writeln!(text, "    the shortest circle:")?;
            for pair in circle.windows(2) {
                if let [from, to] = pair {
                    writeln!(text, "      {}", part.describe(*from, *to))?;
                }
            }
        }
        writeln!(text, "    without these edges there is none:")?;
        for (from, to) in edges_to_cut(&part) {
            writeln!(text, "      {}", part.describe(from, to))?;
        }
    }
    Ok((files, text))
}

/// The graph of some files only.
fn within(graph: &Graph, files: &std::collections::BTreeSet<File>) -> Graph {
    let mut part = Graph {
        files: graph.files.clone(),
        edges: BTreeMap::new(),
    };
    for (from, edges) in graph.edges.iter().filter(|(from, _)| files.contains(from)) {
        let kept = edges.iter().filter(|(to, _)| files.contains(to));
        let kept = kept.map(|(to, edge)| (*to, edge.clone())).collect();
        part.edges.insert(*from, kept);
    }
    part
}

/// Finds few edges without which no circle is left.
fn edges_to_cut(graph: &Graph) -> Vec<(File, File)> {
    let mut rest = within(graph, &graph.edges.keys().copied().collect());
    let mut cut = Vec::new();
    while let Some((from, to)) = weakest(&rest) {
        cut.extend(rest.remove(from, to).map(|edge| (from, to, edge)));
    }
    // An edge that closes no circle after all may stay.
    let mut needed = Vec::new();
    for (from, to, edge) in cut {
        rest.edges.entry(from).or_default().insert(to, edge);
        if rest.shortest_circle().is_some() {
            rest.remove(from, to);
            needed.push((from, to));
        }
    }
    needed
}

/// The edge of the shortest circle with the fewest names.
fn weakest(graph: &Graph) -> Option<(File, File)> {
    let circle = graph.shortest_circle()?;
    let pairs = circle.windows(2).filter_map(|pair| match pair {
        [from, to] => Some((*from, *to)),
        _ => None,
    });
    pairs.min_by_key(|(from, to)| {
        let edge = graph.edges.get(from).and_then(|edges| edges.get(to));
        edge.map_or(0, |edge| edge.names.len())
    })
}

#[test]
fn files_form_no_circle() -> crate::Outcome {
    let mut wrong = String::new();
    for package in packages()? {
        for target in &package.targets {
            let (files, text) = describe(&read_target(&Disk, target)?)?;
            if files > 0 {
                writeln!(wrong, "{}: {files} files in circles\n{text}", package.name)?;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    Ok(())
}

/// A crate made of texts.
struct Fixture(&'static [(&'static str, &'static str)]);

impl crate::graph::Source for Fixture {
    fn read(&self, path: &Path) -> Result<String, String> {
        let file = self.0.iter().find(|(name, _)| Path::new(name) == path);
        file.map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| path.display().to_string())
    }

    fn beside(&self, path: &Path) -> Vec<PathBuf> {
        let paths = self.0.iter().map(|(name, _)| PathBuf::from(name));
        paths.filter(|other| other != path).collect()
    }
}

#[cfg(test)]
fn said_of(
    files: &'static [(&'static str, &'static str)],
) -> Result<String, Box<dyn std::error::Error>> {
    Ok(describe(&read_target(&Fixture(files), Path::new("lib.rs"))?)?.1)
}

#[test]
fn a_circle_is_said_with_both_files_and_names() -> crate::Outcome {
    let said = said_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::Wheel;\npub struct Car(Wheel);"),
        ("b.rs", "\npub struct Wheel { of: Option<super::a::Car> }"),
    ])?;
    assert!(said.contains("a.rs:1 names Wheel of b.rs"), "{said}");
    assert!(said.contains("b.rs:2 names Car of a.rs"), "{said}");
    Ok(())
}

#[test]
fn a_parent_that_uses_its_child_and_is_used_by_it_is_a_circle() -> crate::Outcome {
    let said = said_of(&[
        ("lib.rs", "mod a;"),
        (
            "a/mod.rs",
            "mod b;\npub struct Shared;\npub fn run() { b::go(); }",
        ),
        ("a/b.rs", "pub fn go() -> super::Shared { todo!() }"),
    ])?;
    assert!(said.contains("a/mod.rs:3 names go of a/b.rs"), "{said}");
    Ok(())
}

#[test]
fn a_name_in_a_macro_ties() -> crate::Outcome {
    let said = said_of(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub fn one() { println!(\"{}\", crate::b::two()); }",
        ),
        (
            "b.rs",
            "use crate::a::one;\npub fn two() -> u8 { one(); 2 }",
        ),
    ])?;
    assert!(said.contains("a.rs:1 names two of b.rs"), "{said}");
    Ok(())
}

#[test]
fn re_export_leads_to_defining_file_and_ties_nothing() -> crate::Outcome {
    let said = said_of(&[
        ("lib.rs", "mod a; mod b;\npub use a::Front;"),
        (
            "a/mod.rs",
            "mod c;\npub use c::Front;\npub use crate::b::Deep;",
        ),
        ("a/c.rs", "pub struct Front;"),
        (
            "b.rs",
            "use crate::a::Front;\npub struct Deep(Front, crate::Front);",
        ),
    ])?;
    assert_eq!(said, "");
    Ok(())
}

#[test]
fn test_code_ties_nothing() -> crate::Outcome {
    let said = said_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::Wheel;\npub struct Car(Wheel);"),
        (
            "b.rs",
            "pub struct Wheel;\n#[cfg(test)]\nmod tests { use crate::a::Car; }\n\
             #[cfg(test)]\nuse crate::a::Car;\n",
        ),
    ])?;
    assert_eq!(said, "");
    Ok(())
}

#[test]
fn children_listed_by_a_build_script_are_read() -> crate::Outcome {
    let said = said_of(&[
        (
            "lib.rs",
            "pub struct All;\nfn run() { x::go(); }\ninclude!(concat!(env!(\"OUT_DIR\"), \"/x.rs\"));",
        ),
        ("x.rs", "use super::All;\npub fn go() {}"),
    ])?;
    assert!(said.contains("x.rs:1 names All of lib.rs"), "{said}");
    Ok(())
}
