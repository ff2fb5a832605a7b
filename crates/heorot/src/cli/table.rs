//! Tables for terminals.

use std::ops::RangeInclusive;

/// Aligns rows: columns are as wide as their widest cell, with two blanks between; the columns of `numbers`
/// are aligned to the right.
pub(crate) fn aligned(rows: &[Vec<String>], numbers: RangeInclusive<usize>) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cell = |(column, text): (usize, &String)| match numbers.contains(&column) {
            true => format!("{text:>0$}", widths[column]),
            false => format!("{text:<0$}", widths[column]),
        };
        let cells: Vec<_> = row.iter().enumerate().map(cell).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}
