//! Tables of what nodes boot.

use host::size;

use crate::admin::api::{Boot, BootGroup, BootRoot, Image};
use crate::cli::table::aligned;

/// Columns of numbers: there are none.
const NONE: std::ops::RangeInclusive<usize> = usize::MAX..=usize::MAX;

pub(super) fn images(images: &[Image]) -> String {
    let mut rows = vec![["image", "booted by"].map(String::from).to_vec()];
    rows.extend(images.iter().map(|image| vec![image.name.clone(), image.booted_by.join(", ")]));
    aligned(&rows, NONE)
}

pub(super) fn groups_and_nodes(boot: &Boot) -> String {
    let mut out = String::new();
    if boot.groups.is_empty() {
        return "no nodes: heorot boot node add NAME MAC\n".into();
    }
    let mut rows = vec![["group", "root", "image", "before", "words"].map(String::from).to_vec()];
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    for group in &boot.groups {
        let BootGroup { name, words, image, previous, .. } = group;
        rows.push(vec![name.clone(), root(&group.root), text(image), text(previous), words.clone()]);
    }
    out += &aligned(&rows, NONE);
    let mut rows = vec![["node", "address", "group", "image", "before"].map(String::from).to_vec()];
    for node in &boot.nodes {
        let of_group = boot.groups.iter().find(|group| group.name == node.group);
        let of_group = of_group.map(|group| text(&group.image)).unwrap_or_default();
        let image = node.image.clone().map_or(of_group, |image| format!("{image} (its own)"));
        rows.push(vec![node.name.clone(), node.mac.clone(), node.group.clone(), image, text(&node.previous)]);
    }
    out.push('\n');
    out += &aligned(&rows, NONE);
    if boot.http_port == 0 {
        out += "\nNo metaserver answers machines that boot: heorot set boot_http_port 80\n";
    }
    out
}

fn root(root: &BootRoot) -> String {
    match root {
        BootRoot::Shared { memory_mib } => {
            format!("shared, {} of memory", size::show(u64::from(*memory_mib) << 20))
        }
        BootRoot::Clone => "a clone".into(),
        BootRoot::Own { directories } => format!("shared, own {}", directories.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::api::BootNode;

    #[test]
    fn the_tables_show_what_each_boots() {
        let group = |name: &str, root| BootGroup {
            name: name.into(),
            root,
            words: String::new(),
            image: Some("debian@2".into()),
            previous: Some("debian@1".into()),
        };
        let node = |name: &str, image: Option<&str>| BootNode {
            name: name.into(),
            mac: "02:00:00:00:00:01".into(),
            group: "blue".into(),
            image: image.map(Into::into),
            previous: None,
        };
        let boot = Boot {
            images: vec![],
            groups: vec![
                group("blue", BootRoot::Shared { memory_mib: 512 }),
                group("red", BootRoot::Own { directories: vec!["/etc".into(), "/var".into()] }),
            ],
            nodes: vec![node("elm", None), node("oak", Some("debian@3"))],
            addresses: vec![],
            http_port: 80,
            tftp_port: 0,
        };
        let expected = "\
group  root                       image     before    words
blue   shared, 512 MiB of memory  debian@2  debian@1
red    shared, own /etc,/var      debian@2  debian@1

node  address            group  image               before
elm   02:00:00:00:00:01  blue   debian@2
oak   02:00:00:00:00:01  blue   debian@3 (its own)
";
        assert_eq!(groups_and_nodes(&boot), expected);
        let image =
            Image { name: "debian@2".into(), created: 0, booted_by: vec!["blue".into(), "red".into()] };
        assert_eq!(images(&[image]), "image     booted by\ndebian@2  blue, red\n");
    }
}
