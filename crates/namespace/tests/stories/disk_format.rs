//! The bytes of docs/disk-format.md: what was written once must be read for ever.

use crate::world::*;

const DOCUMENT: &str = include_str!("../../../../docs/disk-format.md");

/// Each line of the example: the digits of a key and its value. A line that begins with spaces goes on.
fn example() -> Vec<String> {
    let begin = DOCUMENT.find("A store with one file").expect("the document has the example");
    let block = DOCUMENT[begin..].split("```\n").nth(1).expect("it is a block of its own");
    let mut lines: Vec<String> = vec![];
    for line in block.lines() {
        let digits: String = line.split_whitespace().collect();
        match lines.last_mut() {
            Some(last) if line.starts_with(' ') => last.push_str(&digits),
            _ => lines.push(digits),
        }
    }
    lines
}

#[test]
fn a_store_with_one_file_is_the_bytes_of_the_document() {
    let mut w = World::new();
    w.small_file("/f");
    w.write_small("/f", 0, "hi").unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found: Vec<String> =
        w.dump().iter().map(|(key, value)| format!("{}{}", hex(key), hex(value))).collect();
    assert_eq!(found, example());
}
