//! Plots: curves over two axes, as SVG, on a page or in a file, and as PNG.
//!
//! In: points in the units of the data, and texts. Out: text or bytes. It does the layout only. Colours are
//! classes, `c0` to `c7`, so that a page, or a dark viewer, can give them other values.

mod axis;
mod png;
mod svg;

pub use axis::{Axis, Tick};
pub use png::png;
pub use svg::{CSS_DARK, CSS_LIGHT, figure, file};

/// Number of colours.
pub const COLOURS: usize = 8;

/// Plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Title in one line.
    pub title: String,
    /// Subtitle with the constant parameters; may be empty.
    pub subtitle: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves from back to front.
    pub curves: Vec<Curve>,
    /// Legend above the axes, from left to right.
    pub legend: Vec<Key>,
}

/// Curve whose pieces may differ in colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Pieces in order.
    pub pieces: Vec<Piece>,
    /// Points with a mark.
    pub marks: Vec<Mark>,
    /// Solid or dashed.
    pub line: Line,
    /// Label at the right end.
    pub label: Option<String>,
}

/// Piece of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Colour, below [`COLOURS`].
    pub colour: usize,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Point with a mark.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Colour, below [`COLOURS`].
    pub colour: usize,
    /// Position.
    pub at: (f64, f64),
    /// Tooltip.
    pub says: String,
}

/// Style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Solid.
    Solid,
    /// Dashed, for bounds.
    Dashed,
}

/// Entry of the legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Colour, below [`COLOURS`].
    pub colour: usize,
    /// Style as in the plot.
    pub line: Line,
    /// Meaning.
    pub text: String,
}
